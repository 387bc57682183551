//! `warpseek ngram index`: builds an index of n-grams.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use warpseek::options::CodecId;
use warpseek::text::{GramConfig, Unit};
use warpseek::{Index, Progress};
use warpseek_console::options::named;
use warpseek_console::progress::Display;
use warpseek_console::{Failure, Interrupt};

use super::NAMES;
use crate::arguments::{BuildDeviceOptions, Inputs, StoreChoice};
use crate::outputs::refuse_file;
use crate::report::build::summarise_as;

/// Build an index of n-grams
///
/// Each line of JSONL needs an `id`, and has `title` and `text`, which are searched together. Other
/// fields are stored but not searched.
///
/// The index divides a document into at most 32 segments of at least W words and records the
/// segments in which an n-gram occurs. Long documents have long segments, which makes their hits
/// less precise; `--parts` cuts such documents into parts with separate segments.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek ngram index docs.jsonl.zst -o grams
  warpseek ngram index books/ -o grams --parts          a tree of long text files
  warpseek ngram index names.tsv -o grams --n 2 --store ids
  warpseek ngram index corpus.jsonl -o grams --unit word --n 13   for `warpseek ngram contaminate`")]
pub(crate) struct Options {
    /// Directory for the new index
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Length of an n-gram: 2 to 8 characters, or 1 to 32 words
    #[arg(long, default_value_t = GramConfig::default().n, value_name = "N", help_heading = "Index")]
    n: u32,
    /// Unit of n-grams: characters or words
    #[arg(long, default_value_t = GramConfig::default().unit, help_heading = "Index",
        value_parser = named::<Unit>([Unit::Char, Unit::Word].map(Unit::name)))]
    unit: Unit,
    /// Minimum number of words in a segment, 1 to 1000
    #[arg(long, default_value_t = GramConfig::default().segment_words, value_name = "W",
        help_heading = "Index")]
    segment_words: u32,
    /// Cut documents whose segments would have more than 4 W words into overlapping parts
    #[arg(long, help_heading = "Index")]
    parts: bool,
    /// Compression of lists: bitpack is the fastest, rice the smallest
    #[arg(long, value_name = "NAME", default_value = "rice", help_heading = "Index",
        value_parser = named::<CodecId>(CodecId::names()))]
    codec: CodecId,
    /// Data to store of each document besides its n-grams; `--verify` and snippets need the
    /// documents
    #[arg(long, value_enum, default_value = "all", help_heading = "Index")]
    store: StoreChoice,
    #[command(flatten)]
    from: Inputs,
    #[command(flatten)]
    build_device: BuildDeviceOptions,
    /// Replace an existing index
    #[arg(long)]
    overwrite: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    refuse_file(&options.output)?;
    let grams = GramConfig {
        unit: options.unit,
        n: options.n,
        segment_words: options.segment_words,
        parts: options.parts,
    };
    let settings = options
        .build_device
        .apply(options.from.options())?
        .grams(grams)
        .codec(options.codec)
        .store(options.store.get())
        .overwrite(options.overwrite);
    let (progress, start) = (Arc::new(Progress::default()), Instant::now());
    Interrupt::listen(Some(progress.clone()))?;
    let display = Display::build(&progress, options.from.quiet);
    let result = Index::build(&options.output, &options.from.inputs, &settings, &progress);
    drop(display);
    let (_, report) = result?;
    summarise_as(&report, start, NAMES, options.from.quiet);
    Ok(ExitCode::SUCCESS)
}
