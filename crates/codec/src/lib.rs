//! Integer codecs on slices: one file each, and a registry with stable ids.

mod bitpack;
mod registry;
mod simd;
pub mod varint;

pub use registry::{Codec, CodecError, CodecId};
