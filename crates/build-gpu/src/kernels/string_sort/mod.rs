//! Words sorted as strings. `weights::gpu` launches it.

use warpseek_cuda::Source;

use super::common::{MERGE_SORT, TYPES, WORDS};

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "string_sort",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, MERGE_SORT, WORDS],
};
