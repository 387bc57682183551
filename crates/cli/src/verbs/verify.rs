//! `warpseek verify`: checks all files of an index and lists the damage.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use warpseek::Index;
use warpseek_console::Failure;

use crate::report::verification::verify;

/// Check every checksum, order, bound and count of an index
///
/// If anything is damaged, the command lists the first hundred problems and their total number,
/// and exits with code 1. Damage inside a file is reported by page (64 KiB).
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek verify idx
  warpseek verify idx --json")]
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

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    verify(&Index::at(&options.index), options.json, options.quiet)
}
