//! The list of commands, and the options that several commands share.

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

/// Exact text search on CPUs and GPUs.
///
/// All engines and devices return the same hits, in the same order, with the same scores.
#[derive(Parser)]
#[command(name = "warpseek", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  warpseek quickstart                         try it on text from this machine
  warpseek index docs.jsonl -o idx            build an index
  warpseek search idx \"inverted index\"        search it
  warpseek run idx --queries q.tsv -o r.trec  answer a file of queries
  warpseek eval --qrels q.tsv --run r.trec    measure the quality of the answers
  warpseek ngram index docs.jsonl -o grams    build an index that finds misspelt phrases

Exit codes: 0 success, 1 failure, 2 invalid arguments or input, 130 interrupted.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The heading of settings that few users need.
const RESEARCH: &str = "Research settings";

/// Returns the command line parser. `-h` shows what most users need. `--help` shows all options in
/// the same compact layout, except the research settings: docs/reference/study-settings.md
/// describes those.
pub(crate) fn command() -> Command {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let is_help_verb = arguments.len() > 1 && arguments[0] == "help";
    match is_help_verb || arguments.iter().any(|argument| argument == "--help") {
        true => complete(Cli::command()),
        false => Cli::command(),
    }
}

/// Makes the help of a command and its subcommands complete. It shows all options in the short
/// layout, which has no blank lines between options.
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
        .arg(help.help("Print help (-h prints a shorter one)"))
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

/// The commands. Each has its file in `verbs`.
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
    /// Skip bad records, and report them and their number
    Skip,
}

/// Names of the input fields that have a special meaning, for commands that read documents.
#[derive(Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct Names {
    /// Field with the id; dots lead into objects. The stored document calls it `id` [default: id or
    /// _id]
    #[arg(long, value_name = "FIELD")]
    pub(crate) id_field: Option<String>,
    /// Field with the title [default: title]
    #[arg(long, value_name = "FIELD")]
    title_field: Option<String>,
    /// Field with the text, e.g. body or article.abstract. If repeated, the texts are joined. A
    /// schema names its own text fields [default: text or contents]
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

/// The documents to read, for `index`, `add`, `ngram index` and `ngram add`.
#[derive(Args)]
pub(crate) struct Inputs {
    /// Files or directories to read; `-` is standard input. Files ending in .gz or .zst are
    /// decompressed
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Format of all inputs [default: from the file name; in a directory, a file of another type is
    /// one document]
    #[arg(long, help_heading = "Input", value_parser = named::<Format>(Format::NAMES.to_vec()))]
    format: Option<Format>,
    #[command(flatten)]
    names: Names,
    /// Stop at malformed records and duplicate ids, or skip them
    #[arg(long, value_enum, default_value = "stop", help_heading = "Input")]
    on_error: OnErrorChoice,
    /// Memory for postings during the build and for reordering documents, e.g. 500M or 4G [default:
    /// a quarter of the memory of the machine or container]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Device")]
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

/// Settings of terms, for `index`, `cluster build` and `cluster cut`.
#[derive(Args)]
#[command(next_help_heading = "Index")]
pub(crate) struct Terms {
    /// Analyzer that splits the text of documents and queries into terms
    #[arg(long, value_parser = named::<Analyzer>(Analyzer::NAMES.to_vec()), default_value = "english",
        conflicts_with = "schema")]
    pub(crate) analyzer: Analyzer,
    /// Compression of postings: bitpack is the fastest, rice the smallest
    #[arg(long, value_name = "NAME", default_value = "bitpack",
        value_parser = named::<CodecId>(CodecId::names()))]
    pub(crate) codec: CodecId,
}

/// The documents to read and the settings for reading them, for `index`, `add` and `cluster`.
#[derive(Args)]
pub(crate) struct Reading {
    #[command(flatten)]
    pub(crate) from: Inputs,
    /// Field with a static score, a number that `--static-weight` adds to the document's score
    #[arg(long, value_name = "FIELD", help_heading = "Input")]
    pub(crate) static_field: Option<String>,
    /// Place documents that share words next to each other (recursive graph bisection). The index
    /// is smaller and faster, but the build takes longer. Ids and results do not change
    #[arg(long, help_heading = "Index")]
    reorder: bool,
    /// Sort documents inside the index by this field: numbers by value, other values by bytes,
    /// documents without it last. `--reorder` starts from this order. Ids and results do not change
    #[arg(long, value_name = "FIELD", help_heading = "Index")]
    pub(crate) order_by: Option<String>,
    /// JSON file with the schema: text fields with separate statistics, and attributes. `warpseek
    /// schema` prints one for given documents
    #[arg(long, value_name = "FILE", help_heading = "Index")]
    pub(crate) schema: Option<PathBuf>,
    #[command(flatten)]
    build_on: BuildOn,
}

/// The device that analyzes and inverts documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum BuildDeviceName {
    /// The CPU
    #[default]
    Cpu,
    /// A GPU; without one, the command fails
    Cuda,
    /// A GPU if there is one and the input is large. If it fails, the CPU continues and a note says
    /// so
    Auto,
}

