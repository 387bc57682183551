//! Kernels of the engine. Each folder contains CUDA C++ (`kernel.cu`) and, in `mod.rs`, its
//! source and the function that checks arguments and launches it. Arguments that several kernels
//! share are in `batch` and `pruned`.
//!
//! Launch functions check lengths. They trust the addresses in the tables on the device: lists
//! and tables must live until the stream is done.

pub mod advance_terms;
pub mod and_tiles;
pub(crate) mod batch;
pub mod make_tiles;
pub mod merge;
pub mod move_items;
pub mod or_tiles;
pub(crate) mod pruned;
pub mod pruned_batch_any_k;
pub mod pruned_single;
pub mod pruned_single_two_pass;
pub mod pruned_tiles;

use warpseek_cuda::Source;
use warpseek_exec::Formula;

/// All sources of this crate, for tools that compile them.
pub const ALL: &[Source] = &[
    advance_terms::SOURCE,
    and_tiles::SOURCE,
    make_tiles::SOURCE,
    merge::SOURCE,
    move_items::SOURCE,
    or_tiles::SOURCE,
    pruned_batch_any_k::SOURCE,
    pruned_single::SOURCE,
    pruned_single_two_pass::SOURCE,
    pruned_tiles::SOURCE,
];

/// Number of threads in a warp.
pub const WARP: u32 = common::ALL.constant("WARP");

/// Returns the number of a formula in kernels (`formula.cuh`).
pub fn formula_number(formula: Formula) -> u32 {
    match formula {
        Formula::Saturation { .. } => const { common::ALL.constant("SATURATION") },
        Formula::Cosine => const { common::ALL.constant("COSINE") },
        Formula::Linear => const { common::ALL.constant("LINEAR") },
        Formula::Quantized => const { common::ALL.constant("QUANTIZED") },
    }
}

/// Headers that sources share, as (name, text).
pub mod common {
    use warpseek_cuda::Source;
    pub use warpseek_cuda::kernels::common::{SCAN, SLOTS, TOPK, TYPES, WARP};

    /// All headers, for the constants in them.
    pub(crate) const ALL: Source = Source {
        name: "common",
        text: "",
        headers: &[TYPES, SLOTS, TILES, PACKED, FORMULA, PRUNED_TILES_ITSELF],
    };

    /// Lists, queries and work items over tiles of documents.
    pub const TILES: (&str, &str) = ("tiles.cuh", include_str!("common/tiles.cuh"));
    /// Compressed lists, as on disk.
    pub const PACKED: (&str, &str) = ("packed.cuh", include_str!("common/packed.cuh"));
    /// Values of postings.
    pub const FORMULA: (&str, &str) = ("formula.cuh", include_str!("common/formula.cuh"));
    /// Tables from which values of postings are computed.
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
