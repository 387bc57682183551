//! Posting lists (docs/reference/formats/postings.md): bounds, encoding, reading.

mod blocks;
mod bounds;
mod encode;
mod list;
mod map_code;
mod maps;

pub(crate) use blocks::ListBlocks;
pub use blocks::{BlockChunk, EncodedBlocks, FRONT_PAIRS, Front};
pub use bounds::{Bounds, MAX_PAIRS};
pub(crate) use encode::ListEncoder;
pub use list::{BlockBounds, List, ListError, ListParts};
pub(crate) use map_code::head_bits;
pub use map_code::map_codes;
pub use maps::{BIN, Glimpse, LookUp, MapList, MapListParts};
pub(crate) use maps::{HeadWidths, MapListEncoder};
