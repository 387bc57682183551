//! An index that takes single writes from many threads.
//!
//! A write is appended to the log and inverted into a batch in memory at once, so that a refresh has little left to do. A refresh turns the batch into a segment in memory, deletes what it replaces, and publishes a new
//! snapshot. A flush merges the segments in memory into one on disk and commits it, together with the number of the first log that it does not cover: after a crash, exactly the writes
//! that no segment has are read from logs again.
//!
//! Locks are taken in this order: `committed` (by one refresh or flush at a time), `writing` (by each write, for the time of an inversion), those of log, pending writes and
//! published snapshot. Readers need only the last two, for a moment.

mod batch;
mod flush;
mod patch;
mod pending;
mod published;
mod recover;

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use batch::{Batch, content_of};
use pending::Pending;
pub use published::Published;
pub(crate) use recover::settle;
use warpseek_core::limits::MAX_DOCS;
use warpseek_text::Document;

use crate::build::Progress;
use crate::container::{Kind, SealedWriter};
use crate::delete::{delete_documents, extend, write_deletes};
use crate::deletes::{Deletes, DocSet};
use crate::directory::{WriteLock, read_manifest};
use crate::error::{IndexError, Result};
use crate::log::{Durability, Log, Operation, Ticket};
use crate::manifest::{Content, DeletesEntry, Manifest, StoreMode};
use crate::segment::Segment;
use crate::snapshot::Snapshot;

/// How an index takes writes.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// What must have happened to a write before its ticket is done. Default: it is on stable storage.
    pub durability: Durability,
    /// Threads of a refresh or flush. Default: one per core.
    pub threads: usize,
    /// Memory for postings of writes that are not refreshed, in bytes. A write that exceeds it refreshes the index. Default: 256 MiB.
    pub memory: usize,
}

impl Default for LiveOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        LiveOptions { durability: Durability::default(), threads, memory: 256 << 20 }
    }
}

/// An index that is open for single writes. It holds the lock of the index until it is closed or dropped. Writes that were not flushed when it is dropped are in the log, and the next writer finds them there.
pub struct LiveIndex {
    lock: WriteLock,
    options: LiveOptions,
    writing: Mutex<Writing>,
    pending: Pending,
    published: Published,
    /// The manifest on disk.
    committed: Mutex<Manifest>,
    /// Whether a refresh has failed, so that the published snapshot lacks writes that are neither pending nor in the batch.
    interrupted: AtomicBool,
}

/// What a writer needs.
struct Writing {
    log: Log,
    batch: Batch,
    /// A manifest without segments: how documents are indexed, and the next number for a segment or log.
    settings: Manifest,
    /// Whether documents are text or vectors; `None` as long as there are none.
    content: Option<Content>,
}

impl LiveIndex {
    /// Opens the index in `dir` for writing. Writes that an earlier writer did not flush are read from its log, and are in the first snapshot.
    pub fn open(dir: &Path, options: LiveOptions) -> Result<Self> {
        // Without an index, not even a lock is created.
        read_manifest(dir)?;
        Self::with_lock(WriteLock::take(dir)?, options)
    }

    /// The directory of the index.
    pub fn dir(&self) -> &Path {
        self.lock.dir()
    }

    /// Adds a document, or replaces the one with the same id. `json` is one object, as a line of JSONL has it.
    pub fn put(&self, json: &str) -> Result<Ticket> {
        let Ok(ticket) = self.write(json, |_| Ok(Ok::<_, Infallible>(())))?;
        Ok(ticket)
    }

    /// Adds a document, unless there is one with its id: then the result is [`IndexError::Conflict`]. Of several threads that create the same id, one succeeds.
    pub fn create(&self, json: &str) -> Result<Ticket> {
        let created = self.write(json, |id| match self.contains(id)? {
            false => Ok(Ok(())),
            true => Ok(Err(IndexError::Conflict { id: id.to_owned() })),
        })?;
        created
    }

