//! `warpseek node`: serves shards of a collection to aggregators over gRPC.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use warpseek::index::ScrubOptions;
use warpseek::options::CalibrationChoice;
use warpseek::{DeviceChoice, Progress};
use warpseek_cluster::{ClusterNode, NodeOptions, NodeServer};
use warpseek_collection::{Check, Collection};
use warpseek_console::Failure;
use warpseek_console::options::{Threads, parse_bytes_or_none};
use warpseek_console::terminal::note;

use crate::arguments::{LogChoice, Protection};
use crate::failures::{cluster_failure, collection_failure};

/// Serve shards of a collection to aggregators, over gRPC
///
/// A shard is an index over a consecutive range of the collection's documents. Shards are numbered
/// from 0 in the order of their documents. A node can have several shards, and several nodes the
/// same one. `warpseek aggregate` sends queries with the statistics of the whole collection, so
/// that scores equal those of one index.
///
/// With --store, the node first fetches its shards, checking their checksums, and continues
/// interrupted fetches. Shards in the cache are compared by size (with --verify also by checksum),
/// and differing files are fetched again.
///
/// The node verifies all bytes of a shard before serving it. While serving, it verifies a page when
/// a search reads it for the first time in --scrub-period, and all others at --scrub-rate. A
/// damaged shard leaves service, and other nodes answer for it until it is fetched again or,
/// without --store, until its directory is repaired.
///
/// Ctrl-C or SIGTERM stops the node after it has finished open requests.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek node --listen 127.0.0.1:9300 --shard 0=part0
  warpseek node --listen 127.0.0.1:9301 --shard 1=part1 --shard 2=part2
  warpseek node --store s3://bucket/search --name web --cache /var/cache/warpseek --shard 2
  warpseek aggregate --nodes 127.0.0.1:9300,127.0.0.1:9301 --shards 3 --listen 127.0.0.1:9200")]
pub(crate) struct Options {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9300")]
    listen: String,
    /// Number of a shard and the directory of its index, or only the number of a shard in the
    /// store; may be repeated
    #[arg(long = "shard", value_name = "N[=DIR]", required = true, value_parser = parse_shard)]
    shards: Vec<(u32, Option<PathBuf>)>,
    /// Version of the collection [default: the current one of the store; without a store, 1]
    #[arg(long, value_name = "N")]
    collection_version: Option<u64>,
    /// Object store to fetch shards from: a folder, or a URL with file://, s3://, gs:// or az://,
    /// bucket and prefix
    #[arg(long, value_name = "URL", requires = "name", requires = "cache", help_heading = "Store")]
    store: Option<String>,
    /// Name of the collection in the store
    #[arg(long, requires = "store", help_heading = "Store")]
    name: Option<String>,
    /// Folder to fetch into; shards go to COLLECTION/VERSION/SHARD inside it
    #[arg(long, value_name = "DIR", requires = "store", help_heading = "Store")]
    cache: Option<PathBuf>,
    /// Verify the checksums of shards in the cache, which reads all their bytes
    #[arg(long, requires = "store", help_heading = "Store")]
    verify: bool,
    /// Device that answers queries. All devices return the same hits
    #[arg(long, value_enum, default_value_t, help_heading = "Device")]
    device: Device,
    /// File with the times of queries on this machine, as `warpseek calibrate --output` writes it
    /// for one of the shards; it decides which device answers and which queries are refused
    /// [default: the calibration of each shard in the user's cache; without one, a few queries are
    /// timed at the start, with a GPU for longer]
    #[arg(long, value_name = "FILE", help_heading = "Device")]
    calibration: Option<PathBuf>,
    #[command(flatten)]
    threads: Threads,
    /// Maximum number of queries in progress. Aggregators send up to 64 at a time, and ask another
    /// node if there are too many; an idle node accepts any number
    #[arg(long, value_name = "N", default_value_t = NodeOptions::default().capacity, value_parser = clap::value_parser!(u32).range(1..))]
    capacity: u32,
    /// Time for which a page of a file counts as verified
    #[arg(long, value_name = "SECONDS", default_value_t = ScrubOptions::default().period.as_secs(), value_parser = clap::value_parser!(u64).range(1..=86_400), help_heading = "Damage")]
    scrub_period: u64,
    /// Bytes per second to verify in the background, e.g. 100M; 0 verifies none
    #[arg(long, value_name = "BYTES", default_value = "32M", value_parser = parse_bytes_or_none, help_heading = "Damage")]
    scrub_rate: usize,
    /// File that lists served and damaged shards while the node runs
    #[arg(long, value_name = "FILE", help_heading = "Damage")]
    status_file: Option<PathBuf>,
    /// Format of the log of failed searches
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
    /// The GPU or the CPU, whichever has the faster estimate
    Auto,
}

