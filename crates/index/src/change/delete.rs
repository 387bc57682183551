//! Deleting documents by id.
//!
//! The expensive part is to count, for each term, how many of the deleted documents contain it.
//! `stored` does this for a few documents, `walk` for many.

mod stored;
mod walk;

use warpseek_core::limits::BLOCK;

use crate::build::{Phase, Progress};
use crate::directory::WriteLock;
use crate::error::{IndexError, Result};
use crate::files::container::{Kind, Sealed, SealedWriter};
use crate::files::deletes::{Deletes, DocSet};
use crate::files::manifest::{DeletesEntry, Manifest, deletes_name, seal_text};
use crate::segment::Segment;
use crate::snapshot::Snapshot;

// Rough costs in nanoseconds on one core, measured on a million documents of 390 terms each. Only
// their ratios matter.
/// Cost of decompressing and parsing a stored document.
const DOCUMENT_COST: u64 = 100_000;
/// Cost of analyzing a term of a stored document, looking it up, and finding the document in its
/// list.
const LOOKUP_COST: u64 = 2_000;
/// Cost of a term in a walk.
const TERM_COST: u64 = 250;
/// Cost of a block of a list in a walk, which reads only the skip array for most blocks.
const BLOCK_COST: u64 = 20;

/// The result of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteReport {
    /// Number of documents deleted.
    pub deleted: u64,
    /// Ids that belong to no live document, in the order in which they were given.
    pub missing: Vec<String>,
}

/// Finds the live documents with these ids and returns them in ascending order.
pub(crate) fn find_ids(
    old: &Snapshot,
    ids: &[String],
    progress: &Progress,
) -> Result<(DeleteReport, Vec<u32>)> {
    let (mut report, mut docs) = (DeleteReport::default(), Vec::new());
    for id in ids {
        progress.check()?;
        match old.find_id(id)? {
            Some(doc) => docs.push(doc),
            None => report.missing.push(id.clone()),
        }
    }
    docs.sort_unstable();
    docs.dedup();
    report.deleted = docs.len() as u64;
    Ok((report, docs))
}

/// Writes the deletion files for `docs` (document ids, ascending, all live) and records them in
/// the manifest, whose generation must already be the new one.
pub(crate) fn apply_deletes(
    lock: &WriteLock,
    old: &Snapshot,
    manifest: &mut Manifest,
    docs: &[u32],
    threads: usize,
    progress: &Progress,
) -> Result<()> {
    progress.enter(Phase::Merging);
    for (at, deletes) in delete_documents(old, docs, threads, progress)? {
        let (segment, generation) = (&old.segments()[at], manifest.generation);
        let path = lock.dir().join(deletes_name(segment.number(), generation));
        let file = SealedWriter::create(&path, Kind::Deletes)?;
        let entry = write_deletes(&deletes, segment, generation, file)?;
        manifest.segments[at].deletes = Some(entry);
    }
    Ok(())
}

/// Computes the new deletions of each segment that contains some of `docs` (document ids,
/// ascending, all live), together with the position of the segment.
pub(crate) fn delete_documents(
    old: &Snapshot,
    docs: &[u32],
    threads: usize,
    progress: &Progress,
) -> Result<Vec<(usize, Deletes)>> {
    let (mut left, mut changed) = (docs, Vec::new());
    for (at, segment) in old.segments().iter().enumerate() {
        let end = segment.base() + segment.documents().count();
        let (here, rest) = left.split_at(left.partition_point(|&doc| doc < end));
        left = rest;
        if here.is_empty() {
            continue;
        }
        let mut new = DocSet::new(segment.documents().count());
        for &doc in here {
            assert!(new.insert(segment.documents().position(doc - segment.base())?));
        }
        changed.push((at, extend(old.manifest(), segment, &new, threads, progress)?));
    }
    Ok(changed)
}

/// Writes the deletions of a segment and returns their entry.
pub(crate) fn write_deletes(
    deletes: &Deletes,
    segment: &Segment,
    generation: u64,
    file: SealedWriter,
) -> Result<DeletesEntry> {
    let Sealed { seal, .. } = deletes.write(segment.documents().count(), file)?;
    let (documents, tokens) = (deletes.docs.len(), deletes.tokens);
    let fields = segment.count_fields(&deletes.docs)?;
    Ok(DeletesEntry { generation, documents, tokens, fields, seal: seal_text(seal) })
}

/// Returns the segment's deletions with `new` added, which are positions of live documents.
pub(crate) fn extend(
    manifest: &Manifest,
    segment: &Segment,
    new: &DocSet,
    threads: usize,
    progress: &Progress,
) -> Result<Deletes> {
    let docs = segment.documents();
    let mut all = match segment.deletes() {
        Some(deletes) => deletes.clone(),
        None => Deletes { docs: DocSet::new(docs.count()), tokens: 0, terms: Vec::new() },
    };
    new.iter().for_each(|doc| _ = all.docs.insert(doc));
    for field in 0..segment.text_fields() {
        let lengths = segment.lengths(field as u8)?;
        all.tokens += new.iter().map(|doc| u64::from(lengths.get(doc))).sum::<u64>();
    }
    let counted = count_terms(manifest, segment, new, threads, progress)?;
    let before = std::mem::take(&mut all.terms);
    all.terms = add_counts(&before, &counted);
    Ok(all)
}

/// Counts, for each term that occurs in `docs`, the documents of `docs` that contain it. The
/// result ascends by ordinal and does not depend on the method of counting.
fn count_terms(
    manifest: &Manifest,
    segment: &Segment,
    docs: &DocSet,
    threads: usize,
    progress: &Progress,
) -> Result<Vec<(u32, u32)>> {
    // Approximate search needs no statistics.
    if manifest.grams.is_some() {
        return Ok(Vec::new());
    }
    if stored_is_cheaper(segment, docs.len()) {
        match stored::count_terms(manifest, segment, docs, threads, progress) {
            Ok(Some(counts)) => return Ok(counts),
            Err(IndexError::Cancelled) => return Err(IndexError::Cancelled),
            // The walk does not need the store, so it can succeed where the store is damaged.
            Ok(None) | Err(_) => {}
        }
    }
    walk::count_terms(segment, docs, threads, progress)
}

/// Returns true if looking up the terms of this many documents costs less than walking all lists.
fn stored_is_cheaper(segment: &Segment, docs: u64) -> bool {
    let dictionary = segment.dictionary();
    let postings_each = dictionary.postings() / u64::from(segment.documents().count()).max(1);
    let stored = docs.saturating_mul(DOCUMENT_COST + postings_each.saturating_mul(LOOKUP_COST));
    let blocks = dictionary.postings() / BLOCK as u64;
    stored < u64::from(dictionary.terms()) * TERM_COST + blocks.saturating_mul(BLOCK_COST)
}

/// Adds two tables that are sorted by ordinal.
fn add_counts(a: &[(u32, u32)], b: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut sum: Vec<(u32, u32)> = [a, b].concat();
    sum.sort_by_key(|&(ordinal, _)| ordinal);
    sum.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1 += later.1;
        }
        same
    });
    sum
}
