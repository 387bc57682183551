//! `warpseek serve` as a process: start, shutdown, and the state after a kill.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::Space;
use support::server::Server;

#[test]
#[cfg(unix)]
fn it_ends_properly_when_it_is_asked_to() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    assert_eq!(server.ask("GET", "/readyz", "").unwrap().0, 200);
    assert_eq!(server.ask("PUT", "/a/_doc/1", r#"{"text": "kept"}"#).unwrap().0, 201);
    server.signal("-TERM");
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
    // All documents are in the index, where other commands find them, and no log is left.
    let index = warpseek::Index::open(data.path().join("a")).unwrap();
    assert_eq!(index.snapshot().unwrap().statistics().documents, 1);
    assert!(index.manifest().unwrap().log.is_none());
}

#[test]
#[cfg(unix)]
fn systemd_is_told_and_health_can_be_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let told = || {
        let mut buffer = [0; 256];
        let bytes = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..bytes]).trim().to_owned()
    };
    let check = |url: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpseek"));
        command.args(["serve", "--check", url]).output().unwrap().status.code()
    };
    let mut server =
        Server::start_with(&folder.path().join("data"), &[("NOTIFY_SOCKET", path.as_path())]);
    let url = format!("http://{}", server.address);
    assert_eq!(told(), "READY=1");
    assert_eq!(check(&url), Some(0));
    // The signal of a reload does not stop the server.
    server.signal("-HUP");
    assert_eq!(server.ask("GET", "/readyz", "").unwrap().0, 200);
    server.signal("-TERM");
    assert_eq!(told(), "STOPPING=1");
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
    assert_eq!(check(&url), Some(1));
    assert_eq!(check("https://127.0.0.1:1"), Some(1));
}

