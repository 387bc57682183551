//! An index that takes single writes from many threads.
//!
//! The thread that makes a write appends it to the log, numbers it in the batch of writes since
//! the last refresh, and inverts it there at once, so that little is left for a refresh. A
//! refresh turns the batch into a segment in memory, deletes the documents that it replaces, and
//! publishes a new snapshot. A flush merges the segments in memory into one on disk and commits
//! it, together with the number of the first log that the commit does not cover: after a crash,
//! exactly the writes that no segment contains are replayed from logs. Segments on disk are
//! merged concurrently; documents deleted during a merge are deleted in its result.
//!
//! The index on disk has the state of the last flush, deletions included. A document replaced
//! since then is still visible to readers in other processes, because its successor is not.
//!
//! Locks are taken in this order: `merging` (one merge), `flushing` (one flush, or the end of a
//! merge), `refreshing` (one refresh, or another publication), a shard of the batch (during an
//! inversion), `writing` (a write, for the time of some copies in memory), and then the locks
//! that are held for a moment: those of the log, of pending writes, of the committed and of the
//! published snapshot. Readers need only the last of them.

mod batch;
mod export;
mod flush;
mod merging;
mod patch;
mod pending;
mod policy;
mod published;
mod recover;
mod replace;

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use batch::{Batch, Finished, LookedUp, Shards, content_of};
use pending::Pending;
pub use published::Published;
pub(crate) use recover::settle;
use warpseek_core::limits::MAX_DOCS;
use warpseek_text::{Document, ReaderConfig, Schema};

use crate::build::{FullBlock, Progress};
use crate::change::delete::{delete_documents, extend, write_deletes};
use crate::change::log::{Durability, Log, Operation, Ticket};
use crate::change::static_field::unrecorded_static_field;
use crate::directory::{WriteLock, read_manifest};
use crate::error::{IndexError, Result};
use crate::files::container::{Kind, SealedWriter};
use crate::files::deletes::{Deletes, DocSet};
use crate::files::manifest::{Content, DeletesEntry, Manifest, StoreMode};
use crate::segment::Segment;
use crate::snapshot::Snapshot;

/// Options of an index that takes single writes.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// Guarantee that a ticket waits for. Default: the write is on stable storage.
    pub durability: Durability,
    /// Threads of a refresh or flush. Default: one per core.
    pub threads: usize,
    /// Memory in bytes for postings of writes that are not refreshed. Default: 256 MiB.
    ///
    /// A write that exceeds it refreshes the index. If the segments in memory or the log grow
    /// larger than this, they should be flushed ([`LiveIndex::wants_flush`]).
    pub memory: usize,
    /// Maximum rate of background merges in bytes written per second. Default: 64 MiB.
    pub merge_rate: Option<u64>,
}

/// Maximum number of documents that are inverted at the same time. With more shards, fewer words
/// are shared within each and a refresh takes longer.
const MOST_SHARDS: usize = 4;

/// Maximum memory of a batch, whatever the options: inverters have 32-bit offsets.
const MOST_MEMORY: usize = 2 << 30;

/// Approximate bytes that a write takes besides its document and its id.
const BYTES_A_WRITE: usize = 300;

impl Default for LiveOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        LiveOptions {
            durability: Durability::default(),
            threads,
            memory: 256 << 20,
            merge_rate: Some(64 << 20),
        }
    }
}

impl LiveOptions {
    fn shards(&self) -> usize {
        self.threads.clamp(1, MOST_SHARDS)
    }
}

/// An index that is open for single writes.
///
/// It holds the lock of the index until it is closed or dropped. Writes that were not flushed
/// when it is dropped are in the log, where the next writer finds them.
pub struct LiveIndex {
    lock: WriteLock,
    options: LiveOptions,
    /// Settings for parsing documents.
    reader: ReaderConfig,
    /// True if documents have static scores from a field that the index does not record, so that
    /// new documents would have none.
    unrecorded: bool,
    merging: Mutex<()>,
    flushing: Mutex<()>,
    refreshing: Mutex<()>,
    writing: Mutex<Writing>,
    /// The shards of the batch that is being written.
    shards: RwLock<Arc<Shards>>,
    /// Number of documents of a batch that a refresh took and has not published yet.
    taken: AtomicU64,
    pending: Pending,
    published: Published,
    /// The snapshot of the index on disk.
    committed: Published,
    /// Set if a refresh has failed, so that the published snapshot lacks writes that are neither
    /// pending nor in the batch.
    interrupted: AtomicBool,
}

