//! `warpseek serve` as a process: how it starts and ends, and what a kill leaves.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(data: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_warpseek"))
            .arg("serve")
            .arg(data)
            .args(["--listen", "127.0.0.1:0", "--log", "json"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let line =
            lines.find_map(|line| line.ok().filter(|line| line.contains("http://"))).unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        let address = line.split("http://").nth(1).unwrap().trim().to_owned();
        let server = Server { process, address };
        while server.ask("GET", "/readyz", "").is_none_or(|(status, _)| status != 200) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        server
    }

    /// The status and body of an answer; `None` if there is none.
    fn ask(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let (host, length) = (&self.address, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(body.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some((head.get(9..12)?.parse().ok()?, body.to_owned()))
    }

    #[cfg(unix)]
    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[cfg(unix)]
fn it_ends_properly_when_it_is_asked_to() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    assert_eq!(server.ask("GET", "/readyz", "").unwrap().0, 200);
    assert_eq!(server.ask("PUT", "/a/_doc/1", r#"{"text": "kept"}"#).unwrap().0, 201);
    server.signal("-TERM");
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
    // All is in the index, where other commands find it, and there is no log left.
    let index = warpseek::Index::open(data.path().join("a")).unwrap();
    assert_eq!(index.snapshot().unwrap().statistics().documents, 1);
    assert!(index.manifest().unwrap().log.is_none());
}

#[test]
#[cfg(unix)]
fn what_was_acknowledged_survives_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    for round in 0..3 {
        for i in 0..10 {
            // Every round brings a field of its own.
            let body = format!(r#"{{"text": "round {round}", "field{round}": {i}}}"#);
            let path = format!("/a/_doc/{round}-{i}");
            assert_eq!(server.ask("PUT", &path, &body).unwrap().0, 201);
        }
        server.signal("-KILL");
        let _ = server.process.wait();
        server = Server::start(data.path());
        let (status, count) = server.ask("GET", "/a/_count", "").unwrap();
        let documents = (round + 1) * 10;
        let counted: serde_json::Value = serde_json::from_str(&count).unwrap();
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
    let (code, _, error) = run(&["data", "--listen", "0.0.0.0:0"]);
    assert!(code == Some(2) && error.contains("--api-key-file"), "{error}");
    let (code, _, error) = run(&["data", "--config", "/nowhere.toml"]);
    assert!(code == Some(2) && error.contains("/nowhere.toml"), "{error}");
}
