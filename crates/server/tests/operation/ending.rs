//! The behaviour of a server during shutdown, as clients see it.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::common::start;

/// Opens a connection that stays open after its first answer. The server closes such connections
/// when it begins to shut down: a request sent on one at that moment would get no answer, and the
/// client would have to repeat it.
fn kept(url: &str) -> TcpStream {
    let mut kept = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    kept.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nok") {
        let mut byte = [0];
        kept.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    kept
}

#[test]
fn it_says_that_it_ends_until_requests_under_way_are_finished() {
    let data = tempfile::tempdir().unwrap();
    let mut server = start(data.path(), &[]);
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({"t": "there"}));
    let mut slow = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
    let document = b"{\"t\": \"slow\"}";
    let head = format!(
        "PUT /a/_doc/2 HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
        document.len()
    );
    slow.write_all(head.as_bytes()).unwrap();
    // The server asks for the body, so the request is in progress.
    let mut proceed = [0; 25];
    slow.read_exact(&mut proceed).unwrap();
    assert!(proceed.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&proceed));
    slow.write_all(&document[..5]).unwrap();
    let mut kept = kept(&server.url);
    server.ask_to_end();
    // The connection closes, so the server has begun to shut down.
    assert_eq!(kept.read(&mut [0]).unwrap_or(0), 0);
    while server.ask("GET", "/readyz", &Value::Null).status == 200 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    for (path, status) in [("/readyz", 503), ("/health", 503), ("/livez", 200)] {
        assert_eq!(server.ask("GET", path, &Value::Null).status, status, "{path}");
    }
    while server.ask("GET", "/a/_search", &Value::Null).status == 200 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let refused = server.ask("PUT", "/a/_doc/3", &json!({"t": "late"}));
    assert!(refused.status == 503 && refused.text.contains("shutting down"), "{}", refused.text);
    slow.write_all(&document[5..]).unwrap();
    let mut answer = String::new();
    let _ = slow.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    server.end();
    let server = start(data.path(), &[]);
    assert_eq!(server.ok("GET", "/a/_count", &Value::Null)["count"], 2);
}

#[test]
fn a_notice_does_not_keep_it_from_ending() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[("drain_notice_s", 1.into())]);
    server.ok("PUT", "/a/_doc/1", &json!({"t": "there"}));
    server.end();
}
