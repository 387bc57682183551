//! Startup, routes and shutdown of a server.

mod cluster;

pub use cluster::ClusterFront;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use sd_notify::NotifyState;
use serde_json::json;
use tokio::net::TcpListener;
use tower_http::compression::CompressionLayer;
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer};
use tower_http::decompression::RequestDecompressionLayer;
use warpseek::devices::Device as Gpu;
use warpseek::options::CalibrationChoice;
use warpseek::{DeviceChoice, SearcherOptions};
use warpseek_front::{Hosts, Remote, RemoteLimits, Tls, TlsOptions};

use crate::app::{App, cores};
use crate::elasticsearch;
use crate::elasticsearch::unsupported::unsupported_call;
use crate::error::{Failure, Kind};
use crate::http::answer::{Answer, Reply};
use crate::http::connections;
use crate::http::connections::ConnectionHandler;
use crate::http::exchange::around;
use crate::http::keys::Keys;
use crate::indexes::catalogue::Catalogue;
use crate::indexes::names;
use crate::indexes::open_index::Opening;
use crate::indexes::snapshots::{Store, restore_missing};
use crate::mcp;
use crate::native;
use crate::operations::config::{Config, Device};
use crate::operations::log;
use crate::operations::openapi;
use crate::operations::telemetry::{counters, exposition};
use crate::page;
use crate::retrieve;

/// An error that prevents a server from starting or ends it.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A setting or the data folder is invalid.
    #[error("{0}")]
    Setup(String),
    /// An operation of the system failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation that failed.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// An index could not be closed; its log has the missing writes, and the next start replays
    /// them.
    #[error("an index could not be closed: {0}")]
    Close(String),
}

/// A server that is bound to its address.
pub struct Server {
    app: Arc<App>,
    role: Role,
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    runtime: tokio::runtime::Runtime,
}

/// The data that a server answers for.
enum Role {
    /// A folder of indexes, and the options to open them with.
    Indexes(Box<Opening>),
    /// Only a collection on other machines, and the limits on its searches.
    Cluster(RemoteLimits),
}

impl Server {
    /// Checks the settings and binds the address. [`Server::run`] opens the indexes; until then,
    /// requests get status 503.
    pub fn start(config: Config) -> Result<Self, ServeError> {
        log::start(config.log);
        let keys = match &config.api_key_file {
            Some(path) => Keys::read(path).map_err(ServeError::Setup)?,
            None => Keys::default(),
        };
        let device = match config.device {
            Device::Cpu => DeviceChoice::Cpu,
            Device::Cuda => {
                // Reports an unusable GPU at start rather than at the first search.
                Gpu::open(0, None)
                    .and_then(|gpu| gpu.compiler_version())
                    .map_err(|error| ServeError::Setup(format!("device cuda: {error}")))?;
                DeviceChoice::Auto
            }
            Device::Auto => DeviceChoice::Auto,
        };
        let calibration = config.calibration.clone();
        let calibration = calibration.map_or(CalibrationChoice::Auto, CalibrationChoice::File);
        let mut searcher = SearcherOptions::new().device(device).calibration(calibration);
        if config.device == Device::Cuda {
            // The GPU answers whatever it can. An index that does not fit into its memory, for
            // example, must not prevent others from being served.
            searcher = searcher.gpu_from(0);
        }
        let opening =
            Opening { refresh: Duration::from_millis(config.refresh_ms.max(1)), searcher };
        let names = TlsOptions { certificate: "tls.certificate", key: "tls.key" };
        Self::listen(config, keys, names, Role::Indexes(Box::new(opening)))
    }

