//! `warpseek cluster rollback`: activates the previous version.

use std::process::ExitCode;

use clap::Args;
use warpseek_console::Failure;
use warpseek_console::terminal::summary;

use super::Target;
use crate::failures::collection_failure;

/// Go back to the version that was current before
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek cluster rollback --store /srv/store --name web")]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let collection = options.target.open()?;
    let now = collection.rollback().map_err(collection_failure)?;
    summary(format!("version {} of {} is the current one", now.version, collection.name()));
    Ok(ExitCode::SUCCESS)
}
