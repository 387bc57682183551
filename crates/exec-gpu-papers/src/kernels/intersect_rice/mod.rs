//! Intersection on lists in Rice codes; `kernels::intersect` launches it.

use super::common::{
    CODEC_RICE, FORMULA, INTERSECT, LISTS, SCAN, SEARCH, TILES, TYPES, VALUES, WARP,
};
use warpseek_cuda::Source;

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "intersect_rice",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, WARP, LISTS, CODEC_RICE, SEARCH, TILES, FORMULA, VALUES, INTERSECT],
};
