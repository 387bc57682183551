//! The list of commands, and the arguments that several of them share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Arg, ArgAction, Args, Command, CommandFactory, Parser, Subcommand, ValueEnum};
use warpseek::query::Node;
use warpseek::{
    Algorithm, Analyzer, BuildDevice, CodecId, Content, DeviceChoice, FieldNames, Format,
    GPU_CODECS, GpuLists, Index, IndexOptions, MAX_COHORT, Mode, Notice, OnError, PartitionBatch,
    PartitionSettings, Partitioning, QueryInput, Schema, Searcher, SearcherOptions, Split,
    Threshold, Tuning,
};
use warpseek_console::options::{RankingChoice, Threads, algorithms, named, parse_bytes};
use warpseek_console::{Failure, terminal};
use warpseek_server::{LogFormat, flush_log, start_log};

use crate::verbs;

/// Exact text search: index, search, evaluate.
///
/// Every engine and device returns the same hits, in the same order, with the same scores.
#[derive(Parser)]
#[command(name = "warpseek", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  warpseek quickstart                         try it on text that is on this machine
  warpseek index docs.jsonl -o idx            build an index
  warpseek search idx \"inverted index\"        search it
  warpseek run idx --queries q.tsv -o r.trec  answer a file of queries
  warpseek eval --qrels q.tsv --run r.trec    judge the answers
  warpseek ngram index docs.jsonl -o grams    an index for phrases that are misspelt

Exit codes: 0 success, 1 something broke, 2 wrong arguments or input, 130 interrupted.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The heading of settings that few users need.
const RESEARCH: &str = "Research settings";

/// The command line. `-h` shows what most users need; `--help` shows all options as closely set, without the research settings, which docs/reference/study-settings.md has.
pub(crate) fn command() -> Command {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let of_verb = arguments.len() > 1 && arguments[0] == "help";
    match of_verb || arguments.iter().any(|argument| argument == "--help") {
        true => complete(Cli::command()),
        false => Cli::command(),
    }
}

/// A command whose help is complete: the short form, which has no blank lines between options, of everything.
fn complete(command: Command) -> Command {
    let about = command.get_long_about().or(command.get_about()).cloned();
    let after = command.get_after_long_help().or(command.get_after_help()).cloned();
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
    let command = command
        .disable_help_flag(true)
        .mut_args(|arg| {
            let hidden = arg.is_hide_set()
                || arg.get_help_heading() == Some(RESEARCH) && arg.get_id() != "algorithm";
            arg.hide_short_help(false).hide(hidden)
        })
        .arg(help.help("Print help; -h prints less"))
        .mut_subcommands(complete);
    let command = match about {
        Some(about) => command.about(about),
        None => command,
    };
    match after {
        Some(after) => command.after_help(after),
        None => command,
    }
}

