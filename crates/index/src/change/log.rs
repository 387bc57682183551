//! A write-ahead log with group commit (docs/reference/formats/log.md).
//!
//! Threads append records to a buffer in memory and get tickets. One thread, the committer, takes
//! the buffered records, writes them as one batch and syncs it, while the next batch accumulates.
//! One sync thus serves many writes, whatever the number of threads, and a thread waits for the
//! disk only if it waits for its ticket.

mod committer;
mod record;
mod replay;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use committer::{Committer, Sink};
pub use record::{MAX_DOCUMENT_BYTES, Operation, Record};
pub use replay::{Replayed, replay_bytes};

use crate::directory::sync_dir;
use crate::error::{IndexError, Result};

/// Maximum number of bytes that may wait for the disk. Appending blocks beyond that, so that a
/// slow disk does not fill the memory.
const MOST_PENDING: usize = 64 << 20;

/// Guarantee that a ticket waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The write is on stable storage and survives a power failure.
    #[default]
    Synced,
    /// The operating system has the write. It survives the end of the process, but not a failure
    /// of the machine.
    Written,
    /// Like [`Written`](Self::Written), and the write is synced at most this much later.
    Every(Duration),
}

/// A log that is open for appending. Dropping it first writes and syncs everything that was
/// appended.
pub struct Log {
    shared: Arc<Shared>,
    committer: Option<JoinHandle<()>>,
}

/// A newly created file to which a log can switch.
pub struct NewLog {
    path: PathBuf,
    sink: Box<dyn Sink>,
}

/// The state shared by appending threads, the committer and tickets.
struct Shared {
    state: Mutex<State>,
    /// Notifies the committer that there are records, or that the log is to be closed.
    work: Condvar,
    /// Notifies all other threads that records were taken or became durable, or that the log has
    /// failed.
    progress: Condvar,
}

struct State {
    /// Path of the file that the committer writes to.
    path: PathBuf,
    /// Space for the head of a batch, followed by the records that the committer has not taken
    /// yet.
    pending: Vec<u8>,
    /// Sequence number of the next record.
    next: u64,
    /// Approximate size of the file once it has all appended records.
    bytes: u64,
    /// Sequence number below which all records are durable.
    durable: u64,
    /// The next file, if the log is to continue in another one.
    switch: Option<Switch>,
    closing: bool,
    /// The error with which the disk refused a batch. Nothing becomes durable after that: the
    /// batch may be on disk in part, or may have been lost from memory.
    failure: Option<Arc<io::Error>>,
}

/// The end of a file and the beginning of the next one.
struct Switch {
    /// Records that the old file still has to get, as in [`State::pending`].
    rest: Vec<u8>,
    /// Sequence number of the new file's first record.
    end: u64,
    next: NewLog,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the committer reports progress.
    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.progress.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check(&self) -> Result<()> {
        match &self.failure {
            None => Ok(()),
            Some(source) => {
                Err(IndexError::Log { path: self.path.clone(), source: source.clone() })
            }
        }
    }
}

impl Log {
    /// Creates a log, durably. Its first record gets the sequence number `first`. The file must
    /// not exist.
    pub fn create(path: &Path, first: u64, durability: Durability) -> Result<Self> {
        let NewLog { path, sink } = Self::prepare(path)?;
        Self::start(&path, sink, record::HEADER as u64, first, durability)
    }

    /// Creates the file of a log, durably. The file must not exist.
    pub fn prepare(path: &Path) -> Result<NewLog> {
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(IndexError::io(path))?;
        let written = file.write_all(&record::header()).and_then(|()| file.sync_all());
        written.map_err(IndexError::io(path))?;
        if let Some(dir) = path.parent() {
            sync_dir(if dir.as_os_str().is_empty() { Path::new(".") } else { dir })?;
        }
        Ok(NewLog { path: path.to_owned(), sink: Box::new(file) })
    }

