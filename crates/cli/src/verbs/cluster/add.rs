use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::json;
use warpseek::Progress;
use warpseek_console::progress::Display;
use warpseek_console::{Failure, Interrupt};

use super::{Changing, Target, failure};
use crate::options::Reading;
use crate::verbs::index::summarise;

/// Add documents to a collection
///
/// It makes a new version of the current one, and makes that the current one. A document whose id is in the collection replaces
/// the earlier one, in the shard that has it; others go to the smallest shards. Only shards that change are built and uploaded.
/// The analyzer, the store and the vector scale are those of the collection. So is the schema, unless --schema gives one that
/// has further fields at the end. If it fails or is interrupted, the current version stays as it was.
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
    let done = done.map_err(failure)?;
    let added = &done.added;
    summarise(added, start, &options.reading);
    let counts =
        json!({"added": added.documents, "replaced": added.replaced, "skipped": added.skipped});
    options.changing.report(&collection, &done, counts, from.quiet)
}
