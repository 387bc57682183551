//! The gRPC server of a node.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::error::ClusterError;
use crate::guard::Guard;
use crate::node::{ClusterNode, NodeService};
use crate::protocol::ShardsServer;
use crate::security::{Security, TokenCheck};

/// Time that a node waits for requests in progress when it ends.
const DRAIN: Duration = Duration::from_secs(10);

/// A node that listens for aggregators.
pub struct NodeServer {
    node: Arc<ClusterNode>,
    security: Security,
    listener: TcpListener,
    address: SocketAddr,
    runtime: Runtime,
    status_file: Option<PathBuf>,
}

/// Starts the threads for connections.
pub(crate) fn runtime() -> Result<Runtime, ClusterError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("warpseek-net")
        .build();
    runtime.map_err(|source| ClusterError::Io { what: "threads".into(), source })
}

/// Listens on an address. Unless it is a loopback address, it is refused if `missing` names
/// protection that is missing.
fn listen(
    runtime: &Runtime,
    address: &str,
    missing: Option<&str>,
) -> Result<(TcpListener, SocketAddr), ClusterError> {
    let parsed: SocketAddr = address.parse().map_err(|_| {
        ClusterError::Setup(format!(
            "`{address}` is not an address and port such as 127.0.0.1:9300"
        ))
    })?;
    if let Some(missing) = missing.filter(|_| !parsed.ip().is_loopback()) {
        return Err(ClusterError::Setup(format!(
            "{address} can be reached by other machines; give {missing}, or declare the network trusted with --insecure"
        )));
    }
    let io = |source| ClusterError::Io { what: format!("cannot listen on {address}"), source };
    let listener = runtime.block_on(TcpListener::bind(parsed)).map_err(io)?;
    let at = listener.local_addr().map_err(io)?;
    Ok((listener, at))
}

impl NodeServer {
    /// Starts to listen. Requests are answered once the server runs. An address that other
    /// machines can reach requires a token or certificates, unless `insecure` is set.
    pub fn start(
        node: Arc<ClusterNode>,
        address: &str,
        security: Security,
        insecure: bool,
    ) -> Result<Self, ClusterError> {
        // Invalid files are reported before anything listens.
        security.server()?;
        let protected = insecure || security.token.is_some() || security.is_encrypted();
        let runtime = runtime()?;
        let missing = (!protected).then_some("a token or certificates");
        let (listener, address) = listen(&runtime, address, missing)?;
        Ok(NodeServer { node, security, listener, address, runtime, status_file: None })
    }

    /// Sets a file in which the node writes its shards, including damaged ones, while it runs,
    /// for a program on the same machine.
    pub fn status_file(self, file: Option<PathBuf>) -> Self {
        NodeServer { status_file: file, ..self }
    }

    /// Returns the address that the node listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process receives SIGTERM or Ctrl-C. Requests in progress have ten seconds
    /// to finish.
    pub fn run(self) -> Result<(), ClusterError> {
        self.run_until(signal())
    }

    /// Serves on a thread of its own, until the returned value is dropped.
    pub fn run_in_background(self) -> Result<BackgroundNode, ClusterError> {
        let (address, (end, ended)) = (self.address, oneshot::channel());
        let serve = move || {
            self.run_until(async {
                let _ = ended.await;
            })
        };
        let thread = std::thread::Builder::new().name("warpseek-node".into()).spawn(serve);
        let thread =
            thread.map_err(|source| ClusterError::Io { what: "threads".into(), source })?;
        Ok(BackgroundNode { address, end: Some(end), thread: Some(thread) })
    }

    /// Serves until a future completes. Requests in progress have ten seconds to finish.
    pub fn run_until(self, end: impl Future<Output = ()> + Send) -> Result<(), ClusterError> {
        let NodeServer { node, security, listener, runtime, status_file, .. } = self;
        let guard = Guard::start(&node, status_file)?;
        let served = runtime.block_on(async {
            let transport = |what: &str| {
                let what = what.to_owned();
                move |source| ClusterError::Transport { what, source }
            };
            let service = ShardsServer::new(NodeService(node.clone()));
            let service = InterceptedService::new(service, TokenCheck(security.token.clone()));
            let mut server = Server::builder();
            if let Some(tls) = security.server()? {
                server = server.tls_config(tls).map_err(transport("certificates"))?;
            }
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let (ended, ending) = oneshot::channel::<()>();
            let graceful = async {
                end.await;
                node.drain();
                let _ = ended.send(());
            };
            let serving =
                server.add_service(service).serve_with_incoming_shutdown(incoming, graceful);
            let too_long = async {
                match ending.await {
                    Ok(()) => tokio::time::sleep(DRAIN).await,
                    Err(_) => std::future::pending().await,
                }
            };
            tokio::select! {
                served = serving => served.map_err(transport("the node's connections")),
                () = too_long => Ok(()),
            }
        });
        drop(guard);
        runtime.shutdown_timeout(Duration::from_secs(1));
        served
    }
}

/// A node that serves on a thread of its own until it is dropped.
pub struct BackgroundNode {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ClusterError>>>,
}

impl BackgroundNode {
    /// Returns the address that the node listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for BackgroundNode {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // An error at its end changes no answer.
            let _ = thread.join();
        }
    }
}

/// Completes when the process receives SIGTERM or Ctrl-C.
async fn signal() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => {
                tokio::select! {
                    _ = interrupt => {}
                    _ = terminate.recv() => {}
                }
            }
            Err(_) => {
                let _ = interrupt.await;
            }
        }
    }
    #[cfg(not(unix))]
    {
        let _ = interrupt.await;
    }
}
