//! The device form of an index, made from it at load; never the truth on disk.

pub mod compressed;
mod documents;
mod layout;
mod segment;

pub use documents::DocumentTables;
pub use layout::{Item, QueryView, SegmentView, TermView};
pub(crate) use segment::largest_value;
pub use segment::{ImageError, SegmentImage};
