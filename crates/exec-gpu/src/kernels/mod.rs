//! Kernels of the engine. Each folder contains CUDA C++ (`kernel.cu`) and a constant with its
//! source (`mod.rs`).

pub mod advance_terms;
pub mod and_tiles;
pub mod make_tiles;
pub mod merge;
pub mod or_tiles;
pub mod pruned_batch_any_k;
pub mod pruned_single;
pub mod pruned_single_two_pass;
pub mod pruned_tiles;

use warpseek_cuda::Source;

/// All sources of this crate, for tools that compile them.
pub const ALL: &[Source] = &[
    advance_terms::SOURCE,
    and_tiles::SOURCE,
    make_tiles::SOURCE,
    merge::SOURCE,
    or_tiles::SOURCE,
    pruned_batch_any_k::SOURCE,
    pruned_single::SOURCE,
    pruned_single_two_pass::SOURCE,
    pruned_tiles::SOURCE,
];

/// Headers that sources share, as (name, text).
pub mod common {
    pub use warpseek_cuda::kernels::common::{SCAN, SLOTS, TOPK, TYPES, WARP};

    /// Lists, queries and work items over tiles of documents.
    pub const TILES: (&str, &str) = ("tiles.cuh", include_str!("common/tiles.cuh"));
    /// Compressed lists, as on disk.
    pub const PACKED: (&str, &str) = ("packed.cuh", include_str!("common/packed.cuh"));
    /// Values of postings.
    pub const VALUER: (&str, &str) = ("valuer.cuh", include_str!("common/valuer.cuh"));
    /// Pruning over tiles.
    pub const PRUNED_TILES_ITSELF: (&str, &str) =
        ("pruned_tiles.cuh", include_str!("common/pruned_tiles.cuh"));
    /// Pruning over tiles, with all headers that it includes.
    pub const PRUNED_TILES: &[(&str, &str)] =
        &[TYPES, SCAN, TILES, TOPK, WARP, PRUNED_TILES_ITSELF];
    /// Pruning for a single query.
    pub const PRUNED_SINGLE_ITSELF: (&str, &str) =
        ("pruned_single.cuh", include_str!("common/pruned_single.cuh"));
    /// Pruning for a single query, with all headers that it includes.
    pub const PRUNED_SINGLE: &[(&str, &str)] =
        &[TYPES, SCAN, TILES, TOPK, WARP, PRUNED_TILES_ITSELF, PRUNED_SINGLE_ITSELF];
}
