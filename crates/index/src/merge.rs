//! Merging all segments to one, without the deleted documents.

use std::path::Path;
use std::sync::Arc;

use warpseek_core::limits::BLOCK;

use crate::build::{ListSource, Part, Phase, Progress, write_lists};
use crate::dictionary::{TermInfo, Terms};
use crate::directory::{WriteLock, read_manifest};
use crate::documents::DocumentTable;
use crate::error::{IndexError, Result};
use crate::ids::IdsWriter;
use crate::manifest::SegmentEntry;
use crate::segment::Segment;
use crate::segment_writer::SegmentWriter;
use crate::snapshot::Snapshot;
use crate::store::{StoreChunk, StoreWriter};

/// What a merge did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeReport {
    /// Segments before.
    pub segments: usize,
    /// Live documents, all kept.
    pub documents: u64,
    /// Deleted documents whose remains are gone.
    pub dropped: u64,
    /// Whether there was anything to do.
    pub changed: bool,
}

/// Merges all segments of the index in `dir` to one. Documents keep their order, scores do not change.
pub fn merge(dir: &Path, threads: usize, progress: &Progress) -> Result<MergeReport> {
    read_manifest(dir)?;
    let lock = WriteLock::take(dir)?;
    let old = Snapshot::open_locked(&lock)?;
    let result = merge_locked(&lock, &old, threads, progress);
    if result.is_err() {
        lock.abandon(old.manifest().next_segment);
    }
    result
}

fn merge_locked(
    lock: &WriteLock,
    old: &Snapshot,
    threads: usize,
    progress: &Progress,
) -> Result<MergeReport> {
    let entries = &old.manifest().segments;
    let all: u64 = entries.iter().map(|e| e.documents).sum();
    let documents = old.statistics().documents;
    let segments = entries.len();
    let mut report = MergeReport { segments, documents, dropped: all - documents, changed: true };
    if segments == 0 || (segments == 1 && report.dropped == 0) {
        report.changed = false;
        return Ok(report);
    }
    let mut manifest = old.manifest().clone();
    manifest.generation += 1;
    manifest.segments.clear();
    if documents > 0 {
        manifest.segments.push(write_segment(lock, old, threads, progress)?);
        manifest.next_segment += 1;
    }
    progress.check()?;
    lock.commit(&manifest)?;
    Ok(report)
}

fn write_segment(
    lock: &WriteLock,
    old: &Snapshot,
    threads: usize,
    progress: &Progress,
) -> Result<SegmentEntry> {
    let manifest = old.manifest();
    progress.enter(Phase::Merging);
    let mut writer = SegmentWriter::create(lock.dir(), manifest)?;
    let mut sources = Vec::new();
    for segment in old.segments() {
        progress.check()?;
        let first = writer.table.lengths.len() as u32;
        copy_documents(segment, &mut writer.table, &mut writer.ids)?;
        if let Some(store) = &mut writer.store {
            copy_store(segment, store)?;
        }
        progress.add_terms_total(u64::from(segment.dictionary().terms()));
        let ids = Arc::new(NewIds::new(segment, first));
        sources.push(SegmentSource {
            segment,
            terms: segment.dictionary().iter(),
            info: None,
            ids,
        });
    }
    let table = &writer.table;
    progress.add_documents(table.lengths.len() as u64);
    let files = writer.list_files()?;
    let written = write_lists(sources, table, manifest.codec, threads, files, progress)?;

    progress.enter(Phase::Committing);
    writer.finish(&written)
}

fn live(segment: &Segment) -> impl Iterator<Item = u32> + '_ {
    (0..segment.documents().count()).filter(|&doc| !segment.is_deleted(doc))
}

fn copy_documents(segment: &Segment, table: &mut DocumentTable, ids: &mut IdsWriter) -> Result<()> {
    let documents = segment.documents();
    let (lengths, norms) = (documents.lengths()?, documents.norms()?);
    let statics = documents.statics()?;
    for doc in live(segment) {
        table.lengths.push(lengths.get(doc));
        table.norms.push(norms.get(doc));
        table.statics.push(statics.map_or(0.0, |s| s.get(doc)));
        ids.add(&segment.ids().get(doc)?)?;
    }
    Ok(())
}

/// Blocks without deletions are copied as they are, the others are written anew.
fn copy_store(segment: &Segment, out: &mut StoreWriter) -> Result<()> {
    let Some(store) = segment.store() else { return Ok(()) };
    for block in 0..store.blocks() {
        let (first, next) = (store.first(block)?, store.first(block + 1)?);
        let whole =
            next > first && segment.deletes().is_none_or(|d| !d.docs.any_within(first, next - 1));
        if whole {
            out.append_block(store.raw_block(block)?, next - first)?;
            continue;
        }
        let (documents, mut chunk) = (store.block(block)?, StoreChunk::default());
        for doc in (first..next).filter(|&doc| !segment.is_deleted(doc)) {
            if let Some(json) = documents.get(doc) {
                chunk
                    .add(|out| out.extend_from_slice(json))
                    .map_err(IndexError::io(store.file().path()))?;
            }
        }
        out.append(&mut chunk)?;
    }
    Ok(())
}

/// Old ids of a segment to new ones.
struct NewIds {
    first: u32,
    /// New id of each document; `u32::MAX` for deleted ones. Empty if nothing is deleted.
    table: Vec<u32>,
}

impl NewIds {
    fn new(segment: &Segment, first: u32) -> Self {
        let mut table = Vec::new();
        if segment.deletes().is_some() {
            table = vec![u32::MAX; segment.documents().count() as usize];
            live(segment).zip(first..).for_each(|(doc, new)| table[doc as usize] = new);
        }
        NewIds { first, table }
    }

    fn get(&self, doc: u32) -> Option<u32> {
        match self.table.get(doc as usize) {
            None => Some(self.first + doc),
            Some(&u32::MAX) => None,
            Some(&new) => Some(new),
        }
    }
}

/// The lists of a segment.
struct SegmentSource<'a> {
    segment: &'a Segment,
    terms: Terms<'a>,
    info: Option<TermInfo>,
    ids: Arc<NewIds>,
}

impl<'a> ListSource for SegmentSource<'a> {
    type Part = SegmentPart<'a>;

    fn advance(&mut self) -> Result<bool> {
        self.info = self.terms.next_term()?;
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

    fn load(&self, out: &mut Vec<(u32, u32)>) -> Result<()> {
        let Some(info) = self.info else { return Ok(()) };
        let list = self.segment.list(&info)?;
        let (mut docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
        for block in 0..list.blocks() {
            let n = list
                .decode_docs(block, &mut docs)
                .and_then(|_| list.decode_freqs(block, &mut freqs))
                .map_err(|what| self.segment.bad_list(&info, what))?;
            let pairs = docs[..n].iter().zip(&freqs[..n]);
            out.extend(pairs.filter_map(|(&doc, &freq)| Some((self.ids.get(doc)?, freq))));
        }
        Ok(())
    }
}
