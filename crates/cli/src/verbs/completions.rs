//! `warpseek completions`: prints completions for a shell, generated from the command line.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;
use warpseek_console::Failure;

/// Print completions for a shell
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek completions bash > ~/.local/share/bash-completion/completions/warpseek
  warpseek completions zsh > ~/.zfunc/_warpseek")]
pub(crate) struct Options {
    /// Shell to print completions for
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(options: &Options, command: &mut Command) -> Result<ExitCode, Failure> {
    // The script is generated in memory first, because the generator panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, command, "warpseek", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
