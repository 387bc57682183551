//! `warpseek weights`: computes the weight of every term in every document, on the CPU or a GPU
//! (Wakatsuki 2016).

mod output;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::json;
use warpseek::devices::Device;
use warpseek::query::RankingParameters;
use warpseek::research::DocumentWords;
use warpseek::research::weights::{
    GpuWeigher, HostText, Method, WeighError, Weights, weigh_on_cpu,
};
use warpseek::text::Format;
use warpseek::vocabulary::Dictionary;
use warpseek::{Analyzer, IndexOptions, Progress, RankingFunction};
use warpseek_console::options::{Threads, named, parse_bytes};
use warpseek_console::progress::Display;
use warpseek_console::terminal::{counted, note, summary, table};
use warpseek_console::{Failure, Interrupt};

use crate::arguments::BadRecord;
use crate::outputs;

/// The method that finds equal words.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MethodName {
    /// Sort words as strings
    Pp,
    /// Sort the ids of words in a dictionary
    Ppd,
    /// MapReduce with hash tables, in the manner of Phoenix++ (with --device cpu)
    Mrp,
    /// MapReduce with sorting, in the manner of Mars (with --device cuda)
    Mrm,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum DeviceName {
    /// The CPU, all cores
    #[default]
    Cpu,
    /// A GPU; without one, the command fails
    Cuda,
}

/// Compute the weight of every term in every document
///
/// The result has a row for each term of each document: the term, the number of the document
/// (counted from 0 in the order of the input), and the weight by the ranking function. Rows are
/// sorted by term, then by document. All devices and methods give the same weights, bit for bit
/// (Wakatsuki 2016).
///
/// With a dictionary, unknown words count as one term, which is empty in the output. They do not
/// change the weights of other terms.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek weights docs.jsonl -o weights.tsv
  warpseek weights docs.jsonl -o weights.arrow --rank bm25 --k1 0.9 --b 0.4
  warpseek dictionary build docs.jsonl -o docs.dictionary
  warpseek weights docs.jsonl -o weights.arrow --dictionary docs.dictionary --device cuda
  warpseek weights docs.jsonl -o weights.arrow --method mrm --device cuda
  warpseek weights docs.words --stats                      counts only")]
pub(crate) struct Options {
    /// Files or directories to read; `-` is standard input. Files ending in .gz or .zst are
    /// decompressed
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// File for the weights: Arrow IPC if its name ends in .arrow, tab-separated values otherwise
    #[arg(long, short, value_name = "FILE", required_unless_present = "stats")]
    output: Option<PathBuf>,
    /// Print the numbers of words, documents, pairs of term and document, and terms
    #[arg(long)]
    stats: bool,
    /// Print JSON instead of a table, with --stats
    #[arg(long, requires = "stats")]
    json: bool,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
    /// Format of all inputs [default: from the file name; a directory is a tree of text files]
    #[arg(long, value_parser = named::<Format>(Format::NAMES.to_vec()), help_heading = "Input")]
    format: Option<Format>,
    /// Analyzer that splits text into terms [default: english; raw with --format words]
    #[arg(long, value_parser = named::<Analyzer>(Analyzer::NAMES.to_vec()), help_heading = "Input")]
    analyzer: Option<Analyzer>,
    /// Stop at malformed records, or skip them
    #[arg(long, value_enum, default_value = "stop", help_heading = "Input")]
    on_error: BadRecord,
    /// Ranking function
    #[arg(long, default_value = "wakatsuki", value_parser = named::<RankingFunction>(weighted()),
        help_heading = "Ranking")]
    rank: RankingFunction,
    /// Saturation of term frequency: the larger, the slower
    #[arg(
        long,
        value_name = "X",
        default_value_t = 0.9,
        allow_negative_numbers = true,
        help_heading = "Ranking"
    )]
    k1: f64,
    /// Influence of document length, 0 to 1
    #[arg(
        long,
        value_name = "X",
        default_value_t = 0.4,
        allow_negative_numbers = true,
        help_heading = "Ranking"
    )]
    b: f64,
    /// Method to find equal words [default: ppd with --dictionary, otherwise pp]
    #[arg(long, value_enum)]
    method: Option<MethodName>,
    /// Dictionary from `warpseek dictionary build`, for the method ppd
    #[arg(long, value_name = "FILE")]
    dictionary: Option<PathBuf>,
    /// Device that computes weights
    #[arg(long, value_enum, default_value_t, help_heading = "Device")]
    device: DeviceName,
    /// Number of the GPU (see `warpseek devices`) [default: 0]
    #[arg(long, value_name = "N", help_heading = "Device")]
    gpu: Option<u32>,
    /// Limit of GPU memory, e.g. 8G; under a low limit, pp and ppd count text in parts, and mrm
    /// fails [default: all]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Device")]
    gpu_memory: Option<usize>,
    #[command(flatten)]
    threads: Threads,
    /// Do not show a progress bar or a summary
    #[arg(long, short)]
    quiet: bool,
}

