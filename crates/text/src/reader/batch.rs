//! Records as cut from the stream, not yet parsed.

use std::sync::Arc;

use super::config::ReaderConfig;
use super::format::Format;
use super::input::Input;
use super::jsonl::parse_json;
use super::source::Source;
use super::{names, trec, tree, tsv, words};
use crate::{Document, Location, RecordError, RecordErrorKind};

/// A run of unparsed records that owns its bytes, so that it can go to another thread. A batch may
/// span files.
#[derive(Debug)]
pub struct RawBatch {
    pub(super) bytes: Vec<u8>,
    records: Vec<RawRecord>,
    sources: Vec<Arc<Source>>,
    config: Arc<ReaderConfig>,
    /// Whether the next lines had no room in it.
    closed: bool,
}

#[derive(Debug)]
struct RawRecord {
    start: usize,
    end: usize,
    /// Index into the batch's sources; `None` for a document from memory.
    source: Option<usize>,
    /// 1-based; `None` where the record is the file.
    line: Option<u64>,
    /// Records before this one in its file, or in memory.
    ordinal: u64,
    /// Set where the cutting itself found the record to be bad.
    fault: Option<RecordErrorKind>,
}

/// What a format's parser gets.
pub(super) struct Record<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) source: &'a Source,
    pub(super) ordinal: u64,
}

impl<'a> Record<'a> {
    /// The record as text.
    pub(super) fn utf8(&self) -> Result<&'a str, RecordErrorKind> {
        utf8(self.bytes)
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, RecordErrorKind> {
    std::str::from_utf8(bytes)
        .map_err(|error| RecordErrorKind::InvalidUtf8 { offset: error.valid_up_to() })
}

impl RawBatch {
    pub(super) fn new(config: Arc<ReaderConfig>) -> Self {
        let (bytes, records, sources) = (Vec::new(), Vec::new(), Vec::new());
        Self { bytes, records, sources, config, closed: false }
    }

    /// Makes room for a full batch and its last record, so that the one thread that cuts records need not move them while the batch grows.
    pub(super) fn reserve(&mut self) {
        self.bytes.reserve(self.config.batch_bytes / 8 * 9);
    }

    /// One without records never is: it would end the read.
    pub(super) fn is_full(&self) -> bool {
        !self.is_empty()
            && (self.closed
                || self.bytes.len() >= self.config.batch_bytes
                || self.records.len() >= self.config.batch_records)
    }

    /// Whether so much more fits into it; one without records takes anything.
    pub(super) fn has_room(&self, records: usize, bytes: usize) -> bool {
        self.is_empty()
            || self.records.len() + records <= self.config.batch_records
                && self.bytes.len() + bytes <= self.config.batch_bytes
    }

    /// Makes it full as it is.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Adds `bytes[start..end]` as a record of `input`.
    pub(super) fn push(&mut self, input: &mut Input, start: usize, end: usize, line: Option<u64>) {
        self.push_record(input, start, end, line, None);
    }

    /// Adds a record that is known to be bad.
    pub(super) fn push_fault(
        &mut self,
        input: &mut Input,
        line: Option<u64>,
        fault: RecordErrorKind,
    ) {
        let at = self.bytes.len();
        self.push_record(input, at, at, line, Some(fault));
    }

    fn push_record(
        &mut self,
        input: &mut Input,
        start: usize,
        end: usize,
        line: Option<u64>,
        fault: Option<RecordErrorKind>,
    ) {
        if self.sources.last().is_none_or(|last| !Arc::ptr_eq(last, &input.source)) {
            self.sources.push(Arc::clone(&input.source));
        }
        let (source, ordinal) = (Some(self.sources.len() - 1), input.records);
        self.records.push(RawRecord { start, end, source, line, ordinal, fault });
        input.records += 1;
    }

    /// Adds the bytes from `start` on as the JSON of a document from memory, with `ordinal` before it.
    pub(super) fn push_document(
        &mut self,
        start: usize,
        ordinal: u64,
        fault: Option<RecordErrorKind>,
    ) {
        let (end, source, line) = (self.bytes.len(), None, None);
        self.records.push(RawRecord { start, end, source, line, ordinal, fault });
    }

    /// Removes the first `n` records, with their bytes.
    pub(super) fn remove_front(&mut self, n: usize) {
        if n == 0 {
            return;
        }
        self.records.drain(..n);
        let Some(first) = self.records.first() else {
            self.bytes.clear();
            self.sources.clear();
            return;
        };
        let gone = first.start;
        self.bytes.drain(..gone);
        for record in &mut self.records {
            record.start -= gone;
            record.end -= gone;
        }
    }

    /// Removes the records from `first` on that `keep` refuses, which gets their numbers counted from there. Bytes go with the last record.
    pub(super) fn retain_from(&mut self, first: usize, mut keep: impl FnMut(usize) -> bool) {
        let mut number = 0;
        self.records.retain(|_| {
            number += 1;
            number <= first || keep(number - first - 1)
        });
        if self.records.is_empty() {
            self.bytes.clear();
            self.sources.clear();
        }
    }

    /// The bytes of record `i`, which must be below [`len`](Self::len).
    pub fn record_bytes(&self, i: usize) -> usize {
        self.records[i].end - self.records[i].start
    }

    /// The bytes of record `i`, which must be below [`len`](Self::len).
    pub(super) fn bytes_of(&self, i: usize) -> &[u8] {
        &self.bytes[self.records[i].start..self.records[i].end]
    }

    /// The paths of the values of record `i`, which must be below [`len`](Self::len), with dots between keys, if it is JSON or a row of a table; else none.
    pub fn paths(&self, i: usize) -> Vec<String> {
        let raw = &self.records[i];
        let source = raw.source.map(|source| &*self.sources[source]);
        let columns = source.and_then(|source| source.columns.get());
        match (source.map(|source| source.format), columns) {
            (Some(Format::Tsv), Some(columns)) => columns.keys().map(str::to_owned).collect(),
            (None | Some(Format::Jsonl | Format::Csv | Format::Parquet), _) => {
                utf8(self.bytes_of(i)).map(names::paths_of).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// How many records the batch holds, good and bad.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no records; a batch from a reader always has some.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

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
            None => parse_json(utf8(bytes)?, config)?,
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
                        None => tsv::parse(&record)?.configured(config)?,
                    },
                    Format::Trec => trec::parse(&record)?.configured(config)?,
                    Format::Tree => tree::parse(&record)?.configured(config)?,
                    Format::Words => words::parse(&record)?.configured(config)?,
                }
            }
        };
        document.checked()
    }

    /// The source location of record `i`, which must be below [`len`](Self::len).
    pub fn location(&self, i: usize) -> Location {
        let raw = &self.records[i];
        match raw.source {
            Some(source) => self.sources[source].location(raw.line),
            None => Location::Document { number: raw.ordinal + 1 },
        }
    }
}