/// The state that a writer needs.
struct Writing {
    log: Log,
    batch: Batch,
    /// A manifest without segments: the settings of the index, and the next number of a segment
    /// or log.
    settings: Manifest,
    /// The kind of the documents, text or vectors; `None` while there are no documents.
    content: Option<Content>,
}

impl LiveIndex {
    /// Opens the index in `dir` for writing. Writes that an earlier writer did not flush are
    /// replayed from its log and are part of the first snapshot.
    pub fn open(dir: &Path, options: LiveOptions) -> Result<Self> {
        // If the directory holds no index, not even a lock is created.
        read_manifest(dir)?;
        Self::with_lock(WriteLock::take(dir)?, options)
    }

    /// Returns the directory of the index.
    pub fn dir(&self) -> &Path {
        self.lock.dir()
    }

    /// Returns the field that holds the static scores of documents, if they have any.
    pub fn static_field(&self) -> Option<&str> {
        self.reader.static_field.as_deref()
    }

    /// Adds a document or replaces the one with the same id. `json` is a single object on one
    /// line, as in JSONL.
    pub fn put(&self, json: &str) -> Result<Ticket> {
        let Ok(ticket) = self.write(json, |_, _| Ok(Ok::<_, Infallible>(())))?;
        Ok(ticket)
    }

    /// Adds a document, or returns [`IndexError::Conflict`] if its id already exists. If several
    /// threads create the same id, only one succeeds.
    pub fn create(&self, json: &str) -> Result<Ticket> {
        self.write(json, |id, looked| match self.contains_now(id, looked)? {
            false => Ok(Ok(())),
            true => Ok(Err(IndexError::Conflict { id: id.to_owned() })),
        })?
    }

    /// Checks a document as [`put`](Self::put) does, against a schema that the index is about to
    /// get. Returns the error with which the document would be refused. Writes nothing.
    pub fn check(&self, json: &str, schema: &Arc<Schema>) -> Result<()> {
        if self.unrecorded {
            return Err(unrecorded_static_field());
        }
        let reader = ReaderConfig { schema: Some(schema.clone()), ..self.reader.clone() };
        let document = parse(json, &reader)?;
        let others = self.taken.load(Ordering::Relaxed) + u64::from(self.snapshot().doc_limit());
        self.writing()?.check(&document, others)
    }

    /// Updates the document with an id by a JSON merge patch (RFC 7396) and returns `None` if
    /// there is no such document.
    ///
    /// Fields of the patch replace those of the document, objects are patched recursively, and
    /// `null` removes a field. The update is atomic. The id cannot be changed, and the index must
    /// store whole documents.
    pub fn update(&self, id: &str, patch: &str) -> Result<Option<Ticket>> {
        if self.snapshot().manifest().store != StoreMode::All {
            let what =
                "the index stores only ids, so documents cannot be updated; put the whole document";
            return Err(IndexError::Refused { what: what.into() });
        }
        let patch = patch::parse(patch)?;
        loop {
            let Some(before) = self.get(id)? else { return Ok(None) };
            let after = patch::apply(&before, &patch)?;
            // If another thread has changed the document since, the patch is applied to the new
            // version.
            if let Some(ticket) = self.replace(id, &before, &after)? {
                return Ok(Some(ticket));
            }
        }
    }

