//! An index on disk: creating, opening, changing and checking it.

mod incoming;
mod live;
mod scrubber;
mod settings;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use warpseek_exec::{Ranking, shape};
use warpseek_index::OpenOptions;
use warpseek_text::{OwnedDocument, Reader, Schema};

use crate::error::Result;
use crate::inspect::{Inspection, ShapeClass, Verification};
use crate::options::{IndexOptions, input_bytes};

pub use incoming::Incoming;
pub use live::{LiveIndex, LiveOptions, WriteTicket};
pub use scrubber::{ScrubOptions, ScrubStatus, Scrubber};
pub use settings::{read_settings, settings};
pub use warpseek_index::log::Durability;
pub use warpseek_index::{
    BuildReport, Damage, DeleteReport, FilterCacheUsage, IndexError, Lists, ListsConfig, MANIFEST,
    Manifest, MergeConfig, MergeReport, Phase, Progress, SegmentEntry, Snapshot, SnapshotId,
    Statistics, Survey,
};
pub use warpseek_text::Selection;
pub use writer::{Commit, IndexWriter};

/// An index: a directory on disk.
///
/// Every change is an atomic and durable commit. Whatever happens, the directory contains the
/// index from before the change or from after it.
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
    /// Creates an empty index with the default options. The directory must be empty or not exist.
    pub fn create(dir: impl AsRef<Path>) -> Result<Self> {
        Self::create_with(dir, IndexOptions::default())
    }

    /// Creates an empty index with the given options. The directory must be empty or not exist,
    /// unless [`IndexOptions::overwrite`] is set.
    pub fn create_with(dir: impl AsRef<Path>, options: IndexOptions) -> Result<Self> {
        let none: [OwnedDocument; 0] = [];
        let config = options.config();
        let reader = Reader::of_documents(none, config.reader.clone())?;
        let dir = dir.as_ref();
        let (overwrite, progress) = (options.overwrites(), Progress::default());
        warpseek_index::create_from_reader(dir, reader, config, overwrite, &progress)?;
        Ok(Index { dir: dir.to_owned(), options })
    }

    /// Returns the directory of the index.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Builds an index from files and directories; `-` is standard input.
    pub fn build(
        dir: impl AsRef<Path>,
        inputs: &[PathBuf],
        options: &IndexOptions,
        progress: &Progress,
    ) -> Result<(Self, BuildReport)> {
        let dir = dir.as_ref();
        let overwrite = options.overwrites();
        let (config, notice) = options.prepared(input_bytes(inputs), None)?;
        let mut report = warpseek_index::create(dir, inputs, &config, overwrite, progress)?;
        report.notices.splice(0..0, notice);
        Ok((Index { dir: dir.to_owned(), options: options.clone() }, report))
    }

    /// Reads all documents of files and directories without building an index, so that
    /// [`Survey::cut`] can split them into parts. [`Index::build_part`] then builds an index of
    /// each part, possibly on another machine.
    ///
    /// Everything that would stop a build of a single index is already an error here, for
    /// instance an id that occurs twice, even if the two documents would be in different parts.
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

    /// Returns the size of the files and directories that [`Index::build`] would read, in bytes,
    /// or `None` if one of them is standard input or a pipe.
    pub fn input_bytes(inputs: &[PathBuf], options: &IndexOptions) -> Result<Option<u64>> {
        let reader = Reader::open(inputs, options.config().reader.clone())?;
        Ok(reader.progress().bytes_total)
    }

    /// Builds an index from a part of the documents of files and directories. Otherwise like
    /// [`Index::build`].
    pub fn build_part(
        dir: impl AsRef<Path>,
        inputs: &[PathBuf],
        part: Selection,
        options: &IndexOptions,
        progress: &Progress,
    ) -> Result<(Self, BuildReport)> {
        let dir = dir.as_ref();
        let overwrite = options.overwrites();
        let (config, notice) = options.prepared(input_bytes(inputs), None)?;
        let mut report =
            warpseek_index::create_part(dir, inputs, part, &config, overwrite, progress)?;
        report.notices.splice(0..0, notice);
        Ok((Index { dir: dir.to_owned(), options: options.clone() }, report))
    }

    /// Builds an index from documents that an iterator generates during the build, so that they
    /// need not all be in memory.
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
        let (config, notice) = options.prepared(None, None)?;
        let reader = Reader::of_documents(documents, config.reader.clone())?;
        let overwrite = options.overwrites();
        let mut report =
            warpseek_index::create_from_reader(dir, reader, &config, overwrite, progress)?;
        report.notices.splice(0..0, notice);
        Ok((Index { dir: dir.to_owned(), options: options.clone() }, report))
    }

    /// Builds an index from posting lists instead of documents.
    ///
    /// # Panics
    /// Panics if the lists do not satisfy the requirements of [`Lists`].
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

    /// Refers to the index in a directory without opening it.
    pub fn at(dir: impl AsRef<Path>) -> Self {
        Self::at_with(dir, IndexOptions::default())
    }

    /// Refers to the index in a directory without opening it, with options for writers.
    pub fn at_with(dir: impl AsRef<Path>, options: IndexOptions) -> Self {
        Index { dir: dir.as_ref().to_owned(), options }
    }

    /// Opens the index in a directory.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(dir, IndexOptions::default())
    }

    /// Opens the index in a directory, with options for writers. Analyzer, codec, store and
    /// quantization are those of the index, whatever the options say.
    pub fn open_with(dir: impl AsRef<Path>, options: IndexOptions) -> Result<Self> {
        let index = Self::at_with(dir, options);
        index.snapshot()?;
        Ok(index)
    }

    pub(crate) fn options(&self) -> &IndexOptions {
        &self.options
    }

    /// Reads the settings and the list of segments of the index, without opening the segments.
    pub fn manifest(&self) -> Result<Manifest> {
        Ok(warpseek_index::read_manifest(&self.dir)?)
    }

    /// Opens a snapshot of the current state of the index. Later commits do not affect it.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        self.snapshot_with(true)
    }

    /// Opens a snapshot whose files are mapped into memory, or read into memory if `mmap` is
    /// false. If another process truncates a mapped file, the operating system kills this process
    /// (SIGBUS).
    pub fn snapshot_with(&self, mmap: bool) -> Result<Arc<Snapshot>> {
        Ok(Arc::new(Snapshot::open_with(&self.dir, &OpenOptions { mmap })?))
    }

    /// Returns a writer that collects changes in memory and commits them together.
    pub fn writer(&self) -> Result<IndexWriter> {
        IndexWriter::new(self.dir.clone(), self.options.clone())
    }

    /// Adds the documents of files and directories. A document replaces the document with the
    /// same id, if there is one.
    pub fn add_files(&self, inputs: &[PathBuf], progress: &Progress) -> Result<BuildReport> {
        let manifest = self.manifest()?;
        let (config, notice) = self.options.prepared(input_bytes(inputs), Some(&manifest))?;
        let mut report = warpseek_index::add(&self.dir, inputs, &config, progress)?;
        report.notices.splice(0..0, notice);
        Ok(report)
    }

    /// Adds a part of the documents of files and directories, as selected by
    /// [`Incoming::part`].
    pub fn add_part(
        &self,
        inputs: &[PathBuf],
        part: Selection,
        progress: &Progress,
    ) -> Result<BuildReport> {
        let manifest = self.manifest()?;
        let (config, notice) = self.options.prepared(input_bytes(inputs), Some(&manifest))?;
        let reader = Reader::open(inputs, config.reader.clone())?.within(part);
        let report = warpseek_index::update(&self.dir, Some(reader), &[], &config, progress)?;
        let mut report = report.added;
        report.notices.splice(0..0, notice);
        Ok(report)
    }

    /// Extends the schema of the index. The new schema must begin with all existing fields,
    /// unchanged; documents that are already in the index have no values in the additional
    /// fields. The index must not be open for single writes. Returns the generation of the index.
    ///
    /// ```
    /// use warpseek::schema::{Attribute, AttributeKind};
    /// use warpseek::{Index, IndexOptions, Schema};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let dir = folder.path().join("index");
    /// let schema = Schema::parse(r#"{"text": [{"name": "title"}]}"#)?;
    /// let index = Index::create_with(&dir, IndexOptions::new().schema(schema.clone()))?;
    /// let mut config = schema.config().clone();
    /// config.attributes.push(Attribute::new("year", AttributeKind::Integer));
    /// index.extend_schema(Schema::new(config)?)?;
    /// assert!(index.extend_schema(schema).is_err()); // It lacks a field.
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn extend_schema(&self, schema: impl Into<Arc<Schema>>) -> Result<u64> {
        Ok(warpseek_index::extend_schema(&self.dir, &schema.into())?)
    }

    /// Sets the field that contains the static scores of documents added from now on, if the
    /// index was created without one. Documents that are already in the index keep their static
    /// scores; they have none unless a version that did not record the field built the index. It
    /// is an error if the index already has a different field. The index must not be open for
    /// single writes. Returns the generation of the index.
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

    /// Merges all segments into one and drops deleted documents. Search results do not change.
    pub fn merge(&self, config: &MergeConfig, progress: &Progress) -> Result<MergeReport> {
        Ok(warpseek_index::merge(&self.dir, config, progress)?)
    }

    /// Checks every checksum, order, bound and count of the index.
    pub fn verify(&self, progress: &Progress) -> Result<Verification> {
        Ok(warpseek_index::verify(&self.dir, progress)?)
    }

    /// Returns the distribution of the index's posting lists by density. Two indexes with the
    /// same distribution behave alike for an engine.
    pub fn shape(&self) -> Result<Vec<ShapeClass>> {
        let snapshot = self.snapshot()?;
        Ok(shape(&snapshot, &Ranking::suited(snapshot.manifest()))?)
    }

    /// Returns the contents of the index, and the space that its parts take.
    pub fn inspect(&self) -> Result<Inspection> {
        Ok(warpseek_index::inspect(&self.dir)?)
    }
}
