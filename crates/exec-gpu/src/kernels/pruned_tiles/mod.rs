//! OR and AND over tiles with pruning, for batches of queries with at most 32 hits each.

use warpseek_cuda::Source;

use super::common::PRUNED_TILES;
pub(crate) use super::pruned::launch_batch as launch;

/// CUDA source of the kernel.
pub const SOURCE: Source =
    Source { name: "pruned_tiles", text: include_str!("kernel.cu"), headers: PRUNED_TILES };
