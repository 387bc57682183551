//! A server that answers only for a collection on other machines.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use serde_json::{Value, json};
use warpseek_server::{
    ClusterFront, Remote, RemoteAnswer, RemoteFailure, RemoteFuture, RemoteLimits, RemoteSearch,
    Server, TlsFiles,
};

use crate::common::{Answer, Running, log_problems, run};

const OF_NODES: &str = "the-token-of-all-nodes";
const OF_CLIENTS: &str = "the-token-of-clients";

/// A collection that answers with the query, or fails with the status that the query names.
struct Echo;

impl Echo {
    fn answer(body: &[u8], limits: &RemoteLimits) -> Result<RemoteAnswer, RemoteFailure> {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        if let Some(status) = body["status"].as_u64() {
            return Err(RemoteFailure { status: status as u16, reason: "as requested".into() });
        }
        let search = RemoteSearch { query: "fig".into(), k: 1, is_complete: false };
        let deadline_ms = limits.deadline.map(|deadline| deadline.as_millis() as u64);
        let json = json!({"body": body, "k": limits.k, "deadline_ms": deadline_ms});
        Ok(RemoteAnswer { json, searches: vec![search] })
    }
}

impl Remote for Echo {
    fn search(&self, body: Vec<u8>, limits: RemoteLimits) -> RemoteFuture {
        Box::pin(async move { Self::answer(&body, &limits) })
    }

    fn batch(&self, body: Vec<u8>, limits: RemoteLimits) -> RemoteFuture {
        self.search(body, limits)
    }

    fn status(&self) -> Result<Value, RemoteFailure> {
        Ok(json!({"shards": 3}))
    }

    fn metrics(&self) -> String {
        "warpseek_cluster_shards 3\n".into()
    }
}

fn front() -> ClusterFront {
    ClusterFront::new("127.0.0.1:0")
}

fn start(front: ClusterFront) -> Running {
    log_problems();
    run(Server::of_cluster(front, Arc::new(Echo)).unwrap())
}

fn refused(front: ClusterFront) -> String {
    Server::of_cluster(front, Arc::new(Echo)).err().unwrap().to_string()
}

fn token(text: &str) -> Option<String> {
    Some(text.into())
}

/// Sends a request with a token.
fn get(server: &Running, path: &str, token: &str) -> Answer {
    server.send("GET", path, &[("authorization", &format!("Bearer {token}"))], None)
}

#[test]
fn searches_have_the_limits_of_the_front() {
    let limits = RemoteLimits {
        k: 7,
        deadline: Some(std::time::Duration::from_micros(2500)),
        ..RemoteLimits::default()
    };
    let server = start(ClusterFront { limits, ..front() });
    for path in ["/v1/search", "/v1/batch"] {
        let found = server.ok("POST", path, &json!({"query": "fig"}));
        assert_eq!(found, json!({"body": {"query": "fig"}, "k": 7, "deadline_ms": 2}));
        for status in [400, 503, 500] {
            let answer = server.ask("POST", path, &json!({"status": status}));
            assert_eq!(answer.status, status);
            assert_eq!(answer.json()["error"]["reason"], "as requested");
        }
    }
    assert_eq!(server.ok("GET", "/v1/cluster", &Value::Null), json!({"shards": 3}));
    let metrics = server.send("GET", "/metrics", &[], None).text;
    for line in [
        "warpseek_cluster_shards 3",
        r#"warpseek_degraded_searches_total{index="_cluster"} "#,
        r#"warpseek_search_duration_seconds_count{index="_cluster",device="cluster"} "#,
        r#"warpseek_http_requests_total{method="POST",route="/v1/batch",status="503"} "#,
    ] {
        assert!(metrics.contains(&format!("\n{line}")), "{line}: {metrics}");
    }
}

#[test]
fn there_are_no_other_routes_and_no_options() {
    let server = start(front());
    for (method, path, status) in [
        ("GET", "/livez", 200),
        ("GET", "/health", 200),
        ("GET", "/openapi.json", 200),
        ("GET", "/v1/search", 405),
        ("POST", "/v1/cluster", 405),
        ("POST", "/v1/cluster/search", 404),
        ("POST", "/books/_search", 404),
        ("POST", "/v1/indexes/books/search", 404),
        ("PUT", "/books", 404),
        ("GET", "/ui", 404),
        ("POST", "/v1/search?k=5", 400),
        ("GET", "/v1/cluster?pretty", 400),
        ("GET", "/v1/cluster?", 200),
    ] {
        let answer = server.send(method, path, &[], None);
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text);
        let reason = match status {
            400 => "write the options into the body",
            404 | 405 => "the routes are POST /v1/search",
            _ => "",
        };
        assert!(answer.text.contains(reason), "{method} {path}: {}", answer.text);
    }
}