#[derive(Args)]
#[command(next_help_heading = "Device")]
struct BuildOn {
    /// Device that splits text into words and sorts them. The index does not depend on it
    #[arg(long, value_enum, default_value_t)]
    device: BuildDeviceName,
    /// Number of the GPU (see `warpseek devices`) [default: 0]
    #[arg(long, value_name = "N")]
    gpu: Option<u32>,
    /// Limit of GPU memory, e.g. 8G; a low limit slows the build down [default: all]
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

/// Reads a schema. Errors name its file.
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

/// Parses a time such as 50ms, 1.5s or 800us. A number without a unit means milliseconds.
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

/// The matching documents of a query.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Query")]
pub(crate) struct QueryChoice {
    /// Documents that match: those with any term (or), those with all terms (and), or those with
    /// all terms if there are at least k, otherwise with any (and-or)
    #[arg(long, value_parser = named::<Mode>(Mode::NAMES), default_value = "or")]
    pub(crate) mode: Mode,
    /// Count all matching documents exactly
    #[arg(long)]
    pub(crate) count: bool,
    /// Search only documents whose ids are in this file, one per line. Scores do not change, and
    /// unknown ids are ignored
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    among: Option<PathBuf>,
    /// Search only documents that match this query, e.g. "year:>=2020 tag:(a b)". Scores do not
    /// change
    #[arg(long, value_name = "QUERY", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Parse queries in the query syntax (docs/reference/query-syntax.md). An index with a schema
    /// or positions always does, unless --words is given
    #[arg(long)]
    syntax: bool,
    /// Read queries as plain words, without operators, for questions in natural language
    #[arg(long, conflicts_with = "syntax", hide_short_help = true)]
    words: bool,
}

impl QueryChoice {
    /// Returns a query for the index: an expression if the index has a schema or positions or the
    /// user passes `--syntax`, plain words otherwise or with `--words`.
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

    /// Prints a note, once per process, if a query has operators that are read as words.
    fn note_signs(&self, text: &str) {
        static SAID: AtomicBool = AtomicBool::new(false);
        let Some(sign) = warpseek::query::sign(text) else { return };
        if !SAID.swap(true, Ordering::Relaxed) {
            terminal::note(format!(
                "`{sign}` is read as words, because the index has neither a schema nor positions; --syntax enables operators such as + and - (fields need a schema, phrases an index with --positions), and --words silences this note"
            ));
        }
    }

    /// Parses the query of `--filter`, if it is given.
    pub(crate) fn filter(&self, searcher: &Searcher) -> Result<Option<Arc<Node>>, Failure> {
        let parse = |text: &String| Ok(Arc::new(searcher.parse(text)?));
        self.filter.as_ref().map(parse).transpose()
    }

    /// Returns the text of `--filter`, if it is given.
    pub(crate) fn filter_text(&self) -> Option<String> {
        self.filter.clone()
    }

