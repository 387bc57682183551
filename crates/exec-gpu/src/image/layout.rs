//! Structures as `kernels/common/tiles.cuh` has them.

use bytemuck::{Pod, Zeroable};

/// Postings that a lane loads at once.
pub(super) const FOUR: usize = 4;

/// A list and its weight in a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct TermView {
    /// Address of documents.
    pub docs: u64,
    /// Address of values.
    pub values: u64,
    /// Address of values rounded up to 16 bits; 0 for a sparse list.
    pub roughs: u64,
    /// Address of the tiles' starts; 0 for a sparse list.
    pub starts: u64,
    /// Address of the tiles' largest rough values; 0 for a sparse list.
    pub peaks: u64,
    /// Address of a bit for every 2^`filter_shift` documents, not set if the list has none of them; 0 for a sparse list.
    pub filter: u64,
    /// Postings.
    pub count: u32,
    /// Weight in units.
    pub weight: f32,
    /// Weight in rough units.
    pub rough_weight: u32,
    /// The same in whole units.
    pub whole_weight: u32,
    /// What of a rough value makes one unit, or a bit less.
    pub rough_per_unit: f32,
    /// No posting contributes more units.
    pub most: u32,
    /// See `filter`.
    pub filter_shift: u32,
    /// Nothing.
    pub unused: u32,
}

/// A query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct QueryView {
    /// Its first term.
    pub first_term: u32,
    /// Sparse terms, which come first.
    pub sparse: u32,
    /// All terms.
    pub terms: u32,
    /// Hits wanted.
    pub k: u32,
    /// Hits have larger keys.
    pub least: u64,
    /// Weight of static scores, in units.
    pub static_weight: f32,
    /// No static score adds more.
    pub static_most: u32,
    /// Where its items' hits begin, in units of the largest k.
    pub first_slot: u32,
    /// Not 0 if matches are to be counted.
    pub count: u32,
    /// Binary logarithm of units to a rough unit.
    pub rough_shift: u32,
    /// Not 0 if documents must have all terms.
    pub all: u32,
    /// Score at which the histogram of hits begins.
    pub low: u32,
    /// Binary logarithm of the width of its bins.
    pub low_shift: u32,
}

/// Terms of a query that is pruned, at most: a word has a bit for each.
pub const PRUNED_TERMS: usize = 32;

/// A query alone, as `kernels/pruned_single` has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct SingleView {
    /// The query.
    pub query: QueryView,
    /// Where the best keys go.
    pub hits: u64,
    /// Where their number goes.
    pub count: u64,
    /// Address of how many blocks of threads have ended.
    pub ended: u64,
    /// Blocks in all launches.
    pub blocks: u32,
    /// Nothing.
    pub unused: u32,
    /// Its terms.
    pub terms: [TermView; PRUNED_TERMS],
}

/// Tiles of a query for one block of threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Item {
    /// Its query.
    pub query: u32,
    /// First tile.
    pub begin: u32,
    /// Tile behind the last.
    pub end: u32,
    /// Nothing.
    pub unused: u32,
}

/// What kernels know of a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct SegmentView {
    /// Address of static scores, or 0.
    pub statics: u64,
    /// Address of the bits of deleted documents, or 0.
    pub deleted: u64,
    /// Address of ordinals, or 0.
    pub ordinals: u64,
    /// Documents.
    pub docs: u32,
    /// Number of its first document in the index.
    pub base: u32,
    /// Binary logarithm of documents in a tile.
    pub bits: u32,
    /// Nothing.
    pub unused: u32,
}
