//! HTTP connections of clients, and what the server and the cluster's aggregator share. The number
//! of open connections is limited, they are encrypted if there is a certificate, and slow clients
//! are disconnected.
//!
//! `patience` enforces the timeouts of slow clients, `tls` encrypts connections, `hosts` checks
//! the names that a server answers to, `json` and `options` parse bodies, and `remote` is the
//! interface through which the server calls an aggregator. The callers of this crate produce the
//! answers.
#![forbid(unsafe_code)]

mod hosts;
mod json;
mod options;
mod patience;
mod remote;
mod tls;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::patience::{PacedBody, Patient, Phase};

pub use hosts::{Host, Hosts};
pub use json::{brief, json};
pub use options::{options, plain};
pub use patience::{TOO_SLOW, Timeouts};
pub use remote::{Remote, RemoteAnswer, RemoteFailure, RemoteFuture, RemoteLimits, RemoteSearch};
pub use tls::{Tls, TlsOptions};

/// The limits of connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of open connections. Further ones wait to be accepted.
    pub connections: usize,
    /// Timeouts for slow clients.
    pub timeouts: Timeouts,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 4096, timeouts: Timeouts::default() }
    }
}

/// The idle time before TCP keep-alive probes, and their interval. A client that vanishes
/// silently is noticed after about two minutes.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
const KEEP_ALIVE_AGAIN: Duration = Duration::from_secs(15);

/// Answers requests until `end` completes, and then until all pending requests are answered.
pub async fn serve<A, F>(
    mut listener: TcpListener,
    answer: A,
    limits: &Limits,
    tls: Option<Arc<Tls>>,
    end: impl Future<Output = ()>,
) where
    A: Fn(Request) -> F + Clone + Send + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let limit = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    tokio::pin!(end);
    loop {
        let accepted = accept(&mut listener, &limit, &limits.timeouts);
        let stream = tokio::select! {
            accepted = accepted => accepted,
            () = &mut end => break,
        };
        tokio::spawn(begin(stream, answer.clone(), limits, tls.clone(), Some(graceful.watcher())));
    }
    // While pending requests finish, new connections are still accepted, so that `answer` can
    // tell their clients that the server is shutting down.
    let finished = graceful.shutdown();
    tokio::pin!(finished);
    loop {
        let accepted = accept(&mut listener, &limit, &limits.timeouts);
        let stream = tokio::select! {
            accepted = accepted => accepted,
            () = &mut finished => break,
        };
        tokio::spawn(begin(stream, answer.clone(), limits, tls.clone(), None));
    }
}

/// Waits for a free slot and accepts the next connection.
async fn accept(
    listener: &mut TcpListener,
    limit: &Arc<Semaphore>,
    timeouts: &Timeouts,
) -> Patient {
    let permit = limit.clone().acquire_owned().await.ok();
    let stream = Listener::accept(listener).await.0;
    set_up(&stream);
    Patient::new(stream, timeouts.clone(), permit)
}

/// Answers the requests of a connection. If there is a watcher, a graceful shutdown ends it.
fn begin<A, F>(
    stream: Patient,
    answer: A,
    limits: &Limits,
    tls: Option<Arc<Tls>>,
    watcher: Option<Watcher>,
) -> impl Future<Output = ()> + Send + use<A, F>
where
    A: Fn(Request) -> F + Clone + Send + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let timeouts = limits.timeouts.clone();
    async move {
        let phase = stream.phase();
        match tls {
            None => connected(stream, phase, answer, timeouts, watcher).await,
            Some(tls) => match tls.accept(stream).await {
                Ok(stream) => connected(stream, phase, answer, timeouts, watcher).await,
                Err(error) => tracing::debug!(%error, "TLS handshake failed"),
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
        tracing::debug!(%error, "cannot set the options of a connection");
    }
}

/// Answers the requests of a connection.
async fn connected<S, A, F>(
    stream: S,
    phase: Phase,
    answer: A,
    timeouts: Timeouts,
    watcher: Option<Watcher>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn(Request) -> F + Clone + Send + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        phase.begin_request();
        let request = request.map(|body| Body::new(PacedBody::new(Body::new(body), &timeouts)));
        let (phase, answered) = (phase.clone(), answer(request));
        async move {
            let response = answered.await;
            phase.end_request();
            Ok::<_, Infallible>(response)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        // `Patient` enforces this timeout. It distinguishes a connection without a request from a
        // request that arrives slowly.
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    let ended = match watcher {
        Some(watcher) => watcher.watch(connection).await,
        None => connection.await,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection failed");
    }
}
