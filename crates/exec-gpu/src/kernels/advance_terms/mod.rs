//! Advances terms from one slice of documents to the next, for lists that stay as a whole.

use super::common::{SCAN, TILES, TYPES, WARP};
use warpseek_cuda::Source;

/// CUDA source of the kernel.
pub const SOURCE: Source = Source {
    name: "advance_terms",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, WARP, TILES],
};
