mod activate;
mod build;
mod cut;
mod fetch;
mod list;
mod publish;
mod ray;
mod remove;
mod rollback;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use warpseek::IndexOptions;
use warpseek_collection::{Collection, CollectionError};
use warpseek_console::Failure;

use super::index::StoreChoice;
use crate::options::{Reading, Terms};

/// Build collections that are cut into shards, and keep them in an object store
///
/// A collection has versions, one of which is the current one. A new version is built beside it, and becomes the current one
/// when all of it is in the store; until then nothing changes for those who use the collection. The store is a folder or a
/// bucket of S3, Google Cloud Storage or Azure; keys come from the environment (docs/collections.md).
#[derive(Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  warpseek cluster build docs.jsonl --store /srv/store --name web --shards 4
  warpseek cluster list --store /srv/store
  warpseek cluster fetch --store /srv/store --name web --shard 2 --cache /var/cache/warpseek
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
fn failure(error: CollectionError) -> Failure {
    match error {
        CollectionError::Index(error) => error.into(),
        error if error.is_users() => Failure::user(error),
        error => Failure::broken(error),
    }
}
