//! Merges the best hits of all items of a query.

use super::common::{SCAN, TILES, TOPK, TYPES};
use warpseek_cuda::Source;

/// CUDA source of the kernel.
pub const SOURCE: Source =
    Source { name: "merge", text: include_str!("kernel.cu"), headers: &[TYPES, SCAN, TILES, TOPK] };
