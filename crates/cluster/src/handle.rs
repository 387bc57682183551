//! An aggregator for those without an asynchronous runtime.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use warpseek::Searcher;

use crate::aggregator::{Aggregator, AggregatorOptions};
use crate::door::Door;
use crate::error::ClusterError;
use crate::request::{ClusterRequest, ClusterResponse};
use crate::serve::runtime;

/// An [`Aggregator`] with threads of its own.
pub struct Cluster {
    aggregator: Aggregator,
    runtime: Runtime,
}

impl Cluster {
    /// Looks at the nodes. Fails if none of them answers.
    pub fn connect(options: AggregatorOptions) -> Result<Self, ClusterError> {
        let runtime = runtime()?;
        let aggregator = runtime.block_on(Aggregator::connect(options))?;
        Ok(Cluster { aggregator, runtime })
    }

    /// A searcher without documents that reads queries as the collection does.
    pub fn settings(&self) -> Result<Searcher, ClusterError> {
        self.aggregator.settings()
    }

    /// Fails if a node has a shard that the collection has not ([`Aggregator::check_shards`]).
    pub fn check_shards(&self) -> Result<(), ClusterError> {
        self.aggregator.check_shards()
    }

    /// Answers a request.
    pub fn search(&self, request: ClusterRequest) -> Result<Arc<ClusterResponse>, ClusterError> {
        self.runtime.block_on(self.aggregator.search(request))
    }

    /// Answers many requests, in their order. One that fails does not disturb the others. They are sent in cohorts, some at a time, and the time of a request begins when its cohort is sent.
    pub fn search_batch(
        &self,
        requests: Vec<ClusterRequest>,
    ) -> Vec<Result<Arc<ClusterResponse>, ClusterError>> {
        self.runtime.block_on(self.aggregator.search_batch(requests))
    }

    /// How long each node takes to say how it is, some times in a row: a call without a search.
    pub fn round_trips(&self, times: usize) -> Vec<Duration> {
        self.runtime.block_on(self.aggregator.round_trips(times))
    }

    /// For a server that is to answer for it too.
    pub fn door(&self) -> Door {
        Door::new(self.aggregator.clone(), self.runtime.handle().clone())
    }

    pub(crate) fn parts(self) -> (Aggregator, Runtime) {
        (self.aggregator, self.runtime)
    }
}
