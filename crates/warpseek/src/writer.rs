use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use warpseek_index::{BuildReport, DeleteReport, Progress, Snapshot, UpdateReport};
use warpseek_text::{OwnedDocument, Reader};

use crate::error::Result;
use crate::options::IndexOptions;

/// Collects changes to an index and commits them, all or none.
///
/// Changes wait in memory until [`IndexWriter::commit`]; dropped before that, they are gone and the index is as it was. Only during a commit is the index locked against other writers.
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
/// writer.add(Document::new("2", "", "two pears"))?; // in place of the other
/// let commit = writer.commit()?;
/// assert_eq!((commit.deleted.deleted, commit.added.replaced), (1, 1));
/// assert!(index.searcher()?.search(&Request::new("apple"))?.hits().is_empty());
/// # Ok::<(), warpseek::Error>(())
/// ```
#[derive(Debug)]
pub struct IndexWriter {
    dir: PathBuf,
    options: IndexOptions,
    /// Those to be added; none where a later change took one back.
    documents: Arc<Vec<Option<OwnedDocument>>>,
    /// Where they are, by id.
    by_id: HashMap<String, usize>,
    deletes: Vec<String>,
}

/// What a commit did.
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
    /// What was added; its `replaced` are documents of the index that had the same ids.
    pub added: BuildReport,
    /// What was deleted by id.
    pub deleted: DeleteReport,
    /// The generation of the index after it.
    pub generation: u64,
}

impl IndexWriter {
    pub(crate) fn new(dir: PathBuf, options: IndexOptions) -> Result<Self> {
        // What is no index is better known now than at the first commit.
        Snapshot::open(&dir)?;
        let (documents, by_id, deletes) = Default::default();
        Ok(IndexWriter { dir, options, documents, by_id, deletes })
    }

    /// Adds a document, with the next commit. It replaces the document with the same id, be it in the index or added before.
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

    /// Deletes the document with this id, with the next commit, if the index has it then. One that was added since the last commit is not added.
    pub fn delete(&mut self, id: impl Into<String>) {
        let id = id.into();
        if let Some(at) = self.by_id.remove(&id) {
            Arc::make_mut(&mut self.documents)[at] = None;
        }
        self.deletes.push(id);
    }

    /// How many documents and deletions wait.
    pub fn pending(&self) -> (usize, usize) {
        (self.by_id.len(), self.deletes.len())
    }

    /// Forgets all changes since the last commit.
    pub fn rollback(&mut self) {
        self.documents = Arc::default();
        self.by_id.clear();
        self.deletes.clear();
    }

    /// Writes all changes. If it fails, the index is as it was, and the changes still wait.
    pub fn commit(&mut self) -> Result<Commit> {
        self.commit_with(&Progress::default())
    }

    /// The same, with progress to watch or to cancel.
    pub fn commit_with(&mut self, progress: &Progress) -> Result<Commit> {
        let config = self.options.config();
        // They are cloned one by one as they are read, so that they are still there after a failure.
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
