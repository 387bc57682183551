//! The arguments that several verbs share, and the list of verbs.

use std::num::NonZero;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use warpseek_codec::CodecId;
use warpseek_cuda::Device;
use warpseek_exec::{Mode, Ranking, RankingFunction};
use warpseek_exec_cpu::Algorithm;
use warpseek_exec_gpu_papers::MAX_COHORT;
use warpseek_exec_gpu_papers::compressed::CODECS;
use warpseek_exec_gpu_papers::partitioned::{
    Batch, PartitionSettings, Partitioning, Pruning, Threshold,
};
use warpseek_index::{BuildConfig, Manifest, OnError};
use warpseek_text::{Format, ReaderConfig};

use crate::failure::Failure;
use crate::verbs;

/// Exact text search: index, search, evaluate.
///
/// Every engine and device returns the same hits, in the same order, with the same scores.
#[derive(Parser)]
#[command(name = "warpseek", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  warpseek quickstart                         see it work on text this machine has
  warpseek index docs.jsonl -o idx            make an index
  warpseek search idx \"inverted index\"        search it
  warpseek run idx --queries q.tsv -o r.trec  answer a file of queries
  warpseek eval --qrels q.tsv --run r.trec    judge the answers

Exit codes: 0 done, 1 something broke, 2 wrong arguments or input, 130 interrupted.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// One variant a verb, one file a verb.
#[derive(Subcommand)]
pub(crate) enum Verb {
    Index(verbs::index::Options),
    Add(verbs::add::Options),
    Delete(verbs::delete::Options),
    Merge(verbs::merge::Options),
    Search(verbs::search::Options),
    Run(verbs::run::Options),
    Eval(verbs::eval::Options),
    Bench(verbs::bench::Options),
    Verify(verbs::verify::Options),
    Inspect(verbs::inspect::Options),
    Devices(verbs::devices::Options),
    Synth(verbs::synth::Options),
    Quickstart(verbs::quickstart::Options),
    Completions(verbs::completions::Options),
    Man(verbs::man::Options),
}

/// A parser for a type whose `FromStr` takes these names.
pub(crate) fn named<T>(names: impl Into<PossibleValuesParser>) -> impl TypedValueParser<Value = T>
where
    T: FromStr + Clone + Send + Sync + 'static,
    T::Err: std::fmt::Display + Send + Sync + 'static,
{
    names.into().try_map(|name| name.parse::<T>().map_err(|e| e.to_string()))
}

