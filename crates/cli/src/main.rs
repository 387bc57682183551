//! The command line of warpseek: one file per command under `verbs`.

mod decision;
mod options;
mod outputs;
mod queries;
mod residency;
mod sorting;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

use crate::options::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match verbs::run(cli.verb) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
