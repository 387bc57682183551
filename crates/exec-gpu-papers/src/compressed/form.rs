//! Structures with the layout of `kernels/common/lists.cuh` and `values.cuh`.

use bytemuck::{Pod, Zeroable};

/// Sixteen bytes, which a lane loads at once.
pub(crate) type Unit = [u32; 4];

/// A list on the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct CompressedList {
    /// Address of the encoded postings. Heads and nodes count units of 16 bytes from here.
    pub units: u64,
    /// Address of a [`BlockHead`] for each block; with PForDelta, of two words for each.
    pub heads: u64,
    /// Address of the skip array: the last document of each block.
    pub lasts: u64,
    /// Address of the largest value of the formula in each block (`f32`); 0 if the values are not
    /// known.
    pub maxima: u64,
    /// Address of the [`Node`]s; 0 for codecs that have none.
    pub nodes: u64,
    /// Number of postings.
    pub df: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// The largest of the maxima.
    pub most: f32,
    /// Padding.
    pub unused: u32,
}

/// The position of a block, and the parameters that its codec needs to decode it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockHead {
    /// First document of the block.
    pub first: u32,
    /// First unit of the block.
    pub at: u32,
    /// First parameter, defined by the codec.
    pub shape: u32,
    /// Second parameter, defined by the codec.
    pub more: u32,
}

/// An array of PForDelta: `Numbers` or `Overflows` of `codec_pfor.cuh`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Node {
    /// The fields of the structure.
    pub fields: [u32; 4],
}

/// The tables that the formula needs in addition to a frequency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Values {
    /// Address of the documents' factors (`f32`).
    pub factors: u64,
    /// Address of 1 + ln f for small frequencies (`f32`); 0 for formulas without logarithms.
    pub logs: u64,
    /// Address of the larger frequencies that occur, in ascending order.
    pub large: u64,
    /// Address of the logarithms of the larger frequencies.
    pub large_logs: u64,
    /// Number of larger frequencies.
    pub large_count: u32,
    /// The number of the formula.
    pub formula: u32,
}
