//! `warpseek cluster`: builds, changes and removes versions of collections in an object store, and
//! runs clusters on Ray. Each command has a file in `cluster`.

mod activate;
mod add;
mod build;
mod cut;
mod delete;
mod fetch;
mod list;
mod publish;
mod ray;
mod remove;
mod rollback;
mod sharding;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tempfile::TempDir;
use warpseek::IndexOptions;
use warpseek_collection::{Collection, ShardEntry, Update, UpdateOptions};
use warpseek_console::Failure;
use warpseek_console::terminal::{count, counted, summary};

use crate::arguments::{Reading, StoreChoice, Terms};
use crate::failures::collection_failure;

/// Build sharded collections in an object store, and run clusters
///
/// A collection has versions, and readers use the current one. A new version becomes current only
/// when it is complete in the store. The store is a folder or a bucket of S3, Google Cloud Storage
/// or Azure; credentials come from the environment (docs/guide/collections.md).
#[derive(Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  warpseek cluster build docs.jsonl --store /srv/store --name web --shards 4
  warpseek cluster list --store /srv/store
  warpseek cluster fetch --store /srv/store --name web --shard 2 --cache /var/cache/warpseek
  warpseek cluster add new.jsonl --store /srv/store --name web --cache /var/cache/warpseek
  warpseek cluster delete --id doc17 --store /srv/store --name web --cache /var/cache/warpseek
  warpseek cluster rollback --store /srv/store --name web
  warpseek cluster remove --store /srv/store --name web --keep 1
  warpseek cluster up --store /srv/store --name web --replicas 2

Build each shard on a different machine:
  warpseek cluster cut docs.jsonl --store s3://bucket/search --name web --shards 4
  warpseek cluster build docs.jsonl --store s3://bucket/search --name web --build 7 --only-shard 2
  warpseek cluster publish --store s3://bucket/search --name web --build 7")]
pub(crate) struct Options {
    #[command(subcommand)]
    verb: Verb,
}

/// The commands for collections.
#[derive(Subcommand)]
enum Verb {
    Build(build::Options),
    Cut(cut::Options),
    Publish(publish::Options),
    List(list::Options),
    Fetch(fetch::Options),
    Add(add::Options),
    Delete(delete::Options),
    Activate(activate::Options),
    Rollback(rollback::Options),
    Remove(remove::Options),
    /// Start nodes and an aggregator on Ray
    Up(ray::Options),
    /// Change the number of replicas of a running cluster
    Scale(ray::Options),
    /// Switch the nodes of a running cluster to another version
    Roll(ray::Options),
    /// Show the nodes of a running cluster
    Status(ray::Options),
    /// Stop a running cluster
    Down(ray::Options),
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    match &options.verb {
        Verb::Build(options) => build::run(options),
        Verb::Cut(options) => cut::run(options),
        Verb::Publish(options) => publish::run(options),
        Verb::List(options) => list::run(options),
        Verb::Fetch(options) => fetch::run(options),
        Verb::Add(options) => add::run(options),
        Verb::Delete(options) => delete::run(options),
        Verb::Activate(options) => activate::run(options),
        Verb::Rollback(options) => rollback::run(options),
        Verb::Remove(options) => remove::run(options),
        Verb::Up(options) => ray::run("up", options),
        Verb::Scale(options) => ray::run("scale", options),
        Verb::Roll(options) => ray::run("roll", options),
        Verb::Status(options) => ray::run("status", options),
        Verb::Down(options) => ray::run("down", options),
    }
}

/// The collection that a command works on.
#[derive(Args)]
#[command(next_help_heading = "Collection")]
struct Target {
    /// Object store: a folder, or a URL with file://, s3://, gs:// or az://, bucket and prefix
    #[arg(long, value_name = "URL")]
    store: String,
    /// Name of the collection
    #[arg(long)]
    name: String,
}

impl Target {
    fn open(&self) -> Result<Collection, Failure> {
        Collection::open(&self.store, &self.name).map_err(collection_failure)
    }

