//! Who answers the requests of connections. How these are accepted, encrypted and ended is in the crate `front`, which the aggregator of a cluster shares.

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
use crate::http::direct::Direct;
use crate::http::exchange::Exchange;
use crate::operations::config::Config;

/// Who answers requests. Clones share everything.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) app: Arc<App>,
    pub(crate) router: Router,
}

impl Door {
    async fn answer(self, mut request: Request) -> Response {
        // Before anything else, so that a page whose name points here learns nothing.
        if let Err(reason) = self.app.hosts.check(request.uri(), request.headers()) {
            let exchange = Exchange::begin(&self.app, &mut request);
            let failure = Failure::new(Kind::Forbidden, reason);
            return exchange.end("none", failure.into_response());
        }
        match Direct::of(&request) {
            Some(direct) => direct.answer(self.app, request).await,
            None => match TowerToHyperService::new(self.router).call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
        }
    }
}

/// Serves until `end` is done, and then until all requests under way are answered.
pub(crate) async fn serve(
    listener: TcpListener,
    door: Door,
    config: &Config,
    tls: Option<Arc<Tls>>,
    end: impl Future<Output = ()>,
) {
    let limits = warpseek_front::Limits {
        connections: config.limits.connections,
        timeouts: config.timeouts.clone(),
    };
    let answer = move |request| door.clone().answer(request);
    warpseek_front::serve(listener, answer, &limits, tls, end).await;
}
