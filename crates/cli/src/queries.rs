//! Reading of query files in batches.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use warpseek::OnError;
use warpseek_console::Failure;
use warpseek_console::terminal::note;

/// A query and its line number in the file.
pub(crate) struct Line {
    pub(crate) line: u64,
    pub(crate) id: String,
    pub(crate) text: String,
}

/// Most queries in the first batch; each later batch may have twice as many as the one before. So the first batch is
/// planned soon, and a few thousand queries make more than one batch: while one is answered, another is planned or
/// written.
const FIRST: usize = 1 << 12;

/// Batches of queries. A thread reads them, so that an interrupt is noticed while the input blocks.
pub(crate) struct Queries {
    pub(crate) name: String,
    /// Lines that were skipped because they are not queries.
    pub(crate) skipped: Arc<AtomicU64>,
    batches: Receiver<Result<Vec<Line>, Failure>>,
}

impl Queries {
    /// Opens a file, or standard input for `-`, with at most this many queries per batch.
    pub(crate) fn open(path: &Path, batch: usize, on_error: OnError) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let input: Box<dyn BufRead + Send> = if path == Path::new("-") {
            Box::new(BufReader::new(std::io::stdin()))
        } else {
            let file = File::open(path).map_err(|e| Failure::user(format!("{name}: {e}")))?;
            Box::new(BufReader::new(file))
        };
        let skipped = Arc::new(AtomicU64::new(0));
        let (ids, of) = (Ids::new(), skipped.clone());
        let mut reader = Reader { name: name.clone(), input, line: 0, ids, on_error, skipped: of };
        let (sender, batches) = sync_channel(1);
        std::thread::spawn(move || {
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

    /// The next batch, which is empty at the end of the input and when it is time to stop.
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

/// Number of ids that are remembered: the capacity of a hash table of 2^20 slots (9 MB), rounded down. `run --help`
/// states it.
const REMEMBERED: usize = 900_000;

/// Hashes of the first ids, eight bytes each. Their memory is reserved at once, and later ids are looked up but not
/// kept, so that memory does not grow with the number of queries. Two ids collide with a probability of 2^-64; the keys
/// are random, so a collision does not recur in the next run.
struct Ids {
    first: HashSet<u64>,
    hasher: RandomState,
}

impl Ids {
    fn new() -> Self {
        Ids { first: HashSet::with_capacity(REMEMBERED), hasher: RandomState::new() }
    }

    /// Whether no remembered id equals this one.
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
    input: Box<dyn BufRead + Send>,
    line: u64,
    ids: Ids,
    on_error: OnError,
    skipped: Arc<AtomicU64>,
}

impl Reader {
    fn batch(&mut self, size: usize) -> Result<Vec<Line>, Failure> {
        let (mut batch, mut bytes) = (Vec::new(), Vec::new());
        while batch.len() < size {
            bytes.clear();
            self.line += 1;
            let (name, line) = (&self.name, self.line);
            let fail = |what: String| Failure::user(format!("{name}:{line}: {what}"));
            if self.input.read_until(b'\n', &mut bytes).map_err(|e| fail(e.to_string()))? == 0 {
                break;
            }
            match parse(&bytes, line, &mut self.ids) {
                Ok(Some((id, text))) => batch.push(Line { line, id, text }),
                Ok(None) => {}
                Err(what) if self.on_error == OnError::Skip => {
                    note(format!("{name}:{line}: skipped: {what}"));
                    self.skipped.fetch_add(1, Ordering::Relaxed);
                }
                Err(what) => return Err(fail(what)),
            }
        }
        Ok(batch)
    }
}

/// The id and text of a line, or `None` if it is blank.
fn parse(bytes: &[u8], line: u64, ids: &mut Ids) -> Result<Option<(String, String)>, String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| "the query is not UTF-8; convert the file".to_owned())?;
    let text = text.trim_end_matches(['\n', '\r']);
    // Some editors put a byte order mark at the start of a file.
    let text = if line == 1 { text.trim_start_matches('\u{feff}') } else { text };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let (id, text) = match text.split_once('\t') {
        Some((id, text)) => (id.trim().to_owned(), text),
        None => (line.to_string(), text),
    };
    if id.is_empty() || id.contains(char::is_whitespace) {
        return Err(format!("`{id}` cannot be the id of a query in a TREC run"));
    }
    if !ids.is_new(&id) {
        let fix = "ids must be unique in a run; rename one of them";
        return Err(format!("an earlier query has the id `{id}` too; {fix}"));
    }
    Ok(Some((id, text.to_owned())))
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
