//! A writer of the files of a segment, used by builds and merges.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use warpseek_text::Document;

use crate::build::{DocumentFact, ListFiles, Written};
use crate::error::Result;
use crate::files::attributes::{AttributesSource, AttributesWriter, merge_attributes};
use crate::files::container::{Kind, Sealed, SealedWriter};
use crate::files::documents::DocumentTable;
use crate::files::ids::IdsWriter;
use crate::files::lengths::write_lengths;
use crate::files::manifest::{
    FieldCounts, Manifest, SegmentEntry, StoreMode, seal_text, segment_file_name,
};
use crate::files::store::StoreWriter;
use crate::files::throttle::Throttle;

/// The files and tables that are appended in document order, and the destination of the others.
pub(crate) struct SegmentWriter {
    target: Target,
    number: u64,
    has_schema: bool,
    /// True if the norms of documents are kept.
    has_norms: bool,
    /// A flag for each text field: true if it has positions. Empty if none has.
    positioned: Vec<bool>,
    columns: Columns,
    pub(crate) table: DocumentTable,
    pub(crate) ids: IdsWriter,
    pub(crate) store: Option<StoreWriter>,
}

/// The attributes of the segment's documents.
enum Columns {
    /// The schema has no attributes.
    None,
    New(AttributesWriter),
    Written(Sealed),
}

enum Target {
    Dir(PathBuf, Option<Arc<Throttle>>),
    Memory,
}

impl Target {
    fn create(&self, number: u64, kind: Kind) -> Result<SealedWriter> {
        let name = segment_file_name(number, kind);
        match self {
            Target::Dir(dir, throttle) => {
                let file = SealedWriter::create(&dir.join(name), kind);
                file.map(|file| file.throttled(throttle.clone()))
            }
            Target::Memory => SealedWriter::in_memory(&name, kind),
        }
    }
}

/// A completed segment.
pub(crate) struct FinishedSegment {
    pub(crate) entry: SegmentEntry,
    /// The files of the segment, if it was written to memory.
    pub(crate) files: Vec<(Kind, Vec<u8>)>,
}

impl SegmentWriter {
    /// Starts the manifest's next segment.
    pub(crate) fn create(dir: &Path, manifest: &Manifest) -> Result<Self> {
        Self::throttled(dir, manifest, None)
    }

    /// Starts the manifest's next segment, with a limit on the speed of writing.
    pub(crate) fn throttled(
        dir: &Path,
        manifest: &Manifest,
        throttle: Option<Arc<Throttle>>,
    ) -> Result<Self> {
        Self::new(Target::Dir(dir.to_owned(), throttle), manifest)
    }

    /// Starts the manifest's next segment in memory. Its bytes equal those that it would have on
    /// disk.
    pub(crate) fn in_memory(manifest: &Manifest) -> Result<Self> {
        Self::new(Target::Memory, manifest)
    }

    fn new(target: Target, manifest: &Manifest) -> Result<Self> {
        let number = manifest.next_segment;
        let keeps_all = manifest.store == StoreMode::All;
        let store = keeps_all.then(|| target.create(number, Kind::Store)).transpose()?;
        let schema = manifest.schema.as_ref();
        let further = schema.map_or(0, |schema| schema.text().len() - 1);
        Ok(SegmentWriter {
            number,
            has_schema: schema.is_some(),
            has_norms: manifest.keeps_norms(),
            positioned: if manifest.has_positions() { manifest.positioned() } else { Vec::new() },
            columns: match schema {
                Some(schema) if !schema.attributes().is_empty() => Columns::New(Default::default()),
                _ => Columns::None,
            },
            table: DocumentTable::with_more(further),
            ids: IdsWriter::new(target.create(number, Kind::Ids)?),
            store: store.map(StoreWriter::new),
            target,
        })
    }

    /// Adds the next document to everything except the store.
    pub(crate) fn push(&mut self, fact: &DocumentFact, document: &Document<'_>) -> Result<()> {
        let table = &mut self.table;
        table.lengths.push(fact.length);
        for (lengths, &length) in table.more.iter_mut().zip(&fact.more) {
            lengths.push(length);
        }
        table.norms.extend(fact.norm.filter(|_| self.has_norms));
        self.push_in_order(document)
    }