    /// Binds the address of the settings. Errors about the certificate contain `names`.
    fn listen(
        config: Config,
        keys: Keys,
        names: TlsOptions,
        role: Role,
    ) -> Result<Self, ServeError> {
        let address = config.address().map_err(ServeError::Setup)?;
        let tls = match (&config.tls.certificate, &config.tls.key) {
            (Some(certificate), Some(key)) => {
                Some(Arc::new(Tls::read(certificate, key, names).map_err(ServeError::Setup)?))
            }
            _ => None,
        };
        let io = |what: String| move |source| ServeError::Io { what, source };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("warpseek-http")
            // One thread per quick search that may run, and one that continues to read and write.
            .worker_threads(cores() + 1)
            .build()
            .map_err(io("threads".into()))?;
        // Binding comes before the indexes are opened, so that a port in use is reported at once.
        let listener = runtime
            .block_on(TcpListener::bind(address))
            .map_err(io(format!("cannot listen on {address}")))?;
        let address = listener.local_addr().map_err(io("the address".into()))?;
        let protected = !keys.is_empty() || tls.is_some();
        let hosts = Hosts::new(address.ip(), &config.allowed_hosts, protected);
        let hosts = hosts.map_err(ServeError::Setup)?;
        let metrics = counters::recorder().map_err(ServeError::Setup)?;
        let snapshots =
            config.snapshots.url.as_deref().map(|url| Store::open(url, &config.data)).transpose();
        let snapshots = snapshots.map_err(ServeError::Setup)?;
        let mut app = App::new(config, keys, hosts, metrics, snapshots);
        // Nothing rotates the log of an aggregator, which reports what happens to its nodes.
        app.logs_requests = matches!(role, Role::Indexes(_));
        let app = Arc::new(app);
        Ok(Server { app, role, listener, address, tls, runtime })
    }

    /// Lets the server also answer for a collection on other machines.
    pub fn with_remote(self, remote: Arc<dyn Remote>) -> Self {
        let _ = self.app.remote.set(remote);
        self
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the server for clients.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Serves until the process receives SIGTERM or Ctrl-C. The server then finishes requests in
    /// progress, and flushes and closes all indexes. A second signal ends the process at once;
    /// acknowledged writes are in the logs.
    pub fn run(self) -> Result<(), ServeError> {
        self.run_until(signal())
    }

    /// Serves until the future `end` completes, and then shuts down like [`Server::run`].
    pub fn run_until(
        self,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let Server { app, role, listener, tls, runtime, .. } = self;
        let notice = Duration::from_secs(app.config.drain_notice_s);
        let drain = Duration::from_secs(app.config.drain_s);
        let (router, has_indexes) = match &role {
            Role::Indexes(_) => (routes(app.clone()), true),
            Role::Cluster(limits) => (cluster::routes(app.clone(), limits.clone()), false),
        };
        let handler = ConnectionHandler { app: app.clone(), router };
        let (ended, ending) = tokio::sync::oneshot::channel::<()>();
        let (shared, loaded, config) = (app.clone(), app.clone(), app.config.clone());
        let reloading = reload(app.clone(), tls.clone());
        if has_indexes {
            app.start_scrub().map_err(|error| ServeError::Setup(error.to_string()))?;
        }
        let served = runtime.block_on(async move {
            let loading = tokio::task::spawn_blocking(move || open(&loaded, role));
            let loading = async move {
                match loading.await {
                    Ok(Ok(())) => std::future::pending().await,
                    Ok(Err(error)) => error,
                    Err(error) => ServeError::Setup(error.to_string()),
                }
            };
            let graceful = async move {
                end.await;
                tell_systemd(NotifyState::Stopping);
                shared.unwelcome();
                let _ = ended.send(());
                if !notice.is_zero() {
                    tracing::info!(
                        seconds = notice.as_secs(),
                        "shutting down: reporting not ready"
                    );
                    tokio::time::sleep(notice).await;
                }
                tracing::info!("shutting down: finishing requests in progress");
                shared.refuse();
            };
            let serving = connections::serve(listener, handler, &config, tls, graceful);
            tokio::spawn(reloading);
            let too_long = async {
                let _ = ending.await;
                tokio::select! {
                    () = tokio::time::sleep(notice + drain) => {}
                    () = signal() => {
                        if has_indexes {
                            end_at_once();
                        }
                    }
                }
            };
            tokio::select! {
                () = serving => Ok(()),
                error = loading => Err(error),
                () = too_long => {
                    tracing::warn!("shutting down: aborting requests in progress");
                    Ok(())
                }
            }
        });
        app.stop_scrub();
        let closed = runtime.block_on(async {
            let close = move || app.catalogue_if_open().map_or(Ok(()), Catalogue::close);
            tokio::select! {
                closed = tokio::task::spawn_blocking(close) => {
                    closed.unwrap_or_else(|error| Err(Failure::broken(error.to_string())))
                }
                () = signal(), if has_indexes => end_at_once(),
            }
        });
        runtime.shutdown_timeout(Duration::from_secs(1));
        if served.is_ok() {
            tracing::info!("ended");
        }
        log::flush();
        served?;
        closed.map_err(|failure| ServeError::Close(failure.reason))
    }
}

/// Opens all indexes, on GPUs too if they are to be used, and then accepts requests.
fn open(app: &App, role: Role) -> Result<(), ServeError> {
    let Role::Indexes(opening) = role else {
        tell_systemd(NotifyState::Ready);
        return Ok(());
    };
    let catalogue = Catalogue::open(&app.config.data, *opening).map_err(ServeError::Setup)?;
    for index in catalogue.all() {
        let prepared = index.view().prepare();
        prepared
            .map_err(|error| ServeError::Setup(format!("{}: {error}", index.dir().display())))?;
    }
    app.open(catalogue);
    if let Some(name) = &app.config.restore {
        app.snapshot_store()
            .and_then(|store| restore_missing(store, app.catalogue(), name))
            .map_err(|failure| ServeError::Setup(format!("restore: {}", failure.reason)))?;
    }
    app.welcome();
    tell_systemd(NotifyState::Ready);
    tracing::info!(indexes = app.catalogue().listed().len(), "ready");
    Ok(())
}

/// Notifies systemd, if it started the process with `Type=notify`.
fn tell_systemd(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "notifying systemd failed");
    }
}

