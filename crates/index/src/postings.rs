//! Posting lists (docs/format/postings.md): bounds, encoding, reading.

mod bounds;
mod encode;
mod list;

pub use bounds::{Bounds, MAX_PAIRS};
pub(crate) use encode::ListEncoder;
pub use list::{BlockBounds, List, ListError, ListParts};
