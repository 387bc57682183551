//! Lists in memory, in the batches in which they were inverted.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::sources::{Job, OnList};
use crate::error::Result;
use crate::postings::EncodedBlocks;

/// Terms that make a job for a worker.
const JOB_TERMS: usize = 256;

/// Marks a number that no term has.
const NONE: u32 = u32::MAX;

/// Lists of consecutive documents, one for each term that they have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListBatch {
    /// The number of each list's term.
    pub terms: Vec<u32>,
    /// Where each list begins in `docs` and `freqs`, and where the last one ends.
    pub starts: Vec<u32>,
    /// Documents, ascending within a list.
    pub docs: Vec<u32>,
    /// Their frequencies.
    pub freqs: Vec<u32>,
}

impl ListBatch {
    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        // A list also has a place among those of its term, with a cursor and a number beside it while they are sorted.
        let of_lists = 12 * self.terms.len();
        of_lists + 4 * (self.terms.len() + self.starts.len() + self.docs.len() + self.freqs.len())
    }
}

/// Posting lists in the order of their terms. A list has a part in each batch that has its term.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SortedLists {
    term_bytes: Vec<u8>,
    /// Where each term ends.
    term_ends: Vec<usize>,
    batches: Vec<ListBatch>,
    /// Where the places of each rank begin, and where the last ones end.
    firsts: Vec<usize>,
    places: Vec<Place>,
    blocks: Option<EncodedBlocks>,
}

/// A list: the number of its batch, and its number there.
type Place = (u32, u32);

/// For each rank, where its places begin, and the places of all lists by rank, then by batch. There are millions of terms, so threads share the batches.
///
/// # Panics
/// If a batch has a term twice.
fn places(batches: &[ListBatch], ranks: &[u32], terms: usize) -> (Vec<usize>, Vec<Place>) {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let numbered: Vec<(u32, &ListBatch)> = (0..).zip(batches).collect();
    let each = |f: &(dyn Fn(u32, u32, usize) + Sync)| {
        std::thread::scope(|scope| {
            for part in numbered.chunks(numbered.len().div_ceil(threads).max(1)) {
                scope.spawn(move || {
                    for &(number, batch) in part {
                        for (list, &term) in (0..).zip(&batch.terms) {
                            f(number, list, ranks[term as usize] as usize);
                        }
                    }
                });
            }
        });
    };
    let counts: Vec<AtomicU32> = (0..terms).map(|_| AtomicU32::new(0)).collect();
    each(&|_, _, rank| _ = counts[rank].fetch_add(1, Ordering::Relaxed));
    let mut firsts = vec![0];
    firsts.extend(counts.iter().scan(0, |end, count| {
        *end += count.load(Ordering::Relaxed) as usize;
        Some(*end)
    }));
    let packed: Vec<AtomicU64> = (0..firsts[terms]).map(|_| AtomicU64::new(0)).collect();
    each(&|batch, list, rank| {
        let left = counts[rank].fetch_sub(1, Ordering::Relaxed) as usize;
        let place = u64::from(batch) << 32 | u64::from(list);
        packed[firsts[rank + 1] - left].store(place, Ordering::Relaxed);
    });
    let mut places: Vec<Place> = packed
        .into_iter()
        .map(AtomicU64::into_inner)
        .map(|p| ((p >> 32) as u32, p as u32))
        .collect();
    for rank in 0..terms {
        let of_term = &mut places[firsts[rank]..firsts[rank + 1]];
        of_term.sort_unstable();
        assert!(of_term.is_sorted_by(|a, b| a.0 < b.0), "a term with two lists");
    }
    (firsts, places)
}

impl SortedLists {
    /// Lists of batches, given all terms and their numbers, in ascending order of their bytes.
    ///
    /// # Panics
    /// If terms do not ascend, or if a batch has a term that is not among them, or the same term twice.
    pub fn new<'a>(
        terms: impl IntoIterator<Item = (&'a [u8], u32)>,
        batches: Vec<ListBatch>,
    ) -> Self {
        let mut sorted = SortedLists::default();
        let mut ranks = Vec::new();
        for (term, number) in terms {
            let rank = sorted.term_ends.len();
            assert!(rank == 0 || sorted.term(rank - 1) < term, "terms must ascend");
            sorted.term_bytes.extend_from_slice(term);
            sorted.term_ends.push(sorted.term_bytes.len());
            let number = number as usize;
            ranks.resize(ranks.len().max(number + 1), NONE);
            ranks[number] = rank as u32;
        }
        (sorted.firsts, sorted.places) = places(&batches, &ranks, sorted.terms());
        sorted.batches = batches;
        sorted
    }

    /// Number of terms, some of which may have no postings.
    pub fn terms(&self) -> usize {
        self.term_ends.len()
    }

    /// A term by its rank.
    pub fn term(&self, rank: usize) -> &[u8] {
        let start = if rank == 0 { 0 } else { self.term_ends[rank - 1] };
        &self.term_bytes[start..self.term_ends[rank]]
    }

    /// Documents and frequencies of a term, batch by batch.
    pub fn postings(&self, rank: usize) -> impl Iterator<Item = (&[u32], &[u32])> {
        self.pieces(rank).map(|(batch, range)| {
            let batch = &self.batches[batch];
            (&batch.docs[range.clone()], &batch.freqs[range])
        })
    }

    /// Where the postings of a term are: in which batches, and where there.
    pub fn pieces(&self, rank: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.places[self.firsts[rank]..self.firsts[rank + 1]].iter().map(|&(batch, list)| {
            let (batch, list) = (batch as usize, list as usize);
            let starts = &self.batches[batch].starts;
            (batch, starts[list] as usize..starts[list + 1] as usize)
        })
    }

    /// The same lists with their full blocks encoded in the codec `bitpack`, which must have been asked for (`Wanted::blocks`).
    ///
    /// # Panics
    /// If they are not those of as many terms.
    pub fn with_blocks(self, blocks: EncodedBlocks) -> Self {
        assert_eq!(blocks.firsts.len(), self.terms() + 1, "blocks of other lists");
        SortedLists { blocks: Some(blocks), ..self }
    }

    /// Appends documents and frequencies of a term.
    pub(super) fn load(&self, rank: usize, out: &mut Vec<(u32, u32)>) {
        for (docs, freqs) in self.postings(rank) {
            out.extend(docs.iter().copied().zip(freqs.iter().copied()));
        }
    }

    /// All lists as jobs.
    pub(super) fn jobs(&self) -> impl Iterator<Item = SortedJob<'_>> {
        let ranks = (0..self.terms()).step_by(JOB_TERMS);
        ranks.map(|from| SortedJob {
            lists: self,
            ranks: from..(from + JOB_TERMS).min(self.terms()),
        })
    }

    /// How many postings a term has.
    pub fn count(&self, rank: usize) -> usize {
        self.postings(rank).map(|(docs, _)| docs.len()).sum()
    }
}

/// Some of the lists.
pub(super) struct SortedJob<'a> {
    lists: &'a SortedLists,
    ranks: Range<usize>,
}

impl Job for SortedJob<'_> {
    fn for_each_list(&self, f: &mut OnList<'_>) -> Result<()> {
        self.ranks.clone().try_for_each(|rank| {
            let load = |out: &mut _, _: Option<&mut Vec<u32>>| {
                self.lists.load(rank, out);
                Ok(())
            };
            let blocks = self.lists.blocks.as_ref().map(|blocks| blocks.list(rank));
            f(self.lists.term(rank), &load, blocks)
        })
    }
}