/// Checks for new files periodically and on SIGHUP, and does periodic maintenance.
async fn reload(app: Arc<App>, tls: Option<Arc<Tls>>) {
    let mut hangups = Hangups::new();
    let interval = Duration::from_millis(app.config.refresh_ms.clamp(50, 60_000));
    loop {
        let asked = tokio::select! {
            () = hangups.next() => true,
            () = tokio::time::sleep(interval) => false,
        };
        let (app, tls) = (app.clone(), tls.clone());
        let look = move || {
            if let Some(tls) = tls {
                tls.reload(asked);
            }
            // Releases the memory of recorded times, which grows until upkeep runs, even if
            // nothing scrapes the metrics.
            app.metrics.run_upkeep();
            if let Some(catalogue) = app.catalogue_if_open().filter(|_| app.is_ready()) {
                catalogue.look_around();
            }
        };
        if let Err(error) = tokio::task::spawn_blocking(look).await {
            tracing::error!(%error, "checking for new files failed");
        }
    }
}

/// A stream of SIGHUPs, on systems that have them.
struct Hangups(#[cfg(unix)] Option<tokio::signal::unix::Signal>);

impl Hangups {
    #[cfg(unix)]
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        Hangups(signal(SignalKind::hangup()).ok())
    }

    #[cfg(not(unix))]
    fn new() -> Self {
        Hangups()
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.0 {
            signal.recv().await;
            return;
        }
        std::future::pending::<()>().await;
    }
}

fn end_at_once() -> ! {
    log::try_flush();
    std::process::exit(130)
}

