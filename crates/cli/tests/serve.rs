//! `warpseek serve` as a process: how it starts and ends, and what a kill leaves.
#![allow(clippy::unwrap_used)]

mod support;

use std::process::Command;

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
    // All is in the index, where other commands find it, and there is no log left.
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
    // What a reload sends ends nothing.
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
    let hosts = ["data", "--allowed-hosts", "search.example,10.0.0.7", "--print-config"];
    let (code, out, _) = run(&hosts);
    assert!(code == Some(0) && out.contains("search.example") && out.contains("10.0.0.7"), "{out}");
    let (code, _, error) = run(&["data", "--allowed-hosts", "http://search.example"]);
    assert!(code == Some(2) && error.contains("allowed_hosts"), "{error}");
    let (code, _, error) = run(&["data", "--listen", "0.0.0.0:0"]);
    assert!(code == Some(2) && error.contains("--api-key-file"), "{error}");
    let (code, _, error) = run(&["data", "--config", "/nowhere.toml"]);
    assert!(code == Some(2) && error.contains("/nowhere.toml"), "{error}");
}
