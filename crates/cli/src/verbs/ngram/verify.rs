//! `warpseek ngram verify`: `warpseek verify` for an index of n-grams.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use warpseek::Index;
use warpseek_console::Failure;

use super::check;
use crate::report::verification::verify;

/// Check every checksum, order and count of an index of n-grams
///
/// If anything is damaged, the command lists it and exits with code 1, as `warpseek verify` does.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek ngram verify grams
  warpseek ngram verify grams --json")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Do not show a progress bar
    #[arg(long, short)]
    quiet: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let index = Index::at(&options.index);
    // A damaged manifest does not tell the kind of index; the verification reports the damage.
    if index.manifest().is_ok() {
        check(&index)?;
    }
    verify(&index, options.json, options.quiet)
}
