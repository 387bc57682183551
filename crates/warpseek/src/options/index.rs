//! Options for building and changing an index. Every option has a default and a method that sets
//! it.

use std::sync::Arc;

use warpseek_codec::CodecId;
use warpseek_cuda::{Device, DeviceError};
use warpseek_index::{BuildConfig, Impacts, Manifest, OnError, StoreMode};
use warpseek_text::{Analyzer, FieldNames, Format, GramConfig, Schema};

use super::build_device::{BuildDevice, BuildOn};
use crate::error::Result;

/// Options for building and changing an index.
///
/// ```
/// use warpseek::options::{CodecId, StoreMode};
/// use warpseek::{Analyzer, IndexOptions};
///
/// let options = IndexOptions::new()
///     .analyzer(Analyzer::Plain)
///     .codec(CodecId::Rice)
///     .store(StoreMode::Ids)
///     .threads(2)
///     .memory(1 << 30);
/// assert_eq!(options.config().threads, 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct IndexOptions {
    config: BuildConfig,
    overwrite: bool,
    build_on: BuildOn,
}

impl IndexOptions {
    /// Returns the default options: English text, bit packing, complete stored documents, one
    /// thread per core, and a quarter of the memory.
    pub fn new() -> Self {
        IndexOptions::default()
    }

    /// Returns the configuration that the options result in.
    pub fn config(&self) -> &BuildConfig {
        &self.config
    }

    pub(crate) fn overwrites(&self) -> bool {
        self.overwrite
    }

    /// Returns the configuration for a build over `bytes` of input, with a GPU if one is to be
    /// used; `manifest` is that of the existing index, if there is one. The second value
    /// is the reason why no GPU is used although the options ask for one.
    pub(crate) fn prepared(
        &self,
        bytes: Option<u64>,
        manifest: Option<&Manifest>,
    ) -> Result<(BuildConfig, Option<String>)> {
        let mut config = self.config.clone();
        let grams = manifest.map_or(config.grams, |manifest| manifest.grams);
        let notice = self.build_on.prepare(&mut config, bytes, grams.is_some())?;
        Ok((config, notice))
    }