    /// Replaces the document with an id by another with the same id, if it still equals `before`,
    /// as [`get`](Self::get) returned it. The replacement is atomic. Returns `None` if the
    /// document has been changed or deleted.
    pub fn replace(&self, id: &str, before: &[u8], json: &str) -> Result<Option<Ticket>> {
        let written = self.write(json, |new, _| {
            if new != id {
                let what = format!("document `{id}` cannot change its id to `{new}`");
                return Err(IndexError::Refused { what });
            }
            Ok(if self.get(id)?.as_deref() == Some(before) { Ok(()) } else { Err(()) })
        });
        Ok(written?.ok())
    }

    /// Deletes a document. Returns `None` if there is none with this id.
    pub fn delete(&self, id: &str) -> Result<Option<Ticket>> {
        self.delete_when(id, |looked| self.contains_now(id, looked))
    }

    /// Deletes the document with an id if it still equals `before`, as [`get`](Self::get)
    /// returned it. The deletion is atomic. Returns `None` if the document has been changed or
    /// deleted.
    pub fn delete_if(&self, id: &str, before: &[u8]) -> Result<Option<Ticket>> {
        self.delete_when(id, |_| Ok(self.get(id)?.as_deref() == Some(before)))
    }

    /// Deletes a document if `admit` returns true, in which case the document must exist.
    fn delete_when(
        &self,
        id: &str,
        admit: impl FnOnce(&LookedUp) -> Result<bool>,
    ) -> Result<Option<Ticket>> {
        let looked = LookedUp::new(self.snapshot(), id)?;
        let mut writing = self.writing()?;
        if !admit(&looked)? {
            return Ok(None);
        }
        let ticket = writing.log.append(Operation::Delete { id })?;
        let id: Arc<str> = Arc::from(id);
        writing.batch.shards.add_memory(2 * id.len() + BYTES_A_WRITE);
        writing.batch.delete(&id, &looked);
        self.pending.insert(id, None);
        Ok(Some(ticket))
    }

    /// Writes a document if `admit` accepts its id, and otherwise returns the reason that `admit`
    /// gave. No other write happens between the check and the write.
    fn write<R>(
        &self,
        json: &str,
        admit: impl Fn(&str, &LookedUp) -> Result<Result<(), R>>,
    ) -> Result<Result<Ticket, R>> {
        if self.unrecorded {
            return Err(unrecorded_static_field());
        }
        let document = parse(json, &self.reader)?;
        let id: Arc<str> = Arc::from(&*document.id);
        // The bytes that the store will hold.
        let mut bytes = Vec::new();
        document.write_json(&mut bytes);
        let looked = LookedUp::new(self.snapshot(), &id)?;
        loop {
            let shards = self.shards.read().unwrap_or_else(PoisonError::into_inner).clone();
            let mut lease = shards.lease();
            let mut writing = self.writing()?;
            if !Arc::ptr_eq(&writing.batch.shards, &shards) {
                // A refresh has taken the batch.
                continue;
            }
            let others =
                self.taken.load(Ordering::Relaxed) + u64::from(self.snapshot().doc_limit());
            writing.check(&document, others)?;
            if let Err(reason) = admit(&id, &looked)? {
                return Ok(Err(reason));
            }
            let operation = Operation::Put { id: &id, document: json.as_bytes() };
            let ticket = writing.log.append(operation)?;
            // The log has the write, so from here on a failure to index it must interrupt the
            // index.
            let unfinished = self.unfinished();
            let (ordinal, full) = writing.batch.put(&id, &document, &looked)?;
            writing.content = writing.batch.content;
            // The bytes wait to be stored, and to be read by id.
            shards.add_memory(2 * bytes.len() + 2 * id.len() + BYTES_A_WRITE);
            self.pending.insert(id, Some(bytes));
            drop(writing);
            lease.invert(ordinal, &document);
            full.map_or(Ok(()), FullBlock::compress)?;
            unfinished.finish();
            drop(lease);
            let most = self.options.memory.min(MOST_MEMORY);
            if shards.memory() > most {
                self.refresh_if(|batch| batch.shards.memory() > most)?;
            }
            return Ok(Ok(ticket));
        }
    }

