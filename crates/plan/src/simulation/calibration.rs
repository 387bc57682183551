//! The simulation beside a real cluster: `warpseek bench cluster --json` has the times of shards that were asked alone and what the whole cluster did under load. The simulation gets the former, and has to come to the latter.

use serde::{Deserialize, Serialize};

use super::engine::{self, Measured};
use super::{MAX_REQUESTS, SimulatedRow, SimulationInputs};
use crate::error::PlanError;
use crate::number::{
    Documents, Dollars, Factor, Failures, Millis, Queries, Rate, Replicas, Seconds, Seed, Shards,
    Share, Stations, Variation,
};

/// Queries to simulate for each row: quantiles are then known to about a percent.
const QUERIES: u64 = 20_000;

/// More queries than this are not of one run.
const MOST_QUERIES: usize = 1_000_000;

/// More rows than this would be simulated for hours.
const MOST_ROWS: usize = 1000;

/// What `warpseek bench cluster --json` printed, as far as it is needed.
#[derive(Clone, Debug, Deserialize)]
pub struct ClusterMeasurement {
    /// Shards of the collection.
    pub shards: Shards,
    /// Nodes for each shard.
    pub replicas: Replicas,
    /// Requests that a node works on at once.
    pub node_threads: Stations,
    /// The cores that all nodes and the aggregator share; none if each has its own machine.
    pub shared_cores: Option<Stations>,
    /// From the aggregator to a node, or back.
    pub network_ms: f64,
    /// Times of shards that were asked one after the other.
    pub alone: Alone,
    /// What was measured under load.
    pub rows: Vec<MeasuredRow>,
}

/// Times of shards that were asked one after the other, as the aggregator saw them.
#[derive(Clone, Debug, Deserialize)]
pub struct Alone {
    /// For each query the times of all shards.
    pub shards_ms: Vec<Vec<f64>>,
    /// What the aggregator took beyond that.
    pub aggregator_ms: Vec<f64>,
    /// What the queries took when all shards were asked at once, a query at a time.
    pub together_ms: Vec<f64>,
}

/// What was measured at a rate.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct MeasuredRow {
    /// Queries per second.
    pub rate: Rate,
    /// Whether requests were hedged.
    pub hedging: bool,
    /// Time until half of the queries were answered.
    pub p50_ms: f64,
    /// 95 of 100.
    pub p95_ms: f64,
    /// 99 of 100.
    pub p99_ms: f64,
    /// Mean time.
    pub mean_ms: f64,
    /// The share of requests that were asked twice.
    pub hedged: f64,
    /// Queries that had no complete answer.
    pub failed: u64,
}

/// What was measured at a rate, and what the simulation says of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibrated {
    /// What was measured.
    pub measured: MeasuredRow,
    /// What was simulated.
    pub simulated: SimulatedRow,
}

/// The simulation beside what was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Calibration {
    /// The median time of a shard alone, without the network: `service_ms` of the inputs of a simulation.
    pub service_ms: f64,
    /// `variation_of_service`.
    pub variation_of_service: f64,
    /// `network_ms`.
    pub network_ms: f64,
    /// As many cores as shards got that share a machine, if they do.
    pub effective_cores: Option<f64>,
    /// For each rate, without and with hedging.
    pub rows: Vec<Calibrated>,
}

impl ClusterMeasurement {
    /// Reads what the command printed, and checks its numbers.
    ///
    /// # Errors
    ///
    /// What is missing or wrong.
    pub fn parse(json: &str) -> Result<Self, PlanError> {
        let problem = |message: String| PlanError::Measurements(message);
        let of: Self = serde_json::from_str(json).map_err(|error| {
            problem(format!("{error}; give what `warpseek bench cluster --json` printed"))
        })?;
        let Alone { shards_ms, aggregator_ms, together_ms } = &of.alone;
        let queries = shards_ms.len();
        if !(1..=MOST_QUERIES).contains(&queries)
            || [aggregator_ms, together_ms].iter().any(|times| times.len() != queries)
        {
            return Err(problem(
                "`alone` has not the same number of times in each list, or none".to_owned(),
            ));
        }
        if shards_ms.iter().any(|times| times.len() as u64 != of.shards.get()) {
            return Err(problem("`alone.shards_ms` has not one time for each shard".to_owned()));
        }
        let times = shards_ms.iter().flatten().chain(aggregator_ms).chain(together_ms);
        let times = times.chain([&of.network_ms]);
        let measured = |row: &MeasuredRow| [row.p50_ms, row.p95_ms, row.p99_ms, row.mean_ms];
        let measured = of.rows.iter().flat_map(measured);
        let (_, longest) = Millis::RANGE;
        if times.copied().chain(measured).any(|time| !(0.0..=longest).contains(&time)) {
            return Err(problem(format!("a time is not from 0 to {longest} milliseconds")));
        }
        if !(1..=MOST_ROWS).contains(&of.rows.len()) {
            return Err(problem(format!("`rows` has not 1 to {MOST_ROWS} rows")));
        }
        if of.rows.iter().any(|row| !(0.0..=1e6).contains(&row.hedged)) {
            return Err(problem("`hedged` is not a share of requests".to_owned()));
        }
        if let Some(row) = of.rows.iter().find(|row| row.failed > 0) {
            let MeasuredRow { rate, failed, .. } = row;
            return Err(problem(format!(
                "at {} queries/s {failed} had no complete answer, so their times are not known; measure at a lower rate",
                rate.get()
            )));
        }
        Ok(of)
    }

    /// Simulates what was measured.
    pub fn calibrate(&self, seed: Seed) -> Calibration {
        // On one machine the network is work of its cores, and part of what shards take. Elsewhere it is a wait.
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
        let rows = self.rows.iter().map(row).collect();
        Calibration {
            service_ms,
            variation_of_service,
            network_ms: self.network_ms,
            effective_cores: self.effective_cores(),
            rows,
        }
    }

    /// The inputs of a cluster without faults. What the measurement has is not taken from here.
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

    /// As many cores as the shards of a query get that share a machine. Caches, memory and the waking of threads are shared too, so it is less than there are: the work of all shards over the time that it took.
    fn effective_cores(&self) -> Option<f64> {
        let cores = self.shared_cores?.get() as f64;
        let Alone { shards_ms, aggregator_ms, together_ms } = &self.alone;
        let work: f64 = shards_ms.iter().flatten().sum();
        let time = together_ms.iter().sum::<f64>() - aggregator_ms.iter().sum::<f64>();
        Some((work / time.max(f64::MIN_POSITIVE)).clamp(0.1, cores))
    }

    /// Median and variation of the times of shards, without the network.
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
    /// A table; the first row is the head.
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
                // Without a sign at 0.
                let error = (100.0 * (said / is.max(f64::MIN_POSITIVE) - 1.0)).round() + 0.0;
                row.extend([format!("{is:.1}"), format!("{said:.1}"), format!("{error:+.0}%")]);
            }
            cells.push(row);
        }
        cells
    }
}
