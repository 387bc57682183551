//! A collection on many machines. Nodes serve its shards over gRPC; an aggregator queries them
//! and merges their hits.
//!
//! A shard is an ordinary index over a consecutive range of the collection's documents. A
//! [`ClusterNode`] serves shards, and several nodes can serve replicas of the same shard. An
//! [`Aggregator`] collects the statistics of all shards, sends them along with every query, and
//! merges the shards' hits. Weights, the scale of scores and the contributions of postings follow
//! from the query and these statistics alone. Hits, their order and the bits of their scores are
//! therefore those of one index of all documents, however the collection is divided and whichever
//! replica answers. docs/design/cluster.md describes the protocol and the argument.
//!
//! While there is time, the aggregator works around failures: if a replica fails or takes longer
//! than usual, it calls another one. [`Coverage`] names the shards for which no replica answered.
//!
//! On the side of a node, `node` answers calls, `shard` is an open shard, `repairs` lists the
//! damaged ones, `guard` finds damage and repairs it, and `serve` listens. On the side of an
//! aggregator, `peer` is one node, `breaker` decides when not to call it, `listing` reads the list
//! of nodes, `view` combines what the nodes describe, `asking` makes one call and replaces failed
//! ones, `gather` collects statistics, `asked` is one request, `line` forms cohorts of the
//! requests of all clients, `cohort` answers several queries together, `merge` merges the answers
//! of the shards, `aggregator` combines all of these, `options` has its options, `status` is the
//! state of the nodes, `metrics`, `traffic` and `shard_times` record, and `json_front` translates
//! requests and answers in JSON for a server. Both sides use `protocol`, which has the messages
//! and calls, `wire`, which converts and validates messages, and `security`, which has tokens and
//! certificates.

mod aggregator;
mod asked;
mod asking;
mod breaker;
mod cohort;
mod coverage;
mod error;
mod gather;
mod guard;
mod handle;
mod json_front;
mod line;
mod listing;
mod merge;
mod metrics;
mod node;
mod options;
mod peer;
mod protocol;
mod repairs;
mod request;
mod security;
mod serve;
mod shard;
mod shard_times;
mod status;
mod traffic;
mod view;
mod wire;

pub use aggregator::Aggregator;
pub use coverage::{Coverage, MissingShard};
pub use error::ClusterError;
pub use handle::Cluster;
pub use json_front::JsonFront;
pub use line::CohortOptions;
pub use listing::{addresses, nodes};
pub use node::{ClusterNode, NodeOptions};
pub use options::AggregatorOptions;
pub use repairs::DamagedShard;
pub use request::{ClusterHit, ClusterRequest, ClusterResponse};
pub use security::{Security, Token};
pub use serve::{BackgroundNode, NodeServer};
pub use shard_times::ShardTimes;