    /// Returns the newest document with an id as JSON, refreshed or not; `None` if there is none,
    /// or if the index stores only ids.
    pub fn get(&self, id: &str) -> Result<Option<Vec<u8>>> {
        let keeps_all = self.snapshot().manifest().store == StoreMode::All;
        let kept = |document: Option<&[u8]>| document.filter(|_| keeps_all).map(<[u8]>::to_vec);
        if let Some(document) = self.pending.get(id, kept) {
            return Ok(document);
        }
        // A refresh publishes its snapshot before it forgets pending writes, so a write that was
        // not pending is in this snapshot.
        let snapshot = self.snapshot();
        // A process that only writes also reads documents to change them, and must notice damage.
        snapshot.forget_if_due();
        snapshot.find_id(id)?.map_or(Ok(None), |doc| snapshot.document(doc))
    }

    /// Returns true if there is a document with an id, refreshed or not.
    pub fn contains(&self, id: &str) -> Result<bool> {
        match self.pending.get(id, |document| document.is_some()) {
            Some(is_there) => Ok(is_there),
            None => Ok(self.snapshot().find_id(id)?.is_some()),
        }
    }

    /// Returns true if there is a document with an id. The caller must hold the right to write.
    /// The result of the earlier lookup is valid unless a snapshot has been published since.
    fn contains_now(&self, id: &str, looked: &LookedUp) -> Result<bool> {
        match self.pending.get(id, |document| document.is_some()) {
            Some(is_there) => Ok(is_there),
            None if self.snapshot().id() == looked.snapshot.id() => Ok(looked.location.is_some()),
            None => Ok(self.snapshot().find_id(id)?.is_some()),
        }
    }

    /// Returns the snapshot of the last refresh or flush.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.published.snapshot()
    }

    /// Returns a handle to [`snapshot`](Self::snapshot) that outlives the index. Once the index
    /// is closed, the handle keeps its last snapshot.
    pub fn published(&self) -> Published {
        self.published.clone()
    }

    /// Publishes a snapshot that contains all writes so far, durable or not. Returns the current
    /// snapshot if there are no writes since.
    pub fn refresh(&self) -> Result<Arc<Snapshot>> {
        self.refresh_if(|batch| !batch.is_empty())
    }

    fn refresh_if(&self, is_due: impl FnOnce(&Batch) -> bool) -> Result<Arc<Snapshot>> {
        let _refreshing = self.refreshing();
        let batch = {
            let mut writing = self.writing()?;
            if !is_due(&writing.batch) {
                return Ok(self.snapshot());
            }
            self.take_batch(&mut writing)?
        };
        let unfinished = self.unfinished();
        let snapshot = self.apply(batch)?;
        unfinished.finish();
        Ok(snapshot)
    }

    /// Takes the writes so far; later ones go to a new batch.
    fn take_batch(&self, writing: &mut Writing) -> Result<Batch> {
        let next = Batch::new(&mut writing.settings, self.options.shards())?;
        *self.shards.write().unwrap_or_else(PoisonError::into_inner) = next.shards.clone();
        let batch = std::mem::replace(&mut writing.batch, next);
        self.taken.store(u64::from(batch.documents()), Ordering::Relaxed);
        self.pending.rotate();
        Ok(batch)
    }

    /// Publishes the writes of a taken batch. If this fails, only the log still has them.
    fn apply(&self, batch: Batch) -> Result<Arc<Snapshot>> {
        let snapshot = match batch.is_empty() {
            true => self.snapshot(),
            false => self.with_batch(batch)?,
        };
        self.published.set(snapshot.clone());
        self.taken.store(0, Ordering::Relaxed);
        self.pending.forget();
        Ok(snapshot)
    }

    /// Builds a snapshot from the published one and the writes of a batch.
    fn with_batch(&self, batch: Batch) -> Result<Arc<Snapshot>> {
        let (old, threads, progress) = (self.snapshot(), self.options.threads, Progress::default());
        let mut manifest = old.manifest().clone();
        let mut segments = old.segments().to_vec();
        manifest.generation = self.next_generation();
        manifest.content = batch.content.unwrap_or(manifest.content);
        manifest.next_segment = manifest.next_segment.max(batch.number() + 1);
        let replaced = batch.replaced(&old)?;
        for (at, deletes) in delete_documents(&old, &replaced, threads, &progress)? {
            let segment = &mut segments[at];
            manifest.segments[at].deletes = Some(in_memory(&deletes, segment, &manifest)?);
            *segment = Arc::new(segment.with(segment.base(), Some(deletes)));
        }
        let Finished { segment, superseded } = batch.finish(old.doc_limit(), threads)?;
        if let Some((mut entry, mut segment)) = segment {
            if !superseded.is_empty() {
                let mut gone = DocSet::new(segment.documents().count());
                for &doc in &superseded {
                    assert!(gone.insert(doc));
                }
                let deletes = extend(&manifest, &segment, &gone, threads, &progress)?;
                entry.deletes = Some(in_memory(&deletes, &segment, &manifest)?);
                segment = segment.with(segment.base(), Some(deletes));
            }
            manifest.segments.push(entry);
            segments.push(Arc::new(segment));
        }
        Snapshot::of(self.dir(), manifest, segments).map(Arc::new)
    }

    /// Takes the right to write, or returns an error if a refresh has failed.
    fn writing(&self) -> Result<MutexGuard<'_, Writing>> {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        match self.interrupted.load(Ordering::Relaxed) {
            false => Ok(writing),
            true => Err(IndexError::Interrupted { dir: self.dir().to_owned() }),
        }
    }

    /// Takes the right to publish.
    fn refreshing(&self) -> MutexGuard<'_, ()> {
        self.refreshing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the snapshot of the index on disk, which only the holder of `flushing` changes.
    fn committed(&self) -> Arc<Snapshot> {
        self.committed.snapshot()
    }

    /// Marks the index in memory as incomplete, so that no further writes are accepted.
    fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
    }

    /// Returns a guard that interrupts the index unless the operation finishes, even if it
    /// panics.
    fn unfinished(&self) -> Unfinished<'_> {
        Unfinished { live: self, is_finished: false }
    }
}

