//! An index on disk: file formats, building, changing, reading and verifying.
//!
//! The formats are specified in docs/reference/formats. Readers use [`Snapshot`]. The functions
//! [`create`], [`create_from_reader`], [`create_from_lists`], [`add`], [`delete`], [`update`] and
//! [`merge`] change an index in a single commit, which takes effect completely or not at all.
//! [`LiveIndex`] accepts single writes.

mod attributes;
mod bits;
mod build;
pub mod container;
mod damage;
mod delete;
mod deletes;
mod dictionary;
mod directory;
mod documents;
mod early_sync;
mod error;
mod ids;
mod impacts;
mod inspect;
mod length_table;
mod lengths;
mod live;
pub mod log;
mod manifest;
mod memory;
mod merge;
mod norms;
mod order;
mod parts;
mod positions;
mod postings;
mod scrub;
mod segment;
mod segment_writer;
mod snapshot;
mod static_field;
mod store;
mod throttle;
mod update;
mod verify;

pub use attributes::{
    AttributeKind, AttributeValue, Attributes, AttributesSource, AttributesWriter, Column, Filter,
    FilterCache, FilterCacheUsage, KeywordOrdinals, Keywords, MAX_KEYWORD_BYTES, Numbers,
    merge_attributes,
};
pub use build::{
    BatchInverter, BuildConfig, BuildReport, DocumentFacts, InverterFactory, ListBatch, Lists,
    ListsConfig, OnError, Phase, Progress, RunSink, SegmentBuilder, SortedLists, Survey, Wanted,
    survey,
};
pub use damage::{Damage, VERIFIED_FOR};
pub use delete::{DeleteReport, delete};
pub use deletes::{Deletes, DocSet};
pub use dictionary::{Dictionary, TermInfo, Terms};
pub use directory::{MANIFEST, read_manifest};
pub use documents::{Documents, Floats, Lengths, Ordinals};
pub use error::{IndexError, Result};
pub use ids::Ids;
pub use impacts::Impacts;
pub use inspect::{AttributeInspection, FieldInspection, Inspection, PartSizes, inspect};
pub use lengths::FieldLengths;
pub use live::{LiveIndex, LiveOptions, Published};
pub use manifest::{
    Content, DeletesEntry, FieldCounts, LogEntry, Manifest, SegmentEntry, StoreMode,
};
pub use merge::{MergeConfig, MergeReport, merge};
pub use parts::Parts;
pub use positions::{PositionList, PositionReader, Positions};
pub use postings::{
    BIN, BlockBounds, BlockChunk, Bounds, EncodedBlocks, FRONT_PAIRS, Front, Glimpse, List,
    ListError, ListParts, LookUp, MAX_PAIRS, MapList, MapListParts, map_codes,
};
pub use scrub::{Scrub, ScrubCounts};
pub use segment::Segment;
pub use snapshot::{OpenOptions, Snapshot, SnapshotId, Statistics};
pub use static_field::static_field_for;
pub use store::{Store, StoreBlock};
pub use update::{
    UpdateReport, add, create, create_from_lists, create_from_reader, create_part, extend_schema,
    set_static_field, update,
};
pub use verify::{Problem, Verification, verify};
