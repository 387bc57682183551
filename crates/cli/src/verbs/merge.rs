//! `warpseek merge`: merges the segments of an index into one.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use warpseek::index::MergeConfig;
use warpseek::{Index, Progress};

use warpseek_console::Failure;
use warpseek_console::Interrupt;
use warpseek_console::options::{Threads, parse_bytes};
use warpseek_console::progress::Display;
use warpseek_console::terminal::{count, counted, summary};

/// Compact an index into one segment without deleted documents
///
/// Searches continue during the merge, and return the same hits and scores before and after it.
/// Documents return to the order of the input unless `--reorder` is given.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek merge idx
  warpseek merge idx --reorder        reorders an index of one segment too")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    /// Place documents that share words next to each other, as `index --reorder` does
    #[arg(long)]
    reorder: bool,
    /// Memory for `--reorder`, e.g. 500M or 4G [default: a quarter of the memory of the machine or
    /// container]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Device")]
    memory: Option<usize>,
    #[command(flatten)]
    threads: Threads,
    /// Do not show a progress bar or a summary
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let (progress, start) = (Arc::new(Progress::default()), Instant::now());
    Interrupt::listen(Some(progress.clone()))?;
    let display = Display::build(&progress, options.quiet);
    let mut config = MergeConfig { reorder: options.reorder, ..MergeConfig::default() };
    config.threads = options.threads.get();
    config.memory = options.memory.unwrap_or(config.memory);
    let result = Index::at(&options.index).merge(&config, &progress);
    drop(display);
    let report = result?;
    if options.quiet {
        return Ok(ExitCode::SUCCESS);
    }
    if report.changed {
        summary(format!(
            "{} merged in {:.1} s: {}, {} deleted ones removed",
            counted(report.segments as u64, "segment"),
            start.elapsed().as_secs_f64(),
            counted(report.documents, "document"),
            count(report.dropped),
        ));
    } else {
        summary(format!("nothing to merge: {}", counted(report.documents, "document")));
    }
    Ok(ExitCode::SUCCESS)
}
