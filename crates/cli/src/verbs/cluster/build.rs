use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::json;
use warpseek::Progress;
use warpseek_collection::{Collection, Cut};
use warpseek_console::progress::Display;
use warpseek_console::terminal::{bytes, counted, note, summary};
use warpseek_console::{Failure, Interrupt};

use super::{Settings, Target, failure};

/// Cut documents into shards, build each as an index, upload them, and make them the current version
///
/// Document ids are those of one index of all documents. If it fails or is interrupted, the current version stays as it
/// was, and what is in the store of the new one shows as unfinished until it is removed.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    target: Target,
    /// Number of shards
    #[arg(long, value_name = "N", required_unless_present = "only_shard")]
    shards: Option<usize>,
    /// Build only this shard, counted from 0, of a version that `cluster cut` has begun, with the same inputs and options;
    /// `cluster publish` makes it current when all are there
    #[arg(long, value_name = "I", requires = "build", conflicts_with_all = ["shards", "no_activate"])]
    only_shard: Option<u32>,
    /// The version that `cluster cut` has begun
    #[arg(long, value_name = "VERSION", requires = "only_shard")]
    build: Option<u64>,
    /// Leave the current version as it is; `cluster activate` switches to the new one
    #[arg(long)]
    no_activate: bool,
    /// Folder for shards until they are uploaded, one at a time [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
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
    // clap makes sure that it is there.
    let shards = options.shards.unwrap_or_default();
    let (version, cut) = super::cut::cut(&options.settings, &collection, shards, &progress)?;
    for shard in (0..).take(cut.shards.len()) {
        shard_of(options, &collection, version, shard, &progress).inspect_err(|_| {
            note(format!("version {version} is not finished; the current version is as it was"));
        })?;
    }
    let manifest = collection.publish(version).map_err(failure)?;
    if !options.no_activate {
        collection.activate(version).map_err(failure)?;
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

/// Builds and uploads a shard. Its folder is removed afterwards, whatever happens.
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
            "a folder for shards cannot be made: {error}; name one with --scratch"
        ))
    })?;
    let settings = options.settings.options()?;
    let display = Display::build(progress, options.settings.is_quiet());
    let (inputs, dir) = (options.settings.inputs(), scratch.path().join("index"));
    let done = collection.build_shard(version, shard, inputs, &settings, &dir, progress);
    drop(display);
    let done = done.map_err(failure)?;
    for notice in &done.built.notices {
        note(notice);
    }
    if !options.settings.is_quiet() {
        summary(format!(
            "shard {shard}: {} from {} on, {}, {:.1} s",
            counted(done.entry.documents, "document"),
            done.entry.base,
            bytes(done.entry.bytes),
            start.elapsed().as_secs_f64()
        ));
    }
    Ok(done.entry)
}

/// Documents of a cut, as JSON.
pub(super) fn about(version: u64, cut: &Cut) -> serde_json::Value {
    let shards = cut.shards.iter();
    let shards: Vec<_> =
        shards.map(|s| json!({"base": s.base, "documents": s.documents})).collect();
    json!({"version": version, "documents": cut.documents, "shards": shards})
}
