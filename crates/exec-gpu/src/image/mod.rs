//! The image: the layout of an index on the device. It is derived from the index files when the
//! index is loaded, and is never the source of truth.

mod cache;
mod documents;
mod error;
mod estimate;
mod image_cache;
mod key;
mod layout;
mod list;
mod make;
mod masks;
mod on_demand;
pub mod oracle;
mod packed;
mod part;
mod residence;
mod segment;
mod segment_tables;
mod send;
mod valuer;

pub use cache::{EntryId, Level, ListCache, ListId, Policy};
pub use documents::DocumentTables;
pub use error::ImageError;
pub use estimate::least_bytes;
pub(crate) use estimate::table_bytes;
pub use image_cache::ImageCache;
pub(crate) use image_cache::is_short;
pub(crate) use key::SegmentKey;
pub use layout::{Item, PRUNED_TERMS, QueryView, SegmentView, SingleView, TermView};
pub use masks::DeviceMask;
pub(crate) use masks::Masks;
pub use on_demand::CacheCounts;
pub(crate) use on_demand::{Hurry, IN_FLIGHT, ITEM_HITS, MemoryNeeds, OnDemand, OnDemandByFormula};
pub use oracle::factors;
pub(crate) use packed::PackedList;
pub use residence::Residence;
pub use segment::SegmentImage;
pub(crate) use segment::{Slice, Target};
pub(crate) use send::numbered;
pub use send::{on_threads, ranges, send};
pub(crate) use valuer::ValuerView;
pub use valuer::largest_value;
