//! Frequencies and weights from sorted words. `weights::gpu` launches it.

use warpseek_cuda::Source;

use super::common::TYPES;

/// The source of the kernels.
pub const SOURCE: Source =
    Source { name: "weigh", text: include_str!("kernel.cu"), headers: &[TYPES] };
