//! Synthetic text collections, posting lists and query logs that are identical for a seed on every
//! machine.
//!
//! The model is that of (Wakatsuki 2016, section 5.1): log-normal document lengths, and words drawn
//! by frequency from a vocabulary of up to ten million words. Two features are added because they
//! matter to a search engine. The exponent of the frequency law changes at
//! [`TextConfig::tail_rank`], so that both very frequent and very rare words are as common as in
//! real text, and words cluster in documents ([`TextConfig::burst`]).
//!
//! There are no tables: ranks are drawn by rejection-inversion, and their spelling is computed when
//! needed. Each document has its own random stream, so documents can be generated in any order and
//! on any number of threads. Random numbers come from a generator written here and transcendental
//! functions from `libm` rather than the platform; golden tests would detect a `libm` that rounds
//! differently.
//!
//! * `random`: SplitMix64 and xoshiro256++, one stream per (seed, purpose, ordinal)
//! * `zipf`: word ranks; `length`: document lengths; `word`: the spelling of a rank
//! * `document`: a document as word ranks; `format`: from ranks to bytes
//! * `query`: a query log for a collection
//! * `postings`: posting lists generated directly from the statistics of a collection, without text

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