    /// Changes fields of the document with an id by a JSON merge patch (RFC 7396): fields of the patch replace those of the document, objects are patched in turn, and `null` removes a field.
    /// No other write comes in between. `None` if there is no such document. The id cannot be changed, and the index must store whole documents.
    pub fn update(&self, id: &str, patch: &str) -> Result<Option<Ticket>> {
        if self.snapshot().manifest().store != StoreMode::All {
            let what =
                "the index stores ids alone, so there is nothing to update; put the whole document";
            return Err(IndexError::Refused { what: what.into() });
        }
        let patch = patch::parse(patch)?;
        loop {
            let Some(before) = self.get(id)? else { return Ok(None) };
            let after = patch::apply(&before, &patch)?;
            let written = self.write(&after, |new| {
                if new != id {
                    let what = format!("the patch gives document `{id}` the id `{new}`");
                    return Err(IndexError::Refused { what });
                }
                Ok(if self.get(id)?.as_ref() == Some(&before) { Ok(()) } else { Err(()) })
            });
            // If somebody else changed the document meanwhile, the patch is for what they made of it.
            if let Ok(ticket) = written? {
                return Ok(Some(ticket));
            }
        }
    }

    /// Deletes a document; `None` if there is none with this id.
    pub fn delete(&self, id: &str) -> Result<Option<Ticket>> {
        let mut writing = self.writing()?;
        if !self.contains(id)? {
            return Ok(None);
        }
        let ticket = writing.log.append(Operation::Delete { id })?;
        writing.batch.delete(id);
        self.pending.insert(id, ticket.sequence(), None);
        Ok(Some(ticket))
    }

    /// Writes a document if `admit` finds nothing wrong with its id; no other write comes in between. Returns what `admit` found.
    fn write<R>(
        &self,
        json: &str,
        admit: impl FnOnce(&str) -> Result<Result<(), R>>,
    ) -> Result<Result<Ticket, R>> {
        let scale = self.snapshot().manifest().vector_scale;
        let document = parse(json, scale)?;
        let mut writing = self.writing()?;
        writing.check(&document, u64::from(self.snapshot().doc_limit()))?;
        if let Err(reason) = admit(&document.id)? {
            return Ok(Err(reason));
        }
        let operation = Operation::Put { id: &document.id, document: json.as_bytes() };
        let ticket = writing.log.append(operation)?;
        writing.add(&document)?;
        self.pending.insert(&document.id, ticket.sequence(), Some(json.as_bytes().to_vec()));
        let is_full = writing.batch.builder.memory() > self.options.memory;
        drop(writing);
        if is_full {
            self.refresh()?;
        }
        Ok(Ok(ticket))
    }

    /// The newest document with an id as JSON, refreshed or not; `None` if there is none, or if the index stores only ids.
    pub fn get(&self, id: &str) -> Result<Option<Vec<u8>>> {
        let keeps_all = self.snapshot().manifest().store == StoreMode::All;
        let kept = |document: Option<&[u8]>| document.filter(|_| keeps_all).map(<[u8]>::to_vec);
        if let Some(document) = self.pending.get(id, kept) {
            return Ok(document);
        }
        // A refresh publishes its snapshot before it forgets pending writes, so what was not pending is here.
        let snapshot = self.snapshot();
        snapshot.find_id(id)?.map_or(Ok(None), |doc| snapshot.document(doc))
    }

    /// Whether there is a document with an id, refreshed or not.
    pub fn contains(&self, id: &str) -> Result<bool> {
        match self.pending.get(id, |document| document.is_some()) {
            Some(is_there) => Ok(is_there),
            None => Ok(self.snapshot().find_id(id)?.is_some()),
        }
    }