/// The commands; each has a file of its own under `verbs`.
#[derive(Subcommand)]
pub(crate) enum Verb {
    Index(verbs::index::Options),
    Schema(verbs::schema::Options),
    Add(verbs::add::Options),
    Delete(verbs::delete::Options),
    Write(verbs::write::Options),
    Merge(verbs::merge::Options),
    Search(verbs::search::Options),
    Run(verbs::run::Options),
    Eval(verbs::eval::Options),
    Ngram(verbs::ngram::Options),
    Dictionary(verbs::dictionary::Options),
    Weights(verbs::weights::Options),
    Bench(warpseek_bench::Options),
    Plan(verbs::plan::Options),
    Serve(verbs::serve::Options),
    Cluster(verbs::cluster::Options),
    Node(verbs::node::Options),
    Aggregate(verbs::aggregate::Options),
    Verify(verbs::verify::Options),
    Inspect(verbs::inspect::Options),
    Calibrate(verbs::calibrate::Options),
    Devices(verbs::devices::Options),
    Synth(verbs::synth::Options),
    Quickstart(verbs::quickstart::Options),
    Completions(verbs::completions::Options),
    Man(verbs::man::Options),
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum OnErrorChoice {
    /// Stop and change nothing
    Stop,
    /// Leave bad records out; they are counted and reported
    Skip,
}

/// The fields of the input that have a meaning, by their names; for `index`, `add` and their namesakes, and for `schema`.
#[derive(Args)]
pub(crate) struct Names {
    /// Field of the input that has the id; dots lead into objects. The document is stored with `id` [default: id, or _id]
    #[arg(long, value_name = "FIELD")]
    pub(crate) id_field: Option<String>,
    /// Field of the input that has the title [default: title]
    #[arg(long, value_name = "FIELD")]
    title_field: Option<String>,
    /// Field of the input that has the text, e.g. body or article.abstract; may be repeated, and all of them are then the
    /// text, one below the other. With a schema, name it there [default: text, or contents]
    #[arg(long, value_name = "FIELD")]
    text_field: Vec<String>,
}

impl Names {
    pub(crate) fn get(&self) -> FieldNames {
        FieldNames {
            id: self.id_field.clone(),
            title: self.title_field.clone(),
            text: self.text_field.clone(),
        }
    }
}

/// Which documents are read; for `index`, `add` and their namesakes of `ngram`.
#[derive(Args)]
pub(crate) struct Inputs {
    /// Files or directories to read; `-` is standard input. Files that end in .gz or .zst are decompressed
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Format of all inputs [default: from the file name; a file below a directory whose name tells none is one document]
    #[arg(long, value_parser = named::<Format>(Format::NAMES.to_vec()))]
    format: Option<Format>,
    #[command(flatten)]
    names: Names,
    /// What to do with malformed records and duplicate ids
    #[arg(long, value_enum, default_value = "stop")]
    on_error: OnErrorChoice,
    /// Memory for the postings during the build, and for finding an order of documents, e.g. 500M or 4G [default: a
    /// quarter of the memory of the machine or container]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory: Option<usize>,
    #[command(flatten)]
    threads: Threads,
    /// Do not show a progress bar or a summary
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl Inputs {
    pub(crate) fn options(&self) -> IndexOptions {
        let mut options =
            IndexOptions::new().threads(self.threads.get()).on_error(self.on_error.get());
        if let Some(format) = self.format {
            options = options.format(format);
        }
        options = options.fields(self.names.get());
        match self.memory {
            Some(bytes) => options.memory(bytes),
            None => options,
        }
    }
}

/// How terms are made and stored; for `index` and `cluster build`.
#[derive(Args)]
pub(crate) struct Terms {
    /// How text is split into terms, in documents and in queries
    #[arg(long, value_parser = named::<Analyzer>(Analyzer::NAMES.to_vec()), default_value = "english",
        conflicts_with = "schema")]
    pub(crate) analyzer: Analyzer,
    /// Compression of postings: bitpack is the fastest, rice the smallest
    #[arg(long, value_name = "NAME", default_value = "bitpack",
        value_parser = named::<CodecId>(CodecId::names()))]
    pub(crate) codec: CodecId,
}

/// How documents are read; for `index` and `add`.
#[derive(Args)]
pub(crate) struct Reading {
    #[command(flatten)]
    pub(crate) from: Inputs,
    /// JSONL field that holds a static score, a number that `--static-weight` adds to a document's score
    #[arg(long, value_name = "FIELD")]
    pub(crate) static_field: Option<String>,
    /// Reorder documents so that those with common words are adjacent (recursive graph bisection). The index is smaller
    /// and searches are faster, but the build takes longer. Ids and results do not change
    #[arg(long)]
    reorder: bool,
    /// Sort documents inside the index by this field of the input: numbers by value, other values by bytes, documents
    /// without the field last. If `--reorder` is given too, it starts from this order. Ids and results do not change
    #[arg(long, value_name = "FIELD")]
    pub(crate) order_by: Option<String>,
    /// Schema of the index, a file of JSON: text fields with statistics of their own, and attributes. `warpseek schema`
    /// makes one from documents
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    #[command(flatten)]
    build_on: BuildOn,
}

