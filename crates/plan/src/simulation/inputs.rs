//! The inputs of a simulation, and the conditions that they meet.

use serde::{Deserialize, Serialize};

use crate::digits::count;
use crate::error::PlanError;
use crate::number::{
    Documents, Dollars, Factor, Failures, Millis, Queries, Rate, Replicas, Seconds, Seed, Shards,
    Share, Stations, Variation,
};

/// Maximum number of requests of a row: shards times queries.
pub const MAX_REQUESTS: u64 = 50_000_000;

/// The inputs of a simulation: `[simulation]` in the TOML file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SimulationInputs {
    /// Number of documents of the collection.
    pub documents: Documents,
    /// Number of parts of the collection.
    pub shards: Shards,
    /// Numbers of nodes for each shard; the result has a row for each number.
    pub replicas: Vec<Replicas>,
    /// Number of queries per second, which arrive at random times.
    pub queries_per_s: Rate,
    /// Number of queries to simulate.
    pub queries: Queries,
    /// Time after which a query is answered from the shards that have answered.
    pub deadline_ms: Millis,
    /// Median time of a request on an otherwise idle node.
    pub service_ms: Millis,
    /// Variation of that time.
    pub variation_of_service: Variation,
    /// Number of requests that a node processes at the same time.
    pub stations: Stations,
    /// Network time from the aggregator to a node, or back.
    pub network_ms: Millis,
    /// Share of requests that straggle.
    pub stragglers: Share,
    /// Factor by which these requests take longer.
    pub straggler_factor: Factor,
    /// Share of nodes that are always slow.
    pub slow_nodes: Share,
    /// Factor by which requests on these nodes take longer.
    pub slow_factor: Factor,
    /// Number of failures of a node per year.
    pub failures_per_year: Failures,
    /// Mean time until a failed node is up again.
    pub repair_s: Seconds,
    /// Time until the aggregator stops sending requests to a failed node.
    pub notice_s: Seconds,
    /// Share of requests that are answered before the others are hedged.
    pub hedge_after: Share,
    /// Maximum number of requests that are hedged, as a share of all.
    pub hedge_at_most: Share,
    /// Cost of a node per hour.
    pub dollars_per_node_hour: Dollars,
    /// Seed of the random numbers. The same seed gives the same result.
    pub seed: Seed,
}

impl SimulationInputs {
    /// Rejects inputs that would take too long to simulate, or would overload the nodes.
    pub(super) fn check(&self) -> Result<(), PlanError> {
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
                "with {fewest} replicas, nodes would get {load:.2} times the work that they can do; lower the rate, or give more replicas or stations"
            );
            return problem("queries_per_s", message);
        }
        Ok(())
    }

    /// Returns the mean time of a request on an otherwise idle node.
    pub(super) fn mean_service_ms(&self) -> f64 {
        let variation = self.variation_of_service.get();
        // This is the mean of a log-normal distribution, computed from its median.
        let mean = self.service_ms.get() * (1.0 + variation * variation).sqrt();
        let longer = |share: Share, factor: Factor| 1.0 + share.get() * (factor.get() - 1.0);
        mean * longer(self.stragglers, self.straggler_factor)
            * longer(self.slow_nodes, self.slow_factor)
    }
}
