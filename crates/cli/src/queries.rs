//! Query files, read in batches by a thread.

use std::collections::HashSet;
use std::fs::Metadata;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use warpseek::Error;
use warpseek::options::OnError;
use warpseek::query::{FileQuery, QueryReader};
use warpseek_console::Failure;
use warpseek_console::terminal::{counted, note};

use crate::arguments::Topics;

/// A query and its line number in the file.
pub(crate) struct Line {
    pub(crate) line: u64,
    pub(crate) id: String,
    pub(crate) text: String,
}

/// Maximum number of queries in the first batch; each later batch may have twice as many as the
/// one before. The first batch is therefore planned early, and a few thousand queries make more
/// than one batch, so that one is answered while others are planned or written.
const FIRST: usize = 1 << 12;

/// Batches of queries. A separate thread reads them, so that an interrupt is noticed while the
/// input blocks.
pub(crate) struct Queries {
    pub(crate) name: String,
    /// Lines that were skipped because they are not queries.
    pub(crate) skipped: Arc<AtomicU64>,
    batches: Receiver<Result<Vec<Line>, Failure>>,
}

impl Queries {
    /// Opens a file, or standard input for `-`, with at most this many queries per batch.
    pub(crate) fn open(
        path: &Path,
        batch: usize,
        on_error: OnError,
        topics: &Topics,
    ) -> Result<Self, Failure> {
        let (file, parts) = (path.to_owned(), topics.topic_field.clone());
        let open = move || -> Result<QueryReader, Failure> {
            Ok(QueryReader::open(&file, &parts).map_err(Error::from)?)
        };
        // The reading thread opens pipes, because their first bytes may take long to arrive.
        let opened = if is_pipe(path) { None } else { Some(open()?) };
        let name =
            if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() };
        let skipped = Arc::new(AtomicU64::new(0));
        let (ids, counter, place) = (Ids::new(), skipped.clone(), name.clone());
        let (sender, batches) = sync_channel(1);
        std::thread::spawn(move || {
            let input = match opened.map_or_else(open, Ok) {
                Ok(input) => input,
                // If the receiver is gone, the error is not needed.
                Err(error) => return drop(sender.send(Err(error))),
            };
            let mut reader = Reader { name: place, input, ids, on_error, skipped: counter };
            let mut size = batch.min(FIRST);
            loop {
                let read = reader.batch(size);
                size = batch.min(2 * size);
                let last = read.as_ref().map_or(true, Vec::is_empty);
                if sender.send(read).is_err() || last {
                    return;
                }
            }
        });
        Ok(Queries { name, skipped, batches })
    }

    /// Returns the next batch, which is empty at the end of the input and once `stop` returns true.
    pub(crate) fn next_batch(&self, stop: impl Fn() -> bool) -> Result<Vec<Line>, Failure> {
        while !stop() {
            match self.batches.recv_timeout(Duration::from_millis(50)) {
                Ok(batch) => return batch,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(Vec::new())
    }
}

/// Returns true if a path is standard input or another pipe.
fn is_pipe(path: &Path) -> bool {
    let is_pipe = |found: Metadata| !found.is_file() && !found.is_dir();
    path == Path::new("-") || path.metadata().is_ok_and(is_pipe)
}

/// Maximum number of ids in [`Ids`]: the capacity of a hash table of 2^20 slots (9 MB), rounded
/// down. `run --help` states it.
const REMEMBERED: usize = 900_000;

/// Hashes of the first ids, eight bytes each. Their memory is reserved at the start, and later ids
/// are looked up but not added, so that memory does not grow with the number of queries. Two ids
/// collide with a probability of 2^-64. The keys of the hash are random, so a collision does not
/// recur in the next run.
struct Ids {
    first: HashSet<u64>,
    hasher: RandomState,
}

impl Ids {
    fn new() -> Self {
        Ids { first: HashSet::with_capacity(REMEMBERED), hasher: RandomState::new() }
    }

    /// Returns true if no id in the table equals this one. Adds the id while the table has space.
    fn is_new(&mut self, id: &str) -> bool {
        let hash = self.hasher.hash_one(id);
        if self.first.len() < REMEMBERED {
            self.first.insert(hash)
        } else {
            !self.first.contains(&hash)
        }
    }
}

struct Reader {
    name: String,
    input: QueryReader,
    ids: Ids,
    on_error: OnError,
    skipped: Arc<AtomicU64>,
}

impl Reader {
    fn batch(&mut self, size: usize) -> Result<Vec<Line>, Failure> {
        let mut batch = Vec::new();
        while batch.len() < size {
            let query =
                self.input.next_query().map_err(|error| Failure::from(Error::from(error)))?;
            if let Some(notice) = self.input.take_notice() {
                note(notice);
            }
            let Some(query) = query else { break };
            let read = match query {
                Ok(FileQuery { line, id, text }) => match check_id(&id, &mut self.ids) {
                    Ok(()) => Ok(Line { line, id, text }),
                    Err(what) => Err((format!("{}:{line}", self.name), what)),
                },
                Err(error) => Err((error.location.to_string(), error.kind.to_string())),
            };
            match read {
                Ok(line) => batch.push(line),
                Err((place, what)) if self.on_error == OnError::Skip => {
                    note(format!("{place}: skipped: {what}"));
                    self.skipped.fetch_add(1, Ordering::Relaxed);
                }
                Err((place, what)) => return Err(Failure::user(format!("{place}: {what}"))),
            }
        }
        Ok(batch)
    }
}

/// Notes how many queries were skipped, if any.
pub(crate) fn note_skipped(skipped: u64) {
    if skipped > 0 {
        let were = if skipped == 1 { "was" } else { "were" };
        note(format!("{} {were} skipped", counted(skipped, "query")));
    }
}

/// Rejects a text that cannot be the id of a query of a run.
fn check_id(id: &str, ids: &mut Ids) -> Result<(), String> {
    if id.is_empty() || id.contains(char::is_whitespace) {
        let problem = "cannot be the id of a query in a TREC run: it is empty or has blanks";
        return Err(format!("`{id}` {problem}"));
    }
    if !ids.is_new(id) {
        let fix = "ids must be unique in a run; rename one of them";
        return Err(format!("an earlier query has the id `{id}` too; {fix}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ids_are_remembered_in_bounded_memory() {
        let mut ids = Ids::new();
        let room = ids.first.capacity();
        for i in 0..REMEMBERED {
            assert!(ids.is_new(&i.to_string()), "{i}");
        }
        for _ in 0..2 {
            assert!(ids.is_new("later"), "not remembered");
        }
        assert!(!ids.is_new("0") && !ids.is_new(&(REMEMBERED - 1).to_string()));
        assert_eq!(ids.first.capacity(), room);
    }
}
