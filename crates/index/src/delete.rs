//! Deleting documents by id.

use std::path::Path;

use warpseek_core::limits::BLOCK;

use crate::build::{Phase, Progress, ordered_map};
use crate::container::{Kind, SealedWriter};
use crate::deletes::{Deletes, DocSet};
use crate::directory::{WriteLock, read_manifest};
use crate::error::Result;
use crate::manifest::{DeletesEntry, Manifest, deletes_name, seal_text};
use crate::segment::Segment;
use crate::snapshot::Snapshot;

/// Blocks of the dictionary that one worker counts at a time.
const JOB_BLOCKS: u64 = 256;

/// What a deletion did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteReport {
    /// Documents deleted.
    pub deleted: u64,
    /// Ids that no live document has, in the order given.
    pub missing: Vec<String>,
}

/// Deletes the live documents with these ids from the index in `dir`.
pub fn delete(
    dir: &Path,
    ids: &[String],
    threads: usize,
    progress: &Progress,
) -> Result<DeleteReport> {
    read_manifest(dir)?;
    let lock = WriteLock::take(dir)?;
    let old = Snapshot::open_locked(&lock)?;
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
    if docs.is_empty() {
        return Ok(report);
    }
    let mut manifest = old.manifest().clone();
    manifest.generation += 1;
    let result = apply_deletes(&lock, &old, &mut manifest, &docs, threads, progress)
        .and_then(|()| progress.check())
        .and_then(|()| lock.commit(&manifest));
    if result.is_err() {
        lock.abandon(old.manifest().next_segment);
    }
    result.map(|()| report)
}

/// Writes files of deletions for `docs` (ascending, live) and enters them in the manifest, whose generation is new already.
pub(crate) fn apply_deletes(
    lock: &WriteLock,
    old: &Snapshot,
    manifest: &mut Manifest,
    docs: &[u32],
    threads: usize,
    progress: &Progress,
) -> Result<()> {
    progress.enter(Phase::Merging);
    let mut left = docs;
    for (segment, entry) in old.segments().iter().zip(&mut manifest.segments) {
        let end = segment.base() + segment.documents().count();
        let (here, rest) = left.split_at(left.partition_point(|&doc| doc < end));
        left = rest;
        if here.is_empty() {
            continue;
        }
        let mut new = DocSet::new(segment.documents().count());
        for &doc in here {
            assert!(new.insert(segment.documents().place(doc - segment.base())?));
        }
        let deletes = extend(segment, &new, threads, progress)?;
        let path = lock.dir().join(deletes_name(segment.number(), manifest.generation));
        let file = SealedWriter::create(&path, Kind::Deletes)?;
        let seal = deletes.write(segment.documents().count(), file)?;
        entry.deletes = Some(DeletesEntry {
            generation: manifest.generation,
            documents: deletes.docs.len(),
            tokens: deletes.tokens,
            seal: seal_text(seal),
        });
    }
    Ok(())
}

/// The segment's deletions with `new`, live documents, added.
fn extend(segment: &Segment, new: &DocSet, threads: usize, progress: &Progress) -> Result<Deletes> {
    let docs = segment.documents();
    let mut all = match segment.deletes() {
        Some(deletes) => deletes.clone(),
        None => Deletes { docs: DocSet::new(docs.count()), tokens: 0, terms: Vec::new() },
    };
    let lengths = docs.lengths()?;
    for doc in new.iter() {
        all.docs.insert(doc);
        all.tokens += u64::from(lengths.get(doc));
    }
    let blocks = segment.dictionary().blocks();
    let mut next = (0..blocks).step_by(JOB_BLOCKS as usize);
    let mut counted = Vec::new();
    ordered_map(
        threads,
        || {
            progress.check()?;
            Ok(next.next())
        },
        || (),
        |(), from| count_terms(segment, new, from),
        |mut counts| {
            counted.append(&mut counts);
            Ok(())
        },
    )?;
    let before = std::mem::take(&mut all.terms);
    all.terms = add_counts(&before, &counted);
    Ok(all)
}

/// For some blocks of the dictionary: how many of `docs` have each term, where any have.
fn count_terms(segment: &Segment, docs: &DocSet, from: u64) -> Result<Vec<(u32, u32)>> {
    let (mut counts, mut out) = (Vec::new(), [0; BLOCK]);
    let mut terms = segment.dictionary().iter_blocks(from, from + JOB_BLOCKS);
    while let Some(info) = terms.next_term()? {
        let list = segment.list(&info)?;
        let (mut count, mut first) = (0, 0);
        for block in 0..list.blocks() {
            let last = list.block_max_doc(block);
            if docs.any_within(first, last) {
                let n = list
                    .decode_docs(block, &mut out)
                    .map_err(|what| segment.bad_list(&info, what))?;
                count += out[..n].iter().filter(|&&doc| docs.contains(doc)).count() as u32;
            }
            first = last;
        }
        if count > 0 {
            counts.push((info.ordinal, count));
        }
    }
    Ok(counts)
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
