//! OR and AND over tiles, with pruning.

use super::common::{SCAN, TILES, TOPK, TYPES, WARP};
use crate::device::Source;

/// Its source.
pub const SOURCE: Source = Source {
    name: "pruned_tiles",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, TILES, TOPK, WARP],
};