/// Threads, for verbs that use several.
#[derive(Args)]
pub(crate) struct Threads {
    /// Threads to use [default: one a core]
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl Threads {
    pub(crate) fn get(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
        self.threads.map_or_else(cores, usize::from)
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum OnErrorChoice {
    /// Stop and change nothing
    Stop,
    /// Leave bad records out, count and report them
    Skip,
}

/// How documents are read; for `index` and `add`.
#[derive(Args)]
pub(crate) struct Reading {
    /// Files or directories to read; `-` is standard input. .gz and .zst are read through
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Format of all inputs [default: by name; a directory is a tree of text files]
    #[arg(long, value_parser = named::<Format>(Format::NAMES.to_vec()))]
    format: Option<Format>,
    /// JSONL field with a number per document that `--static-weight` adds to scores
    #[arg(long, value_name = "FIELD")]
    pub(crate) static_field: Option<String>,
    /// Put documents side by side that have words in common (recursive graph bisection): a smaller index and faster searches for
    /// a longer build. Ids and results do not change
    #[arg(long)]
    reorder: bool,
    /// Sort documents inside the index by this field of the input; where `--reorder` is given too, it begins with that order. Numbers
    /// by value, else by bytes, documents without the field last. Ids and results do not change
    #[arg(long, value_name = "FIELD")]
    pub(crate) order_by: Option<String>,
    /// What happens with malformed records and ids seen before
    #[arg(long, value_enum, default_value = "stop")]
    on_error: OnErrorChoice,
    /// Memory for postings in the making, and then for `--reorder`, e.g. 500M or 4G [default: a quarter of the machine's]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory: Option<usize>,
    #[command(flatten)]
    threads: Threads,
    /// No progress bar, no summary
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl Reading {
    pub(crate) fn config(&self) -> BuildConfig {
        let mut config = BuildConfig {
            threads: self.threads.get(),
            reorder: self.reorder,
            on_error: match self.on_error {
                OnErrorChoice::Stop => OnError::Stop,
                OnErrorChoice::Skip => OnError::Skip,
            },
            reader: ReaderConfig {
                format: self.format,
                static_field: self.static_field.clone(),
                order_field: self.order_by.clone(),
                ..ReaderConfig::default()
            },
            ..BuildConfig::default()
        };
        config.memory = self.memory.unwrap_or(config.memory);
        config
    }
}

/// Reads 500M, 4G, 1048576.
pub(crate) fn parse_bytes(text: &str) -> Result<usize, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let bad = || format!("`{text}` is not a size; try 500M or 4G");
    let value: f64 = number.parse().map_err(|_| bad())?;
    let shift = match text[number.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        unit => return Err(format!("unit `{unit}` is not one of K, M, G, T")),
    };
    let bytes = value * (1u64 << shift) as f64;
    if (1.0..=9e15).contains(&bytes) {
        Ok(bytes as usize)
    } else {
        Err(format!("{text} is out of range"))
    }
}

/// Reads a part of 1.
fn parse_share(text: &str) -> Result<f64, String> {
    let share: Option<f64> = text.parse().ok();
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("`{text}` is not a number from 0 to 1"))
}

/// Which engine answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineChoice {
    /// The algorithm that suits each query.
    Auto,
    /// One algorithm for all queries.
    Cpu(Algorithm),
    /// The slow judge of all others.
    Reference,
    /// AND on compressed lists, on a GPU.
    Intersect,
    /// Every posting scored, on a GPU.
    Exhaustive,
}

impl EngineChoice {
    pub(crate) fn names() -> Vec<&'static str> {
        Self::on_cpu().into_iter().chain(["intersect", "exhaustive"]).collect()
    }

    /// As it is asked for.
    pub(crate) fn name(self) -> &'static str {
        match self {
            EngineChoice::Auto => "auto",
            EngineChoice::Reference => "reference",
            EngineChoice::Intersect => "intersect",
            EngineChoice::Exhaustive => "exhaustive",
            EngineChoice::Cpu(algorithm) => algorithm.name(),
        }
    }

    /// Those that need no GPU.
    pub(crate) fn on_cpu() -> Vec<&'static str> {
        ["auto", "reference"].into_iter().chain(Algorithm::NAMES).collect()
    }
}

impl FromStr for EngineChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "auto" => Ok(EngineChoice::Auto),
            "reference" => Ok(EngineChoice::Reference),
            "intersect" => Ok(EngineChoice::Intersect),
            "exhaustive" => Ok(EngineChoice::Exhaustive),
            name => name.parse().map(EngineChoice::Cpu),
        }
    }
}

/// How documents are ranked.
#[derive(Args, Clone, Default)]
pub(crate) struct RankingChoice {
    /// Ranking function [default: bm25, or impact for an index of vectors]
    #[arg(long, value_parser = PossibleValuesParser::new(RankingFunction::NAMES))]
    rank: Option<String>,
    /// Parameter of bm25, okapi and wakatsuki: how slowly frequency saturates [default: 0.9, or the index's if quantized]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    k1: Option<f64>,
    /// Parameter of bm25, okapi and wakatsuki: how much length counts, 0 to 1 [default: 0.4, or the index's if quantized]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    b: Option<f64>,
    /// Factor of the documents' static scores, which are added
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    static_weight: f64,
}

impl RankingChoice {
    /// The ranking asked for, else the one that suits the index.
    pub(crate) fn get(&self, manifest: &Manifest) -> Result<Ranking, Failure> {
        let suited = Ranking::suited(manifest).function;
        let name = self.rank.as_deref().unwrap_or(suited.name());
        let mut function: RankingFunction = name.parse().map_err(Failure::user)?;
        if name == suited.name() {
            function = suited;
        }
        match &mut function {
            RankingFunction::Bm25 { k1, b }
            | RankingFunction::Okapi { k1, b }
            | RankingFunction::Wakatsuki { k1, b } => {
                *k1 = self.k1.unwrap_or(*k1);
                *b = self.b.unwrap_or(*b);
            }
            RankingFunction::Cosine | RankingFunction::Impact => {
                if self.k1.is_some() || self.b.is_some() {
                    return Err(Failure::user(format!(
                        "ranking `{name}` takes neither --k1 nor --b"
                    )));
                }
            }
        }
        Ok(Ranking { function, static_weight: self.static_weight })
    }
}

