use std::path::{Path, PathBuf};
use std::sync::Arc;

use warpseek_exec::{Ranking, ShapeClass, shape};
use warpseek_index::{
    BuildReport, DeleteReport, Inspection, Lists, ListsConfig, Manifest, MergeConfig, MergeReport,
    OpenOptions, Progress, Snapshot, Survey, Verification,
};
use warpseek_text::{OwnedDocument, Reader, Schema, Selection};

use crate::build_device::input_bytes;
use crate::error::Result;
use crate::live::{LiveIndex, LiveOptions};
use crate::ngram::{NgramOptions, NgramSearcher};
use crate::options::{IndexOptions, SearcherOptions};
use crate::searcher::Searcher;
use crate::writer::IndexWriter;

/// An index: a directory on disk.
///
/// Every change is a commit that is atomic and durable: whatever happens, the directory holds the index before it or after it.
///
/// ```
/// use warpseek::{Index, IndexOptions, Analyzer, Progress};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let (dir, file) = (folder.path().join("index"), folder.path().join("docs.jsonl"));
/// std::fs::write(&file, "{\"id\": \"1\", \"text\": \"an apple\"}\n").unwrap();
/// let options = IndexOptions::new().analyzer(Analyzer::English);
/// let (index, report) = Index::build(&dir, &[file], &options, &Progress::default())?;
/// assert_eq!(report.documents, 1);
/// assert_eq!(Index::open(&dir)?.snapshot()?.statistics().documents, 1);
/// assert!(index.verify(&Progress::default())?.problems.is_empty());
/// # Ok::<(), warpseek::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Index {
    dir: PathBuf,
    options: IndexOptions,
}

impl Index {
    /// Makes an empty index in a directory that is empty or not there, with the default options.
    pub fn create(dir: impl AsRef<Path>) -> Result<Self> {
        Self::create_with(dir, IndexOptions::default())
    }