/// The device that inverts documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum BuildDeviceName {
    /// The CPU
    #[default]
    Cpu,
    /// A GPU; without one, the command fails
    Cuda,
    /// A GPU if there is one and the input is large; if it fails, the CPU goes on, and the output says so
    Auto,
}

#[derive(Args)]
#[command(next_help_heading = "Device")]
struct BuildOn {
    /// The device that splits text into words and sorts them. The index is the same, byte for byte
    #[arg(long, value_enum, default_value_t)]
    device: BuildDeviceName,
    /// Number of the GPU (see `warpseek devices`) [default: 0]
    #[arg(long, value_name = "N")]
    gpu: Option<u32>,
    /// GPU memory to use at most, e.g. 8G; with little, a build takes longer [default: all]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    gpu_memory: Option<usize>,
}

impl BuildOn {
    fn apply(&self, mut options: IndexOptions) -> Result<IndexOptions, Failure> {
        let device = match self.device {
            BuildDeviceName::Cpu => BuildDevice::Cpu,
            BuildDeviceName::Cuda => BuildDevice::Cuda,
            BuildDeviceName::Auto => BuildDevice::Auto,
        };
        if device == BuildDevice::Cpu && (self.gpu.is_some() || self.gpu_memory.is_some()) {
            let problem = "--gpu and --gpu-memory have no effect on the CPU";
            return Err(Failure::user(format!("{problem}; add --device cuda or --device auto")));
        }
        if let Some(number) = self.gpu {
            options = options.gpu(number);
        }
        if let Some(bytes) = self.gpu_memory {
            options = options.gpu_memory(bytes as u64);
        }
        Ok(options.device(device))
    }
}

impl Reading {
    pub(crate) fn options(&self) -> Result<IndexOptions, Failure> {
        let mut options = self.build_on.apply(self.from.options().reorder(self.reorder))?;
        if let Some(field) = &self.static_field {
            options = options.static_field(field);
        }
        if let Some(field) = &self.order_by {
            options = options.order_by(field);
        }
        if let Some(path) = &self.schema {
            options = options.schema(read_schema(path)?);
        }
        Ok(options)
    }
}

/// Reads a schema; what is wrong with it is told with its file.
fn read_schema(path: &Path) -> Result<Schema, Failure> {
    let named =
        |problem: &dyn std::fmt::Display| Failure::user(format!("{}: {problem}", path.display()));
    let json = std::fs::read_to_string(path).map_err(|error| named(&error))?;
    Schema::parse(&json).map_err(|error| named(&error))
}

impl OnErrorChoice {
    pub(crate) fn get(self) -> OnError {
        match self {
            OnErrorChoice::Stop => OnError::Stop,
            OnErrorChoice::Skip => OnError::Skip,
        }
    }
}

/// Parses a number from 0 to 1.
pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    let share: Option<f64> = text.parse().ok();
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("`{text}` is not a number from 0 to 1"))
}

/// Parses a time: 50ms, 1.5s, 800us. Without a unit it is in milliseconds.
fn parse_time(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[number.len()..] {
        "" | "ms" => 1e-3,
        "us" => 1e-6,
        "s" => 1.0,
        unit => return Err(format!("unit `{unit}` is not one of us, ms, s")),
    };
    let seconds: Option<f64> = number.parse().ok().map(|n: f64| n * scale);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("`{text}` is not a time; try 50ms or 1.5s"))
}

