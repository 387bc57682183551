//! Parses the records of a batch, each by its format.

use super::batch::{RawBatch, RawRecord, Record, utf8};
use super::config::ReaderConfig;
use super::format::Format;
use super::with_schema::assign;
use super::{line, names, trec, tree, tsv, words};
use crate::{Document, RecordError, RecordErrorKind};

impl RawBatch {
    /// Parses record `i`, which must be below [`len`](Self::len).
    pub fn record(&self, i: usize) -> Result<Document<'_>, RecordError> {
        let raw = &self.records[i];
        let parsed = match &raw.fault {
            Some(fault) => Err(fault.clone()),
            None => self.parse(raw),
        };
        parsed.map_err(|kind| RecordError { location: self.location(i), kind })
    }

    fn parse(&self, raw: &RawRecord) -> Result<Document<'_>, RecordErrorKind> {
        let (bytes, config) = (&self.bytes[raw.start..raw.end], &*self.config);
        let document = match raw.source.map(|source| &*self.sources[source]) {
            None => line::parse(utf8(bytes)?, config)?,
            Some(source) => {
                let record = Record { bytes, source, ordinal: raw.ordinal };
                match source.format {
                    Format::Jsonl => names::parse(record.utf8()?, &config.fields, config)?,
                    Format::Csv | Format::Parquet => match source.columns.get() {
                        Some(columns) => names::parse(record.utf8()?, &columns.names, config)?,
                        None => names::parse(record.utf8()?, &config.fields, config)?,
                    },
                    Format::Tsv => match source.columns.get() {
                        Some(columns) => {
                            let row = columns.of_line(record.utf8()?)?;
                            names::parse(&row, &columns.names, config)?.into_owned()
                        }
                        None => configured(tsv::parse(&record)?, config)?,
                    },
                    Format::Trec => configured(trec::parse(&record)?, config)?,
                    Format::Tree => configured(tree::parse(&record)?, config)?,
                    Format::Words => configured(words::parse(&record)?, config)?,
                }
            }
        };
        document.checked()
    }
}

/// Applies the schema and the order field of the configuration. It is for formats other than
/// JSONL, which have only id, title and text.
fn configured<'a>(
    document: Document<'a>,
    config: &ReaderConfig,
) -> Result<Document<'a>, RecordErrorKind> {
    let document = document.ordered_by(config.order_field.as_deref());
    match &config.schema {
        Some(schema) => assign(document, schema),
        None => Ok(document),
    }
}
