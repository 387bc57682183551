//! A limit on the speed of writing, for background merges.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum duration of a sleep. Shorter sleeps are deferred, because they would last longer than
/// requested.
const LEAST_SLEEP: Duration = Duration::from_millis(5);

/// A token bucket. Writers that share it write at most this many bytes per second together,
/// except for the few bytes that [`LEAST_SLEEP`] lets through.
pub(crate) struct Throttle {
    bytes_per_second: u64,
    /// Time at which all bytes so far may have been written.
    due: Mutex<Instant>,
}

impl Throttle {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Throttle { bytes_per_second: bytes_per_second.max(1), due: Mutex::new(Instant::now()) }
    }

    /// Waits until these bytes may be written.
    pub(crate) fn wait_for(&self, bytes: u64) {
        let wait = self.take(bytes, Instant::now());
        if wait >= LEAST_SLEEP {
            std::thread::sleep(wait);
        }
    }

    /// Returns the time to wait from `now` on for these bytes. Unused capacity is not saved up.
    fn take(&self, bytes: u64, now: Instant) -> Duration {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        *due =
            (*due).max(now) + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        *due - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_per_second_are_bounded() {
        let throttle = Throttle::new(1000);
        let start = Instant::now() + Duration::from_secs(1);
        let ms = Duration::from_millis;
        // A writer that waits as long as requested has written 1,000 bytes per second.
        let mut now = start;
        for _ in 0..100 {
            now += throttle.take(50, now);
        }
        assert_eq!(now - start, ms(5000));
        // Idle time is not saved up, and all writers share the debt.
        let later = now + ms(10_000);
        assert_eq!(throttle.take(100, later), ms(100));
        assert_eq!(throttle.take(100, later), ms(200));
        assert_eq!(throttle.take(0, later + ms(150)), ms(50));
    }
}
