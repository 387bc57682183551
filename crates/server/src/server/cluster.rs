//! A server without indexes that answers for a collection on other machines, for `warpseek
//! aggregate`. It has the routes of `/v1/cluster` under shorter paths, and one token of clients
//! instead of keys.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use serde_json::{Value, json};
use warpseek_front::{Remote, RemoteLimits, TlsOptions};

use super::{Role, ServeError, Server, layered, states};
use crate::app::App;
use crate::error::{Failure, Kind};
use crate::http::answer::{Answer, Reply};
use crate::http::exchange::Exchange;
use crate::http::keys::Keys;
use crate::native::cluster as remote_routes;
use crate::operations::config::{Config, Limits, TlsFiles};
use crate::operations::openapi;

/// Maximum size of a body in bytes.
const MAX_BODY: usize = 16 << 20;

/// The routes.
const ROUTES: [&str; 8] = [
    "/v1/search",
    "/v1/batch",
    "/v1/cluster",
    "/metrics",
    "/openapi.json",
    "/health",
    "/readyz",
    "/livez",
];

/// Message for a request without a route.
const PATHS: &str = "the routes are POST /v1/search, POST /v1/batch, GET /v1/cluster, \
    GET /metrics, GET /openapi.json, GET /health, GET /readyz and GET /livez";

/// Message for a request whose URL has a query string.
const NO_OPTIONS: &str = "URLs have no parameters here; write the options into the body";

/// Message for a client with the token of the nodes.
const OF_NODES: &str =
    "this is the token of the nodes; clients of the aggregator need their own token";

/// Schemas of the description of the routes, besides those of the cluster.
const SCHEMAS: [&str; 3] = ["Object", "Text", "Failure"];

/// Settings of a server that answers only for a collection on other machines.
pub struct ClusterFront {
    /// Address and port to listen on.
    pub listen: String,
    /// The token that clients must send, as `Authorization: Bearer`. Default: none.
    pub token: Option<String>,
    /// The token of the nodes. It must differ from the token of clients, who have no access to
    /// nodes. Default: none.
    pub nodes_token: Option<String>,
    /// The certificate and key for TLS. Default: none, and connections are not encrypted.
    pub tls: TlsFiles,
    /// True if the server may listen without a token or without encryption on an address that
    /// other machines can reach. Default: false.
    pub insecure: bool,
    /// Further names that the server answers to, as in [`Config`]. Default: none.
    pub allowed_hosts: Vec<String>,
    /// Maximum number of open connections, and the timeouts for slow clients.
    pub connections: warpseek_front::Limits,
    /// Limits of a request.
    pub limits: RemoteLimits,
}

impl ClusterFront {
    /// Returns the default settings for an address.
    pub fn new(listen: impl Into<String>) -> Self {
        ClusterFront {
            listen: listen.into(),
            token: None,
            nodes_token: None,
            tls: TlsFiles::default(),
            insecure: false,
            allowed_hosts: Vec::new(),
            connections: warpseek_front::Limits::default(),
            limits: RemoteLimits::default(),
        }
    }
}

impl Server {
    /// Starts a server without a data folder and binds its address. Requests are answered once the
    /// server runs. An address that other machines can reach requires a token for clients and a
    /// certificate, unless `insecure` is set: every machine on the network path can read a token
    /// that is sent without encryption.
    pub fn of_cluster(front: ClusterFront, remote: Arc<dyn Remote>) -> Result<Self, ServeError> {
        let ClusterFront { listen, token, nodes_token, tls, insecure, .. } = front;
        check_tokens(token.as_deref(), nodes_token.as_deref(), insecure)
            .and_then(|()| match insecure {
                true => Ok(()),
                false => check_address(&listen, token.is_some(), tls.certificate.is_some()),
            })
            .map_err(ServeError::Setup)?;
        let keys = Keys::of_readers(token, nodes_token.map(|token| (token, OF_NODES)));
        let warpseek_front::Limits { connections, timeouts } = front.connections;
        let limits = Limits {
            body: MAX_BODY,
            window: front.limits.k,
            query_text: front.limits.query_bytes.min(MAX_BODY),
            batch: front.limits.batch,
            hits: front.limits.hits,
            // A connection has one request at a time, so that none is refused.
            queue: connections,
            connections,
            ..Limits::default()
        };
        let config = Config {
            listen,
            insecure,
            allowed_hosts: front.allowed_hosts,
            tls,
            timeouts,
            limits,
            ..Config::default()
        };
        let names = TlsOptions { certificate: "--http-certificate", key: "--http-key" };
        let server = Self::listen(config, keys, names, Role::Cluster(front.limits))?;
        // There is nothing to open first.
        server.app.welcome();
        Ok(server.with_remote(remote))
    }
}

