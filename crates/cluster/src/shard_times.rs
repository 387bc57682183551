//! A record of the time that each call to a shard took, for measurements.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Times that calls to shards took, in the order of the calls.
#[derive(Debug, Default)]
pub struct ShardTimes(Mutex<Vec<(u32, Duration)>>);

impl ShardTimes {
    pub(crate) fn note(&self, shard: u32, took: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((shard, took));
    }

    /// Returns the shard numbers and times recorded since the last call, and clears the record.
    pub fn take(&self) -> Vec<(u32, Duration)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
