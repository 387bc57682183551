//! Structures with the layout of `kernels/common/tiles.cuh`.

use bytemuck::{Pod, Zeroable};

use crate::kernels::common::ALL;

/// Number of postings that a lane loads at once.
pub(super) const FOUR: usize = ALL.constant("FOUR") as usize;

/// A list and its weight in a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct TermView {
    /// Address of the documents.
    pub docs: u64,
    /// Address of the values.
    pub values: u64,
    /// Address of the values rounded up to 16 bits; 0 for a sparse list.
    pub roughs: u64,
    /// Address of the starts of tiles; 0 for a sparse list.
    pub starts: u64,
    /// Address of the largest rough value of each tile; 0 for a sparse list.
    pub peaks: u64,
    /// Address of a filter with one bit for every 2^`filter_shift` documents, which is not set if
    /// the list contains none of them; 0 for a sparse list.
    pub filter: u64,
    /// Number of postings.
    pub count: u32,
    /// Weight in units.
    pub weight: f32,
    /// Weight in rough units.
    pub rough_weight: u32,
    /// Weight for rough values, in whole units.
    pub whole_weight: u32,
    /// Quantised steps of a rough value per score unit, rounded down.
    pub rough_per_unit: f32,
    /// Maximum number of units that a posting contributes.
    pub most: u32,
    /// See `filter`.
    pub filter_shift: u32,
    /// Nonzero if the list begins with the first tile of the segment, and not of the slice
    /// (`kernels/advance_terms`).
    pub stays: u32,
}

/// A query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct QueryView {
    /// Index of its first term.
    pub first_term: u32,
    /// Number of sparse terms, which come first.
    pub sparse: u32,
    /// Number of terms.
    pub terms: u32,
    /// Number of hits requested.
    pub k: u32,
    /// Key that is less than the keys of all hits.
    pub least: u64,
    /// Weight of static scores, in units.
    pub static_weight: f32,
    /// Maximum number of units that a static score adds.
    pub static_most: u32,
    /// Position of the hits of the query's items, in units of the largest k.
    pub first_slot: u32,
    /// Nonzero if matches are counted.
    pub count: u32,
    /// Binary logarithm of the units in a rough unit.
    pub rough_shift: u32,
    /// Nonzero if documents must contain all terms.
    pub all: u32,
    /// Score at which the histogram of hits begins.
    pub low: u32,
    /// Binary logarithm of the width of the histogram's bins.
    pub low_shift: u32,
    /// Address of the bits of documents that may be hits, by position in the whole segment; 0 if
    /// all live documents may.
    pub mask: u64,
}

/// Maximum number of terms in a query that can be pruned: a word has one bit for each.
pub const PRUNED_TERMS: usize = ALL.constant("WARP") as usize;

/// A single query, with the layout of `kernels/pruned_single`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct SingleView {
    /// The query.
    pub query: QueryView,
    /// Address where the best keys are written.
    pub hits: u64,
    /// Address where their number is written.
    pub count: u64,
    /// Address of the number of blocks of threads that have ended.
    pub ended: u64,
    /// Blocks of threads in all launches together.
    pub blocks: u32,
    /// Padding.
    pub unused: u32,
    /// The query's terms.
    pub terms: [TermView; PRUNED_TERMS],
}

/// A run of tiles of one query, for one block of threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Item {
    /// Index of the query.
    pub query: u32,
    /// First tile.
    pub begin: u32,
    /// Tile after the last.
    pub end: u32,
    /// Padding.
    pub unused: u32,
}

/// A segment as kernels see it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct SegmentView {
    /// Address of static scores, or 0.
    pub statics: u64,
    /// Address of the bits of deleted documents, or 0.
    pub deleted: u64,
    /// Address of ordinals, or 0.
    pub ordinals: u64,
    /// Number of documents.
    pub docs: u32,
    /// Number of the segment's first document in the index.
    pub base: u32,
    /// Binary logarithm of the documents in a tile.
    pub bits: u32,
    /// Position of the first document in the whole segment.
    pub first: u32,
}
