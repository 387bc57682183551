//! `warpseek cluster remove`: removes versions from the store.

use std::process::ExitCode;

use clap::Args;
use warpseek_console::Failure;
use warpseek_console::terminal::summary;

use super::Target;
use crate::failures::collection_failure;

/// Remove versions that are no longer needed from the store
///
/// The current version is never removed. Nodes that serve a version have copies of its files.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek cluster remove --store /srv/store --name web --keep 1
  warpseek cluster remove --store /srv/store --name web --version-number 7")]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// Remove the versions before the current one, also unfinished ones, but keep the last N
    /// complete ones for rollback
    #[arg(long, value_name = "N", required_unless_present = "versions")]
    keep: Option<usize>,
    /// Version to remove; may be repeated
    #[arg(long = "version-number", value_name = "VERSION", conflicts_with = "keep")]
    versions: Vec<u64>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let collection = options.target.open()?;
    let removed = match options.keep {
        Some(keep) => collection.remove_old(keep).map_err(collection_failure)?,
        None => {
            for &version in &options.versions {
                collection.remove(version).map_err(collection_failure)?;
            }
            options.versions.clone()
        }
    };
    match removed.is_empty() {
        true => summary("there is nothing to remove"),
        false => {
            removed.iter().for_each(|version| summary(format!("removed version {version}")));
        }
    }
    Ok(ExitCode::SUCCESS)
}
