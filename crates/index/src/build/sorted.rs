//! Lists in memory, in the batches in which they were inverted.

use std::ops::Range;

use super::sources::{Job, OnList};
use crate::error::Result;
use crate::files::postings::{EncodedBlocks, ListBlocks};

/// Terms that make a job for a worker.
const JOB_TERMS: usize = 256;

/// Terms that are not worth a thread of their own.
const LEAST_PART: usize = 1 << 14;

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
    places: Places,
    blocks: Option<EncodedBlocks>,
}

/// A list: the number of its batch, and its number there.
type Place = (u32, u32);

/// Ranks of a part, of which each has its thread.
fn part_of(terms: usize) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    terms.div_ceil(threads).max(LEAST_PART)
}

/// What threads make of all ranks, so many for each.
fn in_parts<T: Send>(
    terms: usize,
    per_part: usize,
    f: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    let f = &f;
    std::thread::scope(|scope| {
        let start = |from: usize| scope.spawn(move || f(from..terms.min(from + per_part)));
        let started: Vec<_> = (0..terms).step_by(per_part).map(start).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, T>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        started.into_iter().map(join).collect()
    })
}

/// The lists of each term by rank, in the order of batches.
///
/// There are millions of terms, and batches have them in no order of rank. So each thread takes a range of ranks and picks its own from all batches: it writes to no memory of another's, and what it picks is in order.
#[derive(Clone, Debug, Default, PartialEq)]
struct Places {
    /// Ranks of each part but the last.
    per_part: usize,
    parts: Vec<PlacesPart>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct PlacesPart {
    /// Where the places of each rank begin, and where the last ones end.
    firsts: Vec<u32>,
    places: Vec<Place>,
}

impl Places {
    /// # Panics
    /// If a batch has a term twice, or one without a rank.
    fn new(batches: &[ListBatch], ranks: &[u32], terms: usize) -> Self {
        let per_part = part_of(terms);
        let parts = in_parts(terms, per_part, |part| PlacesPart::new(batches, ranks, part));
        let placed: usize = parts.iter().map(|part| part.places.len()).sum();
        let lists: usize = batches.iter().map(|batch| batch.terms.len()).sum();
        assert_eq!(placed, lists, "a list whose term has no rank");
        Places { per_part, parts }
    }

    fn of(&self, rank: usize) -> &[Place] {
        let (part, i) = (&self.parts[rank / self.per_part], rank % self.per_part);
        &part.places[part.firsts[i] as usize..part.firsts[i + 1] as usize]
    }
}

impl PlacesPart {
    fn new(batches: &[ListBatch], ranks: &[u32], of_part: Range<usize>) -> Self {
        let (start, len) = (of_part.start as u32, of_part.len());
        let each = |f: &mut dyn FnMut(usize, Place)| {
            for (number, batch) in (0..).zip(batches) {
                for (list, &term) in (0..).zip(&batch.terms) {
                    // Ranks before the range become large numbers.
                    let i = ranks[term as usize].wrapping_sub(start) as usize;
                    if i < len {
                        f(i, (number, list));
                    }
                }
            }
        };
        let mut firsts = vec![0; len + 1];
        each(&mut |i, _| firsts[i + 1] += 1);
        for i in 0..len {
            firsts[i + 1] += firsts[i];
        }
        let mut places = vec![(0, 0); firsts[len] as usize];
        let mut next = firsts.clone();
        each(&mut |i, place| {
            let at = next[i] as usize;
            let again = at > firsts[i] as usize && places[at - 1].0 == place.0;
            assert!(!again, "a term with two lists");
            places[at] = place;
            next[i] += 1;
        });
        PlacesPart { firsts, places }
    }
}

impl SortedLists {
    /// Lists of batches, given the numbers of all terms in ascending order of their bytes, which `term` returns.
    ///
    /// # Panics
    /// If terms do not ascend, or if a batch has a term that is not among them, or the same term twice.
    pub fn new<'a>(
        numbers: &[u32],
        term: impl Fn(u32) -> &'a [u8] + Sync,
        batches: Vec<ListBatch>,
    ) -> Self {
        let per_part = part_of(numbers.len());
        let parts = in_parts(numbers.len(), per_part, |part| {
            let mut terms = (Vec::new(), Vec::with_capacity(part.len()));
            for &number in &numbers[part] {
                terms.0.extend_from_slice(term(number));
                terms.1.push(terms.0.len());
            }
            terms
        });
        let mut sorted = SortedLists::default();
        for (bytes, ends) in parts {
            let before = sorted.term_bytes.len();
            sorted.term_bytes.extend_from_slice(&bytes);
            sorted.term_ends.extend(ends.iter().map(|end| before + end));
        }
        let ascend = |part: Range<usize>| {
            part.filter(|&rank| rank > 0).all(|rank| sorted.term(rank - 1) < sorted.term(rank))
        };
        assert!(
            in_parts(sorted.terms(), per_part, ascend).iter().all(|&ascend| ascend),
            "terms must ascend"
        );
        let mut ranks = vec![NONE; numbers.iter().max().map_or(0, |&most| most as usize + 1)];
        (0..).zip(numbers).for_each(|(rank, &number)| ranks[number as usize] = rank);
        sorted.places = Places::new(&batches, &ranks, sorted.terms());
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
        self.places.of(rank).iter().map(|&(batch, list)| {
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

/// A list in memory, whose documents ascend.
pub(crate) struct InOrder<'a> {
    lists: &'a SortedLists,
    rank: usize,
}

impl<'a> InOrder<'a> {
    /// Appends its documents and frequencies.
    pub(super) fn load(&self, docs: &mut Vec<u32>, freqs: &mut Vec<u32>) {
        for (more_docs, more_freqs) in self.lists.postings(self.rank) {
            docs.extend_from_slice(more_docs);
            freqs.extend_from_slice(more_freqs);
        }
        debug_assert!(docs.is_sorted());
    }

    /// Its full blocks, if they have been encoded.
    pub(super) fn blocks(&self) -> Option<ListBlocks<'a>> {
        self.lists.blocks.as_ref().map(|blocks| blocks.list(self.rank))
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
            f(self.lists.term(rank), &load, Some(InOrder { lists: self.lists, rank }))
        })
    }
}
