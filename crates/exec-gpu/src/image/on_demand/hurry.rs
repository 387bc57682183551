//! Loading lists for a round that may have to stop: it loads as little as possible, and checks its
//! limit between lists.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use warpseek_exec::Limit;

use crate::image::error::ImageError;

/// Costs of loading a list, in nanoseconds: a transfer, per byte, and making tiles, per posting,
/// roughly.
pub(super) const BYTE: f32 = 0.05;
pub(super) const POSTING: f32 = 0.01;

/// Divisor of the time left: the part of it in which lists that are to stay are copied, or made.
const STAYING_PART: u32 = 4;

/// Time after which a lock that another round holds is tried again.
pub(super) const RETRY: Duration = Duration::from_micros(50);

/// The limit of a round, and the time of its pieces.
#[derive(Clone, Copy)]
pub(crate) struct Hurry<'a> {
    /// The limit that is checked.
    pub(crate) limit: &'a Limit,
    /// Time that making the tiles of a slice should take at most.
    pub(crate) piece: Duration,
}

/// The work for lists that are to stay on the device.
#[derive(Clone, Copy)]
pub(super) struct Allowance {
    /// Bytes that may be copied, and postings of which tiles may be made.
    bytes: u64,
    postings: u64,
}

impl Hurry<'_> {
    /// Returns an error if the round has to stop.
    pub(super) fn check(&self) -> Result<(), ImageError> {
        if self.limit.is_over() { Err(ImageError::Stopped) } else { Ok(()) }
    }

    /// Returns the maximum number of postings of which the tiles of a slice are made.
    pub(super) fn slice_postings(&self) -> u64 {
        (self.piece.as_nanos() as f64 / f64::from(POSTING)) as u64
    }
}

impl Allowance {
    /// Returns what a round may do, which is everything if it is in no hurry or has no deadline.
    pub(super) fn of(hurry: Option<Hurry<'_>>) -> Self {
        let Some(left) = hurry.and_then(|hurry| hurry.limit.left()) else {
            return Allowance { bytes: u64::MAX, postings: u64::MAX };
        };
        let within =
            |nanos: f32| ((left / STAYING_PART).as_nanos() as f64 / f64::from(nanos)) as u64;
        Allowance { bytes: within(BYTE), postings: within(POSTING) }
    }

    /// Takes bytes that are copied from the allowance, and returns false if it has too few.
    pub(super) fn copy(&mut self, bytes: u64) -> bool {
        take(&mut self.bytes, bytes)
    }

    /// Takes postings of which tiles are made from the allowance, and returns false if it has too
    /// few.
    pub(super) fn make(&mut self, postings: u64) -> bool {
        take(&mut self.postings, postings)
    }
}

fn take(left: &mut u64, amount: u64) -> bool {
    let rest = left.checked_sub(amount);
    *left = rest.unwrap_or(*left);
    rest.is_some()
}

/// Locks what other rounds may hold for long, unless the round has to stop first.
pub(super) fn lock_in_time<'a, T>(
    mutex: &'a Mutex<T>,
    hurry: Option<Hurry<'_>>,
) -> Result<MutexGuard<'a, T>, ImageError> {
    let Some(hurry) = hurry else {
        return Ok(mutex.lock().unwrap_or_else(PoisonError::into_inner));
    };
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => hurry.check()?,
        }
        std::thread::sleep(RETRY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpseek_exec::Cancel;

    #[test]
    fn what_stays_is_a_part_of_the_time_left() {
        let unlimited = Allowance::of(None);
        assert_eq!((unlimited.bytes, unlimited.postings), (u64::MAX, u64::MAX));
        let second = Duration::from_secs(1);
        let limit = Limit::none().after(std::time::Instant::now(), 4 * second);
        let mut some = Allowance::of(Some(Hurry { limit: &limit, piece: second }));
        assert!(some.bytes <= 20_000_000_000 && some.postings > 0, "{} bytes", some.bytes);
        let all = some.bytes;
        assert!(some.copy(all - 1) && !some.copy(2) && some.copy(1) && !some.copy(1));
        assert!(some.make(1) && !some.make(u64::MAX));
    }

    #[test]
    fn a_lock_is_not_awaited_after_the_search_was_stopped() {
        let (mutex, limit) = (Mutex::new(0), Limit::none().cancelled_by(Cancel::after(3)));
        let hurry = Some(Hurry { limit: &limit, piece: Duration::ZERO });
        let held = lock_in_time(&mutex, hurry).unwrap();
        assert!(matches!(lock_in_time(&mutex, hurry), Err(ImageError::Stopped)));
        drop(held);
        assert!(lock_in_time(&mutex, hurry).is_ok(), "a free lock needs no wait");
    }
}
