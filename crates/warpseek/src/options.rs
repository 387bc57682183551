//! Options for building and searching an index. Every option has a default and a method that sets
//! it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use warpseek_codec::CodecId;
use warpseek_cuda::{Device, DeviceError};
use warpseek_exec::Ranking;
use warpseek_exec_cpu::Algorithm as CpuAlgorithm;
use warpseek_exec_gpu::Form as GpuLists;
use warpseek_exec_gpu_papers::partitioned::{PartitionSettings, Pruning};
use warpseek_index::{BuildConfig, Impacts, Manifest, OnError, StoreMode};
use warpseek_text::{Analyzer, FieldNames, Format, GramConfig, Schema};

use crate::build_device::{BuildDevice, BuildOn};
use crate::error::OptionsError;
use crate::notice::Notice;

/// Options for building and changing an index.
///
/// ```
/// use warpseek::{Analyzer, CodecId, IndexOptions, StoreMode};
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

    /// Returns the reason why a GPU cannot build the index, if there is one. `manifest` is that
    /// of the existing index, if there is one.
    pub(crate) fn not_on_gpu(&self, manifest: Option<&Manifest>) -> Option<OptionsError> {
        let has_schema = manifest.is_some_and(|manifest| manifest.schema.is_some());
        if has_schema || self.config.reader.schema.is_some() {
            return Some(OptionsError::SchemaOnGpu);
        }
        let positions = manifest.map_or(self.config.positions, |manifest| manifest.positions);
        positions.then_some(OptionsError::PositionsOnGpu)
    }

    /// Returns the configuration for a build over `bytes` of input, with a GPU if one is to be
    /// used. The second value is the reason why no GPU is used although the options ask for one.
    pub(crate) fn prepared(
        &self,
        bytes: Option<u64>,
        not_on_gpu: Option<OptionsError>,
    ) -> crate::Result<(BuildConfig, Option<String>)> {
        let mut config = self.config.clone();
        let notice = self.build_on.prepare(&mut config, bytes, not_on_gpu)?;
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
    /// # Ok::<(), warpseek::TextError>(())
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

/// The device that answers queries.
///
/// ```
/// use warpseek::DeviceChoice;
/// assert_eq!(DeviceChoice::default(), DeviceChoice::Cpu);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The CPU.
    #[default]
    Cpu,
    /// A GPU. It is an error if it cannot be used.
    Cuda,
    /// The GPU or the CPU, whichever is estimated to be faster for the batch. The CPU is also
    /// used if there is no GPU or if it fails.
    Auto,
    /// The CPU and the GPU together. It is an error if there is no GPU.
    Both,
}

/// The way in which several devices divide the work.
///
/// ```
/// use warpseek::Split;
/// assert_eq!(Split::default(), Split::Documents);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Division by documents: each device answers every query for its part of the index, and only
    /// that part is copied to it.
    #[default]
    Documents,
    /// Division by queries: each device holds the whole index and answers some queries of a batch.
    /// The CPU takes short queries, and the GPUs do not wait for it.
    Queries,
}

/// The algorithm that answers queries.
///
/// ```
/// use warpseek::{Algorithm, CpuAlgorithm};
///
/// assert_eq!("auto".parse(), Ok(Algorithm::Auto));
/// assert_eq!("wand".parse(), Ok(Algorithm::Named(CpuAlgorithm::Wand)));
/// // Names of earlier versions are aliases.
/// assert_eq!("kept".parse(), Ok(Algorithm::Named(CpuAlgorithm::Decoded)));
/// assert!("magic".parse::<Algorithm>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// The algorithm with the least estimated cost for each query.
    #[default]
    Auto,
    /// The given algorithm for all queries. A GPU has its own implementations of WAND, MaxScore
    /// and cohorts.
    Named(CpuAlgorithm),
    /// The slow reference implementation by which all others are judged.
    Reference,
    /// Intersection of compressed lists on a GPU, for AND.
    Intersect,
    /// Scoring of every posting, on a GPU.
    Exhaustive,
}

