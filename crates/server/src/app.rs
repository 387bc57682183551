//! What all requests share, and the threads that work for them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::catalogue::Catalogue;
use crate::config::{Config, Device};
use crate::contexts::{Contexts, PointInTime, Scroll};
use crate::error::{Failure, Kind};
use crate::keys::Keys;
use crate::load::Load;
use crate::remote::Remote;
use crate::snapshots::Store;
use crate::tasks::Tasks;

/// Searches under way at a time if there may be a GPU.
const FOR_A_GPU: usize = 256;

/// Searches of a cluster under way at a time. No thread waits for them.
const OF_A_CLUSTER: usize = 256;

/// What is said of a panic, which the log describes.
pub(crate) const PANICKED: &str =
    "the request failed for a reason that is in the log of the server";

/// What all requests share.
pub(crate) struct App {
    pub(crate) config: Config,
    /// Not there before all indexes are open.
    catalogue: OnceLock<Catalogue>,
    pub(crate) keys: Keys,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) scrolls: Contexts<Scroll>,
    pub(crate) points_in_time: Contexts<PointInTime>,
    pub(crate) tasks: Tasks,
    /// Where snapshots are kept, if there is such a place.
    pub(crate) snapshots: Option<Store>,
    pub(crate) load: Load,
    /// The collection on other machines, if it answers for one.
    pub(crate) remote: OnceLock<Arc<dyn Remote>>,
    /// Whether it says that requests are welcome: not before all indexes are open, and not once the server was asked to end.
    ready: AtomicBool,
    /// Whether requests are answered. When the server was asked to end, that is so until `drain_notice_s` is over.
    accepting: AtomicBool,
    /// Bytes of bodies that are being read or worked on.
    bodies: AtomicUsize,
    pub(crate) searches: Gate,
    pub(crate) writes: Gate,
    pub(crate) remote_searches: Gate,
    requests: AtomicU64,
}

impl App {
    pub(crate) fn new(
        config: Config,
        keys: Keys,
        metrics: PrometheusHandle,
        snapshots: Option<Store>,
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let (queue, gpu) = (config.limits.queue, config.device != Device::Cpu);
        App {
            scrolls: Contexts::new(config.limits.scrolls, "scrolls (limits.scrolls)"),
            points_in_time: Contexts::new(
                config.limits.points_in_time,
                "points in time (limits.points_in_time)",
            ),
            tasks: Tasks::default(),
            catalogue: OnceLock::new(),
            keys,
            metrics,
            snapshots,
            load: Load::new(),
            remote: OnceLock::new(),
            ready: AtomicBool::new(false),
            accepting: AtomicBool::new(false),
            bodies: AtomicUsize::new(0),
            // Searches that wait for a GPU are answered together.
            searches: Gate::new(if gpu { FOR_A_GPU.max(cores) } else { cores }, queue, "searches"),
            // Writes wait for the disk, so that more of them than cores share a sync.
            writes: Gate::new(cores.max(4) * 4, queue, "writes"),
            remote_searches: Gate::new(OF_A_CLUSTER, queue, "searches of the cluster"),
            requests: AtomicU64::new(0),
            config,
        }
    }

    /// All indexes are open.
    pub(crate) fn open(&self, catalogue: Catalogue) {
        let _ = self.catalogue.set(catalogue);
    }

    /// From now on requests are welcome.
    pub(crate) fn welcome(&self) {
        self.accepting.store(true, Ordering::Release);
        self.ready.store(true, Ordering::Release);
    }

    /// From now on it says that it is not ready; requests that come all the same are answered.
    pub(crate) fn unwelcome(&self) {
        self.ready.store(false, Ordering::Release);
    }

    /// From now on new requests are refused.
    pub(crate) fn refuse(&self) {
        self.accepting.store(false, Ordering::Release);
    }

    /// All indexes. Requests that would ask before they are open are refused.
    ///
    /// # Panics
    /// If they are not.
    pub(crate) fn catalogue(&self) -> &Catalogue {
        self.catalogue.get().expect("requests are refused until it is there")
    }

    /// The same, if they are open.
    pub(crate) fn catalogue_if_open(&self) -> Option<&Catalogue> {
        self.catalogue.get()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    pub(crate) fn is_accepting(&self) -> bool {
        self.accepting.load(Ordering::Acquire)
    }

    /// An id for a request that brought none.
    pub(crate) fn request_id(&self) -> String {
        format!("ws-{:08x}", self.requests.fetch_add(1, Ordering::Relaxed))
    }
}

/// What a request takes of the memory for bodies. It is given back with this.
#[derive(Default)]
pub(crate) struct Held {
    app: Option<Arc<App>>,
    bytes: usize,
}

impl Held {
    pub(crate) fn new(app: &Arc<App>) -> Self {
        Held { app: Some(app.clone()), bytes: 0 }
    }

