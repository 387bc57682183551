//! Structures with the layout of `kernels/common/partitioned_form.cuh`.

use bytemuck::{Pod, Zeroable};

use crate::compressed::CompressedList;

/// A list in a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct TermForm {
    pub(super) list: CompressedList,
    pub(super) weight: f32,
    pub(super) most: u32,
    pub(super) unused: [u32; 2],
}

/// A flag: documents must contain all terms.
pub(super) const ALL_TERMS: u32 = 1;
/// A flag: matches are counted.
pub(super) const EXHAUSTIVE: u32 = 2;

/// A query in a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct QueryForm {
    pub(super) first_term: u32,
    pub(super) terms: u32,
    pub(super) k: u32,
    pub(super) flags: u32,
    pub(super) partitions: u32,
    pub(super) per_block: u32,
    pub(super) first_slot: u32,
    pub(super) number: u32,
    pub(super) static_weight: f32,
    pub(super) static_most: u32,
    pub(super) unused: [u32; 2],
}

impl QueryForm {
    /// Returns the number of blocks of threads.
    pub(super) fn blocks(&self) -> u32 {
        self.partitions.div_ceil(self.per_block.max(1))
    }
}

/// Number of words of a query's thresholds.
pub(super) const POLICY_WORDS: usize = 3;

/// Number of counters of a query: postings scored, blocks decoded, matches.
pub(super) const WORK_WORDS: usize = 3;

/// Words of shared or global memory that a list's cursor, decoded block and contributions take.
pub(super) const CURSOR_WORDS: usize = 2 * 128 + 12;

/// Words of shared memory for the waiting documents and for the sums of a window.
pub(super) const WARP_WORDS: u32 = 2 * 64 + 1024;
