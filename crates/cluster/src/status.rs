//! The state of the nodes as an aggregator knows it, for clients and for the log.

use serde::Serialize;

use crate::repairs::DamagedShard;
use crate::view::IgnoredShard;

/// State of the nodes as the aggregator knows it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) version: u64,
    pub(crate) shards: u32,
    /// Number of nodes for each shard that serve it and were reachable when they were last
    /// called.
    pub(crate) replicas: Vec<usize>,
    pub(crate) nodes: Vec<NodeStatus>,
    /// Shards on nodes that are not searched, with the reasons.
    pub(crate) ignored: Vec<IgnoredShard>,
    /// The reason why the state is from an earlier round of calls, if it is.
    pub(crate) problem: Option<String>,
    /// The reason why the file of nodes cannot be used, so that the previous list is kept.
    pub(crate) list_problem: Option<String>,
    pub(crate) hedged: u64,
    pub(crate) cache_hits: u64,
    pub(crate) cache_misses: u64,
    /// Number of cohorts that were sent, and of their queries.
    pub(crate) cohorts: u64,
    pub(crate) cohort_queries: u64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct NodeStatus {
    pub(crate) address: String,
    /// The reason why the node is not reachable, if it is not.
    pub(crate) problem: Option<String>,
    /// Shards that the node does not serve because their files are damaged.
    pub(crate) damaged: Vec<DamagedShard>,
    /// Bytes sent to the node and received from it.
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
}

impl Status {
    /// Logs which nodes are not reachable at the start, and which shards are ignored. Later
    /// changes are logged when they happen.
    pub(crate) fn log(&self) {
        self.ignored.iter().for_each(IgnoredShard::log);
        for NodeStatus { address, problem, damaged, .. } in &self.nodes {
            if let Some(reason) = problem {
                tracing::warn!(node = address, reason, "a node is gone");
            }
            for DamagedShard { shard, reason, .. } in damaged {
                tracing::warn!(node = address, shard, reason, "a shard of a node is damaged");
            }
        }
    }
}
