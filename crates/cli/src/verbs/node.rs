use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use warpseek::{DeviceChoice, Progress, ScrubOptions};
use warpseek_cluster::{Node, NodeOptions, NodeServer};
use warpseek_collection::{Check, Collection};
use warpseek_console::Failure;
use warpseek_console::options::{Threads, parse_bytes_or_none};
use warpseek_console::terminal::note;

use super::cluster::failure;
use crate::options::LogChoice;
use crate::protection::{Protection, failed};

/// Serve shards of a collection to aggregators, over gRPC
///
/// A shard is an index over a consecutive range of the collection's documents; shards are numbered from 0 in the order of their documents. A node may have any
/// of them, and several nodes the same ones. Queries come from `warpseek aggregate`, with the statistics of the whole collection, so that scores are those of one index.
///
/// With --store, shards are fetched from there first, with their checksums checked as they come; a fetch that was interrupted is continued. Of those that are in the cache, sizes are compared,
/// with --verify checksums too, and what is wrong is fetched again.
///
/// All bytes of a shard are verified before it is served, and again while it is: once every --scrub-period when a search reads them, and at --scrub-rate without. A shard whose files are damaged leaves service; other
/// nodes answer for it. It is fetched again and comes back. Without --store it comes back when its directory is sound again.
///
/// Ctrl-C or SIGTERM ends it: what is under way is finished.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek node --listen 127.0.0.1:9300 --shard 0=part0
  warpseek node --listen 127.0.0.1:9301 --shard 1=part1 --shard 2=part2
  warpseek node --listen 127.0.0.1:9302 --store s3://bucket/search --name web --cache /var/cache/warpseek --shard 2
  warpseek aggregate --nodes 127.0.0.1:9300,127.0.0.1:9301 --shards 3 --listen 127.0.0.1:9200")]
pub(crate) struct Options {
    /// Address and port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9300")]
    listen: String,
    /// A shard: its number, and the directory of its index; only its number if it is in the store
    #[arg(long = "shard", value_name = "N[=DIR]", required = true, value_parser = parse_shard)]
    shards: Vec<(u32, Option<PathBuf>)>,
    /// Version of the collection that the shards are of [default: the current one of the store, or else 1]
    #[arg(long, value_name = "N")]
    collection_version: Option<u64>,
    /// The object store that shards are fetched from: a folder, or file://, s3://, gs:// or az:// with bucket and prefix
    #[arg(long, value_name = "URL", requires = "name", requires = "cache", help_heading = "Store")]
    store: Option<String>,
    /// Name of the collection in the store
    #[arg(long, requires = "store", help_heading = "Store")]
    name: Option<String>,
    /// Folder to fetch into: its subfolders are collection, version, shard
    #[arg(long, value_name = "DIR", requires = "store", help_heading = "Store")]
    cache: Option<PathBuf>,
    /// Compare the checksums of shards that are in the cache, which reads all of them
    #[arg(long, requires = "store", help_heading = "Store")]
    verify: bool,
    /// The device that answers queries. All devices return the same hits
    #[arg(long, value_enum, default_value_t, help_heading = "Device")]
    device: Device,
    #[command(flatten)]
    threads: Threads,
    /// Queries that may be under way at the same time; aggregators, which send up to 64 together, ask another node for the rest. A node without any takes a request of any size
    #[arg(long, value_name = "N", default_value_t = NodeOptions::default().capacity, value_parser = clap::value_parser!(u32).range(1..))]
    capacity: u32,
    /// How long a page of a file counts as verified once it was read
    #[arg(long, value_name = "SECONDS", default_value_t = ScrubOptions::default().period.as_secs(), value_parser = clap::value_parser!(u64).range(1..=86_400), help_heading = "Damage")]
    scrub_period: u64,
    /// Bytes a second that are read to find damage where no search reads, e.g. 100M; 0 reads none
    #[arg(long, value_name = "BYTES", default_value = "32M", value_parser = parse_bytes_or_none, help_heading = "Damage")]
    scrub_rate: usize,
    /// File to say in which shards are served and which are damaged, as long as the node runs
    #[arg(long, value_name = "FILE", help_heading = "Damage")]
    status_file: Option<PathBuf>,
    /// How the log of searches that fail is written
    #[arg(long, value_enum, default_value = "pretty")]
    log: LogChoice,
    #[command(flatten)]
    protection: Protection,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Device {
    /// The CPU
    #[default]
    Cpu,
    /// A GPU; without one, the command fails
    Cuda,
    /// The GPU or the CPU, whichever is estimated to be faster
    Auto,
}

fn parse_shard(text: &str) -> Result<(u32, Option<PathBuf>), String> {
    let wrong = || {
        format!(
            "`{text}` is neither a number, `=` and a directory, such as 0=part0, nor only the number of a shard in a store"
        )
    };
    let (number, dir) = match text.split_once('=') {
        Some((number, dir)) => (number, Some(PathBuf::from(dir))),
        None => (text, None),
    };
    let number = number.parse().map_err(|_| wrong())?;
    if dir.as_ref().is_some_and(|dir| dir.as_os_str().is_empty()) {
        return Err(wrong());
    }
    Ok((number, dir))
}

/// A version of a collection in a store, and where its shards are fetched into.
struct Source {
    collection: Collection,
    version: u64,
    cache: PathBuf,
    check: Check,
}

impl Source {
    fn of(options: &Options) -> Result<Option<Self>, Failure> {
        let (Some(store), Some(name), Some(cache)) =
            (&options.store, &options.name, &options.cache)
        else {
            return Ok(None);
        };
        let collection = Collection::open(store, name).map_err(failure)?;
        let version = match options.collection_version {
            Some(version) => version,
            None => collection.current().map_err(failure)?,
        };
        let check = if options.verify { Check::Checksums } else { Check::Sizes };
        Ok(Some(Source { collection, version, cache: cache.clone(), check }))
    }

