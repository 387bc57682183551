//! `warpseek index`: builds an index of documents.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use warpseek::{Index, Progress, RankingFunction};
use warpseek_console::progress::Display;
use warpseek_console::{Failure, Interrupt};

use crate::arguments::{Reading, StoreChoice, Terms};
use crate::outputs::refuse_file;
use crate::report::build::summarise;

/// Build an index of documents
///
/// Each line of JSONL needs an `id`, and either `title` and `text` (or `contents`) or `vector`, an
/// object of tokens and weights. --id-field, --title-field and --text-field choose other fields.
/// Title and text are searched together; other fields are stored but not searched.
///
/// The columns of CSV, TSV and Parquet are named by the first line (for TSV, if it starts with
/// `id`) or the file's schema. In a directory, files of these formats are read as such, and every
/// other file is one document.
///
/// With a schema, any field can be searched as text or used as an attribute; see `warpseek schema
/// --help`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek index docs.jsonl.zst -o idx
  warpseek index notes/ -o idx --analyzer plain        a tree of text files
  warpseek index products.csv -o idx --id-field sku --text-field name --text-field description
  zcat a.gz b.gz | warpseek index - -o idx --format jsonl --store ids
  warpseek index dump.jsonl -o idx --on-error skip --memory 1G
  warpseek index pages.jsonl -o idx --reorder          smaller index, faster searches, same results
  warpseek index pages.jsonl -o idx --order-by url
  warpseek index dump.jsonl -o idx --device auto       faster on a GPU, same index
  warpseek schema docs.jsonl > schema.json; warpseek index docs.jsonl -o idx --schema schema.json
  warpseek index docs.jsonl -o idx --quantize --k1 1.2 --b 0.75   approximate 8-bit scores
  warpseek index docs.jsonl -o idx --positions                    supports phrase queries")]
pub(crate) struct Options {
    /// Directory for the new index
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    terms: Terms,
    #[command(flatten)]
    reading: Reading,
    /// Data to store of each document besides its terms
    #[arg(long, value_enum, default_value = "all", help_heading = "Index")]
    store: StoreChoice,
    /// Store 8-bit bm25 scores instead of frequencies. Scores are approximate, the index supports
    /// no other ranking, and documents added later are scored with the present mean length
    #[arg(long, conflicts_with = "schema", help_heading = "Index")]
    quantize: bool,
    /// Store the positions of words (with a schema, in all text fields), for phrase queries such as
    /// "new ideas". The index is larger, and its queries are parsed in the query syntax
    /// (docs/reference/query-syntax.md)
    #[arg(long, conflicts_with = "quantize", help_heading = "Index")]
    positions: bool,
    /// Store the norms of documents, which speeds up `--rank cosine`. The index is a few percent
    /// larger; without norms, the first search that needs them computes them
    #[arg(long, conflicts_with_all = ["quantize", "schema"], help_heading = "Index")]
    norms: bool,
    /// Parameter of bm25 for `--quantize`: how slowly term frequency saturates [default: 0.9]
    #[arg(
        long,
        value_name = "X",
        requires = "quantize",
        allow_negative_numbers = true,
        help_heading = "Index"
    )]
    k1: Option<f64>,
    /// Parameter of bm25 for `--quantize`: how much document length counts, 0 to 1 [default: 0.4]
    #[arg(
        long,
        value_name = "X",
        requires = "quantize",
        allow_negative_numbers = true,
        help_heading = "Index"
    )]
    b: Option<f64>,
    /// The integer that represents a vector weight of 1.0
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "Index")]
    vector_scale: u32,
    /// Replace an existing index
    #[arg(long)]
    overwrite: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    refuse_file(&options.output)?;
    let mut settings = options
        .reading
        .options()?
        .analyzer(options.terms.analyzer)
        .codec(options.terms.codec)
        .store(options.store.get())
        .vector_scale(options.vector_scale)
        .positions(options.positions)
        .norms(options.norms)
        .overwrite(options.overwrite);
    if options.quantize {
        let (k1, b) = RankingFunction::BM25_DEFAULTS;
        settings = settings.quantize(options.k1.unwrap_or(k1), options.b.unwrap_or(b));
    }
    let (progress, start) = (Arc::new(Progress::default()), Instant::now());
    Interrupt::listen(Some(progress.clone()))?;
    let display = Display::build(&progress, options.reading.from.quiet);
    let result = Index::build(&options.output, &options.reading.from.inputs, &settings, &progress);
    drop(display);
    let (_, report) = result?;
    summarise(&report, start, &options.reading);
    Ok(ExitCode::SUCCESS)
}
