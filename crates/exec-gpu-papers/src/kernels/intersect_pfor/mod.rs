//! Intersection on lists in PForDelta; `kernels::intersect` launches it.

use super::common::{
    CODEC_PFOR, FORMULA, INTERSECT, LISTS, SCAN, SEARCH, TILES, TYPES, VALUES, WARP,
};
use warpseek_cuda::Source;

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "intersect_pfor",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, WARP, LISTS, CODEC_PFOR, SEARCH, TILES, FORMULA, VALUES, INTERSECT],
};
