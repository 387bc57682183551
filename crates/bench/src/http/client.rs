//! Connections that send requests and read answers. Each connection has a separate thread.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warpseek_console::{Failure, Interrupt};

use crate::random::Random;

/// Maximum time to wait for an answer before it is an error.
const PATIENCE: Duration = Duration::from_secs(60);

/// Requests that were answered within the time of a measurement.
pub(super) struct Sent {
    /// Milliseconds of each request, from its scheduled arrival or, without a schedule, from when
    /// it was sent.
    pub(super) times_ms: Vec<f64>,
    /// Number of requests that the server refused due to overload.
    pub(super) refused: u64,
    pub(super) seconds: f64,
}

/// Sends requests over several connections for some time, either at a rate or each as soon as the
/// previous one was answered.
pub(super) fn load(
    address: SocketAddr,
    requests: &[Vec<u8>],
    connections: usize,
    rate: Option<f64>,
    time: Duration,
    interrupt: &Interrupt,
) -> Result<Sent, Failure> {
    let arrivals = rate.map(|rate| arrivals(rate, time));
    let next = AtomicUsize::new(0);
    let connections: Vec<Connection> =
        (0..connections).map(|_| Connection::open(address)).collect::<Result<_, _>>()?;
    let start = Instant::now();
    let work = |mut connection: Connection| -> Result<(Vec<f64>, u64), Failure> {
        // A fine timer slack lets threads wake up on time.
        let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
        let (mut times, mut refused) = (Vec::new(), 0);
        while !interrupt.is_set() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let due = match &arrivals {
                Some(arrivals) => match arrivals.get(number) {
                    Some(&at) => start + at,
                    None => break,
                },
                None => Instant::now(),
            };
            if due.saturating_duration_since(start) >= time {
                break;
            }
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let (status, body) = connection.exchange(&requests[number % requests.len()])?;
            match status {
                200 => times.push(due.elapsed().as_secs_f64() * 1e3),
                429 | 503 => refused += 1,
                _ => {
                    let body = String::from_utf8_lossy(body).into_owned();
                    return Err(Failure::broken(format!("status {status}: {body}")));
                }
            }
        }
        Ok((times, refused))
    };
    let done: Vec<Result<(Vec<f64>, u64), Failure>> = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = connections
            .into_iter()
            .map(|connection| scope.spawn(move || work(connection)))
            .collect();
        let panicked = || Err(Failure::broken("a sending thread panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
    });
    let mut sent =
        Sent { times_ms: Vec::new(), refused: 0, seconds: start.elapsed().as_secs_f64() };
    for done in done {
        let (times, refused) = done?;
        sent.times_ms.extend(times);
        sent.refused += refused;
    }
    Ok(sent)
}

/// Clients that send requests and read no answers until they are dropped. The server has to close
/// such connections, and the clients open them again.
pub(super) struct Deaf {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Deaf {
    pub(super) fn start(address: SocketAddr, connections: u16, request: Vec<u8>) -> Self {
        let (ended, request) = (Arc::new(AtomicBool::new(false)), Arc::new(request));
        let one = |_| {
            let (ended, request) = (ended.clone(), request.clone());
            std::thread::spawn(move || {
                let mut stream = None;
                while !ended.load(Ordering::Relaxed) {
                    let open = || {
                        let stream = TcpStream::connect(address).ok()?;
                        stream.set_nonblocking(true).ok()?;
                        Some(stream)
                    };
                    stream = stream.or_else(open);
                    // Once all buffers are full, nothing more can be sent.
                    let sent = stream.as_mut().map(|stream| stream.write(&request));
                    match sent {
                        Some(Ok(bytes)) if bytes == request.len() => {}
                        Some(Err(e)) if e.kind() == ErrorKind::WouldBlock => {}
                        // The connection is broken, or the server closed it.
                        _ => stream = None,
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            })
        };
        let threads = (0..connections).map(one).collect();
        Deaf { ended, threads }
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Returns the times at which requests arrive independently of each other, relative to the start.
fn arrivals(rate: f64, time: Duration) -> Vec<Duration> {
    let all = Random(0x5eed).arrivals(1.0 / rate);
    all.take_while(|&at| at < time.as_secs_f64()).map(Duration::from_secs_f64).collect()
}

/// A connection that stays open.
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(super) fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Connection { stream, buffer: vec![0; 1 << 16] })
    }

    /// Sends a request and reads the answer; returns its status and body.
    pub(super) fn exchange(&mut self, request: &[u8]) -> Result<(u16, &[u8]), Failure> {
        self.stream.write_all(request)?;
        let (mut filled, mut whole) = (0, None);
        loop {
            if filled == self.buffer.len() {
                self.buffer.resize(2 * filled, 0);
            }
            match self.stream.read(&mut self.buffer[filled..])? {
                0 => return Err(Failure::broken("the server closed the connection")),
                more => filled += more,
            }
            if whole.is_none() {
                whole = head(&self.buffer[..filled])?;
            }
            if let Some((status, begin, length)) = whole
                && filled >= begin + length
            {
                return Ok((status, &self.buffer[begin..begin + length]));
            }
        }
    }
}

/// Returns the status of an answer, the position of its body, and the length of the body; `None`
/// if the head is incomplete.
fn head(bytes: &[u8]) -> Result<Option<(u16, usize, usize)>, Failure> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    let length = text.lines().skip(1).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    match (status, length) {
        (Some(status), Some(length)) => Ok(Some((status, end + 4, length))),
        _ => Err(Failure::broken(format!("the answer has no status or content-length: {text}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_answers() {
        let answer = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(head(answer).unwrap(), Some((429, answer.len() - 3, 3)));
        assert_eq!(head(&answer[..40]).unwrap(), None);
        assert!(head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }

    #[test]
    fn arrivals_have_their_rate_and_ascend() {
        let all = arrivals(10_000.0, Duration::from_secs(2));
        assert!((19_000..21_000).contains(&all.len()), "{}", all.len());
        assert!(all.is_sorted());
    }
}
