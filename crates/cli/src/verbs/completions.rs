use std::io::Write;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::options::Cli;
use warpseek_console::Failure;

/// Print completions for a shell
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek completions bash > ~/.local/share/bash-completion/completions/warpseek
  warpseek completions zsh > ~/.zfunc/_warpseek")]
pub(crate) struct Options {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    // Generated in memory first, since the generator panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "warpseek", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
