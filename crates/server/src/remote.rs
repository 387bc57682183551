//! The routes under `/v1/cluster`, which search a collection on other machines. The program that
//! starts the server supplies the connection to those machines as a [`Remote`].

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use serde_json::Value;

use crate::app::App;
use crate::error::{Failure, Kind};
use crate::http::exchange::{Answer, Call, Reply};
use crate::operations::telemetry::count_remote_search;

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

/// Limits on requests, from the settings of the server.
#[derive(Clone, Debug)]
pub struct RemoteLimits {
    /// Maximum number of hits of a search.
    pub k: usize,
    /// Maximum number of searches in a batch.
    pub batch: usize,
    /// Maximum number of hits of all searches in a batch together.
    pub hits: usize,
    /// Maximum length of a query's text in bytes.
    pub query_bytes: usize,
    /// Time limit of searches that set none.
    pub deadline: Option<Duration>,
    /// The part of the time limit that the request has already spent waiting.
    pub waited: Duration,
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

impl From<RemoteFailure> for Failure {
    fn from(RemoteFailure { status, reason }: RemoteFailure) -> Self {
        match status {
            400 => Failure::illegal(reason),
            503 => Failure::new(Kind::NotReady, reason),
            _ => Failure::broken(reason),
        }
    }
}

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/cluster", get(status))
        .route("/v1/cluster/search", post(search))
        .route("/v1/cluster/batch", post(batch))
}

fn remote(app: &App) -> Result<&Arc<dyn Remote>, Failure> {
    let none = || {
        let reason = "this server has no cluster; start it with --cluster NODES";
        Failure::new(Kind::NotFound, reason)
    };
    app.remote.get().ok_or_else(none)
}

async fn status(State(app): State<Arc<App>>) -> Reply {
    Ok(Answer::json(remote(&app)?.status()?))
}

async fn search(State(app): State<Arc<App>>, call: Call) -> Reply {
    answer(&app, call, |remote, body, limits| remote.search(body, limits)).await
}

async fn batch(State(app): State<Arc<App>>, call: Call) -> Reply {
    answer(&app, call, |remote, body, limits| remote.batch(body, limits)).await
}

async fn answer(
    app: &Arc<App>,
    call: Call,
    ask: impl FnOnce(&dyn Remote, Vec<u8>, RemoteLimits) -> RemoteFuture,
) -> Reply {
    let remote = remote(app)?;
    let _permit = app.remote_searches.admit().await?;
    let start = Instant::now();
    let limits = &app.config.limits;
    let deadline = Some(app.config.deadline_ms).filter(|ms| *ms > 0).map(Duration::from_millis);
    let limits = RemoteLimits {
        k: limits.window,
        batch: limits.batch,
        hits: limits.hits,
        query_bytes: limits.query_text,
        deadline,
        waited: start.saturating_duration_since(call.caller.arrived),
    };
    let answered = ask(&**remote, call.body.to_vec(), limits).await?;
    for search in &answered.searches {
        count_remote_search(app, search, start.elapsed());
    }
    Ok(Answer::json(answered.json))
}
