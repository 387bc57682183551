//! AND over tiles.

use super::common::{SCAN, TILES, TOPK, TYPES, WARP};
use warpseek_cuda::Source;

/// CUDA source of the kernels.
pub const SOURCE: Source = Source {
    name: "and_tiles",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, TILES, TOPK, WARP],
};
