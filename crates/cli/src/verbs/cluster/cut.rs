//! `warpseek cluster cut`: begins a version whose shards are built on other machines.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use warpseek::Progress;
use warpseek_collection::Cut;
use warpseek_console::{Failure, Interrupt};

use super::sharding::assign_documents;
use super::{Settings, Target};

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
    let (version, cut) =
        assign_documents(&options.settings, &collection, options.shards, &progress)?;
    if options.json {
        writeln!(std::io::stdout(), "{:#}", about(version, &cut))?;
    } else {
        writeln!(std::io::stdout(), "{version}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the documents of a cut as JSON.
fn about(version: u64, cut: &Cut) -> Value {
    let shards = cut.shards.iter();
    let shards: Vec<_> =
        shards.map(|s| json!({"base": s.base, "documents": s.documents})).collect();
    json!({"version": version, "documents": cut.documents, "shards": shards})
}