/// What a query asks for.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Query")]
pub(crate) struct QueryChoice {
    /// Which documents match: those with any term (or), with all terms (and), or with all terms unless these are fewer
    /// than k (and-or)
    #[arg(long, value_parser = named::<Mode>(Mode::NAMES), default_value = "or")]
    pub(crate) mode: Mode,
    /// Also count all matching documents, exactly
    #[arg(long)]
    pub(crate) count: bool,
    /// Only search among documents whose ids are in this file, one per line; scores stay the same, and ids that the
    /// index does not have are ignored
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    among: Option<PathBuf>,
    /// Only search among documents that match this query, e.g. "year:>=2020 tag:(a b)"; scores stay the same
    #[arg(long, value_name = "QUERY", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Read queries with signs, fields, parentheses and conditions also if the index has neither a schema nor positions,
    /// as those with one of the two are (docs/reference/query-syntax.md)
    #[arg(long)]
    syntax: bool,
    /// Read queries as words, with nothing special about signs, also if the index has a schema or positions: for questions as people write them
    #[arg(long, conflicts_with = "syntax", hide_short_help = true)]
    words: bool,
}

impl QueryChoice {
    /// A query as the index reads it: in the syntax if the index has a schema or positions, unless the user wants it otherwise.
    pub(crate) fn input(&self, searcher: &Searcher, text: &str) -> QueryInput {
        let snapshot = searcher.snapshot();
        let manifest = snapshot.manifest();
        let usual = manifest.schema.is_some() || manifest.positions;
        match self.syntax || (usual && !self.words) {
            true => QueryInput::Expression(text.to_owned()),
            false => {
                if !self.words && manifest.content != Content::Vector {
                    self.note_signs(text);
                }
                QueryInput::Text(text.to_owned())
            }
        }
    }

    /// Says once that a query has signs that are read as words.
    fn note_signs(&self, text: &str) {
        static SAID: AtomicBool = AtomicBool::new(false);
        let Some(sign) = warpseek::query::sign(text) else { return };
        if !SAID.swap(true, Ordering::Relaxed) {
            terminal::note(format!(
                "`{sign}` is read as words, since the index has neither a schema nor positions; --syntax reads signs such as + and - (fields need a schema, phrases --positions), and --words omits this note"
            ));
        }
    }

    /// The tree that hits must match, if there is one.
    pub(crate) fn filter(&self, searcher: &Searcher) -> Result<Option<Arc<Node>>, Failure> {
        let parse = |text: &String| Ok(Arc::new(searcher.parse(text)?));
        self.filter.as_ref().map(parse).transpose()
    }

    /// The same as the user wrote it.
    pub(crate) fn filter_text(&self) -> Option<String> {
        self.filter.clone()
    }

    /// The ids that hits may have, if not all.
    pub(crate) fn ids(&self) -> Result<Option<Arc<[String]>>, Failure> {
        let Some(path) = &self.among else { return Ok(None) };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::user(format!("{}: {error}", path.display())))?;
        let ids: Arc<[String]> =
            text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        if ids.is_empty() {
            return Err(Failure::user(format!(
                "{}: there are no ids; the file has one per line",
                path.display()
            )));
        }
        Ok(Some(ids))
    }
}

/// The device that answers queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceName {
    /// The CPU
    #[default]
    Cpu,
    /// A GPU; without one, the command fails
    Cuda,
    /// The GPU or the CPU, whichever is estimated to be faster; the CPU if there is no GPU, or if it fails. The output says
    /// which one answered
    Auto,
    /// The CPU and the GPU together (see `--split`); without a GPU, the command fails
    Both,
}

/// What is divided among devices that answer together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SplitName {
    /// The documents: each device answers every query over its own part of the index, and only that part is copied to
    /// it
    #[default]
    Documents,
    /// The queries of a batch: each device holds the whole index. The CPU takes short queries, and the GPUs do not wait
    /// for it
    Queries,
}

