//! The table of distinct words. `word_table` launches it.

use warpseek_cuda::Source;

use super::common::{TYPES, WORDS};

/// The source of the kernels.
pub const SOURCE: Source =
    Source { name: "word_table", text: include_str!("kernel.cu"), headers: &[TYPES, WORDS] };
