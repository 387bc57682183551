//! OR and AND over tiles with pruning for many hits, with the bytes that are moved.

use super::common::{COUNTED, PRUNED_TILES_ITSELF, SCAN, TILES, TOPK, TYPES, WARP};
use crate::device::Source;
use crate::kernels::pruned_many;

/// Its source: that of `pruned_many`, which says what it moves.
pub const SOURCE: Source = Source {
    name: "counted_pruned_many",
    text: include_str!("kernel.cu"),
    headers: &[
        COUNTED,
        TYPES,
        SCAN,
        TILES,
        TOPK,
        WARP,
        PRUNED_TILES_ITSELF,
        ("../pruned_many/kernel.cu", pruned_many::SOURCE.text),
    ],
};