/// Returns the names of the functions for which there are weights: those with a saturation.
fn weighted() -> Vec<&'static str> {
    let functions = RankingFunction::ALL.into_iter();
    functions.filter(|f| f.saturation().is_some()).map(|function| function.name()).collect()
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let dictionary = options.check()?;
    let function = options.function()?;
    let device = match options.device {
        DeviceName::Cpu => None,
        DeviceName::Cuda => {
            let memory = options.gpu_memory.map(|bytes| bytes as u64);
            Some(Device::open(options.gpu.unwrap_or(0), memory)?)
        }
    };
    let (progress, start) = (Arc::new(Progress::default()), Instant::now());
    Interrupt::listen(Some(progress.clone()))?;
    let display = Display::build(&progress, options.quiet);
    let words = options.words(&progress);
    drop(display);
    let words = words?;
    words.reasons.iter().for_each(|reason| note(format!("skipped {reason}")));
    if words.skipped > 0 {
        note(format!("{} skipped", counted(words.skipped, "record")));
    }
    if words.documents == 0 {
        note("the input has no documents");
    }
    let text = words.text.bytes();
    let method = match (options.method, &dictionary) {
        (Some(MethodName::Mrp | MethodName::Mrm), _) => Method::MapReduce,
        (_, Some(dictionary)) => Method::Dictionary(dictionary),
        (_, None) => Method::Strings,
    };
    let finish = |weights: &Weights<'_>| -> Result<(), Failure> {
        progress.check()?;
        if let Some(file) = &options.output {
            output::write(file, weights, text, method, &progress)?;
        }
        if options.stats {
            print_stats(weights, options.json)?;
        } else if !options.quiet {
            let counts = [
                counted(weights.documents.into(), "document"),
                counted(weights.words, "word"),
                counted(weights.terms.len() as u64, "term"),
                counted(weights.docs.len() as u64, "weight"),
            ];
            summary(format!("{} in {:.1} s", counts.join(", "), start.elapsed().as_secs_f64()));
        }
        Ok(())
    };
    match device {
        Some(device) => {
            let mut weigher = GpuWeigher::new(&device, method)?;
            let weighed = weigher.weigh(HostText::Slice(text), function);
            let (weights, _) = weighed.map_err(|error| match error {
                WeighError::TextTooLarge { .. } => {
                    Failure::user(format!("{error}; use --method pp, or raise --gpu-memory"))
                }
                error => Failure::broken(error),
            })?;
            finish(&weights)?;
        }
        None => {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads.get()).build();
            let pool = pool.map_err(Failure::broken)?;
            let weighed = pool.install(|| weigh_on_cpu(text, method, function));
            let (weights, _) = weighed.map_err(Failure::user)?;
            finish(&weights)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Options {
    /// Rejects options that contradict each other, before anything is read, and opens the
    /// dictionary.
    fn check(&self) -> Result<Option<Dictionary>, Failure> {
        if let Some(output) = &self.output {
            let inputs = self.inputs.iter().chain(&self.dictionary).cloned().collect::<Vec<_>>();
            outputs::check(output, &inputs, self.overwrite)?;
        }
        if self.device == DeviceName::Cpu && (self.gpu.is_some() || self.gpu_memory.is_some()) {
            let problem = "--gpu and --gpu-memory have no effect on the CPU; add --device cuda";
            return Err(Failure::user(problem));
        }
        match (self.method, self.device) {
            (Some(MethodName::Mrp), DeviceName::Cuda) => {
                return Err(Failure::user(
                    "--method mrp runs on the CPU; omit --device cuda, or use --method mrm",
                ));
            }
            (Some(MethodName::Mrm), DeviceName::Cpu) => {
                return Err(Failure::user(
                    "--method mrm runs on a GPU; add --device cuda, or use --method mrp",
                ));
            }
            _ => {}
        }
        match (self.method, &self.dictionary) {
            (Some(MethodName::Ppd), None) => Err(Failure::user(
                "--method ppd needs a dictionary; build one with `warpseek dictionary build INPUT -o FILE` and pass `--dictionary FILE`",
            )),
            (Some(MethodName::Pp), Some(_)) => Err(Failure::user(
                "--method pp sorts words as strings and uses no dictionary; omit --method or --dictionary",
            )),
            (Some(MethodName::Mrp | MethodName::Mrm), Some(_)) => Err(Failure::user(
                "MapReduce groups words as strings and uses no dictionary; omit --method or --dictionary",
            )),
            (_, None) => Ok(None),
            (_, Some(file)) => Ok(Some(Dictionary::open(file).map_err(warpseek::Error::from)?)),
        }
    }

    fn function(&self) -> Result<RankingFunction, Failure> {
        let mut function = self.rank;
        match function.parameters_mut() {
            RankingParameters::Saturation { k1, b } => (*k1, *b) = (self.k1, self.b),
            RankingParameters::None => {}
        }
        function.check().map_err(|error| Failure::user(error.to_string()))?;
        Ok(function)
    }

    fn words(&self, progress: &Progress) -> Result<DocumentWords, Failure> {
        let is_words = |path: &PathBuf| path.extension().is_some_and(|name| name == "words");
        let words = match self.format {
            Some(format) => format == Format::Words,
            None => self.inputs.iter().all(is_words),
        };
        let usual = if words { Analyzer::Raw } else { Analyzer::English };
        let mut settings = IndexOptions::new()
            .analyzer(self.analyzer.unwrap_or(usual))
            .threads(self.threads.get())
            .on_error(self.on_error.get());
        if let Some(format) = self.format {
            settings = settings.format(format);
        }
        Ok(DocumentWords::of_files(&self.inputs, &settings, progress)?)
    }
}

fn print_stats(weights: &Weights<'_>, as_json: bool) -> Result<(), Failure> {
    use std::io::Write;
    let counts = [
        ("n_w", "words", weights.words),
        ("n_d", "documents", u64::from(weights.documents)),
        ("n_tf", "pairs of term and document", weights.docs.len() as u64),
        ("n_df", "terms", weights.terms.len() as u64),
    ];
    let mut out = std::io::stdout().lock();
    if as_json {
        let counts: serde_json::Map<_, _> =
            counts.into_iter().map(|(name, _, n)| (name.to_owned(), json!(n))).collect();
        writeln!(out, "{:#}", serde_json::Value::Object(counts))?;
        return Ok(());
    }
    let row = |(name, what, n): (&str, &str, u64)| {
        vec![name.to_owned(), warpseek_console::terminal::count(n), what.to_owned()]
    };
    table(&counts.map(row), &mut out)?;
    Ok(())
}
