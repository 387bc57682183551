//! CUDA kernels. Each has a folder with the CUDA C++ (`kernel.cu`) and its source as a constant
//! (`mod.rs`).

pub mod dictionary_look_up;

use warpseek_cuda::Source;

/// All sources of this crate, for tools that compile them.
pub const ALL: &[Source] = &[dictionary_look_up::SOURCE];

/// Headers that several sources include, as (name, text).
pub mod common {
    pub use warpseek_cuda::kernels::common::TYPES;

    /// Declaration of a dictionary on the device, which kernels of other crates include, too.
    pub const DICTIONARY: (&str, &str) = ("dictionary.cuh", include_str!("common/dictionary.cuh"));
}
