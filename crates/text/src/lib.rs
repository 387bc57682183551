//! Reads documents and divides their text into terms: readers for all input formats, the
//! analyzers that documents and queries share, and snippets.
//!
//! Reading has two halves so that many threads can share the work. [`Reader::next_batch`] is
//! sequential and only cuts the stream into records; [`RawBatch::record`] parses a record and is
//! called by workers. A problem with one record is a [`RecordError`] and leaves the rest
//! readable; a problem that ends the whole read is a [`TextError`].
//!
//! Analysis has two halves as well, so that the expensive one can be cached:
//! [`Analyzer::for_each_word`] segments and lower-cases, and [`Analyzer::term`] maps a distinct
//! word to its index term. In a [`Schema`], each text field has a separate [`FieldAnalyzer`].
#![forbid(unsafe_code)]

mod analysis;
mod attribute;
mod date;
mod document;
mod error;
mod grams;
mod json;
mod location;
mod normal;
mod owned_document;
mod reader;
mod record_error;
mod schema;
mod snippet;

pub use analysis::{
    Analyzer, CHAIN_VERSION, Chain, END_OF_DOCUMENT, FieldAnalyzer, Language, MAX_FIELD_TERM_BYTES,
    MAX_GRAM_CHARS, MAX_STOP_WORDS, Scratch, StopWords, Tokens, WordRules, next_value, push_token,
};
pub use attribute::{AttributeKind, AttributeValue, MAX_KEYWORD_BYTES};
pub use date::{DATES, format_date, parse_date};
pub use document::Document;
pub use error::TextError;
pub use grams::{GramConfig, GramScratch, QueryGrams, SEGMENTS, Unit};
pub use location::Location;
pub use normal::{Normal, normalize};
pub use owned_document::{OwnedDocument, STATIC_FIELD};
pub use reader::{
    FieldNames, FileQuery, Format, Progress, QueryReader, RawBatch, Reader, ReaderConfig,
    Selection, TopicPart, check_static_field,
};
pub use record_error::{RecordError, RecordErrorKind};
pub use schema::{
    Attribute, FieldId, MAX_ATTRIBUTES, MAX_FIELD_NAME_BYTES, MAX_K1, MAX_SOURCE_PARTS,
    MAX_TEXT_FIELDS, Schema, SchemaConfig, SeenField, TextField, Unknown, seen_fields,
};
pub use snippet::{Snippet, first_words, snippet};
