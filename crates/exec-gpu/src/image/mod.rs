//! The device form of an index, made from it at load; never the truth on disk.

mod documents;
mod estimate;
mod kept;
mod layout;
mod segment;

pub use documents::DocumentTables;
pub use estimate::least_bytes;
pub use kept::Kept;
pub use layout::{Item, PRUNED_TERMS, QueryView, SegmentView, SingleView, TermView};
pub use segment::{ImageError, SegmentImage, factors, largest_value, on_threads, ranges, send};
