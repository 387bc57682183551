//! The aggregator inside a server: answers for a cluster, as `warpseek aggregate` does, under the
//! keys and limits of the server.

use std::sync::Arc;

use serde_json::Value;
use warpseek_cluster::{
    AggregatorOptions, Answered, Cluster, Door, DoorLimits, Refused, Security, Token, nodes,
};
use warpseek_console::Failure;
use warpseek_server::{
    ClusterSettings, Remote, RemoteAnswer, RemoteFailure, RemoteFuture, RemoteLimits, RemoteSearch,
    Server,
};

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
        ..AggregatorOptions::new(addresses, settings.shards)
    };
    Cluster::connect(options).map(Some).map_err(cluster_failure)
}

/// Lets a server answer for a cluster. The cluster must outlive the server.
pub(super) fn mount(server: Server, cluster: &Cluster) -> Server {
    server.with_remote(Arc::new(Mounted(cluster.door())))
}

struct Mounted(Door);

impl Remote for Mounted {
    fn search(&self, body: Vec<u8>, limits: RemoteLimits) -> RemoteFuture {
        let answer = self.0.search(body, allowed(limits));
        Box::pin(async move { answer.await.map(answered).map_err(refused) })
    }

    fn batch(&self, body: Vec<u8>, limits: RemoteLimits) -> RemoteFuture {
        let answer = self.0.batch(body, allowed(limits));
        Box::pin(async move { answer.await.map(answered).map_err(refused) })
    }

    fn status(&self) -> Result<Value, RemoteFailure> {
        self.0.status().map_err(refused)
    }

    fn metrics(&self) -> String {
        self.0.metrics()
    }
}

fn allowed(limits: RemoteLimits) -> DoorLimits {
    let RemoteLimits { k, batch, hits, query_bytes, deadline, waited } = limits;
    DoorLimits { k, batch, hits, query_bytes, deadline, waited }
}

fn answered(answer: Answered) -> RemoteAnswer {
    let searches = answer.searches.into_iter().map(|search| RemoteSearch {
        query: search.query,
        k: search.k,
        is_complete: search.is_complete,
    });
    RemoteAnswer { json: answer.json, searches: searches.collect() }
}

fn refused(refused: Refused) -> RemoteFailure {
    RemoteFailure { status: refused.status, reason: refused.reason }
}
