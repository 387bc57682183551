//! The `bench cluster` command: measures a cluster under load, and its nodes one at a time. The
//! results calibrate the simulation of `warpseek plan --simulate`.

mod local;
mod network;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use serde_json::json;
use warpseek_cluster::{
    AggregatorOptions, Cluster, ClusterError, ClusterRequest, CohortOptions, Security, ShardTimes,
    Token, nodes,
};
use warpseek_console::terminal::{count, counted, table};
use warpseek_console::{Failure, Interrupt, progress};

use crate::cluster::local::LocalNodes;
use crate::cluster::network::{PAPER_MBIT, PAPER_RATE, Traffic};
use crate::random::Random;
use crate::statistics::{mean, percentile};
use crate::{hardware, program, read_queries};

/// Pause before each query that is measured alone. Without it, threads would be awake and caches
/// warm, unlike with queries that arrive only now and then.
const PAUSE: Duration = Duration::from_millis(20);

/// Number of calls without a search for each node, to measure the network.
const ROUND_TRIPS: usize = 50;

/// Measure a cluster: its nodes alone, and an aggregator under load
///
/// The first measurement calls the shards one after the other, one query at a time and with
/// pauses, so that each shard is measured alone even if nodes share a machine. Then queries
/// arrive at random times (Poisson) at each rate, whether or not earlier ones have been answered,
/// without and with cohorts of live queries, and without and with hedged requests; the time of a
/// query starts when it was due to arrive. The aggregator runs in this process and caches no
/// answers. `warpseek plan --simulate --calibrate` simulates the same cluster without cohorts from
/// the times of the single shards and shows how far the simulation is from the measurement.
///
/// The network rate of a node is that of all bytes on its connection, in both directions. The same
/// bytes per query at 5,120 queries/s, which are cohorts of 256 every 50 ms, are compared with the
/// 11 Mbit/s of Agrawal 2016 (k = 32).
///
/// The environment variable WARPSEEK_CLUSTER_TOKEN contains the token of the nodes.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench cluster --nodes 127.0.0.1:9300,127.0.0.1:9301 --shards 2 --queries log.txt --rates 20,50
  warpseek bench cluster --nodes nodes.txt --shards 4 --queries log.txt --rates 20,50 --json > cluster.json
  warpseek bench cluster --indexes part0,part1 --queries log.txt --rates 500 --cohort-size 1,256 -k 32
  warpseek plan --simulate --calibrate cluster.json")]
pub(crate) struct Options {
    /// Addresses of nodes, separated by commas, or a file with one per line
    #[arg(long, value_name = "NODES", required_unless_present = "indexes", requires = "shards")]
    nodes: Option<String>,
    /// Number of shards of the collection
    #[arg(long, value_name = "N", requires = "nodes")]
    shards: Option<u32>,
    /// Indexes, separated by commas, that this process serves as the shards, each on a node of its
    /// own, instead of --nodes
    #[arg(long, value_name = "FOLDERS", value_delimiter = ',', conflicts_with = "nodes")]
    indexes: Vec<PathBuf>,
    /// File of queries, one per line: `id<TAB>text` or only the text
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Queries per second; each rate is measured separately
    #[arg(long, value_delimiter = ',', value_name = "RATES", required = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rates: Vec<u32>,
    /// Number of queries in each measurement
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(20..=1_000_000))]
    requests: u32,
    /// Maximum number of live queries that are sent to a node together; each size is measured
    /// separately, and with 1 every query is sent alone
    #[arg(long, value_delimiter = ',', value_name = "SIZES", default_value = "1,64", value_parser = clap::value_parser!(u32).range(1..=4096))]
    cohort_size: Vec<u32>,
    /// Number of clients that wait for answers at the same time. Queries that arrive while all of
    /// them wait are late, which is part of their time
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,
    /// Number of threads of each node, as set by `warpseek node --threads` [default: one per core
    /// of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    node_threads: Option<u32>,
    /// Number of hits per query
    #[arg(short, default_value_t = 10, value_name = "K")]
    k: usize,
    /// Count all matches, which takes longer
    #[arg(long)]
    count: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Do not show a progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// Times of shards that were called one after the other.
#[derive(Serialize)]
struct Alone {
    /// Times of the shards for each query, in the order of shard numbers.
    shards_ms: Vec<Vec<f64>>,
    /// Remaining time of each query, which the aggregator took.
    aggregator_ms: Vec<f64>,
    /// Times of the same queries when all shards are called at once, still one query at a time.
    /// If nodes share a machine, they show how many of its cores the nodes get.
    together_ms: Vec<f64>,
}

