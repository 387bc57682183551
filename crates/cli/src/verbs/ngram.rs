//! `warpseek ngram`: approximate search over indexes of n-grams. Each command has a file in
//! `ngram`.

mod add;
mod contaminate;
mod index;
mod inspect;
mod run;
mod search;
mod snippet;
mod verify;

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use warpseek::index::IndexError;
use warpseek::ngram::{Misses, NgramAlgorithm, NgramError, NgramOptions, NgramRequest};
use warpseek::{Error, Index};
use warpseek_console::Failure;
use warpseek_console::options::{named, parse_bytes};

/// Search for phrases that may be misspelt in the query or the text
///
/// An index of n-grams records, for each sequence of n characters or words, the documents that
/// contain it and roughly where. A document is a hit if it has nearly all n-grams of the query
/// close together. Case and punctuation are ignored, and languages without blanks between words are
/// supported.
///
/// `warpseek delete` and `warpseek merge` work with these indexes too.
#[derive(Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  warpseek ngram index docs.jsonl -o grams               build an index
  warpseek ngram search grams \"acetylsalicilic acid\"     search it
  warpseek ngram search grams \"slow strat\" --errors 2 --verify
  warpseek ngram run grams phrases.tsv -o run.trec       answer a file of phrases
  warpseek ngram contaminate --train corpus/ --test test.jsonl -o report.jsonl")]
pub(crate) struct Options {
    #[command(subcommand)]
    verb: Verb,
}

/// The commands for indexes of n-grams.
#[derive(Subcommand)]
enum Verb {
    Index(index::Options),
    Add(add::Options),
    Search(search::Options),
    Run(run::Options),
    Contaminate(contaminate::Options),
    Verify(verify::Options),
    Inspect(inspect::Options),
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    match &options.verb {
        Verb::Index(options) => index::run(options),
        Verb::Add(options) => add::run(options),
        Verb::Search(options) => search::run(options),
        Verb::Run(options) => run::run(options),
        Verb::Contaminate(options) => contaminate::run(options),
        Verb::Verify(options) => verify::run(options),
        Verb::Inspect(options) => inspect::run(options),
    }
}

/// Names of terms, postings and tokens of an index of n-grams, for summaries.
const NAMES: [&str; 3] = ["n-gram", "entry", "word"];

/// Rejects a directory without an index of n-grams.
fn check(index: &Index) -> Result<(), Failure> {
    match index.manifest() {
        Ok(manifest) if manifest.grams.is_some() => Ok(()),
        Ok(_) => Err(Error::from(NgramError::NotGrams).into()),
        Err(Error::Index(IndexError::NotAnIndex { dir })) => Err(no_index(&dir)),
        Err(error) => Err(error.into()),
    }
}

fn no_index(dir: &Path) -> Failure {
    let dir = dir.display();
    let fix = format!("build one with `warpseek ngram index INPUT -o {dir}`");
    Failure::user(format!("{dir} holds no index; {fix}"))
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum DeviceChoice {
    /// The CPU, with all threads
    #[default]
    Cpu,
    /// The first GPU; batches of queries gain the most
    Cuda,
}

/// Options for answering queries, for `search` and `run`.
#[derive(Args, Clone)]
#[command(next_help_heading = "Query")]
struct Searching {
    /// n-grams of the query that a hit may lack: a number such as 6 or a share such as 25%
    /// [default: the number that `--errors` errors can affect; without `--errors`, the larger of
    /// 25% and the number that 5 errors can affect, up to two thirds]
    #[arg(long, value_name = "N|P%")]
    misses: Option<Misses>,
    /// Wrong characters that a hit may have. Without `--misses`, each of them lets a hit lack as
    /// many n-grams as an n-gram is long. With `--verify`, hits with more errors are dropped
    #[arg(long, value_name = "N")]
    errors: Option<u32>,
    /// Rank the best candidates by the edit distance between the query and their best match
    #[arg(long)]
    verify: bool,
    /// Number of candidates to verify, those with the most n-grams first; at least the number of
    /// hits [default: 100]
    #[arg(long, value_name = "N", requires = "verify")]
    candidates: Option<usize>,
    /// Search algorithm. All algorithms return the same hits
    #[arg(long, value_name = "NAME", default_value_t, help_heading = "Device",
        value_parser = named::<NgramAlgorithm>(NgramAlgorithm::ALL.map(NgramAlgorithm::name)))]
    algorithm: NgramAlgorithm,
    /// Device that answers queries. Both return the same hits
    #[arg(long, value_enum, default_value_t, help_heading = "Device")]
    device: DeviceChoice,
    /// Limit of GPU memory, e.g. 8G; lists beyond it are copied when queries need them [default:
    /// all]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Device")]
    gpu_memory: Option<usize>,
    /// Read the index into memory instead of mapping its files. Opening takes longer, but a file
    /// that is truncated during the search cannot crash the process
    #[arg(long, help_heading = "Device")]
    no_mmap: bool,
}

impl Searching {
    fn check(&self) -> Result<(), Failure> {
        if self.misses.is_some() && self.errors.is_some() && !self.verify {
            let fix = "add `--verify`, or omit one of the two";
            return Err(Failure::user(format!(
                "--errors has no effect beside --misses unless hits are verified; {fix}"
            )));
        }
        if self.gpu_memory.is_some() && matches!(self.device, DeviceChoice::Cpu) {
            let problem = "--gpu-memory has no effect on the CPU; add --device cuda";
            return Err(Failure::user(problem));
        }
        Ok(())
    }

    fn options(&self, threads: usize) -> NgramOptions {
        let options = NgramOptions::new().threads(threads).mmap(!self.no_mmap);
        let options = options.algorithm(self.algorithm);
        match (self.device, self.gpu_memory) {
            (DeviceChoice::Cpu, _) => options,
            (DeviceChoice::Cuda, None) => options.gpu(0),
            (DeviceChoice::Cuda, Some(bytes)) => options.gpu(0).gpu_memory(bytes as u64),
        }
    }

    fn request(&self, text: &str, k: usize) -> NgramRequest {
        let mut request = NgramRequest::new(text).k(k).verify(self.verify);
        request.misses = self.misses;
        request.errors = self.errors;
        request.candidates = self.candidates.unwrap_or(request.candidates);
        request
    }
}
