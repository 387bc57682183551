//! The directory of all blocks of an index's lists and bitmaps of the longer ones, created once
//! when the index is copied to a device. `gpu` launches it.

use warpseek_cuda::Source;

use super::common::{MAP_LISTS, SCAN, SLOTS, TYPES, WARP};

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "ngram_directory",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, SLOTS, WARP, MAP_LISTS],
};
