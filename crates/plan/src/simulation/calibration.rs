//! Comparison of the simulation with a real cluster. `warpseek bench cluster --json` measures the
//! times of shards that are queried one after the other, and of the whole cluster under load. The
//! simulation is given the former and has to reproduce the latter.

use serde::{Deserialize, Serialize};

use super::engine::{self, Measured};
use super::{MAX_REQUESTS, SimulatedRow, SimulationInputs};
use crate::error::PlanError;
use crate::number::{
    Documents, Dollars, Factor, Failures, Millis, Queries, Rate, Replicas, Seconds, Seed, Shards,
    Share, Stations, Variation,
};

/// Number of queries to simulate for each row, which determines quantiles to about a percent.
const QUERIES: u64 = 20_000;

/// Maximum number of measured queries.
const MOST_QUERIES: usize = 1_000_000;

/// Maximum number of rows. More of them would be simulated for hours.
const MOST_ROWS: usize = 1000;

/// The relevant parts of the output of `warpseek bench cluster --json`.
#[derive(Clone, Debug, Deserialize)]
pub struct ClusterMeasurement {
    /// Number of shards of the collection.
    pub shards: Shards,
    /// Number of nodes for each shard.
    pub replicas: Replicas,
    /// Number of requests that a node processes at the same time.
    pub node_threads: Stations,
    /// Number of cores that all nodes and the aggregator share; `None` if each has its own
    /// machine.
    pub shared_cores: Option<Stations>,
    /// Network time from the aggregator to a node, or back.
    pub network_ms: f64,
    /// Times of shards that were queried one after the other.
    pub alone: Alone,
    /// Measurements under load.
    pub rows: Vec<MeasuredRow>,
}

/// The times of shards that were queried one after the other, as measured by the aggregator.
#[derive(Clone, Debug, Deserialize)]
pub struct Alone {
    /// Times of all shards, for each query.
    pub shards_ms: Vec<Vec<f64>>,
    /// Additional time of the aggregator, for each query.
    pub aggregator_ms: Vec<f64>,
    /// Time of each query when all shards were queried at the same time, one query after the
    /// other.
    pub together_ms: Vec<f64>,
}

/// A measurement at a certain rate.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct MeasuredRow {
    /// Number of queries per second.
    pub rate: Rate,
    /// True if requests were hedged.
    pub hedging: bool,
    /// Maximum number of queries that were sent to a node together. Rows with more than one are
    /// not simulated.
    #[serde(default = "one")]
    pub cohort_size: u32,
    /// Time within which half of the queries were answered.
    pub p50_ms: f64,
    /// Time within which 95 % of the queries were answered.
    pub p95_ms: f64,
    /// Time within which 99 % of the queries were answered.
    pub p99_ms: f64,
    /// Mean time.
    pub mean_ms: f64,
    /// Share of requests that were sent to a second replica.
    pub hedged: f64,
    /// Number of queries without a complete answer.
    pub failed: u64,
}

fn one() -> u32 {
    1
}

impl MeasuredRow {
    /// Returns true if the row can be simulated: each query was sent alone.
    fn is_simulated(&self) -> bool {
        self.cohort_size == 1
    }
}

/// A measurement at a certain rate, with the corresponding simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibrated {
    /// The measured row.
    pub measured: MeasuredRow,
    /// The simulated row.
    pub simulated: SimulatedRow,
}

/// A comparison of the simulation with measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Calibration {
    /// Median time of a shard alone, without the network: `service_ms` in the inputs of a
    /// simulation.
    pub service_ms: f64,
    /// The measured `variation_of_service`.
    pub variation_of_service: f64,
    /// The measured `network_ms`.
    pub network_ms: f64,
    /// Number of cores that the shards of a query effectively used, if they share a machine.
    pub effective_cores: Option<f64>,
    /// The results for each rate, without and with hedging.
    pub rows: Vec<Calibrated>,
}

impl ClusterMeasurement {
    /// Parses the output of the command and checks its numbers.
    ///
    /// # Errors
    ///
    /// Returns an error that names the missing or wrong value.
    pub fn parse(json: &str) -> Result<Self, PlanError> {
        let problem = |message: String| PlanError::Measurements(message);
        let measurement: Self = serde_json::from_str(json).map_err(|error| {
            problem(format!("{error}; give the output of `warpseek bench cluster --json`"))
        })?;
        let Alone { shards_ms, aggregator_ms, together_ms } = &measurement.alone;
        let queries = shards_ms.len();
        if !(1..=MOST_QUERIES).contains(&queries)
            || [aggregator_ms, together_ms].iter().any(|times| times.len() != queries)
        {
            return Err(problem(
                "the lists of `alone` must have the same number of times, and at least one"
                    .to_owned(),
            ));
        }
        if shards_ms.iter().any(|times| times.len() as u64 != measurement.shards.get()) {
            return Err(problem("`alone.shards_ms` must have one time for each shard".to_owned()));
        }
        let times = shards_ms.iter().flatten().chain(aggregator_ms).chain(together_ms);
        let times = times.chain([&measurement.network_ms]);
        let measured = |row: &MeasuredRow| [row.p50_ms, row.p95_ms, row.p99_ms, row.mean_ms];
        let measured = measurement.rows.iter().flat_map(measured);
        let (_, longest) = Millis::RANGE;
        if times.copied().chain(measured).any(|time| !(0.0..=longest).contains(&time)) {
            return Err(problem(format!("times must be from 0 to {longest} milliseconds")));
        }
        if !(1..=MOST_ROWS).contains(&measurement.rows.len()) {
            return Err(problem(format!("`rows` must have 1 to {MOST_ROWS} rows")));
        }
        if measurement.rows.iter().any(|row| !(0.0..=1e6).contains(&row.hedged)) {
            return Err(problem("`hedged` must be a share of requests".to_owned()));
        }
        if !measurement.rows.iter().any(MeasuredRow::is_simulated) {
            return Err(problem(
                "the simulation has no cohorts, and all `rows` have; measure with `--cohort-size 1`"
                    .to_owned(),
            ));
        }
        let mut simulated = measurement.rows.iter().filter(|row| row.is_simulated());
        if let Some(row) = simulated.find(|row| row.failed > 0) {
            let MeasuredRow { rate, failed, .. } = row;
            return Err(problem(format!(
                "at {} queries/s, {failed} queries had no complete answer, so their times are not known; measure at a lower rate",
                rate.get()
            )));
        }
        Ok(measurement)
    }

