//! Full blocks of lists that were encoded elsewhere, for example on a GPU, and only need to be put together.

use super::bounds::Bounds;

/// Pairs of a block that a front has room for.
pub const FRONT_PAIRS: usize = 7;

/// What the bounds of a block are made of: the (frequency, length) pairs of postings such that no other posting has at least the frequency and at most the length, by frequency, and the largest cosine weight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Front {
    /// How many pairs there are; if they are more than there is room for, the builder finds them anew.
    pub count: u32,
    /// The largest cosine weight.
    pub cosine: f32,
    /// The pairs.
    pub pairs: [[u32; 2]; FRONT_PAIRS],
}

impl Front {
    /// Bounds before they are joined; `None` if they are not known.
    pub(super) fn bounds(&self) -> Option<Bounds> {
        let pairs = self.pairs.get(..self.count as usize)?;
        Some(Bounds::of_front(pairs.iter().map(|&[freq, length]| (freq, length)), self.cosine))
    }
}

/// Consecutive blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockChunk {
    /// Where each block ends in `bytes`.
    pub ends: Vec<u32>,
    /// The blocks in the codec `bitpack`.
    pub bytes: Vec<u8>,
    /// What their bounds are made of.
    pub fronts: Vec<Front>,
}

/// Full blocks of all lists of more than one block, in the order of their terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EncodedBlocks {
    /// By rank of the term, how many blocks come before its list's; one more than terms.
    pub firsts: Vec<u32>,
    /// Blocks of each chunk but the last.
    pub per_chunk: usize,
    /// The blocks.
    pub chunks: Vec<BlockChunk>,
}

impl EncodedBlocks {
    /// The blocks of a list.
    pub(crate) fn list(&self, rank: usize) -> ListBlocks<'_> {
        ListBlocks { all: self, first: self.firsts[rank], end: self.firsts[rank + 1] }
    }
}

/// The full blocks of a list.
#[derive(Clone, Copy)]
pub(crate) struct ListBlocks<'a> {
    all: &'a EncodedBlocks,
    first: u32,
    end: u32,
}

impl<'a> ListBlocks<'a> {
    /// Bytes and front of a block; `None` if it is not a full one.
    pub(super) fn get(&self, block: usize) -> Option<(&'a [u8], &'a Front)> {
        let number = self.first as usize + block;
        if number >= self.end as usize {
            return None;
        }
        let chunk = &self.all.chunks[number / self.all.per_chunk];
        let i = number % self.all.per_chunk;
        let start = if i == 0 { 0 } else { chunk.ends[i - 1] };
        Some((&chunk.bytes[start as usize..chunk.ends[i] as usize], &chunk.fronts[i]))
    }
}
