//! An aggregator for callers without an asynchronous runtime.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use warpseek::Searcher;

use crate::aggregator::{Aggregator, AggregatorOptions};
use crate::door::Door;
use crate::error::ClusterError;
use crate::request::{ClusterRequest, ClusterResponse};
use crate::serve::runtime;

/// An [`Aggregator`] with its own threads.
pub struct Cluster {
    aggregator: Aggregator,
    runtime: Runtime,
}

impl Cluster {
    /// Calls all nodes once, and then at regular intervals in the background. Fails if no node
    /// answers.
    pub fn connect(options: AggregatorOptions) -> Result<Self, ClusterError> {
        let runtime = runtime()?;
        let aggregator = runtime.block_on(Aggregator::connect(options))?;
        Ok(Cluster { aggregator, runtime })
    }

    /// Returns a searcher without documents that reads queries as the shards of the collection
    /// do.
    pub fn settings(&self) -> Result<Searcher, ClusterError> {
        self.aggregator.settings()
    }

    /// Returns an error if a node has a shard beyond the configured number of shards
    /// ([`Aggregator::check_shards`]).
    pub fn check_shards(&self) -> Result<(), ClusterError> {
        self.aggregator.check_shards()
    }

    /// Answers a request.
    pub fn search(&self, request: ClusterRequest) -> Result<Arc<ClusterResponse>, ClusterError> {
        self.runtime.block_on(self.aggregator.search(request))
    }

    /// Answers many requests and returns the answers in the same order. A request that fails does
    /// not affect the others. Requests are sent in cohorts, several at a time; the time limit of
    /// a request starts when its cohort is sent.
    pub fn search_batch(
        &self,
        requests: Vec<ClusterRequest>,
    ) -> Vec<Result<Arc<ClusterResponse>, ClusterError>> {
        self.runtime.block_on(self.aggregator.search_batch(requests))
    }

    /// Measures how long each reachable node takes to describe itself, `times` times in a row:
    /// the time of a call without a search.
    pub fn round_trips(&self, times: usize) -> Vec<Duration> {
        self.runtime.block_on(self.aggregator.round_trips(times))
    }

    /// Returns a handle for servers that have their own runtime.
    pub fn door(&self) -> Door {
        Door::new(self.aggregator.clone(), self.runtime.handle().clone())
    }

    pub(crate) fn parts(self) -> (Aggregator, Runtime) {
        (self.aggregator, self.runtime)
    }
}
