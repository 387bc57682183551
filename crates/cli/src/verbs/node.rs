use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use warpseek::DeviceChoice;
use warpseek_cluster::{Node, NodeOptions, NodeServer};
use warpseek_console::Failure;
use warpseek_console::options::Threads;
use warpseek_console::terminal::note;

use crate::protection::{Protection, failed};

/// Serve shards of a collection to aggregators, over gRPC
///
/// A shard is an index over a consecutive range of the collection's documents; shards are numbered from 0 in the order of their documents. A node may have any
/// of them, and several nodes the same ones. Queries come from `warpseek aggregate`, with the statistics of the whole collection, so that scores are those of one index.
/// Ctrl-C or SIGTERM ends it: what is under way is finished.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek node --listen 127.0.0.1:9300 --shard 0=part0
  warpseek node --listen 127.0.0.1:9301 --shard 1=part1 --shard 2=part2
  warpseek aggregate --nodes 127.0.0.1:9300,127.0.0.1:9301 --shards 3 --listen 127.0.0.1:9200")]
pub(crate) struct Options {
    /// Address and port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9300")]
    listen: String,
    /// A shard: its number, and the directory of its index
    #[arg(long = "shard", value_name = "N=DIR", required = true, value_parser = parse_shard)]
    shards: Vec<(u32, PathBuf)>,
    /// Version of the collection that the shards are of
    #[arg(long, value_name = "N", default_value_t = 1)]
    collection_version: u64,
    /// The device that answers queries. All devices return the same hits
    #[arg(long, value_enum, default_value_t, help_heading = "Device")]
    device: Device,
    #[command(flatten)]
    threads: Threads,
    /// Queries that may be under way at the same time; aggregators ask another node for the rest
    #[arg(long, value_name = "N", default_value_t = NodeOptions::default().capacity, value_parser = clap::value_parser!(u32).range(1..))]
    capacity: u32,
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

fn parse_shard(text: &str) -> Result<(u32, PathBuf), String> {
    let wrong = || format!("`{text}` is not a number, `=` and a directory, such as 0=part0");
    let (number, dir) = text.split_once('=').ok_or_else(wrong)?;
    let number = number.parse().map_err(|_| wrong())?;
    if dir.is_empty() {
        return Err(wrong());
    }
    Ok((number, dir.into()))
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let security = options.protection.security()?;
    let mut numbers: Vec<u32> = options.shards.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    if let Some(twice) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Failure::user(format!("shard {} is given twice", twice[0])));
    }
    let node = Arc::new(Node::new(NodeOptions {
        device: match options.device {
            Device::Cpu => DeviceChoice::Cpu,
            Device::Cuda => DeviceChoice::Cuda,
            Device::Auto => DeviceChoice::Auto,
        },
        threads: Some(options.threads.get()),
        capacity: options.capacity,
    }));
    for (number, dir) in &options.shards {
        node.replace(*number, options.collection_version, dir).map_err(failed)?;
    }
    let server = NodeServer::start(node, &options.listen, security, options.protection.insecure)
        .map_err(failed)?;
    note(format!("listening on {}", server.address()));
    server.run().map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
