use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use warpseek_index::IndexError;

/// The copy of an index to the device, to show its progress or to cancel it.
#[derive(Debug, Default)]
pub struct Loading {
    total: AtomicU64,
    postings: AtomicU64,
    bytes: AtomicU64,
    cancelled: AtomicBool,
}

impl Loading {
    /// Postings copied so far, and the total; 0 before the copy begins.
    pub fn postings(&self) -> (u64, u64) {
        (self.postings.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Bytes copied so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Requests that the copy ends. The device is then as it was before.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Starts counting again.
    pub(crate) fn start(&self, total: u64) {
        self.postings.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Forgets a cancellation that has ended a copy, so that it does not end the next one.
    pub(crate) fn clear(&self) {
        self.cancelled.store(false, Ordering::Relaxed);
    }

    /// Adds what was copied; an error if the copy was cancelled.
    pub(crate) fn advance(&self, postings: u64, bytes: u64) -> Result<(), IndexError> {
        self.postings.fetch_add(postings, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.is_cancelled() {
            return Err(IndexError::Cancelled);
        }
        Ok(())
    }
}
