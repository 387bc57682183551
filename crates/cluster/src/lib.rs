//! A collection on many machines: nodes that serve shards over gRPC, and an aggregator that asks them and merges.
//!
//! A shard is an ordinary index over a consecutive range of the collection's documents. [`Node`] serves shards; a shard may be on several nodes, its replicas. [`Aggregator`] gathers the statistics of all shards, sends them along with
//! every query, and merges the shards' hits. Weights, the scale of scores and what postings contribute follow from the query and the statistics alone, so hits, order and score bits are those of one index of all documents,
//! however it is cut and whoever answers. docs/cluster.md has the protocol and the argument.
//!
//! What breaks is replaced as long as there is time: another replica is asked when one fails, or takes longer than it usually does. Shards that nobody could answer for are named in [`Coverage`].
//!
//! `node`, `shard`, `guard` and `serve` are a node; `peer` is a node as an aggregator sees it, `breaker` when it is left alone, `listing` which nodes there are, `view` what all of them have, `asking` one call with its replacements, `gather` the statistics, `cohort` the answers to some queries, `merge` what shards
//! answered, `aggregator` all together, `metrics` what it counts, `door` what clients ask of it in JSON, and `http` how it listens for that; `wire` translates to and from messages, and `security` has tokens and certificates.

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

/// The messages and the services, as `cluster.proto` states them.
#[allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, clippy::pedantic)]
pub(crate) mod proto {
    tonic::include_proto!("warpseek.cluster.v1");
}
