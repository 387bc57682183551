//! A searcher as a service: requests arrive one at a time, from many threads, and the CPU and a
//! GPU answer them together.

mod calibration;
mod stations;

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::task::Poll;
use std::time::{Duration, Instant};

use warpseek_exec::{ExecError, Plan};
use warpseek_sched::service::{Limits, Served, Service as Requests, Ticket};

use crate::error::{Error, Result};
use crate::opened::Opened;
use crate::query::Request;
use crate::response::Response;
use crate::searcher::Searcher;
use stations::Stations;

pub use calibration::CalibrationReport;
pub use warpseek_sched::calibrate::Calibration;
pub use warpseek_sched::service::{Cohorts, Counts as ServiceCounts, ServiceError, ServiceStatus};
pub use warpseek_sched::{
    CacheCounts as ResultCacheCounts, HeapBytes, Key as ResultKey, Lookup, ResultCache,
};

/// Options of a service.
///
/// ```
/// use warpseek::ServiceOptions;
///
/// let options = ServiceOptions::new().cache(64 << 20).threads(4);
/// assert_eq!(options.cache, Some(64 << 20));
/// ```
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Number of CPU threads that each answer a request. With 0, the GPU answers all requests.
    /// Default: the threads of the searcher, minus four if there is a GPU.
    pub threads: Option<usize>,
    /// The size of batches for a GPU. Default: all requests that are waiting when it becomes
    /// free.
    pub cohorts: Cohorts,
    /// Size of the cache for answers to repeated requests, in bytes. Default: no cache.
    pub cache: Option<u64>,
    /// Time to spend at the start on measuring the cost of queries, unless it is known already.
    /// Default: 1.5 seconds. With zero, the service uses saved measurements if there are any, and
    /// otherwise times a few queries for some milliseconds.
    pub calibration: Duration,
    /// True if the service uses measurements saved earlier and saves new ones, in the user's
    /// cache. Default: true.
    pub keep_calibration: bool,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        ServiceOptions {
            threads: None,
            cohorts: Cohorts::Adaptive,
            cache: None,
            calibration: Duration::from_millis(1500),
            keep_calibration: true,
        }
    }
}

impl ServiceOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        ServiceOptions::default()
    }

    /// Sets the number of CPU threads.
    pub fn threads(self, threads: usize) -> Self {
        ServiceOptions { threads: Some(threads), ..self }
    }

    /// Sets the size of batches for a GPU.
    pub fn cohorts(self, cohorts: Cohorts) -> Self {
        ServiceOptions { cohorts, ..self }
    }

    /// Sets the size of the cache for answers, in bytes.
    pub fn cache(self, bytes: u64) -> Self {
        ServiceOptions { cache: Some(bytes), ..self }
    }

    /// Sets the time for measurements at the start.
    pub fn calibration(self, time: Duration) -> Self {
        ServiceOptions { calibration: time, ..self }
    }

    /// Sets whether measurements are saved for later services, and those of earlier ones are
    /// used.
    pub fn keep_calibration(self, keep: bool) -> Self {
        ServiceOptions { keep_calibration: keep, ..self }
    }
}

/// An answer of a service, with its waiting time, station and batch. Station 0 is the CPU and
/// station 1 the GPU; if the CPU takes no part, station 0 is the GPU.
pub type ServiceResponse = Served<Response>;

/// A service that answers individual requests from any number of threads, using the CPU and a GPU
/// at the same time.
///
/// The deadline of a request counts from its arrival. If time is up, the response is partial: it
/// tells what it covers, and it is exact for that. A request that cannot be started in time is
/// refused immediately. Dropping its ticket cancels a request.
///
/// ```
/// use warpseek::{Document, Index, Request, ServiceOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let index = Index::create(folder.path().join("index"))?;
/// # let mut writer = index.writer()?;
/// # writer.add(Document::new("a", "", "ant"))?;
/// # writer.commit()?;
/// let options = ServiceOptions::new().cache(64 << 20).keep_calibration(false);
/// let service = index.searcher()?.service(options)?;
/// let submit = |text: &&str| service.submit(&Request::new(*text));
/// let tickets: Vec<_> = ["ant", "bee"].iter().map(submit).collect();
/// for ticket in tickets {
///     let served = ticket?.wait();
///     assert!(served.answer?.hits().len() <= 1);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Service {
    service: Requests,
    searcher: Searcher,
    now: RwLock<Arc<Opened>>,
    refreshing: Mutex<()>,
    stations: Stations,
    /// The measurements of each station, with the name of its device.
    pub calibrations: Vec<(String, Calibration)>,
}

