//! A running service: any thread submits requests one at a time, each with a deadline. A
//! [`Scheduler`] decides in which order and on which engine they are answered.
//!
//! The submitting thread puts its request into an inbox and continues (`submission.rs`). Each
//! server of a station is a thread (`servers.rs`): it moves requests from the inbox to the
//! scheduler, gets its next batch from there, answers it, and repeats; without work it sleeps.
//! One more thread watches deadlines (`clock.rs`), so that every request is answered in time even
//! if all servers are busy or hang.

mod arrival_rate;
mod clock;
mod inbox;
mod job;
mod outlook;
mod pending;
mod scheduler;
mod served;
mod servers;
mod shared;
mod simulator;
mod station;
mod submission;
mod ticket;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warpseek_exec::{Cancel, Engine, Plan};

use job::nanos;
pub use job::{Job, Nanos};
pub use outlook::{Outlook, Refused};
pub use scheduler::{Batch, Cohorts, Counts, PATIENCE, Scheduler, due, largest_cohort};
use served::How;
pub use served::{Served, ServiceError};
use shared::{Engines, Shared, State};
pub use simulator::{Record, Simulator, Trouble};
pub use station::Station;
use ticket::Slot;
pub use ticket::Ticket;

use crate::cache::{CacheCounts, ResultCache};
use crate::model::CostModel;

/// Time that dropping a service waits for engines that are still working.
const FAREWELL: Duration = Duration::from_secs(5);

/// An engine of a service.
pub struct Place {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// Number of requests, or batches, that the engine answers at the same time.
    pub servers: usize,
    /// Number of CPU threads that each server may use.
    pub threads: usize,
    /// Maximum number of requests in a batch.
    pub batch: usize,
    /// Cost of a batch, however many requests it has.
    pub fixed: Duration,
    /// Share of its single cost that a request adds to a large batch.
    pub share: f64,
    /// Model of the cost of a single request. Without it, the engine's estimate counts.
    pub model: Option<CostModel>,
    /// Time that an idle server spins for work before it sleeps: waking a thread takes as long as
    /// many a request.
    pub lookout: Duration,
}

impl Place {
    /// Creates a place for an engine on the CPU with this many threads, each of which answers one
    /// request at a time.
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

/// The arrival, deadline and cancellation flag of a request.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Time of arrival, from which the deadline counts; the time of submission by default.
    pub arrived: Option<Instant>,
    /// Time from arrival to answer.
    pub deadline: Option<Duration>,
    /// A cancellation flag of the caller, if there is one. A request that is cancelled while it
    /// waits is dropped when its turn comes. If an engine answers the request alone, the engine
    /// stops. In any case the answer is [`ServiceError::Cancelled`].
    pub cancel: Option<Cancel>,
}

/// The current state of a service and its counts so far.
#[derive(Clone, Debug, Default)]
pub struct ServiceStatus {
    /// Number of requests that wait.
    pub waiting: usize,
    /// Counts of requests by outcome, and of batches.
    pub counts: Counts,
    /// Minimum factor by which a station must be faster than all others for a request to go into
    /// its queue.
    pub suited: f64,
    /// Nanoseconds that a batch costs without any request, and that each request adds on average,
    /// by station.
    pub batch_costs: Vec<(Nanos, f64)>,
    /// Number of requests that were answered after their deadline.
    pub late: u64,
    /// Number of requests that were answered in part.
    pub partial: u64,
    /// Counts of the result cache, if there is one.
    pub cache: Option<CacheCounts>,
}

/// Options of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceOptions {
    /// Size of batches.
    pub cohorts: Cohorts,
    /// Size of the result cache in bytes. Without a cache, the service computes every answer,
    /// even those of equal requests at the same time.
    pub cache: Option<u64>,
}

/// A service that answers requests with several engines. All methods take `&self`, so threads can
/// share it by reference.
pub struct Service {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
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

    /// Switches to the engines of another snapshot, one per station. Requests submitted before
    /// keep their engines.
    pub fn replace(&self, engines: Vec<Arc<dyn Engine>>) {
        let mut now = self.shared.engines.write().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(engines.len(), now.engines.len(), "expected one engine per station");
        *now = Engines { engines: engines.into(), group: now.group + 1 };
    }

    /// Submits a request, and returns a ticket that waits for its answer. Returns
    /// [`ServiceError::Refused`] at once if the request cannot be answered in time.
    pub fn submit(&self, plan: Arc<Plan>, limits: Limits) -> Result<Ticket, ServiceError> {
        let slot = Arc::new(Slot::default());
        let filled = slot.clone();
        let id = self.submit_with(plan, limits, move |served| filled.fill(served))?;
        Ok(Ticket { slot, id, service: Arc::downgrade(&self.shared) })
    }

    /// Submits a request like [`submit`](Self::submit), and passes the answer to a function. A
    /// thread of the service calls the function, so it must return quickly. Returns the number
    /// with which the request can be [cancelled](Self::cancel).
    pub fn submit_with(
        &self,
        plan: Arc<Plan>,
        limits: Limits,
        done: impl FnOnce(Served) + Send + 'static,
    ) -> Result<u64, ServiceError> {
        self.shared.submit(plan, limits, Box::new(done))
    }

    /// Cancels a request: its answer is [`ServiceError::Cancelled`] unless it has been answered
    /// already.
    pub fn cancel(&self, id: u64) {
        self.shared.cancel(id);
    }

    /// Returns the current state and the counts so far.
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
