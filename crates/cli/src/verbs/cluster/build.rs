//! `warpseek cluster build`: builds all shards of a new version, or one shard of a version that
//! `cluster cut` has begun, and uploads them.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::json;
use warpseek::Progress;
use warpseek_collection::Collection;
use warpseek_console::progress::Display;
use warpseek_console::terminal::{bytes, counted, note, summary};
use warpseek_console::{Failure, Interrupt};

use super::sharding::assign_documents;
use super::{Settings, Target};
use crate::failures::collection_failure;

/// Build the shards of a new version, upload them, and make the version current
///
/// Documents are cut into shards, each of which is an index. They are numbered as in one index of
/// all documents. If the command fails or is interrupted, the current version does not change, and
/// `cluster list` shows the new one as unfinished until it is removed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek cluster build docs.jsonl --store /srv/store --name web --shards 4
  warpseek cluster build docs.jsonl --store /srv/store --name web --build 7 --only-shard 2")]
pub(crate) struct Options {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    target: Target,
    /// Number of shards
    #[arg(
        long,
        value_name = "N",
        required_unless_present = "only_shard",
        help_heading = "Collection"
    )]
    shards: Option<usize>,
    /// Build only this shard, counted from 0, of a version begun by `cluster cut`, with the same
    /// inputs and options; `cluster publish` completes the version
    #[arg(long, value_name = "I", requires = "build", conflicts_with_all = ["shards", "no_activate"],
        help_heading = "Collection")]
    only_shard: Option<u32>,
    /// Version begun by `cluster cut`
    #[arg(long, value_name = "VERSION", requires = "only_shard", help_heading = "Collection")]
    build: Option<u64>,
    /// Do not make the new version current; `cluster activate` does that
    #[arg(long, help_heading = "Collection")]
    no_activate: bool,
    /// Folder for shards until they are uploaded, one at a time [default: the system's folder for
    /// temporary files]
    #[arg(long, value_name = "DIR", help_heading = "Collection")]
    scratch: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let (progress, start) = (Arc::new(Progress::default()), Instant::now());
    Interrupt::listen(Some(progress.clone()))?;
    let collection = options.target.create()?;
    if let (Some(shard), Some(version)) = (options.only_shard, options.build) {
        let entry = shard_of(options, &collection, version, shard, &progress)?;
        if options.json {
            writeln!(
                std::io::stdout(),
                "{:#}",
                json!({"version": version, "shard": serde_json::to_value(&entry)?})
            )?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    // clap requires `--shards` unless `--only-shard` is given.
    let shards = options.shards.unwrap_or_default();
    let (version, cut) = assign_documents(&options.settings, &collection, shards, &progress)?;
    for shard in (0..).take(cut.shards.len()) {
        shard_of(options, &collection, version, shard, &progress).inspect_err(|_| {
            note(format!("version {version} is unfinished; the current version is unchanged"));
        })?;
    }
    let manifest = collection.publish(version).map_err(collection_failure)?;
    if !options.no_activate {
        collection.activate(version).map_err(collection_failure)?;
    }
    if options.json {
        writeln!(std::io::stdout(), "{:#}", serde_json::to_value(&manifest)?)?;
    }
    if !options.settings.is_quiet() {
        let state = if options.no_activate { "ready" } else { "the current one" };
        summary(format!(
            "version {version} of {} is {state}: {} in {}, {}, {:.1} s",
            collection.name(),
            counted(manifest.documents, "document"),
            counted(manifest.shards.len() as u64, "shard"),
            bytes(manifest.bytes),
            start.elapsed().as_secs_f64()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds and uploads a shard. Its temporary folder is removed afterwards, also after an error.
fn shard_of(
    options: &Options,
    collection: &Collection,
    version: u64,
    shard: u32,
    progress: &Arc<Progress>,
) -> Result<warpseek_collection::ShardEntry, Failure> {
    let start = Instant::now();
    let mut scratch = tempfile::Builder::new();
    scratch.prefix("warpseek-shard-");
    let scratch = match &options.scratch {
        Some(folder) => scratch.tempdir_in(folder),
        None => scratch.tempdir(),
    };
    let scratch = scratch.map_err(|error| {
        Failure::user(format!(
            "cannot create a folder for shards: {error}; name one with --scratch"
        ))
    })?;
    let settings = options.settings.options()?;
    let display = Display::build(progress, options.settings.is_quiet());
    let (inputs, dir) = (options.settings.inputs(), scratch.path().join("index"));
    let done = collection.build_shard(version, shard, inputs, &settings, &dir, progress);
    drop(display);
    let done = done.map_err(collection_failure)?;
    for notice in &done.built.notices {
        note(notice);
    }
    if !options.settings.is_quiet() {
        summary(format!(
            "shard {shard}: {} from number {}, {}, {:.1} s",
            counted(done.entry.documents, "document"),
            done.entry.base,
            bytes(done.entry.bytes),
            start.elapsed().as_secs_f64()
        ));
    }
    Ok(done.entry)
}
