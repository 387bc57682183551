//! `warpseek cluster list`: shows the versions of collections.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use warpseek_collection::{Collection, VersionState, VersionSummary};
use warpseek_console::Failure;
use warpseek_console::terminal::{bytes, count, table};

use crate::failures::collection_failure;

/// Show the versions of collections and their sizes
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek cluster list --store /srv/store
  warpseek cluster list --store s3://bucket/search --name web --json")]
pub(crate) struct Options {
    /// Object store: a folder, or a URL with file://, s3://, gs:// or az://, bucket and prefix
    #[arg(long, value_name = "URL")]
    store: String,
    /// Name of a collection [default: all of them]
    #[arg(long)]
    name: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let names = match &options.name {
        Some(name) => vec![name.clone()],
        None => Collection::names(&options.store).map_err(collection_failure)?,
    };
    let mut all: Vec<(String, Vec<VersionSummary>)> = Vec::new();
    for name in names {
        let collection = Collection::open(&options.store, &name).map_err(collection_failure)?;
        all.push((name, collection.versions().map_err(collection_failure)?));
    }
    let mut out = std::io::stdout().lock();
    if options.json {
        let all: Vec<_> =
            all.iter().map(|(name, found)| json!({"name": name, "versions": found})).collect();
        writeln!(out, "{:#}", json!({"collections": all}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let heads = ["collection", "version", "state", "shards", "documents", "size"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for (name, versions) in &all {
        for version in versions {
            let state = match version.state {
                VersionState::Current => "current",
                VersionState::Ready => "ready",
                VersionState::Unfinished => "unfinished",
            };
            rows.push(vec![
                name.clone(),
                version.version.to_string(),
                state.to_owned(),
                count(version.shards as u64),
                count(version.documents),
                bytes(version.bytes),
            ]);
        }
    }
    table(&rows, &mut out)?;
    Ok(ExitCode::SUCCESS)
}
