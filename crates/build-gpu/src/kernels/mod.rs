//! The kernels of this crate. Each has a folder with the CUDA C++ (`kernel.cu`) and the functions
//! that check arguments and launch it (`mod.rs`).

pub mod count_postings;
pub mod encode_blocks;
pub mod find_words;
pub mod map_reduce;
pub mod number_words;
pub mod string_sort;
pub mod token_values;
pub mod weigh;
pub mod word_table;

use warpseek_cuda::Source;

/// Every source of this crate, for tools that compile all of them.
pub const ALL: &[Source] = &[
    count_postings::SOURCE,
    encode_blocks::SOURCE,
    find_words::SOURCE,
    map_reduce::SOURCE,
    number_words::SOURCE,
    string_sort::SOURCE,
    token_values::SOURCE,
    weigh::SOURCE,
    word_table::SOURCE,
];

/// Headers that sources share, as (name, text).
pub mod common {
    pub use warpseek_cuda::kernels::common::{MERGE_SORT, SCAN, SLOTS, TYPES, WARP};
    pub use warpseek_dictionary::kernels::common::DICTIONARY;

    /// Words of flat text.
    pub const WORDS: (&str, &str) = ("words.cuh", include_str!("common/words.cuh"));
    /// The weight of a posting.
    pub const WEIGHT: (&str, &str) = ("weight.cuh", include_str!("common/weight.cuh"));
}