    fn with(mut self, change: impl FnOnce(&mut BuildConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Sets the analyzer, which turns text into terms. Default: English.
    pub fn analyzer(self, analyzer: Analyzer) -> Self {
        self.with(|config| config.analyzer = analyzer)
    }

    /// Sets the codec for blocks of postings. Default: bit packing, and Rice codes for n-grams.
    pub fn codec(self, codec: CodecId) -> Self {
        self.with(|config| config.codec = Some(codec))
    }

    /// Sets what the index stores of each document. Default: the whole document. Storing only ids
    /// makes the index smaller, but text cannot be shown.
    pub fn store(self, store: StoreMode) -> Self {
        self.with(|config| config.store = store)
    }

    /// Stores BM25 scores with these parameters in 8 bits instead of frequencies. Such an index
    /// is approximate and supports no other ranking. Default: exact frequencies.
    pub fn quantize(self, k1: f64, b: f64) -> Self {
        self.with(|config| config.impacts = Some(Impacts::new(k1, b)))
    }

    /// Stores the positions of words, so that phrases can be found. With a schema, this applies
    /// to all text fields, whatever the schema says. Default: false, so that only the text fields
    /// for which the schema says so have positions.
    ///
    /// ```
    /// use warpseek::query::{Node, Phrase};
    /// use warpseek::{Document, Index, IndexOptions, Request};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let dir = folder.path().join("index");
    /// let index = Index::create_with(&dir, IndexOptions::new().positions(true))?;
    /// let mut writer = index.writer()?;
    /// writer.add(Document::new("1", "", "a garden of roses"))?;
    /// writer.add(Document::new("2", "", "roses in a garden"))?;
    /// writer.commit()?;
    ///
    /// let phrase = Node::Phrase(Phrase::exact([], "garden of roses"));
    /// let response = index.searcher()?.search(&Request::new(phrase))?;
    /// assert_eq!(response.hits().len(), 1);
    /// assert_eq!(response.id(0)?, "1");
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn positions(self, positions: bool) -> Self {
        self.with(|config| config.positions = positions)
    }

    /// Stores the norms of documents and bounds of their weights. Ranking by cosine becomes
    /// faster, and the index larger. Default: false; the first search that needs norms computes
    /// them.
    pub fn norms(self, norms: bool) -> Self {
        self.with(|config| config.norms = norms)
    }

    /// Builds an index of n-grams for approximate search. The analyzer is not used. Default: an
    /// index of words.
    pub fn grams(self, grams: GramConfig) -> Self {
        self.with(|config| config.grams = Some(grams))
    }

    /// Sets the schema: text fields with separate statistics, and attributes. The analyzer is not
    /// used. When documents are added to an index, the schema must begin with that of the index.
    /// Default: none for a new index, so that title and text form one field; for an existing
    /// index, its schema.
    ///
    /// ```
    /// use warpseek::{IndexOptions, Schema};
    ///
    /// let schema = Schema::parse(
    ///     r#"{
    ///         "text": [{"name": "title"}, {"name": "body"}],
    ///         "attributes": [{"name": "year", "type": "integer"}]
    ///     }"#,
    /// )?;
    /// let options = IndexOptions::new().schema(schema);
    /// # Ok::<(), warpseek::text::TextError>(())
    /// ```
    pub fn schema(self, schema: impl Into<Arc<Schema>>) -> Self {
        let schema = schema.into();
        self.with(|config| config.reader.schema = Some(schema))
    }

    /// Sets the number of worker threads. Default: one per core.
    pub fn threads(self, threads: usize) -> Self {
        self.with(|config| config.threads = threads.max(1))
    }

    /// Sets the memory for postings under construction, in bytes. Default: a quarter of the
    /// memory of the machine or the container.
    pub fn memory(self, bytes: usize) -> Self {
        self.with(|config| config.memory = bytes)
    }

    /// Sets the treatment of malformed records and duplicate ids. Default: the build stops and
    /// changes nothing.
    pub fn on_error(self, on_error: OnError) -> Self {
        self.with(|config| config.on_error = on_error)
    }

    /// Reorders documents so that documents with common words are adjacent. The index becomes
    /// smaller and searches faster, but the build takes longer. Default: false.
    pub fn reorder(self, reorder: bool) -> Self {
        self.with(|config| config.reorder = reorder)
    }

    /// Sorts the documents of the index by a field of the input. Default: the order of the input.
    pub fn order_by(self, field: impl Into<String>) -> Self {
        self.with(|config| config.reader.order_field = Some(field.into()))
    }

    /// Sets the field with the static score of documents, a number that rankings can add to the
    /// score.
    ///
    /// The index records the field: later writers take static scores from it, and setting a
    /// different field is an error. Default: the field of the index. For a new index there is
    /// none, or `static_score` as soon as a [`Document`](crate::Document) has a static score.
    pub fn static_field(self, field: impl Into<String>) -> Self {
        self.with(|config| config.reader.static_field = Some(field.into()))
    }

    /// Sets the input fields for the id, title and text of a document. Documents are stored with
    /// the usual names. Default: `id`, `title`, and `text` or `contents`.
    pub fn fields(self, fields: FieldNames) -> Self {
        self.with(|config| config.reader.fields = fields)
    }

    /// Sets the format of all input files. Default: determined by the name of each file.
    pub fn format(self, format: Format) -> Self {
        self.with(|config| config.reader.format = Some(format))
    }

    /// Sets the integer that represents the weight 1.0 of a vector. Default: 256.
    pub fn vector_scale(self, scale: u32) -> Self {
        self.with(|config| config.reader.vector_scale = scale)
    }

    /// Sets the device that inverts documents. The resulting index does not depend on it.
    /// Default: the CPU.
    pub fn device(mut self, device: BuildDevice) -> Self {
        self.build_on.device = device;
        self
    }

    /// Sets the number of the GPU. Default: 0.
    pub fn gpu(mut self, number: u32) -> Self {
        self.build_on.gpu = number;
        self
    }

    /// Limits the GPU memory in bytes. A build with little memory takes longer. Default: all
    /// memory.
    pub fn gpu_memory(mut self, bytes: u64) -> Self {
        self.build_on.gpu_memory = Some(bytes);
        self
    }

    /// Sets the function that opens GPUs. Tests use it for an emulated GPU.
    #[doc(hidden)]
    pub fn open_gpus_by(
        mut self,
        open: impl Fn(u32, Option<u64>) -> Result<Device, DeviceError> + Send + Sync + 'static,
    ) -> Self {
        self.build_on.open = Arc::new(open);
        self
    }

    /// Replaces an existing index. Default: false, so that an existing index is an error.
    pub fn overwrite(self, overwrite: bool) -> Self {
        IndexOptions { overwrite, ..self }
    }
}
