//! State shared by all requests, and the functions that run their work on blocking threads.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use metrics_exporter_prometheus::PrometheusHandle;
use warpseek::cache::AnswerCache;
use warpseek::index::{Damage, ScrubStatus, Scrubber};
use warpseek_front::{Hosts, Remote};

use crate::elasticsearch::search::{PointInTime, Scroll};
use crate::error::{Failure, Kind};
use crate::http::admission::{AdmissionQueue, Wish};
use crate::http::caller::Caller;
use crate::http::costs::{Costs, RequestKind};
use crate::http::keys::Keys;
use crate::indexes::catalogue::Catalogue;
use crate::indexes::contexts::Contexts;
use crate::indexes::snapshots::Store;
use crate::indexes::tasks::Tasks;
use crate::operations::config::{Config, Device};
use crate::operations::load::Load;

/// Number of concurrent searches if a GPU may answer them.
const FOR_A_GPU: usize = 256;

/// Searches that take no longer than this may run on the threads that read and write requests. On
/// a busy machine, a search of a fraction of a millisecond may wait this long for a core.
const QUICK: Duration = Duration::from_millis(10);

/// Time after which a search on a connection thread moves to a blocking thread.
const HURRY: Duration = Duration::from_millis(20);

/// Number of concurrent searches of a cluster. No thread blocks on them.
const OF_A_CLUSTER: usize = 256;

/// Returns the number of threads that can run at the same time.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// State shared by all requests.
pub(crate) struct App {
    pub(crate) config: Config,
    /// Unset until all indexes are open.
    catalogue: OnceLock<Catalogue>,
    pub(crate) keys: Keys,
    /// Host names that the server answers to.
    pub(crate) hosts: Hosts,
    pub(crate) metrics: PrometheusHandle,
    /// The cache of answers that all indexes share, unless it is disabled.
    pub(crate) answers: Option<Arc<AnswerCache>>,
    pub(crate) scrolls: Contexts<Scroll>,
    pub(crate) points_in_time: Contexts<PointInTime>,
    pub(crate) tasks: Tasks,
    /// The store of snapshots, if one is configured.
    snapshots: Option<Store>,
    pub(crate) load: Load,
    /// The collection on other machines, if the server answers for one.
    pub(crate) remote: OnceLock<Arc<dyn Remote>>,
    /// True if the log has every request.
    pub(crate) logs_requests: bool,
    /// The background verification of the files of open indexes.
    pub(crate) scrubber: Mutex<Option<Scrubber>>,
    /// True if the server reports itself ready: after all indexes are open and until shutdown
    /// begins.
    ready: AtomicBool,
    /// True if requests are answered. After shutdown begins, this stays true for
    /// `drain_notice_s`.
    accepting: AtomicBool,
    /// Number of bytes of request bodies being read or processed.
    bodies: AtomicUsize,
    pub(crate) searches: AdmissionQueue,
    /// Reads of documents by id, which long searches must not hold up.
    pub(crate) reads: AdmissionQueue,
    pub(crate) writes: AdmissionQueue,
    pace: Pace,
    /// Expected times of searches and other reads.
    costs: Costs,
    pub(crate) remote_searches: AdmissionQueue,
    requests: AtomicU64,
}

