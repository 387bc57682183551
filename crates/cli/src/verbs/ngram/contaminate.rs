//! `warpseek ngram contaminate`: finds items of a test set in a training corpus.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::json;
use warpseek::contamination::{self, Contamination, ItemReport, Settings};
use warpseek::text::{Format, GramConfig, Unit};
use warpseek::{Index, Progress};
use warpseek_console::options::{Threads, named};
use warpseek_console::progress::Display;
use warpseek_console::terminal::{Theme, count, counted, note, summary, table};
use warpseek_console::{Failure, Interrupt};

use super::check;
use crate::arguments::{BadRecord, parse_share};
use crate::outputs::is_same_file;
use crate::report::text::printable;

/// Maximum number of items that the text output lists.
const NAMED: usize = 10;

/// Maximum number of characters of an id in the text output.
const ID: usize = 24;

/// Find items of a test set that occur in a training corpus
///
/// The report has, for each item of the test set, its number of distinct n-grams, the share of them
/// in the corpus, and the documents of the corpus that have the most of them.
///
/// The corpus is an index of n-grams, or files in any format that `warpseek index` reads; both give
/// the same result. Files are read once, without building an index, and the n-grams of the test set
/// are kept in memory. Of JSON, only `title` and `text` are read.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek ngram contaminate --train corpus/*.jsonl.zst --test mmlu.jsonl
  warpseek ngram contaminate --train corpus.jsonl --test test.tsv --n 8 -o report.jsonl
  warpseek ngram contaminate --train grams --test test.jsonl --min-share 0.5 -o report.jsonl
  warpseek ngram contaminate --train corpus.jsonl --test test.jsonl --json")]
pub(crate) struct Options {
    /// Training corpus: the directory of an index of n-grams, or files and directories to read; `-`
    /// is standard input
    #[arg(long, required = true, num_args = 1.., value_name = "CORPUS")]
    train: Vec<PathBuf>,
    /// Test set: files and directories to read
    #[arg(long, required = true, num_args = 1.., value_name = "SET")]
    test: Vec<PathBuf>,
    /// Format of all files [default: from the file name; a directory is a tree of text files]
    #[arg(long, value_parser = named::<Format>(Format::NAMES.to_vec()))]
    format: Option<Format>,
    /// Length of an n-gram [default: that of the index; without one, 13 words or 8 characters]
    #[arg(long, value_name = "N")]
    n: Option<u32>,
    /// Unit of n-grams [default: that of the index; without one, words]
    #[arg(long, value_parser = named::<Unit>([Unit::Char, Unit::Word].map(Unit::name)))]
    unit: Option<Unit>,
    /// Report only items with at least this share of their n-grams in the corpus, 0 to 1
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = parse_share, help_heading = "Output")]
    min_share: f64,
    /// Maximum number of documents to list per item
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Output")]
    documents: usize,
    /// File for the report, one line of JSON per item
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Print the summary as JSON instead of text
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Stop at malformed records, or skip them
    #[arg(long, value_enum, default_value = "stop")]
    on_error: BadRecord,
    #[command(flatten)]
    threads: Threads,
    /// Do not show a progress bar or the elapsed time
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let file = options.output.as_deref().map(|path| options.create(path)).transpose()?;
    let (index, config) = options.corpus()?;
    let on_error = options.on_error.get();
    let (set, skipped) =
        contamination::read_test_set(config, &options.test, options.format, on_error)?;
    note_skipped(skipped, "of the test set");
    if set.is_empty() {
        note("the test set has no items");
    }
    let settings =
        Settings { documents: options.documents, threads: options.threads.get(), on_error };
    let (progress, start) = (Arc::new(Progress::default()), Instant::now());
    Interrupt::listen(Some(progress.clone()))?;
    let display = Display::build(&progress, options.quiet || index.is_some());
    let found = match &index {
        Some(index) => contamination::in_index(&set, index, &settings, &progress),
        None => contamination::in_files(&set, &options.train, options.format, &settings, &progress),
    };
    drop(display);
    let found = found?;
    for reason in &found.reasons {
        note(format!("skipped {reason}"));
    }
    note_skipped(found.skipped, "of the corpus");
    let without = found.summary().too_short;
    if without > 0 && without == found.items.len() as u64 {
        note("no item of the test set has an n-gram; of JSON, only `title` and `text` are read");
    }
    let mut reported: Vec<&ItemReport> =
        found.items.iter().filter(|item| item.share >= options.min_share).collect();
    if let Some(file) = file {
        write_report(file, &reported)?;
    }
    let mut out = std::io::stdout().lock();
    if options.json {
        let mut report = serde_json::to_value(found.summary())?;
        report["unit"] = json!(config.unit);
        report["n"] = json!(config.n);
        report["documents"] = json!(found.documents);
        report["skipped"] = json!(found.skipped);
        report["reported"] = json!(reported.len());
        writeln!(out, "{report:#}")?;
    } else {
        // The sort is stable: items with the same share keep their order.
        reported.sort_by(|a, b| b.share.total_cmp(&a.share));
        print(&found, &config, &reported, &mut out)?;
    }
    if !options.quiet {
        summary(format!(
            "{} against {} in {:.2} s",
            counted(found.items.len() as u64, "item"),
            counted(found.documents, "document"),
            start.elapsed().as_secs_f64(),
        ));
    }
    Ok(ExitCode::SUCCESS)
}

