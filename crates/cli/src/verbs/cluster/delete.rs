//! `warpseek cluster delete`: deletes documents of a collection by building a new version.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use warpseek::{IndexOptions, Progress};
use warpseek_console::options::Threads;
use warpseek_console::progress::Display;
use warpseek_console::{Failure, Interrupt};

use super::{Changing, Target};
use crate::arguments::DocumentIds;
use crate::failures::collection_failure;
use crate::report::deletion::summarise;

/// Delete documents of a collection by id
///
/// The command derives a new version without these documents from the current one and makes it
/// current. Only changed shards are built and uploaded. If no document has one of the ids, or if
/// the command fails or is interrupted, the current version does not change.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek cluster delete --id doc17 --id doc18 --store /srv/store --name web
  warpseek cluster delete --ids gone.txt --store /srv/store --name web --cache /var/cache/warpseek")]
pub(crate) struct Options {
    #[command(flatten)]
    ids: DocumentIds,
    #[command(flatten)]
    target: Target,
    /// Fail without deleting anything if an id is not in the collection
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    changing: Changing,
    #[command(flatten)]
    threads: Threads,
    /// Do not show a progress bar or a summary
    #[arg(long, short)]
    quiet: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let ids = options.ids.read()?;
    let settings = IndexOptions::new().threads(options.threads.get());
    let progress = Arc::new(Progress::default());
    Interrupt::listen(Some(progress.clone()))?;
    let collection = options.target.open()?;
    let (how, _temporary) = options.changing.how()?;
    let display = Display::build(&progress, options.quiet);
    let done = collection.delete(&ids, options.strict, &settings, &how, &progress);
    drop(display);
    let done = done.map_err(collection_failure)?;
    summarise(&done.deleted, options.quiet);
    let counts = json!({"deleted": done.deleted.deleted, "missing": done.deleted.missing});
    options.changing.report(&collection, &done, counts, options.quiet)
}
