//! Intersection on bit-packed lists.

use super::common::{
    CODEC_BITPACK, FORMULA, INTERSECT, LISTS, SCAN, SEARCH, TILES, TYPES, VALUES, WARP,
};
use super::intersect_codec::CodecKernels;
use warpseek_cuda::{Device, DeviceError, Source};

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "intersect_bitpack",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, WARP, LISTS, CODEC_BITPACK, SEARCH, TILES, FORMULA, VALUES, INTERSECT],
};

/// Compiles the kernels.
pub(super) fn kernels(device: &Device) -> Result<CodecKernels, DeviceError> {
    CodecKernels::new(device, &SOURCE, "bitpack")
}