    /// Adds the static score, the id and the attributes of the next document, which are known
    /// before it is inverted.
    pub(crate) fn push_in_order(&mut self, document: &Document<'_>) -> Result<()> {
        if let Columns::New(columns) = &mut self.columns {
            columns.push(&document.attributes)?;
        }
        self.table.statics.push(document.static_score.unwrap_or(0.0));
        self.ids.add(&document.id)
    }

    /// Returns true if the norms of documents are kept.
    pub(crate) fn has_norms(&self) -> bool {
        self.has_norms
    }

    /// Returns the bytes of memory taken by attributes and by lengths in further fields.
    pub(crate) fn field_memory(&self) -> usize {
        let columns = match &self.columns {
            Columns::New(columns) => columns.memory(),
            _ => 0,
        };
        columns + self.table.more.len() * self.table.lengths.len() * size_of::<u32>()
    }

    /// Writes the merged attributes of segments, once the order of the documents is known.
    pub(crate) fn merge_attributes(&mut self, sources: &[AttributesSource<'_>]) -> Result<()> {
        if let Columns::New(_) = self.columns {
            let file = self.create_file(Kind::Attributes)?;
            let merged = merge_attributes(sources, self.table.positions(), file)?;
            self.columns = Columns::Written(merged);
        }
        Ok(())
    }

    fn create_file(&self, kind: Kind) -> Result<SealedWriter> {
        self.target.create(self.number, kind)
    }

    /// Creates the files of dictionary, lists and positions.
    pub(crate) fn list_files(&self) -> Result<ListFiles> {
        let positions = (!self.positioned.is_empty()).then(|| self.create_file(Kind::Positions));
        Ok(ListFiles {
            dictionary: self.create_file(Kind::Dict)?,
            postings: self.create_file(Kind::Post)?,
            positions: positions.transpose()?,
            positioned: self.positioned.clone(),
        })
    }

    /// Completes all files after the lists have been written.
    pub(crate) fn finish(self, lists: Written) -> Result<FinishedSegment> {
        let docs = self.create_file(Kind::Docs)?;
        let lengths = match self.table.more.is_empty() {
            true => None,
            false => Some(write_lengths(&self.table.more, self.create_file(Kind::Lengths)?)?),
        };
        let columns = match self.columns {
            Columns::None => None,
            Columns::New(columns) => {
                let file = self.target.create(self.number, Kind::Attributes)?;
                Some(columns.write(self.table.positions(), file)?)
            }
            Columns::Written(file) => Some(file),
        };
        let fields = self.table.fields().filter(|_| self.has_schema).map(|lengths| {
            let mut counts = FieldCounts::default();
            lengths.iter().for_each(|&length| counts.add(length));
            counts
        });
        let fields = fields.collect();
        let mut sealed = vec![
            (Kind::Dict, lists.dictionary),
            (Kind::Post, lists.lists),
            (Kind::Docs, self.table.write(docs)?),
            (Kind::Ids, self.ids.finish()?),
        ];
        if let Some(store) = self.store {
            sealed.push((Kind::Store, store.finish()?));
        }
        sealed.extend(lengths.map(|file| (Kind::Lengths, file)));
        sealed.extend(columns.map(|file| (Kind::Attributes, file)));
        sealed.extend(lists.positions.map(|file| (Kind::Positions, file)));
        let seal = |(kind, file): &(Kind, Sealed)| (kind.name().to_owned(), seal_text(file.seal));
        let entry = SegmentEntry {
            number: self.number,
            documents: self.table.lengths.len() as u64,
            tokens: self.table.tokens(),
            fields,
            postings: lists.postings,
            terms: lists.terms,
            files: sealed.iter().map(seal).collect(),
            deletes: None,
        };
        let in_memory = |(kind, file): (Kind, Sealed)| file.bytes.map(|bytes| (kind, bytes));
        Ok(FinishedSegment { entry, files: sealed.into_iter().filter_map(in_memory).collect() })
    }
}
