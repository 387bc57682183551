//! The log on standard error. Lines about requests are buffered and written a few times per
//! second, because a write takes longer than formatting a line. Warnings and errors are written
//! at once, together with all lines before them.

use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use crate::operations::config::LogFormat;

/// Maximum time that a line waits in the buffer.
const TOGETHER: Duration = Duration::from_millis(50);

/// Size in bytes at which the buffer is written at once.
const MUCH: usize = 64 << 10;

static WAITING: Waiting = Waiting { lines: Mutex::new(Vec::new()), some: Condvar::new() };

struct Waiting {
    lines: Mutex<Vec<u8>>,
    /// Notified when the buffer becomes non-empty.
    some: Condvar,
}

impl Waiting {
    fn lines(&self) -> MutexGuard<'_, Vec<u8>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts logging. Has no effect in a program that has already installed a logger.
pub fn start(format: LogFormat) {
    let logs = tracing_subscriber::fmt().with_writer(Log).with_target(false);
    let started = match format {
        LogFormat::Pretty => {
            tracing::subscriber::set_global_default(logs.with_ansi(false).finish())
        }
        LogFormat::Json => {
            tracing::subscriber::set_global_default(logs.json().flatten_event(true).finish())
        }
    };
    if started.is_ok() {
        // Without this thread, lines are written when the buffer is full, and at the end.
        let _ = std::thread::Builder::new().name("warpseek-log".into()).spawn(write_now_and_then);
    }
}

fn write_now_and_then() {
    loop {
        let lines = WAITING.lines();
        let wait = WAITING.some.wait_while(lines, |lines| lines.is_empty());
        drop(wait.unwrap_or_else(PoisonError::into_inner));
        std::thread::sleep(TOGETHER);
        flush();
    }
}

/// Writes all buffered lines.
pub fn flush() {
    write(&mut WAITING.lines(), &mut io::stderr());
}

/// Writes all buffered lines unless another thread holds the buffer. For a process that has to
/// end now: the other thread may be blocked by a reader of standard error that has stalled.
pub(crate) fn try_flush() {
    if let Ok(mut lines) = WAITING.lines.try_lock() {
        write(&mut lines, &mut io::stderr());
    }
}

/// Writes and clears the buffer. The lock that callers hold keeps lines in order. Lines that
/// cannot be written are lost.
fn write(lines: &mut Vec<u8>, to: &mut impl Write) {
    let _ = to.write_all(lines);
    lines.clear();
}

/// The writer of log lines.
struct Log;

impl<'a> MakeWriter<'a> for Log {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { at_once: true }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line {
        Line { at_once: *metadata.level() <= Level::WARN }
    }
}

/// A line of the log.
struct Line {
    at_once: bool,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = WAITING.lines();
        let is_first = lines.is_empty();
        lines.extend_from_slice(bytes);
        if self.at_once || lines.len() >= MUCH {
            write(&mut lines, &mut io::stderr());
        } else if is_first {
            WAITING.some.notify_one();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_once_and_in_order() {
        let (mut lines, mut out) = (b"a\nb\n".to_vec(), Vec::new());
        write(&mut lines, &mut out);
        write(&mut lines, &mut out);
        assert_eq!((lines.as_slice(), out.as_slice()), (&b""[..], &b"a\nb\n"[..]));
    }
}
