//! Opening an index for single writes, with recovery from its logs.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, RwLock};

use warpseek_text::ReaderConfig;

use super::batch::{Batch, LookedUp};
use super::pending::Pending;
use super::{LiveIndex, LiveOptions, Published, Writing, parse};
use crate::build::FullBlock;
use crate::change::log::{Durability, Log, Operation, Record, replay_bytes};
use crate::directory::{WriteLock, log_numbers, read_manifest, sync_dir};
use crate::error::{IndexError, Result};
use crate::files::manifest::{Content, LogEntry, Manifest, log_name};
use crate::snapshot::Snapshot;

/// Sequence number of the first write to an index without a log.
const FIRST: u64 = 1;

/// Flushes writes that are only in a log into segments, for writers that do not use logs.
pub(crate) fn settle(lock: WriteLock) -> Result<WriteLock> {
    if read_manifest(lock.dir())?.log.is_none() {
        return Ok(lock);
    }
    LiveIndex::with_lock(lock, LiveOptions::default())?.close_keeping_lock()
}

impl LiveIndex {
    pub(super) fn with_lock(lock: WriteLock, options: LiveOptions) -> Result<Self> {
        let snapshot = Arc::new(Snapshot::open_locked(&lock)?);
        let mut committed = snapshot.manifest().clone();
        check(&committed)?;
        let mut settings = Manifest { segments: Vec::new(), log: None, ..committed.clone() };
        let known = !committed.segments.is_empty()
            || committed.impacts.is_some()
            || committed.positions
            || committed.schema.is_some();
        let content = known.then_some(committed.content);
        let writing = match committed.log {
            Some(entry) => {
                let numbers = log_numbers(lock.dir(), entry.number)?;
                // The last log may have been created after the last commit.
                let last = numbers.last().map_or(0, |last| last + 1);
                settings.next_segment = settings.next_segment.max(last);
                let batch = Batch::new(&mut settings, options.shards())?;
                // Documents in the log were accepted before, so unknown fields are not refused
                // again.
                let static_field = settings.static_field.clone();
                let reader = ReaderConfig { static_field, ..settings.reader_config() };
                let snapshot = snapshot.clone();
                let replay = Replay { batch, settings, reader, content, snapshot };
                replay.run(&lock, entry, &numbers, options.durability)?
            }
            None => {
                let number = settings.next_segment;
                settings.next_segment += 1;
                let log =
                    Log::create(&lock.dir().join(log_name(number)), FIRST, options.durability)?;
                committed.log = Some(LogEntry { number, sequence: FIRST });
                committed.generation += 1;
                committed.next_segment = settings.next_segment;
                lock.commit(&committed)?;
                let batch = Batch::new(&mut settings, options.shards())?;
                Writing { log, batch, settings, content }
            }
        };
        let show = || Snapshot::of(lock.dir(), committed.clone(), snapshot.segments().to_vec());
        let (published, on_disk) = (Arc::new(show()?), Arc::new(show()?));
        let reader = committed.writing_config();
        let unrecorded = committed.static_field.is_none() && snapshot.has_statics();
        let live = LiveIndex {
            merging: Mutex::default(),
            flushing: Mutex::default(),
            refreshing: Mutex::default(),
            shards: RwLock::new(writing.batch.shards.clone()),
            writing: Mutex::new(writing),
            taken: AtomicU64::new(0),
            pending: Pending::default(),
            published: Published::new(published),
            committed: Published::new(on_disk),
            interrupted: AtomicBool::new(false),
            lock,
            options,
            reader,
            unrecorded,
        };
        // Publish the replayed writes.
        live.refresh()?;
        Ok(live)
    }
}

/// Refuses indexes whose segments cannot be built document by document.
fn check(manifest: &Manifest) -> Result<()> {
    let refuse = |what: &str| Err(IndexError::Refused { what: what.into() });
    if manifest.grams.is_some() {
        return refuse("an n-gram index takes no single writes; use `warpseek ngram add`");
    }
    if manifest.impacts.is_some_and(|impacts| impacts.documents == 0) {
        return refuse("a quantized index takes its first documents together; use `warpseek add`");
    }
    Ok(())
}

/// The state of a replay: a batch that is filled from logs.
struct Replay {
    batch: Batch,
    settings: Manifest,
    reader: ReaderConfig,
    content: Option<Content>,
    /// The snapshot on disk.
    snapshot: Arc<Snapshot>,
}

impl Replay {
    /// Reads the logs with these numbers, of which `entry` is the first, and opens the last one
    /// for appending.
    fn run(
        mut self,
        lock: &WriteLock,
        entry: LogEntry,
        numbers: &[u64],
        durability: Durability,
    ) -> Result<Writing> {
        let path = |number| lock.dir().join(log_name(number));
        let Some((&last, whole)) = numbers.split_last().filter(|_| numbers[0] == entry.number)
        else {
            let what = "the manifest names it, but it is missing";
            return Err(IndexError::corrupt(&path(entry.number), what));
        };
        let mut sequence = entry.sequence;
        for &number in whole {
            let path = path(number);
            // The process that wrote this log may have been killed before the log was on disk,
            // and later records must not get there first.
            File::open(&path).and_then(|log| log.sync_all()).map_err(IndexError::io(&path))?;
            let bytes = std::fs::read(&path).map_err(IndexError::io(&path))?;
            sequence =
                replay_bytes(&path, &bytes, sequence, |record| self.apply(&path, record))?.next;
        }
        sync_dir(lock.dir())?;
        let path = path(last);
        let log = Log::open(&path, sequence, durability, |record| self.apply(&path, record))?;
        Ok(Writing { log, batch: self.batch, settings: self.settings, content: self.content })
    }

    fn apply(&mut self, path: &Path, record: Record<'_>) -> Result<()> {
        let refused = |what: String| {
            IndexError::corrupt(path, format!("document of record {}: {what}", record.sequence))
        };
        let look_up = |id: &str| LookedUp::new(self.snapshot.clone(), id);
        match record.operation {
            Operation::Delete { id } => self.batch.delete(&Arc::from(id), &look_up(id)?),
            Operation::Put { id, document } => {
                let json = std::str::from_utf8(document).map_err(|e| refused(e.to_string()))?;
                let document = parse(json, &self.reader).map_err(|e| refused(e.to_string()))?;
                if document.id != id {
                    return Err(refused(format!(
                        "it has the id `{}` instead of `{id}`",
                        document.id
                    )));
                }
                let (ordinal, full) = self.batch.put(&Arc::from(id), &document, &look_up(id)?)?;
                self.batch.shards.lease().invert(ordinal, &document);
                full.map_or(Ok(()), FullBlock::compress)?;
                self.content = self.batch.content;
            }
        }
        Ok(())
    }
}