/// Refuses configurations in which clients and nodes share a token or only nodes have one.
/// Earlier versions had one token for both.
fn check_tokens(clients: Option<&str>, nodes: Option<&str>, insecure: bool) -> Result<(), String> {
    let what = match (clients, nodes) {
        (Some(clients), Some(nodes)) if clients == nodes => {
            "clients and nodes have the same token, so clients of the aggregator could call nodes too; give clients a different one"
        }
        (None, Some(_)) if !insecure => {
            "nodes have a token, but clients of the aggregator have none; give clients a different token with --client-token-file or the variable WARPSEEK_CLUSTER_CLIENT_TOKEN, or allow access without a token with --insecure"
        }
        _ => return Ok(()),
    };
    Err(what.to_owned())
}

/// Refuses an address that other machines can reach if protection is missing.
fn check_address(listen: &str, has_token: bool, has_certificate: bool) -> Result<(), String> {
    let address: SocketAddr = listen
        .parse()
        .map_err(|_| format!("`{listen}` is not an address and port such as 127.0.0.1:9200"))?;
    let missing = match (has_token, has_certificate) {
        _ if address.ip().is_loopback() => return Ok(()),
        (true, true) => return Ok(()),
        (false, false) => {
            "a token for clients (--client-token-file) and a certificate (--http-certificate, --http-key)"
        }
        (false, true) => "a token for clients (--client-token-file)",
        (true, false) => {
            "a certificate (--http-certificate, --http-key), without which every machine on the way can read the token"
        }
    };
    Err(format!(
        "{address} can be reached by other machines; give {missing}, or declare the network trusted with --insecure"
    ))
}

pub(super) fn routes(app: Arc<App>, limits: RemoteLimits) -> Router {
    let router = states()
        .route("/openapi.json", get(openapi))
        .route("/v1/search", post(remote_routes::search))
        .route("/v1/batch", post(remote_routes::batch))
        .route("/v1/cluster", get(remote_routes::status))
        .fallback(async || Failure::new(Kind::NoSuchRoute, PATHS))
        .method_not_allowed_fallback(async || Failure::new(Kind::Method, PATHS))
        .layer(Extension(limits));
    layered(router, app.clone()).layer(from_fn_with_state(app, without_options))
}

/// Refuses requests with a query string.
async fn without_options(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    if request.uri().query().is_none_or(str::is_empty) {
        return next.run(request).await;
    }
    let exchange = Exchange::begin(&app, &mut request);
    exchange.end("none", Failure::illegal(NO_OPTIONS).into_response())
}

async fn openapi(State(app): State<Arc<App>>) -> Reply {
    Ok(Answer::json(document(&app.config.limits)))
}

/// Returns the part of the server's description that these routes have.
fn document(limits: &Limits) -> Value {
    let mut document = openapi::document(limits);
    document["info"]["description"] = json!("Exact text search of a collection on other machines.");
    if let Some(paths) = document["paths"].as_object_mut() {
        for name in ["search", "batch"] {
            if let Some(mut operation) = paths.remove(&format!("/v1/cluster/{name}")) {
                operation["post"]["operationId"] = json!(format!("post_v1_{name}"));
                paths.insert(format!("/v1/{name}"), operation);
            }
        }
        paths.retain(|path, _| ROUTES.contains(&path.as_str()));
    }
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        schemas.retain(|name, _| name.starts_with("Cluster") || SCHEMAS.contains(&name.as_str()));
    }
    document
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn clients_and_nodes_have_tokens_of_their_own() {
        let (clients, nodes) = (Some("0123456789abcdef"), Some("fedcba9876543210"));
        assert!(check_tokens(None, None, false).is_ok());
        assert!(check_tokens(clients, None, false).is_ok());
        assert!(check_tokens(clients, nodes, false).is_ok());
        assert!(check_tokens(None, nodes, true).is_ok());
        let error = check_tokens(None, nodes, false).unwrap_err();
        assert!(error.contains("--client-token-file"), "{error}");
        for insecure in [false, true] {
            let error = check_tokens(nodes, nodes, insecure).unwrap_err();
            assert!(error.contains("the same token"), "{error}");
        }
    }

    #[test]
    fn an_address_that_others_reach_needs_a_token_and_a_certificate() {
        for (listen, token, certificate, wanted) in [
            ("0.0.0.0:0", false, false, "--client-token-file) and a certificate"),
            ("0.0.0.0:0", true, false, "can read the token"),
            ("[::]:0", false, true, "give a token for clients (--client-token-file), or"),
            ("somewhere", true, true, "`somewhere` is not an address"),
        ] {
            let error = check_address(listen, token, certificate).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
        assert!(check_address("0.0.0.0:0", true, true).is_ok());
        assert!(check_address("127.0.0.1:0", false, false).is_ok());
    }

    #[test]
    fn the_description_has_these_routes_and_their_schemas() {
        let document = document(&Limits::default());
        let paths: Vec<&str> =
            document["paths"].as_object().unwrap().keys().map(|k| &**k).collect();
        assert_eq!(paths.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(ROUTES));
        assert!(ROUTES.iter().all(|route| PATHS.contains(route)));
        let text = document.to_string();
        let used: BTreeSet<&str> = text
            .split("#/components/schemas/")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        let known = document["components"]["schemas"].as_object().unwrap();
        let known: BTreeSet<&str> = known.keys().map(|name| &**name).collect();
        assert_eq!(used, known);
    }
}
