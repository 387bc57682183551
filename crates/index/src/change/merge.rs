//! Merging all segments into one, without the deleted documents.

use std::path::Path;
use std::sync::Arc;

use warpseek_core::limits::BLOCK;

use crate::build::memory::default_memory;
use crate::build::order::by_bisection;
use crate::build::segment_writer::SegmentWriter;
use crate::build::{Coding, ListSource, Part, Phase, Progress, write_lists};
use crate::change::live::settle;
use crate::directory::{WriteLock, read_manifest};
use crate::error::{IndexError, Result};
use crate::files::attributes::AttributesSource;
use crate::files::dictionary::{TermInfo, Terms};
use crate::files::manifest::SegmentEntry;
use crate::files::positions::PositionReader;
use crate::files::postings::BIN;
use crate::files::store::{StoreChunk, StoreWriter};
use crate::files::throttle::Throttle;
use crate::segment::Segment;
use crate::snapshot::Snapshot;

/// Options of a merge.
#[derive(Clone, Debug)]
pub struct MergeConfig {
    /// Worker threads. Default: one per core.
    pub threads: usize,
    /// True to order documents by recursive graph bisection. Default: false, which restores the
    /// order of the input.
    pub reorder: bool,
    /// Memory in bytes for finding that order; with less, rare terms are ignored. Default: a
    /// quarter of the machine's memory, or of a container's limit if that is smaller.
    pub memory: usize,
}

impl Default for MergeConfig {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        MergeConfig { threads, reorder: false, memory: default_memory() }
    }
}

/// The result of a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeReport {
    /// Number of segments before the merge.
    pub segments: usize,
    /// Number of live documents, all of which are kept.
    pub documents: u64,
    /// Number of deleted documents that no longer take up space.
    pub dropped: u64,
    /// True if the index was rewritten.
    pub changed: bool,
}

/// Merges all segments of the index in `dir` into one. Hits, their order and scores do not
/// change.
pub fn merge(dir: &Path, config: &MergeConfig, progress: &Progress) -> Result<MergeReport> {
    read_manifest(dir)?;
    let lock = settle(WriteLock::take(dir)?)?;
    let old = Snapshot::open_locked(&lock)?;
    let result = merge_locked(&lock, &old, config, progress);
    if result.is_err() {
        lock.abandon(old.manifest().next_segment);
    }
    result
}

fn merge_locked(
    lock: &WriteLock,
    old: &Snapshot,
    config: &MergeConfig,
    progress: &Progress,
) -> Result<MergeReport> {
    let entries = &old.manifest().segments;
    let all: u64 = entries.iter().map(|e| e.documents).sum();
    let documents = old.statistics().documents;
    let segments = entries.len();
    let mut report = MergeReport { segments, documents, dropped: all - documents, changed: true };
    if segments == 0 || (segments == 1 && report.dropped == 0 && !config.reorder) {
        report.changed = false;
        return Ok(report);
    }
    if config.reorder && old.manifest().grams.is_some() {
        let what = "an n-gram index keeps the order of the input; merge it without `--reorder`";
        return Err(IndexError::Grams { what: what.into() });
    }
    let mut manifest = old.manifest().clone();
    manifest.generation += 1;
    manifest.segments.clear();
    if documents > 0 {
        manifest.segments.push(write_segment(lock.dir(), old, config, None, progress)?.entry);
        manifest.next_segment += 1;
    }
    progress.check()?;
    lock.commit(&manifest)?;
    Ok(report)
}

/// A segment that a merge has written.
pub(crate) struct Merged {
    pub(crate) entry: SegmentEntry,
    /// New ordinals of the documents of each merged segment.
    pub(crate) ids: Vec<Arc<NewIds>>,
}

