//! Building a segment in memory from documents that arrive individually.
//!
//! The work has two parts. [`InOrder`] appends everything that follows the order of documents
//! (ids, store, static scores), which is little work, under the lock that also assigns their
//! numbers. [`Shard`]s do the rest concurrently: they collect postings, each seeing ascending
//! numbers. Blocks of the store are also compressed outside of the lock.

use std::sync::{Arc, Mutex, PoisonError};

use warpseek_text::Document;

use super::config::Progress;
use super::invert::{DocumentFact, Inverter};
use super::run::{Run, run_of};
use super::write::{Coding, write_lists};
use crate::build::segment_writer::SegmentWriter;
use crate::error::{IndexError, Result};
use crate::files::container::SealedFile;
use crate::files::manifest::{Manifest, SegmentEntry, segment_file_name};
use crate::files::store::{CompressedBlock, RawBlock};
use crate::segment::Segment;

/// The path that errors give for a segment in memory.
const IN_MEMORY: &str = "a segment in memory";

/// A builder of a segment in memory, for an index of text or vectors. Its files equal, byte for
/// byte, those that a build in one batch writes to disk.
pub struct SegmentBuilder {
    in_order: InOrder,
    shard: Shard,
}

impl SegmentBuilder {
    /// Starts the next segment of an index with the settings of `manifest`.
    ///
    /// # Panics
    /// Panics if it is an index of n-grams, or one of impacts whose mean length is not known yet.
    pub fn new(manifest: &Manifest) -> Result<Self> {
        Ok(SegmentBuilder { in_order: InOrder::new(manifest)?, shard: Shard::new(manifest) })
    }

    /// Returns the number of documents so far.
    pub fn documents(&self) -> u32 {
        self.in_order.documents()
    }

    /// Returns the approximate memory used for postings in bytes.
    pub fn memory(&self) -> usize {
        self.shard.memory()
    }

    /// Adds a document and returns its ordinal. Ids may repeat, but then the caller must delete
    /// all except the last document of an id later.
    pub fn add(&mut self, document: &Document<'_>) -> Result<u32> {
        let (ordinal, full) = self.in_order.add(document)?;
        self.shard.add(ordinal, document);
        full.map_or(Ok(()), FullBlock::compress)?;
        Ok(ordinal)
    }

    /// Completes the segment, whose first document gets the id `base`. Returns `None` if there
    /// are no documents.
    pub fn finish(self, base: u32, threads: usize) -> Result<Option<(SegmentEntry, Segment)>> {
        self.in_order.finish(vec![self.shard], base, threads)
    }
}

/// The part of a segment that is appended in the order of documents.
pub(crate) struct InOrder {
    manifest: Manifest,
    writer: SegmentWriter,
    /// Documents for the store that do not fill a block yet.
    raw: RawBlock,
    blocks: Vec<Slot>,
}

/// Place of a block of the store, which is filled once the block is compressed.
type Slot = Arc<Mutex<Option<CompressedBlock>>>;

/// The documents of a full block of the store.
#[must_use = "the store lacks the block until it is compressed"]
pub(crate) struct FullBlock {
    raw: RawBlock,
    slot: Slot,
}

impl FullBlock {
    pub(crate) fn compress(self) -> Result<()> {
        let block = self.raw.compress().map_err(IndexError::io(IN_MEMORY.as_ref()))?;
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(block);
        Ok(())
    }
}

impl InOrder {
    /// Starts the next segment of an index with the settings of `manifest`.
    pub(crate) fn new(manifest: &Manifest) -> Result<Self> {
        assert!(manifest.grams.is_none(), "n-grams come in batches");
        assert!(manifest.impacts.is_none_or(|impacts| impacts.documents > 0), "no mean length");
        Ok(InOrder {
            writer: SegmentWriter::in_memory(manifest)?,
            raw: RawBlock::default(),
            blocks: Vec::new(),
            manifest: Manifest { segments: Vec::new(), ..manifest.clone() },
        })
    }

    /// Returns the number of documents so far.
    pub(crate) fn documents(&self) -> u32 {
        self.writer.table.statics.len() as u32
    }

    /// Adds a document and returns its ordinal, and a block if one became full. Before the
    /// segment is completed, the caller must add the document to a shard and compress the block.
    pub(crate) fn add(&mut self, document: &Document<'_>) -> Result<(u32, Option<FullBlock>)> {
        let ordinal = self.documents();
        self.writer.push_in_order(document)?;
        let mut full = None;
        if self.writer.store.is_some() {
            self.raw.add(|out| document.write_json(out));
            full = self.raw.is_full().then(|| self.cut());
        }
        Ok((ordinal, full))
    }

