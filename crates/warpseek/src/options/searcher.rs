//! Options for answering queries. Every option has a default and a method that sets it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use warpseek_cuda::{Device, DeviceError};
use warpseek_exec::Ranking;
use warpseek_exec_cpu::Algorithm as CpuAlgorithm;
use warpseek_exec_gpu::GpuLists;
use warpseek_exec_gpu_papers::partitioned::{PartitionSettings, Pruning};

use super::opener::Opener;
use crate::gpu::Notice;
use crate::research::Tuning;

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
/// use warpseek::options::Split;
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

/// The calibration that predicts times: costs of queries as measured on this machine. It decides
/// which device answers with [`DeviceChoice::Auto`], how devices share a batch with
/// [`DeviceChoice::Both`], and which requests a service refuses.
///
/// ```
/// use warpseek::options::CalibrationChoice;
/// assert_eq!(CalibrationChoice::default(), CalibrationChoice::Auto);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CalibrationChoice {
    /// The one that [`crate::Searcher::calibrate`] saved in the user's cache for the index and this
    /// machine. If there is none, a few queries are timed briefly when times first matter.
    #[default]
    Auto,
    /// The one in this file. It is an error if it cannot be read. If it was measured on another
    /// machine or under other conditions, it is not used, and a notice says so.
    File(PathBuf),
    /// None: the estimates that are built into the engines, which were made on other hardware.
    Off,
}

/// The algorithm that answers queries.
///
/// ```
/// use warpseek::options::{Algorithm, CpuAlgorithm};
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

/// A callback for events that an operator may want to know about.
pub(crate) type Listener = Arc<dyn Fn(&Notice) + Send + Sync>;

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
    pub(crate) calibration: CalibrationChoice,
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
            calibration: CalibrationChoice::Auto,
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

    /// Sets the calibration that predicts times. Default: the one of this machine in the user's
    /// cache, or a brief measurement.
    pub fn calibration(self, calibration: CalibrationChoice) -> Self {
        SearcherOptions { calibration, ..self }
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