/// An admitted request. A thread can wait for it; it is also a future that a task can await.
pub struct ServiceTicket {
    ticket: Ticket,
    request: Planned,
}

/// The plan of a submitted request, used to turn its answer into a response.
struct Planned {
    opened: Arc<Opened>,
    plan: Arc<Plan>,
}

impl Planned {
    fn respond(&self, served: Served) -> ServiceResponse {
        let took = served.took;
        let (snapshot, plan) = (self.opened.snapshot.clone(), self.plan.clone());
        served.map(|answer| Response { snapshot, plan, answer, took })
    }
}

impl ServiceTicket {
    /// Waits for the response.
    pub fn wait(self) -> ServiceResponse {
        self.request.respond(self.ticket.wait())
    }

    /// Returns the response if it is available. Later calls return `None`.
    pub fn try_wait(&self) -> Option<ServiceResponse> {
        Some(self.request.respond(self.ticket.try_wait()?))
    }
}

impl Future for ServiceTicket {
    type Output = ServiceResponse;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        let served = Pin::new(&mut self.ticket).poll(context);
        served.map(|served| self.request.respond(served))
    }
}

impl Searcher {
    /// Starts a service that answers individual requests with the engines of this searcher: the
    /// CPU, and a GPU if it has one.
    pub fn service(&self, options: ServiceOptions) -> Result<Service> {
        Service::start(self.clone(), self.opened(), self.threads(), &options)
    }
}

impl Service {
    fn start(
        searcher: Searcher,
        opened: Arc<Opened>,
        threads: usize,
        options: &ServiceOptions,
    ) -> Result<Self> {
        let stations = Stations::of(&opened, threads, options.threads)?;
        let (time, keeps) = (options.calibration, options.keep_calibration);
        let calibrations =
            searcher.calibrations(&opened, stations, options.threads, time, keeps)?;
        if calibrations.is_empty() {
            opened.measure();
        }
        let mut places = stations.places(&opened);
        for (place, (_, found)) in places.iter_mut().zip(&calibrations) {
            if crate::calibration::is_enough(found) {
                place.model = Some(found.model.clone());
                (place.fixed, place.share) = (found.fixed, found.share);
            }
        }
        let settings = warpseek_sched::service::ServiceOptions {
            cohorts: options.cohorts,
            cache: options.cache,
        };
        let service = Requests::new(places, settings).map_err(Error::Threads)?;
        let (now, refreshing) = (RwLock::new(opened), Mutex::default());
        Ok(Service { service, searcher, now, refreshing, stations, calibrations })
    }

    /// Submits a request. It is refused immediately if it cannot be answered in time or cannot be
    /// planned. Dropping the ticket cancels the request, like [`Request::cancelled_by`].
    pub fn submit(&self, request: &Request) -> std::result::Result<ServiceTicket, ServiceError> {
        let arrived = Instant::now();
        let (now, plan) = self.planned(request, arrived)?;
        let limits = limits(request, arrived);
        let ticket = self.service.submit(plan.clone(), limits)?;
        Ok(ServiceTicket { ticket, request: Planned { opened: now.clone(), plan } })
    }

