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

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tempfile::TempDir;
use warpseek::IndexOptions;
use warpseek_collection::{Collection, CollectionError, ShardEntry, Update, UpdateOptions};
use warpseek_console::Failure;
use warpseek_console::terminal::{count, counted, summary};

use super::index::StoreChoice;
use crate::options::{Reading, Terms};

/// Build collections that are cut into shards, and keep them in an object store
///
/// A collection has versions, one of which is the current one. A new version is built beside it, and becomes the current one
/// when all of it is in the store; until then nothing changes for those who use the collection. The store is a folder or a
/// bucket of S3, Google Cloud Storage or Azure; keys come from the environment (docs/guide/collections.md).
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

One shard a machine:
  warpseek cluster cut docs.jsonl --store s3://bucket/search --name web --shards 4
  warpseek cluster build docs.jsonl --store s3://bucket/search --name web --build 7 --only-shard 2
  warpseek cluster publish --store s3://bucket/search --name web --build 7")]
pub(crate) struct Options {
    #[command(subcommand)]
    verb: Verb,
}

/// The commands for collections; each has a file of its own.
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
    /// Bring another version to the nodes of a running cluster
    Roll(ray::Options),
    /// Show the nodes of a running cluster
    Status(ray::Options),
    /// End a running cluster
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

/// Which collection.
#[derive(Args)]
struct Target {
    /// The object store: a folder, or file://, s3://, gs:// or az:// with bucket and prefix
    #[arg(long, value_name = "URL")]
    store: String,
    /// Name of the collection
    #[arg(long)]
    name: String,
}

impl Target {
    fn open(&self) -> Result<Collection, Failure> {
        Collection::open(&self.store, &self.name).map_err(failure)
    }

    /// The same for a build, which makes a folder that is not there.
    fn create(&self) -> Result<Collection, Failure> {
        Collection::create(&self.store, &self.name).map_err(failure)
    }
}

/// How documents are added to a collection or deleted from it.
#[derive(Args)]
struct Changing {
    /// Folder that the shards of the current version are fetched into, as `cluster fetch` does; those that are there are not
    /// fetched again. Shards are changed beside them [default: a temporary folder, which is removed afterwards]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Leave the current version as it is; `cluster activate` switches to the new one
    #[arg(long)]
    no_activate: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Changing {
    /// The cache is removed with the second of these.
    fn how(&self) -> Result<(UpdateOptions, Option<TempDir>), Failure> {
        let (cache, temporary) = match &self.cache {
            Some(cache) => (cache.clone(), None),
            None => {
                let made = tempfile::Builder::new().prefix("warpseek-shards-").tempdir();
                let made = made.map_err(|error| {
                    Failure::user(format!(
                        "a folder for shards cannot be made: {error}; name one with --cache"
                    ))
                })?;
                (made.path().to_owned(), Some(made))
            }
        };
        let activate = !self.no_activate;
        Ok((UpdateOptions { activate, ..UpdateOptions::new(cache) }, temporary))
    }

    /// Says which version was made. `counts` is what was done to documents, for JSON.
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

/// How shards are made.
#[derive(Args)]
struct Settings {
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    terms: Terms,
    /// What to store of each document besides its terms
    #[arg(long, value_enum, default_value = "all")]
    stored: StoreChoice,
    /// Keep the positions of words, so that phrases such as "new ideas" can be found; with a schema, in all text fields
    #[arg(long)]
    positions: bool,
    /// The integer that represents a vector weight of 1.0
    #[arg(long, value_name = "N", default_value_t = 256)]
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

/// From the errors of collections to messages and exit codes.
pub(super) fn failure(error: CollectionError) -> Failure {
    match error {
        CollectionError::Index(error) => error.into(),
        error if error.is_users() => Failure::user(error),
        error => Failure::broken(error),
    }
}
