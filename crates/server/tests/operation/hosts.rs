//! Pages whose host names resolve to this machine.

use serde_json::json;

use crate::common::{Running, start};

/// Sends a request with a host name in `Host`, and returns the status and the reason.
fn named(server: &Running, method: &str, path: &str, host: &str) -> (u16, String) {
    let origin = format!("http://{host}");
    let headers = [("host", host), ("origin", &*origin), ("content-type", "application/json")];
    let answer = server.send(method, path, &headers, Some(b"{}".to_vec()));
    (answer.status, answer.text)
}

#[test]
fn a_page_whose_name_points_here_is_answered_by_no_route() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/t/_doc/1?refresh=true", &json!({"a": "word"}));
    let host = "evil.example:9200";
    for (method, path) in [
        ("PUT", "/x"),
        ("POST", "/t/_search"),
        ("GET", "/t/_search"),
        ("POST", "/v1/indexes/t/search"),
        ("POST", "/mcp"),
        ("POST", "/retrieve"),
        ("OPTIONS", "/t"),
        ("GET", "/health"),
        ("GET", "/ui/"),
        ("GET", "/metrics"),
        ("GET", "/nothing"),
        ("DELETE", "/t"),
    ] {
        let (status, text) = named(&server, method, path, host);
        assert_eq!(status, 403, "{method} {path}: {text}");
        assert!(text.contains("allowed_hosts") && text.contains(host), "{text}");
        assert!(!text.contains("word"), "{text}");
    }
    for host in ["localhost", "LOCALHOST.:1", "127.0.0.1:80", "[::1]:9200"] {
        let (status, text) = named(&server, "POST", "/t/_search", host);
        assert_eq!(status, 200, "{host}: {text}");
    }
    let long = "a".repeat(30_000);
    let (status, text) = named(&server, "GET", "/", &long);
    assert!(status == 403 && text.len() < 1000, "{text}");
    // The part before an @ is a user name and has no meaning here.
    let origin = [("origin", "http://localhost:80@evil.example")];
    let answer = server.send("DELETE", "/t", &origin, None);
    assert!(answer.status == 403 && answer.text.contains("cors.origins"), "{}", answer.text);
    assert_eq!(server.ok("GET", "/t/_count", &json!(null))["count"], 1);
    assert_eq!(server.ask("GET", "/x", &json!(null)).status, 404);
}

#[test]
fn listed_names_are_answered_and_keys_stand_for_names() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("data");
    let hosts = toml::Value::Array(vec!["search.example".into()]);
    let server = start(&folder, &[("allowed_hosts", hosts.clone())]);
    assert_eq!(named(&server, "PUT", "/x", "Search.example:9200").0, 200);
    assert_eq!(named(&server, "GET", "/x", "a.search.example").0, 403);
    assert_eq!(named(&server, "GET", "/x", "search.example.evil.example").0, 403);
    drop(server);
    let keys = data.path().join("keys");
    std::fs::write(&keys, "admin an-admin-key-of-some-length\n").unwrap();
    let keys: toml::Value = keys.to_string_lossy().into_owned().into();
    // Such a page has no key, so a proxy may pass on any name; an explicit list still applies.
    let server = start(&folder, &[("api_key_file", keys.clone())]);
    assert_eq!(named(&server, "GET", "/x", "evil.example").0, 401);
    drop(server);
    let server = start(&folder, &[("api_key_file", keys), ("allowed_hosts", hosts)]);
    assert_eq!(named(&server, "GET", "/x", "evil.example").0, 403);
    assert_eq!(named(&server, "GET", "/x", "search.example").0, 401);
}
