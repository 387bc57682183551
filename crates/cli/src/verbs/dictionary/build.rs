//! `warpseek dictionary build`: builds a dictionary of documents, a list of words, or an index.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use warpseek::text::Format;
use warpseek::vocabulary::Vocabulary;
use warpseek::{Analyzer, Index, IndexOptions, Progress};
use warpseek_console::options::{Threads, named};
use warpseek_console::progress::Display;
use warpseek_console::terminal::{bytes, counted, note, summary};
use warpseek_console::{Failure, Interrupt};

use crate::arguments::BadRecord;
use crate::outputs;

/// Build a dictionary of the words of documents, a list, or an index
///
/// Documents are read and analyzed as by `warpseek index`; words of more than 255 bytes are
/// omitted. With --format words, each line is a word, which is not analyzed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek dictionary build docs.jsonl.zst -o docs.dictionary
  warpseek dictionary build docs.jsonl -o docs.dictionary --analyzer plain --most 1000000
  warpseek dictionary build words.txt --format words -o words.dictionary
  warpseek dictionary build --index idx -o idx.dictionary")]
pub(super) struct Options {
    /// Files or directories to read; `-` is standard input. Files ending in .gz or .zst are
    /// decompressed
    #[arg(required_unless_present = "index", conflicts_with = "index", value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// Use the terms of this index instead of input files
    #[arg(long, value_name = "DIR", conflicts_with_all = ["format", "analyzer"])]
    index: Option<PathBuf>,
    /// File for the dictionary
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Format of all inputs [default: from the file name; a directory is a tree of text files]
    #[arg(long, value_parser = named::<Format>(Format::NAMES.to_vec()), help_heading = "Input")]
    format: Option<Format>,
    /// Analyzer that splits text into words [default: english; raw with --format words]
    #[arg(long, value_parser = named::<Analyzer>(Analyzer::NAMES.to_vec()), help_heading = "Input")]
    analyzer: Option<Analyzer>,
    /// Keep only the N most frequent words (with --index, those in the most documents); ties are
    /// resolved in byte order
    #[arg(long, value_name = "N")]
    most: Option<u64>,
    /// Replace an existing dictionary
    #[arg(long)]
    overwrite: bool,
    /// Stop at malformed records, or skip them
    #[arg(long, value_enum, default_value = "stop", help_heading = "Input")]
    on_error: BadRecord,
    #[command(flatten)]
    threads: Threads,
    /// Do not show a progress bar or a summary
    #[arg(long, short)]
    quiet: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let output = &options.output;
    outputs::check(output, &options.inputs, options.overwrite)?;
    let (progress, start) = (Arc::new(Progress::default()), Instant::now());
    Interrupt::listen(Some(progress.clone()))?;
    let display = Display::build(&progress, options.quiet || options.index.is_some());
    let vocabulary = options.vocabulary(&progress);
    drop(display);
    let vocabulary = vocabulary?;
    for reason in &vocabulary.reasons {
        note(format!("skipped {reason}"));
    }
    if vocabulary.skipped > 0 {
        note(format!("{} skipped", counted(vocabulary.skipped, "record")));
    }
    let all = vocabulary.len();
    let dictionary = vocabulary.dictionary(options.most)?;
    if dictionary.is_empty() {
        note("the dictionary has no words");
    }
    progress.check()?;
    dictionary.write(output)?;
    if !options.quiet {
        let words = u64::from(dictionary.len());
        let total = if words < all {
            format!(" of {}", warpseek_console::terminal::count(all))
        } else {
            String::new()
        };
        summary(format!(
            "{}{total} in {:.1} s: {}, {:.2} bytes each",
            counted(words, "word"),
            start.elapsed().as_secs_f64(),
            bytes(dictionary.bytes()),
            dictionary.bytes() as f64 / words.max(1) as f64,
        ));
    }
    Ok(ExitCode::SUCCESS)
}

impl Options {
    fn vocabulary(&self, progress: &Progress) -> Result<Vocabulary, Failure> {
        if let Some(dir) = &self.index {
            let index = Index::at(dir);
            if index.manifest()?.grams.is_some() {
                let dir = dir.display();
                return Err(Failure::user(format!(
                    "{dir} is an index of n-grams, which has no words; name an index built by `warpseek index`"
                )));
            }
            return Ok(Vocabulary::of_index(&index, progress)?);
        }
        let usual =
            if self.format == Some(Format::Words) { Analyzer::Raw } else { Analyzer::English };
        let mut settings = IndexOptions::new()
            .analyzer(self.analyzer.unwrap_or(usual))
            .threads(self.threads.get())
            .on_error(self.on_error.get());
        if let Some(format) = self.format {
            settings = settings.format(format);
        }
        Ok(Vocabulary::of_files(&self.inputs, &settings, progress)?)
    }
}
