//! Terms for one slice of documents after another, where some lists stay as a whole.

use super::common::{SCAN, TILES, TYPES, WARP};
use warpseek_cuda::Source;

/// Its source.
pub const SOURCE: Source = Source {
    name: "advance_terms",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, WARP, TILES],
};
