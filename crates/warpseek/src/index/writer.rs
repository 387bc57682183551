//! A writer that collects changes in memory and commits them together.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use warpseek_index::{BuildReport, DeleteReport, Progress, Snapshot, UpdateReport};
use warpseek_text::{OwnedDocument, Reader};

use crate::error::Result;
use crate::options::IndexOptions;

/// A writer collects changes to an index and commits them atomically.
///
/// Changes wait in memory until [`IndexWriter::commit`]. If the writer is dropped before that,
/// they are lost, and the index does not change. The index is locked against other writers only
/// during a commit.
///
/// ```
/// use warpseek::{Document, Index, Request};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let index = Index::create(folder.path().join("index"))?;
/// let mut writer = index.writer()?;
/// writer.add(Document::new("1", "", "an apple"))?;
/// writer.add(Document::new("2", "", "a pear"))?;
/// assert_eq!(writer.commit()?.added.documents, 2);
///
/// writer.delete("1");
/// writer.add(Document::new("2", "", "two pears"))?; // Replaces the other one.
/// let commit = writer.commit()?;
/// assert_eq!((commit.deleted.deleted, commit.added.replaced), (1, 1));
/// assert!(index.searcher()?.search(&Request::new("apple"))?.hits().is_empty());
/// # Ok::<(), warpseek::Error>(())
/// ```
#[derive(Debug)]
pub struct IndexWriter {
    dir: PathBuf,
    options: IndexOptions,
    /// Documents to add; `None` where a later change removed one.
    documents: Arc<Vec<Option<OwnedDocument>>>,
    /// Positions in `documents`, by id.
    by_id: HashMap<String, usize>,
    deletes: Vec<String>,
}

/// The result of a commit.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let index = warpseek::Index::create(folder.path().join("index"))?;
/// let commit = index.writer()?.commit()?;
/// assert!(commit.added.documents == 0 && commit.deleted.missing.is_empty());
/// assert_eq!(commit.generation, 1); // Nothing changed, so nothing was written.
/// # Ok::<(), warpseek::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// The documents that were added. `replaced` counts documents of the index with the same ids.
    pub added: BuildReport,
    /// The deletions by id.
    pub deleted: DeleteReport,
    /// The generation of the index after the commit.
    pub generation: u64,
}

impl IndexWriter {
    pub(crate) fn new(dir: PathBuf, options: IndexOptions) -> Result<Self> {
        // Report a missing or damaged index now rather than at the first commit.
        Snapshot::open(&dir)?;
        let (documents, by_id, deletes) = Default::default();
        Ok(IndexWriter { dir, options, documents, by_id, deletes })
    }

    /// Adds a document with the next commit. It replaces the document with the same id, whether
    /// that is in the index or was added before.
    pub fn add(&mut self, document: OwnedDocument) -> Result<()> {
        let documents = Arc::make_mut(&mut self.documents);
        match self.by_id.get(&document.id) {
            Some(&at) => documents[at] = Some(document),
            None => {
                self.by_id.insert(document.id.clone(), documents.len());
                documents.push(Some(document));
            }
        }
        Ok(())
    }

    /// Deletes the document with this id with the next commit, if the index has it by then. A
    /// document added since the last commit is discarded.
    pub fn delete(&mut self, id: impl Into<String>) {
        let id = id.into();
        if let Some(at) = self.by_id.remove(&id) {
            Arc::make_mut(&mut self.documents)[at] = None;
        }
        self.deletes.push(id);
    }

    /// Returns the number of documents and the number of deletions that wait for the next commit.
    pub fn pending(&self) -> (usize, usize) {
        (self.by_id.len(), self.deletes.len())
    }

    /// Discards all changes since the last commit.
    pub fn rollback(&mut self) {
        self.documents = Arc::default();
        self.by_id.clear();
        self.deletes.clear();
    }

    /// Writes all changes. If this fails, the index does not change, and the changes still wait.
    pub fn commit(&mut self) -> Result<Commit> {
        self.commit_with(&Progress::default())
    }

    /// Writes all changes, with progress that can be watched and cancelled.
    pub fn commit_with(&mut self, progress: &Progress) -> Result<Commit> {
        let config = self.options.config();
        // Documents are cloned when they are read, so that they are still available after a
        // failure.
        let documents = self.documents.clone();
        let all = (0..documents.len()).filter_map(move |i| documents[i].clone());
        let reader = match self.by_id.is_empty() {
            true => None,
            false => Some(Reader::of_documents(all, config.reader.clone())?),
        };
        let report = warpseek_index::update(&self.dir, reader, &self.deletes, config, progress)?;
        self.rollback();
        let UpdateReport { added, deleted, generation } = report;
        Ok(Commit { added, deleted, generation })
    }
}
