//! Pages of other origins.

use crate::common::start;

#[test]
fn pages_of_listed_origins_may_ask() {
    let data = tempfile::tempdir().unwrap();
    let origins = toml::Value::Array(vec!["https://a.example".into(), "http://b.example".into()]);
    let keys = data.path().join("keys");
    std::fs::write(&keys, "admin an-admin-key-of-some-length\n").unwrap();
    let keys = keys.to_string_lossy().into_owned().into();
    let folder = data.path().join("data");
    let server = start(&folder, &[("cors.origins", origins), ("api_key_file", keys)]);
    let ask = |method: &str, origin: &str| {
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "PUT"),
            ("access-control-request-headers", "authorization,content-type"),
        ];
        server.send(method, "/books", &headers, None)
    };
    // Preflight requests of browsers carry no key.
    let before = ask("OPTIONS", "https://a.example");
    assert_eq!(before.status, 200);
    assert_eq!(before.headers["access-control-allow-origin"], "https://a.example");
    assert_eq!(before.headers["access-control-allow-methods"], "PUT");
    assert_eq!(before.headers["access-control-allow-headers"], "authorization,content-type");
    // The actual request needs its key, and pages may read why it was refused.
    let refused = ask("PUT", "http://b.example");
    assert_eq!(refused.status, 401);
    assert_eq!(refused.headers["access-control-allow-origin"], "http://b.example");
    for origin in ["https://a.example.org", "http://a.example", "null"] {
        let other = ask("OPTIONS", origin);
        assert!(!other.headers.contains_key("access-control-allow-origin"), "{origin}");
    }
    drop(server);
    let server = start(&folder, &[]);
    let plain = server.send("GET", "/livez", &[("origin", "https://a.example")], None);
    assert!(!plain.headers.contains_key("access-control-allow-origin"));
}