/// Sends the head of a search and the first byte of its body, and returns the response.
fn send_head(server: &Running, length: usize) -> String {
    let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
    let head = format!(
        "POST /v1/search HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn bodies_are_limited() {
    let server = start(front());
    let body = |bytes: usize| Some(vec![b' '; bytes]);
    assert_eq!(server.send("POST", "/v1/search", &[], body(16 << 20)).status, 200);
    // A body that is announced as too large is refused before it arrives.
    let answer = send_head(&server, (16 << 20) + 1);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let timeouts = warpseek_server::Timeouts { stall_s: 1, ..Default::default() };
    let mut slow = front();
    slow.connections.timeouts = timeouts;
    let server = start(slow);
    let answer = send_head(&server, 9);
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[test]
fn a_page_whose_name_points_here_is_not_answered() {
    let server = start(front());
    let ask = |server: &Running, path: &str, host: &str| {
        server.send("GET", path, &[("host", host)], None)
    };
    for path in ["/v1/cluster", "/metrics", "/livez", "/nothing", "/v1/cluster?k=5"] {
        let answer = ask(&server, path, "evil.example:9200");
        assert!(answer.status == 403 && answer.text.contains("allowed_hosts"), "{answer:?}");
    }
    assert_eq!(ask(&server, "/livez", "127.0.0.1:1").status, 200);
    let allowed_hosts = vec!["search.example".to_owned()];
    let server = start(ClusterFront { allowed_hosts, ..front() });
    assert_eq!(ask(&server, "/livez", "search.example:80").status, 200);
    assert_eq!(ask(&server, "/livez", "evil.example").status, 403);
    let protected = ClusterFront { token: token(OF_CLIENTS), ..front() };
    assert_eq!(ask(&start(protected), "/livez", "any.example").status, 200);
    let allowed_hosts = vec!["http://search.example".to_owned()];
    assert!(refused(ClusterFront { allowed_hosts, ..front() }).contains("allowed_hosts"));
}

#[test]
fn clients_bring_their_own_token_and_not_that_of_nodes() {
    let front = || ClusterFront { nodes_token: token(OF_NODES), ..front() };
    let server = start(ClusterFront { token: token(OF_CLIENTS), ..front() });
    for path in ["/v1/cluster", "/metrics"] {
        assert_eq!(get(&server, path, OF_CLIENTS).status, 200);
        let answer = server.send("GET", path, &[], None);
        assert!(answer.status == 401 && answer.text.contains("missing"), "{answer:?}");
        assert_eq!(get(&server, path, "another-token-of-clients").status, 401);
        let answer = get(&server, path, OF_NODES);
        assert!(answer.status == 401 && answer.text.contains("token of the nodes"), "{answer:?}");
    }
    let bearer = format!("Bearer {OF_CLIENTS}");
    let search =
        server.send("POST", "/v1/search", &[("authorization", &bearer)], Some("{}".into()));
    assert_eq!(search.status, 200, "{search:?}");
    assert_eq!(server.send("POST", "/v1/search", &[], Some("{}".into())).status, 401);
    assert_eq!(server.send("GET", "/livez", &[], None).status, 200);
    // Earlier versions had one token for both.
    let error = refused(front());
    assert!(error.contains("--client-token-file") && error.contains("--insecure"), "{error}");
    let same = ClusterFront { token: token(OF_NODES), ..front() };
    assert!(refused(same).contains("the same token"));
    let server = start(ClusterFront { insecure: true, ..front() });
    assert_eq!(server.send("GET", "/v1/cluster", &[], None).status, 200);
}

#[test]
fn errors_about_certificates_name_the_option_and_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.pem");
    std::fs::write(&bad, "nothing").unwrap();
    let tls = TlsFiles { certificate: Some(bad.clone()), key: Some(bad) };
    let error = refused(ClusterFront { tls, ..front() });
    assert!(error.contains("--http-certificate") && error.contains("bad.pem"), "{error}");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = TlsFiles { certificate: Some(certificate), key: Some(key) };
    let listen = "0.0.0.0:0".to_owned();
    let server = start(ClusterFront { tls, listen, token: token(OF_CLIENTS), ..front() });
    assert!(server.url.starts_with("https://"), "{}", server.url);
}
