//! `warpseek index`: builds an index of documents. Also has the summary of a build, which other
//! commands share.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueEnum};
use warpseek::{BuildReport, Index, Progress, RankingFunction, StoreMode};

use crate::options::{Reading, Terms};
use warpseek_console::Failure;
use warpseek_console::Interrupt;
use warpseek_console::progress::Display;
use warpseek_console::terminal::{count, counted, note, summary};

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum StoreChoice {
    /// Ids and documents; snippets need the documents
    All,
    /// Ids only
    Ids,
}

impl StoreChoice {
    pub(super) fn get(self) -> StoreMode {
        match self {
            StoreChoice::All => StoreMode::All,
            StoreChoice::Ids => StoreMode::Ids,
        }
    }
}

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

/// Rejects an output path that is a file or `-`, because an index is a directory.
pub(super) fn refuse_file(output: &Path) -> Result<(), Failure> {
    if output.as_os_str() == "-" {
        let problem = "an index is a directory and cannot be written to standard output (`-`)";
        return Err(Failure::user(format!("{problem}; name a new or empty directory")));
    }
    if output.exists() && !output.is_dir() {
        let output = output.display();
        return Err(Failure::user(format!("{output} is a file; name a new or empty directory")));
    }
    Ok(())
}

/// Prints a summary of a build to standard error.
pub(super) fn summarise(report: &BuildReport, start: Instant, reading: &Reading) {
    if let Some(field) = &reading.static_field
        && report.statics == 0
        && report.documents > 0
    {
        note(format!("no document has a field `{field}`, so static scores are all 0"));
    }
    if let Some(field) = &reading.order_by
        && report.sorted == 0
        && report.documents > 0
    {
        note(format!("no document has a field `{field}`, so documents are not sorted"));
    }
    summarise_counts(report, start, reading.from.quiet);
}

/// Prints the summary of a build that has neither `--static-field` nor `--order-by`.
pub(super) fn summarise_counts(report: &BuildReport, start: Instant, quiet: bool) {
    summarise_as(report, start, ["term", "posting", "token"], quiet);
}

/// Prints the summary of a build with these names for terms, postings and tokens.
pub(super) fn summarise_as(report: &BuildReport, start: Instant, names: [&str; 3], quiet: bool) {
    for notice in &report.notices {
        note(notice);
    }
    for reason in &report.reasons {
        note(format!("skipped {reason}"));
    }
    if report.skipped > 0 {
        let were = if report.skipped == 1 { "was" } else { "were" };
        note(format!("{} {were} skipped", counted(report.skipped, "record")));
    }
    if report.documents == 0 {
        note("the input has no documents");
    }
    if quiet {
        return;
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = report.documents as f64 / seconds.max(1e-3);
    let replaced = match report.replaced {
        0 => String::new(),
        n => format!(", {} of them replacing older ones", count(n)),
    };
    summary(format!(
        "{}{replaced} in {seconds:.1} s ({}/s): {}, {}, {}",
        counted(report.documents, "document"),
        count(rate as u64),
        counted(report.terms, names[0]),
        counted(report.postings, names[1]),
        counted(report.tokens, names[2]),
    ));
}
