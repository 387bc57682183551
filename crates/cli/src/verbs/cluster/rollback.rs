use std::process::ExitCode;

use clap::Args;
use warpseek_console::Failure;
use warpseek_console::terminal::summary;

use super::{Target, failure};

/// Go back to the version that was current before
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let collection = options.target.open()?;
    let now = collection.rollback().map_err(failure)?;
    summary(format!("version {} of {} is the current one", now.version, collection.name()));
    Ok(ExitCode::SUCCESS)
}
