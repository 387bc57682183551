//! OR and AND over tiles with pruning, for batches of queries with at most 32 hits each.

use super::common::PRUNED_TILES;
use warpseek_cuda::Source;

/// CUDA source of the kernel.
pub const SOURCE: Source =
    Source { name: "pruned_tiles", text: include_str!("kernel.cu"), headers: PRUNED_TILES };
