//! Posting lists in memory, in the batches in which they were inverted.

use std::ops::Range;

use crate::files::postings::{EncodedBlocks, ListBlocks};

/// Minimum number of terms for which a separate thread is worthwhile.
const LEAST_PART: usize = 1 << 14;

/// Number that no term has.
const NONE: u32 = u32::MAX;

/// Lists of consecutive documents, one for each term that occurs in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListBatch {
    /// Number of each list's term.
    pub terms: Vec<u32>,
    /// Start of each list in `docs` and `freqs`, followed by the end of the last one.
    pub starts: Vec<u32>,
    /// Documents, ascending within a list.
    pub docs: Vec<u32>,
    /// Frequencies of the documents.
    pub freqs: Vec<u32>,
    /// Positions of words, as many for each posting as its frequency says; empty if there are
    /// none.
    pub positions: Vec<u32>,
}

impl ListBatch {
    /// Returns the size in memory in bytes.
    pub fn bytes(&self) -> usize {
        // A list also has an entry among the lists of its term, with a cursor and a number while
        // they are sorted.
        let of_lists = 12 * self.terms.len();
        let of_postings = 4 * (self.docs.len() + self.freqs.len() + self.positions.len());
        of_lists + 4 * (self.terms.len() + self.starts.len()) + of_postings
    }

    /// Returns the start of the positions of each list; empty if there are no positions.
    fn position_starts(&self) -> Vec<u32> {
        if self.positions.is_empty() {
            return Vec::new();
        }
        let mut start = 0;
        let of_list = |range: &[u32]| {
            let freqs = &self.freqs[range[0] as usize..range[1] as usize];
            (start, start += freqs.iter().sum::<u32>()).0
        };
        self.starts.windows(2).map(of_list).collect()
    }
}

/// Posting lists in the order of their terms. A list has a part in each batch that contains its
/// term.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SortedLists {
    term_bytes: Vec<u8>,
    /// End of each term in `term_bytes`.
    term_ends: Vec<usize>,
    batches: Vec<ListBatch>,
    /// The start of the positions of each list, by batch.
    position_starts: Vec<Vec<u32>>,
    locations: Locations,
    blocks: Option<EncodedBlocks>,
}

/// Location of a list: the number of its batch, and its number there.
type Location = (u32, u32);

/// Returns the number of ranks per part. Each part is processed by one thread.
fn part_of(terms: usize) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    terms.div_ceil(threads).max(LEAST_PART)
}

/// Calls `f` in parallel with ranges of `per_part` ranks, and returns the results in order.
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

/// The locations of each term's lists by rank, in the order of batches.
///
/// There are millions of terms, and the order of lists in a batch is unrelated to ranks. Each
/// thread therefore handles a range of ranks and picks their lists from all batches: threads
/// write to separate memory, and the lists that a thread picks are in order.
#[derive(Clone, Debug, Default, PartialEq)]
struct Locations {
    /// Number of ranks in each part except the last.
    per_part: usize,
    parts: Vec<LocationsPart>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct LocationsPart {
    /// Start of the locations of each rank, followed by the end of the last ones.
    firsts: Vec<u32>,
    locations: Vec<Location>,
}

impl Locations {
    /// Collects the locations of the lists of all batches.
    ///
    /// # Panics
    /// Panics if a batch has a term twice, or one without a rank.
    fn new(batches: &[ListBatch], ranks: &[u32], terms: usize) -> Self {
        let per_part = part_of(terms);
        let parts = in_parts(terms, per_part, |part| LocationsPart::new(batches, ranks, part));
        let located: usize = parts.iter().map(|part| part.locations.len()).sum();
        let lists: usize = batches.iter().map(|batch| batch.terms.len()).sum();
        assert_eq!(located, lists, "a list whose term has no rank");
        Locations { per_part, parts }
    }

