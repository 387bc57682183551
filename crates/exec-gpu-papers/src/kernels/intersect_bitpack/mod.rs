//! Intersection on bit-packed lists; `kernels::intersect` launches it.

use super::common::{
    CODEC_BITPACK, FORMULA, INTERSECT, LISTS, SCAN, SEARCH, TILES, TYPES, VALUES, WARP,
};
use warpseek_cuda::Source;

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "intersect_bitpack",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, WARP, LISTS, CODEC_BITPACK, SEARCH, TILES, FORMULA, VALUES, INTERSECT],
};
