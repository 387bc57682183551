//! Options: each has its default, and a method that sets it.

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

/// How an index is made and changed.
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
    /// The defaults: English text, bit packing, whole documents stored, a thread a core, a quarter of the memory.
    pub fn new() -> Self {
        IndexOptions::default()
    }

    /// All of it in one structure.
    pub fn config(&self) -> &BuildConfig {
        &self.config
    }

    pub(crate) fn overwrites(&self) -> bool {
        self.overwrite
    }

    /// Why a GPU cannot build the index, if it cannot; `manifest` is that of an index that is there.
    pub(crate) fn not_on_gpu(&self, manifest: Option<&Manifest>) -> Option<OptionsError> {
        let has_schema = manifest.is_some_and(|manifest| manifest.schema.is_some());
        if has_schema || self.config.reader.schema.is_some() {
            return Some(OptionsError::SchemaOnGpu);
        }
        let positions = manifest.map_or(self.config.positions, |manifest| manifest.positions);
        positions.then_some(OptionsError::PositionsOnGpu)
    }

    /// The configuration for a build of this many bytes, with a GPU, unless the index cannot be built on one, if one is to be used, and why none is used although one was to be.
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

    /// How text becomes terms. Default: English.
    pub fn analyzer(self, analyzer: Analyzer) -> Self {
        self.with(|config| config.analyzer = analyzer)
    }

    /// How blocks of postings are coded. Default: bit packing, and Rice codes for n-grams.
    pub fn codec(self, codec: CodecId) -> Self {
        self.with(|config| config.codec = Some(codec))
    }

    /// What the store keeps. Default: whole documents; ids alone make a smaller index that shows no text.
    pub fn store(self, store: StoreMode) -> Self {
        self.with(|config| config.store = store)
    }

    /// Keeps BM25 with these parameters in 8 bits in the place of frequencies: approximate, and no other ranking can be had. Default: exact frequencies.
    pub fn quantize(self, k1: f64, b: f64) -> Self {
        self.with(|config| config.impacts = Some(Impacts::new(k1, b)))
    }

    /// Keeps the positions of words, so that phrases can be found; with a schema, in all text fields, whatever it says. Default: no, or in the text fields whose schema says so.
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

    /// Keeps the norms of documents, and bounds of their weights: ranking by cosine then takes less time, and the index more space. Default: no; norms are computed by the first search that needs them.
    pub fn norms(self, norms: bool) -> Self {
        self.with(|config| config.norms = norms)
    }

    /// Makes an index of n-grams, for approximate search; the analyzer is not used then. Default: an index of words.
    pub fn grams(self, grams: GramConfig) -> Self {
        self.with(|config| config.grams = Some(grams))
    }

    /// Gives the index text fields with statistics of their own, and attributes; the analyzer is not used then. If documents are added to an index, the schema must begin with that of the
    /// index. Default: none for a new index, where title and text are one field, and that of the index for an existing one.
    ///
    /// ```
    /// use warpseek::{IndexOptions, Schema};
    ///
    /// let schema = Schema::parse(
    ///     r#"{"text": [{"name": "title"}, {"name": "body"}], "attributes": [{"name": "year", "type": "integer"}]}"#,
    /// )?;
    /// let options = IndexOptions::new().schema(schema);
    /// # Ok::<(), warpseek::TextError>(())
    /// ```
    pub fn schema(self, schema: impl Into<Arc<Schema>>) -> Self {
        let schema = schema.into();
        self.with(|config| config.reader.schema = Some(schema))
    }

    /// Worker threads. Default: one a core.
    pub fn threads(self, threads: usize) -> Self {
        self.with(|config| config.threads = threads.max(1))
    }

    /// Bytes of memory for postings in the making. Default: a quarter of what the machine, or the container, has.
    pub fn memory(self, bytes: usize) -> Self {
        self.with(|config| config.memory = bytes)
    }

    /// What happens with malformed records and ids seen before. Default: the build stops and changes nothing.
    pub fn on_error(self, on_error: OnError) -> Self {
        self.with(|config| config.on_error = on_error)
    }

    /// Puts documents side by side that have words in common: a smaller index and faster searches for a longer build. Default: no.
    pub fn reorder(self, reorder: bool) -> Self {
        self.with(|config| config.reorder = reorder)
    }

    /// Sorts documents inside the index by a field of the input. Default: the order of the input.
    pub fn order_by(self, field: impl Into<String>) -> Self {
        self.with(|config| config.reader.order_field = Some(field.into()))
    }

    /// The field of a document with a number that rankings can add to its score. The index records it, and whatever writes to the index later takes scores from there; a different field is an error then. Default: that of the index; for a new one none, or, once a [`Document`](crate::Document) has a static score, `static_score`.
    pub fn static_field(self, field: impl Into<String>) -> Self {
        self.with(|config| config.reader.static_field = Some(field.into()))
    }

    /// The fields of the input that are a document's id, title and text. Documents are stored with the usual names. Default: `id`, `title`, and `text` or `contents`.
    pub fn fields(self, fields: FieldNames) -> Self {
        self.with(|config| config.reader.fields = fields)
    }

    /// The format of all input files. Default: each by its name.
    pub fn format(self, format: Format) -> Self {
        self.with(|config| config.reader.format = Some(format))
    }

    /// Weight 1.0 of a vector as an integer. Default: 256.
    pub fn vector_scale(self, scale: u32) -> Self {
        self.with(|config| config.reader.vector_scale = scale)
    }

    /// Where documents are inverted; the index is the same. Default: on the CPU.
    pub fn device(mut self, device: BuildDevice) -> Self {
        self.build_on.device = device;
        self
    }

    /// The number of the GPU. Default: 0.
    pub fn gpu(mut self, number: u32) -> Self {
        self.build_on.gpu = number;
        self
    }

    /// The most bytes of GPU memory to use. With little, a build takes longer. Default: all there is.
    pub fn gpu_memory(mut self, bytes: u64) -> Self {
        self.build_on.gpu_memory = Some(bytes);
        self
    }

    /// How GPUs are opened: so tests can have an emulated one.
    #[doc(hidden)]
    pub fn open_gpus_by(
        mut self,
        open: impl Fn(u32, Option<u64>) -> Result<Device, DeviceError> + Send + Sync + 'static,
    ) -> Self {
        self.build_on.open = Arc::new(open);
        self
    }

    /// Replaces an index that is there already. Default: no, it is an error.
    pub fn overwrite(self, overwrite: bool) -> Self {
        IndexOptions { overwrite, ..self }
    }
}