impl Algorithm {
    /// Returns the names that `FromStr` accepts, except aliases of earlier versions.
    pub fn names() -> Vec<&'static str> {
        Self::cpu_names().into_iter().chain(["intersect", "exhaustive"]).collect()
    }

    /// Returns the names of the algorithms that do not require a GPU.
    pub fn cpu_names() -> Vec<&'static str> {
        ["auto", "reference"].into_iter().chain(CpuAlgorithm::NAMES).collect()
    }

    /// Returns the name of the algorithm.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Auto => "auto",
            Algorithm::Reference => "reference",
            Algorithm::Intersect => "intersect",
            Algorithm::Exhaustive => "exhaustive",
            Algorithm::Named(algorithm) => algorithm.name(),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "auto" => Ok(Algorithm::Auto),
            "reference" => Ok(Algorithm::Reference),
            "intersect" => Ok(Algorithm::Intersect),
            "exhaustive" => Ok(Algorithm::Exhaustive),
            name => name.parse().map(Algorithm::Named).map_err(|_| {
                let all = Self::names().join(", ");
                format!("no algorithm `{name}`; the algorithms are: {all}")
            }),
        }
    }
}

/// Settings for experiments and measurements. They do not affect hits, except that homogeneous
/// partitions are approximate.
///
/// ```
/// use warpseek::Tuning;
///
/// let tuning = Tuning { tile: Some(1 << 16), ..Tuning::default() };
/// assert!(tuning.partitions.is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// The number of documents in a tile, for cohorts. Default: 131,072 on the CPU, fewer for a
    /// single query; 262,144 on a GPU.
    pub tile: Option<u32>,
    /// The number of queries in a cohort on a GPU, from 1 to [`crate::MAX_COHORT`]. Default:
    /// 1,024.
    pub cohort: Option<usize>,
    /// Settings of partitioned WAND and MaxScore on a GPU (Gaioso 2019). The algorithm decides
    /// which of the two is used.
    pub partitions: Option<PartitionSettings>,
    /// The layout of posting lists on a GPU. Default: tiles if they fit. Otherwise lists are
    /// compressed, and those that do not fit are copied when queries need them.
    pub gpu_lists: GpuLists,
}

/// A callback for events that an operator may want to know about.
pub(crate) type Listener = Arc<dyn Fn(&Notice) + Send + Sync>;

/// A function that opens a GPU, given its number and its memory budget.
pub(crate) type Opener = Arc<dyn Fn(u32, Option<u64>) -> Result<Device, DeviceError> + Send + Sync>;

/// Options for answering queries.
///
/// ```
/// use warpseek::{DeviceChoice, Ranking, RankingFunction, SearcherOptions};
///
/// let ranking = Ranking {
///     function: RankingFunction::Bm25 { k1: 1.2, b: 0.75 },
///     ..Ranking::default()
/// };
/// let options = SearcherOptions::new().ranking(ranking).device(DeviceChoice::Auto).threads(4);
/// ```
#[derive(Clone)]
pub struct SearcherOptions {
    pub(crate) ranking: Option<Ranking>,
    pub(crate) algorithm: Algorithm,
    pub(crate) device: DeviceChoice,
    pub(crate) gpus: Vec<u32>,
    pub(crate) split: Split,
    pub(crate) host_share: Option<f64>,
    pub(crate) host_threads: Option<usize>,
    pub(crate) gpu_from: Option<u64>,
    pub(crate) gpu_memory: Option<u64>,
    pub(crate) threads: usize,
    pub(crate) mmap: bool,
    pub(crate) tuning: Tuning,
    pub(crate) listener: Listener,
    pub(crate) retry: Duration,
    pub(crate) open: Opener,
}

impl Default for SearcherOptions {
    fn default() -> Self {
        SearcherOptions {
            ranking: None,
            algorithm: Algorithm::Auto,
            device: DeviceChoice::Cpu,
            gpus: vec![0],
            split: Split::Documents,
            host_share: None,
            host_threads: None,
            gpu_from: None,
            gpu_memory: None,
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            mmap: true,
            tuning: Tuning::default(),
            listener: Arc::new(|_| ()),
            retry: Duration::from_secs(1),
            open: Arc::new(Device::open),
        }
    }
}

