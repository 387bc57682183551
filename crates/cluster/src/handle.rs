//! An aggregator for callers without an asynchronous runtime.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::{Handle, Runtime};
use warpseek::Searcher;
use warpseek_front::{Remote, RemoteFailure};

use crate::aggregator::Aggregator;
use crate::error::ClusterError;
use crate::json_front::JsonFront;
use crate::options::AggregatorOptions;
use crate::request::{ClusterRequest, ClusterResponse};
use crate::serve::runtime;

/// An [`Aggregator`] with its own threads.
pub struct Cluster {
    aggregator: Aggregator,
    handle: Handle,
    _threads: Threads,
}

impl Cluster {
    /// Calls all nodes once, and then at regular intervals in the background. Fails if no node
    /// answers.
    pub fn connect(options: AggregatorOptions) -> Result<Self, ClusterError> {
        let runtime = runtime()?;
        let aggregator = runtime.block_on(Aggregator::connect(options))?;
        let handle = runtime.handle().clone();
        Ok(Cluster { aggregator, handle, _threads: Threads(Some(runtime)) })
    }

    /// Returns a searcher that has no documents and parses queries as the shards of the collection
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
        self.handle.block_on(self.aggregator.search(request))
    }

    /// Answers many requests and returns the answers in the same order. A request that fails does
    /// not affect the others. Requests are sent in cohorts, several at a time; the time limit of
    /// a request starts when its cohort is sent.
    pub fn search_batch(
        &self,
        requests: Vec<ClusterRequest>,
    ) -> Vec<Result<Arc<ClusterResponse>, ClusterError>> {
        self.handle.block_on(self.aggregator.search_batch(requests))
    }

    /// Measures how long each reachable node takes to describe itself, `times` times in a row:
    /// the time of a call without a search.
    pub fn round_trips(&self, times: usize) -> Vec<Duration> {
        self.handle.block_on(self.aggregator.round_trips(times))
    }

    /// Returns the known state of the nodes as JSON, as `GET /v1/cluster` shows it.
    pub fn status(&self) -> Result<Value, RemoteFailure> {
        self.front().status()
    }

    /// Logs which nodes are not reachable and which shards are ignored. Later changes are logged
    /// when they happen.
    pub fn log_status(&self) {
        if let Ok(status) = self.aggregator.status() {
            status.log();
        }
    }

    /// Returns the interface for a server, which has its own runtime. It must not outlive the
    /// cluster.
    pub fn front(&self) -> JsonFront {
        JsonFront::new(self.aggregator.clone(), self.handle.clone())
    }
}

/// The threads of a cluster. When it is dropped, it does not wait for a thread that reads a list
/// of nodes from a disk that hangs.
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}