/// Where queries are answered.
///
/// ```
/// use warpseek::DeviceChoice;
/// assert_eq!(DeviceChoice::default(), DeviceChoice::Cpu);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// On the CPU.
    #[default]
    Cpu,
    /// On a GPU; it is an error if that cannot be.
    Cuda,
    /// On the GPU or on the CPU, whichever is estimated to answer sooner; on the CPU if there is no GPU, or it fails.
    Auto,
    /// On the CPU and the GPU together; it is an error if there is no GPU.
    Both,
}

/// What devices that answer together share out.
///
/// ```
/// use warpseek::Split;
/// assert_eq!(Split::default(), Split::Documents);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// The documents: each answers every query for its own part of the index, and only that is copied to it.
    #[default]
    Documents,
    /// The queries of a batch: each has all of the index. The CPU takes short ones, and nobody waits for it.
    Queries,
}

/// Which algorithm answers.
///
/// ```
/// use warpseek::{Algorithm, CpuAlgorithm};
///
/// assert_eq!("auto".parse(), Ok(Algorithm::Auto));
/// assert_eq!("wand".parse(), Ok(Algorithm::Named(CpuAlgorithm::Wand)));
/// assert!("magic".parse::<Algorithm>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// The one that costs the least for each query.
    #[default]
    Auto,
    /// One for all queries; a GPU has WAND, MaxScore and cohorts of its own.
    Named(CpuAlgorithm),
    /// The slow judge of all others.
    Reference,
    /// AND on compressed lists, on a GPU.
    Intersect,
    /// Every posting scored, on a GPU.
    Exhaustive,
}

impl Algorithm {
    /// All names that `FromStr` takes, but for aliases of earlier versions.
    pub fn names() -> Vec<&'static str> {
        Self::cpu_names().into_iter().chain(["intersect", "exhaustive"]).collect()
    }

    /// Those that need no GPU.
    pub fn cpu_names() -> Vec<&'static str> {
        ["auto", "reference"].into_iter().chain(CpuAlgorithm::NAMES).collect()
    }

    /// Its name.
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

/// Settings for studies and measurements. Hits do not depend on them, but for homogeneous partitions, which are approximate.
///
/// ```
/// use warpseek::Tuning;
///
/// let tuning = Tuning { tile: Some(1 << 16), ..Tuning::default() };
/// assert!(tuning.partitions.is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tuning {
    /// Documents in a tile, for cohorts. Default: 131,072 on the CPU, fewer for one query; 262,144 on a GPU.
    pub tile: Option<u32>,
    /// Queries in a cohort on a GPU, 1 to [`crate::MAX_COHORT`]. Default: 1,024.
    pub cohort: Option<usize>,
    /// How WAND and MaxScore go about it on a GPU (Gaioso 2019); which of the two it is follows from the algorithm.
    pub partitions: Option<PartitionSettings>,
    /// The form of lists on a GPU. Default: tiles if they have room, otherwise compressed, and what has no room comes when queries need it.
    pub gpu_lists: GpuLists,
}

