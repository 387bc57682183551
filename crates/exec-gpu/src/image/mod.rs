//! The device form of an index, made from it at load; never the truth on disk.

pub mod compressed;
mod documents;
mod estimate;
mod kept;
mod layout;
mod lists;
mod segment;

pub use documents::DocumentTables;
pub use estimate::least_bytes;
pub(crate) use kept::Kept;
pub use layout::{AloneView, Item, PRUNED_TERMS, QueryView, SegmentView, TermView};
pub(crate) use lists::SegmentLists;
pub(crate) use segment::largest_value;
pub use segment::{ImageError, SegmentImage};
