//! Merging of hits, with the bytes that are moved.

use super::common::{COUNTED, SCAN, TILES, TOPK, TYPES};
use crate::device::Source;
use crate::kernels::merge;

/// Its source: that of `merge`, which says what it moves.
pub const SOURCE: Source = Source {
    name: "counted_merge",
    text: include_str!("kernel.cu"),
    headers: &[COUNTED, TYPES, SCAN, TILES, TOPK, ("../merge/kernel.cu", merge::SOURCE.text)],
};
