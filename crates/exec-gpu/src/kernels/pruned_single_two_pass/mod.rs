//! A single query over tiles, with pruning in two passes.

use super::common::PRUNED_SINGLE;
use warpseek_cuda::Source;

/// CUDA source of the kernel.
pub const SOURCE: Source = Source {
    name: "pruned_single_two_pass",
    text: include_str!("kernel.cu"),
    headers: PRUNED_SINGLE,
};
