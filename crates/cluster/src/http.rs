//! The aggregator over HTTP: a few routes with JSON. Keys, pages and the clients of other engines are the server's.

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

/// The largest body, and how long it may take to come.
const MAX_BODY: usize = 16 << 20;
const BODY: Duration = Duration::from_secs(30);

/// How often the certificate's files are looked at.
const RELOAD: Duration = Duration::from_secs(10);

/// How long an aggregator that ends waits for what is under way.
const DRAIN: Duration = Duration::from_secs(30);

/// What it answers to.
const PATHS: &str =
    "there are POST /v1/search, POST /v1/batch, GET /v1/cluster, GET /metrics and GET /livez";

/// Why an address with options is refused.
const NO_OPTIONS: &str = "addresses have no options here; what is asked for stands in the body";

/// Who may ask an aggregator over HTTP, and how many connections there may be.
#[derive(Default)]
pub struct HttpOptions {
    /// The token that requests must bring. It is another one than that of nodes: who may ask an aggregator may not ask nodes. Default: none.
    pub token: Option<Token>,
    /// The certificate, with its chain, and its private key that connections are encrypted with, both in PEM. They are read again when they change. Default: none, and connections are not encrypted.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Whether it may listen without a token, or without encryption, where other machines reach it. Default: no.
    pub insecure: bool,
    /// Further names that it answers to, as requests have them in `Host`, or `*` alone for every name. Default: none; `localhost`, loopback addresses and the address it listens on, and every name if there is a token or a certificate.
    pub allowed_hosts: Vec<String>,
    /// How many connections there may be, and how long slow clients are waited for.
    pub connections: Limits,
    /// What a request may ask for at most.
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
    /// That of nodes, which clients must not bring.
    of_nodes: Option<Token>,
    limits: DoorLimits,
}

impl HttpServer {
    /// Listens; it answers when it runs. An address that other machines reach is refused without a token for clients and a certificate, unless `insecure` is set: a token that is sent in the clear is known to everybody on the way.
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
                "a certificate (--http-certificate, --http-key), without which everybody on the way reads the token",
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as an address for clients.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
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
                // Before anything else, so that a page whose name points here learns nothing.
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
        // Whether all was finished or the time was up, it has ended.
        let (Some(()) | None) = served;
        Ok(())
    }
}

/// Refuses tokens that are one for clients and nodes, as they were at first.
fn check_tokens(
    clients: Option<&Token>,
    nodes: Option<&Token>,
    insecure: bool,
) -> Result<(), ClusterError> {
    let what = match (clients, nodes) {
        (Some(clients), Some(nodes)) if clients.is_same(nodes) => {
            "clients and nodes have the same token: whoever may ask the aggregator could ask nodes too; give clients another one"
        }
        (None, Some(_)) if !insecure => {
            "nodes have a token, and clients of the aggregator have none: it is no longer the same for both; give clients one of their own with --client-token-file or the variable WARPSEEK_CLUSTER_CLIENT_TOKEN, or say that everybody may ask (--insecure)"
        }
        _ => return Ok(()),
    };
    Err(ClusterError::Setup(what.to_owned()))
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
            // The types of these errors are of a crate that axum does not show.
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
                        "this is the token of nodes; clients of the aggregator have another one"
                    }
                    false => "the token is missing or not that of this aggregator",
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
