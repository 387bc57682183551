//! Shared test utilities: collections, generators, indexes in temporary directories, an oracle that
//! works without an index, and the conformance suite that every engine must pass.
//!
//! This crate is only for tests: its functions panic on failure.
#![allow(clippy::unwrap_used)]

pub mod blocks;
mod cases;
pub mod collections;
pub mod conformance;
mod document;
pub mod fields;
mod fixture;
pub mod generator;
mod history;
mod kernel_constants;
mod library;
mod oracle;
pub mod phrases;
mod random;
mod rankings;
mod search;
pub mod skips;
mod trees;

pub use document::{Doc, STATIC_FIELD};
pub use fixture::{Fixture, build_config, file_bytes, orders};
pub use history::{History, Operation};
pub use kernel_constants::KernelConstants;
pub use library::Library;
pub use oracle::Oracle;
pub use random::Random;
pub use rankings::text_rankings;
pub use search::{ExternalHit, Search, answers, answers_in, expected, external_hits, plans};
pub use trees::{Names, TreeSearch};
