//! Comparison with an index of n-grams, whose lists contain the documents that have the n-grams
//! of an item.

use std::sync::Arc;

use warpseek_exec::Pool;
use warpseek_index::{BIN, IndexError, Progress, Result, Segment, Snapshot};
use warpseek_text::GramScratch;

use super::{Best, Contamination, Item, ItemReport, Settings, TestSet};

/// Maximum number of entries of lists that are sorted to count them; if there are more, each
/// document gets a counter.
const MOST_ENTRIES: usize = if cfg!(test) { 100 } else { 1 << 22 };

/// Compares a test set with the documents of an index, whose n-grams must be those of the set.
pub fn against_snapshot(
    set: &TestSet,
    snapshot: &Arc<Snapshot>,
    settings: &Settings,
    progress: &Progress,
) -> Result<Contamination> {
    let grams = snapshot.manifest().grams.as_ref();
    let same = |grams: &&_| {
        let (theirs, own): (&warpseek_text::GramConfig, _) = (grams, &set.config);
        (theirs.unit, theirs.n) == (own.unit, own.n)
    };
    if grams.filter(same).is_none() {
        let what = "the index and the test set must have n-grams of the same unit and length";
        return Err(IndexError::Grams { what: what.into() });
    }
    let reports =
        Pool::shared(settings.threads).map(&set.items, Worker::default, |worker, item| {
            progress.check()?;
            worker.compare(set, item, snapshot, settings.documents)
        });
    Ok(Contamination {
        items: reports.into_iter().collect::<Result<_>>()?,
        documents: snapshot.statistics().documents,
        ..Contamination::default()
    })
}

/// The memory of a thread.
#[derive(Default)]
struct Worker {
    scratch: GramScratch,
    counts: Counts,
}

impl Worker {
    fn compare(
        &mut self,
        set: &TestSet,
        item: &Item,
        snapshot: &Snapshot,
        most: usize,
    ) -> Result<ItemReport> {
        let mut grams: Vec<Vec<u8>> = Vec::new();
        let (title, text) = (&item.title, &item.text);
        set.config.for_each(&mut self.scratch, title, text, |_, gram, _| grams.push(gram.into()));
        grams.sort_unstable();
        grams.dedup();
        let (mut found, mut best) = (vec![false; grams.len()], Best::default());
        for segment in snapshot.segments() {
            for (gram, found) in grams.iter().zip(&mut found) {
                *found |= self.counts.add(segment, gram)?;
            }
            self.counts.drain(|document, shared| {
                let order = (0, segment.base() + document);
                best.offer(shared, order, most, || segment.ids().get(document))
            })?;
        }
        let found = found.into_iter().filter(|&found| found).count();
        Ok(ItemReport::new(&item.id, grams.len() as u32, found as u32, best))
    }
}

/// The number of n-grams that each document of a segment has.
#[derive(Default)]
struct Counts {
    /// Documents, one entry for each n-gram that they have.
    entries: Vec<u32>,
    /// Counters of all documents, if there were too many entries.
    counters: Vec<u32>,
}

impl Counts {
    /// Counts the live documents that have an n-gram; returns false if there are none.
    fn add(&mut self, segment: &Segment, gram: &[u8]) -> Result<bool> {
        let Some(info) = segment.dictionary().find(gram)? else { return Ok(false) };
        let list = segment.map_list(&info)?;
        let (mut docs, mut last) = ([0; BIN], None);
        for block in 0..list.blocks() {
            let n = list.decode_docs(block, &mut docs);
            for &part in &docs[..n.map_err(|what| segment.bad_list(&info, what))?] {
                let document = segment.parts().document(part);
                // Parts of a document follow each other.
                if last != Some(document) && !segment.is_deleted(document) {
                    last = Some(document);
                    self.entries.push(document);
                }
            }
            if self.entries.len() >= MOST_ENTRIES {
                self.spill(segment.documents().count());
            }
        }
        Ok(last.is_some())
    }

    fn spill(&mut self, documents: u32) {
        self.counters.resize(documents as usize, 0);
        self.entries.drain(..).for_each(|document| self.counters[document as usize] += 1);
    }

    /// Calls `f` with each document and its count, and clears the counts.
    fn drain(&mut self, mut f: impl FnMut(u32, u32) -> Result<()>) -> Result<()> {
        if self.counters.is_empty() {
            self.entries.sort_unstable();
            let mut same = self.entries.chunk_by(|a, b| a == b);
            let done = same.try_for_each(|run| f(run[0], run.len() as u32));
            self.entries.clear();
            return done;
        }
        self.spill(self.counters.len() as u32);
        let counters = std::mem::take(&mut self.counters);
        let mut counted = (0..).zip(counters).filter(|&(_, count)| count > 0);
        counted.try_for_each(|(document, count)| f(document, count))
    }
}