    /// Reads the ids in the file of `--among`, if it is given.
    pub(crate) fn ids(&self) -> Result<Option<Arc<[String]>>, Failure> {
        let Some(path) = &self.among else { return Ok(None) };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::user(format!("{}: {error}", path.display())))?;
        let ids: Arc<[String]> =
            text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        if ids.is_empty() {
            return Err(Failure::user(format!(
                "{}: the file has no ids; expected one per line",
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
    /// The GPU or the CPU, whichever has the faster estimate; the CPU if there is no GPU or if it
    /// fails. The output names the device that answered
    Auto,
    /// The CPU and the GPU together (see `--split`); without a GPU, the command fails
    Both,
}

/// The division of work among devices that answer together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SplitName {
    /// Split the documents: each device answers every query over its part of the index, and GPUs
    /// hold only their parts
    #[default]
    Documents,
    /// Split the queries of a batch: each device holds the whole index. The CPU takes short
    /// queries, and GPUs do not wait for it
    Queries,
}

/// The device that answers queries, and its limits.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceOptions {
    /// Device that answers queries: cuda is a GPU, auto the faster device, both share the work. All
    /// return the same hits
    #[arg(long, value_enum, default_value_t)]
    pub(crate) device: DeviceName,
    /// Number of the GPU (see `warpseek devices`) [default: 0]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) gpu: Option<u32>,
    /// Numbers of GPUs that answer together, e.g. 0,1; a number may be repeated
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        conflicts_with = "gpu",
        hide_short_help = true
    )]
    pub(crate) gpus: Vec<u32>,
    /// Limit of GPU memory, e.g. 8G. A larger index is searched more slowly: its lists are copied
    /// when queries need them [default: all]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    pub(crate) gpu_memory: Option<usize>,
    /// Layout of lists in GPU memory: tiles, ready to be searched (about 11 bytes per posting);
    /// compact, compressed as on disk (about 2); on-demand, copied when a query needs them; auto,
    /// tiles if they fit, else compact [default: auto; on-demand for a single query]
    #[arg(long, value_name = "FORM", hide_short_help = true, value_parser = named::<GpuLists>(GpuLists::NAMES.to_vec()))]
    pub(crate) gpu_lists: Option<GpuLists>,
    /// Division of work among several GPUs, or the CPU and GPUs: by documents, where each device
    /// has its part of the index, or by queries of a batch
    #[arg(long, value_enum, default_value_t, hide_short_help = true)]
    pub(crate) split: SplitName,
    /// Read the index into memory instead of mapping its files. It opens more slowly, but a file
    /// truncated during the search cannot crash the process
    #[arg(long, hide_short_help = true)]
    pub(crate) no_mmap: bool,
}

/// Settings for studies and measurements. Hits do not depend on them, unless the description says
/// so.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = RESEARCH)]
pub(crate) struct ResearchOptions {
    /// Query algorithm. All return the same hits. GPUs support `auto`, `exhaustive`, `wand`,
    /// `maxscore`, `cohort` and, for AND, `intersect`; the others run on the CPU
    #[arg(long, value_name = "NAME", default_value = "auto", hide_short_help = true,
        value_parser = algorithms(Algorithm::names()))]
    pub(crate) algorithm: Algorithm,
    /// Documents per tile, for the algorithm `cohort` [default: 131072, fewer for a single query;
    /// 262144 on a GPU]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tile: Option<u32>,
    /// Queries in a cohort, which share what they read, for the algorithm `cohort` on a GPU
    /// [default: 1024]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u16).range(1..=MAX_COHORT as i64))]
    cohort: Option<u16>,
    /// The CPU's share of the documents with `--device both`, 0 to 1 [default: measured so that the
    /// CPU and the GPU finish together; 0 if the CPU would not help]
    #[arg(long, value_name = "X", hide_short_help = true, value_parser = parse_share)]
    host_share: Option<f64>,
    /// CPU threads for the CPU's share with `--device both` [default: all but three, which serve
    /// planning, results and the GPU]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u16).range(1..=1024))]
    host_threads: Option<u16>,
    /// Postings from which `--device auto` sends a batch to the GPU regardless of the estimate; 0
    /// sends all batches
    #[arg(long, value_name = "N", hide_short_help = true)]
    gpu_from: Option<u64>,
    /// Partitioning of a query by `wand` and `maxscore` on a GPU: by ranges of documents, or by
    /// equal shares of every list, which is approximate
    #[arg(long, value_name = "KIND", hide_short_help = true, value_parser = named::<Partitioning>(Partitioning::NAMES.to_vec()))]
    partition: Option<Partitioning>,
    /// Postings of the longest list in a partition [default: 128]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    partition_size: Option<u32>,
    /// Partitions per block of threads [default: as many as keep the GPU filled]
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    partitions_per_block: Option<u32>,
    /// Sharing, among blocks of threads, of the score that a hit must exceed [default: safe-read]
    #[arg(long, value_name = "POLICY", hide_short_help = true, value_parser = named::<Threshold>(Threshold::NAMES.to_vec()))]
    threshold: Option<Threshold>,
    /// Execution of a batch: each query on many blocks of threads with several queries in flight
    /// (async), or each query on one block, all in one launch (sync) [default: async]
    #[arg(long, value_name = "KIND", hide_short_help = true, value_parser = named::<PartitionBatch>(PartitionBatch::NAMES.to_vec()))]
    batch: Option<PartitionBatch>,
    /// Compression of lists on the GPU for `wand` and `maxscore` [default: bitpack]
    #[arg(long, value_name = "NAME", hide_short_help = true, value_parser = named::<CodecId>(GPU_CODECS.map(CodecId::name).to_vec()))]
    gpu_codec: Option<CodecId>,
}

impl ResearchOptions {
    /// Returns the settings of partitions, if any of their flags is given.
    fn partitions(&self) -> Option<PartitionSettings> {
        let is_set = self.partition.is_some()
            || self.partition_size.is_some()
            || self.partitions_per_block.is_some()
            || self.threshold.is_some()
            || self.batch.is_some()
            || self.gpu_codec.is_some();
        let usual = PartitionSettings::default();
        is_set.then(|| PartitionSettings {
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

/// Options for answering queries, for `search` and `run`.
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
    /// Converts the flags to options of the library.
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
        let needs_gpu = device.gpu.is_some()
            || !device.gpus.is_empty()
            || device.gpu_memory.is_some()
            || device.gpu_lists.is_some();
        if needs_gpu && device.device == DeviceName::Cpu {
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
                "{problem}; add documents with --static-field FIELD"
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
    /// Returns these options for a single query. Unless the user chose otherwise, a GPU receives
    /// only the lists that the query needs.
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
    /// Stop after this time, e.g. 5ms or 1.5s (a bare number means milliseconds), and return the
    /// best hits so far. The output says how much of the index was searched
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) deadline: Option<Duration>,
}

/// Format of the log of a program that serves requests.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogChoice {
    /// Readable lines
    Pretty,
    /// A JSON object per line
    Json,
}

impl LogChoice {
    /// Returns the name of the format in the server's settings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LogChoice::Pretty => "pretty",
            LogChoice::Json => "json",
        }
    }

    /// Writes a log while `work` runs, and flushes it afterwards.
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

    /// Checks that the short help has the options that most users need, that the long help has all
    /// except the research settings, and that both stay short.
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
