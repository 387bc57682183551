//! Building a segment: records are parsed, admitted in input order, inverted in memory by several
//! workers, spilled as sorted runs when the budget is reached, and merged to lists.
//!
//! Document ids follow input order whatever the number of workers: each batch passes a gate in order
//! (`ordered::Gate`) that rejects duplicates and hands out ids, is then analysed in parallel, and passes
//! a second gate in order to append to ids, lengths and store.
//!
//! With an `InverterFactory`, workers only make flat text, which is inverted elsewhere in batches; the lists that come back are merged in the same way.
//!
//! `survey` admits documents without building anything, so that they can be cut into parts that become indexes of their own.
//!
//! `lists` builds a segment from posting lists that the caller already has, `in_memory` one that is not written to disk.

pub(crate) mod memory;
pub(crate) mod order;
pub(crate) mod segment_writer;

mod admission;
mod batches;
mod config;
mod in_memory;
mod invert;
mod lacks;
mod lists;
mod ordered;
mod pipeline;
mod run;
mod sorted;
mod sources;
mod survey;
mod write;

pub use batches::{BatchInverter, DocumentFacts, InverterFactory, RunSink, Wanted};
pub use config::{BuildConfig, BuildReport, OnError, Phase, Progress};
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
pub(crate) use write::{Coding, Written, write_lists};
