//! A cohort of queries times the documents of a segment; the best k hits of each query are kept.

use bytemuck::{Pod, Zeroable};

use super::common::{SCAN, TILES, TOPK, TYPES, WARP};
use warpseek_cuda::Source;

/// The source of the kernel.
pub const SOURCE: Source = Source {
    name: "cohort",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, TILES, TOPK, WARP],
};

/// Candidates that are scored at a time. Must equal the kernel's.
const CANDIDATES: u32 = 128;

/// Words after the sums of a pair of queries. Must equal the kernel's.
const SPARE: u32 = 4;

/// Lanes of a warp, and lists that a warp loads at a time.
const LANES: u32 = 32;

/// A list that queries of a group have, with the layout of the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct ListView {
    /// Address of the documents.
    pub docs: u64,
    /// Address of the values.
    pub values: u64,
    /// Address of the values rounded up to 16 bits; 0 for a sparse list.
    pub roughs: u64,
    /// Address of the starts of tiles; 0 for a sparse list.
    pub starts: u64,
    /// Number of postings of a sparse list.
    pub count: u32,
    /// Index of its first entry, that is, pair of queries.
    pub first_entry: u32,
    /// Number of pairs that have the list.
    pub entries: u32,
    /// Padding.
    pub unused: u32,
}

/// The contributions of a list to a pair of queries; zeros for a query that does not have the
/// list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct EntryView {
    /// Weights in rough units.
    pub rough_weights: [u32; 2],
    /// The amount that each posting adds in addition, 16 bits per query.
    pub addend: u32,
    /// Number of the pair in its group.
    pub pair: u32,
    /// Weights in units.
    pub weights: [f32; 2],
    /// Binary logarithms of the units in a rough unit.
    pub shifts: [u32; 2],
}

/// Queries that a warp answers together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct GroupView {
    /// Index of its first list.
    pub first_list: u32,
    /// Number of sparse lists, which come first.
    pub sparse: u32,
    /// Number of lists.
    pub lists: u32,
    /// Index of its first query.
    pub first_query: u32,
    /// Number of queries.
    pub queries: u32,
    /// Padding.
    pub unused: [u32; 3],
}

/// A list of a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct MemberView {
    /// Number of the list in the group.
    pub list: u32,
    /// Weight in units.
    pub weight: f32,
}

/// Returns the shared memory of a warp for this many queries, documents of a microtile, and
/// sparse lists.
pub fn shared_bytes(queries: u32, docs: u32, sparse: u32) -> u32 {
    let pairs = queries.div_ceil(2);
    let sums = pairs * (docs + SPARE) * 4;
    let (lists, entries) = (LANES * 32, LANES * pairs * 16);
    let keys = queries * LANES * 8;
    let candidates = CANDIDATES * (4 + 2);
    sums + lists + entries + keys + candidates + queries * 4 + 2 * sparse * 4
}
