//! An index on disk: file formats, building, changing, reading and verifying.
//!
//! The formats are specified in docs/reference/formats. Readers use [`Snapshot`]. The functions
//! [`create`], [`create_from_reader`], [`create_from_lists`], [`add`], [`delete`], [`update`] and
//! [`merge`] change an index in a single commit, which takes effect completely or not at all.
//! [`LiveIndex`] accepts single writes.

mod build;
mod change;
mod check;
mod directory;
mod error;
mod files;
mod open_options;
mod segment;
mod snapshot;

pub use build::{
    BatchInverter, BuildConfig, BuildReport, DocumentFacts, InverterFactory, InverterOptions,
    ListBatch, Lists, ListsConfig, OnError, Phase, Progress, RunSink, SegmentBuilder, SortedLists,
    Survey, TextBatch, Values, survey,
};
pub use change::create::{create, create_from_lists, create_from_reader, create_part};
pub use change::delete::DeleteReport;
pub use change::live::{LiveIndex, LiveOptions, Published};
pub use change::log;
pub use change::merge::{MergeConfig, MergeReport, merge};
pub use change::settings::{extend_schema, set_static_field};
pub use change::static_field::static_field_for;
pub use change::update::{UpdateReport, add, delete, update};
pub use check::inspect::{AttributeInspection, FieldInspection, Inspection, PartSizes, inspect};
pub use check::scrub::{Scrub, ScrubCounts};
pub use check::verify::{Problem, Verification, verify};
pub use directory::{MANIFEST, read_manifest};
pub use error::{IndexError, Result};
pub use files::attributes::{
    AttributeKind, AttributeValue, Attributes, AttributesSource, AttributesWriter, Column, Filter,
    FilterCache, FilterCacheUsage, KeywordOrdinals, Keywords, MAX_KEYWORD_BYTES, Numbers,
    merge_attributes,
};
pub use files::container;
pub use files::damage::{Damage, VERIFIED_FOR};
pub use files::deletes::{Deletes, DocSet};
pub use files::dictionary::{Dictionary, TermInfo, Terms};
pub use files::documents::{Documents, Floats, Ordinals};
pub use files::ids::Ids;
pub use files::impacts::Impacts;
pub use files::length_table::Lengths;
pub use files::lengths::FieldLengths;
pub use files::manifest::{
    Content, DeletesEntry, FieldCounts, LogEntry, Manifest, SegmentEntry, StoreMode,
};
pub use files::parts::Parts;
pub use files::positions::{PositionList, PositionReader, Positions};
pub use files::postings::{
    BIN, BlockBounds, BlockChunk, Bounds, EncodedBlocks, FRONT_PAIRS, Front, Glimpse, List,
    ListError, ListParts, LookUp, MAX_PAIRS, MapList, MapListParts, map_codes,
};
pub use files::store::{Store, StoreBlock};
pub use open_options::OpenOptions;
pub use segment::Segment;
pub use snapshot::{Snapshot, SnapshotId, Statistics};
