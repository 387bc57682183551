//! The files of a segment that is being written, by a build or by a merge.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::build::Written;
use crate::container::{Kind, Sealed, SealedWriter};
use crate::documents::DocumentTable;
use crate::error::Result;
use crate::ids::IdsWriter;
use crate::manifest::{Manifest, SegmentEntry, StoreMode, seal_text, segment_file_name};
use crate::store::StoreWriter;
use crate::throttle::Throttle;

/// What is appended in document order, and where the rest goes.
pub(crate) struct SegmentWriter {
    target: Target,
    number: u64,
    pub(crate) table: DocumentTable,
    pub(crate) ids: IdsWriter,
    pub(crate) store: Option<StoreWriter>,
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
                Ok(SealedWriter::create(&dir.join(name), kind)?.throttled(throttle.clone()))
            }
            Target::Memory => SealedWriter::in_memory(&name, kind),
        }
    }
}

/// A segment that was written.
pub(crate) struct FinishedSegment {
    pub(crate) entry: SegmentEntry,
    /// Its files, if it was written to memory.
    pub(crate) files: Vec<(Kind, Vec<u8>)>,
}

impl SegmentWriter {
    /// Starts the manifest's next segment.
    pub(crate) fn create(dir: &Path, manifest: &Manifest) -> Result<Self> {
        Self::throttled(dir, manifest, None)
    }

    /// The same, but written no faster than this.
    pub(crate) fn throttled(
        dir: &Path,
        manifest: &Manifest,
        throttle: Option<Arc<Throttle>>,
    ) -> Result<Self> {
        Self::new(Target::Dir(dir.to_owned(), throttle), manifest)
    }

    /// Starts the manifest's next segment in memory. Its bytes are those that it would have on disk.
    pub(crate) fn in_memory(manifest: &Manifest) -> Result<Self> {
        Self::new(Target::Memory, manifest)
    }

    fn new(target: Target, manifest: &Manifest) -> Result<Self> {
        let number = manifest.next_segment;
        let keeps_all = manifest.store == StoreMode::All;
        let store = keeps_all.then(|| target.create(number, Kind::Store)).transpose()?;
        Ok(SegmentWriter {
            number,
            table: DocumentTable::default(),
            ids: IdsWriter::new(target.create(number, Kind::Ids)?),
            store: store.map(StoreWriter::new),
            target,
        })
    }

    /// The files of dictionary and lists.
    pub(crate) fn list_files(&self) -> Result<(SealedWriter, SealedWriter)> {
        let create = |kind| self.target.create(self.number, kind);
        Ok((create(Kind::Dict)?, create(Kind::Post)?))
    }

    /// Completes all files after the lists have been written.
    pub(crate) fn finish(self, lists: Written) -> Result<FinishedSegment> {
        let docs = self.target.create(self.number, Kind::Docs)?;
        let mut sealed = vec![
            (Kind::Dict, lists.dictionary),
            (Kind::Post, lists.lists),
            (Kind::Docs, self.table.write(docs)?),
            (Kind::Ids, self.ids.finish()?),
        ];
        if let Some(store) = self.store {
            sealed.push((Kind::Store, store.finish()?));
        }
        let seal = |(kind, file): &(Kind, Sealed)| (kind.name().to_owned(), seal_text(file.seal));
        let entry = SegmentEntry {
            number: self.number,
            documents: self.table.lengths.len() as u64,
            tokens: self.table.tokens(),
            postings: lists.postings,
            terms: lists.terms,
            files: sealed.iter().map(seal).collect(),
            deletes: None,
        };
        let in_memory = |(kind, file): (Kind, Sealed)| file.bytes.map(|bytes| (kind, bytes));
        Ok(FinishedSegment { entry, files: sealed.into_iter().filter_map(in_memory).collect() })
    }
}
