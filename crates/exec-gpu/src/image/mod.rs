//! The image: the layout of an index on the device. It is derived from the index files when the
//! index is loaded, and is never the source of truth.

mod cache;
mod documents;
mod error;
mod estimate;
mod kept;
mod layout;
mod make;
mod masks;
mod on_demand;
pub mod oracle;
mod packed;
mod part;
mod residence;
mod segment;
mod send;
mod valuer;

pub use cache::{EntryId, Level, ListCache, ListId, Policy};
pub use documents::DocumentTables;
pub use error::ImageError;
pub use estimate::least_bytes;
pub(crate) use estimate::table_bytes;
pub use kept::Kept;
pub(crate) use kept::is_short;
pub use layout::{Item, PRUNED_TERMS, QueryView, SegmentView, SingleView, TermView};
pub(crate) use make::MakeKernels;
pub use masks::DeviceMask;
pub(crate) use masks::Masks;
pub use on_demand::CacheCounts;
pub(crate) use on_demand::{IN_FLIGHT, ITEM_HITS, Needs, OnDemand};
pub use oracle::factors;
pub(crate) use residence::Key;
pub use residence::Residence;
pub(crate) use segment::Target;
pub use segment::{SegmentImage, largest_value};
pub(crate) use send::numbered;
pub use send::{on_threads, ranges, send};
