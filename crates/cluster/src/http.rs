//! The aggregator's HTTP server: a few routes with JSON. API keys, web pages and the interfaces
//! of other engines are provided by the search server.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tonic::metadata::MetadataValue;
use warpseek_front::{Hosts, Limits, TOO_SLOW, Tls, TlsOptions};

use crate::aggregator::Aggregator;
use crate::door::{DoorLimits, Refused};
use crate::error::ClusterError;
use crate::handle::Cluster;
use crate::security::Token;
use crate::serve::{listen, signal};

/// Maximum size of a body in bytes, and time limit for receiving it.
const MAX_BODY: usize = 16 << 20;
const BODY: Duration = Duration::from_secs(30);

/// Interval at which the files of the certificate are checked for changes.
const RELOAD: Duration = Duration::from_secs(10);

/// Time that an aggregator waits for requests in progress when it ends.
const DRAIN: Duration = Duration::from_secs(30);

/// Message that lists the routes.
const PATHS: &str =
    "the routes are POST /v1/search, POST /v1/batch, GET /v1/cluster, GET /metrics and GET /livez";

/// Message for a request whose URL has a query string.
const NO_OPTIONS: &str = "URLs have no parameters here; write the options into the body";

/// Access to an aggregator over HTTP, and limits of its connections.
#[derive(Default)]
pub struct HttpOptions {
    /// The token that requests must have. It must differ from that of the nodes: clients of an
    /// aggregator have no access to nodes. Default: none.
    pub token: Option<Token>,
    /// Files of the certificate, with its chain, and of its private key, both in PEM. They are
    /// read again when they change. Default: none, and connections are not encrypted.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// True if the aggregator may listen without a token or without encryption on an address that
    /// other machines can reach. Default: false.
    pub insecure: bool,
    /// Further names that the aggregator accepts in the `Host` header of requests, or `*` for
    /// every name. Without further names it accepts `localhost`, loopback addresses and its
    /// listening address, and every name if there is a token or a certificate. Default: none.
    pub allowed_hosts: Vec<String>,
    /// Maximum number of connections, and the patience with slow clients.
    pub connections: Limits,
    /// Limits of a request.
    pub limits: DoorLimits,
}

/// An aggregator that listens for HTTP.
pub struct HttpServer {
    app: App,
    tls: Option<Arc<Tls>>,
    hosts: Hosts,
    connections: Limits,
    listener: TcpListener,
    address: SocketAddr,
    runtime: Runtime,
}

#[derive(Clone)]
struct App {
    aggregator: Aggregator,
    token: Option<Token>,
    /// The token of the nodes, which clients must not use.
    of_nodes: Option<Token>,
    limits: DoorLimits,
}

impl HttpServer {
    /// Starts to listen. Requests are answered once the server runs. An address that other
    /// machines can reach requires a token for clients and a certificate, unless `insecure` is
    /// set: a token that is sent without encryption can be read by every machine on the way.
    pub fn start(
        cluster: Cluster,
        address: &str,
        options: HttpOptions,
    ) -> Result<Self, ClusterError> {
        let HttpOptions { token, certificate, insecure, allowed_hosts, connections, limits } =
            options;
        let (aggregator, runtime) = cluster.parts();
        let of_nodes = aggregator.token();
        check_tokens(token.as_ref(), of_nodes.as_ref(), insecure)?;
        let tls = certificate.as_ref().map(|(certificate, key)| {
            let names = TlsOptions { certificate: "--http-certificate", key: "--http-key" };
            Tls::read(certificate, key, names).map(Arc::new).map_err(ClusterError::Setup)
        });
        let tls = tls.transpose()?;
        let missing = match (&token, &tls) {
            _ if insecure => None,
            (None, None) => Some(
                "a token for clients (--client-token-file) and a certificate (--http-certificate, --http-key)",
            ),
            (None, Some(_)) => Some("a token for clients (--client-token-file)"),
            (Some(_), None) => Some(
                "a certificate (--http-certificate, --http-key), without which every machine on the way can read the token",
            ),
            (Some(_), Some(_)) => None,
        };
        let (listener, address) = listen(&runtime, address, missing)?;
        let protected = token.is_some() || tls.is_some();
        let hosts = Hosts::new(address.ip(), &allowed_hosts, protected);
        let hosts = hosts.map_err(ClusterError::Setup)?;
        let app = App { aggregator, token, of_nodes, limits };
        Ok(HttpServer { app, tls, hosts, connections, listener, address, runtime })
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Serves until the process receives SIGTERM or Ctrl-C. Requests in progress have 30 seconds
    /// to finish; a second signal ends the server at once.
    pub fn run(self) -> Result<(), ClusterError> {
        self.run_between(signal(), signal())
    }

    /// Serves until a future completes. Requests in progress have 30 seconds to finish.
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
        let HttpServer { app, tls, hosts, connections, listener, runtime, .. } = self;
        let aggregator = app.aggregator.clone();
        let router = Router::new()
            .route("/v1/search", post(search))
            .route("/v1/batch", post(batch))
            .route("/v1/cluster", get(cluster))
            .route("/metrics", get(metrics))
            .route("/livez", get(|| async { "ok" }))
            .fallback(async || refused(StatusCode::NOT_FOUND, PATHS))
            .method_not_allowed_fallback(async || refused(StatusCode::METHOD_NOT_ALLOWED, PATHS))
            .with_state(app);
        if let Ok(status) = aggregator.status() {
            status.log();
        }
        let served = runtime.block_on(async {
            let (ended, ending) = oneshot::channel();
            let end = async move {
                end.await;
                let _ = ended.send(());
            };
            if let Some(tls) = tls.clone() {
                tokio::spawn(async move {
                    loop {
                        tokio::time::sleep(RELOAD).await;
                        let tls = tls.clone();
                        let _ = tokio::task::spawn_blocking(move || tls.reload(false)).await;
                    }
                });
            }
            let answer = move |request: Request| {
                let router = TowerToHyperService::new(router.clone());
                // Checked before anything else, so that a web page whose host name resolves to
                // this address learns nothing.
                let named = hosts.check(request.uri(), request.headers());
                async move {
                    if let Err(reason) = named {
                        return refused(StatusCode::FORBIDDEN, reason).into_response();
                    }
                    if request.uri().query().is_some_and(|query| !query.is_empty()) {
                        return refused(StatusCode::BAD_REQUEST, NO_OPTIONS).into_response();
                    }
                    match router.call(request).await {
                        Ok(response) => response,
                        Err(never) => match never {},
                    }
                }
            };
            let serving = warpseek_front::serve(listener, answer, &connections, tls, end);
            bounded(serving, ending, at_once, DRAIN).await
        });
        runtime.shutdown_timeout(Duration::from_secs(1));
        // Some requests may have been cut off, but the server has ended either way.
        let (Some(()) | None) = served;
        Ok(())
    }
}

