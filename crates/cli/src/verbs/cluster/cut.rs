//! `warpseek cluster cut`: begins a version whose shards are built on other machines.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use warpseek::Progress;
use warpseek_collection::{Collection, Cut};
use warpseek_console::progress::Display;
use warpseek_console::terminal::{counted, note, summary};
use warpseek_console::{Failure, Interrupt};

use super::{Settings, Target, failure};

/// Begin a version whose shards are built separately
///
/// The command reads all documents, rejects duplicate ids, assigns documents to shards, and prints
/// the number of the version. Then `cluster build --build VERSION --only-shard I` builds each
/// shard, and `cluster publish` completes the version.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek cluster cut docs.jsonl --store s3://bucket/search --name web --shards 4
  warpseek cluster build docs.jsonl --store s3://bucket/search --name web --build 7 --only-shard 2
  warpseek cluster publish --store s3://bucket/search --name web --build 7")]
pub(crate) struct Options {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    target: Target,
    /// Number of shards
    #[arg(long, value_name = "N", help_heading = "Collection")]
    shards: usize,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let progress = Arc::new(Progress::default());
    Interrupt::listen(Some(progress.clone()))?;
    let collection = options.target.create()?;
    let (version, cut) = cut(&options.settings, &collection, options.shards, &progress)?;
    if options.json {
        writeln!(std::io::stdout(), "{:#}", super::build::about(version, &cut))?;
    } else {
        writeln!(std::io::stdout(), "{version}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Assigns documents to shards, and reports skipped records.
pub(super) fn cut(
    settings: &Settings,
    collection: &Collection,
    shards: usize,
    progress: &Arc<Progress>,
) -> Result<(u64, Cut), Failure> {
    let options = settings.options()?;
    let display = Display::build(progress, settings.is_quiet());
    let done = collection.cut(settings.inputs(), shards, &options, progress);
    drop(display);
    let (version, cut, survey) = done.map_err(failure)?;
    for reason in &survey.reasons {
        note(format!("skipped {reason}"));
    }
    if survey.skipped > 0 {
        let were = if survey.skipped == 1 { "was" } else { "were" };
        note(format!("{} {were} skipped", counted(survey.skipped, "record")));
    }
    if !settings.is_quiet() {
        let documents = counted(cut.documents, "document");
        let shards = counted(cut.shards.len() as u64, "shard");
        summary(format!("version {version}: {documents} in {shards}"));
    }
    Ok((version, cut))
}
