//! A collection on other machines, as a server sees it. The cluster's aggregator implements
//! [`Remote`] and the server calls it, so that neither crate depends on the other.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;

/// A collection on other machines that answers searches. Requests and answers are JSON, as
/// described in docs/guide/cluster.md.
pub trait Remote: Send + Sync + 'static {
    /// Answers a search. Dropping the future means that the client has disconnected.
    fn search(&self, body: Vec<u8>, limits: RemoteLimits) -> RemoteFuture;

    /// Answers a batch of searches.
    fn batch(&self, body: Vec<u8>, limits: RemoteLimits) -> RemoteFuture;

    /// Returns the state of the machines.
    fn status(&self) -> Result<Value, RemoteFailure>;

    /// Returns metrics in the format of Prometheus, which the server appends to `/metrics`.
    fn metrics(&self) -> String {
        String::new()
    }
}

/// The future of an answer.
pub type RemoteFuture = Pin<Box<dyn Future<Output = Result<RemoteAnswer, RemoteFailure>> + Send>>;

/// Limits of a request.
#[derive(Clone, Debug)]
pub struct RemoteLimits {
    /// Maximum number of hits of a search. Default: 100,000.
    pub k: usize,
    /// Maximum number of searches in a batch. Default: 10,000.
    pub batch: usize,
    /// Maximum number of hits of all searches of a request together. Default: 1,000,000.
    pub hits: usize,
    /// Maximum length of a query's text in bytes. Default: unlimited.
    pub query_bytes: usize,
    /// Time limit of searches that set none. Default: none.
    pub deadline: Option<Duration>,
    /// The part of the time limit that the request has already spent waiting. Default: zero.
    pub waited: Duration,
}

impl Default for RemoteLimits {
    fn default() -> Self {
        RemoteLimits {
            k: 100_000,
            batch: 10_000,
            hits: 1_000_000,
            query_bytes: usize::MAX,
            deadline: None,
            waited: Duration::ZERO,
        }
    }
}

/// An answer and the searches that it answers.
#[derive(Clone, Debug)]
pub struct RemoteAnswer {
    /// The body of the answer.
    pub json: Value,
    /// The searches that succeeded.
    pub searches: Vec<RemoteSearch>,
}

/// A search that was answered.
#[derive(Clone, Debug)]
pub struct RemoteSearch {
    /// The text of the query, for the log of slow queries.
    pub query: String,
    /// Number of hits requested.
    pub k: usize,
    /// True if all documents were searched.
    pub is_complete: bool,
}

/// An error in place of an answer.
#[derive(Clone, Debug)]
pub struct RemoteFailure {
    /// Status code: 400 if the request is invalid, 503 if machines do not respond, otherwise 500.
    pub status: u16,
    /// The reason, as shown to the client.
    pub reason: String,
}
