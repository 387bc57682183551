//! The batch of writes since the last refresh.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use warpseek_core::DocId;
use warpseek_text::Document;

use crate::build::{FullBlock, InOrder, Shard};
use crate::error::Result;
use crate::files::manifest::{Content, Manifest, SegmentEntry};
use crate::segment::Segment;
use crate::snapshot::Snapshot;

/// A segment that is being built, and the ids that were written.
pub(super) struct Batch {
    /// Number of the segment.
    number: u64,
    in_order: InOrder,
    pub(super) shards: Arc<Shards>,
    /// Newest write of each id.
    newest: HashMap<Arc<str>, Newest>,
    /// Documents of this batch that a later write of it has replaced or deleted.
    superseded: Vec<u32>,
    /// Kind of its documents, text or vectors; `None` if it has none.
    pub(super) content: Option<Content>,
    /// Snapshots in which ids were looked up.
    looked: Vec<Arc<Snapshot>>,
}

/// The last write of an id in a batch. The next refresh deletes older documents of the id in all
/// segments.
struct Newest {
    /// Ordinal of the document; `None` if it was deleted.
    ordinal: Option<u32>,
    /// Location of the document before the batch, according to the snapshot at index `looked` of
    /// the batch's snapshots.
    before: Option<Location>,
    looked: usize,
}

/// A segment built from a batch.
pub(super) struct Finished {
    /// The segment; `None` if there were no documents.
    pub(super) segment: Option<(SegmentEntry, Segment)>,
    /// Documents of the segment that must be deleted, because a later write of the batch has
    /// replaced or deleted them.
    pub(super) superseded: Vec<u32>,
}

/// Location of a document: a segment, which keeps its number until it is merged, and an ordinal.
#[derive(Clone, Copy)]
pub(super) struct Location {
    segment: u64,
    ordinal: u32,
}

/// The result of looking up an id in a snapshot. A lookup takes much longer than checking whether
/// its result is still valid, so writers do it before they take a lock.
pub(super) struct LookedUp {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) location: Option<Location>,
}

impl LookedUp {
    pub(super) fn new(snapshot: Arc<Snapshot>, id: &str) -> Result<Self> {
        let found = snapshot.find_id(id)?.and_then(|doc| snapshot.locate(doc));
        let location =
            found.map(|(segment, ordinal)| Location { segment: segment.number(), ordinal });
        Ok(LookedUp { snapshot, location })
    }
}

