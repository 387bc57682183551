//! The command line of warpseek. Each command has a file in `verbs`.

mod decision;
mod options;
mod outputs;
mod protection;
mod queries;
mod residency;
mod sorting;
mod verbs;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::options::Cli;

/// The allocator of all memory. Builds and refreshes free memory in large pieces on many threads,
/// which the allocator of the C library returns to the system and requests again: with it, a build
/// of 2 GB took a sixth longer, and a refresh twice as long.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let matches = options::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match verbs::run(cli.verb) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
