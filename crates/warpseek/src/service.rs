//! A searcher that takes requests one by one, from many threads and at their own times.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use warpseek_exec::{Answers, Candidate, Context, Engine, Fault, Formula, Plan, fail_all};
use warpseek_index::SnapshotId;
use warpseek_sched::calibrate::{Calibration, calibrate, own_queries};
use warpseek_sched::service::{Limits, Place, Service as Stations, ServiceStatus};

use crate::error::{Error, Result};
use crate::opened::Opened;
use crate::request::Request;
use crate::response::Response;
use crate::searcher::Searcher;

pub use warpseek_sched::service::{Cohorts, ServiceError};

/// Requests of a GPU's batch, at most.
const GPU_BATCH: usize = 1 << 13;

/// Batches of a GPU at the same time: one is prepared while another is answered.
const GPU_SERVERS: usize = 2;

/// With fewer queries timed, what engines say of themselves is closer.
const ENOUGH_QUERIES: usize = 64;

/// Hits for which queries are timed.
const CALIBRATED_K: usize = 10;

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
    /// Threads of the CPU that each answer a request; none leaves all to the GPU. Default: those of the searcher.
    pub threads: Option<usize>,
    /// How large the batches of a GPU are. Default: what waits when it is free.
    pub cohorts: Cohorts,
    /// Bytes for answers that may be asked for again. Default: none, and no cache.
    pub cache: Option<u64>,
    /// How long it is measured at the start what queries cost. Default: a second; zero takes what engines say of themselves.
    pub calibration: Duration,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        ServiceOptions {
            threads: None,
            cohorts: Cohorts::Adaptive,
            cache: None,
            calibration: Duration::from_secs(1),
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
}

/// An answer of a service.
#[derive(Clone)]
pub struct ServiceResponse {
    /// The response, or why there is none.
    pub response: std::result::Result<Response, ServiceError>,
    /// Time until an engine began with it.
    pub waited: Duration,
    /// Time from arrival to answer.
    pub took: Duration,
    /// Whether it came after the deadline.
    pub late: bool,
    /// The station that answered: 0 is the CPU, and the next a GPU; if the CPU takes no part, 0 is the GPU.
    pub station: Option<usize>,
    /// Requests that were answered in the same batch.
    pub batch: usize,
    /// Whether it is the answer to an equal request.
    pub shared: bool,
}

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
/// let service = index.searcher()?.service(ServiceOptions::new())?;
/// let tickets: Vec<_> = ["ant", "bee"].iter().map(|text| service.submit(&Request::new(*text))).collect();
/// for ticket in tickets {
///     let served = ticket?.wait();
///     assert!(served.response?.hits().len() <= 1);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Service {
    stations: Stations,
    searcher: Searcher,
    now: RwLock<Arc<Opened>>,
    refreshing: Mutex<()>,
    has_cpu: bool,
    has_gpu: bool,
    /// What was measured at the start, by station.
    pub calibrations: Vec<(String, Calibration)>,
}

/// A request that was admitted.
pub struct ServiceTicket {
    ticket: warpseek_sched::service::Ticket,
    opened: Arc<Opened>,
    plan: Plan,
}

impl ServiceTicket {
    /// Waits for the answer.
    pub fn wait(self) -> ServiceResponse {
        let served = self.ticket.wait();
        to_response(served, &self.opened, self.plan)
    }
}

fn to_response(
    served: warpseek_sched::service::Served,
    opened: &Opened,
    plan: Plan,
) -> ServiceResponse {
    let took = served.took;
    let response = |answer| Response { snapshot: opened.snapshot.clone(), plan, answer, took };
    ServiceResponse {
        response: served.answer.map(response),
        waited: served.waited,
        took,
        late: served.late,
        station: served.station,
        batch: served.batch,
        shared: served.shared,
    }
}

/// The CPU of a snapshot.
struct OnCpu(Arc<Opened>);

/// The GPU of a snapshot, which may fail and come back.
struct OnGpu(Arc<Opened>);

impl Engine for OnCpu {
    fn name(&self) -> &'static str {
        self.0.cpu.name()
    }

    fn snapshot(&self) -> SnapshotId {
        self.0.cpu.snapshot()
    }

    fn candidates(&self, plan: &Plan, alone: bool, context: &Context) -> Vec<Candidate> {
        self.0.cpu.candidates(plan, alone, context)
    }

    fn supports(&self, plan: &Plan) -> std::result::Result<(), &'static str> {
        self.0.cpu.supports(plan)
    }

    fn cost(&self, plans: &[&Plan], context: &Context) -> Duration {
        self.0.cpu.cost(plans, context)
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        self.0.cpu.search(plans, context)
    }
}

