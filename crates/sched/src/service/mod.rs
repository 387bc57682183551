//! A warm service: requests come from any thread, one by one, each with its own deadline; engines answer them in an order and at a place that
//! [`Scheduler`] finds.
//!
//! Each server of a station is a thread. It asks the scheduler for its next batch, answers it, and asks again; without work it sleeps. One more thread
//! watches deadlines, so that a request is answered in time even if all servers are busy, or hang.

mod scheduler;
mod simulator;
mod ticket;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warpseek_exec::{Answer, Cancel, Context, Engine, ExecError, Fault, Plan};

pub use scheduler::{Batch, Cohorts, Counts, Job, Nanos, PATIENCE, Refused, Scheduler, Station};
pub use simulator::{Record, Simulator, Trouble};
use ticket::Slot;
pub use ticket::{Served, ServiceError, Ticket};

use crate::cache::{CacheCounts, Key, Lookup, ResultCache};
use crate::model::{CostModel, Features};

/// A request that an engine works on is given up this long after its deadline: engines stop by themselves, but not at once.
const GRACE: Duration = Duration::from_millis(10);

/// Requests are told that their time is up this long before their deadline, so that the answer is there by then; with less time, a part of it.
const MARGIN: Duration = Duration::from_micros(100);
const MARGIN_PART: u32 = 20;

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
        }
    }

    fn station(&self) -> Station {
        Station { servers: self.servers.max(1), batch: self.batch.max(1), fixed: nanos(self.fixed) }
    }
}

/// When a request must be answered, and what ends it.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// When it came; now if nothing is said. The deadline counts from here.
    pub arrived: Option<Instant>,
    /// Time from arrival to answer.
    pub deadline: Option<Duration>,
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
    /// Requests that were answered after their deadline.
    pub late: u64,
    /// Requests that were answered in part.
    pub partial: u64,
    /// What the cache of answers did, if there is one.
    pub cache: Option<CacheCounts>,
}

type Done = Box<dyn FnOnce(Served) + Send>;

struct Pending {
    plan: Arc<Plan>,
    engines: Arc<[Arc<dyn Engine>]>,
    arrived: Instant,
    deadline: Option<Instant>,
    /// When engines stop, a little before the deadline.
    stops: Option<Instant>,
    done: Done,
    cancel: Cancel,
    /// When an engine began with it.
    began: Option<Instant>,
    job: Job,
    /// Its key in the cache, and whether it waits for the answer to an equal request or others may wait for its own.
    key: Option<Key>,
    follows: bool,
}

struct State {
    scheduler: Scheduler,
    pending: HashMap<u64, Pending>,
    /// Deadlines of requests, some of which may have been answered.
    deadlines: BinaryHeap<Reverse<(Nanos, u64)>>,
    next: u64,
    closed: bool,
    /// Servers that sleep, by station.
    asleep: Vec<usize>,
    working: usize,
    late: u64,
    partial: u64,
}