    /// The same with options.
    pub fn create_with(dir: impl AsRef<Path>, options: IndexOptions) -> Result<Self> {
        let none: [OwnedDocument; 0] = [];
        let config = options.config();
        let reader = Reader::of_documents(none, config.reader.clone())?;
        let dir = dir.as_ref();
        let (overwrite, progress) = (options.overwrites(), Progress::default());
        warpseek_index::create_from_reader(dir, reader, config, overwrite, &progress)?;
        Ok(Index { dir: dir.to_owned(), options })
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Makes an index of files and directories, `-` being standard input.
    pub fn build(
        dir: impl AsRef<Path>,
        inputs: &[PathBuf],
        options: &IndexOptions,
        progress: &Progress,
    ) -> Result<(Self, BuildReport)> {
        let dir = dir.as_ref();
        let overwrite = options.overwrites();
        let (config, notice) = options.prepared(input_bytes(inputs), options.not_on_gpu(None))?;
        let mut report = warpseek_index::create(dir, inputs, &config, overwrite, progress)?;
        report.notices.splice(0..0, notice);
        Ok((Index { dir: dir.to_owned(), options: options.clone() }, report))
    }

    /// Looks at all documents of files and directories without making an index, so that they can be cut into parts with [`Survey::cut`] and made indexes one by one with
    /// [`Index::build_part`], elsewhere too. What would stop one index of all is an error here already, such as an id that two parts would have.
    ///
    /// ```
    /// use warpseek::{Index, IndexOptions, Progress};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (dir, file) = (folder.path().join("second"), folder.path().join("docs.tsv"));
    /// std::fs::write(&file, "1\tapple\n2\tpear\n3\tplum\n4\tfig\n").unwrap();
    /// let (inputs, options, progress) = ([file], IndexOptions::new(), Progress::default());
    /// let survey = Index::survey(&inputs, &options, &progress)?;
    /// let parts = survey.cut(2).unwrap();
    /// let (part, documents) = parts[1].clone();
    /// let (_, report) = Index::build_part(&dir, &inputs, part, &options, &progress)?;
    /// assert_eq!((report.documents, documents), (2, 2));
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn survey(
        inputs: &[PathBuf],
        options: &IndexOptions,
        progress: &Progress,
    ) -> Result<Survey> {
        Ok(warpseek_index::survey(inputs, options.config(), progress)?)
    }

    /// The bytes of files and directories as [`Index::build`] would read them; `None` if one of them is standard input or a pipe.
    pub fn input_bytes(inputs: &[PathBuf], options: &IndexOptions) -> Result<Option<u64>> {
        let reader = Reader::open(inputs, options.config().reader.clone())?;
        Ok(reader.progress().bytes_total)
    }

    /// Makes an index of a part of the documents of files and directories, as [`Index::build`] does of all.
    pub fn build_part(
        dir: impl AsRef<Path>,
        inputs: &[PathBuf],
        part: Selection,
        options: &IndexOptions,
        progress: &Progress,
    ) -> Result<(Self, BuildReport)> {
        let dir = dir.as_ref();
        let overwrite = options.overwrites();
        let (config, notice) = options.prepared(input_bytes(inputs), options.not_on_gpu(None))?;
        let mut report =
            warpseek_index::create_part(dir, inputs, part, &config, overwrite, progress)?;
        report.notices.splice(0..0, notice);
        Ok((Index { dir: dir.to_owned(), options: options.clone() }, report))
    }

    /// Makes an index of documents that the program makes while it is built; so they need not all be in memory.
    pub fn build_from_documents<I>(
        dir: impl AsRef<Path>,
        documents: I,
        options: &IndexOptions,
        progress: &Progress,
    ) -> Result<(Self, BuildReport)>
    where
        I: IntoIterator<Item = OwnedDocument>,
        I::IntoIter: Send + 'static,
    {
        let dir = dir.as_ref();
        let (config, notice) = options.prepared(None, options.not_on_gpu(None))?;
        let reader = Reader::of_documents(documents, config.reader.clone())?;
        let overwrite = options.overwrites();
        let mut report =
            warpseek_index::create_from_reader(dir, reader, &config, overwrite, progress)?;
        report.notices.splice(0..0, notice);
        Ok((Index { dir: dir.to_owned(), options: options.clone() }, report))
    }

    /// Makes an index of posting lists that come from elsewhere than documents.
    ///
    /// # Panics
    /// If lists are not what [`Lists`] asks for.
    pub fn build_from_lists(
        dir: impl AsRef<Path>,
        lists: &impl Lists,
        config: &ListsConfig,
        overwrite: bool,
        progress: &Progress,
    ) -> Result<(Self, BuildReport)> {
        let dir = dir.as_ref();
        let report = warpseek_index::create_from_lists(dir, lists, config, overwrite, progress)?;
        Ok((Index { dir: dir.to_owned(), options: IndexOptions::default() }, report))
    }

    /// The index in a directory, which nobody looks at before it is used.
    pub fn at(dir: impl AsRef<Path>) -> Self {
        Self::at_with(dir, IndexOptions::default())
    }

    /// The same, with options for writers.
    pub fn at_with(dir: impl AsRef<Path>, options: IndexOptions) -> Self {
        Index { dir: dir.as_ref().to_owned(), options }
    }

    /// Opens the index in a directory.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(dir, IndexOptions::default())
    }

    /// The same, with options for writers; analyzer, codec, store and quantization are the index's own.
    pub fn open_with(dir: impl AsRef<Path>, options: IndexOptions) -> Result<Self> {
        let index = Self::at_with(dir, options);
        index.snapshot()?;
        Ok(index)
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn options(&self) -> &IndexOptions {
        &self.options
    }

    /// Its settings and segments, without opening these.
    pub fn manifest(&self) -> Result<Manifest> {
        Ok(warpseek_index::read_manifest(&self.dir)?)
    }

    /// What it is now, opened for reading. Later commits do not disturb it.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        self.snapshot_with(true)
    }

    /// The same, with files mapped into memory or read into it. If a mapped file is truncated by somebody else, the operating system ends the process (SIGBUS).
    pub fn snapshot_with(&self, mmap: bool) -> Result<Arc<Snapshot>> {
        Ok(Arc::new(Snapshot::open_with(&self.dir, &OpenOptions { mmap })?))
    }

    /// For changes from memory.
    pub fn writer(&self) -> Result<IndexWriter> {
        IndexWriter::new(self.dir.clone(), self.options.clone())
    }

    /// For single writes, which are durable one by one and can be searched after a refresh. It excludes other writers until it is closed.
    pub fn live(&self, options: LiveOptions) -> Result<LiveIndex> {
        LiveIndex::open(self, options)
    }

    /// For searching, with the defaults.
    pub fn searcher(&self) -> Result<Searcher> {
        self.searcher_with(SearcherOptions::default())
    }

    /// For searching.
    pub fn searcher_with(&self, options: SearcherOptions) -> Result<Searcher> {
        Searcher::open(self, options)
    }

    /// For approximate searching, with the defaults. It is an error if the index has words instead of n-grams.
    pub fn ngram_searcher(&self) -> Result<NgramSearcher> {
        self.ngram_searcher_with(NgramOptions::default())
    }