/// The device that answers queries, and what it may use.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceOptions {
    /// The device that answers queries: cuda is a GPU, auto the faster one, both share the work. All return the same hits
    #[arg(long, value_enum, default_value_t)]
    pub(crate) device: DeviceName,
    /// Number of the GPU (see `warpseek devices`) [default: 0]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) gpu: Option<u32>,
    /// Numbers of several GPUs that answer together, e.g. 0,1; a number may be repeated
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        conflicts_with = "gpu",
        hide_short_help = true
    )]
    pub(crate) gpus: Vec<u32>,
    /// GPU memory to use at most, e.g. 8G [default: all]. An index with less room is answered as well, more slowly: lists
    /// then come when queries need them
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    pub(crate) gpu_memory: Option<usize>,
    /// Lists in GPU memory: as tiles, ready to be searched (about 11 bytes a posting); compact, as they are on disk (about 2);
    /// on-demand, nothing before a query needs it; auto is tiles if they have room, else compact [default: auto; on-demand for
    /// a single query]
    #[arg(long, value_name = "FORM", hide_short_help = true, value_parser = named::<GpuLists>(GpuLists::NAMES.to_vec()))]
    pub(crate) gpu_lists: Option<GpuLists>,
    /// What is divided among several GPUs, or the CPU and GPUs: documents, each with its part of the index, or the queries of
    /// a batch
    #[arg(long, value_enum, default_value_t, hide_short_help = true)]
    pub(crate) split: SplitName,
    /// Read the index into memory instead of mapping its files. Opening it is slower, but a file that is truncated
    /// during the search cannot crash the process
    #[arg(long, hide_short_help = true)]
    pub(crate) no_mmap: bool,
}

/// Settings for studies and measurements. Hits do not depend on them, unless the description says so.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = RESEARCH)]
pub(crate) struct ResearchOptions {
    /// Query algorithm; all of them return the same hits. A GPU supports `auto`, `exhaustive`, `wand`, `maxscore`,
    /// `cohort` and, for AND, `intersect`; the others run on the CPU
    #[arg(long, value_name = "NAME", default_value = "auto", hide_short_help = true,
        value_parser = algorithms(Algorithm::names()))]
    pub(crate) algorithm: Algorithm,
    /// Documents per tile, for the algorithm `cohort` [default: 131072, fewer for a single query; 262144 on a GPU]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tile: Option<u32>,
    /// Queries in a cohort, which share what they read, for the algorithm `cohort` on a GPU [default: 1024]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u16).range(1..=MAX_COHORT as i64))]
    cohort: Option<u16>,
    /// The CPU's share of the documents with `--device both`, 0 to 1 [default: measured, such that the CPU and the GPU
    /// finish together; 0 if the CPU would not help]
    #[arg(long, value_name = "X", hide_short_help = true, value_parser = parse_share)]
    host_share: Option<f64>,
    /// CPU threads for the CPU's share with `--device both` [default: all but three, which are left for planning,
    /// results and the GPU]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u16).range(1..=1024))]
    host_threads: Option<u16>,
    /// With `--device auto`, send batches of at least this many postings to the GPU whatever the estimate says; 0 sends
    /// all of them
    #[arg(long, value_name = "N", hide_short_help = true)]
    gpu_from: Option<u64>,
    /// How `wand` and `maxscore` partition a query on a GPU: by ranges of documents, or by equal shares of every list,
    /// which is approximate
    #[arg(long, value_name = "KIND", hide_short_help = true, value_parser = named::<Partitioning>(Partitioning::NAMES.to_vec()))]
    partition: Option<Partitioning>,
    /// Postings of the longest list in a partition [default: 128]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    partition_size: Option<u32>,
    /// Partitions per block of threads [default: as many as keep the GPU filled]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    partitions_per_block: Option<u32>,
    /// How blocks of threads share the score that a hit must exceed [default: safe-read]
    #[arg(long, value_name = "POLICY", hide_short_help = true, value_parser = named::<Threshold>(Threshold::NAMES.to_vec()))]
    threshold: Option<Threshold>,
    /// How a batch runs: each query on many blocks of threads with several queries in flight (async), or each query on
    /// one block, all in one launch (sync) [default: async]
    #[arg(long, value_name = "KIND", hide_short_help = true, value_parser = named::<PartitionBatch>(PartitionBatch::NAMES.to_vec()))]
    batch: Option<PartitionBatch>,
    /// Compression of lists on the GPU for `wand` and `maxscore` [default: bitpack]
    #[arg(long, value_name = "NAME", hide_short_help = true, value_parser = named::<CodecId>(GPU_CODECS.map(CodecId::name).to_vec()))]
    gpu_codec: Option<CodecId>,
}

