//! Measurements, on the user's own index and machine.

mod codecs;
mod gpu;
mod queries;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// Measure engines and codecs on your index
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench queries --index idx --queries log.txt
  warpseek bench codecs --index idx
  warpseek bench gpu --index idx --queries log.txt")]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Queries(queries::Options),
    Codecs(codecs::Options),
    Gpu(gpu::Options),
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    match &options.what {
        What::Queries(options) => queries::run(options),
        What::Codecs(options) => codecs::run(options),
        What::Gpu(options) => gpu::run(options),
    }
}