fn parse_shard(text: &str) -> Result<(u32, Option<PathBuf>), String> {
    let wrong = || {
        format!(
            "`{text}` is not a shard; write its number and directory, such as 0=part0, or only the number of a shard in the store"
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

/// A version of a collection in a store, and the folder that its shards are fetched into.
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
        let collection = Collection::open(store, name).map_err(collection_failure)?;
        let version = match options.collection_version {
            Some(version) => version,
            None => collection.current().map_err(collection_failure)?,
        };
        let check = if options.verify { Check::Checksums } else { Check::Sizes };
        Ok(Some(Source { collection, version, cache: cache.clone(), check }))
    }

    /// Fetches a shard unless it is in the cache, and opens it. If the shard is damaged or cannot
    /// be opened, compares its checksums and fetches differing files again.
    fn open(&self, node: &ClusterNode, shard: u32) -> Result<(), Failure> {
        let fetch = |check| {
            let fetched = &self.collection;
            let progress = Progress::default();
            fetched.fetch_shard_with(self.version, shard, &self.cache, check, &progress)
        };
        let dir = fetch(self.check).map_err(collection_failure)?;
        if let Err(error) = node.replace(shard, self.version, &dir) {
            note(format!("{error}; comparing checksums with the store"));
            let dir = fetch(Check::Checksums).map_err(collection_failure)?;
            node.replace(shard, self.version, &dir).map_err(cluster_failure)?;
        }
        Ok(())
    }

    /// Fetches damaged files of a shard again, and returns its folder. The repair also serves other
    /// nodes on this machine that use the same folder.
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
    let mut node = ClusterNode::new(NodeOptions {
        device: match options.device {
            Device::Cpu => DeviceChoice::Cpu,
            Device::Cuda => DeviceChoice::Cuda,
            Device::Auto => DeviceChoice::Auto,
        },
        threads: Some(options.threads.get()),
        calibration: match &options.calibration {
            Some(file) => CalibrationChoice::File(file.clone()),
            None => CalibrationChoice::Auto,
        },
        capacity: options.capacity,
        scrub: ScrubOptions {
            period: Duration::from_secs(options.scrub_period),
            bytes_per_second: options.scrub_rate as u64,
        },
    });
    // There is no way to tell whether a directory has the shard that the store has.
    if options.store.is_some()
        && let Some((number, _)) = options.shards.iter().find(|(_, dir)| dir.is_some())
    {
        return Err(Failure::user(format!(
            "with --store, shards are fetched from the store: give --shard {number} without a directory, or start another node for it"
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
            (Some(dir), _) => node.replace(*number, version, dir).map_err(cluster_failure)?,
            (None, Some(source)) => source.open(&node, *number)?,
            (None, None) => {
                let message = format!(
                    "shard {number} has no directory: give --shard {number}=DIR, or fetch it with --store, --name and --cache"
                );
                return Err(Failure::user(message));
            }
        }
    }
    let server = NodeServer::start(node, &options.listen, security, options.protection.insecure)
        .map_err(cluster_failure)?
        .status_file(options.status_file.clone());
    note(format!("listening on {}", server.address()));
    options.log.during(|| server.run()).map_err(cluster_failure)?;
    Ok(ExitCode::SUCCESS)
}
