use std::process::ExitCode;

use clap::Args;
use warpseek_console::Failure;
use warpseek_console::terminal::summary;

use super::{Target, failure};

/// Make another complete version the current one
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// The version, as `cluster list` shows it
    #[arg(long = "to", value_name = "VERSION")]
    version: u64,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let collection = options.target.open()?;
    let now = collection.activate(options.version).map_err(failure)?;
    summary(format!("version {} of {} is the current one", now.version, collection.name()));
    Ok(ExitCode::SUCCESS)
}