impl Engine for OnGpu {
    fn name(&self) -> &'static str {
        "gpu"
    }

    fn device(&self) -> String {
        self.0.gpu.engine().map_or_else(|| "GPU".to_owned(), |engine| engine.device())
    }

    fn snapshot(&self) -> SnapshotId {
        self.0.snapshot.id()
    }

    fn candidates(&self, plan: &Plan, alone: bool, context: &Context) -> Vec<Candidate> {
        self.0.gpu.engine().map_or(Vec::new(), |engine| engine.candidates(plan, alone, context))
    }

    fn supports(&self, plan: &Plan) -> std::result::Result<(), &'static str> {
        self.0.gpu.engine().map_or(Ok(()), |engine| engine.supports(plan))
    }

    fn cost(&self, plans: &[&Plan], context: &Context) -> Duration {
        self.0.gpu.engine().map_or(Duration::ZERO, |engine| engine.cost(plans, context))
    }

    fn prepare(
        &self,
        _: Formula,
        _: &Context,
    ) -> std::result::Result<(), warpseek_exec::ExecError> {
        self.0.prepare()
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        self.0.answer_on_gpu(plans, context).unwrap_or_else(|| {
            let source = Arc::new(std::io::Error::other("no GPU answers"));
            fail_all(plans, &warpseek_exec::ExecError::Device { fault: Fault::Device, source })
        })
    }
}

impl Service {
    pub(crate) fn start(
        searcher: Searcher,
        opened: Arc<Opened>,
        threads: usize,
        options: &ServiceOptions,
    ) -> Result<Self> {
        let has_gpu = opened.gpu.engine().is_some();
        let threads = options.threads.unwrap_or(threads);
        let has_cpu = threads > 0 || !has_gpu;
        if has_gpu {
            opened.prepare()?;
        }
        let mut places = Vec::new();
        if has_cpu {
            places.push(Place::cpu(Arc::new(OnCpu(opened.clone())), threads.max(1)));
        }
        if has_gpu {
            let engine = Arc::new(OnGpu(opened.clone()));
            let gpu = Place::cpu(engine, GPU_SERVERS);
            places.push(Place { batch: GPU_BATCH, threads: opened.context.threads(), ..gpu });
        }
        let mut calibrations = Vec::new();
        if options.calibration > Duration::ZERO {
            let plans = own_queries(&opened.snapshot, &opened.planner, CALIBRATED_K)?;
            let time = options.calibration / places.len() as u32;
            for place in &mut places {
                let context = Context::new(place.threads);
                let found = calibrate(&*place.engine, &plans, place.batch > 1, &context, time)?;
                if found.queries >= ENOUGH_QUERIES {
                    place.model = Some(found.model.clone());
                    (place.fixed, place.share) = (found.fixed, found.share);
                }
                calibrations.push((place.engine.device(), found));
            }
        }
        let settings = warpseek_sched::service::ServiceOptions {
            cohorts: options.cohorts,
            cache: options.cache,
        };
        let stations = Stations::new(places, settings).map_err(Error::Threads)?;
        let (now, refreshing) = (RwLock::new(opened), Mutex::default());
        Ok(Service { stations, searcher, now, refreshing, has_cpu, has_gpu, calibrations })
    }

    /// Hands a request in. It is refused at once if it cannot be answered in time.
    pub fn submit(&self, request: &Request) -> std::result::Result<ServiceTicket, ServiceError> {
        let arrived = Instant::now();
        // Held, so that the request gets to the engines of its snapshot.
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        let opened = now.clone();
        let plan = opened.plan(request)?;
        let limits = Limits { arrived: Some(arrived), deadline: request.deadline };
        let ticket = self.stations.submit(plan.clone(), limits)?;
        Ok(ServiceTicket { ticket, opened, plan })
    }

    /// The same with a function that gets the answer, from a thread of the service: it must not take long. The request counts as having come at
    /// `arrived`, which may be earlier than now.
    pub fn submit_with(
        &self,
        request: &Request,
        arrived: Instant,
        done: impl FnOnce(ServiceResponse) + Send + 'static,
    ) -> std::result::Result<u64, ServiceError> {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        let opened = now.clone();
        let plan = opened.plan(request)?;
        let limits = Limits { arrived: Some(arrived), deadline: request.deadline };
        let kept = plan.clone();
        self.stations
            .submit_with(plan, limits, move |served| done(to_response(served, &opened, kept)))
    }

    /// Gives a request up.
    pub fn cancel(&self, id: u64) {
        self.stations.cancel(id);
    }

    /// Goes over to the newest commit; false if it has that already. Requests that were handed in before keep their snapshot.
    pub fn refresh(&self) -> Result<bool> {
        let _one = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.searcher.refresh()? {
            return Ok(false);
        }
        let opened = self.searcher.opened();
        let mut engines: Vec<Arc<dyn Engine>> = Vec::new();
        if self.has_cpu {
            engines.push(Arc::new(OnCpu(opened.clone())));
        }
        if self.has_gpu {
            engines.push(Arc::new(OnGpu(opened.clone())));
        }
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        self.stations.replace(engines);
        *now = opened;
        Ok(true)
    }

    /// What it did so far.
    pub fn status(&self) -> ServiceStatus {
        self.stations.status()
    }
}
