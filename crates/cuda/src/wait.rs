//! Waiting for a device, with a limit. The driver's own waits have no limit: if a kernel never
//! ended, the caller would wait forever.
//!
//! Therefore no thread waits inside the driver. Streams and events are polled; driver calls that
//! would wait (freeing memory, copies to and from memory that is not page-locked) come after such
//! a wait. When the limit has passed, the device counts as hung: every later call on it fails at
//! once, and its objects are leaked on purpose, since the driver would wait for the kernel before
//! it freed anything.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use super::DeviceError;
use super::driver::{NOT_READY, Status};
use super::lock::lock;

/// Default time limit: a hundred times as long as the longest batch measured.
const LIMIT: Duration = Duration::from_secs(60);

/// Time for which the device is polled without a pause: a single query takes about 60 us, and its
/// end must be noticed at once.
const SPIN: Duration = Duration::from_micros(200);

/// Time for which the thread yields to other threads between polls: a sleep takes about 60 us
/// longer than requested.
const YIELD: Duration = Duration::from_millis(2);

/// Longest sleep between polls. After `YIELD`, the thread sleeps for a hundredth of the time so
/// far.
const LONGEST_SLEEP: Duration = Duration::from_micros(100);

/// Work on the device that can be waited for: that of a stream.
pub(crate) trait Work: Send + Sync {
    /// Asks the driver whether the work is done.
    fn status(&self) -> Status;

    /// Returns the names of the kernels for which no caller has waited.
    fn kernels(&self) -> Vec<String>;
}

/// The state of waiting, per context.
pub(crate) struct Watch {
    /// Time limit in nanoseconds; the largest number means no limit.
    limit: AtomicU64,
    /// The error that all calls return once the device hangs.
    hung: OnceLock<DeviceError>,
    /// All streams, for calls that wait for all of them. Streams that no longer exist are removed
    /// when another one is added.
    streams: Mutex<Vec<Weak<dyn Work>>>,
}

impl Default for Watch {
    fn default() -> Self {
        let watch =
            Watch { limit: AtomicU64::new(0), hung: OnceLock::new(), streams: Mutex::default() };
        watch.set_limit(Some(LIMIT));
        watch
    }
}

impl Watch {
    pub(crate) fn set_limit(&self, limit: Option<Duration>) {
        let nanos = limit.map_or(u64::MAX, |l| u64::try_from(l.as_nanos()).unwrap_or(u64::MAX));
        self.limit.store(nanos, Ordering::Relaxed);
    }

    fn limit(&self) -> Option<Duration> {
        let nanos = self.limit.load(Ordering::Relaxed);
        (nanos < u64::MAX).then(|| Duration::from_nanos(nanos))
    }

    /// Returns the error of a device that hangs.
    pub(crate) fn check(&self) -> Result<(), DeviceError> {
        self.hung.get().cloned().map_or(Ok(()), Err)
    }

    /// Polls until the status is not "not ready", and returns it. After the limit the device
    /// counts as hung; the error names the kernels that `ran` returns.
    pub(crate) fn until_ready(
        &self,
        ask: impl Fn() -> Status,
        ran: impl FnOnce() -> Vec<String>,
    ) -> Result<Status, DeviceError> {
        let mut status = ask();
        if status != NOT_READY {
            return Ok(status);
        }
        let start = Instant::now();
        loop {
            let waited = start.elapsed();
            if waited < SPIN {
                (0..8).for_each(|_| spin_loop());
            } else {
                self.check()?;
                if let Some(limit) = self.limit()
                    && waited >= limit
                {
                    let hung = DeviceError::Hung { ran: ran(), limit };
                    return Err(self.hung.get_or_init(|| hung).clone());
                }
                if waited < YIELD {
                    std::thread::yield_now();
                } else {
                    std::thread::sleep((waited / 100).min(LONGEST_SLEEP));
                }
            }
            status = ask();
            if status != NOT_READY {
                return Ok(status);
            }
        }
    }

    /// Keeps a weak reference to a stream.
    pub(crate) fn add(&self, stream: Weak<dyn Work>) {
        let mut streams = lock(&self.streams);
        streams.retain(|other| other.strong_count() > 0);
        streams.push(stream);
    }

    /// Waits for all streams, because the driver is about to do so without a limit. Work that
    /// streams receive during the wait is not waited for.
    pub(crate) fn settle(&self) -> Result<(), DeviceError> {
        self.check()?;
        let streams: Vec<_> = lock(&self.streams).iter().filter_map(Weak::upgrade).collect();
        for stream in streams {
            // If the work failed, the error belongs to the callers that wait for it.
            self.until_ready(|| stream.status(), || stream.kernels())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_status_is_returned_after_any_number_of_polls() {
        for questions in [0, 1, 100, 10_000] {
            let left = Cell::new(questions);
            let ask = || match left.get() {
                0 => 719,
                n => {
                    left.set(n - 1);
                    NOT_READY
                }
            };
            assert_eq!(Watch::default().until_ready(ask, Vec::new), Ok(719));
        }
    }

    #[test]
    fn after_the_limit_all_calls_fail() {
        let watch = Watch::default();
        watch.set_limit(Some(Duration::from_millis(5)));
        let ran = || vec!["one".to_owned()];
        let hung = DeviceError::Hung { ran: ran(), limit: Duration::from_millis(5) };
        assert_eq!(watch.until_ready(|| NOT_READY, ran), Err(hung.clone()));
        assert_eq!(watch.check(), Err(hung.clone()));
        // A caller that waits without a limit gets the error, too.
        watch.set_limit(None);
        assert_eq!(watch.until_ready(|| NOT_READY, Vec::new), Err(hung));
    }
}
