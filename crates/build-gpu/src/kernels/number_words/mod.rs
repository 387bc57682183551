//! Ids of words from a dictionary. `weights::gpu` launches it.

use warpseek_cuda::Source;

use super::common::{DICTIONARY, TYPES};

/// The source of the kernels.
pub const SOURCE: Source =
    Source { name: "number_words", text: include_str!("kernel.cu"), headers: &[TYPES, DICTIONARY] };
