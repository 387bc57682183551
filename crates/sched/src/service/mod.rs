//! A warm service: requests come from any thread, one by one, each with its own deadline; engines answer them in an order and at a place that
//! [`Scheduler`] finds.
//!
//! Who hands a request in puts it into an inbox and goes on (`inbox.rs`). Each server of a station is a thread (`servers.rs`): it sorts in what has come,
//! asks the scheduler for its next batch, answers it, and asks again; without work it sleeps. One more thread watches deadlines, so that a request is
//! answered in time even if all servers are busy, or hang.

mod inbox;
mod outlook;
mod scheduler;
mod servers;
mod simulator;
mod station;
mod ticket;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warpseek_exec::{Cancel, Engine, Plan};

pub use outlook::{Outlook, Refused};
pub use scheduler::{Batch, Cohorts, Counts, Job, Nanos, PATIENCE, Scheduler, largest_cohort};
use servers::{Engines, How, Shared, State};
pub use simulator::{Record, Simulator, Trouble};
pub use station::Station;
use ticket::Slot;
pub use ticket::{Served, ServiceError, Ticket};

use crate::cache::{CacheCounts, ResultCache};
use crate::model::CostModel;

/// How long the end of a service waits for engines that work.
const FAREWELL: Duration = Duration::from_secs(5);

/// An engine of a service.
pub struct Place {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// Requests, or batches, that it answers at the same time.
    pub servers: usize,
    /// Threads of the CPU that each server may use.
    pub threads: usize,
    /// Requests of a batch, at most.
    pub batch: usize,
    /// What a batch costs, however many requests it has.
    pub fixed: Duration,
    /// What a request adds to a large batch, of what it costs alone.
    pub share: f64,
    /// What requests cost alone; without it, what the engine says.
    pub model: Option<CostModel>,
    /// How long one of its servers without work looks out for some before it sleeps: waking a thread takes as long as many a request.
    pub lookout: Duration,
}

impl Place {
    /// An engine on the CPU with so many threads, each of which answers a request.
    pub fn cpu(engine: Arc<dyn Engine>, threads: usize) -> Self {
        Place {
            engine,
            servers: threads.max(1),
            threads: 1,
            batch: 1,
            fixed: Duration::ZERO,
            share: 1.0,
            model: None,
            lookout: Duration::ZERO,
        }
    }

    fn station(&self) -> Station {
        Station {
            servers: self.servers.max(1),
            batch: self.batch.max(1),
            fixed: nanos(self.fixed),
            alone: 1.0 / self.share.max(1e-6),
        }
    }
}

/// When a request came, and when it must be answered.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// When it came; now if nothing is said. The deadline counts from here.
    pub arrived: Option<Instant>,
    /// Time from arrival to answer.
    pub deadline: Option<Duration>,
    /// The flag that cancels it, if somebody has one: a request that is being answered alone stops, and others get no answer.
    pub cancel: Option<Cancel>,
}

/// What a service did so far.
#[derive(Clone, Debug, Default)]
pub struct ServiceStatus {
    /// Requests that wait.
    pub waiting: usize,
    /// Requests, by what became of them.
    pub counts: Counts,
    /// How many times as fast a station must be for a request to be its own.
    pub suited: f64,
    /// By station: what a batch costs without any request, and what each request adds on average, in nanoseconds.
    pub batch_costs: Vec<(Nanos, f64)>,
    /// Requests that were answered after their deadline.
    pub late: u64,
    /// Requests that were answered in part.
    pub partial: u64,
    /// What the cache of answers did, if there is one.
    pub cache: Option<CacheCounts>,
}

/// How a service works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceOptions {
    /// How large batches are.
    pub cohorts: Cohorts,
    /// Bytes for answers that may be asked for again; none computes every answer, also for equal requests at the same time.
    pub cache: Option<u64>,
}

/// Answers requests with several engines. Clones of its handle are not needed: all methods take `&self`.
pub struct Service {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}

impl Service {
    /// Starts the threads of all engines.
    pub fn new(places: Vec<Place>, options: ServiceOptions) -> std::io::Result<Self> {
        let stations: Vec<Station> = places.iter().map(Place::station).collect();
        let scheduler = Scheduler::new(&stations, options.cohorts);
        let shared = Arc::new(Shared::new(places, scheduler, options.cache.map(ResultCache::new)));
        let mut service = Service { shared, threads: Vec::new() };
        for (number, station) in stations.iter().enumerate() {
            for server in 0..station.servers {
                service.spawn(format!("warpseek-{number}.{server}"), move |shared| {
                    shared.serve(number);
                })?;
            }
        }
        service.spawn("warpseek-clock".to_owned(), Shared::watch)?;
        Ok(service)
    }

    fn spawn(
        &mut self,
        name: String,
        run: impl FnOnce(&Shared) + Send + 'static,
    ) -> std::io::Result<()> {
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name(name).spawn(move || run(&shared))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Goes over to the engines of another snapshot, as many as before. Requests that were submitted before keep theirs.
    pub fn replace(&self, engines: Vec<Arc<dyn Engine>>) {
        let mut now = self.shared.engines.write().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(engines.len(), now.engines.len(), "an engine for each station");
        *now = Engines { engines: engines.into(), group: now.group + 1 };
    }

    /// Hands a request in, and returns the one who waits for its answer. A request that cannot be answered in time is refused at once.
    pub fn submit(&self, plan: Arc<Plan>, limits: Limits) -> Result<Ticket, ServiceError> {
        let slot = Arc::new(Slot::default());
        let filled = slot.clone();
        let id = self.submit_with(plan, limits, move |served| filled.fill(served))?;
        Ok(Ticket { slot, id, service: Arc::downgrade(&self.shared) })
    }

    /// The same, with a function that gets the answer. A thread of the service calls it, so it must not take long. Returns the number by which the
    /// request can be cancelled.
    pub fn submit_with(
        &self,
        plan: Arc<Plan>,
        limits: Limits,
        done: impl FnOnce(Served) + Send + 'static,
    ) -> Result<u64, ServiceError> {
        self.shared.submit(plan, limits, Box::new(done))
    }

    /// Gives a request up: it gets no answer but [`ServiceError::Cancelled`].
    pub fn cancel(&self, id: u64) {
        self.shared.cancel(id);
    }

    /// What it did so far.
    pub fn status(&self) -> ServiceStatus {
        let mut state = self.shared.state();
        self.shared.sort_in(&mut state);
        let mut counts = state.scheduler.counts().clone();
        counts.refused += self.shared.inbox().refused;
        ServiceStatus {
            waiting: state.scheduler.waiting(),
            suited: state.scheduler.suited(),
            batch_costs: (0..counts.stations.len())
                .map(|station| state.scheduler.batch_costs(station))
                .collect(),
            counts,
            late: self.shared.late.load(Ordering::Relaxed),
            partial: self.shared.partial.load(Ordering::Relaxed),
            cache: self.shared.cache.as_ref().map(ResultCache::counts),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        for pending in self.shared.close() {
            self.shared.finish(pending, Err(ServiceError::Closed), How::default());
        }
        let state = self.shared.state();
        // An engine that hangs must not keep the program from ending.
        let working = |state: &mut State| state.working > 0;
        let ended = self.shared.ended.wait_timeout_while(state, FAREWELL, working);
        let hangs = ended.unwrap_or_else(PoisonError::into_inner).1.timed_out();
        for thread in self.threads.drain(..).filter(|_| !hangs) {
            let _ = thread.join();
        }
    }
}
