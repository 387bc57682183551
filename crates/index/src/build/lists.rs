//! Building a segment from posting lists that the caller supplies.
//!
//! Lengths follow from all postings of a document, and bounds from lengths. Each list is
//! therefore read twice: first to add up lengths, then to be encoded. No list is kept in memory
//! in between.

use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};

use warpseek_codec::CodecId;

use super::config::{BuildReport, Phase, Progress};
use super::ordered::ordered_map;
use super::pipeline::Built;
use super::sources::{ListSource, Part};
use super::write::{Coding, write_lists};
use crate::build::segment_writer::SegmentWriter;
use crate::directory::WriteLock;
use crate::error::Result;
use crate::files::documents::DocumentTable;
use crate::files::ids::IdsWriter;
use crate::files::manifest::{Content, Manifest};

/// Number of lists that a worker counts at a time; some may be long.
const JOB_LISTS: u32 = 64;

/// Number of ids written between checks for cancellation.
const JOB_IDS: u32 = 1 << 16;

/// Posting lists, numbered from 0 in the byte order of their terms. The external id of a document
/// is its number.
pub trait Lists: Sync {
    /// Returns the number of documents.
    fn documents(&self) -> u32;

    /// Returns the number of lists.
    fn count(&self) -> u32;

    /// Returns the term of a list: 1 to 255 bytes, and larger than the term of the preceding
    /// list.
    fn term(&self, list: u32) -> &[u8];

    /// Returns the approximate number of postings of a list.
    fn weight(&self, list: u32) -> usize;

    /// Appends the postings of a list, each with document and frequency.
    ///
    /// Documents ascend and are below [`documents`](Lists::documents). Frequencies are at least 1,
    /// and those of a document add up to less than 2^32 over all lists. A list without postings is
    /// omitted. Each list is loaded twice, from any thread, and must be the same both times.
    fn load(&self, list: u32, out: &mut Vec<(u32, u32)>);
}

/// Configuration of an index of lists.
#[derive(Clone, Copy, Debug)]
pub struct ListsConfig {
    /// Codec of blocks. Default: bitpack.
    pub codec: CodecId,
    /// Number of worker threads. Default: one per core.
    pub threads: usize,
}

impl Default for ListsConfig {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        ListsConfig { codec: CodecId::default(), threads }
    }
}

/// Writes a segment of the lists.
pub(crate) fn build_lists(
    lock: &WriteLock,
    manifest: &Manifest,
    lists: &impl Lists,
    threads: usize,
    progress: &Progress,
) -> Result<Built> {
    let mut segment = SegmentWriter::create(lock.dir(), manifest)?;
    progress.enter(Phase::Generating);
    progress.add_terms_total(2 * u64::from(lists.count()));
    segment.table = std::thread::scope(|scope| {
        let ids = scope.spawn(|| write_ids(&mut segment.ids, lists.documents(), progress));
        let table = count(lists, threads, progress);
        ids.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        table
    })?;
    progress.add_documents(u64::from(lists.documents()));
    let (files, source) = (segment.list_files()?, Source { lists, next: 0 });
    let coding = Coding::Frequencies(manifest.codec, None);
    let written = write_lists(vec![source], &segment.table, coding, threads, files, progress)?;

    progress.enter(Phase::Committing);
    let report = BuildReport {
        documents: u64::from(lists.documents()),
        tokens: segment.table.tokens(),
        terms: written.terms,
        postings: written.postings,
        ..BuildReport::default()
    };
    let entry = Some(segment.finish(written)?.entry);
    let (content, replaced) = (Some(Content::Text), Vec::new());
    Ok(Built { entry, report, content, impacts: None, static_field: None, replaced })
}

fn write_ids(ids: &mut IdsWriter, documents: u32, progress: &Progress) -> Result<()> {
    let mut id = String::new();
    for doc in 0..documents {
        if doc % JOB_IDS == 0 {
            progress.check()?;
        }
        id.clear();
        // Writing to a string cannot fail.
        let _ = write!(id, "{doc}");
        ids.add(&id)?;
    }
    Ok(())
}

/// Computes the lengths of documents. They are sums of integers, so the order in which threads
/// add does not matter.
fn count(lists: &impl Lists, threads: usize, progress: &Progress) -> Result<DocumentTable> {
    let documents = lists.documents() as usize;
    let mut lengths: Vec<AtomicU32> = Vec::new();
    lengths.resize_with(documents, AtomicU32::default);
    let mut next = 0;
    ordered_map(
        threads,
        || {
            progress.check()?;
            let first = next;
            next = lists.count().min(first + JOB_LISTS);
            Ok((first < next).then_some(first..next))
        },
        Vec::new,
        |pairs, job| {
            let n = job.len();
            for list in job {
                pairs.clear();
                lists.load(list, pairs);
                assert!(pairs.is_sorted_by(|a, b| a.0 < b.0), "list {list} is out of order");
                for &(doc, freq) in &*pairs {
                    lengths[doc as usize].fetch_add(freq, Ordering::Relaxed);
                }
            }
            Ok(n as u64)
        },
        |n| {
            progress.add_terms_written(n);
            Ok(())
        },
    )?;
    let mut table = DocumentTable::default();
    table.lengths = lengths.into_iter().map(AtomicU32::into_inner).collect();
    Ok(table)
}

struct Source<'a, L> {
    lists: &'a L,
    /// Number of the list after the current one.
    next: u32,
}

impl<'a, L: Lists> ListSource for Source<'a, L> {
    type Part = ListPart<'a, L>;

    fn advance(&mut self) -> Result<bool> {
        let more = self.next < self.lists.count();
        self.next += u32::from(more);
        Ok(more)
    }

    fn term(&self) -> &[u8] {
        self.lists.term(self.next - 1)
    }

    fn part(&self) -> ListPart<'a, L> {
        ListPart { lists: self.lists, list: self.next - 1 }
    }
}

struct ListPart<'a, L> {
    lists: &'a L,
    list: u32,
}

impl<L: Lists> Part for ListPart<'_, L> {
    fn weight(&self) -> usize {
        self.lists.weight(self.list)
    }

    fn count(&self) -> u32 {
        self.lists.documents()
    }

    fn load(&self, out: &mut Vec<(u32, u32)>, _: Option<&mut Vec<u32>>) -> Result<()> {
        self.lists.load(self.list, out);
        Ok(())
    }
}
