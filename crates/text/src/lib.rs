//! Documents in and words out: the readers of every input format, the analyzers that indexing and
//! queries share, and snippets.
//!
//! Reading has two halves so that it can feed many threads. [`Reader::next_batch`] is sequential and
//! only cuts the stream into records; [`RawBatch::record`] does the parsing and is called by workers.
//! What is wrong with one record is a [`RecordError`] and leaves the rest readable; what ends the
//! whole read is a [`TextError`].
//!
//! Analysis has two halves as well, so that the costly one can be cached:
//! [`Analyzer::for_each_word`] segments and lower-cases, [`Analyzer::term`] maps a distinct word to
//! its index term.
#![forbid(unsafe_code)]

mod analysis;
mod document;
mod error;
mod grams;
mod location;
mod normal;
mod owned_document;
mod reader;
mod record_error;
mod snippet;

pub use analysis::{
    Analyzer, CHAIN_VERSION, Chain, END_OF_DOCUMENT, FieldAnalyzer, Language, MAX_FIELD_TERM_BYTES,
    MAX_GRAM_CHARS, MAX_STOP_WORDS, Scratch, StopWords, Tokens, WordRules,
};
pub use document::Document;
pub use error::TextError;
pub use grams::{GramConfig, GramScratch, QueryGrams, SEGMENTS, Unit};
pub use location::Location;
pub use normal::{Normal, normalize};
pub use owned_document::{OwnedDocument, STATIC_FIELD};
pub use reader::{Format, Progress, RawBatch, Reader, ReaderConfig};
pub use record_error::{RecordError, RecordErrorKind};
pub use snippet::{Snippet, snippet};
