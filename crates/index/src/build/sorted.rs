//! Lists in memory, in the batches in which they were inverted.

use std::ops::Range;
use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

use super::sources::{Job, OnList};
use crate::error::Result;
use crate::postings::EncodedBlocks;

/// Terms that make a job for a worker.
const JOB_TERMS: usize = 256;

/// Marks a term that a batch does not have.
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
        4 * (self.terms.len() + self.starts.len() + self.docs.len() + self.freqs.len())
    }
}

/// Posting lists in the order of their terms. A list has a part in each batch that has its term.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SortedLists {
    term_bytes: Vec<u8>,
    /// Where each term ends.
    term_ends: Vec<usize>,
    batches: Vec<Ranked>,
    blocks: Option<EncodedBlocks>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Ranked {
    batch: ListBatch,
    /// The list of each term, by the term's rank.
    lists: Vec<u32>,
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
        let rank = |batch: &ListBatch| {
            let mut lists = vec![NONE; sorted.term_ends.len()];
            for (list, &term) in batch.terms.iter().enumerate() {
                let known = &mut lists[ranks[term as usize] as usize];
                assert_eq!(*known, NONE, "a term with two lists");
                *known = list as u32;
            }
            lists
        };
        // There are millions of terms, so threads share the batches.
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let lists: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let parts = batches.chunks(batches.len().div_ceil(threads).max(1));
            let ranked =
                parts.map(|part| scope.spawn(|| part.iter().map(rank).collect::<Vec<_>>()));
            let ranked: Vec<_> = ranked.collect();
            let join =
                |part: ScopedJoinHandle<'_, _>| part.join().unwrap_or_else(|e| resume_unwind(e));
            ranked.into_iter().flat_map(join).collect()
        });
        let ranked = batches.into_iter().zip(lists);
        sorted.batches = ranked.map(|(batch, lists)| Ranked { batch, lists }).collect();
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
            let batch = &self.batches[batch].batch;
            (&batch.docs[range.clone()], &batch.freqs[range])
        })
    }

    /// Where the postings of a term are: in which batches, and where there.
    pub fn pieces(&self, rank: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.batches.iter().enumerate().filter_map(move |(i, Ranked { batch, lists })| {
            let list = Some(lists[rank]).filter(|&list| list != NONE)? as usize;
            Some((i, batch.starts[list] as usize..batch.starts[list + 1] as usize))
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
            let load = |out: &mut _| {
                self.lists.load(rank, out);
                Ok(())
            };
            let blocks = self.lists.blocks.as_ref().map(|blocks| blocks.list(rank));
            f(self.lists.term(rank), &load, blocks)
        })
    }
}
