//! `warpseek serve` as a separate process, and connections to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server on a free port, which is killed when this value is dropped.
pub(crate) struct Server {
    pub(crate) process: Child,
    pub(crate) address: String,
}

impl Server {
    /// Starts a server and waits until it is ready.
    pub(crate) fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    /// Starts a server with these environment variables, and waits until it is ready.
    pub(crate) fn start_with(data: &Path, environment: &[(&str, &Path)]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_warpseek"))
            .arg("serve")
            .arg(data)
            .args(["--listen", "127.0.0.1:0", "--log", "json"])
            .envs(environment.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let line =
            lines.find_map(|line| line.ok().filter(|line| line.contains("http://"))).unwrap();
        // The log must be read, or the server would block.
        std::thread::spawn(move || lines.for_each(drop));
        let address = line.split("http://").nth(1).unwrap();
        let end = |c: char| !(c.is_ascii_digit() || c == '.' || c == ':');
        let address = address.split(end).next().unwrap().to_owned();
        let server = Server { process, address };
        while server.ask("GET", "/readyz", "").is_none_or(|(status, _)| status != 200) {
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// Sends a request over a new connection. Returns the status and body of the answer, or
    /// `None` if there is none.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        Connection::open(&self.address)?.ask(method, path, body)
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Kills the server, which cannot react.
    pub(crate) fn kill(mut self) {
        self.signal("-KILL");
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection that stays open from one request to the next.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) fn open(address: &str) -> Option<Self> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Connection(BufReader::new(stream)))
    }

    /// Sends a request. Returns the status and body of the answer, or `None` if there is none,
    /// for example after a kill.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        self.ask_with(method, path, "", body)
    }

    /// Sends a request with these headers, each of which is a complete line.
    pub(crate) fn ask_with(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> Option<(u16, String)> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.get_mut().write_all(request.as_bytes()).ok()?;
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        let status = line.get(9..12)?.parse().ok()?;
        let mut length = 0;
        loop {
            line.clear();
            self.0.read_line(&mut line).ok()?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().ok()?;
                }
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).ok()?;
        Some((status, String::from_utf8(body).ok()?))
    }
}
