//! Nodes in this process, for measurements without other programs.

use std::path::PathBuf;
use std::sync::Arc;

use warpseek_cluster::{
    BackgroundNode, ClusterError, ClusterNode, NodeOptions, NodeServer, Security, Token,
};

/// Nodes that serve one shard each on loopback addresses, until this is dropped.
pub(super) struct LocalNodes(Vec<BackgroundNode>);

impl LocalNodes {
    /// Opens indexes as the shards of a collection, in their order.
    pub(super) fn start(indexes: &[PathBuf], threads: Option<u32>) -> Result<Self, ClusterError> {
        let start = |(shard, dir): (u32, &PathBuf)| {
            let threads = threads.map(|threads| threads as usize);
            let options = NodeOptions { threads, ..NodeOptions::default() };
            let node = Arc::new(ClusterNode::new(options));
            node.replace(shard, 1, dir)?;
            // The aggregator sends the token of the environment, if there is one.
            let security = Security { token: Token::find(None)?, ..Security::default() };
            NodeServer::start(node, "127.0.0.1:0", security, false)?.run_in_background()
        };
        (0..).zip(indexes).map(start).collect::<Result<_, _>>().map(LocalNodes)
    }

    /// Returns the addresses of the nodes, separated by commas.
    pub(super) fn addresses(&self) -> String {
        let addresses = self.0.iter().map(|node| node.address().to_string());
        addresses.collect::<Vec<_>>().join(",")
    }
}