    /// For approximate searching.
    pub fn ngram_searcher_with(&self, options: NgramOptions) -> Result<NgramSearcher> {
        NgramSearcher::open(self, options)
    }

    /// Adds the documents of files and directories. One whose id is in the index replaces the one there.
    pub fn add_files(&self, inputs: &[PathBuf], progress: &Progress) -> Result<BuildReport> {
        let not_on_gpu = self.options.not_on_gpu(Some(&self.manifest()?));
        let (config, notice) = self.options.prepared(input_bytes(inputs), not_on_gpu)?;
        let mut report = warpseek_index::add(&self.dir, inputs, &config, progress)?;
        report.notices.splice(0..0, notice);
        Ok(report)
    }

    /// The same with a part of the documents, as [`Incoming::part`](crate::Incoming::part) makes it.
    pub fn add_part(
        &self,
        inputs: &[PathBuf],
        part: Selection,
        progress: &Progress,
    ) -> Result<BuildReport> {
        let not_on_gpu = self.options.not_on_gpu(Some(&self.manifest()?));
        let (config, notice) = self.options.prepared(input_bytes(inputs), not_on_gpu)?;
        let reader = Reader::open(inputs, config.reader.clone())?.within(part);
        let report = warpseek_index::update(&self.dir, Some(reader), &[], &config, progress)?;
        let mut report = report.added;
        report.notices.splice(0..0, notice);
        Ok(report)
    }

    /// Gives the index a schema with further fields: it begins with all fields of the one there, unchanged. Documents that are in the index have no values in the new fields.
    /// The index must not be open for single writes.
    ///
    /// ```
    /// use warpseek::{Attribute, AttributeKind, Index, IndexOptions, Schema};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let dir = folder.path().join("index");
    /// let schema = Schema::parse(r#"{"text": [{"name": "title"}]}"#)?;
    /// let index = Index::create_with(&dir, IndexOptions::new().schema(schema.clone()))?;
    /// let mut config = schema.config().clone();
    /// config.attributes.push(Attribute::new("year", AttributeKind::Integer));
    /// index.extend_schema(Schema::new(config)?)?;
    /// assert!(index.extend_schema(schema).is_err()); // It has a field less.
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn extend_schema(&self, schema: impl Into<Arc<Schema>>) -> Result<u64> {
        Ok(warpseek_index::extend_schema(&self.dir, &schema.into())?)
    }

    /// Lets documents that are added from now on have their static scores in a field, if the index was made without one. Documents that are in the index keep the scores that they have, which is none
    /// unless it was made by a version that did not record the field. An index has one field of static scores, so another one is an error. The index must not be open for single writes.
    ///
    /// ```
    /// use warpseek::{Document, Index, LiveOptions};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let index = Index::create(folder.path().join("index"))?;
    /// index.set_static_field("rank")?;
    /// let live = index.live(LiveOptions::new())?;
    /// live.put(&Document { static_score: Some(2.5), ..Document::new("1", "", "an apple") })?;
    /// assert_eq!(live.get("1")?.unwrap()["rank"], 2.5);
    /// live.close()?;
    /// assert!(index.set_static_field("price").is_err());
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn set_static_field(&self, field: &str) -> Result<u64> {
        Ok(warpseek_index::set_static_field(&self.dir, field)?)
    }

    /// Deletes the documents with these ids.
    pub fn delete(&self, ids: &[String], progress: &Progress) -> Result<DeleteReport> {
        Ok(warpseek_index::delete(&self.dir, ids, self.options.config().threads, progress)?)
    }

    /// Makes one segment of all, without deleted documents. Results stay as they are.
    pub fn merge(&self, config: &MergeConfig, progress: &Progress) -> Result<MergeReport> {
        Ok(warpseek_index::merge(&self.dir, config, progress)?)
    }

    /// Checks every checksum, order, bound and count.
    pub fn verify(&self, progress: &Progress) -> Result<Verification> {
        Ok(warpseek_index::verify(&self.dir, progress)?)
    }

    /// How its lists are distributed by density: two indexes of the same shape are alike to an engine.
    pub fn shape(&self) -> Result<Vec<ShapeClass>> {
        let snapshot = self.snapshot()?;
        Ok(shape(&snapshot, &Ranking::suited(snapshot.manifest()))?)
    }

    /// What it holds and what that takes.
    pub fn inspect(&self) -> Result<Inspection> {
        Ok(warpseek_index::inspect(&self.dir)?)
    }
}
