//! Admission: the decision which documents of the input become documents of the index.

use hashbrown::HashTable;
use warpseek_core::limits::MAX_DOCS;
use warpseek_text::{Document, RawBatch, RecordError};
use xxhash_rust::xxh3::xxh3_128;

use super::config::OnError;
use crate::error::{IndexError, Result};
use crate::files::manifest::Content;

/// Maximum number of reasons for skipping that a report names.
const REASONS: usize = 10;

/// The state of the first sequencer, which admits documents and assigns their ids.
pub(super) struct Admission {
    seen: HashTable<u32>,
    hashes: Vec<u128>,
    pub(super) content: Option<Content>,
    /// Number of parts of the admitted documents, which is their number unless documents are
    /// divided.
    parts: u64,
    pub(super) quantized: bool,
    pub(super) positions: bool,
    pub(super) limit: u64,
    on_error: OnError,
    pub(super) skipped: u64,
    pub(super) reasons: Vec<String>,
}

impl Admission {
    pub(super) fn new(on_error: OnError) -> Self {
        Admission {
            seen: HashTable::new(),
            hashes: Vec::new(),
            content: None,
            parts: 0,
            quantized: false,
            positions: false,
            limit: MAX_DOCS,
            on_error,
            skipped: 0,
            reasons: Vec::new(),
        }
    }

    /// Frees the tables that only further documents would need.
    pub(super) fn forget_ids(mut self) -> Self {
        (self.seen, self.hashes) = (HashTable::new(), Vec::new());
        self
    }

    fn skip(&mut self, error: IndexError) -> Result<()> {
        if self.on_error == OnError::Stop || matches!(error, IndexError::TooManyDocuments) {
            return Err(error);
        }
        self.skipped += 1;
        if self.reasons.len() < REASONS {
            let text = match &error {
                IndexError::Record(record) => record.to_string(),
                IndexError::DuplicateId { location, id } => {
                    format!("{location}: id `{id}` was seen before")
                }
                other => other.to_string(),
            };
            self.reasons.push(text);
        }
        Ok(())
    }

    /// Admits a batch and removes all other documents from `records`. Returns the number of the
    /// first part of its first admitted document.
    pub(super) fn admit(&mut self, batch: &RawBatch, records: &mut Vec<Parsed<'_>>) -> Result<u32> {
        let first = self.parts as u32;
        let mut error = None;
        records.retain_mut(|record| {
            if error.is_some() {
                return false;
            }
            let admitted = self.admit_one(batch, record);
            admitted.unwrap_or_else(|e| {
                error = self.skip(e).err();
                false
            })
        });
        error.map_or(Ok(first), Err)
    }

    fn admit_one(&mut self, batch: &RawBatch, record: &mut Parsed<'_>) -> Result<bool> {
        let document = match &mut record.document {
            Ok(document) => document,
            Err(error) => {
                return Err(error.take().map_or(IndexError::Cancelled, IndexError::Record));
            }
        };
        let content = match (document.vector.is_some(), self.content) {
            (true, Some(Content::Grams)) => {
                let location = batch.location(record.number);
                return Err(IndexError::GramsOfVector { location, id: document.id.to_string() });
            }
            (true, _) => Content::Vector,
            (false, Some(Content::Grams)) => Content::Grams,
            (false, _) => Content::Text,
        };
        if self.quantized && content == Content::Vector {
            let location = batch.location(record.number);
            return Err(IndexError::QuantizedVector { location, id: document.id.to_string() });
        }
        if self.positions && content == Content::Vector {
            let location = batch.location(record.number);
            return Err(IndexError::PositionsOfVector { location, id: document.id.to_string() });
        }
        if *self.content.get_or_insert(content) != content {
            return Err(IndexError::MixedContent {
                location: batch.location(record.number),
                id: document.id.to_string(),
                vector: content == Content::Vector,
            });
        }
        let hashes = &self.hashes;
        if self.seen.find(record.hash as u64, |&d| hashes[d as usize] == record.hash).is_some() {
            let location = batch.location(record.number);
            return Err(IndexError::DuplicateId { location, id: document.id.to_string() });
        }
        if self.parts + u64::from(record.parts) > self.limit {
            return Err(IndexError::TooManyDocuments);
        }
        self.parts += u64::from(record.parts);
        self.hashes.push(record.hash);
        let (doc, hashes) = (self.hashes.len() as u32 - 1, &self.hashes);
        self.seen.insert_unique(record.hash as u64, doc, |&d| hashes[d as usize] as u64);
        Ok(true)
    }
}

/// A parsed record.
pub(super) struct Parsed<'a> {
    pub(super) number: usize,
    hash: u128,
    /// Maximum number of entries that the document can have in a list: 1, unless it is divided
    /// into parts.
    pub(super) parts: u32,
    pub(super) document: Result<Document<'a>, Option<RecordError>>,
}

impl<'a> Parsed<'a> {
    /// Parses a record of a batch. `parts` returns the number of parts of a document.
    pub(super) fn new(
        batch: &'a RawBatch,
        number: usize,
        parts: impl FnOnce(&Document<'_>) -> u32,
    ) -> Self {
        let document = batch.record(number).map_err(Some);
        let hash = document.as_ref().map_or(0, |d| xxh3_128(d.id.as_bytes()));
        let parts = document.as_ref().map_or(0, parts);
        Parsed { number, hash, parts, document }
    }
}