/// Refuses configurations in which clients and nodes share a token or only nodes have one.
/// Earlier versions had one token for both.
fn check_tokens(
    clients: Option<&Token>,
    nodes: Option<&Token>,
    insecure: bool,
) -> Result<(), ClusterError> {
    let what = match (clients, nodes) {
        (Some(clients), Some(nodes)) if clients.is_same(nodes) => {
            "clients and nodes have the same token, so clients of the aggregator could call nodes too; give clients a different one"
        }
        (None, Some(_)) if !insecure => {
            "nodes have a token, but clients of the aggregator have none; give clients a different token with --client-token-file or the variable WARPSEEK_CLUSTER_CLIENT_TOKEN, or allow access without a token with --insecure"
        }
        _ => return Ok(()),
    };
    Err(ClusterError::Setup(what.to_owned()))
}

/// Serves until all requests are finished. Once the end has begun, it waits no longer than
/// `drain` and no longer than until `at_once` completes; `at_once` is polled only then.
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

/// Reads a body within its time and size limits.
async fn read(body: Body, limit: Duration) -> Result<Bytes, Refused> {
    match tokio::time::timeout(limit, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let mut causes = std::iter::successors(
                Some(&error as &(dyn std::error::Error + 'static)),
                |error| error.source(),
            );
            // axum does not export the types of these errors.
            let cause = causes.find_map(|cause| match cause.to_string() {
                cause if cause == "length limit exceeded" => Some(StatusCode::PAYLOAD_TOO_LARGE),
                cause if cause.contains(TOO_SLOW) => Some(StatusCode::REQUEST_TIMEOUT),
                _ => None,
            });
            Err(match cause {
                Some(status @ StatusCode::PAYLOAD_TOO_LARGE) => {
                    refused(status, format!("the body has more than {MAX_BODY} bytes"))
                }
                Some(status) => refused(status, "the body came too slowly"),
                None => refused(StatusCode::BAD_REQUEST, error.to_string()),
            })
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
                let is_of_nodes =
                    self.of_nodes.as_ref().is_some_and(|token| token.admits(given.as_ref()));
                let reason = match is_of_nodes {
                    true => {
                        "this is the token of the nodes; clients of the aggregator need their own token"
                    }
                    false => "the token is missing, or is not the token of this aggregator",
                };
                let reason = reason.to_owned();
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
    fn clients_and_nodes_have_tokens_of_their_own() {
        let token = |text: &str| Token::new(text).unwrap();
        let (clients, nodes) = (token("0123456789abcdef"), token("fedcba9876543210"));
        assert!(check_tokens(None, None, false).is_ok());
        assert!(check_tokens(Some(&clients), None, false).is_ok());
        assert!(check_tokens(Some(&clients), Some(&nodes), false).is_ok());
        assert!(check_tokens(None, Some(&nodes), true).is_ok());
        let error = check_tokens(None, Some(&nodes), false).unwrap_err().to_string();
        assert!(error.contains("--client-token-file"), "{error}");
        for insecure in [false, true] {
            let error = check_tokens(Some(&nodes), Some(&nodes), insecure).unwrap_err();
            assert!(error.to_string().contains("the same token"), "{error}");
        }
    }

    #[test]
    fn a_body_must_come_in_time_and_not_be_too_large() {
        let runtime = runtime().unwrap();
        let read = |body: Body, limit| {
            runtime.block_on(read(body, limit)).map_err(|refused| refused.status)
        };
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
        // A serving future that finishes first is waited for, and a signal before the end has
        // begun does not end it at once.
        let _inside = runtime.enter();
        let (_ended, ending) = oneshot::channel();
        let serving = tokio::time::sleep(Duration::from_millis(5));
        let at_once = std::future::ready(());
        assert_eq!(runtime.block_on(bounded(serving, ending, at_once, Duration::ZERO)), Some(()));
    }
}
