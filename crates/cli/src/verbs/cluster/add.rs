//! `warpseek cluster add`: adds documents to a collection by building a new version.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::json;
use warpseek::Progress;
use warpseek_console::progress::Display;
use warpseek_console::{Failure, Interrupt};

use super::{Changing, Target};
use crate::arguments::Reading;
use crate::failures::collection_failure;
use crate::report::build::summarise;

/// Add documents to a collection
///
/// The command derives a new version from the current one and makes it current. A document whose
/// id is in the collection replaces the earlier one in its shard; other documents go to the
/// smallest shards. Only changed shards are built and uploaded. If the command fails or is
/// interrupted, the current version does not change.
///
/// The analyzer, the store, the vector scale and the schema are those of the collection. --schema
/// can append fields to the schema.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek cluster add new.jsonl --store /srv/store --name web --cache /var/cache/warpseek
  warpseek cluster add changed/ --store s3://bucket/search --name web --on-error skip
  warpseek cluster add new.jsonl --store /srv/store --name web --no-activate")]
pub(crate) struct Options {
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    changing: Changing,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let (progress, start) = (Arc::new(Progress::default()), Instant::now());
    Interrupt::listen(Some(progress.clone()))?;
    let (from, collection) = (&options.reading.from, options.target.open()?);
    let settings = options.reading.options()?;
    let (how, _temporary) = options.changing.how()?;
    let display = Display::build(&progress, from.quiet);
    let done = collection.add(&from.inputs, &settings, &how, &progress);
    drop(display);
    let done = done.map_err(collection_failure)?;
    let added = &done.added;
    summarise(added, start, &options.reading);
    let counts =
        json!({"added": added.documents, "replaced": added.replaced, "skipped": added.skipped});
    options.changing.report(&collection, &done, counts, from.quiet)
}
