//! Primitives. Each folder contains CUDA C++ (`kernel.cu`) and the functions that check arguments
//! and launch it (`mod.rs`).

pub mod compact;
pub mod copy;
pub mod load_balance;
pub mod max_tree;
pub mod merge_find;
pub mod merge_sort;
pub mod radix_sort;
pub mod runs;
pub mod scan;

use crate::Source;

/// All sources of this crate, for tools that compile them.
pub const ALL: &[Source] = &[
    compact::SOURCE,
    copy::SOURCE,
    load_balance::SOURCE,
    max_tree::SOURCE,
    merge_find::SOURCE,
    merge_sort::SOURCE,
    radix_sort::SOURCE,
    runs::SOURCE,
    scan::SOURCE,
];

/// Headers that sources of all crates share, as (name, text).
pub mod common {
    /// Integer types, and the few definitions that differ between NVRTC and the emulator.
    pub const TYPES: (&str, &str) = ("types.cuh", include_str!("common/types.cuh"));
    /// Sums, minima and maxima over a warp.
    pub const WARP: (&str, &str) = ("warp.cuh", include_str!("common/warp.cuh"));
    /// Prefix sums over warps and blocks.
    pub const SCAN: (&str, &str) = ("scan.cuh", include_str!("common/scan.cuh"));
    /// Sums over the tiles before a tile, within one launch.
    pub const LOOK_BACK: (&str, &str) = ("look_back.cuh", include_str!("common/look_back.cuh"));
    /// Bytes at any address, and values of the same width.
    pub const SLOTS: (&str, &str) = ("slots.cuh", include_str!("common/slots.cuh"));
    /// A stable merge sort by any comparison.
    pub const MERGE_SORT: (&str, &str) = ("merge_sort.cuh", include_str!("common/merge_sort.cuh"));
    /// Searches in ascending numbers.
    pub const SEARCH: (&str, &str) = ("search.cuh", include_str!("common/search.cuh"));
    /// The best keys of a warp or a block of threads.
    pub const TOPK: (&str, &str) = ("topk.cuh", include_str!("common/topk.cuh"));
}
