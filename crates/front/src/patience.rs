//! Timeouts for slow clients. A [`Pace`] is a budget of waiting time that received or sent bytes
//! replenish; [`Patient`] applies it, and timeouts for silence, to a connection.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

/// The text of the error for a client that is too slow.
pub const TOO_SLOW: &str = "the client is too slow";

/// Timeouts for slow clients. A connection that exceeds one is closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// Seconds for the head of a request to arrive, counted from its first byte, or from the
    /// start of the connection. Default: 30.
    pub head_s: u64,
    /// Seconds that a connection may stay idle after its last answer. Default: 75.
    pub idle_s: u64,
    /// Seconds to wait for a client that neither sends its body nor reads its answer. Default:
    /// 30.
    pub stall_s: u64,
    /// Bytes per second that a client must send or read. Slower clients gradually consume the
    /// budget of `stall_s`. Default: 1,024.
    pub bytes_per_second: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { head_s: 30, idle_s: 75, stall_s: 30, bytes_per_second: 1024 }
    }
}

/// A budget of time to wait for bytes. Waiting consumes it and bytes replenish it, so neither a
/// client that stops nor one that sends a byte now and then can take much longer than the limit.
struct Pace {
    limit: Duration,
    bytes_per_second: u64,
    left: Duration,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Pace {
    fn new(timeouts: &Timeouts) -> Self {
        let limit = Duration::from_secs(timeouts.stall_s);
        Pace {
            limit,
            bytes_per_second: timeouts.bytes_per_second.max(1),
            left: limit,
            waiting: None,
        }
    }

    /// Replenishes the budget after bytes were received or sent.
    fn moved(&mut self, bytes: usize) {
        if let Some((since, _)) = self.waiting.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
        let earned = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        self.left = (self.left + earned).min(self.limit);
    }

    /// Waits for bytes. Becomes ready with an error when the budget is used up.
    fn waits(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let left = self.left;
        let begin = || (Instant::now(), Box::pin(tokio::time::sleep(left)));
        let (_, sleep) = self.waiting.get_or_insert_with(begin);
        sleep.as_mut().poll(context).map(|()| too_slow())
    }
}

fn too_slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, TOO_SLOW)
}

/// The body of a request, which must arrive at the required pace.
pub(crate) struct PacedBody {
    body: Body,
    pace: Pace,
}

impl PacedBody {
    pub(crate) fn new(body: Body, timeouts: &Timeouts) -> Self {
        PacedBody { body, pace: Pace::new(timeouts) }
    }
}

impl HttpBody for PacedBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => {
                let bytes = match &frame {
                    Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
                    _ => 0,
                };
                self.pace.moved(bytes);
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => self.pace.waits(context).map(|error| Some(Err(error.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The current activity of a connection, which decides how long it may be silent.
#[derive(Clone, Default)]
pub(crate) struct Phase(Arc<AtomicU8>);

impl Phase {
    /// The connection waits for the rest of a request's head, or for its first request.
    const HEAD: u8 = 0;
    /// A request is being answered. A [`PacedBody`] limits the time of its body.
    const REQUEST: u8 = 1;
    /// All requests so far have been answered.
    const IDLE: u8 = 2;

    pub(crate) fn begin_request(&self) {
        self.0.store(Self::REQUEST, Ordering::Release);
    }

    pub(crate) fn end_request(&self) {
        self.0.store(Self::IDLE, Ordering::Release);
    }

    fn get(&self) -> u8 {
        self.0.load(Ordering::Acquire)
    }
}

/// A connection that fails if its client is silent, or does not read, for too long. It holds its
/// permit until it is dropped.
pub(crate) struct Patient {
    stream: TcpStream,
    phase: Phase,
    timeouts: Timeouts,
    /// The phase whose silence is being timed, and its timer.
    silence: Option<(u8, Pin<Box<Sleep>>)>,
    writing: Pace,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Patient {
    pub(crate) fn new(
        stream: TcpStream,
        timeouts: Timeouts,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let writing = Pace::new(&timeouts);
        Patient {
            stream,
            phase: Phase::default(),
            timeouts,
            silence: None,
            writing,
            _permit: permit,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.clone()
    }

    /// Becomes ready with an error once the client has been silent for too long in this phase.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let phase = self.phase.get();
        let seconds = match phase {
            Phase::HEAD => self.timeouts.head_s,
            Phase::IDLE => self.timeouts.idle_s,
            _ => {
                self.silence = None;
                return Poll::Pending;
            }
        };
        if self.silence.as_ref().is_none_or(|(timed, _)| *timed != phase) {
            let sleep = tokio::time::sleep(Duration::from_secs(seconds));
            self.silence = Some((phase, Box::pin(sleep)));
        }
        match &mut self.silence {
            Some((_, sleep)) => sleep.as_mut().poll(context).map(|()| too_slow()),
            None => Poll::Pending,
        }
    }

    fn written(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match done {
            Poll::Ready(Ok(bytes)) => {
                self.writing.moved(bytes);
                if self.phase.get() == Phase::IDLE {
                    // The last part of an answer: the idle time starts only now.
                    self.silence = None;
                    // The connection may not be read again before the time is up, so its timer
                    // must be registered here.
                    let _ = self.poll_silence(context);
                }
                done
            }
            Poll::Ready(Err(_)) => done,
            Poll::Pending => self.writing.waits(context).map(Err),
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        // The timer comes first, so that a client cannot postpone it by sending single bytes.
        if let Poll::Ready(error) = self.poll_silence(context) {
            return Poll::Ready(Err(error));
        }
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() && buffer.filled().len() > before && self.phase.get() == Phase::IDLE {
            self.phase.0.store(Phase::HEAD, Ordering::Release);
        }
        read
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.written(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
