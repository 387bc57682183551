//! `warpseek add`: adds documents to an index.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use warpseek::{Index, Progress};
use warpseek_console::progress::Display;
use warpseek_console::{Failure, Interrupt};

use crate::arguments::Reading;
use crate::report::build::summarise;

/// Add documents to an index
///
/// A document whose id is already in the index replaces the earlier one. The analyzer, the store,
/// the vector scale and the schema are those of the index. --schema can append fields to the
/// schema; earlier documents do not have them.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek add idx new.jsonl
  warpseek add idx changed/ --on-error skip
  warpseek add idx new.jsonl --schema larger.json      with additional fields")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    #[command(flatten)]
    reading: Reading,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let (progress, start) = (Arc::new(Progress::default()), Instant::now());
    Interrupt::listen(Some(progress.clone()))?;
    let display = Display::build(&progress, options.reading.from.quiet);
    let index = Index::at_with(&options.index, options.reading.options()?);
    let result = index.add_files(&options.reading.from.inputs, &progress);
    drop(display);
    summarise(&result?, start, &options.reading);
    Ok(ExitCode::SUCCESS)
}