impl ResearchOptions {
    /// Settings of partitions, if any of their flags was given.
    fn partitions(&self) -> Option<PartitionSettings> {
        let asked = self.partition.is_some()
            || self.partition_size.is_some()
            || self.partitions_per_block.is_some()
            || self.threshold.is_some()
            || self.batch.is_some()
            || self.gpu_codec.is_some();
        let usual = PartitionSettings::default();
        asked.then(|| PartitionSettings {
            partitioning: self.partition.unwrap_or(usual.partitioning),
            partition_size: self.partition_size,
            per_block: self.partitions_per_block,
            threshold: self.threshold.unwrap_or(usual.threshold),
            batch: self.batch.unwrap_or(usual.batch),
            codec: self.gpu_codec.unwrap_or(usual.codec),
            ..usual
        })
    }
}

/// How queries are answered; for `search` and `run`.
#[derive(Args, Clone, Default)]
pub(crate) struct Searching {
    #[command(flatten)]
    pub(crate) query: QueryChoice,
    #[command(flatten)]
    pub(crate) ranking: RankingChoice,
    #[command(flatten)]
    pub(crate) device: DeviceOptions,
    #[command(flatten)]
    pub(crate) research: ResearchOptions,
}

impl Searching {
    /// The options for the library.
    pub(crate) fn options(
        &self,
        index: &Index,
        threads: usize,
    ) -> Result<SearcherOptions, Failure> {
        let (device, research) = (&self.device, &self.research);
        let gpus = match device.gpus.is_empty() {
            true => vec![device.gpu.unwrap_or(0)],
            false => device.gpus.clone(),
        };
        let asked = device.gpu.is_some()
            || !device.gpus.is_empty()
            || device.gpu_memory.is_some()
            || device.gpu_lists.is_some();
        if asked && device.device == DeviceName::Cpu {
            let problem = "--gpu, --gpus, --gpu-memory and --gpu-lists have no effect on the CPU";
            return Err(Failure::user(format!("{problem}; add `--device cuda`")));
        }
        let tuning = Tuning {
            tile: research.tile,
            cohort: research.cohort.map(usize::from),
            partitions: research.partitions(),
            gpu_lists: device.gpu_lists.unwrap_or_default(),
        };
        let manifest = index.manifest()?;
        if self.ranking.static_weight() > 0.0
            && manifest.static_field.is_none()
            && !index.snapshot()?.has_statics()
        {
            let problem = "--static-weight has no effect on an index without static scores";
            return Err(Failure::user(format!(
                "{problem}; name their field when documents are added (--static-field)"
            )));
        }
        let mut options = SearcherOptions::new()
            .ranking(self.ranking.get(&manifest)?)
            .algorithm(research.algorithm)
            .device(match device.device {
                DeviceName::Cpu => DeviceChoice::Cpu,
                DeviceName::Cuda => DeviceChoice::Cuda,
                DeviceName::Auto => DeviceChoice::Auto,
                DeviceName::Both => DeviceChoice::Both,
            })
            .gpus(gpus)
            .split(match device.split {
                SplitName::Documents => Split::Documents,
                SplitName::Queries => Split::Queries,
            })
            .mmap(!device.no_mmap)
            .threads(threads)
            .tuning(tuning)
            .on_notice(|notice| match notice {
                // The error that follows reports it.
                Notice::GpuLost { cpu_answers: false, .. } => {}
                notice => terminal::note(notice),
            });
        if let Some(share) = research.host_share {
            options = options.host_share(share);
        }
        if let Some(threads) = research.host_threads {
            options = options.host_threads(threads.into());
        }
        if let Some(postings) = research.gpu_from {
            options = options.gpu_from(postings);
        }
        if let Some(bytes) = device.gpu_memory {
            options = options.gpu_memory(bytes as u64);
        }
        Ok(options)
    }
}

