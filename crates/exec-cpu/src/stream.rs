//! A list that is read in windows of documents: whole blocks are scored at once, and single
//! documents are looked up.

use std::ops::Range;

use warpseek_core::Score;
use warpseek_core::limits::{BLOCK, NO_DOC};
use warpseek_exec::Formula;
use warpseek_index::{List, ListError};

use crate::maxima::Maxima;
use crate::scorer::Scorer;
use crate::simd::{find_doc, rank};

/// Maximum number of blocks whose maxima are compared. For more blocks, the list's maximum is
/// used.
const FEW: usize = 8;

/// A list read in windows. Windows and lookups must ascend, except after [`Stream::rewind`].
pub(crate) struct Stream<'a> {
    list: List<'a>,
    weight: f32,
    scorer: Scorer,
    /// The most that a posting of the list contributes.
    most: Score,
    maxima: Maxima,
    /// The first block that may still be needed, as far as [`Stream::window`] knows.
    ahead: usize,
    /// The value of `ahead` when the last window began.
    began: usize,
    /// The decoded block, or `usize::MAX` before the first.
    block: usize,
    at: usize,
    len: usize,
    freqs_of: usize,
    scores_of: usize,
    pub(crate) decoded: u64,
    /// The buffers of the block, boxed so that streams can be moved and sorted at little cost.
    buffers: Box<Buffers>,
}

/// A decoded block.
struct Buffers {
    docs: [u32; BLOCK],
    freqs: [u32; BLOCK],
    scores: [Score; BLOCK],
}

impl<'a> Stream<'a> {
    pub(crate) fn new(
        list: List<'a>,
        weight: f32,
        scorer: Scorer,
        most: Score,
        maxima: Maxima,
    ) -> Self {
        Stream {
            list,
            weight,
            scorer,
            most,
            maxima,
            ahead: 0,
            began: 0,
            block: usize::MAX,
            at: 0,
            len: 0,
            freqs_of: usize::MAX,
            scores_of: usize::MAX,
            decoded: 0,
            buffers: Box::new(Buffers { docs: [0; BLOCK], freqs: [0; BLOCK], scores: [0; BLOCK] }),
        }
    }

    pub(crate) fn df(&self) -> u32 {
        self.list.df()
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.list.blocks() as u64
    }

    /// Returns the first document that a block may contain, and an upper bound on its documents.
    pub(crate) fn span(&self, block: usize) -> (u32, u32) {
        let first = if block == 0 { 0 } else { self.list.block_max_doc(block - 1) + 1 };
        (first, self.list.block_max_doc(block))
    }

    /// Returns the most that a posting of the block contributes.
    #[inline]
    pub(crate) fn block_most(&self, block: usize) -> Score {
        self.maxima.get(block).map_or(self.most, |&max| Formula::units(self.weight, max))
    }

    /// Returns a value that no posting of the block exceeds. If the list has one block, that is
    /// `f32::MAX`.
    pub(crate) fn block_value(&self, block: usize) -> f32 {
        self.maxima.get(block).copied().unwrap_or(f32::MAX)
    }

