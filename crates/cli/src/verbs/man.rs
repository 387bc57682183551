//! `warpseek man`: writes man pages, generated from the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use warpseek_console::Failure;

/// Write man pages to a directory, one per command
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek man ~/.local/share/man/man1")]
pub(crate) struct Options {
    /// Directory for the pages, created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(options: &Options, command: Command) -> Result<ExitCode, Failure> {
    let dir = &options.directory;
    let fail = |e: std::io::Error| Failure::broken(format!("{}: {e}", dir.display()));
    std::fs::create_dir_all(dir).map_err(fail)?;
    clap_mangen::generate_to(command, dir).map_err(fail)?;
    Ok(ExitCode::SUCCESS)
}
