//! A searcher that takes requests one by one, from many threads and at their own times.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::task::Poll;
use std::time::{Duration, Instant};

use warpseek_exec::{ExecError, Plan};
use warpseek_sched::calibrate::Calibration;
use warpseek_sched::service::{Limits, Served, Service as Requests, ServiceStatus, Ticket};

use crate::calibration;
use crate::error::{Error, Result};
use crate::opened::Opened;
use crate::request::Request;
use crate::response::Response;
use crate::searcher::Searcher;
use crate::stations::Stations;

pub use warpseek_sched::service::{Cohorts, ServiceError};

/// How a service works.
///
/// ```
/// use warpseek::ServiceOptions;
///
/// let options = ServiceOptions::new().cache(64 << 20).threads(4);
/// assert_eq!(options.cache, Some(64 << 20));
/// ```
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Threads of the CPU that each answer a request; none leaves all to the GPU. Default: those of the searcher, less four if there is a GPU.
    pub threads: Option<usize>,
    /// How large the batches of a GPU are. Default: what waits when it is free.
    pub cohorts: Cohorts,
    /// Bytes for answers that may be asked for again. Default: none, and no cache.
    pub cache: Option<u64>,
    /// How long it is measured at the start what queries cost, if that is not known yet. Default: 1.5 seconds; zero takes what engines say of themselves.
    pub calibration: Duration,
    /// Whether what was measured earlier is used, and what is measured is kept, in the user's cache. Default: yes.
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
    /// The defaults.
    pub fn new() -> Self {
        ServiceOptions::default()
    }

    /// With this many threads of the CPU.
    pub fn threads(self, threads: usize) -> Self {
        ServiceOptions { threads: Some(threads), ..self }
    }

    /// With batches of another size.
    pub fn cohorts(self, cohorts: Cohorts) -> Self {
        ServiceOptions { cohorts, ..self }
    }

    /// With this many bytes for answers.
    pub fn cache(self, bytes: u64) -> Self {
        ServiceOptions { cache: Some(bytes), ..self }
    }

    /// With another time for measurements at the start.
    pub fn calibration(self, time: Duration) -> Self {
        ServiceOptions { calibration: time, ..self }
    }

    /// Whether measurements are kept for later services, and those of earlier ones are used.
    pub fn keep_calibration(self, keep: bool) -> Self {
        ServiceOptions { keep_calibration: keep, ..self }
    }
}

/// An answer of a service, and how it came about. Station 0 is the CPU, and the next a GPU; if the CPU takes no part, 0 is the GPU.
pub type ServiceResponse = Served<Response>;

/// Answers requests that come one by one, from any number of threads, with the CPU and the GPU at the same time.
///
/// The deadline of a request counts from its arrival. If its time is up the response is partial, says what it covers, and is exact over that. A request
/// that could not be begun in time is refused at once. Dropping the ticket gives the request up.
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
/// let tickets: Vec<_> = ["ant", "bee"].iter().map(|text| service.submit(&Request::new(*text))).collect();
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
    /// What is known about its stations from measurements, each with the name of its device.
    pub calibrations: Vec<(String, Calibration)>,
}

/// A request that was admitted. It can be waited for, by a thread or, as it is a future, by a task.
pub struct ServiceTicket {
    ticket: Ticket,
    request: Planned,
}

/// What a request becomes when it is handed in, and what makes an answer a response.
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
    /// Waits for the answer.
    pub fn wait(self) -> ServiceResponse {
        self.request.respond(self.ticket.wait())
    }

    /// The answer, if it is there. Afterwards there is none.
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

impl Service {
    pub(crate) fn start(
        searcher: Searcher,
        opened: Arc<Opened>,
        threads: usize,
        options: &ServiceOptions,
    ) -> Result<Self> {
        let stations = Stations::of(&opened, threads, options.threads)?;
        let calibrations = match options.calibration {
            Duration::ZERO => Vec::new(),
            time => searcher.calibrations(&opened, stations, time, options.keep_calibration)?,
        };
        let mut places = stations.places(&opened);
        for (place, (_, found)) in places.iter_mut().zip(&calibrations) {
            if calibration::is_enough(found) {
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

    /// Hands a request in. It is refused at once if it cannot be answered in time, or not even planned. Dropping the ticket gives it up, as
    /// [`Request::cancelled_by`] does.
    pub fn submit(&self, request: &Request) -> std::result::Result<ServiceTicket, ServiceError> {
        let arrived = Instant::now();
        let (now, plan) = self.planned(request, arrived)?;
        let limits = limits(request, arrived);
        let ticket = self.service.submit(plan.clone(), limits)?;
        Ok(ServiceTicket { ticket, request: Planned { opened: now.clone(), plan } })
    }

    /// The same with a function that gets the answer, from a thread of the service: it must not take long. The request counts as having come at
    /// `arrived`, which may be earlier than now.
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

    /// The same with a plan that [`Searcher::plan`] made. One of an earlier snapshot gets an error for an answer.
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

    /// The plan of a request, and the snapshot that it belongs to, held so that the request gets to its engines.
    fn planned(
        &self,
        request: &Request,
        arrived: Instant,
    ) -> std::result::Result<(RwLockReadGuard<'_, Arc<Opened>>, Arc<Plan>), ServiceError> {
        // The searcher of an index that takes single writes moves on by itself, and the service follows.
        if self.searcher.is_live() && !Arc::ptr_eq(&self.searcher.opened(), &self.now()) {
            let _one = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
            self.follow();
        }
        // A filter may take long to evaluate, and a refresh that waited for it would make all requests wait.
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

    /// Gives a request up.
    pub fn cancel(&self, id: u64) {
        self.service.cancel(id);
    }

    /// Goes over to the newest commit; false if it has that already. Requests that were handed in before keep their snapshot. If the searcher is that of a [`LiveIndex`](crate::LiveIndex), requests do this themselves.
    pub fn refresh(&self) -> Result<bool> {
        let _one = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        self.searcher.refresh()?;
        Ok(self.follow())
    }

    /// Goes over to what the searcher has, for whoever holds `refreshing`; false if it has that already.
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

    /// What it did so far.
    pub fn status(&self) -> ServiceStatus {
        self.service.status()
    }
}

/// When a request came, and when it has to stop.
fn limits(request: &Request, arrived: Instant) -> Limits {
    let Request { deadline, cancel, .. } = request;
    Limits { arrived: Some(arrived), deadline: *deadline, cancel: cancel.clone() }
}
