//! Building a segment.
//!
//! Records are parsed, admitted in input order, and inverted in memory by several workers. A
//! worker that reaches its memory budget spills a sorted run, and the runs are merged into
//! posting lists.
//!
//! Document ids follow input order whatever the number of workers. Each batch enters a `Sequencer`
//! in order, which rejects duplicates and assigns ids. It is then analysed in parallel, and enters
//! a second sequencer in order, which appends to ids, lengths and store.
//!
//! With an `InverterFactory`, workers only produce flat text. Batches of it are inverted
//! elsewhere, for example on a GPU, and the returned lists are merged in the same way.
//!
//! `survey` admits documents without building anything, so that they can be divided into parts
//! that become separate indexes. `lists` builds a segment from existing posting lists, and
//! `in_memory` builds one that is not written to disk.

pub(crate) mod memory;
pub(crate) mod order;
pub(crate) mod segment_writer;

mod admission;
mod batches;
mod config;
mod flat;
mod in_memory;
mod invert;
mod jobs;
mod lacks;
mod lists;
mod ordered;
mod pipeline;
mod run;
mod sequencer;
mod sorted;
mod sources;
mod survey;
mod write;

pub use batches::{BatchInverter, DocumentFacts, InverterFactory, InverterOptions, RunSink};
pub use config::{BuildConfig, BuildReport, OnError, Phase, Progress};
pub use flat::{TextBatch, Values};
pub use in_memory::SegmentBuilder;
pub(crate) use in_memory::{FullBlock, InOrder, Shard};
pub(crate) use invert::{DocumentFact, Inverter, next_posting};
pub(crate) use lists::build_lists;
pub use lists::{Lists, ListsConfig};
pub(crate) use ordered::ordered_map;
pub(crate) use pipeline::{Built, build_segment};
pub use sorted::{ListBatch, SortedLists};
pub(crate) use sources::{ListSource, Merge, Part};
pub use survey::{Survey, survey};
pub(crate) use write::{Coding, ListFiles, Written, write_lists};