    /// Takes the buffered documents as a block.
    fn cut(&mut self) -> FullBlock {
        let slot = Slot::default();
        self.blocks.push(slot.clone());
        FullBlock { raw: std::mem::take(&mut self.raw), slot }
    }

    /// Completes the segment, whose first document gets the id `base`. Returns `None` if there
    /// are no documents.
    pub(crate) fn finish(
        mut self,
        shards: Vec<Shard>,
        base: u32,
        threads: usize,
    ) -> Result<Option<(SegmentEntry, Segment)>> {
        if self.documents() == 0 {
            return Ok(None);
        }
        self.finish_store()?;
        let runs = self.take_postings(shards)?;
        let impacts = self.manifest.impacts.map(|impacts| impacts.saturation());
        let coding = Coding::Frequencies(self.manifest.codec, impacts);
        let (files, table) = (self.writer.list_files()?, &self.writer.table);
        let sources = runs.iter().map(Run::source).collect();
        let progress = Progress::default();
        let written = write_lists(sources, table, coding, threads, files, &progress)?;
        let finished = self.writer.finish(written)?;
        let mut files = finished.files;
        let segment = Segment::from_files(&self.manifest, &finished.entry, base, |kind| {
            let own = files.iter_mut().find(|(other, _)| *other == kind);
            // A missing file is refused because it is too short.
            let bytes = own.map_or(Vec::new(), |(_, bytes)| std::mem::take(bytes));
            SealedFile::from_bytes(&segment_file_name(finished.entry.number, kind), kind, bytes)
        })?;
        Ok(Some((finished.entry, segment)))
    }

    fn finish_store(&mut self) -> Result<()> {
        if !self.raw.is_empty() {
            self.cut().compress()?;
        }
        let Some(store) = &mut self.writer.store else { return Ok(()) };
        for slot in self.blocks.drain(..) {
            let block = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            let block = block.ok_or_else(|| incomplete("a block of its store"))?;
            store.append_compressed(&block)?;
        }
        Ok(())
    }

    /// Takes the postings of all shards and enters their facts in the table.
    fn take_postings(&mut self, shards: Vec<Shard>) -> Result<Vec<Run>> {
        let documents = self.documents() as usize;
        let has_norms = self.writer.has_norms();
        let table = &mut self.writer.table;
        let mut known = vec![false; documents];
        table.lengths = vec![0; documents];
        table.more.iter_mut().for_each(|lengths| *lengths = vec![0; documents]);
        let facts = || shards.iter().flat_map(|shard| &shard.facts);
        if has_norms {
            table.norms = vec![0.0; documents];
        }
        for (ordinal, fact) in facts() {
            let at = *ordinal as usize;
            (table.lengths[at], known[at]) = (fact.length, true);
            for (lengths, &length) in table.more.iter_mut().zip(&fact.more) {
                lengths[at] = length;
            }
            if let Some(norm) = fact.norm.filter(|_| has_norms) {
                table.norms[at] = norm;
            }
        }
        if known.contains(&false) {
            return Err(incomplete("the postings of a document"));
        }
        let drain = |mut shard: Shard| run_of(&mut shard.inverter);
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                shards.into_iter().map(|shard| scope.spawn(move || drain(shard))).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Run>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        })
    }
}

/// Returns an error that names the missing part: a thread ended in the middle of a write.
fn incomplete(what: &str) -> IndexError {
    IndexError::corrupt(IN_MEMORY.as_ref(), format!("it lacks {what}"))
}

/// The postings of some documents of a segment.
pub(crate) struct Shard {
    inverter: Inverter,
    facts: Vec<(u32, DocumentFact)>,
}

impl Shard {
    pub(crate) fn new(manifest: &Manifest) -> Self {
        Shard { inverter: Inverter::of(manifest), facts: Vec::new() }
    }

    /// Returns the approximate memory used for postings in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.inverter.memory()
    }

    /// Adds the document with this ordinal, which must be larger than all earlier ones.
    pub(crate) fn add(&mut self, ordinal: u32, document: &Document<'_>) {
        let fact = self.inverter.add(ordinal, document);
        self.facts.push((ordinal, fact));
    }
}
