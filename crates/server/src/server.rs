//! Start, routes and end of a server.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use axum::serve::Listener;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_http::compression::CompressionLayer;
use tower_http::decompression::RequestDecompressionLayer;
use warpseek::{DeviceChoice, SearcherOptions};

use crate::app::App;
use crate::catalogue::Catalogue;
use crate::collection::Opening;
use crate::config::{Config, Device};
use crate::error::{Failure, Kind};
use crate::http::{Answer, Reply, around};
use crate::keys::Keys;
use crate::{facade, native, retrieve, telemetry};

/// Why a server could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A setting, or the folder, is not as it must be.
    #[error("{0}")]
    Setup(String),
    /// The system failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// An index could not be closed; its log has what is missing, and the next start finds it there.
    #[error("an index could not be closed: {0}")]
    Close(String),
}

/// A server that listens.
pub struct Server {
    app: Arc<App>,
    opening: Opening,
    listener: TcpListener,
    address: SocketAddr,
    runtime: tokio::runtime::Runtime,
}

impl Server {
    /// Checks the settings and listens. Indexes are opened when it runs; until then requests are answered with 503.
    pub fn start(config: Config) -> Result<Self, ServeError> {
        telemetry::start_logging(config.log);
        let keys = match &config.api_key_file {
            Some(path) => Keys::read(path).map_err(ServeError::Setup)?,
            None => Keys::default(),
        };
        let address = config.address().map_err(ServeError::Setup)?;
        let device = match config.device {
            Device::Cpu => DeviceChoice::Cpu,
            Device::Cuda => DeviceChoice::Cuda,
            Device::Auto => DeviceChoice::Auto,
        };
        let searcher = SearcherOptions::new()
            .device(device)
            .on_notice(|notice| tracing::warn!(?notice, "notice of the engine"));
        let opening =
            Opening { refresh: Duration::from_millis(config.refresh_ms.max(1)), searcher };
        let io = |what: String| move |source| ServeError::Io { what, source };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("warpseek-http")
            .build()
            .map_err(io("threads".into()))?;
        // Before the indexes are opened, so that a port in use is noticed at once.
        let listener = runtime
            .block_on(TcpListener::bind(address))
            .map_err(io(format!("cannot listen on {address}")))?;
        let address = listener.local_addr().map_err(io("the address".into()))?;
        let metrics = telemetry::recorder().map_err(ServeError::Setup)?;
        let app = Arc::new(App::new(config, keys, metrics));
        Ok(Server { app, opening, listener, address, runtime })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process is told to end (SIGTERM or Ctrl-C): requests under way are finished, indexes flushed and closed. A second signal ends it at once, and writes that were acknowledged are in the logs.
    pub fn run(self) -> Result<(), ServeError> {
        self.run_until(signal())
    }

    /// The same until a future is done.
    pub fn run_until(
        self,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let Server { app, opening, listener, runtime, .. } = self;
        let drain = Duration::from_secs(app.config.drain_s);
        let limit = Arc::new(Semaphore::new(app.config.limits.connections));
        let router = routes(app.clone());
        let (ended, ending) = tokio::sync::oneshot::channel::<()>();
        let (shared, loaded) = (app.clone(), app.clone());
        let served = runtime.block_on(async move {
            let loading = tokio::task::spawn_blocking(move || open(&loaded, opening));
            let loading = async move {
                match loading.await {
                    Ok(Ok(())) => std::future::pending().await,
                    Ok(Err(error)) => error,
                    Err(error) => ServeError::Setup(error.to_string()),
                }
            };
            let graceful = async move {
                end.await;
                tracing::info!("ending: requests under way are finished");
                shared.ready.store(false, Ordering::Release);
                let _ = ended.send(());
            };
            let serving =
                axum::serve(Limited { listener, limit }, router).with_graceful_shutdown(graceful);
            let too_long = async {
                let _ = ending.await;
                tokio::select! {
                    () = tokio::time::sleep(drain) => {}
                    () = signal() => std::process::exit(130),
                }
            };
            tokio::select! {
                served = serving.into_future() => served.map_err(|source| ServeError::Io { what: "serving".into(), source }),
                error = loading => Err(error),
                () = too_long => {
                    tracing::warn!("some requests took too long and are given up");
                    Ok(())
                }
            }
        });
        let closed = app.catalogue_if_open().map_or(Ok(()), Catalogue::close);
        runtime.shutdown_timeout(Duration::from_secs(1));
        served?;
        tracing::info!("ended");
        closed.map_err(|failure| ServeError::Close(failure.reason))
    }
}

/// Opens all indexes, on GPUs too if they are to be used.
fn open(app: &App, opening: Opening) -> Result<(), ServeError> {
    let catalogue = Catalogue::open(&app.config.data, opening).map_err(ServeError::Setup)?;
    for of in catalogue.all() {
        let prepared = of.view().searcher.prepare();
        prepared.map_err(|error| ServeError::Setup(format!("{}: {error}", of.dir().display())))?;
    }
    tracing::info!(indexes = catalogue.all().len(), "ready");
    app.open(catalogue);
    Ok(())
}

/// Done when the process is told to end.
async fn signal() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = interrupt.await;
}

fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/livez", get(async || Answer::text("ok")))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/retrieve", post(retrieve::retrieve))
        .merge(native::routes())
        .merge(facade::routes())
        .fallback(async || {
            Failure::new(
                Kind::NoSuchRoute,
                "no handler found for this path; docs/server.md lists those there are",
            )
        })
        .method_not_allowed_fallback(async || {
            Failure::new(Kind::Method, "this path has no such method")
        })
        .layer(axum::middleware::from_fn_with_state(app.clone(), around))
        .layer(CompressionLayer::new())
        .layer(RequestDecompressionLayer::new())
        .with_state(app)
}

async fn health(State(app): State<Arc<App>>) -> Reply {
    let ready = app.is_ready();
    let answer = json!({"status": if ready { "available" } else { "unavailable" }, "ok": ready});
    Ok(Answer::json(answer).status(if ready { 200 } else { 503 }))
}

async fn ready(State(app): State<Arc<App>>) -> Reply {
    match app.is_ready() {
        true => Ok(Answer::text("ready")),
        false => Err(Failure::new(Kind::NotReady, "the server is starting or ending")),
    }
}

async fn metrics(State(app): State<Arc<App>>) -> Reply {
    let text = tokio::task::spawn_blocking(move || telemetry::render(&app)).await;
    text.map(Answer::text).map_err(|error| Failure::broken(error.to_string()))
}

/// Accepts at most so many connections at a time.
struct Limited {
    listener: TcpListener,
    limit: Arc<Semaphore>,
}

/// A connection, which counts as long as it is there.
struct Counted {
    stream: TcpStream,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Listener for Limited {
    type Io = Counted;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Counted, SocketAddr) {
        let permit = self.limit.clone().acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let _ = stream.set_nodelay(true);
        (Counted { stream, _permit: permit }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
