//! The form of an index on the device. It is derived from the index when it is loaded, and is never the source of truth.

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
