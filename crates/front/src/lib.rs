//! Connections of clients over HTTP, for the server and the aggregator: accepted up to a limit, encrypted if there is a certificate, ended if their client is too slow.
//!
//! `patience` is how long a client is waited for, `tls` encrypts connections, `hosts` are the names that a server answers to, and `json` and `options` read bodies. What is answered is not the business of this crate.
#![forbid(unsafe_code)]

mod hosts;
mod json;
mod options;
mod patience;
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
pub use tls::{Tls, TlsOptions};

/// The limits of connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections; further ones wait to be accepted.
    pub connections: usize,
    /// How long slow clients are waited for.
    pub timeouts: Timeouts,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 4096, timeouts: Timeouts::default() }
    }
}

/// A client that is gone without a word is noticed after about two minutes.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
const KEEP_ALIVE_AGAIN: Duration = Duration::from_secs(15);

/// Answers requests until `end` is done, and then until all requests under way are answered.
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
    // While requests are finished, whoever comes new is told that the server ends, instead of nothing.
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

/// The next connection, as soon as there may be one more.
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

/// Answers a connection, and lets it end when the server does if it is watched.
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
