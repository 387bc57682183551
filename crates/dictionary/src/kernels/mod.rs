//! Kernels. Each has a folder with the CUDA C++ (`kernel.cu`) and its source as a constant (`mod.rs`).

pub mod dictionary_look_up;

use warpseek_cuda::Source;

/// Every source of this crate, for tools that compile all of them.
pub const ALL: &[Source] = &[dictionary_look_up::SOURCE];

/// Headers that sources share, as (name, text).
pub mod common {
    pub use warpseek_cuda::kernels::common::TYPES;

    /// A dictionary on the device, for kernels of other crates, too.
    pub const DICTIONARY: (&str, &str) = ("dictionary.cuh", include_str!("common/dictionary.cuh"));
}