/// What holds for every way to answer; `bench queries` has it without mode and algorithm, of which it takes several.
#[derive(Args, Clone, Default)]
pub(crate) struct Answering {
    #[command(flatten)]
    pub(crate) ranking: RankingChoice,
    /// Documents in a tile, for the algorithm `cohort` [default: 131072, fewer for one query; 262144 on a GPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tile: Option<u32>,
    /// Count all matching documents too, exactly
    #[arg(long)]
    pub(crate) count: bool,
}

/// Where queries are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Place {
    /// On the processor
    #[default]
    Cpu,
    /// On a GPU; it is an error if there is none
    Cuda,
    /// On a GPU if there is one that the index fits, else on the processor, also when the GPU fails on the way; few short queries too, which take
    /// longer on a GPU. Says which
    Auto,
    /// On the processor and the GPU together, each its share (see `--split`); it is an error if there is no GPU
    Both,
}

/// What machines that answer together share out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Split {
    /// The documents: each answers every query for its own part of the index, and only that is copied to it
    #[default]
    Documents,
    /// The queries of a batch: each has all of the index. The processor takes short ones, and is not waited for
    Queries,
}

/// Where queries are answered, and with what.
#[derive(Args, Clone, Default)]
pub(crate) struct DeviceChoice {
    /// Where queries are answered; all give the same hits. The index is copied to the GPU first
    #[arg(long, value_enum, default_value_t)]
    pub(crate) device: Place,
    /// Number of the GPU (see `warpseek devices`)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) gpu: u32,
    /// Numbers of several GPUs that answer together, e.g. 0,1; one may be named twice
    #[arg(long, value_name = "N,N", value_delimiter = ',', conflicts_with = "gpu")]
    pub(crate) gpus: Vec<u32>,
    /// What several GPUs, or the processor and GPUs, share out
    #[arg(long, value_enum, default_value_t)]
    pub(crate) split: Split,
    /// The processor's part of the documents with `--device both`, 0 to 1 [default: what it is done with as soon as the GPU is, which is
    /// measured; 0 if it would be no help]
    #[arg(long, value_name = "X", value_parser = parse_share)]
    pub(crate) host_share: Option<f64>,
    /// The processor's threads for its share with `--device both` [default: three fewer than all, which are left to planning, to results and to
    /// the GPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) host_threads: Option<u16>,
    /// Postings from which on a batch is a GPU's with `--device auto`; 0 is all batches [default: those estimated to take longer on
    /// the processor]
    #[arg(long, value_name = "N")]
    pub(crate) gpu_from: Option<u64>,
    /// Memory to use of the GPU at most, e.g. 8G [default: all]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub(crate) gpu_memory: Option<usize>,
}

impl DeviceChoice {
    /// The GPUs, if any are to be used, and, where we may choose, why there are none.
    pub(crate) fn open(&self) -> Result<(Vec<Device>, Option<String>), Failure> {
        if self.device == Place::Cpu {
            return Ok((Vec::new(), None));
        }
        let open = |&number: &u32| Device::open(number, self.gpu_memory.map(|bytes| bytes as u64));
        let numbers = if self.gpus.is_empty() { &[self.gpu][..] } else { &self.gpus };
        match numbers.iter().map(open).collect::<Result<Vec<_>, _>>() {
            Ok(devices) => Ok((devices, None)),
            Err(error) if self.device == Place::Auto => Ok((Vec::new(), Some(error.to_string()))),
            Err(error) => Err(error.into()),
        }
    }
}

