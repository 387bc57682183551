//! The files of a segment that is being written, by a build or by a merge.

use std::path::{Path, PathBuf};

use crate::build::Written;
use crate::container::{Kind, SealedWriter};
use crate::documents::DocumentTable;
use crate::error::Result;
use crate::ids::IdsWriter;
use crate::manifest::{Manifest, SegmentEntry, StoreMode, seal_text, segment_file_name};
use crate::store::StoreWriter;

/// What is appended in document order, and where the rest goes.
pub(crate) struct SegmentWriter {
    dir: PathBuf,
    number: u64,
    pub(crate) table: DocumentTable,
    pub(crate) ids: IdsWriter,
    pub(crate) store: Option<StoreWriter>,
}

impl SegmentWriter {
    /// Starts the manifest's next segment.
    pub(crate) fn create(dir: &Path, manifest: &Manifest) -> Result<Self> {
        let number = manifest.next_segment;
        let store = (manifest.store == StoreMode::All).then(|| create(dir, number, Kind::Store));
        Ok(SegmentWriter {
            dir: dir.to_owned(),
            number,
            table: DocumentTable::default(),
            ids: IdsWriter::new(create(dir, number, Kind::Ids)?),
            store: store.transpose()?.map(StoreWriter::new),
        })
    }

    /// The files of dictionary and lists.
    pub(crate) fn list_files(&self) -> Result<(SealedWriter, SealedWriter)> {
        let create = |kind| create(&self.dir, self.number, kind);
        Ok((create(Kind::Dict)?, create(Kind::Post)?))
    }

    /// Completes all files after the lists have been written.
    pub(crate) fn finish(self, lists: &Written) -> Result<SegmentEntry> {
        let docs = create(&self.dir, self.number, Kind::Docs)?;
        let mut seals = vec![
            (Kind::Dict, lists.dictionary_seal),
            (Kind::Post, lists.postings_seal),
            (Kind::Docs, self.table.write(docs)?),
            (Kind::Ids, self.ids.finish()?),
        ];
        if let Some(store) = self.store {
            seals.push((Kind::Store, store.finish()?));
        }
        Ok(SegmentEntry {
            number: self.number,
            documents: self.table.lengths.len() as u64,
            tokens: self.table.tokens(),
            postings: lists.postings,
            terms: lists.terms,
            files: seals.into_iter().map(|(k, s)| (k.name().to_owned(), seal_text(s))).collect(),
            deletes: None,
        })
    }
}

fn create(dir: &Path, number: u64, kind: Kind) -> Result<SealedWriter> {
    SealedWriter::create(&dir.join(segment_file_name(number, kind)), kind)
}