/// Completes when the process receives SIGTERM or Ctrl-C.
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
    let slashed = elasticsearch::routes::routes()
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .with_state(app.clone());
    let slashed = TowerToHyperService::new(slashed);
    let limits = native::cluster::limits(&app.config);
    let router = states()
        .route("/openapi.json", get(openapi::openapi))
        .route("/retrieve", post(retrieve::retrieve))
        .merge(native::routes())
        .merge(native::cluster::routes(limits))
        .merge(page::routes())
        .merge(mcp::routes())
        .merge(elasticsearch::routes::routes())
        .fallback(move |request: Request| without_route(slashed, request))
        .method_not_allowed_fallback(no_such_method);
    layered(router, app)
}

/// Returns the routes about the state of the server.
fn states() -> Router<Arc<App>> {
    Router::new()
        .route("/health", get(health))
        .route("/livez", get(async || Answer::text("ok")))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
}

/// Adds what applies to all routes: checks of keys, serialization, compression and CORS.
fn layered(router: Router<Arc<App>>, app: Arc<App>) -> Router {
    router
        .layer(axum::middleware::from_fn_with_state(app.clone(), around))
        .layer(cors(&app.config.cors.origins))
        .layer(CompressionLayer::new())
        .layer(RequestDecompressionLayer::new())
        .with_state(app)
}

async fn no_such_route(uri: Uri) -> Failure {
    unsupported_call(uri.path()).unwrap_or_else(|| {
        let reason = "no handler found for this path; docs/reference lists all routes";
        Failure::new(Kind::NoSuchRoute, reason)
    })
}

async fn no_such_method(uri: Uri) -> Failure {
    let other = || Failure::new(Kind::Method, "this path does not support the method");
    unsupported_call(uri.path()).unwrap_or_else(other)
}

/// Answers a request without a route. As in Elasticsearch, a trailing slash is ignored; native
/// routes are exact.
async fn without_route(slashed: TowerToHyperService<Router>, mut request: Request) -> Response {
    match without_slash(request.uri()) {
        Some(uri) => *request.uri_mut() = uri,
        None => return no_such_route(request.uri().clone()).await.into_response(),
    }
    slashed.call(request).await.into_response()
}

fn without_slash(uri: &Uri) -> Option<Uri> {
    let path =
        uri.path().strip_suffix('/').filter(|path| !path.is_empty() && !names::is_own(path))?;
    let path_and_query = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path_and_query.parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Lets browsers allow requests from pages of these origins. Preflight requests carry no key, so
/// this layer comes before the check of keys.
fn cors(origins: &[String]) -> CorsLayer {
    let allowed = match origins {
        [all] if all == "*" => AllowOrigin::any(),
        origins => AllowOrigin::list(origins.iter().filter_map(|origin| origin.parse().ok())),
    };
    if origins.is_empty() {
        return CorsLayer::new();
    }
    CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods(AllowMethods::mirror_request())
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([header::WARNING, HeaderName::from_static("x-request-id")])
        .max_age(Duration::from_secs(600))
}

async fn health(State(app): State<Arc<App>>) -> Reply {
    let ready = app.is_ready();
    let mut answer =
        json!({"status": if ready { "available" } else { "unavailable" }, "ok": ready});
    let damaged = app.catalogue_if_open().map_or(Vec::new(), Catalogue::damaged);
    if !damaged.is_empty() {
        // Other indexes still work, so the server must not be restarted for this.
        let names = damaged.into_iter().map(|(name, _)| name);
        answer["damaged_indexes"] = names.collect();
    }
    Ok(Answer::json(answer).status(if ready { 200 } else { 503 }))
}

async fn ready(State(app): State<Arc<App>>) -> Reply {
    match app.is_ready() {
        true => Ok(Answer::text("ready")),
        false => Err(Failure::new(Kind::NotReady, "the server is starting or shutting down")),
    }
}

async fn metrics(State(app): State<Arc<App>>) -> Reply {
    let text = tokio::task::spawn_blocking(move || exposition::render(&app)).await;
    text.map(Answer::text).map_err(|error| Failure::broken(error.to_string()))
}
