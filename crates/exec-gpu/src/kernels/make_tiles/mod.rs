//! Makes lists of tiles from compressed lists. [`image::make`](crate::image) launches the
//! kernels.

use super::common::{PACKED, SCAN, SLOTS, TYPES, VALUER, WARP};
use warpseek_cuda::Source;

/// CUDA source of the kernels.
pub const SOURCE: Source = Source {
    name: "make_tiles",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, SLOTS, WARP, PACKED, VALUER],
};
