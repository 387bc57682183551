//! A collection on many machines. Nodes serve its shards over gRPC; an aggregator queries them
//! and merges their hits.
//!
//! A shard is an ordinary index over a consecutive range of the collection's documents. A
//! [`Node`] serves shards, and several nodes can serve replicas of the same shard. An
//! [`Aggregator`] collects the statistics of all shards, sends them along with every query, and
//! merges the shards' hits. Weights, the scale of scores and the contributions of postings follow
//! from the query and these statistics alone. Hits, their order and the bits of their scores are
//! therefore those of one index of all documents, however the collection is divided and whichever
//! replica answers. docs/design/cluster.md describes the protocol and the argument.
//!
//! While there is time, the aggregator works around failures: if a replica fails or takes longer
//! than usual, it calls another one. [`Coverage`] names the shards for which no replica answered.
//!
//! On the side of a node, `node` answers calls, `shard` is an open shard, `guard` repairs damaged
//! files, and `serve` listens. On the side of an aggregator, `peer` is one node, `breaker`
//! decides when to leave it alone, `listing` reads the list of nodes, `view` combines what the
//! nodes describe, `asking` makes one call and replaces failed ones, `gather` collects
//! statistics, `cohort` answers several queries together, `merge` merges the answers of the
//! shards, `aggregator` combines all of these, `metrics` counts, `door` translates requests and
//! answers in JSON, and `http` serves them. Both sides use `wire`, which converts messages, and
//! `security`, which has tokens and certificates.

mod aggregator;
mod asking;
mod breaker;
mod cohort;
mod door;
mod error;
mod gather;
mod guard;
mod handle;
mod http;
mod listing;
mod merge;
mod metrics;
mod node;
mod peer;
mod request;
mod security;
mod serve;
mod shard;
mod view;
mod wire;

pub use aggregator::{Aggregator, AggregatorOptions, ShardTimes};
pub use door::{Answered, Door, DoorLimits, Refused, Searched};
pub use error::ClusterError;
pub use guard::DamagedShard;
pub use handle::Cluster;
pub use http::{HttpOptions, HttpServer};
pub use listing::{addresses, nodes};
pub use node::{Node, NodeOptions};
pub use request::{ClusterHit, ClusterRequest, ClusterResponse, Coverage, MissingShard};
pub use security::{Security, Token};
pub use serve::NodeServer;
pub use warpseek_front::{Limits as ConnectionLimits, Timeouts};

/// Messages and services of `cluster.proto`.
#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, clippy::pedantic)]
pub(crate) mod proto {
    tonic::include_proto!("warpseek.cluster.v1");
}
