//! The documents of a window that may become hits, in ascending order, with their sums so far.

use std::ops::Range;

use warpseek_core::Score;
use warpseek_exec::Work;
use warpseek_index::ListError;

use crate::collector::Collector;
use crate::segment::SegmentQuery;
use crate::simd::{find_doc, keep_above, survivors};
use crate::stream::Stream;

/// Minimum number of candidates in a block for reading all of its postings instead of looking up
/// each candidate.
const MANY: usize = 16;

/// Candidates with their sums. Documents and sums are in separate vectors with free space behind
/// the candidates, so that candidates can be added and dropped without a branch that depends on
/// them.
#[derive(Default)]
pub(crate) struct Candidates {
    docs: Vec<u32>,
    sums: Vec<Score>,
    len: usize,
    /// Number of candidates that have been offered.
    offered: usize,
}

impl Candidates {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn clear(&mut self) {
        (self.len, self.offered) = (0, 0);
    }

    fn reserve(&mut self, more: usize) {
        let wanted = self.len + more;
        if self.docs.len() < wanted {
            self.docs.resize(wanted.next_power_of_two(), 0);
            self.sums.resize(wanted.next_power_of_two(), 0);
        }
    }

    /// Adds those postings that contribute more than `least` and whose documents are admitted.
    /// Without `admits`, all documents are.
    pub(crate) fn extend(
        &mut self,
        docs: &[u32],
        scores: &[Score],
        least: Score,
        admits: Option<impl Fn(u32) -> bool>,
    ) {
        self.reserve(docs.len());
        let added = self.len..self.len + docs.len();
        self.docs[added.clone()].copy_from_slice(docs);
        self.sums[added.clone()].copy_from_slice(scores);
        let end = keep_above(&mut self.docs, &mut self.sums, added.clone(), added.start, least);
        let Some(admits) = admits else {
            self.len = end;
            return;
        };
        for i in added.start..end {
            let (doc, sum) = (self.docs[i], self.sums[i]);
            (self.docs[self.len], self.sums[self.len]) = (doc, sum);
            self.len += usize::from(admits(doc));
        }
    }

    /// Adds the documents from `base` on whose sums are above `least`, and clears all sums. A sum
    /// that is not 0 must have its bit set in `touched`.
    pub(crate) fn sweep(
        &mut self,
        sums: &mut [Score],
        touched: &mut [u64],
        base: u32,
        least: Score,
    ) {
        self.reserve(64 * touched.len());
        let (docs, out) = (&mut self.docs[self.len..], &mut self.sums[self.len..]);
        self.len += survivors(sums, touched, base, least, docs, out);
    }

    /// Adds the contributions of a list, and drops candidates that cannot exceed the threshold.
    /// These are the candidates whose sum is too low even with the most that the list (`most`),
    /// or its block, and all lists that follow (`below`) contribute. The candidates ascend, so
    /// the list is read forward once. `table` has a slot for each document from `base` up to the
    /// last candidate; all slots are 0 before and after the call.
    #[expect(
        clippy::too_many_arguments,
        reason = "the list, its bounds, and memory that is shared"
    )]
    pub(crate) fn look_up(
        &mut self,
        stream: &mut Stream<'_>,
        threshold: u64,
        most: Score,
        below: u64,
        table: &mut [Score],
        base: u32,
        work: &mut Work,
    ) -> Result<(), ListError> {
        let len = self.keep_hopeful(0..self.len, 0, threshold, below + u64::from(most));
        let (mut kept, mut from) = (0, 0);
        while from < len {
            let (most, last) = stream.peek(self.docs[from]);
            let end = find_doc(&self.docs[..len], from, last.saturating_add(1));
            let start = kept;
            kept = self.keep_hopeful(from..end, start, threshold, below + u64::from(most));
            from = end;
            if most == 0 {
                continue;
            }
            if kept - start >= MANY {
                self.add_block(start..kept, stream, table, base, work)?;
                continue;
            }
            for i in start..kept {
                let share = stream.look_up(self.docs[i])?;
                work.postings_scored += u64::from(share > 0);
                self.sums[i] += share;
            }
        }
        self.len = kept;
        Ok(())
    }

    /// Adds the contributions of the block that these candidates are in. All postings of the
    /// block are written to the table, and each candidate reads its slot.
    fn add_block(
        &mut self,
        candidates: Range<usize>,
        stream: &mut Stream<'_>,
        table: &mut [Score],
        base: u32,
        work: &mut Work,
    ) -> Result<(), ListError> {
        let wanted = &self.docs[candidates.clone()];
        let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else { return Ok(()) };
        let Some((run, _)) = stream.run(first, last + 1, 0)? else { return Ok(()) };
        let (docs, scores) = stream.postings(run);
        work.postings_scored += docs.len() as u64;
        for (&doc, &score) in docs.iter().zip(scores) {
            table[(doc - base) as usize] = score;
        }
        for (doc, sum) in wanted.iter().zip(&mut self.sums[candidates]) {
            *sum += table[(doc - base) as usize];
        }
        for &doc in docs {
            table[(doc - base) as usize] = 0;
        }
        Ok(())
    }

    fn keep_hopeful(&mut self, range: Range<usize>, to: usize, threshold: u64, more: u64) -> usize {
        keep_hopeful(&mut self.docs, &mut self.sums, range, to, threshold, more)
    }

    /// Offers all candidates and removes them.
    pub(crate) fn offer(&mut self, query: &SegmentQuery<'_>, collector: &mut Collector) {
        self.offer_before(u32::MAX, query, collector);
        self.clear();
    }

    /// Offers all candidates, and those of `others` before `end`, in ascending order. No
    /// candidate is at or behind `end`. Removes the candidates, but not the others.
    pub(crate) fn offer_with(
        &mut self,
        others: &mut Candidates,
        end: u32,
        query: &SegmentQuery<'_>,
        collector: &mut Collector,
    ) {
        while self.offered < self.len && others.offered < others.len {
            let doc = self.docs[self.offered];
            others.offer_before(doc, query, collector);
            self.offer_before(doc + 1, query, collector);
        }
        others.offer_before(end, query, collector);
        self.offer(query, collector);
    }

    /// Offers those candidates before `end` that have not been offered.
    fn offer_before(&mut self, end: u32, query: &SegmentQuery<'_>, collector: &mut Collector) {
        while self.offered < self.len && self.docs[self.offered] < end {
            query.offer(self.docs[self.offered], self.sums[self.offered], collector);
            self.offered += 1;
        }
    }
}

/// Moves those documents of a range whose sums can exceed the threshold with `more`, and their
/// sums, to `to`, which is not behind the start of the range. Returns the end of what was moved.
pub(crate) fn keep_hopeful(
    docs: &mut [u32],
    sums: &mut [Score],
    range: Range<usize>,
    to: usize,
    threshold: u64,
    more: u64,
) -> usize {
    match threshold.checked_sub(more) {
        Some(least) => {
            let least = least.min(u64::from(Score::MAX)) as Score;
            keep_above(docs, sums, range, to, least)
        }
        // All of them can.
        None => {
            docs.copy_within(range.clone(), to);
            sums.copy_within(range.clone(), to);
            to + range.len()
        }
    }
}
