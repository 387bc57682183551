//! The thread that writes a log, batch by batch.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::record::{HEAD, HEADER, fill_head};
use super::{Durability, NewLog, Shared};

/// Maximum size of a buffer that is kept for the next batch.
const MOST_KEPT: usize = 8 << 20;

/// A destination of a log.
pub(super) trait Sink: Send {
    /// Appends all of the bytes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Returns once everything written is on stable storage.
    fn sync(&mut self) -> io::Result<()>;
}

impl Sink for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

pub(super) struct Committer {
    shared: Arc<Shared>,
    sink: Box<dyn Sink>,
    durability: Durability,
    /// Sequence number of the next batch's first record.
    first: u64,
    /// Length of the file.
    len: u64,
    /// Length of the part of the file that is on stable storage.
    synced: u64,
    /// Time at which the oldest byte that is not on stable storage was written.
    unsynced_since: Option<Instant>,
}

/// The records and instructions that the committer takes from the shared state.
struct Batch {
    /// Space for the head, followed by the records.
    bytes: Vec<u8>,
    /// Sequence number after that of the last record.
    end: u64,
    /// The file to switch to after this batch.
    next: Option<NewLog>,
    closing: bool,
}

impl Committer {
    pub(super) fn new(
        shared: Arc<Shared>,
        sink: Box<dyn Sink>,
        len: u64,
        first: u64,
        durability: Durability,
    ) -> Self {
        Committer { shared, sink, durability, first, len, synced: len, unsynced_since: None }
    }

    /// Writes batches until the log is closed or the disk fails.
    pub(super) fn run(mut self) {
        // No thread may wait forever, even if this one panics.
        struct Fail<'a>(&'a Shared, Option<io::Error>);
        impl Drop for Fail<'_> {
            fn drop(&mut self) {
                if let Some(error) = self.1.take() {
                    self.0.lock().failure = Some(Arc::new(error));
                    self.0.progress.notify_all();
                }
            }
        }
        let shared = self.shared.clone();
        let mut fail = Fail(&shared, Some(io::Error::other("the thread of the log has ended")));
        fail.1 = self.write_batches().err();
    }

    fn write_batches(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; HEAD];
        loop {
            let batch = self.next_batch(buffer);
            let has_records = batch.bytes.len() > HEAD;
            let mut bytes = batch.bytes;
            if has_records {
                self.write(&mut bytes)?;
            }
            if self.must_sync(batch.closing || batch.next.is_some()) {
                self.sink.sync()?;
                (self.synced, self.unsynced_since) = (self.len, None);
            }
            self.first = batch.end;
            self.shared.lock().durable = batch.end;
            self.shared.progress.notify_all();
            if batch.closing && !has_records {
                // The last head confirms all bytes before it. If the head itself gets lost,
                // nothing else does.
                return self.write(&mut bytes);
            }
            bytes.truncate(HEAD);
            bytes.shrink_to(MOST_KEPT);
            if let Some(next) = batch.next {
                self.write(&mut bytes)?;
                self.shared.lock().path = next.path;
                (self.sink, self.unsynced_since) = (next.sink, None);
                (self.len, self.synced) = (HEADER as u64, HEADER as u64);
            }
            buffer = bytes;
        }
    }

    /// Waits for records, for the time to sync, for another file, or for the log to be closed.
    /// `empty` becomes the buffer for later records.
    fn next_batch(&self, empty: Vec<u8>) -> Batch {
        let mut state = self.shared.lock();
        while state.pending.len() == HEAD && state.switch.is_none() && !state.closing {
            let work = &self.shared.work;
            state = match self.due() {
                None => work.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let left = due.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        if let Some(switch) = state.switch.take() {
            let (end, next) = (switch.end, Some(switch.next));
            return Batch { bytes: switch.rest, end, next, closing: false };
        }
        let bytes = std::mem::replace(&mut state.pending, empty);
        Batch { bytes, end: state.next, next: None, closing: state.closing }
    }

    /// Returns the time at which written bytes must be synced, or `None` if they are synced at
    /// once, not at all, or there are none.
    fn due(&self) -> Option<Instant> {
        match self.durability {
            // A time beyond the range of the clock never comes.
            Durability::Every(period) => self.unsynced_since?.checked_add(period),
            Durability::Synced | Durability::Written => None,
        }
    }

    fn must_sync(&self, closing: bool) -> bool {
        let wanted = match self.durability {
            Durability::Synced => true,
            Durability::Written => closing,
            Durability::Every(_) => closing || self.due().is_some_and(|due| due <= Instant::now()),
        };
        wanted && self.synced < self.len
    }

    /// Fills in the head of a batch and writes the batch.
    fn write(&mut self, batch: &mut [u8]) -> io::Result<()> {
        fill_head(batch, self.first, self.synced);
        self.sink.write(batch)?;
        self.len += batch.len() as u64;
        self.unsynced_since.get_or_insert_with(Instant::now);
        Ok(())
    }
}
