//! The aggregator over HTTP: a few routes with JSON. Keys, pages and the clients of other engines are the server's.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::metadata::MetadataValue;
use warpseek::QueryInput;

use crate::aggregator::Aggregator;
use crate::error::ClusterError;
use crate::handle::Cluster;
use crate::request::{ClusterRequest, ClusterResponse};
use crate::security::Token;
use crate::serve::{listen, signal};

/// The largest body, the most queries of a batch, and the most hits of a query.
const MAX_BODY: usize = 16 << 20;
const MAX_BATCH: usize = 10_000;
const MAX_K: usize = 100_000;

/// An aggregator that listens for HTTP.
pub struct HttpServer {
    aggregator: Aggregator,
    token: Option<Token>,
    listener: TcpListener,
    address: SocketAddr,
    runtime: Runtime,
}

#[derive(Clone)]
struct App {
    aggregator: Aggregator,
    token: Option<Token>,
}

impl HttpServer {
    /// Listens; it answers when it runs. Requests must bring the token if there is one, and an address that other machines reach is refused without, unless `insecure` is set.
    pub fn start(
        cluster: Cluster,
        address: &str,
        token: Option<Token>,
        insecure: bool,
    ) -> Result<Self, ClusterError> {
        let (aggregator, runtime) = cluster.parts();
        let (listener, address) = listen(&runtime, address, insecure || token.is_some())?;
        Ok(HttpServer { aggregator, token, listener, address, runtime })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process is told to end (SIGTERM or Ctrl-C). Requests under way are finished.
    pub fn run(self) -> Result<(), ClusterError> {
        self.run_until(signal())
    }

    /// The same until a future is done.
    pub fn run_until(
        self,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ClusterError> {
        let HttpServer { aggregator, token, listener, runtime, .. } = self;
        let router = Router::new()
            .route("/v1/search", post(search))
            .route("/v1/batch", post(batch))
            .route("/v1/cluster", get(cluster))
            .route("/livez", get(|| async { "ok" }))
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .with_state(App { aggregator, token });
        let served = runtime
            .block_on(async { axum::serve(listener, router).with_graceful_shutdown(end).await });
        runtime.shutdown_timeout(Duration::from_secs(1));
        served.map_err(|source| ClusterError::Io {
            what: "the aggregator's connections".into(),
            source,
        })
    }
}

/// A search as clients write it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    query: String,
    k: Option<usize>,
    mode: Option<String>,
    #[serde(default)]
    count: bool,
    filter: Option<String>,
    deadline_ms: Option<u64>,
    allow_partial: Option<bool>,
    /// Whether the query has signs, fields and parentheses. Default: if the collection has a schema or positions.
    syntax: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskedBatch {
    queries: Vec<Asked>,
}

impl Asked {
    fn request(self, syntax: bool) -> Result<ClusterRequest, String> {
        let query = match self.syntax.unwrap_or(syntax) {
            true => QueryInput::Expression(self.query),
            false => QueryInput::Text(self.query),
        };
        let usual = ClusterRequest::new(query);
        let k = self.k.unwrap_or(usual.k);
        if k > MAX_K {
            return Err(format!("k is {k}; it may be at most {MAX_K}"));
        }
        Ok(ClusterRequest {
            k,
            mode: self.mode.map_or(Ok(usual.mode), |mode| mode.parse())?,
            count: self.count,
            filter: self.filter,
            deadline: self.deadline_ms.map(Duration::from_millis),
            allow_partial: self.allow_partial.unwrap_or(usual.allow_partial),
            ..usual
        })
    }
}

/// What a client is told of something that went wrong.
struct Failure(StatusCode, String);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Failure(status, reason) = self;
        written(status, &json!({ "error": { "reason": reason } }))
    }
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        let status = match &error {
            ClusterError::Query(warpseek::ExecError::NoAnswer) => StatusCode::INTERNAL_SERVER_ERROR,
            ClusterError::Query(_) | ClusterError::Unsupported(_) => StatusCode::BAD_REQUEST,
            ClusterError::Incomplete(_) | ClusterError::NoNodes(_) | ClusterError::Unsettled => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Failure(status, error.to_string())
    }
}

fn written(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

impl App {
    /// Refuses requests without the token.
    fn check(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let Some(token) = &self.token else { return Ok(()) };
        let given = headers.get(header::AUTHORIZATION);
        let given = given.and_then(|given| MetadataValue::try_from(given.as_bytes()).ok());
        match token.admits(given.as_ref()) {
            true => Ok(()),
            false => Err(Failure(
                StatusCode::UNAUTHORIZED,
                "the token is missing or not that of this aggregator".to_owned(),
            )),
        }
    }

    /// Whether queries have the syntax where nothing else is said.
    fn syntax(&self) -> Result<bool, Failure> {
        let snapshot = self.aggregator.settings()?.snapshot();
        Ok(snapshot.manifest().schema.is_some() || snapshot.manifest().positions)
    }
}

fn bad(reason: impl ToString) -> Failure {
    Failure(StatusCode::BAD_REQUEST, reason.to_string())
}

fn shown(response: &ClusterResponse) -> Result<Value, Failure> {
    let broken =
        |error: serde_json::Error| Failure(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    let mut shown = serde_json::to_value(response).map_err(broken)?;
    shown["coverage"]["complete"] = response.coverage.is_complete().into();
    Ok(shown)
}

async fn search(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    app.check(&headers)?;
    let asked: Asked = serde_json::from_slice(&body).map_err(bad)?;
    let request = asked.request(app.syntax()?).map_err(bad)?;
    let response: Arc<ClusterResponse> = app.aggregator.search(request).await?;
    Ok(written(StatusCode::OK, &shown(&response)?))
}

async fn batch(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    app.check(&headers)?;
    let asked: AskedBatch = serde_json::from_slice(&body).map_err(bad)?;
    if asked.queries.len() > MAX_BATCH {
        let (queries, most) = (asked.queries.len(), MAX_BATCH);
        return Err(bad(format!("the batch has {queries} queries; at most {most} are allowed")));
    }
    let syntax = app.syntax()?;
    let requests = asked.queries.into_iter().map(|asked| asked.request(syntax));
    let requests = requests.collect::<Result<Vec<_>, _>>().map_err(bad)?;
    let mut answers = Vec::with_capacity(requests.len());
    for answer in app.aggregator.search_batch(requests).await {
        answers.push(match answer {
            Ok(response) => shown(&response)?,
            Err(error) => {
                let Failure(status, reason) = error.into();
                json!({ "error": { "status": status.as_u16(), "reason": reason } })
            }
        });
    }
    Ok(written(StatusCode::OK, &json!({ "answers": answers })))
}

async fn cluster(State(app): State<App>, headers: HeaderMap) -> Result<Response, Failure> {
    app.check(&headers)?;
    let status = serde_json::to_value(app.aggregator.status()?).map_err(bad)?;
    Ok(written(StatusCode::OK, &status))
}