#[test]
#[cfg(unix)]
fn what_was_acknowledged_survives_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    for round in 0..3 {
        for i in 0..10 {
            // Every round adds a field.
            let body = format!(r#"{{"text": "round {round}", "field{round}": {i}}}"#);
            let path = format!("/a/_doc/{round}-{i}");
            assert_eq!(server.ask("PUT", &path, &body).unwrap().0, 201);
        }
        server.signal("-KILL");
        let _ = server.process.wait();
        server = Server::start(data.path());
        let (status, count) = server.ask("GET", "/a/_count", "").unwrap();
        let documents = (round + 1) * 10;
        let counted: Value = serde_json::from_str(&count).unwrap();
        assert!(status == 200 && counted["count"] == documents, "{count}");
        let query =
            format!(r#"{{"query": {{"range": {{"field{round}": {{"gte": 5}}}}}}, "size": 0}}"#);
        let (_, found) = server.ask("POST", "/a/_search", &query).unwrap();
        assert!(found.contains(r#""value":5"#), "{found}");
    }
}

#[test]
fn settings_are_printed_and_mistakes_refused() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_warpseek"))
            .arg("serve")
            .args(arguments)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, _) = run(&["data", "--listen", "127.0.0.1:8000", "--print-config"]);
    assert!(
        code == Some(0) && out.contains("listen = \"127.0.0.1:8000\"") && out.contains("[limits]"),
        "{out}"
    );
    let hosts = ["data", "--allowed-hosts", "search.example,10.0.0.7", "--print-config"];
    let (code, out, _) = run(&hosts);
    assert!(code == Some(0) && out.contains("search.example") && out.contains("10.0.0.7"), "{out}");
    for (given, bytes) in [("3M", 3 << 20), ("0", 0)] {
        let (code, out, _) = run(&["data", "--cache", given, "--print-config"]);
        assert!(code == Some(0) && out.contains(&format!("\ncache = {bytes}\n")), "{out}");
    }
    let (code, _, error) = run(&["data", "--cache=-1"]);
    assert!(code == Some(2) && error.contains("--cache"), "{error}");
    let (code, _, error) = run(&["data", "--allowed-hosts", "http://search.example"]);
    assert!(code == Some(2) && error.contains("allowed_hosts"), "{error}");
    let (code, _, error) = run(&["data", "--listen", "0.0.0.0:0"]);
    assert!(code == Some(2) && error.contains("--api-key-file"), "{error}");
    let (code, _, error) = run(&["data", "--config", "/nowhere.toml"]);
    assert!(code == Some(2) && error.contains("/nowhere.toml"), "{error}");
}

/// Starts a server with `device = cuda` and the emulator in place of the driver.
#[cfg(unix)]
fn on_a_gpu(space: &Space, faults: &str) -> Server {
    let environment = [
        ("LD_LIBRARY_PATH", space.path("lib")),
        ("WARPSEEK_CACHE", space.path("cache")),
        ("WARPSEEK__DEVICE", "cuda".into()),
        ("EMULATOR_FAULTS", faults.into()),
    ];
    let environment: Vec<(&str, &Path)> =
        environment.iter().map(|(name, value)| (*name, value.as_path())).collect();
    Server::start_with(&space.path("data"), &environment)
}

#[cfg(unix)]
fn answer(server: &Server, method: &str, path: &str, body: &str) -> Value {
    let (status, answer) = server.ask(method, path, body).unwrap();
    assert!(status < 300, "{method} {path}: {status} {answer}");
    serde_json::from_str(&answer).unwrap()
}

/// Returns the GPU that answers for an index, and the reason if there is none.
#[cfg(unix)]
fn residency(server: &Server, index: &str) -> (Option<String>, Option<String>) {
    let status = answer(server, "GET", "/v1/status", "");
    let found = status["indexes"].as_array().unwrap().iter().find(|found| found["name"] == index);
    let part = |key: &str| found.unwrap()["residency"][key].as_str().map(str::to_owned);
    (part("gpu"), part("why_not"))
}

/// Returns the number of documents that a word finds, in single searches and in a batch, with
/// facets or without.
#[cfg(unix)]
fn matches(server: &Server, index: &str, word: &str) -> u64 {
    let path = format!("/v1/indexes/{index}/search");
    let search = format!(r#"{{"query": "{word}", "count": true}}"#);
    let one = answer(server, "POST", &path, &search)["matches"].as_u64().unwrap();
    let batch = format!(r#"{{"searches": [{search}, {search}]}}"#);
    let many = answer(server, "POST", &format!("/v1/indexes/{index}/batch"), &batch);
    assert_eq!(many["results"][1]["matches"], one, "{many}");
    one
}

/// Checks that features unsupported by a GPU prevent neither the start of the server nor the
/// creation of indexes while it runs.
#[test]
#[cfg(unix)]
fn the_cpu_serves_what_a_gpu_does_not_support() {
    const FIELDS: &str = r#"{"text": [{"name": "title"}, {"name": "body"}]}"#;
    let space = Space::new();
    space.add_emulator();
    space.write(
        "one.jsonl",
        "{\"id\": \"1\", \"text\": \"apple pie\"}\n{\"id\": \"2\", \"text\": \"pie apple\"}\n",
    );
    space.write("two.jsonl", "{\"id\": \"1\", \"title\": \"apple\", \"body\": \"apple pear\"}\n");
    space.write("fields.json", FIELDS);
    space.run("index one.jsonl -o data/one -q --positions").ok();
    space.run("index two.jsonl -o data/two -q --schema fields.json").ok();
    let server = on_a_gpu(&space, "");
    let (gpu, why_not) = residency(&server, "one");
    assert!(gpu.is_some_and(|name| name.contains("emulated")) && why_not.is_none());
    let (gpu, why_not) = residency(&server, "two");
    assert!(gpu.is_none() && why_not.unwrap().contains("text fields"));
    assert_eq!((matches(&server, "one", "apple"), matches(&server, "two", "apple")), (2, 1));
    // The CPU answers phrases, and the index stays on the GPU.
    let phrase = r#"{"query": {"match_phrase": {"text": "apple pie"}}, "count": true}"#;
    let found = answer(&server, "POST", "/v1/indexes/one/search", phrase);
    assert_eq!(found["matches"], 1, "{found}");
    let batch = format!(r#"{{"searches": [{phrase}]}}"#);
    let found = answer(&server, "POST", "/v1/indexes/one/batch", &batch);
    assert_eq!(found["results"][0]["matches"], 1, "{found}");
    assert!(residency(&server, "one").0.is_some());

    // One index gets a second text field while it is served; another is put into the folder.
    answer(&server, "PUT", "/later/_doc/1?refresh=true", r#"{"title": "apple"}"#);
    assert_eq!(matches(&server, "later", "apple"), 1);
    assert!(residency(&server, "later").0.is_some());
    answer(
        &server,
        "PUT",
        "/later/_doc/2?refresh=true",
        r#"{"title": "apple", "body": "apple pie"}"#,
    );
    assert_eq!(matches(&server, "later", "apple"), 2);
    assert!(residency(&server, "later").1.unwrap().contains("text fields"));
    space.run("index two.jsonl -o beside -q --schema fields.json").ok();
    std::fs::rename(space.path("beside"), space.path("data/found")).unwrap();
    answer(&server, "POST", "/v1/indexes/found/reload", "");
    assert_eq!(matches(&server, "found", "pear"), 1);
    assert!(residency(&server, "found").1.is_some());
    let (_, metrics) = server.ask("GET", "/metrics", "").unwrap();
    for (index, on_gpu) in [("one", 1), ("two", 0), ("later", 0), ("found", 0)] {
        let line = format!("warpseek_index_on_gpu{{index=\"{index}\"}} {on_gpu}\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[test]
#[cfg(unix)]
fn the_cpu_serves_what_a_gpu_has_no_room_for() {
    let space = Space::new();
    space.add_emulator();
    let line = |i| format!("{{\"id\": \"d{i}\", \"text\": \"apple w{}\"}}\n", i % 500);
    space.write("one.jsonl", (0..2000).map(line).collect::<String>());
    space.run("index one.jsonl -o data/one -q").ok();
    let server = on_a_gpu(&space, "memory=1000");
    assert_eq!(matches(&server, "one", "apple"), 2000);
    let (gpu, why_not) = residency(&server, "one");
    assert!(gpu.is_none() && why_not.unwrap().contains("are free"));
    // Later documents and indexes are served too.
    answer(&server, "PUT", "/one/_doc/2?refresh=true", r#"{"text": "apple"}"#);
    answer(&server, "PUT", "/later/_doc/1?refresh=true", r#"{"text": "apple"}"#);
    assert_eq!((matches(&server, "one", "apple"), matches(&server, "later", "apple")), (2001, 1));
}

/// Checks that the server fails at the start if a GPU is requested on a machine without one.
#[test]
#[cfg(unix)]
fn without_any_gpu_a_server_for_one_does_not_start() {
    let space = Space::new();
    space.add_emulator();
    for (faults, said) in [("cuInit@1=100", "sees no GPU"), ("cuda=11080", "too old")] {
        let mut command = space.command();
        command.args(["serve", "data", "--listen", "127.0.0.1:0", "--device", "cuda"]);
        let output = command.env("EMULATOR_FAULTS", faults).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("device cuda") && error.contains(said), "{error}");
    }
}
