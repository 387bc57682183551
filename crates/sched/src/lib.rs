//! Scheduling of several engines as one: the CPU and GPUs divide an index, or a batch, and return
//! the hits that each of them would return alone.
//!
//! This crate knows the contract of engines, but no particular engine. In [`ByDocuments`], each
//! engine answers for a part of the documents. In [`ByQueries`], each engine answers for all
//! documents and takes a part of the queries, and one more engine may help. [`Speed`] learns from
//! the searches of an engine, and [`measure`] finds out how long a part of the documents takes.

mod cache;
pub mod calibrate;
mod documents;
mod helper;
pub mod measure;
mod model;
mod queries;
pub mod service;
mod speed;
mod threads;

pub use cache::{CacheCounts, HeapBytes, Key, Lookup, ResultCache};
pub use documents::{ByDocuments, split};
pub use model::{CostModel, Features, Form};
pub use queries::ByQueries;
pub use speed::Speed;
pub use threads::WithThreads;
