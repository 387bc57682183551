//! The device form of an index, made from it at load; never the truth on disk.

pub mod compressed;
mod documents;
mod estimate;
mod layout;
mod segment;

pub use documents::DocumentTables;
pub use estimate::least_bytes;
pub use layout::{Item, QueryView, SegmentView, TermView};
pub(crate) use segment::largest_value;
pub use segment::{ImageError, SegmentImage};
