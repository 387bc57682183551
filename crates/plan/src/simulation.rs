//! A whole cluster under a virtual clock: how late answers are and how much of the collection they cover, by the number of replicas and with or without hedged requests.
//!
//! A query goes to one replica of every shard at once, and is answered when the last shard is, or at its deadline with what is there by then. A node works on a few requests at a time, and others wait in the
//! order in which they came. Requests vary in length, some straggle, some nodes are slow, nodes fail without a word and come back. The aggregator sends a request to the replica with the fewest under way, asks another
//! one after the time within which most requests are answered (hedging), and stops asking a node when it has noticed that it is down.
//!
//! Failures are rare compared with the seconds that are simulated. So the run is cut into snapshots, each of which begins with nodes up or down as they are at a random moment of a long time.

mod calibration;
mod clock;
mod engine;
mod machine;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use self::calibration::{Calibrated, Calibration, ClusterMeasurement, MeasuredRow};

use crate::config::Config;
use crate::error::PlanError;
use crate::number::{
    Documents, Dollars, Factor, Failures, Millis, Queries, Rate, Replicas, Seconds, Seed, Shards,
    Share, Stations, Variation,
};
use crate::tables::count;

/// The most requests of a row: shards times queries.
pub const MAX_REQUESTS: u64 = 50_000_000;

/// The inputs of a simulation: `[simulation]` of the TOML file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SimulationInputs {
    /// Documents of the collection.
    pub documents: Documents,
    /// Parts that it is cut into.
    pub shards: Shards,
    /// Nodes for each shard, a row of the result for each.
    pub replicas: Vec<Replicas>,
    /// Queries per second, at random times.
    pub queries_per_s: Rate,
    /// Queries to simulate.
    pub queries: Queries,
    /// The time after which a query is answered with what is there.
    pub deadline_ms: Millis,
    /// The median time of a request on a node that does nothing else.
    pub service_ms: Millis,
    /// How much that varies.
    pub variation_of_service: Variation,
    /// Requests that a node works on at once.
    pub stations: Stations,
    /// From the aggregator to a node, or back.
    pub network_ms: Millis,
    /// The share of requests that straggle.
    pub stragglers: Share,
    /// How many times longer these take.
    pub straggler_factor: Factor,
    /// The share of nodes that are slow all the time.
    pub slow_nodes: Share,
    /// How many times longer their requests take.
    pub slow_factor: Factor,
    /// How often a node fails.
    pub failures_per_year: Failures,
    /// The mean time until it is back.
    pub repair_s: Seconds,
    /// The time until the aggregator no longer asks it.
    pub notice_s: Seconds,
    /// The share of requests that are answered before another replica is asked.
    pub hedge_after: Share,
    /// The most requests that are asked twice, as a share of all.
    pub hedge_at_most: Share,
    /// What a node costs.
    pub dollars_per_node_hour: Dollars,
    /// The same seed gives the same result.
    pub seed: Seed,
}

/// What came of one number of replicas.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulatedRow {
    /// Nodes for each shard.
    pub replicas: u64,
    /// Whether requests were hedged.
    pub hedging: bool,
    /// All nodes.
    pub nodes: u64,
    /// Time until half of the queries were answered.
    pub p50_ms: f64,
    /// 95 of 100.
    pub p95_ms: f64,
    /// 99 of 100.
    pub p99_ms: f64,
    /// 999 of 1,000.
    pub p999_ms: f64,
    /// Mean time.
    pub mean_ms: f64,
    /// Mean share of the documents that an answer covers.
    pub coverage: f64,
    /// The share of queries whose answers cover all documents.
    pub complete: f64,
    /// The share of requests that were asked twice.
    pub hedged: f64,
    /// The share of the time in which the stations of nodes work.
    pub utilisation: f64,
    /// What all nodes cost in an hour.
    pub dollars_per_hour: f64,
    /// What they cost for a million queries.
    pub dollars_per_million_queries: f64,
}

