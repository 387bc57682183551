//! Malformed HTTP on plain connections. Whatever it receives, the server answers or closes the
//! connection, continues to work, and touches nothing outside of its folder.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Running, start};

const SECRET: &str = "what-nobody-may-read";
const REQUESTS: usize = 4000;
const THREADS: usize = 16;

/// A deterministic pseudo-random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn one<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    /// Returns true with a probability of one in `n`.
    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

const METHODS: [&str; 12] = [
    "GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "TRACE", "get", "P\u{0}T", "",
    "CONNECT",
];

const TARGETS: [&str; 40] = [
    "/",
    "/a/_search",
    "/a/_search?q=word",
    "/a/_doc/1",
    "/a/_doc/new",
    "/_bulk",
    "/a/_bulk",
    "/_msearch",
    "/a/_count",
    "/_mget",
    "/a/_update/1",
    "/a/_delete_by_query",
    "/_search/scroll",
    "/_pit",
    "/a/_pit?keep_alive=1m",
    "/_aliases",
    "/v1/indexes",
    "/v1/indexes/a/search",
    "/v1/indexes/a/batch",
    "/v1/indexes/a/bulk",
    "/v1/indexes/a/ngram",
    "/v1/indexes/a/reload",
    "/v1/snapshots",
    "/v1/snapshots/..%2f..%2fsecret/restore",
    "/retrieve",
    "/mcp",
    "/metrics",
    "/../secret",
    "/%2e%2e/secret",
    "/..%2fsecret/_doc/1",
    "/%2e%2e%2f%2e%2e%2fsecret",
    "/ui/../../secret",
    "/ui/%2e%2e/%2e%2e/secret",
    "/a%00b/_search",
    "/a/_doc/%00%ff",
    "/\u{0}",
    "http://elsewhere/a/_search",
    "*",
    "a",
    "",
];

const HEADERS: [&str; 24] = [
    "content-type: application/json",
    "content-type: application/x-ndjson",
    "content-type: application/vnd.elasticsearch+json; compatible-with=99",
    "content-type: text/html",
    "content-type: \u{7f}",
    "content-encoding: gzip",
    "content-encoding: nothing",
    "accept-encoding: gzip;q=-1, *;q=nan",
    "transfer-encoding: chunked",
    "transfer-encoding: chunked, identity",
    "transfer-encoding: identity",
    "content-length: -1",
    "content-length: 18446744073709551616",
    "content-length: 5",
    "content-length: 5, 5",
    "expect: 100-continue",
    "connection: upgrade",
    "upgrade: h2c",
    "host: ..",
    "authorization: Basic \u{0}",
    "authorization: ApiKey ====",
    "x-opaque-id: a\r\n folded",
    "origin: null",
    "no colon",
];

const BODIES: [&str; 22] = [
    "",
    "{}",
    "{\"query\": {\"match\": {\"t\": \"word\"}}}",
    "{\"query\": {\"match\": {\"t\": \"word\"}}, \"query\": {\"match_all\": {}}, \"size\": 1, \"size\": 2}",
    "{\"query\": \"word\", \"k\": 1, \"k\": 99999999999999999999}",
    "{\"size\": 1e400, \"from\": -0.0}",
    "{\"t\": \"word\", \"t\": 7}",
    "{\"index\": {\"_id\": \"../../secret\", \"_index\": \"../secret\"}}\n{\"t\": 1}\n",
    "{\"index\": {\"_index\": \"a\", \"_index\": \"..\"}}\n{}\n",
    "{\"delete\": {\"_index\": \"a\", \"_id\": \"\\u0000\"}}\n",
    "{}\n{\"size\": 3}\n{\"index\": \"..\"}\n{}\n",
    "{\"scroll_id\": [\"..\", 7, null]}",
    "{\"pit\": {\"id\": \"../secret\"}}",
    "{\"name\": \"../secret\", \"indexes\": [\"..\"]}",
    "{\"actions\": [{\"add\": {\"index\": \"a\", \"alias\": \"../secret\"}}]}",
    "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"tools/call\", \"params\": {\"name\": \"get\", \"arguments\": {\"index\": \"..\", \"id\": \"secret\"}}}",
    "{\"queries\": [\"word\"], \"topk\": 1e30}",
    "{\"doc\": {\"a\": {\"b\": 1}}, \"doc_as_upsert\": true}",
    "{\"id\": \"x\", \"t\": \"word\"}\n{\"id\": 1e5}\nnull\n",
    "\u{feff}{}",
    "{\"t\": \"\\ud800\"}",
    "[[[[[[[[[[",
];