/// Writes the live documents of all segments as the manifest's next segment, without entering it
/// in the manifest.
pub(crate) fn write_segment(
    dir: &Path,
    old: &Snapshot,
    config: &MergeConfig,
    throttle: Option<Arc<Throttle>>,
    progress: &Progress,
) -> Result<Merged> {
    let manifest = old.manifest();
    progress.enter(Phase::Merging);
    let mut writer = SegmentWriter::throttled(dir, manifest, throttle)?;
    let (mut ids, mut parts, mut lives) = (Vec::new(), 0, Vec::new());
    for segment in old.segments() {
        progress.check()?;
        let (first, live) = (parts, segment.live()?);
        copy_documents(segment, &live, &mut writer)?;
        if let Some(store) = &mut writer.store {
            copy_store(segment, &live, store)?;
        }
        progress.add_terms_total(u64::from(segment.dictionary().terms()));
        ids.push(Arc::new(NewIds::new(segment, first, &live, &mut parts)?));
        lives.push(live);
    }
    let sources = || {
        let pairs = old.segments().iter().zip(&ids);
        pairs.map(|(segment, ids)| SegmentSource::new(segment, ids.clone())).collect::<Vec<_>>()
    };
    let documents = writer.table.lengths.len() as u32;
    progress.add_documents(u64::from(documents));
    if config.reorder {
        let start = (0..documents).collect();
        let order = by_bisection(sources, start, config.threads, config.memory, progress)?;
        writer.table.reorder(order);
        progress.enter(Phase::Merging);
    }
    let pairs = old.segments().iter().zip(&lives);
    let columns: Vec<_> = pairs
        .map(|(segment, live)| AttributesSource { attributes: segment.attributes(), live })
        .collect();
    writer.merge_attributes(&columns)?;
    drop(columns);
    drop(lives);
    let files = writer.list_files()?;
    let (table, threads) = (&writer.table, config.threads);
    // Impacts are copied like frequencies.
    let parts = table.parts(manifest.grams.as_ref()).ok_or(IndexError::TooManyDocuments)?;
    let coding = match manifest.grams {
        None => Coding::Frequencies(manifest.codec, None),
        Some(_) => Coding::Maps(manifest.codec, &parts),
    };
    let written = write_lists(sources(), table, coding, threads, files, progress)?;

    progress.enter(Phase::Committing);
    Ok(Merged { entry: writer.finish(written)?.entry, ids })
}

fn copy_documents(
    segment: &Segment,
    live: &[(u32, u32)],
    writer: &mut SegmentWriter,
) -> Result<()> {
    let documents = segment.documents();
    let (lengths, statics) = (documents.lengths()?, documents.statics()?);
    let norms = writer.has_norms().then(|| segment.norms()).transpose()?;
    let (table, ids) = (&mut writer.table, &mut writer.ids);
    for (field, out) in (1..).zip(&mut table.more) {
        let lengths = segment.lengths(field)?;
        out.extend(live.iter().map(|&(_, position)| lengths.get(position)));
    }
    for &(ordinal, position) in live {
        table.lengths.push(lengths.get(position));
        table.norms.extend(norms.map(|norms| norms.get(position)));
        table.statics.push(statics.map_or(0.0, |s| s.get(position)));
        ids.add(&segment.ids().get(ordinal)?)?;
    }
    Ok(())
}

/// Copies compressed blocks without deletions unchanged, and rewrites the others.
fn copy_store(segment: &Segment, mut live: &[(u32, u32)], out: &mut StoreWriter) -> Result<()> {
    let Some(store) = segment.store() else { return Ok(()) };
    for block in 0..store.blocks() {
        let (first, next) = (store.first(block)?, store.first(block + 1)?);
        let (here, rest) = live.split_at(live.partition_point(|&(ordinal, _)| ordinal < next));
        live = rest;
        if next > first && here.len() as u64 == u64::from(next - first) {
            out.append_block(store.raw_block(block)?, next - first)?;
            continue;
        }
        let (documents, mut chunk) = (store.block(block)?, StoreChunk::default());
        for json in here.iter().filter_map(|&(ordinal, _)| documents.get(ordinal)) {
            chunk
                .add(|out| out.extend_from_slice(json))
                .map_err(IndexError::io(store.file().path()))?;
        }
        out.append(&mut chunk)?;
    }
    Ok(())
}

/// A map from positions in a segment to ordinals in the new one, of documents or, where lists
/// refer to them, of parts.
pub(crate) struct NewIds {
    first: u32,
    /// New ordinal of each position; `u32::MAX` for deleted ones. Empty if the segment has no
    /// deletions and is in order.
    table: Vec<u32>,
}