    /// The snapshot of the last refresh or flush.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.published.snapshot()
    }

    /// A view of [`snapshot`](Self::snapshot) that outlives the index: after it was closed, it is of what was there then.
    pub fn published(&self) -> Published {
        self.published.clone()
    }

    /// Publishes a snapshot that has all writes so far, durable or not. If there are none since the last one, that one is returned.
    pub fn refresh(&self) -> Result<Arc<Snapshot>> {
        let _committed = self.committed();
        let (batch, end) = {
            let mut writing = self.writing()?;
            if writing.batch.is_empty() {
                return Ok(self.snapshot());
            }
            (writing.take_batch()?, writing.log.next_sequence())
        };
        self.apply(batch, end)
    }

    /// Publishes the writes of a batch, which has everything before the sequence `end`.
    fn apply(&self, batch: Batch, end: u64) -> Result<Arc<Snapshot>> {
        let snapshot = self.with_batch(batch).inspect_err(|_| {
            self.interrupted.store(true, Ordering::Relaxed);
        })?;
        self.published.set(snapshot.clone());
        self.pending.forget(end);
        Ok(snapshot)
    }

    /// The published snapshot with the writes of a batch.
    fn with_batch(&self, batch: Batch) -> Result<Arc<Snapshot>> {
        let (old, threads, progress) = (self.snapshot(), self.options.threads, Progress::default());
        let mut manifest = old.manifest().clone();
        let mut segments = old.segments().to_vec();
        manifest.generation += 1;
        let mut replaced = Vec::new();
        for id in batch.newest.keys() {
            replaced.extend(old.find_id(id)?);
        }
        replaced.sort_unstable();
        for (at, deletes) in delete_documents(&old, &replaced, threads, &progress)? {
            let segment = &mut segments[at];
            manifest.segments[at].deletes =
                Some(in_memory(&deletes, segment, manifest.generation)?);
            *segment = Arc::new(segment.with(segment.base(), Some(deletes)));
        }
        if let Some((mut entry, mut segment)) = batch.builder.finish(old.doc_limit(), threads)? {
            manifest.content = batch.content.unwrap_or(manifest.content);
            manifest.next_segment = manifest.next_segment.max(entry.number + 1);
            if !batch.superseded.is_empty() {
                let mut gone = DocSet::new(segment.documents().count());
                for &doc in &batch.superseded {
                    assert!(gone.insert(doc));
                }
                let deletes = extend(&manifest, &segment, &gone, threads, &progress)?;
                entry.deletes = Some(in_memory(&deletes, &segment, manifest.generation)?);
                segment = segment.with(segment.base(), Some(deletes));
            }
            manifest.segments.push(entry);
            segments.push(Arc::new(segment));
        }
        Snapshot::of(self.dir(), manifest, segments).map(Arc::new)
    }

    /// The right to write, unless a refresh has failed.
    fn writing(&self) -> Result<MutexGuard<'_, Writing>> {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        match self.interrupted.load(Ordering::Relaxed) {
            false => Ok(writing),
            true => Err(IndexError::Interrupted { dir: self.dir().to_owned() }),
        }
    }

    fn committed(&self) -> MutexGuard<'_, Manifest> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writing {
    /// Refuses a document that the index cannot have beside `limit` others.
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
        if limit + u64::from(self.batch.builder.documents()) >= MAX_DOCS {
            return Err(IndexError::TooManyDocuments);
        }
        Ok(())
    }

    fn add(&mut self, document: &Document<'_>) -> Result<()> {
        self.batch.put(document)?;
        self.content = self.batch.content;
        Ok(())
    }

    /// The writes so far; later ones go to a new batch.
    fn take_batch(&mut self) -> Result<Batch> {
        let next = Batch::new(&mut self.settings)?;
        Ok(std::mem::replace(&mut self.batch, next))
    }

    fn take_number(&mut self) -> u64 {
        self.settings.next_segment += 1;
        self.settings.next_segment - 1
    }
}

/// A document from its JSON.
fn parse(json: &str, vector_scale: u32) -> Result<Document<'_>> {
    let refused = |what: String| IndexError::Refused { what };
    // The store keeps documents as lines.
    if json.contains('\n') {
        return Err(refused("the document has a line feed; write its JSON on one line".into()));
    }
    Document::from_json(json, vector_scale).map_err(|kind| refused(kind.to_string()))
}

/// The entry of deletions that are not on disk yet.
fn in_memory(deletes: &Deletes, segment: &Segment, generation: u64) -> Result<DeletesEntry> {
    let file = SealedWriter::in_memory("deletions in memory", Kind::Deletes)?;
    write_deletes(deletes, segment, generation, file)
}
