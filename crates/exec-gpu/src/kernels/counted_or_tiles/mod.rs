//! OR over tiles, with the bytes that are moved.

use super::common::{COUNTED, SCAN, TILES, TOPK, TYPES, WARP};
use crate::device::Source;
use crate::kernels::or_tiles;

/// Its source: that of `or_tiles`, which says what it moves.
pub const SOURCE: Source = Source {
    name: "counted_or_tiles",
    text: include_str!("kernel.cu"),
    headers: &[
        COUNTED,
        TYPES,
        SCAN,
        TILES,
        TOPK,
        WARP,
        ("../or_tiles/kernel.cu", or_tiles::SOURCE.text),
    ],
};
