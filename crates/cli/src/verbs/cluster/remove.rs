use std::process::ExitCode;

use clap::Args;
use warpseek_console::Failure;
use warpseek_console::terminal::summary;

use super::{Target, failure};

/// Remove versions that are no longer needed, with their files in the store
///
/// The current version is never removed. Nodes that serve a version have its files on their own disks.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// Remove the versions before the current one, finished or not, but keep this many complete ones to go back to
    #[arg(long, value_name = "N", required_unless_present = "versions")]
    keep: Option<usize>,
    /// Remove this version; may be repeated
    #[arg(long = "version-number", value_name = "VERSION", conflicts_with = "keep")]
    versions: Vec<u64>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let collection = options.target.open()?;
    let removed = match options.keep {
        Some(keep) => collection.remove_old(keep).map_err(failure)?,
        None => {
            for &version in &options.versions {
                collection.remove(version).map_err(failure)?;
            }
            options.versions.clone()
        }
    };
    match removed.is_empty() {
        true => summary("there is nothing to remove"),
        false => {
            removed.iter().for_each(|version| summary(format!("version {version} is removed")));
        }
    }
    Ok(ExitCode::SUCCESS)
}