impl Searching {
    /// The same for one query: if nothing else was asked for, a GPU gets only what that needs.
    pub(crate) fn for_one(&self) -> Self {
        let mut one = self.clone();
        let usual = matches!(self.research.algorithm, Algorithm::Auto | Algorithm::Exhaustive);
        if usual && matches!(self.device.device, DeviceName::Cuda | DeviceName::Auto) {
            one.device.gpu_lists.get_or_insert(GpuLists::OnDemand);
        }
        one
    }
}

/// The time limit of a search.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Query")]
pub(crate) struct Deadline {
    /// Stop after this time, e.g. 5ms or 1.5s (a bare number is milliseconds), and return the best hits found so far. The output says how much of the
    /// index was searched
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) deadline: Option<Duration>,
}

/// How a program that serves writes its log.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogChoice {
    /// Lines for people
    Pretty,
    /// An object a line
    Json,
}

impl LogChoice {
    /// As settings have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LogChoice::Pretty => "pretty",
            LogChoice::Json => "json",
        }
    }

    /// Writes a log as long as the work takes.
    pub(crate) fn during<T>(self, work: impl FnOnce() -> T) -> T {
        start_log(match self {
            LogChoice::Pretty => LogFormat::Pretty,
            LogChoice::Json => LogFormat::Json,
        });
        let done = work();
        flush_log();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_definitions_are_valid() {
        Cli::command().debug_assert();
        complete(Cli::command()).debug_assert();
    }

    #[test]
    fn shares_are_parsed() {
        assert_eq!(parse_share("0.25"), Ok(0.25));
        for bad in ["", "-0.1", "1.1", "nan", "half"] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_parsed_with_and_without_units() {
        let all = ["5", "5ms", "0.005s", "5000us"].map(parse_time);
        assert!(all.iter().all(|time| *time == Ok(Duration::from_millis(5))), "{all:?}");
        for bad in ["", "ms", "-1", "1h", "nan", "1e99s"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }

    /// Most users need query, ranking, output and device options. The long help has all but research settings, and both leave these to the documentation.
    #[test]
    fn help_is_short_and_complete_help_is_not_long() {
        let help = |mut cli: Command, verb: &str| {
            let verb = cli.find_subcommand_mut(verb).map(|verb| verb.render_help().to_string());
            verb.unwrap_or_default()
        };
        for (verb, short_lines, long_lines) in [("search", 60, 120), ("run", 65, 125)] {
            let (short, long) = (help(Cli::command(), verb), help(complete(Cli::command()), verb));
            for heading in ["Query:", "Ranking:", "Device:", "Output:", "Examples:"] {
                assert!(short.contains(heading) && long.contains(heading), "{heading} in {short}");
            }
            assert!(!short.contains("--gpu-lists") && long.contains("--gpu-lists"), "{long}");
            let partition = "--partition <";
            assert!(!short.contains(partition) && !long.contains(partition), "{long}");
            assert!(
                long.contains("--algorithm") && long.contains("docs/reference/study-settings.md"),
                "{long}"
            );
            let lines = |help: &str| help.lines().count();
            assert!(lines(&short) <= short_lines, "{} lines: {short}", lines(&short));
            assert!(lines(&long) <= long_lines, "{} lines: {long}", lines(&long));
        }
    }
}