/// How `wand` and `maxscore` go about it on a GPU.
#[derive(Args, Clone, Default)]
pub(crate) struct PruningChoice {
    /// On a GPU, how `wand` and `maxscore` cut a query: by ranges of documents, or in equal shares of every list, which is approximate
    #[arg(long, value_name = "KIND", value_parser = named::<Partitioning>(Partitioning::NAMES.to_vec()))]
    partition: Option<Partitioning>,
    /// Postings of the longest list in a partition [default: 128]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    partition_size: Option<u32>,
    /// Partitions that a block of threads takes [default: as many as leave the GPU filled]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    partitions_per_block: Option<u32>,
    /// How blocks of threads tell each other what score a hit must exceed [default: safe-read]
    #[arg(long, value_name = "POLICY", value_parser = named::<Threshold>(Threshold::NAMES.to_vec()))]
    threshold: Option<Threshold>,
    /// Queries of a batch each over many blocks of threads and several in flight, or one block each in one launch [default: async]
    #[arg(long, value_name = "KIND", value_parser = named::<Batch>(Batch::NAMES.to_vec()))]
    batch: Option<Batch>,
    /// How lists are compressed on the GPU for `wand` and `maxscore` [default: bitpack]
    #[arg(long, value_name = "NAME", value_parser = named::<CodecId>(CODECS.map(CodecId::name).to_vec()))]
    gpu_codec: Option<CodecId>,
}

impl PruningChoice {
    /// Whether nothing was asked for.
    pub(crate) fn is_empty(&self) -> bool {
        let PruningChoice {
            partition,
            partition_size,
            partitions_per_block,
            threshold,
            batch,
            gpu_codec,
        } = self;
        partition.is_none()
            && partition_size.is_none()
            && partitions_per_block.is_none()
            && threshold.is_none()
            && batch.is_none()
            && gpu_codec.is_none()
    }

    /// What was asked for, for an algorithm.
    pub(crate) fn settings(&self, pruning: Pruning) -> PartitionSettings {
        let usual = PartitionSettings::default();
        PartitionSettings {
            pruning,
            partitioning: self.partition.unwrap_or(usual.partitioning),
            partition_size: self.partition_size,
            per_block: self.partitions_per_block,
            threshold: self.threshold.unwrap_or(usual.threshold),
            batch: self.batch.unwrap_or(usual.batch),
            codec: self.gpu_codec.unwrap_or(usual.codec),
            ..usual
        }
    }
}

/// How queries are answered; for `search` and `run`.
#[derive(Args, Clone)]
pub(crate) struct Searching {
    /// Which documents match: with any term, with all, or with all unless that gives fewer than k
    #[arg(long, value_parser = named::<Mode>(Mode::NAMES), default_value = "or")]
    pub(crate) mode: Mode,
    /// How queries are answered; all give the same hits. A GPU has `auto`, `exhaustive`, `wand`, `maxscore`, `cohort` and, for AND, `intersect`; the others are the processor's
    #[arg(long, value_name = "NAME", default_value = "auto",
        value_parser = named::<EngineChoice>(EngineChoice::names()))]
    pub(crate) algorithm: EngineChoice,
    /// Queries that share what they read, for the algorithm `cohort` on a GPU [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_COHORT as i64))]
    pub(crate) cohort: Option<u16>,
    #[command(flatten)]
    pub(crate) device: DeviceChoice,
    #[command(flatten)]
    pub(crate) pruning: PruningChoice,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

impl Searching {
    /// How a GPU prunes, where the algorithm is one of those that do on partitions.
    pub(crate) fn gpu_pruning(&self) -> Option<PartitionSettings> {
        match self.algorithm {
            EngineChoice::Cpu(Algorithm::Wand) => Some(self.pruning.settings(Pruning::Wand)),
            EngineChoice::Cpu(Algorithm::MaxScore) => {
                Some(self.pruning.settings(Pruning::MaxScore))
            }
            _ => None,
        }
    }
}

impl Default for Searching {
    fn default() -> Self {
        let answering = Answering::default();
        let device = DeviceChoice::default();
        let (pruning, cohort) = (PruningChoice::default(), None);
        let (mode, algorithm) = (Mode::Or, EngineChoice::Auto);
        Searching { mode, algorithm, cohort, device, pruning, answering }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn shares() {
        assert_eq!(parse_share("0.25"), Ok(0.25));
        for bad in ["", "-0.1", "1.1", "nan", "half"] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_bytes("500M"), Ok(500 << 20));
        assert_eq!(parse_bytes("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse_bytes("12"), Ok(12));
        for bad in ["", "M", "5Q", "-1", "1e99"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }
}