    /// Simulates the measured cluster.
    pub fn calibrate(&self, seed: Seed) -> Calibration {
        // On one machine, the network is work for its cores and part of the times of shards.
        // Elsewhere it is a delay.
        let network_ms = if self.shared_cores.is_some() { 0.0 } else { self.network_ms };
        let of_shard = |ms: &f64| (ms - 2.0 * network_ms).max(0.0) / 1e3;
        let measured = Measured {
            shards: self
                .alone
                .shards_ms
                .iter()
                .map(|times| times.iter().map(of_shard).collect())
                .collect(),
            aggregator: self.alone.aggregator_ms.iter().map(|ms| ms / 1e3).collect(),
            shared_cores: self.effective_cores(),
        };
        let row = |row: &MeasuredRow| Calibrated {
            measured: row.clone(),
            simulated: engine::run(
                &self.inputs(row.rate, network_ms, seed),
                Some(&measured),
                self.replicas.get(),
                row.hedging,
            ),
        };
        let (service_ms, variation_of_service) = self.service();
        let rows = self.rows.iter().filter(|row| row.is_simulated()).map(row).collect();
        Calibration {
            service_ms,
            variation_of_service,
            network_ms: self.network_ms,
            effective_cores: self.effective_cores(),
            rows,
        }
    }

    /// Returns the inputs for a cluster without faults. Measured values replace those for
    /// requests.
    fn inputs(&self, rate: Rate, network_ms: f64, seed: Seed) -> SimulationInputs {
        SimulationInputs {
            documents: Documents::clamped(1),
            shards: self.shards,
            replicas: vec![self.replicas],
            queries_per_s: rate,
            queries: Queries::clamped(QUERIES.min(MAX_REQUESTS / self.shards.get().max(1))),
            deadline_ms: Millis::clamped(f64::INFINITY),
            service_ms: Millis::clamped(self.service().0),
            variation_of_service: Variation::clamped(0.0),
            stations: self.node_threads,
            network_ms: Millis::clamped(network_ms),
            stragglers: Share::clamped(0.0),
            straggler_factor: Factor::clamped(1.0),
            slow_nodes: Share::clamped(0.0),
            slow_factor: Factor::clamped(1.0),
            failures_per_year: Failures::clamped(0.0),
            repair_s: Seconds::clamped(1.0),
            notice_s: Seconds::clamped(1.0),
            hedge_after: Share::clamped(0.95),
            hedge_at_most: Share::clamped(0.1),
            dollars_per_node_hour: Dollars::clamped(0.0),
            seed,
        }
    }

    /// Returns the number of cores that the shards of a query effectively use on a shared
    /// machine: the work of all shards divided by the time it took. Caches, memory and the waking
    /// of threads are shared too, so this is less than the number of cores.
    fn effective_cores(&self) -> Option<f64> {
        let cores = self.shared_cores?.get() as f64;
        let Alone { shards_ms, aggregator_ms, together_ms } = &self.alone;
        let work: f64 = shards_ms.iter().flatten().sum();
        let time = together_ms.iter().sum::<f64>() - aggregator_ms.iter().sum::<f64>();
        Some((work / time.max(f64::MIN_POSITIVE)).clamp(0.1, cores))
    }

    /// Returns the median and the variation of the times of shards, without the network.
    fn service(&self) -> (f64, f64) {
        let times = self.alone.shards_ms.iter().flatten();
        let mut times: Vec<f64> = times.map(|ms| (ms - 2.0 * self.network_ms).max(0.0)).collect();
        times.sort_by(f64::total_cmp);
        let n = times.len() as f64;
        let mean = times.iter().sum::<f64>() / n;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / n;
        (times[times.len() / 2], variance.sqrt() / mean.max(f64::MIN_POSITIVE))
    }
}

impl Calibration {
    /// Returns a table whose first row is the header.
    pub fn cells(&self) -> Vec<Vec<String>> {
        let mut head = vec!["queries/s".to_owned(), "hedged".to_owned(), "simulated".to_owned()];
        for name in ["p50 ms", "p95 ms", "p99 ms"] {
            head.extend([name.to_owned(), "simulated".to_owned(), "error".to_owned()]);
        }
        let mut cells = vec![head];
        for Calibrated { measured, simulated } in &self.rows {
            let share = |share: f64| match measured.hedging {
                true => format!("{:.1}%", 100.0 * share),
                false => "no".to_owned(),
            };
            let mut row = vec![
                measured.rate.get().to_string(),
                share(measured.hedged),
                share(simulated.hedged),
            ];
            for (is, said) in [
                (measured.p50_ms, simulated.p50_ms),
                (measured.p95_ms, simulated.p95_ms),
                (measured.p99_ms, simulated.p99_ms),
            ] {
                // Adding zero removes the sign of a negative zero.
                let error = (100.0 * (said / is.max(f64::MIN_POSITIVE) - 1.0)).round() + 0.0;
                row.extend([format!("{is:.1}"), format!("{said:.1}"), format!("{error:+.0}%")]);
            }
            cells.push(row);
        }
        cells
    }
}
