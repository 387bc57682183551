//! `warpseek synth`: generates a text collection, queries, or an index without text.

mod postings;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use warpseek::options::CodecId;
use warpseek_synth::{Preset, TextConfig};

use warpseek_console::Failure;
use warpseek_console::options::{Threads, named};

#[derive(Clone, Copy, ValueEnum)]
enum FormatChoice {
    /// A JSON object per line
    Jsonl,
    /// A word per line, with a blank line between documents
    Words,
}

/// Generate a text collection, or an index without text
///
/// Generated text has log-normal document lengths, a Zipf vocabulary, and words that occur in
/// bursts.
///
/// With --postings, the command builds an index directly from the statistics of a collection, for
/// measurements. Such an index can be far larger than one of generated text. Documents of one site
/// and topic share terms, so gaps, frequencies and block maxima resemble those of real lists
/// (`warpseek inspect --shape` shows them). Queries for it are written to DIR.queries.tsv.
///
/// The output depends only on the options and the seed, not on the machine or number of threads.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek synth --docs 100000 -o docs.jsonl
  warpseek synth --docs 24411 --vocabulary 10000000 --burst 0 --format words -o w.words
  warpseek synth --docs 100000 --queries 1000 -o queries.tsv   queries for that collection
  warpseek synth --postings --preset gov2 -o gov2              25.2 million documents, 10^9 postings
  warpseek synth --postings --docs 1000000 -o small            the same collection, smaller
  warpseek synth --postings 500000000 --preset passages --codec rice --queries 1000 -o p
  warpseek bench queries --index gov2 --queries gov2.queries.tsv")]
pub(crate) struct Options {
    /// Number of documents [default: 10000; with --postings, that of the preset]
    #[arg(long, visible_alias = "documents", value_name = "N")]
    docs: Option<u64>,
    /// Build an index of about N postings [default N: the preset's, in proportion to the documents]
    #[arg(long, value_name = "N", num_args = 0..=1, requires = "output", help_heading = "Index")]
    postings: Option<Option<u64>>,
    /// Collection to imitate: gov2 has 25.2 million documents, clueweb 50.2, passages 8.8
    #[arg(long, value_name = "NAME", default_value = "gov2", requires = "postings", help_heading = "Index",
        value_parser = named::<Preset>(Preset::NAMES.to_vec()))]
    preset: Preset,
    /// Compression of postings: bitpack is the fastest, rice the smallest
    #[arg(long, value_name = "NAME", default_value = "bitpack", requires = "postings", help_heading = "Index",
        value_parser = named::<CodecId>(CodecId::names()))]
    codec: CodecId,
    /// Replace an existing index
    #[arg(long, requires = "postings", help_heading = "Index")]
    overwrite: bool,
    /// Write this many queries for the collection instead of the collection itself; with
    /// --postings, in addition to the index [default with --postings: 10000]
    #[arg(long, value_name = "N")]
    queries: Option<u64>,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Number of distinct words, up to 10 million
    #[arg(long, conflicts_with = "postings", default_value_t = TextConfig::default().vocabulary, value_name = "N", help_heading = "Text")]
    vocabulary: u64,
    /// Mean of the logarithm of document lengths
    #[arg(long, conflicts_with = "postings", default_value_t = TextConfig::default().mu, value_name = "X", allow_negative_numbers = true, help_heading = "Text")]
    mu: f64,
    /// Standard deviation of the logarithm of document lengths
    #[arg(long, conflicts_with = "postings", default_value_t = TextConfig::default().sigma, value_name = "X", allow_negative_numbers = true, help_heading = "Text")]
    sigma: f64,
    /// Burstiness: how much words repeat inside a document, 0 to 1
    #[arg(long, conflicts_with = "postings", default_value_t = TextConfig::default().burst, value_name = "X", allow_negative_numbers = true, help_heading = "Text")]
    burst: f64,
    /// Format of the documents
    #[arg(
        long,
        value_enum,
        default_value = "jsonl",
        conflicts_with = "postings",
        help_heading = "Text"
    )]
    format: FormatChoice,
    /// File to write [default: standard output]; with --postings, the directory of the index
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    threads: Threads,
    /// Do not show a progress bar or a summary
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    match (options.postings, &options.output) {
        (Some(postings), Some(dir)) => postings::run(options, postings, dir),
        _ => text::run(options),
    }
}
