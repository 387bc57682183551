//! A server for the tests of clients and of its page.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running server with an empty data folder.
pub(crate) struct Server {
    process: Child,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(program: &Path, data: &Path) -> Result<Self, String> {
        let _ = std::fs::remove_dir_all(data);
        let mut process = Command::new(program)
            .arg("serve")
            .arg(data)
            .args(["--listen", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let mut lines = BufReader::new(process.stderr.take().ok_or("no standard error")?).lines();
        let url = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let at = line.find("http://")?;
            Some(line[at..].trim().to_owned())
        });
        // The log must be read, or the server would block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let url = url.ok_or("the server did not start")?;
        let server = Server { process, url };
        while !server.is_ready() {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    fn is_ready(&self) -> bool {
        let host = self.url.trim_start_matches("http://");
        let Ok(mut stream) = TcpStream::connect(host) else { return false };
        let mut answer = String::new();
        let asked =
            write!(stream, "GET /readyz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        asked.is_ok() && stream.read_to_string(&mut answer).is_ok() && answer.contains(" 200 ")
    }

    /// Tells the server to end, and checks that it ends properly.
    pub(crate) fn end(mut self) -> Result<(), String> {
        let asked = Command::new("kill").arg(self.process.id().to_string()).status();
        asked.map_err(|e| e.to_string())?;
        let status = self.process.wait().map_err(|e| e.to_string())?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("the server failed: {status}")),
        }
    }
}
