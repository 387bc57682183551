//! `warpseek cluster activate`: makes a complete version the current one.

use std::process::ExitCode;

use clap::Args;
use warpseek_console::Failure;
use warpseek_console::terminal::summary;

use super::Target;
use crate::failures::collection_failure;

/// Make another complete version the current one
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek cluster activate --store /srv/store --name web --to 7")]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// Version to activate; `cluster list` shows all
    #[arg(long = "to", value_name = "VERSION")]
    version: u64,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let collection = options.target.open()?;
    let now = collection.activate(options.version).map_err(collection_failure)?;
    summary(format!("version {} of {} is the current one", now.version, collection.name()));
    Ok(ExitCode::SUCCESS)
}