    fn of(&self, rank: usize) -> &[Location] {
        let (part, i) = (&self.parts[rank / self.per_part], rank % self.per_part);
        &part.locations[part.firsts[i] as usize..part.firsts[i + 1] as usize]
    }
}

impl LocationsPart {
    fn new(batches: &[ListBatch], ranks: &[u32], of_part: Range<usize>) -> Self {
        let (start, len) = (of_part.start as u32, of_part.len());
        let each = |f: &mut dyn FnMut(usize, Location)| {
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
        let mut locations = vec![(0, 0); firsts[len] as usize];
        let mut next = firsts.clone();
        each(&mut |i, location| {
            let at = next[i] as usize;
            let again = at > firsts[i] as usize && locations[at - 1].0 == location.0;
            assert!(!again, "a term with two lists");
            locations[at] = location;
            next[i] += 1;
        });
        LocationsPart { firsts, locations }
    }
}

impl SortedLists {
    /// Creates lists from batches. `numbers` are the numbers of all terms in ascending order of
    /// their bytes, which `term` returns.
    ///
    /// # Panics
    /// Panics if terms do not ascend, or if a batch has a term that is not among them, or the
    /// same term twice.
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
        sorted.locations = Locations::new(&batches, &ranks, sorted.terms());
        let of_batches = |part: Range<usize>| -> Vec<Vec<u32>> {
            batches[part].iter().map(ListBatch::position_starts).collect()
        };
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let per_part = batches.len().div_ceil(threads).max(1);
        sorted.position_starts = in_parts(batches.len(), per_part, of_batches).concat();
        sorted.batches = batches;
        sorted
    }

    /// Returns the number of terms, some of which may have no postings.
    pub fn terms(&self) -> usize {
        self.term_ends.len()
    }

    /// Returns a term by its rank.
    pub fn term(&self, rank: usize) -> &[u8] {
        let start = if rank == 0 { 0 } else { self.term_ends[rank - 1] };
        &self.term_bytes[start..self.term_ends[rank]]
    }

    /// Returns documents and frequencies of a term, batch by batch.
    pub fn postings(&self, rank: usize) -> impl Iterator<Item = (&[u32], &[u32])> {
        self.pieces(rank).map(|(batch, range)| {
            let batch = &self.batches[batch];
            (&batch.docs[range.clone()], &batch.freqs[range])
        })
    }

    /// Returns the locations of a term's postings: the batches, and the ranges there.
    pub fn pieces(&self, rank: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.locations.of(rank).iter().map(|&(batch, list)| {
            let (batch, list) = (batch as usize, list as usize);
            let starts = &self.batches[batch].starts;
            (batch, starts[list] as usize..starts[list + 1] as usize)
        })
    }

    /// Adds the full blocks of the lists, encoded in the codec `bitpack`. The build must have
    /// requested them (`InverterOptions::blocks`).
    ///
    /// # Panics
    /// Panics if the number of terms differs.
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

    /// Appends the positions of a term: the first one of each posting, followed by distances.
    pub(super) fn load_positions(&self, rank: usize, out: &mut Vec<u32>) {
        for &(batch, list) in self.locations.of(rank) {
            let (batch, list) = (batch as usize, list as usize);
            let Some(&start) = self.position_starts[batch].get(list) else { continue };
            let ListBatch { starts, freqs, positions, .. } = &self.batches[batch];
            let mut rest = &positions[start as usize..];
            for &freq in &freqs[starts[list] as usize..starts[list + 1] as usize] {
                let (of_posting, after) = rest.split_at(freq as usize);
                let gaps = of_posting.windows(2).map(|pair| pair[1] - pair[0]);
                out.extend(of_posting.first().copied().into_iter().chain(gaps));
                rest = after;
            }
        }
    }

    /// Returns the number of postings of a term.
    pub fn count(&self, rank: usize) -> usize {
        self.postings(rank).map(|(docs, _)| docs.len()).sum()
    }
}

/// A list in memory whose documents ascend.
pub(crate) struct SortedList<'a> {
    lists: &'a SortedLists,
    rank: usize,
}

impl<'a> SortedList<'a> {
    pub(super) fn new(lists: &'a SortedLists, rank: usize) -> Self {
        SortedList { lists, rank }
    }

    /// Appends the documents and frequencies of the list.
    pub(super) fn load(&self, docs: &mut Vec<u32>, freqs: &mut Vec<u32>) {
        for (more_docs, more_freqs) in self.lists.postings(self.rank) {
            docs.extend_from_slice(more_docs);
            freqs.extend_from_slice(more_freqs);
        }
        debug_assert!(docs.is_sorted());
    }

    /// Returns the full blocks of the list, if they have been encoded.
    pub(super) fn blocks(&self) -> Option<ListBlocks<'a>> {
        self.lists.blocks.as_ref().map(|blocks| blocks.list(self.rank))
    }
}
