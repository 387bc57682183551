//! Codecs for blocks of integers, one file per codec, and a registry with stable ids.

mod bitpack;
mod codec;
mod ef;
mod error;
mod gaps;
mod list_state;
mod pfd;
mod pfor;
mod registry;
mod rice;
mod simd;
mod slots;
mod svb;
mod unary;
pub mod values;
pub mod varint;

pub use codec::{Block, Codec};
pub use error::CodecError;
pub use list_state::ListState;
pub use registry::CodecId;
pub use simd::prefetch;
