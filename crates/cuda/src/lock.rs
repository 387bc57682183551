//! Locks that survive a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the lock even after a panic in another thread: it guards counters and maps that are
/// always consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