impl App {
    pub(crate) fn new(
        config: Config,
        keys: Keys,
        hosts: Hosts,
        metrics: PrometheusHandle,
        snapshots: Option<Store>,
    ) -> Self {
        let cores = cores();
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
            hosts,
            metrics,
            answers: None,
            snapshots,
            load: Load::new(),
            remote: OnceLock::new(),
            logs_requests: true,
            scrubber: Mutex::default(),
            ready: AtomicBool::new(false),
            accepting: AtomicBool::new(false),
            bodies: AtomicUsize::new(0),
            // Searches that wait for a GPU are answered as one batch.
            searches: AdmissionQueue::new(
                if gpu { FOR_A_GPU.max(cores) } else { cores },
                queue,
                "searches",
            ),
            reads: AdmissionQueue::new(cores, queue, "reads"),
            // Writes wait for the disk. With more writes than cores in progress, several share
            // one sync.
            writes: AdmissionQueue::new(cores.max(4) * 4, queue, "writes"),
            pace: Pace::default(),
            costs: Costs::default(),
            remote_searches: AdmissionQueue::without_work(
                OF_A_CLUSTER,
                queue,
                "searches of the cluster",
            ),
            requests: AtomicU64::new(0),
            config,
        }
    }

    /// Publishes the catalogue once all indexes are open.
    pub(crate) fn open(&self, catalogue: Catalogue) {
        let _ = self.catalogue.set(catalogue);
    }

    /// Starts the background verification of open indexes, including those opened later.
    pub(crate) fn start_scrub(self: &Arc<Self>) -> Result<(), warpseek::Error> {
        let app = Arc::downgrade(self);
        let open = move || match app.upgrade() {
            Some(app) => app.catalogue_if_open().map_or(Vec::new(), Catalogue::snapshots),
            None => Vec::new(),
        };
        let found = |damage: &Damage| {
            let (file, what) = (damage.file.display(), &damage.what);
            tracing::error!(%file, what, "an index is damaged: searches of it fail until it is replaced");
        };
        let scrubber = Scrubber::start(self.config.scrub.options(), open, found)?;
        *self.scrubber.lock().unwrap_or_else(PoisonError::into_inner) = Some(scrubber);
        Ok(())
    }

    /// Stops the background verification and waits for its end.
    pub(crate) fn stop_scrub(&self) {
        let scrubber = self.scrubber.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(scrubber);
    }

    /// Returns the progress of the background verification.
    pub(crate) fn scrub_status(&self) -> Option<ScrubStatus> {
        let scrubber = self.scrubber.lock().unwrap_or_else(PoisonError::into_inner);
        scrubber.as_ref().map(Scrubber::status)
    }

    /// Starts to accept requests and to report readiness.
    pub(crate) fn welcome(&self) {
        self.accepting.store(true, Ordering::Release);
        self.ready.store(true, Ordering::Release);
    }

    /// Stops reporting readiness. Requests are still answered.
    pub(crate) fn unwelcome(&self) {
        self.ready.store(false, Ordering::Release);
    }

    /// Refuses new requests from now on.
    pub(crate) fn refuse(&self) {
        self.accepting.store(false, Ordering::Release);
    }

    /// Returns the catalogue of all indexes. Requests are refused until the indexes are open.
    ///
    /// # Panics
    /// Panics if the indexes are not open yet.
    pub(crate) fn catalogue(&self) -> &Catalogue {
        self.catalogue.get().expect("requests are refused until the catalogue is open")
    }

    /// Returns the catalogue, or `None` until the indexes are open.
    pub(crate) fn catalogue_if_open(&self) -> Option<&Catalogue> {
        self.catalogue.get()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    pub(crate) fn is_accepting(&self) -> bool {
        self.accepting.load(Ordering::Acquire)
    }

    /// Returns the store of snapshots; fails if none is configured.
    pub(crate) fn snapshot_store(&self) -> Result<&Store, Failure> {
        self.snapshots.as_ref().ok_or_else(|| {
            Failure::illegal(
                "this server has no snapshot store; set snapshots.url, for example to file:///folder",
            )
        })
    }

    /// Returns the wish of a request of this kind for its turn.
    fn wish(&self, arrived: Instant, kind: RequestKind) -> Wish {
        Wish { arrived, cost: self.costs.expected(kind), deadline: None }
    }

    /// Returns an id for a request that has none.
    pub(crate) fn request_id(&self) -> String {
        format!("ws-{:08x}", self.requests.fetch_add(1, Ordering::Relaxed))
    }
}

/// A request's share of the memory for bodies, released on drop.
#[derive(Default)]
pub(crate) struct Held {
    app: Option<Arc<App>>,
    bytes: usize,
}

impl Held {
    pub(crate) fn new(app: &Arc<App>) -> Self {
        Held { app: Some(app.clone()), bytes: 0 }
    }