impl Options {
    /// Returns the index if the corpus is one, and the n-grams by which items are compared.
    fn corpus(&self) -> Result<(Option<Index>, GramConfig), Failure> {
        let is_index = |dir: &PathBuf| dir.join("manifest").is_file();
        let [dir] = &self.train[..] else {
            return match self.train.iter().find(|dir| is_index(dir)) {
                None => Ok((None, self.grams())),
                Some(index) => Err(Failure::user(format!(
                    "{} is an index; give it alone, or name the files that it was built from",
                    index.display()
                ))),
            };
        };
        if !is_index(dir) {
            return Ok((None, self.grams()));
        }
        let index = Index::at(dir);
        check(&index)?;
        let grams = index.manifest()?.grams.unwrap_or_default();
        let differs = self.n.is_some_and(|n| n != grams.n)
            || self.unit.is_some_and(|unit| unit != grams.unit);
        if differs {
            return Err(Failure::user(format!(
                "{} has n-grams of {}; leave out `--n` and `--unit`, or name the files of the corpus",
                dir.display(),
                counted(grams.n.into(), grams.unit.name()),
            )));
        }
        Ok((Some(index), grams))
    }

    fn grams(&self) -> GramConfig {
        let unit = self.unit.unwrap_or(Unit::Word);
        let usual = match unit {
            Unit::Char => *unit.lengths().end(),
            Unit::Word => 13,
        };
        GramConfig { unit, n: self.n.unwrap_or(usual), ..GramConfig::default() }
    }

    /// Opens the file for the report, so that a file that cannot be written to is reported before
    /// any work. Its contents are discarded only when there is a report.
    fn create(&self, path: &Path) -> Result<File, Failure> {
        if self.train.iter().chain(&self.test).any(|input| is_same_file(input, path)) {
            let path = path.display();
            return Err(Failure::user(format!("{path} is an input; write to another file")));
        }
        let file = File::options().create(true).truncate(false).write(true).open(path);
        file.map_err(|e| Failure::user(format!("{}: {e}", path.display())))
    }
}

fn note_skipped(records: u64, source: &str) {
    if records > 0 {
        let were = if records == 1 { "was" } else { "were" };
        note(format!("{} {source} {were} skipped", counted(records, "record")));
    }
}

fn write_report(file: File, items: &[&ItemReport]) -> Result<(), Failure> {
    // Pipes and terminals have no length.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    let mut out = BufWriter::new(file);
    for item in items {
        serde_json::to_writer(&mut out, item)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

fn print(
    found: &Contamination,
    config: &GramConfig,
    items: &[&ItemReport],
    out: &mut impl Write,
) -> std::io::Result<()> {
    let (theme, summary) = (Theme::stdout(), found.summary());
    let percent = |n: u64| format!("{:.1}%", 100.0 * n as f64 / summary.items.max(1) as f64);
    let row = |name: &str, n: u64| vec![name.to_owned(), count(n), percent(n)];
    table(
        &[
            row("items", summary.items),
            row("too short for an n-gram", summary.too_short),
            row("at least one n-gram in the corpus", summary.any),
            row("at least 50% of n-grams", summary.half),
            row("at least 80% of n-grams", summary.most),
        ],
        out,
    )?;
    let what = format!("items by share of their n-grams ({} {}s)", config.n, config.unit);
    writeln!(out, "\n{}", theme.paint(theme.strong, what))?;
    let mut rows = Vec::new();
    for (tenth, &items) in summary.histogram.iter().enumerate() {
        let name = match tenth {
            0 => "none".to_owned(),
            1 => "above 0 to 10%".to_owned(),
            _ => format!("above {} to {}%", 10 * (tenth - 1), 10 * tenth),
        };
        rows.push(row(&name, items));
    }
    table(&rows, out)?;
    let worst: Vec<_> = items.iter().filter(|item| item.found > 0).take(NAMED).collect();
    if worst.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", theme.paint(theme.strong, "most contaminated"))?;
    let mut rows =
        vec![["item", "n-grams", "found", "documents", "best"].map(str::to_owned).to_vec()];
    for item in worst {
        let best = item.documents.first().map_or("", |document| &document.id);
        rows.push(vec![
            shortened(&item.id),
            count(item.ngrams.into()),
            format!("{:.1}%", 100.0 * item.share),
            count(item.matching),
            shortened(best),
        ]);
    }
    table(&rows, out)
}

/// Returns the beginning of an id, without control characters.
fn shortened(id: &str) -> String {
    let id = printable(id);
    match id.char_indices().nth(ID) {
        None => id,
        Some(_) => id.chars().take(ID - 1).chain(['…']).collect(),
    }
}
