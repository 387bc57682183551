use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use warpseek_index::IndexError;

/// The copy of an index to the device, for those who watch it or end it.
#[derive(Debug, Default)]
pub struct Loading {
    total: AtomicU64,
    postings: AtomicU64,
    bytes: AtomicU64,
    cancelled: AtomicBool,
}

impl Loading {
    /// Postings copied so far, and all there are; 0 before it begins.
    pub fn postings(&self) -> (u64, u64) {
        (self.postings.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Bytes copied so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Asks it to end. The device is as it was before then.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to end.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Begins anew.
    pub(crate) fn start(&self, total: u64) {
        self.postings.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// So much more is there; an error if it is to end.
    pub(crate) fn advance(&self, postings: u64, bytes: u64) -> Result<(), IndexError> {
        self.postings.fetch_add(postings, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.is_cancelled() {
            return Err(IndexError::Cancelled);
        }
        Ok(())
    }
}
