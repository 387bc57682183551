//! Full blocks of lists that were encoded outside of the list encoder, for example on a GPU, and
//! only need to be assembled.

use super::bounds::Bounds;

/// Maximum number of pairs that a front can hold.
pub const FRONT_PAIRS: usize = 7;

/// The data from which the bounds of a block are computed.
///
/// It consists of the largest cosine weight and the dominating (frequency, length) pairs, by
/// frequency: those of postings such that no other posting has at least the frequency and at most
/// the length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Front {
    /// Number of pairs. If it exceeds [`FRONT_PAIRS`], the encoder computes the bounds from the
    /// postings.
    pub count: u32,
    /// Largest cosine weight.
    pub cosine: f32,
    /// The pairs, by frequency.
    pub pairs: [[u32; 2]; FRONT_PAIRS],
}

impl Front {
    /// Returns the bounds before pairs are joined, or `None` if the front lacks pairs.
    pub(super) fn bounds(&self) -> Option<Bounds> {
        let pairs = self.pairs.get(..self.count as usize)?;
        Some(Bounds::of_front(pairs.iter().map(|&[freq, length]| (freq, length)), self.cosine))
    }
}

/// Consecutive encoded blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockChunk {
    /// End of each block in `bytes`.
    pub ends: Vec<u32>,
    /// The blocks in the codec `bitpack`.
    pub bytes: Vec<u8>,
    /// The front of each block.
    pub fronts: Vec<Front>,
}

/// The full blocks of all lists of more than one block, in the order of their terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EncodedBlocks {
    /// Number of blocks before those of each term's list, by rank, followed by the total.
    pub firsts: Vec<u32>,
    /// Number of blocks in each chunk except the last.
    pub per_chunk: usize,
    /// The blocks in chunks.
    pub chunks: Vec<BlockChunk>,
}

impl EncodedBlocks {
    /// Returns the blocks of a list.
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
    /// Returns the bytes and the front of a block, or `None` if it is not a full block.
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
