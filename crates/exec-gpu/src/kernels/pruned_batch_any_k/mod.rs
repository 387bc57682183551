//! OR and AND over tiles with pruning, for batches of queries with any number of hits.

use super::common::PRUNED_TILES;
use warpseek_cuda::Source;

/// CUDA source of the kernel.
pub const SOURCE: Source =
    Source { name: "pruned_batch_any_k", text: include_str!("kernel.cu"), headers: PRUNED_TILES };