    /// Submits a request whose response is passed to a function. A thread of the service calls
    /// the function, so it must return quickly. The request counts as having arrived at
    /// `arrived`, which may be in the past. Returns the number of the request for
    /// [`cancel`](Self::cancel).
    pub fn submit_with(
        &self,
        request: &Request,
        arrived: Instant,
        done: impl FnOnce(ServiceResponse) + Send + 'static,
    ) -> std::result::Result<u64, ServiceError> {
        let (now, plan) = self.planned(request, arrived)?;
        let limits = limits(request, arrived);
        self.hand_in(&now, plan, limits, done)
    }

    /// Submits a plan made by [`Searcher::plan`]; otherwise like
    /// [`submit_with`](Self::submit_with). The response to a plan of an earlier snapshot is an
    /// error.
    pub fn submit_plan(
        &self,
        plan: Arc<Plan>,
        arrived: Instant,
        deadline: Option<Duration>,
        done: impl FnOnce(ServiceResponse) + Send + 'static,
    ) -> std::result::Result<u64, ServiceError> {
        let limits = Limits { arrived: Some(arrived), deadline, ..Limits::default() };
        self.hand_in(&self.now(), plan, limits, done)
    }

    /// Plans a request. Also returns the snapshot of the plan, locked so that the request reaches
    /// its engines.
    fn planned(
        &self,
        request: &Request,
        arrived: Instant,
    ) -> std::result::Result<(RwLockReadGuard<'_, Arc<Opened>>, Arc<Plan>), ServiceError> {
        // The searcher of a live index refreshes by itself, and the service follows it.
        if self.searcher.is_live() && !Arc::ptr_eq(&self.searcher.opened(), &self.now()) {
            let _one = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
            self.follow();
        }
        // Planning may evaluate a slow filter. Holding the lock all that time would block a
        // refresh, and with it all other requests.
        let before = self.now().clone();
        let limit = request.limit(arrived);
        let stopped = |error| match error {
            ExecError::Stopped if limit.is_cancelled() => ServiceError::Cancelled,
            ExecError::Stopped => ServiceError::Refused { wait: arrived.elapsed() },
            error => ServiceError::Exec(error),
        };
        let plan = before.plan(request, &limit).map_err(stopped)?;
        let now = self.now();
        let plan = match Arc::ptr_eq(&before, &now) {
            true => plan,
            false => now.plan(request, &limit).map_err(stopped)?,
        };
        Ok((now, Arc::new(plan)))
    }

    fn now(&self) -> RwLockReadGuard<'_, Arc<Opened>> {
        self.now.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_in(
        &self,
        opened: &Arc<Opened>,
        plan: Arc<Plan>,
        limits: Limits,
        done: impl FnOnce(ServiceResponse) + Send + 'static,
    ) -> std::result::Result<u64, ServiceError> {
        let planned = Planned { opened: opened.clone(), plan: plan.clone() };
        self.service.submit_with(plan, limits, move |served| done(planned.respond(served)))
    }

    /// Cancels a request.
    pub fn cancel(&self, id: u64) {
        self.service.cancel(id);
    }

    /// Switches to the newest commit. Returns false if the service is up to date already.
    /// Requests submitted before keep their snapshot. With the searcher of a
    /// [`LiveIndex`](crate::LiveIndex), requests trigger this themselves.
    pub fn refresh(&self) -> Result<bool> {
        let _one = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        self.searcher.refresh()?;
        Ok(self.follow())
    }

    /// Switches to the snapshot of the searcher; the caller must hold `refreshing`. Returns false
    /// if the service has that snapshot already.
    fn follow(&self) -> bool {
        let opened = self.searcher.opened();
        if Arc::ptr_eq(&opened, &self.now()) {
            return false;
        }
        let engines = self.stations.engines(&opened);
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        self.service.replace(engines);
        *now = opened;
        true
    }

    /// Returns the state of the service and statistics of its requests so far.
    pub fn status(&self) -> ServiceStatus {
        self.service.status()
    }
}

/// Returns the limits of a request that arrived at `arrived`.
fn limits(request: &Request, arrived: Instant) -> Limits {
    let Request { deadline, cancel, .. } = request;
    Limits { arrived: Some(arrived), deadline: *deadline, cancel: cancel.clone() }
}
