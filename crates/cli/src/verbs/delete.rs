//! `warpseek delete`: deletes documents by id.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use warpseek::{Index, IndexOptions, Progress};
use warpseek_console::options::Threads;
use warpseek_console::progress::Display;
use warpseek_console::{Failure, Interrupt};

use crate::arguments::DocumentIds;
use crate::report::deletion::summarise;

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
    ids: DocumentIds,
    /// Fail without deleting anything if an id is not in the index
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    threads: Threads,
    /// Do not show a progress bar or a summary
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let settings = IndexOptions::new().threads(options.threads.get());
    let index = Index::at_with(&options.index, settings);
    let ids = options.ids.read()?;
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
