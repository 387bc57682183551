//! A single query over tiles, with pruning.

use super::common::PRUNED_SINGLE;
use warpseek_cuda::Source;

/// CUDA source of the kernel.
pub const SOURCE: Source =
    Source { name: "pruned_single", text: include_str!("kernel.cu"), headers: PRUNED_SINGLE };
