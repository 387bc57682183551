//! Blocks of long lists in the codec `bitpack`. `encode` launches it.

use warpseek_cuda::Source;

use super::common::{SCAN, SLOTS, TYPES, WARP};

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "encode_blocks",
    text: include_str!("kernel.cu"),
    headers: &[SCAN, SLOTS, TYPES, WARP],
};
