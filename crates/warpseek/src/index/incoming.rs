//! A survey of documents that are to be added to a collection that consists of several indexes.

use std::collections::HashSet;
use std::path::PathBuf;

use warpseek_core::limits::MAX_DOCS;
use warpseek_index::{Content, IndexError, Manifest, OnError, Progress, static_field_for};
use warpseek_text::{RawBatch, Reader, Selection};
use xxhash_rust::xxh3::xxh3_128;

use super::Index;
use crate::error::Result;

/// Maximum number of reasons for skipped records that are reported.
const REASONS: usize = 10;

/// The records of some inputs, as seen by [`Index::survey_added`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Incoming {
    /// Number of records that become documents.
    pub documents: u64,
    /// Number of records that are skipped.
    pub skipped: u64,
    /// The reasons for the first skipped records.
    pub reasons: Vec<String>,
    /// Size of the inputs in their form on disk, in bytes; `None` if one of them is a pipe.
    pub input_bytes: Option<u64>,
    /// The number of records in each file.
    files: Vec<u64>,
}

impl Incoming {
    /// Selects these records of the inputs. Their numbers must be in ascending order.
    pub fn part(&self, records: &[u64]) -> Selection {
        let (start, end) = match records {
            [first, .., last] => (*first, last + 1),
            [only] => (*only, only + 1),
            [] => (0, 0),
        };
        let mut wanted = records.iter().copied().peekable();
        let except = (start..end).filter(|record| wanted.next_if_eq(record).is_none());
        Selection { records: start..end, except: except.collect(), files: self.files.clone() }
    }
}

/// The decision which records become documents. It must equal the decision of `warpseek_index`
/// when documents are added to an index.
struct Admitting {
    content: Content,
    positions: bool,
    room: u64,
    on_error: OnError,
    seen: HashSet<u128>,
    incoming: Incoming,
}

impl Admitting {
    fn new(manifest: &Manifest, before: u64, on_error: OnError) -> Self {
        Admitting {
            content: manifest.content,
            positions: manifest.positions,
            room: MAX_DOCS.saturating_sub(before),
            on_error,
            seen: HashSet::new(),
            incoming: Incoming::default(),
        }
    }

    /// Returns the id of a record that becomes a document, or `None` if the record is skipped.
    fn admit(&mut self, batch: &RawBatch, number: usize) -> Result<Option<String>, IndexError> {
        let error = match self.check(batch, number) {
            Ok(id) => return Ok(Some(id)),
            Err(error) => error,
        };
        if self.on_error == OnError::Stop || matches!(error, IndexError::TooManyDocuments) {
            return Err(error);
        }
        self.incoming.skipped += 1;
        if self.incoming.reasons.len() < REASONS {
            self.incoming.reasons.push(match error {
                IndexError::Record(record) => record.to_string(),
                IndexError::DuplicateId { location, id } => {
                    format!("{location}: id `{id}` was seen before")
                }
                other => other.to_string(),
            });
        }
        Ok(None)
    }

    fn check(&mut self, batch: &RawBatch, number: usize) -> Result<String, IndexError> {
        let document = batch.record(number)?;
        let (id, location) = (document.id.to_string(), || batch.location(number));
        let vector = document.vector.is_some();
        if vector && self.positions {
            return Err(IndexError::PositionsOfVector { location: location(), id });
        }
        if vector != (self.content == Content::Vector) {
            return Err(IndexError::MixedContent { location: location(), id, vector });
        }
        if !self.seen.insert(xxh3_128(id.as_bytes())) {
            return Err(IndexError::DuplicateId { location: location(), id });
        }
        if self.incoming.documents == self.room {
            return Err(IndexError::TooManyDocuments);
        }
        self.incoming.documents += 1;
        Ok(id)
    }
}

impl Index {
    /// Reads documents that are to be added to a collection of which this index is a part,
    /// without adding them. `before` is the number of documents in the collection, including
    /// deleted ones.
    ///
    /// An input that [`Index::add_files`] would refuse, if the collection were a single index, is
    /// an error. Records that it would skip are skipped: malformed records, repeated ids, vectors
    /// among text. `take` receives the number and the id of each record that becomes a document,
    /// in the order of the inputs. [`Incoming::part`] and [`Index::add_part`] then add each
    /// record to the part where it belongs.
    ///
    /// ```
    /// use warpseek::{Index, IndexOptions, Progress};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (dir, file) = (folder.path().join("index"), folder.path().join("docs.tsv"));
    /// std::fs::write(&file, "1\tapple\n2\tpear\n3\tplum\n").unwrap();
    /// let (inputs, progress) = ([file], Progress::default());
    /// let (index, _) = Index::build(&dir, &inputs, &IndexOptions::new(), &progress)?;
    /// let mut odd = Vec::new();
    /// let incoming = index.survey_added(&inputs, 3, &progress, |record, id| {
    ///     if id != "2" {
    ///         odd.push(record);
    ///     }
    ///     Ok(())
    /// })?;
    /// let report = index.add_part(&inputs, incoming.part(&odd), &progress)?;
    /// assert_eq!((incoming.documents, report.documents, report.replaced), (3, 2, 2));
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn survey_added(
        &self,
        inputs: &[PathBuf],
        before: u64,
        progress: &Progress,
        mut take: impl FnMut(u64, &str) -> Result<()>,
    ) -> Result<Incoming> {
        let (manifest, config) = (self.manifest()?, self.options().config());
        let reader = Reader::open(inputs, config.reader.clone()).map_err(IndexError::from)?;
        let mut reader =
            reader.with_vector_scale(manifest.vector_scale).map_err(IndexError::from)?;
        let static_field = static_field_for(&*self.snapshot()?, reader.named_static_field())?;
        if let Some(field) = static_field {
            reader = reader.with_static_field(field).map_err(IndexError::from)?;
        }
        if let Some(schema) = &manifest.schema {
            reader = reader.with_schema(schema.clone()).map_err(IndexError::from)?;
        }
        let mut admitting = Admitting::new(&manifest, before, config.on_error);
        admitting.incoming.input_bytes = reader.progress().bytes_total;
        let mut record = 0;
        while let Some(batch) = reader.next_batch().map_err(IndexError::from)? {
            progress.check()?;
            for number in 0..batch.len() {
                if let Some(id) = admitting.admit(&batch, number)? {
                    take(record, &id)?;
                }
                record += 1;
            }
            let read = reader.progress();
            progress.set_bytes(read.bytes_read, read.bytes_total);
        }
        let mut incoming = admitting.incoming;
        incoming.files = reader.file_records().to_vec();
        Ok(incoming)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_records_that_were_asked_for() {
        let incoming = Incoming { files: vec![4, 6], ..Incoming::default() };
        let part = incoming.part(&[2, 3, 6, 9]);
        assert_eq!((part.records, part.except), (2..10, vec![4, 5, 7, 8]));
        assert_eq!(part.files, [4, 6]);
        assert_eq!(incoming.part(&[5]).records, 5..6);
        assert!(incoming.part(&[]).records.is_empty());
    }
}
