//! Options of an aggregator.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::line::CohortOptions;
use crate::security::Security;
use crate::shard_times::ShardTimes;

/// Options of an aggregator.
#[derive(Clone, Debug)]
pub struct AggregatorOptions {
    /// Addresses of nodes, as `host:port`.
    pub nodes: Vec<String>,
    /// A file that lists the addresses, used instead of `nodes`
    /// ([`addresses`](crate::addresses)). The aggregator reads it again before each regular round
    /// of calls to the nodes, so nodes can be added and removed while it runs. Default: none.
    pub nodes_file: Option<PathBuf>,
    /// Number of shards of the collection. It must be given explicitly: otherwise a shard that no
    /// reachable node serves would look like a smaller collection.
    pub shards: u32,
    /// Protection of connections. Default: none.
    pub security: Security,
    /// Size of the cache of answers in bytes. Default: 64 MiB. 0 keeps no answers, and only joins
    /// equal queries that arrive at the same time.
    pub cache: u64,
    /// Interval between the regular calls that ask nodes for their state. Default: 500 ms.
    pub look_every: Duration,
    /// True if the aggregator calls another replica when one takes longer than usual. Default:
    /// true.
    pub hedging: bool,
    /// Time limit of a node for a query without a deadline. Each further query of the same call
    /// adds a tenth of it. When it is exceeded, the aggregator calls another replica. Default: 10
    /// s.
    pub call: Duration,
    /// Sizes and waiting times of the cohorts of live queries.
    pub cohorts: CohortOptions,
    /// Recorder of the time that each shard took. If it is set, shards are called one after the
    /// other, so that each is measured alone even if several nodes share a machine. Default:
    /// none, and all shards are called at once.
    pub shard_times: Option<Arc<ShardTimes>>,
}

impl AggregatorOptions {
    /// Returns the default options for these nodes.
    pub fn new(nodes: Vec<String>, shards: u32) -> Self {
        AggregatorOptions {
            nodes,
            nodes_file: None,
            shards,
            security: Security::default(),
            cache: 64 << 20,
            look_every: Duration::from_millis(500),
            hedging: true,
            call: Duration::from_secs(10),
            cohorts: CohortOptions::default(),
            shard_times: None,
        }
    }
}
