//! Lines of JSON, as the configuration says: with a schema, values go to its fields; without one,
//! they go to title, text and vector.

use super::config::ReaderConfig;
use super::{jsonl, with_schema};
use crate::{Document, RecordErrorKind};

/// Parses one line, from a file or from memory.
pub(super) fn parse<'a>(
    line: &'a str,
    config: &ReaderConfig,
) -> Result<Document<'a>, RecordErrorKind> {
    match &config.schema {
        Some(schema) => with_schema::parse(line, config, schema),
        None => jsonl::parse(line, config),
    }
}

impl<'a> Document<'a> {
    /// Parses a line of JSON like the JSONL reader, but without static score and order key.
    /// `vector_scale` is that of [`ReaderConfig`]. Parsing a line from
    /// [`write_json`](Self::write_json) restores title, text and vector.
    pub fn from_json(line: &'a str, vector_scale: u32) -> Result<Self, RecordErrorKind> {
        let config = ReaderConfig { vector_scale, ..ReaderConfig::default() };
        Self::parse(line, &config)
    }

    /// Parses a line of JSON like the JSONL reader with this configuration.
    pub fn parse(line: &'a str, config: &ReaderConfig) -> Result<Self, RecordErrorKind> {
        parse(line, config)?.checked()
    }
}
