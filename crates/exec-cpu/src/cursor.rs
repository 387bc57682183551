//! A forward cursor over one list of one segment.

use warpseek_core::Score;
use warpseek_core::limits::{BLOCK, NO_DOC};
use warpseek_exec::Formula;
use warpseek_index::{List, ListError};

use crate::maxima::Maxima;
use crate::scorer::Scorer;
use crate::simd::find_doc;
use crate::stream::find_block;

/// A forward cursor. It is before its first posting until it is moved; then it is on a posting,
/// or at [`NO_DOC`] past the last. It decodes blocks when a posting in them is needed, and
/// frequencies only when a posting is scored.
pub(crate) struct Cursor<'a> {
    list: List<'a>,
    weight: f32,
    scorer: Scorer,
    /// The most that a posting of the list contributes.
    pub(crate) most: Score,
    maxima: Maxima,
    doc: u32,
    at: usize,
    len: usize,
    /// The decoded block, or `usize::MAX` before the first.
    block: usize,
    /// The block that [`Cursor::peek`] stopped at, which is `block` or a later one.
    peeked: usize,
    freqs_of: usize,
    /// The block that a single frequency was fetched from.
    fetched_of: usize,
    /// Number of blocks decoded so far.
    pub(crate) decoded: u64,
    docs: [u32; BLOCK],
    freqs: [u32; BLOCK],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(
        list: List<'a>,
        weight: f32,
        scorer: Scorer,
        most: Score,
        maxima: Maxima,
    ) -> Self {
        Cursor {
            list,
            weight,
            scorer,
            most,
            maxima,
            doc: 0,
            at: 0,
            len: 0,
            block: usize::MAX,
            peeked: 0,
            freqs_of: usize::MAX,
            fetched_of: usize::MAX,
            decoded: 0,
            docs: [0; BLOCK],
            freqs: [0; BLOCK],
        }
    }

    pub(crate) fn df(&self) -> u32 {
        self.list.df()
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.list.blocks() as u64
    }

    /// Returns an upper bound on the documents of the list, which is a document of the segment.
    pub(crate) fn limit(&self) -> u32 {
        self.list.block_max_doc(self.list.blocks() - 1)
    }

    /// Returns the current document.
    #[inline]
    pub(crate) fn doc(&self) -> u32 {
        self.doc
    }

    /// Advances to the next posting.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<u32, ListError> {
        self.at += 1;
        if self.at < self.len {
            self.doc = self.docs[self.at];
            return Ok(self.doc);
        }
        self.load(self.block.wrapping_add(1), 0)
    }

    /// Moves to the first posting at or after `target`, unless the cursor is already there or
    /// beyond.
    pub(crate) fn enter(&mut self, target: u32) -> Result<u32, ListError> {
        if self.block == usize::MAX || self.doc < target { self.seek(target) } else { Ok(self.doc) }
    }

    /// Moves to the first posting at or after `target`, never backwards.
    #[inline]
    pub(crate) fn seek(&mut self, target: u32) -> Result<u32, ListError> {
        if self.len > 0 && self.docs[self.len - 1] >= target {
            self.at = find_doc(&self.docs[..self.len], self.at, target);
            self.doc = self.docs[self.at];
            return Ok(self.doc);
        }
        let first = self.block.wrapping_add(1);
        let block = find_block(&self.list, first.max(self.peeked), target);
        self.load(block, target)
    }

    /// Decodes `block` and moves to its first posting at or after `target`, or to a later block
    /// if it has none.
    fn load(&mut self, block: usize, target: u32) -> Result<u32, ListError> {
        let mut block = block;
        while block < self.list.blocks() {
            self.len = self.list.decode_docs(block, &mut self.docs)?;
            self.decoded += 1;
            self.block = block;
            self.peeked = self.peeked.max(block);
            self.at = self.docs[..self.len].partition_point(|&doc| doc < target);
            if self.at < self.len {
                self.doc = self.docs[self.at];
                return Ok(self.doc);
            }
            block += 1;
        }
        (self.block, self.len, self.at) = (self.list.blocks(), 0, 0);
        self.doc = NO_DOC;
        Ok(NO_DOC)
    }

    /// Returns the most that a posting at `target` can contribute, and the last document for
    /// which that holds, without decoding.
    #[inline]
    pub(crate) fn peek(&mut self, target: u32) -> (Score, u32) {
        if self.maxima.is_empty() {
            return (self.most, NO_DOC - 1);
        }
        if self.peeked >= self.maxima.len() {
            return (0, NO_DOC - 1);
        }
        if self.list.block_max_doc(self.peeked) < target {
            self.peeked = find_block(&self.list, self.peeked + 1, target);
            if self.peeked >= self.maxima.len() {
                return (0, NO_DOC - 1);
            }
        }
        let most = Formula::units(self.weight, self.maxima[self.peeked]);
        (most, self.list.block_max_doc(self.peeked))
    }

    /// Returns the block of the current posting, the frequencies of the block, and the index of
    /// the posting in it.
    pub(crate) fn place(&mut self) -> Result<(usize, &[u32], usize), ListError> {
        if self.freqs_of != self.block {
            self.list.decode_freqs(self.block, &mut self.freqs)?;
            self.freqs_of = self.block;
        }
        Ok((self.block, &self.freqs[..self.len], self.at))
    }

    /// Returns the contribution of the current posting.
    #[inline]
    pub(crate) fn score(&mut self) -> Result<Score, ListError> {
        if self.freqs_of != self.block {
            // The first frequency of a block is fetched alone (Ding 2009, section 8.2); the
            // second call for a block decodes all of them.
            if self.fetched_of != self.block {
                self.fetched_of = self.block;
                let freq = self.list.freq_at(self.block, self.at)?;
                return Ok(self.scorer.contribution(self.weight, freq, self.doc));
            }
            self.list.decode_freqs(self.block, &mut self.freqs)?;
            self.freqs_of = self.block;
        }
        Ok(self.scorer.contribution(self.weight, self.freqs[self.at], self.doc))
    }
}