    /// Adds the values, before the weight, of those documents of a block that `admits` holds for.
    pub(crate) fn add_values(
        &self,
        block: usize,
        admits: impl Fn(u32) -> bool,
        values: &mut Vec<f32>,
    ) -> Result<(), ListError> {
        let (mut docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
        let n = self.list.decode_docs(block, &mut docs)?;
        self.list.decode_freqs(block, &mut freqs)?;
        let postings = docs.iter().zip(&freqs).take(n).filter(|&(&doc, _)| admits(doc));
        values.extend(postings.map(|(&doc, &freq)| self.scorer.value(freq, doc)));
        Ok(())
    }

    /// Returns the contribution of a posting with this value.
    pub(crate) fn contribution_of(&self, value: f32) -> Score {
        Formula::units(self.weight, value)
    }

    /// Estimates the number of postings from `from` up to, but not including, `to`, in blocks
    /// with a contribution above `needed`. [`Stream::window`] must have been called for these
    /// documents.
    pub(crate) fn postings_within(&self, from: u32, to: u32, needed: Score) -> u64 {
        let (mut postings, mut begin) = (0, from);
        let most = u64::from(self.df()).min(BLOCK as u64);
        for block in self.ahead..self.list.blocks() {
            let (first, last) = self.span(block);
            if first >= to {
                break;
            }
            if self.block_most(block) > needed {
                let inside = (last.min(to - 1) + 1).saturating_sub(begin);
                let all = (last + 1).saturating_sub(first).max(1);
                postings += most * u64::from(inside) / u64::from(all);
            }
            begin = last + 1;
        }
        postings
    }

    /// Returns the number of blocks with documents from `from` up to, but not including, `to`
    /// that may contribute more than `needed`, and the number of all blocks there.
    /// [`Stream::window`] must have been called for these documents.
    pub(crate) fn blocks_above(&self, from: u32, to: u32, needed: Score) -> (usize, usize) {
        let (mut above, mut all) = (0, 0);
        for block in find_block(&self.list, self.ahead, from)..self.list.blocks() {
            if self.span(block).0 >= to {
                break;
            }
            above += usize::from(self.block_most(block) > needed);
            all += 1;
        }
        (above, all)
    }

    /// Adds to `most` the most that the list contributes to each of these documents, which
    /// ascend.
    pub(crate) fn add_bounds(&mut self, docs: &[u32], most: &mut [u64]) {
        let Some(&first) = docs.first() else { return };
        self.ahead = find_block(&self.list, self.ahead, first);
        let (mut block, mut at) = (self.ahead, 0);
        while at < docs.len() {
            block = find_block(&self.list, block, docs[at]);
            if block == self.list.blocks() {
                return;
            }
            let (last, bound) = (self.list.block_max_doc(block), u64::from(self.block_most(block)));
            while at < docs.len() && docs[at] <= last {
                most[at] += bound;
                at += 1;
            }
        }
    }

    /// Returns the most that a posting from `from` to `last` contributes, or `None` if there is
    /// no posting from `from` on. If the range spans many blocks, it is the list's maximum.
    pub(crate) fn most_over(&mut self, from: u32, last: u32) -> Option<Score> {
        if self.maxima.is_empty() {
            return Some(self.most);
        }
        self.ahead = find_block(&self.list, self.ahead, from);
        let mut most = *self.maxima.get(self.ahead)?;
        for block in self.ahead..self.maxima.len() {
            if block - self.ahead == FEW {
                return Some(self.most);
            }
            most = most.max(self.maxima[block]);
            if self.list.block_max_doc(block) >= last {
                break;
            }
        }
        Some(Formula::units(self.weight, most))
    }

    /// Returns the block that may contain `doc`, or the number of blocks if all of them end
    /// before it.
    #[inline]
    pub(crate) fn find(&self, doc: u32) -> usize {
        find_block(&self.list, self.next_block(), doc)
    }

    /// Returns the block from `block` on that may contain `doc`, or the number of blocks if all
    /// of them end before it. Prefetches that block unless it is `block` itself.
    pub(crate) fn find_ahead(&self, block: usize, doc: u32) -> usize {
        let next = find_block(&self.list, block, doc);
        if next != block && next < self.list.blocks() {
            self.list.prefetch(next);
        }
        next
    }

    /// Returns the documents of the decoded block.
    #[inline]
    pub(crate) fn docs(&self) -> &[u32] {
        &self.buffers.docs[..self.len]
    }

    /// Returns the indexes in the decoded block of the documents of a range.
    pub(crate) fn within(&self, docs: &Range<u32>) -> Range<usize> {
        let index = |limit: u32| self.docs().partition_point(|&doc| doc < limit);
        index(docs.start)..index(docs.end)
    }

    /// Computes the contributions of some documents of the decoded block, given their indexes in
    /// it.
    pub(crate) fn contributions(
        &mut self,
        docs: &[u32],
        indexes: &[u8],
        out: &mut [Score; BLOCK],
    ) -> Result<(), ListError> {
        if self.scores_of == self.block {
            for (slot, &at) in out.iter_mut().zip(indexes) {
                *slot = self.buffers.scores[usize::from(at)];
            }
            return Ok(());
        }
        let n = docs.len();
        let mut freqs = [0; BLOCK];
        if n <= 2 && self.freqs_of != self.block {
            // One or two frequencies are fetched individually (Ding 2009, section 8.2).
            for (slot, &at) in freqs.iter_mut().zip(indexes) {
                *slot = self.list.freq_at(self.block, usize::from(at))?;
            }
        } else {
            self.freqs()?;
            for (slot, &at) in freqs.iter_mut().zip(indexes) {
                *slot = self.buffers.freqs[usize::from(at)];
            }
        }
        self.scorer.score_block(self.weight, docs, &freqs[..n], &mut out[..n]);
        Ok(())
    }

    /// Starts a window. Returns the most that a posting from `from` up to, but not including,
    /// `to` contributes, or 0 if there is certainly none, and a lower bound on the documents of
    /// postings from `from` on.
    pub(crate) fn window(&mut self, from: u32, to: u32) -> Result<(Score, u32), ListError> {
        if self.maxima.is_empty() {
            // There is only one block, so it is decoded.
            self.load(0)?;
            let next = self.buffers.docs[..self.len].partition_point(|&doc| doc < from);
            let next = if next < self.len { self.buffers.docs[next] } else { NO_DOC };
            return Ok((if next < to { self.most } else { 0 }, next));
        }
        let blocks = self.maxima.len();
        self.ahead = find_block(&self.list, self.ahead, from);
        self.began = self.ahead;
        if self.ahead == blocks {
            return Ok((0, NO_DOC));
        }
        let before = if self.ahead == 0 { 0 } else { self.list.block_max_doc(self.ahead - 1) + 1 };
        let next = before.max(from);
        if next >= to {
            return Ok((0, next));
        }
        let (mut most, mut block) = (0f32, self.ahead);
        loop {
            most = most.max(self.maxima[block]);
            // The next block begins after the last document of this one.
            if self.list.block_max_doc(block) + 1 >= to || block + 1 == blocks {
                return Ok((Formula::units(self.weight, most), next));
            }
            block += 1;
        }
    }

    /// Returns to the beginning of the last window.
    pub(crate) fn rewind(&mut self) {
        (self.ahead, self.at) = (self.began, 0);
        if self.block != self.began {
            (self.block, self.len) = (usize::MAX, 0);
            (self.freqs_of, self.scores_of) = (usize::MAX, usize::MAX);
        }
    }

    /// Returns the most that a posting at `doc` contributes, from its block's maximum, and the
    /// last document for which that holds.
    #[inline]
    pub(crate) fn peek(&mut self, doc: u32) -> (Score, u32) {
        if self.maxima.is_empty() {
            return (self.most, NO_DOC);
        }
        self.ahead = find_block(&self.list, self.ahead, doc);
        match self.maxima.get(self.ahead) {
            Some(&max) => (Formula::units(self.weight, max), self.list.block_max_doc(self.ahead)),
            None => (0, NO_DOC),
        }
    }

    /// Scores the next run of postings from `from` up to, but not including, `to`: all of those
    /// in one block. Blocks without a contribution above `needed` are skipped. Returns the
    /// indexes of the run in the block, for [`Stream::postings`], and the document to continue
    /// from.
    pub(crate) fn run(
        &mut self,
        from: u32,
        to: u32,
        needed: Score,
    ) -> Result<Option<(Range<usize>, u32)>, ListError> {
        let mut block = find_block(&self.list, self.next_block(), from);
        while block < self.list.blocks() {
            let max = self.maxima.get(block);
            if max.map_or(self.most, |&max| Formula::units(self.weight, max)) > needed {
                self.load(block)?;
                let docs = &self.buffers.docs[..self.len];
                let start = docs.partition_point(|&doc| doc < from);
                let end = start + docs[start..].partition_point(|&doc| doc < to);
                if start < end {
                    let next = if end < self.len { to } else { docs[end - 1] + 1 };
                    self.score()?;
                    return Ok(Some((start..end, next)));
                }
                if end < self.len {
                    return Ok(None);
                }
            } else if self.list.block_max_doc(block) >= to {
                return Ok(None);
            }
            block += 1;
        }
        Ok(None)
    }

    /// Sets the bit of each document from `from` up to, but not including, `to`, and returns the
    /// number of bits set. The first bit is that of `from`. The decoded block is kept, since
    /// documents before its end may still be looked up.
    pub(crate) fn mark(
        &mut self,
        from: u32,
        to: u32,
        bits: &mut [u64],
    ) -> Result<usize, ListError> {
        let (mut other, mut marked) = ([0; BLOCK], 0);
        for block in find_block(&self.list, self.ahead, from)..self.list.blocks() {
            if self.span(block).0 >= to {
                break;
            }
            let docs = if block == self.block {
                &self.buffers.docs[..self.len]
            } else {
                self.decoded += 1;
                let len = self.list.decode_docs(block, &mut other)?;
                &other[..len]
            };
            let start = docs.partition_point(|&doc| doc < from);
            let end = start + docs[start..].partition_point(|&doc| doc < to);
            for &doc in &docs[start..end] {
                let at = (doc - from) as usize;
                bits[at / 64] |= 1 << (at % 64);
            }
            marked += end - start;
        }
        Ok(marked)
    }

    /// Returns the documents and contributions of a run.
    #[inline]
    pub(crate) fn postings(&self, run: Range<usize>) -> (&[u32], &[Score]) {
        (&self.buffers.docs[run.clone()], &self.buffers.scores[run])
    }

    /// Returns the contribution of `doc`, or 0 if the list has no posting for it.
    pub(crate) fn look_up(&mut self, doc: u32) -> Result<Score, ListError> {
        if self.len == 0 || self.buffers.docs[self.len - 1] < doc {
            let block = find_block(&self.list, self.next_block(), doc);
            if block == self.list.blocks() {
                return Ok(0);
            }
            self.load(block)?;
        }
        self.at = match self.len {
            BLOCK => rank(&self.buffers.docs, self.at, doc),
            len => find_doc(&self.buffers.docs[..len], self.at, doc),
        };
        if self.at == self.len || self.buffers.docs[self.at] != doc {
            return Ok(0);
        }
        if self.scores_of == self.block {
            return Ok(self.buffers.scores[self.at]);
        }
        self.freqs()?;
        Ok(self.scorer.contribution(self.weight, self.buffers.freqs[self.at], doc))
    }

    /// Returns the block to start looking from; the decoded one may still contain the document.
    fn next_block(&self) -> usize {
        let decoded = if self.block == usize::MAX { 0 } else { self.block };
        decoded.max(self.ahead.min(self.list.blocks() - 1))
    }

    pub(crate) fn load(&mut self, block: usize) -> Result<(), ListError> {
        if self.block != block {
            self.len = self.list.decode_docs(block, &mut self.buffers.docs)?;
            (self.block, self.at) = (block, 0);
            self.decoded += 1;
        }
        Ok(())
    }

    fn freqs(&mut self) -> Result<(), ListError> {
        if self.freqs_of != self.block {
            self.list.decode_freqs(self.block, &mut self.buffers.freqs)?;
            self.freqs_of = self.block;
        }
        Ok(())
    }

    pub(crate) fn score(&mut self) -> Result<(), ListError> {
        if self.scores_of != self.block {
            self.freqs()?;
            let n = self.len;
            let Buffers { docs, freqs, scores } = &mut *self.buffers;
            self.scorer.score_block(self.weight, &docs[..n], &freqs[..n], &mut scores[..n]);
            self.scores_of = self.block;
        }
        Ok(())
    }
}

/// Returns the first block from `from` on that may hold a document at or after `doc`, or the
/// number of blocks if there is none.
pub(crate) fn find_block(list: &List<'_>, from: usize, doc: u32) -> usize {
    let blocks = list.blocks();
    // Galloping search, since the document is usually near.
    let (mut low, mut step) = (from, 1);
    while low + step < blocks && list.block_max_doc(low + step - 1) < doc {
        low += step;
        step *= 2;
    }
    let mut high = (low + step).min(blocks);
    while low < high {
        let middle = low + (high - low) / 2;
        if list.block_max_doc(middle) < doc { low = middle + 1 } else { high = middle }
    }
    low
}