impl Batch {
    /// Creates an empty batch with the next segment number of `settings`. It inverts up to
    /// `shards` documents at a time.
    pub(super) fn new(settings: &mut Manifest, shards: usize) -> Result<Self> {
        let in_order = InOrder::new(settings)?;
        let number = settings.next_segment;
        settings.next_segment += 1;
        let shards = Arc::new(Shards::new(settings, shards));
        let (newest, superseded, looked) = Default::default();
        Ok(Batch { number, in_order, shards, newest, superseded, content: None, looked })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    /// Returns the number of documents, superseded ones included.
    pub(super) fn documents(&self) -> u32 {
        self.in_order.documents()
    }

    /// Adds a document. The caller must also add it to one of the batch's shards under the
    /// returned ordinal, and compress the block if a full one is returned.
    pub(super) fn put(
        &mut self,
        id: &Arc<str>,
        document: &Document<'_>,
        before: &LookedUp,
    ) -> Result<(u32, Option<FullBlock>)> {
        let (ordinal, full) = self.in_order.add(document)?;
        self.content = Some(content_of(document));
        self.set(id, Some(ordinal), before);
        Ok((ordinal, full))
    }

    pub(super) fn delete(&mut self, id: &Arc<str>, before: &LookedUp) {
        self.set(id, None, before);
    }

    fn set(&mut self, id: &Arc<str>, ordinal: Option<u32>, before: &LookedUp) {
        if let Some(newest) = self.newest.get_mut(id) {
            self.superseded.extend(std::mem::replace(&mut newest.ordinal, ordinal));
            return;
        }
        let last = self.looked.last();
        if last.is_none_or(|snapshot| snapshot.id() != before.snapshot.id()) {
            self.looked.push(before.snapshot.clone());
        }
        let looked = self.looked.len() - 1;
        self.newest.insert(id.clone(), Newest { ordinal, before: before.location, looked });
    }

    /// Returns the live documents of a snapshot that the batch replaces or deletes, in ascending
    /// order.
    pub(super) fn replaced(&self, now: &Snapshot) -> Result<Vec<DocId>> {
        let by_number: HashMap<u64, &Segment> =
            now.segments().iter().map(|segment| (segment.number(), &**segment)).collect();
        // An id that was looked up before the snapshot was published may be in any of the
        // segments published since.
        let since: Vec<Vec<&Segment>> = self
            .looked
            .iter()
            .map(|then| {
                let known: HashSet<u64> = then.segments().iter().map(|s| s.number()).collect();
                let new = now.segments().iter().rev().map(|segment| &**segment);
                new.filter(|segment| !known.contains(&segment.number())).collect()
            })
            .collect();
        let mut replaced = Vec::new();
        for (id, newest) in &self.newest {
            let there = newest.before.and_then(|Location { segment, ordinal }| {
                by_number.get(&segment).map(|segment| (*segment, ordinal))
            });
            if let Some((segment, ordinal)) = there
                && !segment.is_deleted(segment.documents().position(ordinal)?)
            {
                replaced.push(segment.base() + ordinal);
                continue;
            }
            for segment in &since[newest.looked] {
                if let Some(ordinal) = segment.find_live(id)? {
                    replaced.push(segment.base() + ordinal);
                    break;
                }
            }
        }
        replaced.sort_unstable();
        Ok(replaced)
    }

    /// Builds a segment of the documents, of which the first gets the id `base`. Waits for
    /// threads that still write to the batch.
    pub(super) fn finish(self, base: u32, threads: usize) -> Result<Finished> {
        let segment = self.in_order.finish(self.shards.take(), base, threads)?;
        Ok(Finished { segment, superseded: self.superseded })
    }

    /// Returns the number of the batch's segment.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

/// The postings of a batch, in shards that let several threads invert documents at the same time.
pub(super) struct Shards {
    shards: Vec<Mutex<Option<Shard>>>,
    /// Memory of each shard in bytes.
    memory: Vec<AtomicUsize>,
    /// Memory of everything else in the batch, in bytes.
    more: AtomicUsize,
    /// Shard that the next writer tries first.
    next: AtomicUsize,
}

/// The exclusive use of a shard. Its holder obtains a document's number while it holds the shard,
/// so that numbers within a shard ascend.
pub(super) struct Lease<'a> {
    shard: MutexGuard<'a, Option<Shard>>,
    memory: &'a AtomicUsize,
}

impl Shards {
    fn new(settings: &Manifest, shards: usize) -> Self {
        let shard = |_| Mutex::new(Some(Shard::new(settings)));
        Shards {
            shards: (0..shards.max(1)).map(shard).collect(),
            memory: (0..shards.max(1)).map(|_| AtomicUsize::new(0)).collect(),
            more: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
        }
    }

    /// Returns the approximate memory of the batch in bytes.
    pub(super) fn memory(&self) -> usize {
        let postings: usize = self.memory.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
        postings + self.more.load(Ordering::Relaxed)
    }

    /// Adds memory that does not belong to a shard.
    pub(super) fn add_memory(&self, bytes: usize) {
        self.more.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Waits for an unused shard and leases it.
    pub(super) fn lease(&self) -> Lease<'_> {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.shards.len();
        let lease = |at: usize, shard| Lease { shard, memory: &self.memory[at] };
        for at in (first..self.shards.len()).chain(0..first) {
            match self.shards[at].try_lock() {
                Ok(shard) => return lease(at, shard),
                Err(TryLockError::Poisoned(poisoned)) => return lease(at, poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        lease(first, self.shards[first].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes all shards, waiting for their users.
    fn take(&self) -> Vec<Shard> {
        let take = |shard: &Mutex<Option<Shard>>| {
            shard.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        self.shards.iter().filter_map(take).collect()
    }
}

impl Lease<'_> {
    /// Inverts a document, whose number must be larger than all earlier ones in this shard.
    pub(super) fn invert(&mut self, ordinal: u32, document: &Document<'_>) {
        // The shard is absent only after a refresh took the batch, and then no writer gets a
        // number in it.
        if let Some(shard) = &mut *self.shard {
            shard.add(ordinal, document);
            self.memory.store(shard.memory(), Ordering::Relaxed);
        }
    }
}

/// Returns the kind of index that can hold the document.
pub(super) fn content_of(document: &Document<'_>) -> Content {
    if document.vector.is_some() { Content::Vector } else { Content::Text }
}