impl SearcherOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        SearcherOptions::default()
    }

    /// Returns the options that affect the times of queries. Further factors are the index, the
    /// machine, its engines and the ranking.
    pub(crate) fn that_times_depend_on(&self) -> (Algorithm, &[u32], Option<u64>, GpuLists) {
        (self.algorithm, &self.gpus, self.gpu_memory, self.tuning.gpu_lists)
    }

    /// Sets the ranking of documents. Default: the one that suits the index, which is BM25 for
    /// text and the dot product for vectors.
    pub fn ranking(self, ranking: Ranking) -> Self {
        SearcherOptions { ranking: Some(ranking), ..self }
    }

    /// Sets the algorithm. Default: the one with the least estimated cost for each query.
    pub fn algorithm(self, algorithm: Algorithm) -> Self {
        SearcherOptions { algorithm, ..self }
    }

    /// Sets the device that answers queries. Default: the CPU.
    pub fn device(self, device: DeviceChoice) -> Self {
        SearcherOptions { device, ..self }
    }

    /// Sets the GPUs to use, by number. Default: the first one. A GPU may be listed twice.
    pub fn gpus(self, gpus: Vec<u32>) -> Self {
        SearcherOptions { gpus, ..self }
    }

    /// Sets the way in which several devices divide the work. Default: by documents.
    pub fn split(self, split: Split) -> Self {
        SearcherOptions { split, ..self }
    }

    /// Sets the CPU's share of the documents, from 0 to 1, if it answers together with GPUs.
    /// Default: the share with which the CPU and the GPUs finish at the same time, as measured.
    pub fn host_share(self, share: f64) -> Self {
        SearcherOptions { host_share: Some(share), ..self }
    }

    /// Sets the number of CPU threads that work on the CPU's share. Default: all but three, which
    /// are left for planning, for results and for the GPU.
    pub fn host_threads(self, threads: usize) -> Self {
        SearcherOptions { host_threads: Some(threads), ..self }
    }

    /// Sets the number of postings from which a batch goes to the GPU with
    /// [`DeviceChoice::Auto`]. Default: a batch goes to the GPU if it is estimated to take longer
    /// on the CPU.
    pub fn gpu_from(self, postings: u64) -> Self {
        SearcherOptions { gpu_from: Some(postings), ..self }
    }

    /// Limits the memory to use on a GPU, in bytes. Default: all memory.
    pub fn gpu_memory(self, bytes: u64) -> Self {
        SearcherOptions { gpu_memory: Some(bytes), ..self }
    }

    /// Sets the number of CPU threads. Default: one per core.
    pub fn threads(self, threads: usize) -> Self {
        SearcherOptions { threads: threads.max(1), ..self }
    }

    /// Sets whether files are mapped into memory (true) or read into memory. Default: true. If
    /// another process truncates a mapped file, the operating system ends this process.
    pub fn mmap(self, mmap: bool) -> Self {
        SearcherOptions { mmap, ..self }
    }

    /// Sets options for experiments.
    pub fn tuning(self, tuning: Tuning) -> Self {
        SearcherOptions { tuning, ..self }
    }

    /// Sets a callback for events that an operator may want to know about, such as the failure of
    /// a GPU. Default: none.
    pub fn on_notice(self, listener: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        SearcherOptions { listener: Arc::new(listener), ..self }
    }

    /// Sets the time after which a failed GPU is tried again. Each further failure doubles it, up
    /// to five minutes. Default: one second.
    pub fn retry_gpu_after(self, time: Duration) -> Self {
        SearcherOptions { retry: time, ..self }
    }

    /// Sets the function that opens GPUs. Tests use it for an emulated GPU.
    #[doc(hidden)]
    pub fn open_gpus_by(
        self,
        open: impl Fn(u32, Option<u64>) -> Result<Device, DeviceError> + Send + Sync + 'static,
    ) -> Self {
        SearcherOptions { open: Arc::new(open), ..self }
    }

    /// Returns the settings of partitions if a GPU is to prune with an algorithm that uses them.
    pub(crate) fn partitions(&self) -> Option<PartitionSettings> {
        let pruning = match self.algorithm {
            Algorithm::Named(CpuAlgorithm::Wand) => Pruning::Wand,
            Algorithm::Named(CpuAlgorithm::MaxScore) => Pruning::MaxScore,
            _ => return None,
        };
        Some(PartitionSettings { pruning, ..self.tuning.partitions.unwrap_or_default() })
    }
}

impl fmt::Debug for SearcherOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearcherOptions")
            .field("ranking", &self.ranking)
            .field("algorithm", &self.algorithm)
            .field("device", &self.device)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}
