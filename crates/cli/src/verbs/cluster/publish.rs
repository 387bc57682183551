//! `warpseek cluster publish`: completes a version whose shards were built separately.

use std::process::ExitCode;

use clap::Args;
use warpseek_console::Failure;
use warpseek_console::terminal::summary;

use super::Target;
use crate::failures::collection_failure;

/// Complete a version whose shards are all uploaded, and make it current
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek cluster publish --store s3://bucket/search --name web --build 7")]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// Version begun by `cluster cut`
    #[arg(long, value_name = "VERSION")]
    build: u64,
    /// Do not make the version current; `cluster activate` does that
    #[arg(long)]
    no_activate: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let collection = options.target.open()?;
    collection.publish(options.build).map_err(collection_failure)?;
    if options.no_activate {
        summary(format!("version {} of {} is ready", options.build, collection.name()));
    } else {
        collection.activate(options.build).map_err(collection_failure)?;
        summary(format!("version {} of {} is the current one", options.build, collection.name()));
    }
    Ok(ExitCode::SUCCESS)
}
