//! Who answers the requests of connections. How these are accepted, encrypted and ended is in the crate `front`, which the aggregator of a cluster shares.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use warpseek_front::Tls;

use crate::app::App;
use crate::config::Config;
use crate::direct::Direct;

/// Who answers requests. Clones share everything.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) app: Arc<App>,
    pub(crate) router: Router,
}

impl Door {
    async fn answer(self, request: Request) -> Response {
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