    /// Opens a log whose first record has the sequence number `first`, calls `each` with its
    /// records in order, and continues after them. An incomplete batch at the end, left by a
    /// crash, is cut off.
    pub fn open(
        path: &Path,
        first: u64,
        durability: Durability,
        each: impl FnMut(Record<'_>) -> Result<()>,
    ) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(IndexError::io(path))?;
        let replayed = replay_bytes(path, &bytes, first, each)?;
        let end = replayed.end.max(record::HEADER as u64);
        let trim = || -> io::Result<File> {
            let mut file = File::options().write(true).open(path)?;
            if replayed.end < end {
                file.write_all(&record::header())?;
            }
            file.set_len(end)?;
            file.seek(SeekFrom::Start(end))?;
            // The heads of new batches record that everything before them is on stable storage.
            file.sync_all()?;
            Ok(file)
        };
        let file = trim().map_err(IndexError::io(path))?;
        Self::start(path, Box::new(file), end, replayed.next, durability)
    }

    /// Starts a log whose file has `len` bytes, all of them synced.
    fn start(
        path: &Path,
        sink: Box<dyn Sink>,
        len: u64,
        next: u64,
        durability: Durability,
    ) -> Result<Self> {
        let state = State {
            path: path.to_owned(),
            pending: vec![0; record::HEAD],
            next,
            bytes: len,
            durable: next,
            switch: None,
            closing: false,
            failure: None,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            progress: Condvar::new(),
        });
        let committer = Committer::new(shared.clone(), sink, len, next, durability);
        let thread = std::thread::Builder::new().name("warpseek-log".into());
        let committer = thread.spawn(move || committer.run()).map_err(IndexError::io(path))?;
        Ok(Log { shared, committer: Some(committer) })
    }

    /// Appends a record. Sequence numbers follow the order of calls. Fails without effect if the
    /// operation exceeds a limit, and fails if an earlier record could not be written.
    pub fn append(&self, operation: Operation<'_>) -> Result<Ticket> {
        operation.check()?;
        let mut state = self.shared.lock();
        while state.pending.len() > MOST_PENDING && state.failure.is_none() {
            state = self.shared.wait(state);
        }
        state.check()?;
        let (sequence, before) = (state.next, state.pending.len());
        Record { sequence, operation }.write(&mut state.pending);
        state.bytes += (state.pending.len() - before) as u64;
        state.next += 1;
        drop(state);
        self.shared.work.notify_one();
        Ok(Ticket { shared: self.shared.clone(), sequence })
    }

    /// Switches to another file for the records appended from now on, and returns the sequence
    /// number of the first of them.
    ///
    /// The old file is completed and closed, with everything appended before, before the new one
    /// gets any record. After a crash, a record is therefore never present without all records
    /// before it.
    pub fn switch(&self, next: NewLog) -> Result<u64> {
        let mut state = self.shared.lock();
        while state.switch.is_some() && state.failure.is_none() {
            state = self.shared.wait(state);
        }
        state.check()?;
        let rest = std::mem::replace(&mut state.pending, vec![0; record::HEAD]);
        let end = state.next;
        state.bytes = 0;
        state.switch = Some(Switch { rest, end, next });
        drop(state);
        self.shared.work.notify_one();
        Ok(end)
    }

    /// Returns the sequence number that the next record gets.
    pub fn next_sequence(&self) -> u64 {
        self.shared.lock().next
    }

    /// Returns the approximate size of the file in bytes, with all appended records.
    pub fn bytes(&self) -> u64 {
        self.shared.lock().bytes
    }

    /// Writes and syncs everything that was appended and closes the file. From then on, damage to
    /// the file can be distinguished from the effects of a crash.
    pub fn close(mut self) -> Result<()> {
        self.stop();
        self.shared.lock().check()
    }

    fn stop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.work.notify_one();
        if let Some(committer) = self.committer.take() {
            // The committer does not panic. If it did, its tickets have been notified.
            let _ = committer.join();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An appended record that is or will be durable. Dropping a ticket does not withdraw the record.
#[must_use = "a write is durable once its ticket was waited for"]
pub struct Ticket {
    shared: Arc<Shared>,
    sequence: u64,
}

impl Ticket {
    /// Returns the sequence number of the record.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns true if [`wait`](Self::wait) would return at once.
    pub fn is_done(&self) -> bool {
        let state = self.shared.lock();
        state.durable > self.sequence || state.failure.is_some()
    }

    /// Waits until the record is as durable as the log promises. After an error it is unknown
    /// whether the record will be there when the log is opened again.
    pub fn wait(self) -> Result<()> {
        let mut state = self.shared.lock();
        while state.durable <= self.sequence {
            state.check()?;
            state = self.shared.wait(state);
        }
        Ok(())
    }
}
