//! `warpseek delete`: deletes documents by id.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use warpseek::{DeleteReport, Index, IndexOptions, Progress};

use warpseek_console::Failure;
use warpseek_console::Interrupt;
use warpseek_console::options::Threads;
use warpseek_console::progress::Display;
use warpseek_console::terminal::{count, counted, note, summary};

/// Delete documents by id
///
/// The documents disappear from results and statistics immediately; `warpseek merge` reclaims their
/// space.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek delete idx --id doc17 --id doc18
  warpseek delete idx --ids gone.txt        one id per line; `-` is standard input")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    #[command(flatten)]
    which: Which,
    /// Fail without deleting anything if an id is not in the index
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    threads: Threads,
    /// Do not show a progress bar or a summary
    #[arg(long, short)]
    quiet: bool,
}

/// The ids of documents.
#[derive(Args)]
#[group(required = true, multiple = true)]
pub(super) struct Which {
    /// Id of a document; may be repeated
    #[arg(long, value_name = "ID")]
    id: Vec<String>,
    /// File of ids, one per line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
}

impl Which {
    pub(super) fn read(&self) -> Result<Vec<String>, Failure> {
        let mut ids = self.id.clone();
        if let Some(path) = &self.ids {
            ids.extend(read_ids(path)?);
        }
        Ok(ids)
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let settings = IndexOptions::new().threads(options.threads.get());
    let index = Index::at_with(&options.index, settings);
    let ids = options.which.read()?;
    if options.strict {
        let snapshot = index.snapshot()?;
        for id in &ids {
            if snapshot.find_id(id)?.is_none() {
                return Err(Failure::user(format!(
                    "no document has id `{id}`; nothing was deleted"
                )));
            }
        }
    }
    let progress = Arc::new(Progress::default());
    Interrupt::listen(Some(progress.clone()))?;
    let display = Display::build(&progress, options.quiet);
    let result = index.delete(&ids, &progress);
    drop(display);
    summarise(&result?, options.quiet);
    Ok(ExitCode::SUCCESS)
}

/// Reports the number of deleted documents, and the ids that were not found.
pub(super) fn summarise(report: &DeleteReport, quiet: bool) {
    for id in report.missing.iter().take(10) {
        note(format!("no document has id `{id}`"));
    }
    if report.missing.len() > 10 {
        note(format!("{} ids were not found in total", count(report.missing.len() as u64)));
    }
    if !quiet {
        summary(format!("{} deleted", counted(report.deleted, "document")));
    }
}

fn read_ids(path: &Path) -> Result<Vec<String>, Failure> {
    let fail = |e: std::io::Error| Failure::user(format!("{}: {e}", path.display()));
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(fail)?;
        text
    } else {
        fs::read_to_string(path).map_err(fail)?
    };
    let text = text.trim_start_matches('\u{feff}');
    Ok(text.lines().map(str::trim_end).filter(|l| !l.is_empty()).map(str::to_owned).collect())
}
