//! A query alone over tiles, with pruning, in two passes, with the bytes that are moved.

use super::common::{
    COUNTED, PRUNED_ALONE_ITSELF, PRUNED_TILES_ITSELF, SCAN, TILES, TOPK, TYPES, WARP,
};
use crate::device::Source;
use crate::kernels::pruned_twice;

/// Its source: that of `pruned_twice`, which says what it moves.
pub const SOURCE: Source = Source {
    name: "counted_pruned_twice",
    text: include_str!("kernel.cu"),
    headers: &[
        COUNTED,
        TYPES,
        SCAN,
        TILES,
        TOPK,
        WARP,
        PRUNED_TILES_ITSELF,
        PRUNED_ALONE_ITSELF,
        ("../pruned_twice/kernel.cu", pruned_twice::SOURCE.text),
    ],
};
