//! AND over tiles, with the bytes that are moved.

use super::common::{COUNTED, SCAN, TILES, TOPK, TYPES, WARP};
use crate::device::Source;
use crate::kernels::and_tiles;

/// Its source: that of `and_tiles`, which says what it moves.
pub const SOURCE: Source = Source {
    name: "counted_and_tiles",
    text: include_str!("kernel.cu"),
    headers: &[
        COUNTED,
        TYPES,
        SCAN,
        TILES,
        TOPK,
        WARP,
        ("../and_tiles/kernel.cu", and_tiles::SOURCE.text),
    ],
};
