//! A collection on other machines that a server answers for beside its own indexes, under `/v1/cluster`. Who asks those machines is not the server's business: whoever starts it hands in a [`Remote`].

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

/// Answers searches of a collection on other machines. Bodies and answers are JSON; docs/cluster.md has their form.
pub trait Remote: Send + Sync + 'static {
    /// Answers a search. If the future is dropped, nobody waits for the answer any more.
    fn search(&self, body: Vec<u8>, limits: RemoteLimits) -> RemoteFuture;

    /// Answers many searches.
    fn batch(&self, body: Vec<u8>, limits: RemoteLimits) -> RemoteFuture;

    /// What is known of the machines.
    fn status(&self) -> Result<Value, RemoteFailure>;

    /// The same as Prometheus reads it, for the page of the server.
    fn metrics(&self) -> String {
        String::new()
    }
}

/// An answer that is waited for.
pub type RemoteFuture = Pin<Box<dyn Future<Output = Result<RemoteAnswer, RemoteFailure>> + Send>>;

/// What a request may ask for at most, by the settings of the server.
#[derive(Clone, Debug)]
pub struct RemoteLimits {
    /// Hits of a search.
    pub k: usize,
    /// Searches of a batch.
    pub batch: usize,
    /// Hits of all of them together.
    pub hits: usize,
    /// Bytes of the text of a query.
    pub query_bytes: usize,
    /// The time of a search that brings no limit.
    pub deadline: Option<Duration>,
    /// What is over of that time, or of the search's own.
    pub waited: Duration,
}

/// An answer, and what it answers.
#[derive(Clone, Debug)]
pub struct RemoteAnswer {
    /// The answer.
    pub json: Value,
    /// The searches that were answered, without those that failed.
    pub searches: Vec<RemoteSearch>,
}

/// A search that was answered.
#[derive(Clone, Debug)]
pub struct RemoteSearch {
    /// The text of the query, for the log of slow ones.
    pub query: String,
    /// How many hits were wanted.
    pub k: usize,
    /// Whether all documents were searched.
    pub is_complete: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub struct RemoteFailure {
    /// 400 if the request is wrong, 503 if machines do not answer, else 500.
    pub status: u16,
    /// Why.
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
        let reason = "this server answers for no cluster; start it with --cluster NODES";
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
