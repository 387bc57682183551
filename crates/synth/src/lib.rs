//! Synthetic text collections, posting lists and query logs, the same for a seed on every machine.
//!
//! The model is that of document W, section 5.1: log-normal document lengths and words drawn by
//! frequency from a vocabulary of up to ten million. Two things are added because a search engine
//! feels them: the frequency law bends ([`TextConfig::tail_rank`]), so that very frequent and very
//! rare words are both as common as in real text, and words cluster in documents
//! ([`TextConfig::burst`]).
//!
//! Nothing is kept in tables: a rank is drawn by rejection-inversion and spelled on the fly, and
//! each document has its own random stream, so documents are made in any order and on any number
//! of threads. Random numbers come from a generator written here and transcendental functions from
//! `libm`, not from the platform; golden tests notice a `libm` that rounds otherwise.
//!
//! * `random`: SplitMix64 and xoshiro256++, one stream per (seed, purpose, ordinal)
//! * `zipf`: word ranks; `length`: document lengths; `word`: rank to spelling
//! * `document`: a document as word ranks; `format`: ranks to bytes
//! * `query`: a query log that goes with a collection
//! * `postings`: posting lists straight from a collection's statistics, without text

#![forbid(unsafe_code)]

mod config;
mod document;
mod error;
mod format;
mod length;
mod postings;
mod query;
mod random;
mod word;
mod zipf;

pub use config::{MAX_VOCABULARY, TextConfig};
pub use document::TextGenerator;
pub use error::SynthError;
pub use format::{TextFormat, write_document};
pub use postings::{PostingsConfig, PostingsGenerator, PostingsQueries, Preset};
pub use query::{QueryConfig, queries};
pub use word::word;