    /// Fetches a shard unless it is there, and opens it. One that cannot be opened, or is damaged, has its checksums compared, and what differs is fetched again.
    fn open(&self, node: &Node, shard: u32) -> Result<(), Failure> {
        let fetch = |check| {
            let fetched = &self.collection;
            let progress = Progress::default();
            fetched.fetch_shard_with(self.version, shard, &self.cache, check, &progress)
        };
        let dir = fetch(self.check).map_err(failure)?;
        if let Err(error) = node.replace(shard, self.version, &dir) {
            note(format!("{error}; its checksums are compared"));
            let dir = fetch(Check::Checksums).map_err(failure)?;
            node.replace(shard, self.version, &dir).map_err(failed)?;
        }
        Ok(())
    }

    /// Fetches what is damaged of a shard again, and returns its folder. Another node on this machine that has the same folder finds it sound then.
    fn repair(&self, shard: u32, version: u64, progress: &Progress) -> Result<PathBuf, String> {
        let check = Check::Checksums;
        let fetched =
            self.collection.fetch_shard_with(version, shard, &self.cache, check, progress);
        fetched.map_err(|error| error.to_string())
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let security = options.protection.security()?;
    let mut numbers: Vec<u32> = options.shards.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    if let Some(twice) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Failure::user(format!("shard {} is given twice", twice[0])));
    }
    let mut node = Node::new(NodeOptions {
        device: match options.device {
            Device::Cpu => DeviceChoice::Cpu,
            Device::Cuda => DeviceChoice::Cuda,
            Device::Auto => DeviceChoice::Auto,
        },
        threads: Some(options.threads.get()),
        capacity: options.capacity,
        scrub: ScrubOptions {
            period: Duration::from_secs(options.scrub_period),
            bytes_per_second: options.scrub_rate as u64,
        },
    });
    // Nobody could tell whether a directory is the shard that the store has.
    if options.store.is_some()
        && let Some((number, _)) = options.shards.iter().find(|(_, dir)| dir.is_some())
    {
        return Err(Failure::user(format!(
            "with --store shards come from there: give --shard {number} without a directory, or start another node for it"
        )));
    }
    let source = Source::of(options)?.map(Arc::new);
    if let Some(source) = source.clone() {
        node = node
            .repaired_by(move |shard, version, progress| source.repair(shard, version, progress));
    }
    let node = Arc::new(node);
    let version = source.as_ref().map(|source| source.version);
    let version = version.or(options.collection_version).unwrap_or(1);
    for (number, dir) in &options.shards {
        match (dir, &source) {
            (Some(dir), _) => node.replace(*number, version, dir).map_err(failed)?,
            (None, Some(source)) => source.open(&node, *number)?,
            (None, None) => {
                let message = format!(
                    "shard {number} has no directory: give --shard {number}=DIR, or say with --store, --name and --cache where it is fetched from"
                );
                return Err(Failure::user(message));
            }
        }
    }
    let server = NodeServer::start(node, &options.listen, security, options.protection.insecure)
        .map_err(failed)?
        .status_file(options.status_file.clone());
    note(format!("listening on {}", server.address()));
    options.log.during(|| server.run()).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
