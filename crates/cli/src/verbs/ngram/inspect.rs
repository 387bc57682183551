//! `warpseek ngram inspect`: `warpseek inspect` for an index of n-grams.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use warpseek::Index;
use warpseek_console::Failure;

use super::check;
use crate::report::inspection;

/// Show the contents and sizes of an index of n-grams
///
/// The report has the settings of n-grams, the size of each part, the bytes per list entry (raw
/// entries have 8), and the lengths of lists, as that of `warpseek inspect`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek ngram inspect grams
  warpseek ngram inspect grams --json")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let index = Index::at(&options.index);
    check(&index)?;
    let (found, mut out) = (index.inspect()?, std::io::stdout().lock());
    if options.json {
        writeln!(out, "{:#}", inspection::as_json(&found)?)?;
    } else {
        inspection::print(&found, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}
