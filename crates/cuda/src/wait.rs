//! Waiting for a device, with a limit. The driver's own waits have none: a kernel that never ends would keep whoever waits for ever.
//!
//! So nobody waits inside of the driver. Streams and events are asked whether they are done; what would wait there (freeing memory, copies to and from memory that is not locked)
//! comes after such a wait. When the limit has passed, the device counts as hung: every later call on it fails at once, and what it has is leaked on purpose, since the driver would wait
//! for the kernel before it gives anything back.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use super::context::lock;
use super::driver::{NOT_READY, Status};
use super::{DeviceError, stream};

/// How long work may take unless told otherwise: a hundred times as long as the longest batch seen.
const LIMIT: Duration = Duration::from_secs(60);

/// So long it is asked without a pause: a single query takes some 60 us, and must not be seen late.
const SPIN: Duration = Duration::from_micros(200);

/// So long other threads are let in between: a sleep takes some 60 us more than was asked for.
const YIELD: Duration = Duration::from_millis(2);

/// From then on it sleeps: a hundredth of the time so far, and no more than this.
const LONGEST_SLEEP: Duration = Duration::from_micros(100);

/// What a context knows about waiting.
pub(crate) struct Watch {
    /// In nanoseconds; the largest number is no limit.
    limit: AtomicU64,
    /// The error that all calls end with once the device hangs.
    hung: OnceLock<DeviceError>,
    /// All streams, for what waits for all of them. Those that are gone go when another one comes.
    streams: Mutex<Vec<Weak<stream::Inner>>>,
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

    /// Nothing, or the error of a device that hangs.
    pub(crate) fn check(&self) -> Result<(), DeviceError> {
        self.hung.get().cloned().map_or(Ok(()), Err)
    }

    /// Asks until the answer is another one than "not ready", and returns that; after the limit the device hangs, by one of the kernels that `ran` names.
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

    /// Keeps a stream in mind as long as it lives.
    pub(crate) fn add_stream(&self, stream: &Arc<stream::Inner>) {
        let mut streams = lock(&self.streams);
        streams.retain(|other| other.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    /// Waits for all streams, since the driver is about to do so without a limit. What is given to them meanwhile is not waited for.
    pub(crate) fn settle(&self) -> Result<(), DeviceError> {
        self.check()?;
        let streams: Vec<_> = lock(&self.streams).iter().filter_map(Weak::upgrade).collect();
        for stream in streams {
            // What it failed with is for those who wait for its work.
            self.until_ready(|| stream.ask_unless_recording(), || stream.ran())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_answer_comes_through_after_any_number_of_questions() {
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
    fn a_limit_ends_it_for_all() {
        let watch = Watch::default();
        watch.set_limit(Some(Duration::from_millis(5)));
        let ran = || vec!["one".to_owned()];
        let hung = DeviceError::Hung { ran: ran(), limit: Duration::from_millis(5) };
        assert_eq!(watch.until_ready(|| NOT_READY, ran), Err(hung.clone()));
        assert_eq!(watch.check(), Err(hung.clone()));
        // Who waits without a limit learns of it, too.
        watch.set_limit(None);
        assert_eq!(watch.until_ready(|| NOT_READY, Vec::new), Err(hung));
    }
}
