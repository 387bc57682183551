//! A server in a separate process.

use std::fs::{File, read_to_string};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use warpseek_console::Failure;

use super::client::Connection;

/// Maximum time for the server to open the index and to copy it to a GPU.
const PATIENCE: Duration = Duration::from_secs(300);

/// A server that ends when it is dropped.
pub(super) struct Server {
    process: Child,
    pub(super) address: SocketAddr,
    /// The server's data directory: a link to the index, which is named `index` there.
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts this program as a server and waits until it is ready.
    pub(super) fn start(index: &Path, device: &str) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        std::os::unix::fs::symlink(index.canonicalize()?, folder.path().join("index"))?;
        // The log goes to a file, because the server would block on a full pipe.
        let log = folder.path().join("log");
        let process = Command::new(std::env::current_exe()?)
            .args(["serve", "--listen", "127.0.0.1:0", "--device", device])
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()?;
        let mut server =
            Server { process, address: SocketAddr::from(([127, 0, 0, 1], 0)), _folder: folder };
        let start = Instant::now();
        loop {
            let said = read_to_string(&log)?;
            if let Some(ended) = server.process.try_wait()? {
                return Err(Failure::broken(format!("the server ended ({ended}): {said}")));
            }
            let address = said.split_once("listening on http://").map(|(_, rest)| rest);
            // An incomplete line has no end yet.
            if let Some((address, _)) = address.and_then(|rest| rest.split_once(['\n', ' '])) {
                server.address = address.trim_end_matches('/').parse().map_err(|e| {
                    Failure::broken(format!(
                        "the server printed an invalid address, {address}: {e}"
                    ))
                })?;
                let (status, _) = Connection::open(server.address)?
                    .exchange(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                    .map(|(status, body)| (status, body.len()))?;
                if status == 200 {
                    return Ok(server);
                }
            }
            if start.elapsed() > PATIENCE {
                return Err(Failure::broken(format!("the server was not ready in time: {said}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the resident memory of the server in bytes, or 0 if the system does not report it.
    pub(super) fn memory(&self) -> u64 {
        let pages = || {
            let text = read_to_string(format!("/proc/{}/statm", self.process.id())).ok()?;
            text.split(' ').nth(1)?.parse::<u64>().ok()
        };
        pages().unwrap_or(0) * rustix::param::page_size() as u64
    }

    /// Tells the server to end and waits for it.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        if let Some(id) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            rustix::process::kill_process(id, rustix::process::Signal::TERM)
                .map_err(std::io::Error::from)?;
        }
        let ended = self.process.wait()?;
        match ended.success() {
            true => Ok(()),
            false => Err(Failure::broken(format!("the server failed: {ended}"))),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
