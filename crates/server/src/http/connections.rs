//! The entry point for requests on connections. The crate `front`, which the cluster's aggregator
//! shares, accepts, encrypts and ends the connections.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use warpseek_front::Tls;

use crate::app::App;
use crate::error::{Failure, Kind};
use crate::http::direct::DirectSearch;
use crate::http::exchange::Exchange;
use crate::operations::config::Config;

/// The handler of requests. Clones share everything.
#[derive(Clone)]
pub(crate) struct ConnectionHandler {
    pub(crate) app: Arc<App>,
    pub(crate) router: Router,
}

impl ConnectionHandler {
    async fn answer(self, mut request: Request) -> Response {
        // This check comes first, so that a web page whose host name resolves here learns
        // nothing.
        if let Err(reason) = self.app.hosts.check(request.uri(), request.headers()) {
            let exchange = Exchange::begin(&self.app, &mut request);
            let failure = Failure::new(Kind::Forbidden, reason);
            return exchange.end("none", failure.into_response());
        }
        // A server without indexes has no such routes.
        let is_open = self.app.catalogue_if_open().is_some();
        match DirectSearch::of(&request).filter(|_| is_open) {
            Some(direct) => direct.answer(self.app, request).await,
            None => match TowerToHyperService::new(self.router).call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
        }
    }
}

/// Serves until `end` completes, and then until all requests in progress are answered.
pub(crate) async fn serve(
    listener: TcpListener,
    handler: ConnectionHandler,
    config: &Config,
    tls: Option<Arc<Tls>>,
    end: impl Future<Output = ()>,
) {
    let limits = warpseek_front::Limits {
        connections: config.limits.connections,
        timeouts: config.timeouts.clone(),
    };
    let answer = move |request| handler.clone().answer(request);
    warpseek_front::serve(listener, answer, &limits, tls, end).await;
}
