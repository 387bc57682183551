//! The kernels of this crate. Each has a folder with the CUDA C++ (`kernel.cu`) and the functions
//! that check arguments and launch it (`mod.rs`).

pub(crate) mod map_lists;
pub mod ngram_count;
pub mod ngram_directory;
pub mod ngram_look_up;
pub mod ngram_published;
pub mod ngram_verify;

use warpseek_cuda::Source;

/// Every source of this crate, for tools that compile all of them.
pub const ALL: &[Source] = &[
    ngram_count::SOURCE,
    ngram_directory::SOURCE,
    ngram_look_up::SOURCE,
    ngram_published::SOURCE,
    ngram_verify::SOURCE,
];

/// Headers that sources share, as (name, text).
pub mod common {
    pub use warpseek_cuda::kernels::common::{SCAN, SLOTS, TYPES, WARP};

    /// Lists of an n-gram index.
    pub const MAP_LISTS: (&str, &str) = ("map_lists.cuh", include_str!("common/map_lists.cuh"));
}
