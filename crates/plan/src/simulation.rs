//! A whole cluster under a virtual clock. The simulation shows how long answers take and how much
//! of the collection they cover, by the number of replicas, with and without hedged requests.
//!
//! A query goes to one replica of every shard at the same time. It is answered when the last
//! shard has answered, or at its deadline with the answers received by then. A node processes a
//! few requests at a time, and further requests wait in the order of their arrival. Requests vary
//! in length, some straggle, some nodes are slow, and nodes fail silently and recover later. The
//! aggregator sends a request to the replica with the fewest requests in progress, sends it to
//! another replica after the time within which most requests are answered (hedging), and stops
//! sending requests to a node once it has noticed that the node is down.
//!
//! Failures are rare compared with the seconds that are simulated. The run is therefore divided
//! into snapshots, each of which begins with nodes up or down as at a random moment of a long
//! time.

mod calibration;
mod clock;
mod engine;
mod inputs;
mod machine;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use self::calibration::{Calibrated, Calibration, ClusterMeasurement, MeasuredRow};
pub use self::inputs::{MAX_REQUESTS, SimulationInputs};

use crate::config::Config;
use crate::digits::count;
use crate::error::PlanError;

/// The result for one number of replicas.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulatedRow {
    /// Number of nodes for each shard.
    pub replicas: u64,
    /// True if requests were hedged.
    pub hedging: bool,
    /// Total number of nodes.
    pub nodes: u64,
    /// Time within which half of the queries were answered.
    pub p50_ms: f64,
    /// Time within which 95 % of the queries were answered.
    pub p95_ms: f64,
    /// Time within which 99 % of the queries were answered.
    pub p99_ms: f64,
    /// Time within which 99.9 % of the queries were answered.
    pub p999_ms: f64,
    /// Mean time.
    pub mean_ms: f64,
    /// Mean share of the documents that an answer covers.
    pub coverage: f64,
    /// Share of queries whose answers cover all documents.
    pub complete: f64,
    /// Share of requests that were sent to a second replica.
    pub hedged: f64,
    /// Share of the time in which the stations of nodes are busy.
    pub utilisation: f64,
    /// Cost of all nodes per hour.
    pub dollars_per_hour: f64,
    /// Cost of all nodes per million queries.
    pub dollars_per_million_queries: f64,
}

/// The result of a simulation.
#[derive(Clone, Debug, Serialize)]
pub struct Simulation {
    /// The inputs of the simulation.
    pub inputs: SimulationInputs,
    /// The results for each number of replicas, without and with hedging; one replica cannot be
    /// hedged.
    pub rows: Vec<SimulatedRow>,
}

/// Simulates all rows.
///
/// # Errors
///
/// Fails if the inputs are too large or would overload the nodes; the error names the wrong
/// input.
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
    /// Returns a table whose first row is the header.
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
