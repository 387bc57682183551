//! The aggregator inside a server: answers for a cluster, as `warpseek aggregate` does, under the
//! keys and limits of the server.

use std::sync::Arc;
use std::time::Duration;

use warpseek_cluster::{AggregatorOptions, Cluster, CohortOptions, Security, Token, nodes};
use warpseek_console::Failure;
use warpseek_server::{ClusterSettings, Server};

use crate::failures::cluster_failure;

/// Connects to the nodes that the settings name, if any.
pub(super) fn connect(settings: &ClusterSettings) -> Result<Option<Cluster>, Failure> {
    let Some(named) = &settings.nodes else { return Ok(None) };
    let security = Security {
        token: Token::find(settings.token_file.as_deref()).map_err(cluster_failure)?,
        certificate: settings.certificate.clone(),
        key: settings.key.clone(),
        authority: settings.authority.clone(),
    };
    let (addresses, nodes_file) = nodes(named);
    let options = AggregatorOptions {
        security,
        nodes_file,
        cache: settings.cache,
        cohorts: CohortOptions {
            size: settings.cohort_size as usize,
            wait: Duration::from_millis(settings.cohort_wait_ms),
            ..CohortOptions::default()
        },
        ..AggregatorOptions::new(addresses, settings.shards)
    };
    Cluster::connect(options).map(Some).map_err(cluster_failure)
}

/// Lets a server answer for a cluster. The cluster must outlive the server.
pub(super) fn mount(server: Server, cluster: &Cluster) -> Server {
    server.with_remote(Arc::new(cluster.front()))
}
