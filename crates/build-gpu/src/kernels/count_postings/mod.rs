//! Postings from sorted occurrences of terms. `inverter` launches it.

use warpseek_cuda::Source;

use super::common::TYPES;

/// The source of the kernels.
pub const SOURCE: Source =
    Source { name: "count_postings", text: include_str!("kernel.cu"), headers: &[TYPES] };
