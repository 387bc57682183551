//! Connections: accepted up to a limit, encrypted if there is a certificate, ended if their client is too slow.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::app::App;
use crate::config::{Config, Timeouts};
use crate::direct::Direct;
use crate::patience::{PacedBody, Patient, Phase};
use crate::tls::Tls;

/// Who answers requests. Clones share everything.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) app: Arc<App>,
    pub(crate) router: Router,
}

impl Door {
    async fn answer(self, request: Request) -> Result<Response, Infallible> {
        match Direct::of(&request) {
            Some(direct) => Ok(direct.answer(self.app, request).await),
            None => TowerToHyperService::new(self.router).call(request).await,
        }
    }
}

/// A client that is gone without a word is noticed after about two minutes.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
const KEEP_ALIVE_AGAIN: Duration = Duration::from_secs(15);

/// Serves until `end` is done, and then until all requests under way are answered.
pub(crate) async fn serve(
    mut listener: TcpListener,
    door: Door,
    config: &Config,
    tls: Option<Arc<Tls>>,
    end: impl Future<Output = ()>,
) {
    let limit = Arc::new(Semaphore::new(config.limits.connections));
    let graceful = GracefulShutdown::new();
    tokio::pin!(end);
    loop {
        let accepted = accept(&mut listener, &limit, config);
        let stream = tokio::select! {
            accepted = accepted => accepted,
            () = &mut end => break,
        };
        tokio::spawn(begin(stream, door.clone(), config, tls.clone(), Some(graceful.watcher())));
    }
    // While requests are finished, whoever comes new is told that the server ends, instead of nothing.
    let finished = graceful.shutdown();
    tokio::pin!(finished);
    loop {
        let accepted = accept(&mut listener, &limit, config);
        let stream = tokio::select! {
            accepted = accepted => accepted,
            () = &mut finished => break,
        };
        tokio::spawn(begin(stream, door.clone(), config, tls.clone(), None));
    }
}

/// The next connection, as soon as there may be one more.
async fn accept(listener: &mut TcpListener, limit: &Arc<Semaphore>, config: &Config) -> Patient {
    let permit = limit.clone().acquire_owned().await.ok();
    let stream = Listener::accept(listener).await.0;
    set_up(&stream);
    Patient::new(stream, config.timeouts.clone(), permit)
}

/// Answers a connection, and lets it end when the server does if it is watched.
fn begin(
    stream: Patient,
    door: Door,
    config: &Config,
    tls: Option<Arc<Tls>>,
    watcher: Option<Watcher>,
) -> impl Future<Output = ()> + Send + use<> {
    let timeouts = config.timeouts.clone();
    async move {
        let phase = stream.phase();
        match tls {
            None => answer(stream, phase, door, timeouts, watcher).await,
            Some(tls) => match tls.accept(stream).await {
                Ok(stream) => answer(stream, phase, door, timeouts, watcher).await,
                Err(error) => tracing::debug!(%error, "no TLS connection"),
            },
        }
    }
}

fn set_up(stream: &TcpStream) {
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE_AGAIN);
    let set = stream
        .set_nodelay(true)
        .and_then(|()| SockRef::from(stream).set_tcp_keepalive(&keep_alive));
    if let Err(error) = set {
        tracing::debug!(%error, "a connection without its options");
    }
}

/// Answers the requests of a connection.
async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    phase: Phase,
    door: Door,
    timeouts: Timeouts,
    watcher: Option<Watcher>,
) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        phase.begin_request();
        let request = request.map(|body| Body::new(PacedBody::new(Body::new(body), &timeouts)));
        let (phase, door) = (phase.clone(), door.clone());
        async move {
            let response = door.answer(request).await;
            phase.end_request();
            response
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        // Patience sees to it, and tells a request that does not come from one that comes slowly.
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    let ended = match watcher {
        Some(watcher) => watcher.watch(connection).await,
        None => connection.await,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}
