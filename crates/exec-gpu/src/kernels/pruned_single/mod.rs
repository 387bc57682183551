//! A single query over tiles, with pruning.

use warpseek_cuda::Source;

use super::common::PRUNED_SINGLE;
pub(crate) use super::pruned::launch_single as launch;

/// CUDA source of the kernel.
pub const SOURCE: Source =
    Source { name: "pruned_single", text: include_str!("kernel.cu"), headers: PRUNED_SINGLE };
