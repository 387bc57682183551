//! A server on a free port, and a client that speaks HTTP to it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread::JoinHandle;

use serde_json::Value;
use warpseek_server::{Config, Server};

/// A running server, stopped on drop.
pub(crate) struct Running {
    pub(crate) url: String,
    end: Option<std::sync::mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts a server on a folder, with further settings by key.
pub(crate) fn start(data: &Path, settings: &[(&str, toml::Value)]) -> Running {
    let mut flags = BTreeMap::from([
        ("data".to_owned(), data.to_string_lossy().into_owned().into()),
        ("listen".to_owned(), "127.0.0.1:0".into()),
        ("refresh_ms".to_owned(), 50.into()),
    ]);
    flags.extend(settings.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    log_problems();
    run(Server::start(Config::load(None, [], flags).unwrap()).unwrap())
}

/// Installs a logger before that of the server, and limits it to problems: logged requests would
/// bury the output of tests.
pub(crate) fn log_problems() {
    let logs = tracing_subscriber::fmt().with_writer(std::io::stderr);
    let logs = logs.with_max_level(tracing::Level::WARN).finish();
    let _ = tracing::subscriber::set_global_default(logs);
}

/// Runs a server until it is dropped.
pub(crate) fn run(server: Server) -> Running {
    let url = server.url();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let wait = async move {
            while matches!(ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        server.run_until(wait).unwrap();
    });
    let running = Running { url, end: Some(end), thread: Some(thread) };
    // This client does not speak TLS.
    while running.url.starts_with("http:")
        && running.send("GET", "/readyz", &[], None).status != 200
    {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    running
}

/// A response of the server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }
}

impl Running {
    /// Sends raw bytes and reads the whole response.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Answer {
        let host = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).unwrap();
        let mut request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            request += &format!("host: {host}\r\n");
        }
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        let body = body.unwrap_or_default();
        request += &format!("content-length: {}\r\n\r\n", body.len());
        // A server that refuses a body does not read it to its end.
        let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.write_all(&body));
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let (head, text) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{method} {path}: {text:?}"));
        let status = head[9..12].parse().unwrap();
        let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let headers =
            headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        Answer { status, headers, text: text.to_owned() }
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        let json = [("content-type", "application/json")];
        match body {
            Value::Null => self.send(method, path, &[], None),
            Value::String(lines) => self.send(
                method,
                path,
                &[("content-type", "application/x-ndjson")],
                Some(lines.clone().into_bytes()),
            ),
            body => self.send(method, path, &json, Some(body.to_string().into_bytes())),
        }
    }

    /// Sends a request that must succeed.
    pub(crate) fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.ask(method, path, body);
        assert!(answer.status < 300, "{method} {path}: {} {}", answer.status, answer.text);
        answer.json()
    }

    /// Returns the ids of the hits of a search.
    pub(crate) fn ids(&self, index: &str, body: &Value) -> Vec<String> {
        let found = self.ok("POST", &format!("/{index}/_search"), body);
        let hits = found["hits"]["hits"].as_array().unwrap();
        hits.iter().map(|hit| hit["_id"].as_str().unwrap().to_owned()).collect()
    }

    /// Starts a shutdown, as a signal does, without waiting.
    pub(crate) fn ask_to_end(&mut self) {
        drop(self.end.take());
    }

    /// Stops the server and waits for its end.
    pub(crate) fn end(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let joined = thread.join();
            if !std::thread::panicking() {
                joined.unwrap();
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}