    /// Opens the collection for a build. Creates the folder of the store if it does not exist.
    fn create(&self) -> Result<Collection, Failure> {
        Collection::create(&self.store, &self.name).map_err(collection_failure)
    }
}

/// Options of commands that add documents to a collection or delete them.
#[derive(Args)]
struct Changing {
    /// Folder for shards of the current version, fetched as by `cluster fetch`; shards already in
    /// it are reused [default: a temporary folder]
    #[arg(long, value_name = "DIR", help_heading = "Collection")]
    cache: Option<PathBuf>,
    /// Do not make the new version current; `cluster activate` does that
    #[arg(long, help_heading = "Collection")]
    no_activate: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Changing {
    /// Returns the options of an update, and the temporary folder of the cache, if there is one.
    /// Dropping the folder removes it.
    fn how(&self) -> Result<(UpdateOptions, Option<TempDir>), Failure> {
        let (cache, temporary) = match &self.cache {
            Some(cache) => (cache.clone(), None),
            None => {
                let made = tempfile::Builder::new().prefix("warpseek-shards-").tempdir();
                let made = made.map_err(|error| {
                    Failure::user(format!(
                        "cannot create a folder for shards: {error}; name one with --cache"
                    ))
                })?;
                (made.path().to_owned(), Some(made))
            }
        };
        let activate = !self.no_activate;
        Ok((UpdateOptions { activate, ..UpdateOptions::new(cache) }, temporary))
    }

    /// Reports the new version. `counts` has the numbers of changed documents, for JSON.
    fn report(
        &self,
        collection: &Collection,
        done: &Update,
        mut counts: Value,
        quiet: bool,
    ) -> Result<ExitCode, Failure> {
        let version = done.made.as_ref().map(|made| made.version);
        if self.json {
            counts["of"] = json!(done.of);
            counts["version"] = json!(version);
            counts["changed"] = json!(done.changed);
            if let Some(made) = &done.made {
                counts["documents"] = json!(made.live());
                let shards = made.shards.iter().map(|shard| {
                    let ShardEntry { base, documents, deleted, .. } = shard;
                    json!({"base": base, "documents": documents, "deleted": deleted})
                });
                counts["shards"] = shards.collect();
            }
            writeln!(std::io::stdout(), "{counts:#}")?;
        }
        match &done.made {
            _ if quiet => {}
            None => summary(format!(
                "nothing changed: version {} of {} is still the current one",
                done.of,
                collection.name()
            )),
            Some(made) => summary(format!(
                "version {} of {} is {}: {} in {}, of which {} changed",
                made.version,
                collection.name(),
                if self.no_activate { "ready" } else { "the current one" },
                counted(made.live(), "document"),
                counted(made.shards.len() as u64, "shard"),
                count(done.changed.len() as u64),
            )),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The documents of shards, and the settings of their indexes.
#[derive(Args)]
struct Settings {
    #[command(flatten)]
    terms: Terms,
    #[command(flatten)]
    reading: Reading,
    /// Data to store of each document besides its terms
    #[arg(long, value_enum, default_value = "all", help_heading = "Index")]
    stored: StoreChoice,
    /// Store the positions of words (with a schema, in all text fields), for phrase queries such as
    /// "new ideas"
    #[arg(long, help_heading = "Index")]
    positions: bool,
    /// The integer that represents a vector weight of 1.0
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = "Index")]
    vector_scale: u32,
}

impl Settings {
    fn options(&self) -> Result<IndexOptions, Failure> {
        let options = self.reading.options()?.analyzer(self.terms.analyzer).codec(self.terms.codec);
        let options = options.store(self.stored.get()).vector_scale(self.vector_scale);
        Ok(options.positions(self.positions))
    }

    fn inputs(&self) -> &[PathBuf] {
        &self.reading.from.inputs
    }

    fn is_quiet(&self) -> bool {
        self.reading.from.quiet
    }
}
