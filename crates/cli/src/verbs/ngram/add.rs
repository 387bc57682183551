//! `warpseek ngram add`: adds documents to an index of n-grams.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use warpseek::{Index, Progress};
use warpseek_console::progress::Display;
use warpseek_console::{Failure, Interrupt};

use super::{NAMES, check};
use crate::arguments::{BuildDeviceOptions, Inputs};
use crate::report::build::summarise_as;

/// Add documents to an index of n-grams
///
/// A document whose id is already in the index replaces the earlier one. The settings of n-grams
/// and of the store are those of the index.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek ngram add grams new.jsonl
  warpseek ngram add grams changed/ --on-error skip")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    #[command(flatten)]
    from: Inputs,
    #[command(flatten)]
    build_device: BuildDeviceOptions,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let index = Index::at_with(&options.index, options.build_device.apply(options.from.options())?);
    check(&index)?;
    let (progress, start) = (Arc::new(Progress::default()), Instant::now());
    Interrupt::listen(Some(progress.clone()))?;
    let display = Display::build(&progress, options.from.quiet);
    let result = index.add_files(&options.from.inputs, &progress);
    drop(display);
    summarise_as(&result?, start, NAMES, options.from.quiet);
    Ok(ExitCode::SUCCESS)
}