/// Who hears of things that an operator may want to know.
pub(crate) type Listener = Arc<dyn Fn(&Notice) + Send + Sync>;

/// Opens a GPU by number, with a budget of memory.
pub(crate) type Opener = Arc<dyn Fn(u32, Option<u64>) -> Result<Device, DeviceError> + Send + Sync>;

/// How queries are answered.
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
    /// The defaults.
    pub fn new() -> Self {
        SearcherOptions::default()
    }

    /// What the times of queries depend on, besides the index, the machine, its engines and the ranking.
    pub(crate) fn that_times_depend_on(&self) -> (Algorithm, &[u32], Option<u64>, GpuLists) {
        (self.algorithm, &self.gpus, self.gpu_memory, self.tuning.gpu_lists)
    }

    /// How documents are ranked. Default: what suits the index, BM25 for text and the dot product for vectors.
    pub fn ranking(self, ranking: Ranking) -> Self {
        SearcherOptions { ranking: Some(ranking), ..self }
    }

    /// Which algorithm answers. Default: the one that costs the least for each query.
    pub fn algorithm(self, algorithm: Algorithm) -> Self {
        SearcherOptions { algorithm, ..self }
    }

    /// Where queries are answered. Default: on the CPU.
    pub fn device(self, device: DeviceChoice) -> Self {
        SearcherOptions { device, ..self }
    }

    /// Which GPUs answer, by number. Default: the first. One may be named twice.
    pub fn gpus(self, gpus: Vec<u32>) -> Self {
        SearcherOptions { gpus, ..self }
    }

    /// What several devices share out. Default: the documents.
    pub fn split(self, split: Split) -> Self {
        SearcherOptions { split, ..self }
    }

    /// The CPU's part of the documents if it answers together with GPUs, 0 to 1. Default: what it is done with as soon as the GPU is, which is measured.
    pub fn host_share(self, share: f64) -> Self {
        SearcherOptions { host_share: Some(share), ..self }
    }

    /// The CPU's threads for its share. Default: three fewer than all, which are left to planning, to results and to the GPU.
    pub fn host_threads(self, threads: usize) -> Self {
        SearcherOptions { host_threads: Some(threads), ..self }
    }

    /// Postings from which on a batch goes to the GPU with [`DeviceChoice::Auto`]. Default: if it is estimated to take longer on the CPU.
    pub fn gpu_from(self, postings: u64) -> Self {
        SearcherOptions { gpu_from: Some(postings), ..self }
    }

    /// Bytes of a GPU's memory to use, at most. Default: all.
    pub fn gpu_memory(self, bytes: u64) -> Self {
        SearcherOptions { gpu_memory: Some(bytes), ..self }
    }

    /// Threads of the CPU. Default: one a core.
    pub fn threads(self, threads: usize) -> Self {
        SearcherOptions { threads: threads.max(1), ..self }
    }

    /// Whether files are mapped into memory, or read into it. Default: mapped. A file that somebody truncates while it is mapped ends the process.
    pub fn mmap(self, mmap: bool) -> Self {
        SearcherOptions { mmap, ..self }
    }

    /// Settings for studies.
    pub fn tuning(self, tuning: Tuning) -> Self {
        SearcherOptions { tuning, ..self }
    }

    /// Hears of what an operator may want to know, such as a GPU that failed. Default: nobody does.
    pub fn on_notice(self, listener: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        SearcherOptions { listener: Arc::new(listener), ..self }
    }

    /// How long after a failure a GPU is tried again; after each further failure twice as long, up to five minutes. Default: a second.
    pub fn retry_gpu_after(self, time: Duration) -> Self {
        SearcherOptions { retry: time, ..self }
    }

    /// How GPUs are opened: so tests can have an emulated one.
    #[doc(hidden)]
    pub fn open_gpus_by(
        self,
        open: impl Fn(u32, Option<u64>) -> Result<Device, DeviceError> + Send + Sync + 'static,
    ) -> Self {
        SearcherOptions { open: Arc::new(open), ..self }
    }

    /// How a GPU prunes, if the algorithm is one of those that do on partitions.
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
