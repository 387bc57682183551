//! The documents of a window that may become hits, in ascending order, with their sums so far.

use warpseek_core::Score;
use warpseek_exec::Work;
use warpseek_index::ListError;

use crate::collector::Collector;
use crate::segment::SegmentQuery;
use crate::simd::survivors;
use crate::stream::Stream;

/// Documents and sums are apart from each other, and behind the candidates is room: so they are put there and dropped
/// without a branch that depends on them.
#[derive(Default)]
pub(crate) struct Candidates {
    docs: Vec<u32>,
    sums: Vec<Score>,
    len: usize,
}

impl Candidates {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    fn reserve(&mut self, more: usize) {
        let wanted = self.len + more;
        if self.docs.len() < wanted {
            self.docs.resize(wanted.next_power_of_two(), 0);
            self.sums.resize(wanted.next_power_of_two(), 0);
        }
    }

    pub(crate) fn push(&mut self, doc: u32, sum: Score) {
        self.reserve(1);
        (self.docs[self.len], self.sums[self.len]) = (doc, sum);
        self.len += 1;
    }

    /// Adds those postings that contribute more than `least` and whose documents are admitted.
    pub(crate) fn extend(
        &mut self,
        docs: &[u32],
        scores: &[Score],
        least: Score,
        admits: impl Fn(u32) -> bool,
    ) {
        self.reserve(docs.len());
        for (&doc, &score) in docs.iter().zip(scores) {
            (self.docs[self.len], self.sums[self.len]) = (doc, score);
            self.len += usize::from(score > least && admits(doc));
        }
    }

    /// Adds the documents from `base` on whose sums are above `least`, and clears all sums. A sum that is not 0 has its bit in `touched`.
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

    /// Adds the contributions of a list. Candidates that cannot exceed the threshold are dropped: those whose sum is too low even with the most that the list
    /// (`most`), or its block, and all lists that follow (`below`) contribute. The candidates ascend, so the list is read forward once.
    pub(crate) fn look_up(
        &mut self,
        stream: &mut Stream<'_>,
        threshold: u64,
        most: Score,
        below: u64,
        work: &mut Work,
    ) -> Result<(), ListError> {
        let len = self.moved_above(0, self.len, 0, threshold, below + u64::from(most));
        let (mut kept, mut from) = (0, 0);
        while from < len {
            let (most, last) = stream.peek(self.docs[from]);
            let end = from + self.docs[from..len].iter().take_while(|&&doc| doc <= last).count();
            let start = kept;
            kept = self.moved_above(from, end, start, threshold, below + u64::from(most));
            from = end;
            if most == 0 {
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

    /// Moves those of the candidates `from` to `end` that can exceed the threshold with `more` to `to`; returns their end.
    fn moved_above(
        &mut self,
        from: usize,
        end: usize,
        mut to: usize,
        threshold: u64,
        more: u64,
    ) -> usize {
        for i in from..end {
            let (doc, sum) = (self.docs[i], self.sums[i]);
            (self.docs[to], self.sums[to]) = (doc, sum);
            to += usize::from(u64::from(sum) + more > threshold);
        }
        to
    }

    /// Offers all of them, and leaves none.
    pub(crate) fn offer(&mut self, query: &SegmentQuery<'_>, collector: &mut Collector) {
        for (&doc, &sum) in self.docs[..self.len].iter().zip(&self.sums[..self.len]) {
            query.offer(doc, sum, collector);
        }
        self.len = 0;
    }
}