/// Measurements at one rate.
#[derive(Serialize)]
struct Row {
    rate: u32,
    hedging: bool,
    /// Maximum number of queries in a cohort, and the mean number.
    cohort_size: u32,
    cohort_queries: f64,
    /// Queries that were answered per second.
    answered_per_s: f64,
    #[serde(flatten)]
    traffic: Traffic,
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    mean_ms: f64,
    /// Share of the calls to shards that were also sent to another replica.
    hedged: f64,
    /// Number of queries without a complete answer.
    failed: u64,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let texts = read_queries(&options.queries)?;
    if texts.is_empty() {
        return Err(Failure::user("the file of --queries is empty"));
    }
    let interrupt = Interrupt::listen(None)?;
    let steps = 1 + 2 * (options.rates.len() * options.cohort_size.len()) as u64;
    let bar = progress::items("measuring", steps, options.quiet);
    let local = LocalNodes::start(&options.indexes, options.node_threads).map_err(broken)?;
    let (nodes, shards) = match (&options.nodes, options.shards) {
        (Some(nodes), Some(shards)) => (nodes.clone(), shards),
        _ => (local.addresses(), options.indexes.len() as u32),
    };
    let bench = Bench { options, texts: &texts, interrupt: &interrupt, nodes, shards };
    let times = Arc::new(ShardTimes::default());
    // A hedged request would cut off the tail of a shard's times, and its slower answer would
    // delay the next query.
    let cluster = bench.connect(false, 1, Some(times.clone()))?;
    let replicas = replicas(&cluster)?;
    let mut trips: Vec<f64> = cluster.round_trips(ROUND_TRIPS).into_iter().map(millis).collect();
    trips.sort_by(f64::total_cmp);
    let network_ms = percentile(&trips, 0.5).unwrap_or(0.0) / 2.0;
    let mut alone = bench.alone(&cluster, &times)?;
    drop(cluster);
    bar.inc(1);
    let mut rows = Vec::new();
    for &size in &options.cohort_size {
        for hedging in [false, true] {
            let cluster = bench.connect(hedging, size, None)?;
            if alone.together_ms.is_empty() {
                alone.together_ms = bench.together(&cluster)?;
            }
            for &rate in &options.rates {
                rows.push(bench.load(&cluster, rate, hedging, size)?);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    bench.show(replicas, network_ms, &alone, &rows)
}

struct Bench<'a> {
    options: &'a Options,
    texts: &'a [String],
    interrupt: &'a Interrupt,
    nodes: String,
    shards: u32,
}

impl Bench<'_> {
    /// Connects an aggregator and runs all queries once, so that it knows their words and the
    /// response times of the nodes.
    fn connect(
        &self,
        hedging: bool,
        cohort_size: u32,
        times: Option<Arc<ShardTimes>>,
    ) -> Result<Cluster, Failure> {
        let (addresses, nodes_file) = nodes(&self.nodes);
        let token = Token::find(None).map_err(Failure::user)?;
        let cluster = Cluster::connect(AggregatorOptions {
            nodes_file,
            security: Security { token, ..Security::default() },
            // A cache would answer instead of the nodes.
            cache: 0,
            hedging,
            cohorts: CohortOptions { size: cohort_size as usize, ..CohortOptions::default() },
            shard_times: times.clone(),
            ..AggregatorOptions::new(addresses, self.shards)
        })
        .map_err(broken)?;
        for number in 0..self.texts.len().min(self.options.requests as usize) {
            self.check_interrupt()?;
            cluster.search(self.request(number)).map_err(broken)?;
        }
        times.iter().for_each(|times| drop(times.take()));
        Ok(cluster)
    }

    fn check_interrupt(&self) -> Result<(), Failure> {
        match self.interrupt.is_set() {
            true => Err(Failure::interrupted("interrupted")),
            false => Ok(()),
        }
    }

    fn request(&self, number: usize) -> ClusterRequest {
        let text = self.texts[number % self.texts.len()].as_str();
        let (k, count) = (self.options.k, self.options.count);
        ClusterRequest { k, count, allow_partial: false, ..ClusterRequest::new(text) }
    }

    fn alone(&self, cluster: &Cluster, times: &ShardTimes) -> Result<Alone, Failure> {
        let requests = self.options.requests as usize;
        let (shards_ms, aggregator_ms, together_ms) = (Vec::new(), Vec::new(), Vec::new());
        let mut alone = Alone { shards_ms, aggregator_ms, together_ms };
        for number in 0..requests {
            self.check_interrupt()?;
            std::thread::sleep(PAUSE);
            let start = Instant::now();
            cluster.search(self.request(number)).map_err(broken)?;
            let whole = millis(start.elapsed());
            let mut shards = times.take();
            if shards.len() != self.shards as usize {
                return Err(Failure::user(
                    "shards were replaced or failed during the measurement; repeat it while the cluster is stable",
                ));
            }
            shards.sort_by_key(|(shard, _)| *shard);
            let shards: Vec<f64> = shards.into_iter().map(|(_, took)| millis(took)).collect();
            alone.aggregator_ms.push((whole - shards.iter().sum::<f64>()).max(0.0));
            alone.shards_ms.push(shards);
        }
        Ok(alone)
    }

    /// Returns the times of queries that run one after the other.
    fn together(&self, cluster: &Cluster) -> Result<Vec<f64>, Failure> {
        let one = |number: usize| -> Result<f64, Failure> {
            self.check_interrupt()?;
            std::thread::sleep(PAUSE);
            let start = Instant::now();
            cluster.search(self.request(number)).map_err(broken)?;
            Ok(millis(start.elapsed()))
        };
        (0..self.options.requests as usize).map(one).collect()
    }

    /// Measures queries that arrive at random times.
    fn load(
        &self,
        cluster: &Cluster,
        rate: u32,
        hedging: bool,
        cohort_size: u32,
    ) -> Result<Row, Failure> {
        let requests = self.options.requests as usize;
        let arrivals = Random(0x9e37_79b9).arrivals(1.0 / f64::from(rate));
        let arrivals: Vec<f64> = arrivals.take(requests).collect();
        let before = status(cluster)?;
        let (next, failed) = (AtomicUsize::new(0), AtomicU64::new(0));
        let (tell, told) = mpsc::channel();
        let start = Instant::now();
        std::thread::scope(|scope| {
            let client = |tell: mpsc::Sender<f64>| {
                while !self.interrupt.is_set() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&at) = arrivals.get(number) else { return };
                    let arrives = start + Duration::from_secs_f64(at);
                    std::thread::sleep(arrives.saturating_duration_since(Instant::now()));
                    match cluster.search(self.request(number)) {
                        Ok(_) => drop(tell.send(millis(arrives.elapsed()))),
                        Err(_) => drop(failed.fetch_add(1, Ordering::Relaxed)),
                    }
                }
            };
            for _ in 0..requests.min(self.options.clients as usize) {
                let tell = tell.clone();
                scope.spawn(move || client(tell));
            }
        });
        drop(tell);
        self.check_interrupt()?;
        let (took, after) = (start.elapsed(), status(cluster)?);
        let of = |name: &str| number(&after, name).saturating_sub(number(&before, name)) as f64;
        let mut times: Vec<f64> = told.iter().collect();
        times.sort_by(f64::total_cmp);
        let calls = requests as f64 * f64::from(self.shards);
        let quantile = |share| percentile(&times, share).unwrap_or(0.0);
        Ok(Row {
            rate,
            hedging,
            cohort_size,
            cohort_queries: of("cohort_queries") / of("cohorts").max(1.0),
            answered_per_s: times.len() as f64 / took.as_secs_f64(),
            traffic: Traffic::between(&before, &after, took, calls),
            p50_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            mean_ms: mean(&times),
            hedged: of("hedged") / calls,
            failed: failed.into_inner(),
        })
    }

    fn show(
        &self,
        replicas: u64,
        network_ms: f64,
        alone: &Alone,
        rows: &[Row],
    ) -> Result<ExitCode, Failure> {
        let options = self.options;
        let mut out = std::io::stdout().lock();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if options.json {
            let report = json!({
                "program": program(), "hardware": hardware(), "shards": self.shards, "replicas": replicas, "k": options.k, "requests": options.requests,
                "node_threads": options.node_threads.unwrap_or(cores as u32), "shared_cores": self.is_one_machine()?.then_some(cores),
                "clients": options.clients, "network_ms": network_ms, "alone": alone, "rows": rows, "paper_mbit_per_s": PAPER_MBIT, "paper_queries_per_s": PAPER_RATE,
            });
            writeln!(out, "{report}")?;
            return Ok(ExitCode::SUCCESS);
        }
        let shards = alone.shards_ms.iter().flatten().copied();
        writeln!(
            out,
            "{}; {} with {}; half a round trip takes {network_ms:.2} ms",
            hardware(),
            counted(u64::from(self.shards), "shard"),
            counted(replicas, "replica"),
        )?;
        let quantiles = |values: &mut dyn Iterator<Item = f64>| {
            let mut values: Vec<f64> = values.collect();
            values.sort_by(f64::total_cmp);
            [0.5, 0.95, 0.99].map(|share| percentile(&values, share).unwrap_or(0.0))
        };
        let head = ["", "queries/s", "cohorts", "hedged", "p50 ms", "p95", "p99", "failed"];
        let head = head.into_iter().chain(["Mbit/s per node", "at 5,120 queries/s"]);
        let mut shown = vec![head.map(String::from).collect::<Vec<_>>()];
        let mut line = |cells: [String; 4], times: [f64; 3], failed: u64, rates: [String; 2]| {
            let times = times.map(|time| format!("{time:.2}"));
            shown.push([&cells[..], &times[..], &[count(failed)], &rates[..]].concat());
        };
        let alone: [(&str, &mut dyn Iterator<Item = f64>); 3] = [
            ("a shard alone", &mut { shards }),
            ("aggregator", &mut alone.aggregator_ms.iter().copied()),
            ("one query at a time", &mut alone.together_ms.iter().copied()),
        ];
        for (what, times) in alone {
            let [empty, no, none] = std::array::from_fn(|_| String::new());
            line([what.to_owned(), empty, no, none], quantiles(times), 0, Default::default());
        }
        for row in rows {
            let hedged = match row.hedging {
                true => format!("{:.1}%", 100.0 * row.hedged),
                false => "no".to_owned(),
            };
            let cohorts = match row.cohort_size {
                1 => "no".to_owned(),
                most => format!("{:.1} of {most}", row.cohort_queries),
            };
            let cells = ["at random times".to_owned(), count(row.rate.into()), cohorts, hedged];
            let rates = [row.traffic.node_mbit_per_s, row.traffic.at_paper_rate_mbit_per_s];
            let rates = rates.map(|rate| format!("{rate:.2}"));
            line(cells, [row.p50_ms, row.p95_ms, row.p99_ms], row.failed, rates);
        }
        table(&shown, &mut out)?;
        writeln!(
            out,
            "Agrawal 2016, section 6.5: {PAPER_MBIT} Mbit/s per node at {PAPER_RATE} queries/s (cohorts of 256 every 50 ms, k = 32)"
        )?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns true if all nodes are on this machine, where they share its cores with the
    /// aggregator.
    fn is_one_machine(&self) -> Result<bool, Failure> {
        let here = |address: &String| {
            ["127.", "localhost:", "[::1]:"].iter().any(|start| address.starts_with(start))
        };
        Ok(self.addresses()?.iter().all(here))
    }

    fn addresses(&self) -> Result<Vec<String>, Failure> {
        match nodes(&self.nodes) {
            (_, Some(file)) => Ok(warpseek_cluster::addresses(&crate::read(&file)?)),
            (addresses, None) => Ok(addresses),
        }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn broken(error: ClusterError) -> Failure {
    match error {
        ClusterError::Query(error) => error.into(),
        error @ (ClusterError::Setup(_)
        | ClusterError::Settings { .. }
        | ClusterError::ShardNumber { .. }) => Failure::user(error),
        error => Failure::broken(error),
    }
}

/// Returns a counter of the state of the cluster.
fn number(status: &serde_json::Value, name: &str) -> u64 {
    status[name].as_u64().unwrap_or(0)
}

fn status(cluster: &Cluster) -> Result<serde_json::Value, Failure> {
    cluster.status().map_err(|failure| Failure::broken(failure.reason))
}

/// Returns the number of nodes of each shard. It must be the same for all shards, because the
/// simulation supports no other clusters.
fn replicas(cluster: &Cluster) -> Result<u64, Failure> {
    let status = status(cluster)?;
    let nodes = |shard: &serde_json::Value| shard.as_u64().unwrap_or(0);
    let all: Vec<u64> = status["replicas"].as_array().into_iter().flatten().map(nodes).collect();
    match all.first() {
        Some(&first) if first > 0 && all.iter().all(|&replicas| replicas == first) => Ok(first),
        _ => Err(Failure::user(format!(
            "every shard must have the same number of responding nodes, but the shards have {all:?}"
        ))),
    }
}