/// Returns the bytes of a request.
fn request(random: &mut Random) -> Vec<u8> {
    let mut head = format!("{} {} ", random.one(&METHODS), random.one(&TARGETS));
    head += random.one(&[
        "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/9", "",
    ]);
    head += random.one(&["\r\n", "\r\n", "\r\n", "\n"]);
    let mut body = random.one(&BODIES).as_bytes().to_vec();
    if random.once_in(8) {
        let open = random.one(&["[", "{\"a\":", "{\"query\":{\"bool\":{\"must\":"]);
        body = open.repeat(1 + random.below(30_000)).into_bytes();
    }
    // Most requests have a valid head, so that the code behind it is reached.
    if !random.once_in(4) {
        head += "host: localhost\r\nconnection: close\r\n";
    }
    for _ in 0..random.below(3) {
        head += random.one(&HEADERS);
        head += "\r\n";
    }
    if random.once_in(20) {
        let name = "x".repeat(1 + random.below(3));
        head += &format!("{name}: {}\r\n", "y".repeat(random.below(600_000)));
    }
    if random.once_in(30) {
        (0..random.below(300)).for_each(|i| head += &format!("h{i}: v\r\n"));
    }
    match random.below(6) {
        0 => {
            head += "transfer-encoding: chunked\r\n";
            let size = random.one(&[
                "ffffffffffffffff",
                "-1",
                "zz",
                "5",
                "0",
                "8000000000000000",
                "1;ext=\u{0}",
            ]);
            let mut chunks = match random.once_in(2) {
                true => format!("{:x}\r\n", body.len()).into_bytes(),
                false => format!("{size}\r\n").into_bytes(),
            };
            chunks.extend(body);
            chunks.extend_from_slice(
                random.one(&["\r\n0\r\n\r\n", "\r\n", "0\r\n\r\n", ""]).as_bytes(),
            );
            body = chunks;
        }
        1 => head += &format!("content-length: {}\r\n", body.len() + 1 + random.below(1000)),
        2 => head += &format!("content-length: {}\r\n", body.len().saturating_sub(1)),
        _ => head += &format!("content-length: {}\r\n", body.len()),
    }
    let mut bytes = [head.as_bytes(), b"\r\n", &body].concat();
    for _ in 0..random.below(40).saturating_sub(36) {
        let at = random.below(bytes.len());
        match random.below(3) {
            0 => bytes[at] = random.below(256) as u8,
            1 => bytes.insert(at, random.below(256) as u8),
            _ => bytes.truncate(at.max(1)),
        }
    }
    bytes
}

/// Returns everything that the server sends until it closes the connection. When the server
/// pauses, this side signals that it sends no more.
fn send(server: &Running, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
    let mut writer = stream.try_clone().unwrap();
    // The server may close the connection before it has read everything.
    let _ = writer.write_all(bytes);
    let mut answer = Vec::new();
    for patience in [Duration::from_millis(100), Duration::from_secs(60)] {
        stream.set_read_timeout(Some(patience)).unwrap();
        match stream.read_to_end(&mut answer).map_err(|error| error.kind()) {
            Err(std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                let _ = writer.shutdown(Shutdown::Write);
            }
            _ => return answer,
        }
    }
    panic!("the server keeps a connection: {:?}", String::from_utf8_lossy(bytes));
}

/// Returns the names and lengths of all files except those of the server.
fn outside(folder: &Path, data: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path != data {
            found.extend(outside(&path, data));
        } else if path != data {
            found.push((path.clone(), path.metadata().unwrap().len()));
        }
    }
    found.sort();
    found
}

#[test]
fn bytes_that_are_hardly_requests_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("over").join("data");
    std::fs::create_dir_all(&data).unwrap();
    for place in [folder.path().to_owned(), folder.path().join("over")] {
        std::fs::write(place.join("secret"), SECRET).unwrap();
    }
    let before = outside(folder.path(), &data);
    let server = start(&data, &[("limits.body", 100_000.into()), ("timeouts.stall_s", 5.into())]);
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({"t": "word"}));
    let check = |seed: usize| -> u16 {
        let bytes = request(&mut Random(seed as u64));
        let answer = send(&server, &bytes);
        let text = String::from_utf8_lossy;
        let shown = || format!("{seed}: {:?} {:?}", text(&bytes), text(&answer));
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", shown());
        let leaked = answer.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(!leaked, "{}", shown());
        let status = answer.get(9..12).map_or(0, |status| text(status).parse().unwrap());
        assert!(status != 500, "{}", shown());
        status
    };
    let mut statuses = BTreeMap::new();
    std::thread::scope(|scope| {
        let check = &check;
        let work = |thread: usize| move || (thread..REQUESTS).step_by(THREADS).map(check).collect();
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(work(thread))).collect();
        for thread in threads {
            let seen: Vec<u16> = thread.join().unwrap();
            seen.into_iter().for_each(|status| *statuses.entry(status).or_insert(0) += 1);
        }
    });
    // Nearly every possible outcome has occurred.
    for status in [0, 200, 400, 404, 405, 413] {
        assert!(statuses.contains_key(&status), "{statuses:?}");
    }
    server.ok("PUT", "/still-here/_doc/1?refresh=true", &json!({"t": "word"}));
    assert_eq!(server.ids("still-here", &json!({"query": {"match": {"t": "word"}}})), ["1"]);
    assert_eq!(server.ask("GET", "/health", &Value::Null).status, 200);
    server.end();
    assert_eq!(outside(folder.path(), &data), before);
}
