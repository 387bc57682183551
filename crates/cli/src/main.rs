//! The command line of warpseek. Each command has a file in `verbs`.

mod arguments;
mod cli;
mod failures;
mod outputs;
mod queries;
mod report;
mod run_output;
mod sorting;
mod verbs;

use std::process::ExitCode;

/// The allocator of all memory. Builds and refreshes free memory in large pieces on many threads,
/// which the allocator of the C library returns to the system and requests again: with it, a build
/// of 2 GB took a sixth longer, and a refresh twice as long.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