    /// Takes further bytes, or refuses the request if bodies have too many already.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        let Some(app) = &self.app else { return Ok(()) };
        self.bytes += bytes;
        let before = app.bodies.fetch_add(bytes, Ordering::Relaxed);
        let limit = app.config.limits.bodies;
        match before.saturating_add(bytes) > limit {
            true => Err(Failure::new(
                Kind::Overload,
                format!(
                    "bodies of requests under way have more than {limit} bytes together (limits.bodies); try again later"
                ),
            )),
            false => Ok(()),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(app) = &self.app {
            app.bodies.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// Admits so many at a time; others wait, and if too many do, further ones are refused.
pub(crate) struct Gate {
    permits: Arc<Semaphore>,
    most_running: usize,
    waiting: AtomicUsize,
    most_waiting: usize,
    what: &'static str,
}

impl Gate {
    fn new(permits: usize, most_waiting: usize, what: &'static str) -> Self {
        Gate {
            permits: Arc::new(Semaphore::new(permits)),
            most_running: permits,
            waiting: AtomicUsize::new(0),
            most_waiting,
            what,
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    pub(crate) fn running(&self) -> usize {
        self.most_running.saturating_sub(self.permits.available_permits())
    }

    /// How many may wait.
    pub(crate) fn limit(&self) -> usize {
        self.most_waiting
    }

    /// Refuses what would have to wait while as many do as may.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let is_full = self.permits.available_permits() == 0 && self.waiting() >= self.most_waiting;
        if is_full { Err(self.overload()) } else { Ok(()) }
    }

    fn overload(&self) -> Failure {
        let reason = format!(
            "{} {} wait already (limits.queue); try again later",
            self.most_waiting, self.what
        );
        Failure::new(Kind::Overload, reason)
    }

    /// Does work on a thread that may block.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.run_after(self.most_waiting, work).await
    }

    /// Waits for the permission to do work that needs no thread of its own. The work is over when it is dropped.
    pub(crate) async fn admit(&self) -> Result<OwnedSemaphorePermit, Failure> {
        self.admit_after(self.most_waiting).await
    }

    async fn admit_after(&self, most_waiting: usize) -> Result<OwnedSemaphorePermit, Failure> {
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let waiting = Waiting::new(&self.waiting);
        if waiting.0.load(Ordering::Relaxed) > most_waiting {
            return Err(self.overload());
        }
        let permit = self.permits.clone().acquire_owned().await;
        permit.map_err(|_| Failure::broken("the server ends"))
    }

    /// The same for work that may wait behind this many.
    async fn run_after<T: Send + 'static>(
        &self,
        most_waiting: usize,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let permit = self.admit_after(most_waiting).await?;
        // The permit goes with the work, which goes on if whoever asked is gone.
        let work = move || {
            let _permit = permit;
            work()
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|error| {
            tracing::error!(%error, "a request has panicked");
            Err(Failure::broken(PANICKED))
        })
    }
}

/// One who waits, also if it gives up.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Does work of a request on a blocking thread, with everything that requests share.
pub(crate) async fn search<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let shared = app.clone();
    app.searches.run(move || work(&shared)).await
}

/// The next part of a write that has begun, which waits as long as it must.
pub(crate) async fn write_on<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let shared = app.clone();
    app.writes.run_after(usize::MAX, move || work(&shared)).await
}

/// The same for writes.
pub(crate) async fn write<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let shared = app.clone();
    app.writes.run(move || work(&shared)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn too_many_are_refused_and_others_wait() {
        let gate = Arc::new(Gate::new(1, 1, "searches"));
        let (release, held) = std::sync::mpsc::channel::<()>();
        let running = tokio::spawn({
            let gate = gate.clone();
            async move { gate.run(move || Ok(held.recv().is_ok())).await }
        });
        while gate.permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { gate.run(|| Ok(2)).await }
        });
        while gate.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(gate.check().unwrap_err().status(), 429);
        let refused = gate.run(|| Ok(3)).await.unwrap_err();
        assert_eq!((refused.kind, refused.status()), (Kind::Overload, 429));
        release.send(()).unwrap();
        assert!(running.await.unwrap().unwrap());
        assert_eq!(waiting.await.unwrap().unwrap(), 2);
        assert!(gate.waiting() == 0 && gate.check().is_ok());
        let panicked =
            gate.run(|| -> Result<(), Failure> { panic!("on purpose") }).await.unwrap_err();
        assert_eq!(panicked.status(), 500);
        assert!(gate.run(|| Ok(())).await.is_ok());
    }
}
