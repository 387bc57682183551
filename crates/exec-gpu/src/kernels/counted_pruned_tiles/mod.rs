//! OR and AND over tiles with pruning, with the bytes that are moved.

use super::common::{COUNTED, PRUNED_TILES_ITSELF, SCAN, TILES, TOPK, TYPES, WARP};
use crate::device::Source;
use crate::kernels::pruned_tiles;

/// Its source: that of `pruned_tiles`, which says what it moves.
pub const SOURCE: Source = Source {
    name: "counted_pruned_tiles",
    text: include_str!("kernel.cu"),
    headers: &[
        COUNTED,
        TYPES,
        SCAN,
        TILES,
        TOPK,
        WARP,
        PRUNED_TILES_ITSELF,
        ("../pruned_tiles/kernel.cu", pruned_tiles::SOURCE.text),
    ],
};
