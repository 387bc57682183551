//! Builds a segment in memory, from documents that come one by one.

use warpseek_text::Document;

use super::config::Progress;
use super::invert::Inverter;
use super::run::run_of;
use super::write::{Coding, write_lists};
use crate::container::SealedFile;
use crate::error::{IndexError, Result};
use crate::manifest::{Manifest, SegmentEntry, segment_file_name};
use crate::segment::Segment;
use crate::segment_writer::SegmentWriter;
use crate::store::StoreChunk;

/// Makes a segment of an index of text or vectors in memory. Its files are the same, byte for byte, as those that a build in one batch writes to disk.
pub struct SegmentBuilder {
    manifest: Manifest,
    inverter: Inverter,
    writer: SegmentWriter,
    chunk: StoreChunk,
}

impl SegmentBuilder {
    /// Starts the next segment of an index with the settings of `manifest`.
    ///
    /// # Panics
    /// If it is an index of n-grams, or one of impacts whose mean length is not known yet.
    pub fn new(manifest: &Manifest) -> Result<Self> {
        assert!(manifest.grams.is_none(), "n-grams come in batches");
        assert!(manifest.impacts.is_none_or(|impacts| impacts.documents > 0), "no mean length");
        Ok(SegmentBuilder {
            inverter: Inverter::of(manifest),
            writer: SegmentWriter::in_memory(manifest)?,
            chunk: StoreChunk::default(),
            manifest: Manifest { segments: Vec::new(), ..manifest.clone() },
        })
    }

    /// Number of documents so far.
    pub fn documents(&self) -> u32 {
        self.writer.table.lengths.len() as u32
    }

    /// Roughly the bytes of memory in use for postings.
    pub fn memory(&self) -> usize {
        self.inverter.memory()
    }

    /// Adds a document and returns its ordinal. Ids need not differ: all but the last document of an id must be deleted later.
    pub fn add(&mut self, document: &Document<'_>) -> Result<u32> {
        let ordinal = self.documents();
        let fact = self.inverter.add(ordinal, document);
        self.writer.push(&fact, document)?;
        if let Some(store) = &self.writer.store {
            let added = self.chunk.add(|out| document.write_json(out));
            added.map_err(IndexError::io(store.path()))?;
        }
        Ok(ordinal)
    }

    /// Completes the segment, whose first document has the id `base`; `None` if there are no documents.
    pub fn finish(mut self, base: u32, threads: usize) -> Result<Option<(SegmentEntry, Segment)>> {
        if self.documents() == 0 {
            return Ok(None);
        }
        if let Some(store) = &mut self.writer.store {
            store.append(&mut self.chunk)?;
        }
        let run = run_of(&mut self.inverter)?;
        let impacts = self.manifest.impacts.map(|impacts| impacts.saturation());
        let coding = Coding::Frequencies(self.manifest.codec, impacts);
        let (files, table) = (self.writer.list_files()?, &self.writer.table);
        let progress = Progress::default();
        let written = write_lists(vec![run.source()], table, coding, threads, files, &progress)?;
        let finished = self.writer.finish(written)?;
        let mut files = finished.files;
        let segment = Segment::from_files(&self.manifest, &finished.entry, base, |kind| {
            let own = files.iter_mut().find(|(other, _)| *other == kind);
            // A file that is missing is refused as one that is cut short.
            let bytes = own.map_or(Vec::new(), |(_, bytes)| std::mem::take(bytes));
            SealedFile::from_bytes(&segment_file_name(finished.entry.number, kind), kind, bytes)
        })?;
        Ok(Some((finished.entry, segment)))
    }
}