impl NewIds {
    /// Creates the map of a segment whose first new ordinal is `first`. Advances `next`, the next
    /// unused ordinal, by the segment's live documents or parts.
    fn new(segment: &Segment, first: u32, live: &[(u32, u32)], next: &mut u32) -> Result<Self> {
        let (mut table, parts) = (Vec::new(), segment.parts());
        if segment.deletes().is_none() && segment.documents().ordinals()?.is_none() {
            *next += parts.count();
            return Ok(NewIds { first, table });
        }
        table = vec![u32::MAX; parts.count() as usize];
        for &(_, position) in live {
            for part in parts.of(position) {
                table[part as usize] = *next;
                *next += 1;
            }
        }
        Ok(NewIds { first, table })
    }

    pub(crate) fn get(&self, position: u32) -> Option<u32> {
        match self.table.get(position as usize) {
            None => Some(self.first + position),
            Some(&u32::MAX) => None,
            Some(&new) => Some(new),
        }
    }
}

/// A source of the lists of a segment.
struct SegmentSource<'a> {
    segment: &'a Segment,
    terms: Terms<'a>,
    info: Option<TermInfo>,
    ids: Arc<NewIds>,
}

impl<'a> SegmentSource<'a> {
    fn new(segment: &'a Segment, ids: Arc<NewIds>) -> Self {
        SegmentSource { segment, terms: segment.dictionary().iter(), info: None, ids }
    }
}

impl<'a> ListSource for SegmentSource<'a> {
    type Part = SegmentPart<'a>;

    fn advance(&mut self) -> Result<bool> {
        self.info = self.terms.next_term()?;
        if let Some(info) = &self.info
            && usize::from(self.segment.named(self.terms.term()).0) >= self.segment.text_fields()
        {
            let what = format!("term {} is of a field that does not exist", info.ordinal);
            return Err(self.segment.dictionary().file().corrupt(what));
        }
        Ok(self.info.is_some())
    }

    fn term(&self) -> &[u8] {
        self.terms.term()
    }

    fn part(&self) -> SegmentPart<'a> {
        SegmentPart { segment: self.segment, info: self.info, ids: self.ids.clone() }
    }
}

struct SegmentPart<'a> {
    segment: &'a Segment,
    info: Option<TermInfo>,
    ids: Arc<NewIds>,
}

impl Part for SegmentPart<'_> {
    fn weight(&self) -> usize {
        self.info.map_or(0, |info| info.len as usize)
    }

    fn count(&self) -> u32 {
        self.info.map_or(0, |info| info.df)
    }

    fn load(&self, out: &mut Vec<(u32, u32)>, mut positions: Option<&mut Vec<u32>>) -> Result<()> {
        let Some(info) = self.info else { return Ok(()) };
        if self.segment.grams().is_some() {
            return self.load_maps(&info, out);
        }
        let list = self.segment.list(&info)?;
        let mut reader = match positions {
            Some(_) => self.segment.positions(&info)?.map(PositionReader::new),
            None => None,
        };
        let (mut docs, mut freqs, mut gaps) = ([0; BLOCK], [0; BLOCK], Vec::new());
        for block in 0..list.blocks() {
            let n = list
                .decode_docs(block, &mut docs)
                .and_then(|_| list.decode_freqs(block, &mut freqs))
                .map_err(|what| self.segment.bad_list(&info, what))?;
            if let (Some(reader), Some(positions)) = (&mut reader, &mut positions) {
                gaps.clear();
                reader.read_block(block, &freqs[..n], &mut gaps)?;
                let mut rest = &gaps[..];
                for (&doc, &freq) in docs[..n].iter().zip(&freqs[..n]) {
                    let (own, later) = rest.split_at(freq as usize);
                    rest = later;
                    if self.ids.get(doc).is_some() {
                        positions.extend_from_slice(own);
                    }
                }
            }
            let pairs = docs[..n].iter().zip(&freqs[..n]);
            out.extend(pairs.filter_map(|(&doc, &freq)| Some((self.ids.get(doc)?, freq))));
        }
        Ok(())
    }
}

impl SegmentPart<'_> {
    fn load_maps(&self, info: &TermInfo, out: &mut Vec<(u32, u32)>) -> Result<()> {
        let list = self.segment.map_list(info)?;
        let (mut docs, mut maps) = ([0; BIN], [0; BIN]);
        for block in 0..list.blocks() {
            let n = list
                .decode(block, &mut docs, &mut maps)
                .map_err(|what| self.segment.bad_list(info, what))?;
            let pairs = docs[..n].iter().zip(&maps[..n]);
            out.extend(pairs.filter_map(|(&doc, &map)| Some((self.ids.get(doc)?, map))));
        }
        Ok(())
    }
}
