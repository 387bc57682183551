//! Batches of records that have been cut from the stream but not parsed.

use std::sync::Arc;

use super::config::ReaderConfig;
use super::format::Format;
use super::input::Input;
use super::pairs::paths_of;
use super::source::Source;
use crate::{Location, RecordErrorKind};

/// A sequence of unparsed records that owns its bytes, so that another thread can parse it. A
/// batch may span several files.
#[derive(Debug)]
pub struct RawBatch {
    pub(super) bytes: Vec<u8>,
    pub(super) records: Vec<RawRecord>,
    pub(super) sources: Vec<Arc<Source>>,
    pub(super) config: Arc<ReaderConfig>,
    /// True if the next lines did not fit.
    closed: bool,
}

/// The place of an unparsed record.
#[derive(Debug)]
pub(super) struct RawRecord {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Index into the batch's sources; `None` for a document from memory.
    pub(super) source: Option<usize>,
    /// Line number, counted from 1; `None` if the record is the whole file.
    pub(super) line: Option<u64>,
    /// Number of records before this one in its file, or in memory.
    pub(super) ordinal: u64,
    /// Error that cutting itself found in the record.
    pub(super) fault: Option<RecordErrorKind>,
}

/// The input of a format's parser.
pub(super) struct Record<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) source: &'a Source,
    pub(super) ordinal: u64,
}

impl<'a> Record<'a> {
    /// Returns the record as text.
    pub(super) fn utf8(&self) -> Result<&'a str, RecordErrorKind> {
        utf8(self.bytes)
    }
}

/// Returns the bytes of a record as text.
pub(super) fn utf8(bytes: &[u8]) -> Result<&str, RecordErrorKind> {
    std::str::from_utf8(bytes)
        .map_err(|error| RecordErrorKind::InvalidUtf8 { offset: error.valid_up_to() })
}

impl RawBatch {
    pub(super) fn new(config: Arc<ReaderConfig>) -> Self {
        let (bytes, records, sources) = (Vec::new(), Vec::new(), Vec::new());
        Self { bytes, records, sources, config, closed: false }
    }

    /// Reserves memory for a full batch and its last record, so that the only thread that cuts
    /// records does not have to move them as the batch grows.
    pub(super) fn reserve(&mut self) {
        self.bytes.reserve(self.config.batch_bytes / 8 * 9);
    }

    /// Returns true if the batch is full. A batch without records never is, since it would end
    /// the read.
    pub(super) fn is_full(&self) -> bool {
        !self.is_empty()
            && (self.closed
                || self.bytes.len() >= self.config.batch_bytes
                || self.records.len() >= self.config.batch_records)
    }

    /// Returns true if this many records and bytes fit into the batch. They always fit into a
    /// batch without records.
    pub(super) fn fits(&self, records: usize, bytes: usize) -> bool {
        self.is_empty()
            || self.records.len() + records <= self.config.batch_records
                && self.bytes.len() + bytes <= self.config.batch_bytes
    }

    /// Marks the batch as full.
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

    /// Adds the bytes from `start` on as the JSON of a document from memory that has `ordinal`
    /// documents before it.
    pub(super) fn push_document(
        &mut self,
        start: usize,
        ordinal: u64,
        fault: Option<RecordErrorKind>,
    ) {
        let (end, source, line) = (self.bytes.len(), None, None);
        self.records.push(RawRecord { start, end, source, line, ordinal, fault });
    }

    /// Removes the first `n` records with their bytes.
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

    /// Removes the records from `first` on for which `keep` returns false. `keep` gets record
    /// numbers relative to `first`. The bytes remain until no record is left.
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

    /// Returns the number of bytes of record `i`, which must be below [`len`](Self::len).
    pub fn record_bytes(&self, i: usize) -> usize {
        self.records[i].end - self.records[i].start
    }

    /// Returns the bytes of record `i`, which must be below [`len`](Self::len).
    pub(super) fn bytes_of(&self, i: usize) -> &[u8] {
        &self.bytes[self.records[i].start..self.records[i].end]
    }

    /// Returns the paths of the values of record `i`, with dots between keys, if it is JSON or a
    /// row of a table; otherwise none. `i` must be below [`len`](Self::len).
    pub fn paths(&self, i: usize) -> Vec<String> {
        let raw = &self.records[i];
        let source = raw.source.map(|source| &*self.sources[source]);
        let columns = source.and_then(|source| source.columns.get());
        match (source.map(|source| source.format), columns) {
            (Some(Format::Tsv), Some(columns)) => columns.keys().map(str::to_owned).collect(),
            (None | Some(Format::Jsonl | Format::Csv | Format::Parquet), _) => {
                utf8(self.bytes_of(i)).map(paths_of).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the number of records, good and bad ones.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns true if the batch has no records. A batch from a reader always has some.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the location of record `i`, which must be below [`len`](Self::len).
    pub fn location(&self, i: usize) -> Location {
        let raw = &self.records[i];
        match raw.source {
            Some(source) => self.sources[source].location(raw.line),
            None => Location::Document { number: raw.ordinal + 1 },
        }
    }
}
