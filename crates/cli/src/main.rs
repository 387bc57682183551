//! The command line of warpseek: one file per command under `verbs`.

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

/// Building and refreshing free memory in large pieces on many threads, which the allocator of the C library gives back to the system and gets anew: a build of 2 GB took a sixth longer with it, and a refresh twice as long.
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
