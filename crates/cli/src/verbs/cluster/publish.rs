use std::process::ExitCode;

use clap::Args;
use warpseek_console::Failure;
use warpseek_console::terminal::summary;

use super::{Target, failure};

/// Complete a version whose shards are all uploaded, and make it the current one
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// The version that `cluster cut` has begun
    #[arg(long, value_name = "VERSION")]
    build: u64,
    /// Leave the current version as it is; `cluster activate` switches to the new one
    #[arg(long)]
    no_activate: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let collection = options.target.open()?;
    collection.publish(options.build).map_err(failure)?;
    if options.no_activate {
        summary(format!("version {} of {} is ready", options.build, collection.name()));
    } else {
        collection.activate(options.build).map_err(failure)?;
        summary(format!("version {} of {} is the current one", options.build, collection.name()));
    }
    Ok(ExitCode::SUCCESS)
}
