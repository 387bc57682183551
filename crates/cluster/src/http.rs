//! The aggregator over HTTP: a few routes with JSON. Keys, pages and the clients of other engines are the server's.

use std::future::{Future, IntoFuture};
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tonic::metadata::MetadataValue;

use crate::aggregator::Aggregator;
use crate::door::{DoorLimits, Refused};
use crate::error::ClusterError;
use crate::handle::Cluster;
use crate::security::Token;
use crate::serve::{listen, signal};

/// The largest body, and how long it may take to come.
const MAX_BODY: usize = 16 << 20;
const BODY: Duration = Duration::from_secs(30);

/// How long an aggregator that ends waits for what is under way.
const DRAIN: Duration = Duration::from_secs(30);

/// What it answers to.
const PATHS: &str =
    "there are POST /v1/search, POST /v1/batch, GET /v1/cluster, GET /metrics and GET /livez";

/// An aggregator that listens for HTTP.
pub struct HttpServer {
    aggregator: Aggregator,
    token: Option<Token>,
    limits: DoorLimits,
    listener: TcpListener,
    address: SocketAddr,
    runtime: Runtime,
}

#[derive(Clone)]
struct App {
    aggregator: Aggregator,
    token: Option<Token>,
    limits: DoorLimits,
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
        Ok(HttpServer {
            aggregator,
            token,
            limits: DoorLimits::default(),
            listener,
            address,
            runtime,
        })
    }

    /// What a request may ask for at most. Default: those of [`DoorLimits`].
    pub fn limits(self, limits: DoorLimits) -> Self {
        HttpServer { limits, ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process is told to end (SIGTERM or Ctrl-C). Requests under way are finished, within 30 seconds; told again, it ends at once.
    pub fn run(self) -> Result<(), ClusterError> {
        self.run_between(signal(), signal())
    }

    /// The same until a future is done.
    pub fn run_until(
        self,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ClusterError> {
        self.run_between(end, std::future::pending())
    }

    fn run_between(
        self,
        end: impl Future<Output = ()> + Send + 'static,
        at_once: impl Future<Output = ()>,
    ) -> Result<(), ClusterError> {
        let HttpServer { aggregator, token, limits, listener, runtime, .. } = self;
        let router = Router::new()
            .route("/v1/search", post(search))
            .route("/v1/batch", post(batch))
            .route("/v1/cluster", get(cluster))
            .route("/metrics", get(metrics))
            .route("/livez", get(|| async { "ok" }))
            .fallback(async || refused(StatusCode::NOT_FOUND, PATHS))
            .method_not_allowed_fallback(async || refused(StatusCode::METHOD_NOT_ALLOWED, PATHS))
            .with_state(App { aggregator: aggregator.clone(), token, limits });
        if let Ok(status) = aggregator.status() {
            status.log();
        }
        let served = runtime.block_on(async {
            let (ended, ending) = oneshot::channel();
            let end = async move {
                end.await;
                let _ = ended.send(());
            };
            let serving = axum::serve(listener, router).with_graceful_shutdown(end);
            bounded(serving.into_future(), ending, at_once, DRAIN).await
        });
        runtime.shutdown_timeout(Duration::from_secs(1));
        served.unwrap_or(Ok(())).map_err(|source| ClusterError::Io {
            what: "the aggregator's connections".into(),
            source,
        })
    }
}

/// Serves until all is finished, but after the end has begun no longer than `drain`, and no longer than until `at_once`, which is asked only then.
async fn bounded<T>(
    serving: impl Future<Output = T>,
    ending: oneshot::Receiver<()>,
    at_once: impl Future<Output = ()>,
    drain: Duration,
) -> Option<T> {
    let too_long = async {
        match ending.await {
            Ok(()) => {
                let _ = tokio::time::timeout(drain, at_once).await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        served = serving => Some(served),
        () = too_long => None,
    }
}

/// A body, if it comes whole and in time.
async fn read(body: Body, limit: Duration) -> Result<Bytes, Refused> {
    match tokio::time::timeout(limit, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let mut causes = std::iter::successors(
                Some(&error as &(dyn std::error::Error + 'static)),
                |error| error.source(),
            );
            // The type of this error is of a crate that axum does not show.
            match causes.any(|cause| cause.to_string() == "length limit exceeded") {
                true => {
                    let reason = format!("the body has more than {MAX_BODY} bytes");
                    Err(refused(StatusCode::PAYLOAD_TOO_LARGE, reason))
                }
                false => Err(refused(StatusCode::BAD_REQUEST, error.to_string())),
            }
        }
        Err(_) => {
            let reason = format!("the body did not come within {limit:?}");
            Err(refused(StatusCode::REQUEST_TIMEOUT, reason))
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        written(status, &json!({ "error": { "reason": self.reason } }))
    }
}

fn refused(status: StatusCode, reason: impl Into<String>) -> Refused {
    Refused { status: status.as_u16(), reason: reason.into() }
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
    body: Body,
) -> Result<Response, Refused> {
    app.check(&headers)?;
    let body = read(body, BODY).await?;
    let answered = app.aggregator.search_json(&body, &app.limits).await?;
    Ok(written(StatusCode::OK, &answered.json))
}

async fn batch(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refused> {
    app.check(&headers)?;
    let body = read(body, BODY).await?;
    let answered = app.aggregator.batch_json(&body, &app.limits).await?;
    Ok(written(StatusCode::OK, &answered.json))
}

async fn cluster(State(app): State<App>, headers: HeaderMap) -> Result<Response, Refused> {
    app.check(&headers)?;
    Ok(written(StatusCode::OK, &app.aggregator.status_json()?))
}

async fn metrics(State(app): State<App>, headers: HeaderMap) -> Result<Response, Refused> {
    app.check(&headers)?;
    let form = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, form)], app.aggregator.metrics()).into_response())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;
    use crate::serve::runtime;

    #[test]
    fn a_body_must_come_in_time_and_not_be_too_large() {
        let runtime = runtime().unwrap();
        let read = |body: Body, limit| runtime.block_on(read(body, limit)).map_err(|of| of.status);
        let never = || Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        assert_eq!(read(never(), Duration::from_millis(1)), Err(408));
        let hour = Duration::from_secs(3600);
        assert_eq!(read(Body::from(vec![0; MAX_BODY + 1]), hour), Err(413));
        assert_eq!(read(Body::from(vec![0; MAX_BODY]), hour).unwrap().len(), MAX_BODY);
    }

    #[test]
    fn an_end_is_bounded_and_a_second_signal_ends_it_at_once() {
        let runtime = runtime().unwrap();
        let hour = Duration::from_secs(3600);
        let end = |again: bool, drain| {
            let (ended, ending) = oneshot::channel();
            ended.send(()).unwrap();
            let at_once = async {
                if !again {
                    std::future::pending::<()>().await;
                }
            };
            runtime.block_on(bounded(std::future::pending::<()>(), ending, at_once, drain))
        };
        assert_eq!(end(false, Duration::ZERO), None);
        assert_eq!(end(true, hour), None);
        // What is finished before is waited for, and a signal before the end is none to end at once.
        let _inside = runtime.enter();
        let (_ended, ending) = oneshot::channel();
        let serving = tokio::time::sleep(Duration::from_millis(5));
        let at_once = std::future::ready(());
        assert_eq!(runtime.block_on(bounded(serving, ending, at_once, Duration::ZERO)), Some(()));
    }
}
