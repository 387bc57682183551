//! The published algorithms, list by list over all documents and bin by bin. `gpu::published`
//! launches it.

use warpseek_cuda::Source;

use super::common::{MAP_LISTS, SCAN, SLOTS, TYPES, WARP};

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "ngram_published",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, SLOTS, WARP, MAP_LISTS],
};
