//! Intersection on lists in PForDelta.

use super::common::{
    CODEC_PFOR, FORMULA, INTERSECT, LISTS, SCAN, SEARCH, TILES, TYPES, VALUES, WARP,
};
use super::intersect_codec::CodecKernels;
use warpseek_cuda::{Device, DeviceError, Source};

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "intersect_pfor",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, WARP, LISTS, CODEC_PFOR, SEARCH, TILES, FORMULA, VALUES, INTERSECT],
};

/// Compiles the kernels for lists with this many levels of overflows, 0 to 4.
pub(super) fn kernels(device: &Device, levels: u32) -> Result<CodecKernels, DeviceError> {
    CodecKernels::new(device, &SOURCE, &format!("pfor{levels}"))
}
