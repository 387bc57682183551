//! Scores of candidates. `gpu` launches it.

use warpseek_cuda::Source;

use super::common::{MAP_LISTS, SCAN, SLOTS, TYPES, WARP};

/// The source of the kernel.
pub const SOURCE: Source = Source {
    name: "ngram_look_up",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, SLOTS, WARP, MAP_LISTS],
};
