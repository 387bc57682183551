use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use warpseek::{CodecId, GramConfig, Index, Progress, Unit};
use warpseek_console::options::named;
use warpseek_console::progress::Display;
use warpseek_console::{Failure, Interrupt};

use super::NAMES;
use crate::options::Inputs;
use crate::verbs::index::{StoreChoice, refuse_file, summarise_as};

/// Build an index of n-grams
///
/// Each line of JSONL input needs an `id`, and has `title` and `text`, which are searched together. Other fields are
/// stored but not searched.
///
/// A document has up to 32 segments of at least W words, and the index knows in which of them an n-gram occurs. So the
/// segments of long documents are long, and their hits less precise; with `--parts`, long documents are cut into parts
/// that have segments of their own.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek ngram index docs.jsonl.zst -o grams
  warpseek ngram index books/ -o grams --parts          a tree of long text files
  warpseek ngram index names.tsv -o grams --n 2 --store ids
  warpseek ngram index corpus.jsonl -o grams --unit word --n 13   for `warpseek ngram contaminate`")]
pub(crate) struct Options {
    #[command(flatten)]
    from: Inputs,
    /// Directory for the new index
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// Length of an n-gram: 2 to 8 characters, or 1 to 32 words
    #[arg(long, default_value_t = GramConfig::default().n, value_name = "N")]
    n: u32,
    /// What n-grams are made of
    #[arg(long, default_value_t = GramConfig::default().unit,
        value_parser = named::<Unit>([Unit::Char, Unit::Word].map(Unit::name)))]
    unit: Unit,
    /// The fewest words of a segment, 1 to 1000
    #[arg(long, default_value_t = GramConfig::default().segment_words, value_name = "W")]
    segment_words: u32,
    /// Cut documents whose segments would have more than 4 W words into overlapping parts
    #[arg(long)]
    parts: bool,
    /// Compression of lists: bitpack is the fastest, rice the smallest
    #[arg(long, value_name = "NAME", default_value = "rice",
        value_parser = named::<CodecId>(CodecId::names()))]
    codec: CodecId,
    /// What to store of each document besides its n-grams; `--verify` and snippets need the documents
    #[arg(long, value_enum, default_value = "all")]
    store: StoreChoice,
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
        .from
        .options()
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
