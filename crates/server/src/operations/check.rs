//! A readiness probe for health checks on machines without another HTTP client.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Timeout of each step.
const PATIENCE: Duration = Duration::from_secs(4);

/// Checks that the server at a URL such as `http://127.0.0.1:9200` is ready; the error gives the
/// reason.
pub fn check(url: &str) -> Result<(), String> {
    let host = url.strip_prefix("http://").map(|host| host.trim_end_matches('/'));
    let Some(host) = host.filter(|host| !host.is_empty() && !host.contains(['/', '@', '?', '#']))
    else {
        return Err(format!("{url} cannot be checked; write it as http://127.0.0.1:9200"));
    };
    let failed = |e: std::io::Error| format!("{url}: {e}");
    let with_port = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let address = with_port.to_socket_addrs().map_err(failed)?.next();
    let address = address.ok_or_else(|| format!("{url}: the address cannot be resolved"))?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    write!(stream, "GET /readyz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")
        .map_err(failed)?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).map_err(failed)?;
    match &head {
        b"HTTP/1.1 200" => Ok(()),
        b"HTTP/1.1 403" => Err(format!(
            "{url} does not answer to this host name; use an address it listens on, or add the host to its allowed_hosts"
        )),
        head => Err(format!("{url} is not ready: {}", String::from_utf8_lossy(head))),
    }
}
