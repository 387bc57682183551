//! Clients that hold a connection without using it. The server allows one connection, so another
//! client is answered only after that one was closed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Running, start};

fn one_connection(data: &Path) -> Running {
    let settings = [
        ("limits.connections", 1.into()),
        // Short, yet long enough for well-behaved clients on a busy machine.
        ("timeouts.head_s", 3.into()),
        ("timeouts.idle_s", 3.into()),
        ("timeouts.stall_s", 3.into()),
        ("timeouts.bytes_per_second", 1000.into()),
    ];
    start(data, &settings)
}

fn connect(server: &Running) -> TcpStream {
    TcpStream::connect(server.url.trim_start_matches("http://")).unwrap()
}

/// Sends a byte from time to time until the other end closes, and returns the response.
fn trickle(mut stream: TcpStream, bytes: &[u8]) -> String {
    let ended = AtomicBool::new(false);
    let mut reader = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| {
            let mut answer = Vec::new();
            let _ = reader.read_to_end(&mut answer);
            ended.store(true, Ordering::Relaxed);
            String::from_utf8_lossy(&answer).into_owned()
        });
        for byte in bytes.iter().cycle() {
            if ended.load(Ordering::Relaxed) || stream.write_all(&[*byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        answer.join().unwrap()
    })
}

#[test]
fn heads_that_never_end() {
    let data = tempfile::tempdir().unwrap();
    let server = one_connection(data.path());
    let silent = connect(&server);
    assert_eq!(server.send("GET", "/health", &[], None).status, 200);
    drop(silent);
    let mut slow = connect(&server);
    slow.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: ").unwrap();
    assert_eq!(trickle(slow, b"a"), "");
    assert_eq!(server.send("GET", "/health", &[], None).status, 200);
}

#[test]
fn bodies_that_never_come() {
    let data = tempfile::tempdir().unwrap();
    let server = one_connection(data.path());
    let head = "PUT /a/_doc/1 HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n{";
    let mut stalled = connect(&server);
    stalled.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stalled.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("timeouts.stall_s"), "{answer}");
    // At fifty bytes per second, the body may take no longer than if nothing came at all.
    let mut slow = connect(&server);
    slow.write_all(head.as_bytes()).unwrap();
    let answer = trickle(slow, b" ");
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_eq!(server.ask("GET", "/a", &Value::Null).status, 404);
}

#[test]
fn answers_that_nobody_reads() {
    let data = tempfile::tempdir().unwrap();
    let server = one_connection(data.path());
    // More than the socket buffers of both ends hold.
    let text = "x".repeat(8 << 20);
    for i in 0..4 {
        server.ok(
            "PUT",
            &format!("/a/_doc/{i}?refresh=true"),
            &json!({"n": i, "t": [{"x": text}]}),
        );
    }
    let mut deaf = connect(&server);
    deaf.write_all(b"GET /a/_search HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert_eq!(server.send("GET", "/health", &[], None).status, 200);
    let mut rest = Vec::new();
    let _ = deaf.read_to_end(&mut rest);
    assert!(rest.starts_with(b"HTTP/1.1 200 ") && rest.len() < 32 << 20, "{}", rest.len());
}

#[test]
fn connections_that_are_kept_and_not_used() {
    let data = tempfile::tempdir().unwrap();
    let server = one_connection(data.path());
    let mut kept = connect(&server);
    for _ in 0..3 {
        kept.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nok") {
            let mut byte = [0];
            kept.read_exact(&mut byte).unwrap();
            answer.extend(byte);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"));
    }
    assert_eq!(server.send("GET", "/health", &[], None).status, 200);
    assert_eq!(kept.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_thousand_idle_connections_do_not_stop_another_client() {
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = rustix::process::Rlimit { current: limits.maximum, ..limits };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, most).unwrap();
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let mut idle: Vec<TcpStream> = (0..1000).map(|_| connect(&server)).collect();
    for stream in &mut idle[..500] {
        stream.write_all(b"GET /livez HTTP/1.1\r\n").unwrap();
    }
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({"t": "there"}));
    assert_eq!(server.ids("a", &json!({"query": {"match": {"t": "there"}}})), ["1"]);
    // Idle connections still work when they are used again.
    idle[0].write_all(b"host: localhost\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    idle[0].read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}
