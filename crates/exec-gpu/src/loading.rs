//! Progress and cancellation of the copy of an index to the device.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use warpseek_index::IndexError;

/// The progress of copying an index to the device, and a switch to cancel the copy.
#[derive(Debug, Default)]
pub struct Loading {
    total: AtomicU64,
    postings: AtomicU64,
    bytes: AtomicU64,
    cancelled: AtomicBool,
}

impl Loading {
    /// Returns the number of postings copied so far, and the total; both are 0 before the copy
    /// begins.
    pub fn postings(&self) -> (u64, u64) {
        (self.postings.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Returns the number of bytes copied so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Requests that the copy ends. The device then returns to its previous state.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns true if cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Resets the counters and sets the total.
    pub(crate) fn start(&self, total: u64) {
        self.postings.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Forgets a cancellation that has ended a copy, so that it does not end the next one.
    pub(crate) fn clear(&self) {
        self.cancelled.store(false, Ordering::Relaxed);
    }

    /// Adds copied postings and bytes. Returns an error if the copy was cancelled.
    pub(crate) fn advance(&self, postings: u64, bytes: u64) -> Result<(), IndexError> {
        self.postings.fetch_add(postings, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.is_cancelled() {
            return Err(IndexError::Cancelled);
        }
        Ok(())
    }
}
