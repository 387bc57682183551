//! The aggregator over HTTP: a few routes with JSON. Keys, pages and the clients of other engines are the server's.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::metadata::MetadataValue;

use crate::aggregator::Aggregator;
use crate::door::{DoorLimits, Refused};
use crate::error::ClusterError;
use crate::handle::Cluster;
use crate::security::Token;
use crate::serve::{listen, signal};

/// The largest body.
const MAX_BODY: usize = 16 << 20;

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

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        written(status, &json!({ "error": { "reason": self.reason } }))
    }
}

fn written(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

impl App {
    /// Refuses requests without the token.
    fn check(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let Some(token) = &self.token else { return Ok(()) };
        let given = headers.get(header::AUTHORIZATION);
        let given = given.and_then(|given| MetadataValue::try_from(given.as_bytes()).ok());
        match token.admits(given.as_ref()) {
            true => Ok(()),
            false => {
                let reason = "the token is missing or not that of this aggregator".to_owned();
                Err(Refused { status: StatusCode::UNAUTHORIZED.as_u16(), reason })
            }
        }
    }
}

async fn search(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refused> {
    app.check(&headers)?;
    let answered = app.aggregator.search_json(&body, &DoorLimits::default()).await?;
    Ok(written(StatusCode::OK, &answered.json))
}

async fn batch(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refused> {
    app.check(&headers)?;
    let answered = app.aggregator.batch_json(&body, &DoorLimits::default()).await?;
    Ok(written(StatusCode::OK, &answered.json))
}

async fn cluster(State(app): State<App>, headers: HeaderMap) -> Result<Response, Refused> {
    app.check(&headers)?;
    Ok(written(StatusCode::OK, &app.aggregator.status_json()?))
}