struct Engines {
    engines: Arc<[Arc<dyn Engine>]>,
    group: u64,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    /// Wakes servers, by station.
    work: Vec<Condvar>,
    /// Wakes the thread that watches deadlines.
    clock: Condvar,
    ended: Condvar,
    start: Instant,
    engines: RwLock<Engines>,
    models: Vec<RwLock<Option<CostModel>>>,
    shares: Vec<f64>,
    contexts: Vec<Context>,
    cache: Option<ResultCache<Answer, u64>>,
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
        let engines: Arc<[_]> = places.iter().map(|place| place.engine.clone()).collect();
        let state = State {
            scheduler: Scheduler::new(&stations, options.cohorts),
            pending: HashMap::new(),
            deadlines: BinaryHeap::new(),
            next: 0,
            closed: false,
            asleep: vec![0; places.len()],
            working: 0,
            late: 0,
            partial: 0,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: places.iter().map(|_| Condvar::new()).collect(),
            clock: Condvar::new(),
            ended: Condvar::new(),
            start: Instant::now(),
            engines: RwLock::new(Engines { engines, group: 0 }),
            shares: places.iter().map(|place| place.share).collect(),
            contexts: places.iter().map(|place| Context::new(place.threads)).collect(),
            cache: options.cache.map(ResultCache::new),
            models: places.into_iter().map(|place| RwLock::new(place.model)).collect(),
        });
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
    pub fn submit(&self, plan: Plan, limits: Limits) -> Result<Ticket, ServiceError> {
        let slot = Arc::new(Slot::default());
        let filled = slot.clone();
        let id = self.submit_with(plan, limits, move |served| filled.fill(served))?;
        Ok(Ticket { slot, id, service: Arc::downgrade(&self.shared) })
    }

    /// The same, with a function that gets the answer. A thread of the service calls it, so it must not take long. Returns the number by which the
    /// request can be cancelled.
    pub fn submit_with(
        &self,
        plan: Plan,
        limits: Limits,
        done: impl FnOnce(Served) + Send + 'static,
    ) -> Result<u64, ServiceError> {
        self.shared.submit(Arc::new(plan), limits, Box::new(done))
    }

    /// Gives a request up: it gets no answer but [`ServiceError::Cancelled`].
    pub fn cancel(&self, id: u64) {
        self.shared.cancel(id);
    }

    /// What it did so far.
    pub fn status(&self) -> ServiceStatus {
        let state = self.shared.state();
        ServiceStatus {
            waiting: state.scheduler.waiting(),
            counts: state.scheduler.counts().clone(),
            suited: state.scheduler.suited(),
            late: state.late,
            partial: state.partial,
            cache: self.shared.cache.as_ref().map(ResultCache::counts),
        }
    }

    /// What requests cost at a station, as it was learned.
    pub fn model(&self, station: usize) -> Option<CostModel> {
        self.shared.models[station].read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let waiting = self.shared.close();
        for pending in waiting {
            pending.finish(Err(ServiceError::Closed), How::default());
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

/// How an answer came about.
#[derive(Clone, Copy, Default)]
struct How {
    station: Option<usize>,
    batch: usize,
    shared: bool,
}

/// An answer for others than the one it was computed for.
fn for_others(answer: &Answer) -> Answer {
    Answer { work: None, ..answer.clone() }
}

impl Pending {
    /// Hands the answer over. Returns whether it is late, and partial.
    fn finish(self, answer: Result<Answer, ServiceError>, how: How) -> (bool, bool) {
        let How { station, batch, shared } = how;
        let now = Instant::now();
        let late = self.deadline.is_some_and(|deadline| now > deadline);
        let partial = answer.as_ref().is_ok_and(|answer| !answer.coverage.is_complete());
        let took = now.saturating_duration_since(self.arrived);
        let waited = self.began.map_or(took, |began| began.saturating_duration_since(self.arrived));
        let served = Served { answer, waited, took, late, station, batch, shared };
        caught(|| (self.done)(served));
        (late, partial)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self, moment: Instant) -> Nanos {
        nanos(moment.saturating_duration_since(self.start))
    }

    /// What a request adds to a batch of each station.
    fn costs(&self, plan: &Plan, engines: &[Arc<dyn Engine>]) -> Vec<Option<Nanos>> {
        let features = Features::of(plan);
        let cost = |(s, engine): (usize, &Arc<dyn Engine>)| {
            engine.supports(plan).ok()?;
            let model = self.models[s].read().unwrap_or_else(PoisonError::into_inner);
            let alone = match &*model {
                Some(model) => model.predict(&features),
                None => engine.cost(&[plan], &self.contexts[s]),
            };
            Some((nanos(alone) as f64 * self.shares[s]) as Nanos)
        };
        engines.iter().enumerate().map(cost).collect()
    }

    fn submit(&self, plan: Arc<Plan>, limits: Limits, done: Done) -> Result<u64, ServiceError> {
        let arrived = limits.arrived.unwrap_or_else(Instant::now);
        let deadline = limits.deadline.and_then(|time| arrived.checked_add(time));
        let (engines, group) = {
            let now = self.engines.read().unwrap_or_else(PoisonError::into_inner);
            (now.engines.clone(), now.group)
        };
        let key = self.cache.as_ref().map(|_| Key::of(&plan));
        let costs = self.costs(&plan, &engines);
        let (mut state, now) = (self.state(), self.at(Instant::now()));
        if state.closed {
            return Err(ServiceError::Closed);
        }
        let id = state.next;
        state.next += 1;
        let margin = limits.deadline.map_or(MARGIN, |time| MARGIN.min(time / MARGIN_PART));
        let stops = deadline.map(|deadline| deadline.checked_sub(margin).unwrap_or(deadline));
        let due = stops.map(|stops| self.at(stops));
        let job = Job { id, arrived: self.at(arrived), deadline: due, costs, group };
        let mut pending = Pending {
            plan,
            engines,
            arrived,
            deadline,
            stops,
            done,
            cancel: Cancel::new(),
            began: None,
            job,
            key,
            follows: false,
        };
        if let (Some(cache), Some(key)) = (&self.cache, &pending.key) {
            match cache.lookup(key, id, id) {
                Lookup::Hit(answer, _) => {
                    drop(state);
                    pending.finish(Ok(for_others(&answer)), How { shared: true, ..How::default() });
                    return Ok(id);
                }
                Lookup::Follow => pending.follows = true,
                Lookup::Lead(_) => {}
            }
        }
        if !pending.follows
            && let Err(Refused { wait }) = state.scheduler.arrive(pending.job.clone(), now)
        {
            self.let_go(&mut state, &pending);
            drop(state);
            return Err(match wait {
                Some(wait) => ServiceError::Refused { wait: Duration::from_nanos(wait) },
                None => self.unsupported(&pending.plan, &pending.engines).into(),
            });
        }
        state.pending.insert(id, pending);
        if let Some(due) = due {
            let is_next = state.deadlines.peek().is_none_or(|Reverse((first, _))| due < *first);
            state.deadlines.push(Reverse((due, id)));
            if is_next {
                self.clock.notify_one();
            }
        }
        self.wake(&state, now);
        Ok(id)
    }

    /// A request that is not answered in full leaves those that wait for its answer to themselves, or waits for none any more.
    fn let_go(&self, state: &mut State, pending: &Pending) {
        let (Some(cache), Some(key)) = (&self.cache, &pending.key) else { return };
        if pending.follows {
            cache.remove_waiter(key, pending.job.id);
            return;
        }
        for id in cache.abandon(key) {
            let Some(follower) = state.pending.get_mut(&id) else { continue };
            (follower.follows, follower.key) = (false, None);
            let job = follower.job.clone();
            // It was admitted, and is not refused now.
            state.scheduler.admit(job);
        }
    }

    fn unsupported(&self, plan: &Plan, engines: &[Arc<dyn Engine>]) -> ExecError {
        let why =
            engines.iter().find_map(|engine| Some((engine.name(), engine.supports(plan).err()?)));
        let (engine, why) = why.unwrap_or(("service", "it has no engine"));
        ExecError::Unsupported { engine, why: why.to_owned() }
    }

    /// Wakes a server that sleeps, if one has something to do.
    fn wake(&self, state: &State, now: Nanos) {
        if state.asleep.iter().any(|&asleep| asleep > 0)
            && let Some(station) = state.scheduler.wake(now)
        {
            self.work[station].notify_one();
        }
    }

    pub(crate) fn cancel(&self, id: u64) {
        let mut state = self.state();
        let Some(pending) = state.pending.get(&id) else { return };
        if pending.began.is_some() {
            pending.cancel.set();
            return;
        }
        state.scheduler.remove(id);
        if let Some(pending) = state.pending.remove(&id) {
            self.let_go(&mut state, &pending);
            self.wake(&state, self.at(Instant::now()));
            drop(state);
            pending.finish(Err(ServiceError::Cancelled), How::default());
        }
    }

    /// No more requests are taken. Returns those that wait.
    fn close(&self) -> Vec<Pending> {
        let mut state = self.state();
        state.closed = true;
        let waiting: Vec<u64> =
            state.pending.iter().filter(|(_, p)| p.began.is_none()).map(|(id, _)| *id).collect();
        let waiting = waiting.into_iter().filter_map(|id| {
            state.scheduler.remove(id);
            state.pending.remove(&id)
        });
        let waiting = waiting.collect();
        self.work.iter().chain([&self.clock]).for_each(Condvar::notify_all);
        waiting
    }

    /// A server: answers one batch after another.
    fn serve(&self, station: usize) {
        let mut state = self.state();
        loop {
            let now = self.at(Instant::now());
            if let Some(batch) = state.scheduler.next(station, now) {
                state = self.answer(station, batch, state);
                continue;
            }
            if state.closed {
                return;
            }
            state.asleep[station] += 1;
            let again = state.scheduler.ask_again(station, now);
            let time = again.map_or(Duration::MAX, |again| {
                Duration::from_nanos(again.saturating_sub(now).max(1))
            });
            state = match again {
                Some(_) => {
                    self.work[station]
                        .wait_timeout(state, time)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self.work[station].wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            state.asleep[station] -= 1;
        }
    }

    fn answer<'a>(
        &'a self,
        station: usize,
        batch: Batch,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        let (began, size) = (Instant::now(), batch.jobs.len());
        let mut taken: Vec<(u64, Arc<Plan>)> = Vec::with_capacity(size);
        let (mut context, mut until, mut engine) =
            (self.contexts[station].clone(), Some(began), None);
        for &id in &batch.jobs {
            let Some(pending) = state.pending.get_mut(&id) else { continue };
            pending.began = Some(began);
            // Engines stop when all are out of time.
            until = until.zip(pending.stops).map(|(a, b)| a.max(b));
            engine.get_or_insert_with(|| pending.engines[station].clone());
            if size == 1 {
                context = context.cancelled_by(pending.cancel.clone());
            }
            taken.push((id, pending.plan.clone()));
        }
        if let Some(until) = until {
            context = context.until(until);
        }
        // There may be more to do than this server can take.
        self.wake(&state, self.at(began));
        state.working += 1;
        drop(state);
        let plans: Vec<&Plan> = taken.iter().map(|(_, plan)| &**plan).collect();
        let mut answers = match engine {
            // An engine that panics has no answer, and its server goes on.
            Some(engine) => caught(|| engine.search(&plans, &context)).unwrap_or_default(),
            None => Vec::new(),
        };
        let took = began.elapsed();
        answers.resize_with(plans.len(), || Err(ExecError::NoAnswer));
        let failed = answers.iter().any(is_final);
        let whole =
            answers.iter().all(|answer| answer.as_ref().is_ok_and(|a| a.coverage.is_complete()));
        if let ([plan], true) = (&plans[..], whole)
            && let Some(model) =
                &mut *self.models[station].write().unwrap_or_else(PoisonError::into_inner)
        {
            model.learn(&Features::of(plan), took);
        }
        let mut state = self.state();
        state.working -= 1;
        if state.working == 0 && state.closed {
            self.ended.notify_all();
        }
        let now = self.at(Instant::now());
        match failed {
            true => state.scheduler.failed(station, batch.server, now),
            false => state.scheduler.done(station, batch.server, now),
        }
        let mut finished = Vec::with_capacity(size);
        for ((id, _), answer) in taken.iter().zip(answers) {
            let is_device =
                matches!(&answer, Err(ExecError::Device { .. } | ExecError::Unsupported { .. }));
            let Some(pending) = state.pending.get_mut(id) else { continue };
            let in_time = pending.deadline.is_none_or(|deadline| Instant::now() < deadline);
            if is_device && in_time && !pending.cancel.is_set() {
                // Another engine may answer it.
                pending.job.costs[station] = None;
                let job = pending.job.clone();
                if !state.closed && state.scheduler.again(job, station) {
                    if let Some(pending) = state.pending.get_mut(id) {
                        pending.began = None;
                    }
                    continue;
                }
            }
            let Some(pending) = state.pending.remove(id) else { continue };
            let how = How { station: Some(station), batch: size, shared: false };
            let answer = match pending.cancel.is_set() {
                true => Err(ServiceError::Cancelled),
                false => answer.map_err(ServiceError::from),
            };
            match (&self.cache, &pending.key, &answer) {
                (Some(cache), Some(key), Ok(answer)) if answer.coverage.is_complete() => {
                    let answer = Arc::new(for_others(answer));
                    let how = How { shared: true, ..how };
                    for id in cache.fill(key, &answer, true) {
                        let follower = state.pending.remove(&id);
                        finished.extend(
                            follower.map(|follower| (follower, Ok((*answer).clone()), how)),
                        );
                    }
                }
                _ => self.let_go(&mut state, &pending),
            }
            finished.push((pending, answer, how));
        }
        self.wake(&state, now);
        drop(state);
        let (mut late, mut partial) = (0, 0);
        for (pending, answer, how) in finished {
            let (was_late, was_partial) = pending.finish(answer, how);
            (late, partial) = (late + u64::from(was_late), partial + u64::from(was_partial));
        }
        let mut state = self.state();
        (state.late, state.partial) = (state.late + late, state.partial + partial);
        state
    }

    /// Answers requests whose time is up, whether they wait or an engine does not return.
    fn watch(&self) {
        let mut state = self.state();
        loop {
            if state.closed {
                return;
            }
            let now = self.at(Instant::now());
            let Some(&Reverse((deadline, id))) = state.deadlines.peek() else {
                state = self.clock.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if deadline > now {
                let time = Duration::from_nanos(deadline - now);
                state =
                    self.clock.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            state.deadlines.pop();
            let Some(pending) = state.pending.get(&id) else { continue };
            let waits = pending.follows || pending.began.is_none();
            let is_over = pending.deadline.is_none_or(|end| Instant::now() >= end + GRACE);
            if !waits && !is_over {
                // An engine has it, which stops by itself.
                state.deadlines.push(Reverse((self.at(Instant::now() + GRACE), id)));
                continue;
            }
            state.scheduler.expire(id, now);
            if let Some(pending) = state.pending.remove(&id) {
                self.let_go(&mut state, &pending);
                self.wake(&state, now);
                drop(state);
                let nothing = Answer::nothing(&pending.plan);
                let (late, partial) = pending.finish(Ok(nothing), How::default());
                state = self.state();
                state.late += u64::from(late);
                state.partial += u64::from(partial);
            }
        }
    }
}

/// What a function of somebody else returns, unless it panics. What it leaves behind is its own.
fn caught<T>(function: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(function)).ok()
}

/// Whether a failure says that an engine will fail others too.
fn is_final(answer: &Result<Answer, ExecError>) -> bool {
    let fault = answer.as_ref().err().and_then(ExecError::fault);
    matches!(fault, Some(Fault::Device | Fault::Setup))
}
