//! Best matches of queries in texts. `gpu::verify` launches it.

use warpseek_cuda::Source;

use super::common::{TYPES, WARP};

/// The source of the kernels.
pub const SOURCE: Source =
    Source { name: "ngram_verify", text: include_str!("kernel.cu"), headers: &[TYPES, WARP] };