    /// Reserves further bytes, or refuses the request if the bodies in memory exceed the limit.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        let Some(app) = &self.app else { return Ok(()) };
        self.bytes += bytes;
        let before = app.bodies.fetch_add(bytes, Ordering::Relaxed);
        let limit = app.config.limits.bodies;
        match before.saturating_add(bytes) > limit {
            true => Err(Failure::new(
                Kind::Overload,
                format!(
                    "the bodies of all current requests exceed {limit} bytes (limits.bodies); try again later"
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

/// Duration of the slowest of the last few hundred searches in nanoseconds. The value decays.
struct Pace(AtomicU64);

impl Default for Pace {
    /// Starts as slow, because the first searches read files that are not in memory yet.
    fn default() -> Self {
        Pace(AtomicU64::new(4 * QUICK.as_nanos() as u64))
    }
}

impl Pace {
    fn note(&self, took: Duration) {
        let before = self.0.load(Ordering::Relaxed);
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(took.max(before - before / 64), Ordering::Relaxed);
    }

    fn is_quick(&self) -> bool {
        self.0.load(Ordering::Relaxed) <= QUICK.as_nanos() as u64
    }
}

/// Runs one search, when its turn comes. `time` is its time limit; if it ends before that, the
/// search gets a late caller, and returns at once with what it has found, which is nothing.
///
/// While searches are quick, the search runs on the calling thread once the queue admits it:
/// passing it to another thread and back would take as long as the search. A search that may be
/// slow, or that waits for a GPU, goes to a blocking thread. A search that turns out to be slow
/// is restarted there, because the calling thread also serves connections, including that of the
/// caller.
pub(crate) async fn run_search<T: Send + 'static>(
    app: &Arc<App>,
    caller: &Caller,
    time: Option<Duration>,
    work: impl Fn(&App, &Caller) -> Result<T, Failure> + Send + Sync + 'static,
) -> Result<T, Failure> {
    let work = Arc::new(work);
    let timed = |hurry: Option<Duration>| {
        let (app, caller, work) = (app.clone(), caller.clone(), work.clone());
        move |is_late: bool| {
            if is_late {
                return work(&app, &caller.late());
            }
            let start = Instant::now();
            let attempt = hurry.map_or_else(|| caller.clone(), |time| caller.hurried(time));
            let done = work(&app, &attempt);
            app.pace.note(start.elapsed());
            app.costs.note(caller.kind, start.elapsed());
            done
        }
    };
    let deadline = time.and_then(|time| caller.arrived.checked_add(time));
    let wish = || Wish { deadline, ..app.wish(caller.arrived, caller.kind) };
    if app.config.device == Device::Cpu && app.pace.is_quick() {
        match app.searches.run_here_in_turn(wish(), timed(Some(HURRY))).await {
            Err(failure) if failure.kind == Kind::HandOver => {}
            done => return done,
        }
    }
    app.searches.run_in_turn(wish(), timed(None)).await
}

/// Runs several searches, or one whose answer cannot be partial, on a blocking thread when their
/// turn comes.
pub(crate) async fn run_searches<T: Send + 'static>(
    app: &Arc<App>,
    caller: &Caller,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    run_timed(app, app.wish(caller.arrived, caller.kind), caller.kind, work).await
}

async fn run_timed<T: Send + 'static>(
    app: &Arc<App>,
    wish: Wish,
    kind: RequestKind,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let shared = app.clone();
    let work = move |_| {
        let start = Instant::now();
        let done = work(&shared);
        shared.costs.note(kind, start.elapsed());
        done
    };
    app.searches.run_in_turn(wish, work).await
}

/// Runs reads other than searches on a blocking thread, with access to the shared state.
pub(crate) async fn run_read<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let kind = RequestKind::default();
    run_timed(app, app.wish(Instant::now(), kind), kind, work).await
}

/// Runs the read of documents by their ids on a blocking thread.
pub(crate) async fn run_lookup<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let shared = app.clone();
    app.reads.run(move || work(&shared)).await
}

/// Runs the next part of a write that has begun, however long it has to wait.
pub(crate) async fn run_next_write<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let shared = app.clone();
    app.writes.run_after(usize::MAX, move || work(&shared)).await
}

/// Runs a write on a blocking thread, with access to the shared state.
pub(crate) async fn run_write<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let shared = app.clone();
    app.writes.run(move || work(&shared)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_search_is_remembered_for_a_while() {
        let pace = Pace::default();
        assert!(!pace.is_quick());
        let after = |took| (1..).find(|_| (pace.note(took), pace.is_quick()).1).unwrap();
        assert!((50..200).contains(&after(QUICK / 10)));
        pace.note(QUICK + Duration::from_nanos(1));
        assert!(!pace.is_quick());
        pace.note(QUICK);
        assert!(pace.is_quick());
        pace.note(Duration::MAX);
        assert!((1000..10_000).contains(&after(Duration::ZERO)));
    }
}
