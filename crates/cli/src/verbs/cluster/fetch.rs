//! `warpseek cluster fetch`: copies shards from the store to this machine.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::json;
use warpseek::Progress;
use warpseek_collection::Check;
use warpseek_console::terminal::{bytes, summary};
use warpseek_console::{Failure, Interrupt};

use super::Target;
use crate::failures::collection_failure;

/// Fetch shards to this machine and check their checksums
///
/// The command prints the folder of each shard, which is an index. It skips shards that are already
/// there and continues interrupted fetches.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek cluster fetch --store s3://bucket/search --name web --cache /var/cache/warpseek
  warpseek cluster fetch --store /srv/store --name web --shard 2 --cache shards --keep 2")]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// Number of a shard, counted from 0; may be repeated [default: all of them]
    #[arg(long = "shard", value_name = "I")]
    shards: Vec<u32>,
    /// Folder to fetch into; shards go to COLLECTION/VERSION/SHARD inside it
    #[arg(long, value_name = "DIR")]
    cache: PathBuf,
    /// Version to fetch; `cluster list` shows all [default: the current one]
    #[arg(long = "version-number", value_name = "VERSION")]
    version: Option<u64>,
    /// Verify the checksums of shards already in the folder, and fetch damaged files again
    #[arg(long)]
    verify: bool,
    /// Keep at most N versions of the collection in the folder, including this one, and remove
    /// older ones [default: keep all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Print JSON instead of folders
    #[arg(long)]
    json: bool,
    /// Do not show a summary
    #[arg(long, short)]
    quiet: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let (progress, start) = (Arc::new(Progress::default()), Instant::now());
    Interrupt::listen(Some(progress.clone()))?;
    let collection = options.target.open()?;
    let version = match options.version {
        Some(version) => version,
        None => collection.current().map_err(collection_failure)?,
    };
    let manifest = collection.manifest(version).map_err(collection_failure)?;
    let shards = match options.shards.is_empty() {
        true => (0..).take(manifest.shards.len()).collect(),
        false => options.shards.clone(),
    };
    let check = if options.verify { Check::Checksums } else { Check::Sizes };
    let (mut fetched, mut size) = (Vec::new(), 0);
    for shard in shards {
        let folder = collection.fetch_shard_with(version, shard, &options.cache, check, &progress);
        let folder = folder.map_err(collection_failure)?;
        let entry = &manifest.shards[shard as usize];
        size += entry.bytes;
        if options.json {
            fetched.push(json!({"shard": shard, "base": entry.base, "documents": entry.documents,
                "deleted": entry.deleted, "folder": folder.to_string_lossy()}));
        } else {
            writeln!(std::io::stdout(), "{}", folder.display())?;
        }
    }
    // Older versions are removed last: they may be needed if this one cannot be fetched.
    if let Some(keep) = options.keep {
        collection
            .remove_older(&options.cache, version, keep as usize)
            .map_err(collection_failure)?;
    }
    if options.json {
        writeln!(std::io::stdout(), "{:#}", json!({"version": version, "shards": fetched}))?;
    }
    if !options.quiet {
        let seconds = start.elapsed().as_secs_f64();
        summary(format!("version {version}: {}, {seconds:.1} s", bytes(size)));
    }
    Ok(ExitCode::SUCCESS)
}