/// The result of a simulation.
#[derive(Clone, Debug, Serialize)]
pub struct Simulation {
    /// What was simulated.
    pub inputs: SimulationInputs,
    /// For each number of replicas without and with hedging; one replica cannot be hedged.
    pub rows: Vec<SimulatedRow>,
}

impl SimulationInputs {
    /// Refuses what would take too long, or overload every node.
    fn check(&self) -> Result<(), PlanError> {
        let problem =
            |key: &'static str, message: String| Err(PlanError::Simulation { key, message });
        let requests = self.shards.get() * self.queries.get();
        if requests > MAX_REQUESTS {
            let message = format!(
                "{} shards times {} queries are {} requests; at most {} are simulated, so take fewer queries",
                count(self.shards.get()),
                count(self.queries.get()),
                count(requests),
                count(MAX_REQUESTS)
            );
            return problem("queries", message);
        }
        let Some(fewest) = self.replicas.iter().map(|replicas| replicas.get()).min() else {
            return problem("replicas", "give at least one number of replicas".to_owned());
        };
        let busy = self.mean_service_ms() / 1e3 * self.queries_per_s.get() as f64;
        let load = busy / (fewest * self.stations.get()) as f64;
        if load >= 1.0 {
            let message = format!(
                "nodes would have {load:.2} times the work that they can do with {fewest} replicas; lower it, or give more replicas or stations"
            );
            return problem("queries_per_s", message);
        }
        Ok(())
    }

    /// The mean time of a request on a node that does nothing else.
    fn mean_service_ms(&self) -> f64 {
        let variation = self.variation_of_service.get();
        // Of a lognormal distribution, from its median.
        let mean = self.service_ms.get() * (1.0 + variation * variation).sqrt();
        let longer = |share: Share, factor: Factor| 1.0 + share.get() * (factor.get() - 1.0);
        mean * longer(self.stragglers, self.straggler_factor)
            * longer(self.slow_nodes, self.slow_factor)
    }
}

/// Simulates all rows.
///
/// # Errors
///
/// What is wrong with the inputs, if they are too large or overload the nodes.
pub fn simulate(config: &Config) -> Result<Simulation, PlanError> {
    let default = || Config::default().simulation;
    let inputs = config.simulation.clone().or_else(default);
    let inputs = inputs.ok_or_else(|| PlanError::Simulation {
        key: "simulation",
        message: "the file has no such section".to_owned(),
    })?;
    simulate_inputs(inputs)
}

fn simulate_inputs(inputs: SimulationInputs) -> Result<Simulation, PlanError> {
    inputs.check()?;
    let mut rows = Vec::new();
    for replicas in &inputs.replicas {
        rows.push(engine::run(&inputs, None, replicas.get(), false));
        if replicas.get() > 1 {
            rows.push(engine::run(&inputs, None, replicas.get(), true));
        }
    }
    Ok(Simulation { inputs, rows })
}

impl Simulation {
    /// A table; the first row is the head.
    pub fn cells(&self) -> Vec<Vec<String>> {
        let head = [
            "replicas",
            "hedged",
            "nodes",
            "p50 ms",
            "p95",
            "p99",
            "p99.9",
            "coverage",
            "complete",
            "busy",
            "$/hour",
            "$/million",
        ];
        let mut rows = vec![head.map(String::from).to_vec()];
        for row in &self.rows {
            rows.push(vec![
                row.replicas.to_string(),
                if row.hedging { format!("{:.1}%", 100.0 * row.hedged) } else { "no".to_owned() },
                count(row.nodes),
                format!("{:.1}", row.p50_ms),
                format!("{:.1}", row.p95_ms),
                format!("{:.1}", row.p99_ms),
                format!("{:.1}", row.p999_ms),
                format!("{:.4}%", 100.0 * row.coverage),
                format!("{:.1}%", 100.0 * row.complete),
                format!("{:.0}%", 100.0 * row.utilisation),
                format!("{:.0}", row.dollars_per_hour),
                format!("{:.0}", row.dollars_per_million_queries),
            ]);
        }
        rows
    }
}