/// A guard that interrupts the index when it is dropped unfinished.
struct Unfinished<'a> {
    live: &'a LiveIndex,
    is_finished: bool,
}

impl Unfinished<'_> {
    fn finish(mut self) {
        self.is_finished = true;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.live.interrupt();
        }
    }
}

impl Writing {
    /// Refuses a document that the index cannot hold besides `limit` others.
    fn check(&self, document: &Document<'_>, limit: u64) -> Result<()> {
        if self.content.is_some_and(|content| content != content_of(document)) {
            let (has, takes) = match document.vector {
                Some(_) => ("a `vector`", "text"),
                None => ("no `vector`", "vectors"),
            };
            let id = &document.id;
            return Err(IndexError::Refused {
                what: format!("document `{id}` has {has}, and this is an index of {takes}"),
            });
        }
        if limit + u64::from(self.batch.documents()) >= MAX_DOCS {
            return Err(IndexError::TooManyDocuments);
        }
        Ok(())
    }

    fn take_number(&mut self) -> u64 {
        self.settings.next_segment += 1;
        self.settings.next_segment - 1
    }
}

/// Parses a document from its JSON.
fn parse<'a>(json: &'a str, reader: &ReaderConfig) -> Result<Document<'a>> {
    let refused = |what: String| IndexError::Refused { what };
    // The store keeps documents as lines.
    if json.contains('\n') {
        return Err(refused("the document has a line feed; write its JSON on one line".into()));
    }
    Document::parse(json, reader).map_err(|kind| refused(kind.to_string()))
}

/// Returns the manifest entry of deletions that are not on disk yet.
fn in_memory(deletes: &Deletes, segment: &Segment, manifest: &Manifest) -> Result<DeletesEntry> {
    let file = SealedWriter::in_memory("deletions in memory", Kind::Deletes)?;
    write_deletes(deletes, segment, manifest.generation, file)
}
