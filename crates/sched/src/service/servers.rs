//! The threads of a service: servers that answer batches, and one that watches deadlines.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use warpseek_exec::{Answer, Cancel, Context, Engine, ExecError, Plan};

use super::inbox::{Inbox, LOOK_AROUND};
use super::{Batch, Job, Nanos, Place, Scheduler, Served, ServiceError, nanos};
use crate::cache::{Key, ResultCache};
use crate::model::{CostModel, Features};

/// Time after its deadline at which the service gives up a request that an engine works on:
/// engines stop on their own, but not at once.
const GRACE: Duration = Duration::from_millis(10);

pub(super) type Done = Box<dyn FnOnce(Served) + Send>;

/// A request that has no answer yet.
pub(super) struct Pending {
    pub(super) plan: Arc<Plan>,
    pub(super) engines: Arc<[Arc<dyn Engine>]>,
    pub(super) arrived: Instant,
    pub(super) deadline: Option<Instant>,
    /// Time at which engines stop, a little before the deadline.
    pub(super) stops: Option<Instant>,
    pub(super) done: Done,
    pub(super) cancel: Cancel,
    /// Time at which an engine began the request.
    pub(super) began: Option<Instant>,
    pub(super) job: Job,
    /// Expected wait at admission.
    pub(super) wait: Nanos,
    /// Key of the request in the cache, if there is a cache.
    pub(super) key: Option<Key>,
    /// True if the request waits for the answer to an equal request. Otherwise, others may wait
    /// for the answer to this one.
    pub(super) follows: bool,
    /// True if the only engine that can answer the request has failed it once, and gets it again.
    pub(super) again: bool,
}

pub(super) struct State {
    pub(super) scheduler: Scheduler,
    pub(super) pending: FxHashMap<u64, Box<Pending>>,
    /// Deadlines of requests, some of which may have been answered already.
    pub(super) deadlines: BinaryHeap<Reverse<(Nanos, u64)>>,
    pub(super) working: usize,
    /// Reused memory for the requests from the inbox.
    #[expect(clippy::vec_box, reason = "it takes turns with the inbox's")]
    pub(super) sorted: Vec<Box<Pending>>,
}

pub(super) struct Engines {
    pub(super) engines: Arc<[Arc<dyn Engine>]>,
    pub(super) group: u64,
}

/// The state that all threads of a service share. A thread that locks both `state` and `inbox`
/// locks `state` first.
pub(crate) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) inbox: Mutex<Inbox>,
    /// Counter of events that may create work. It changes only under the inbox's lock.
    pub(super) changes: AtomicU64,
    /// Condition variables that wake servers, by station.
    pub(super) work: Vec<Condvar>,
    /// Time that an idle server spins before it sleeps, by station.
    pub(super) lookouts: Vec<Nanos>,
    /// True while a server of the station spins for work.
    pub(super) looks_out: Vec<AtomicBool>,
    /// Condition variable that wakes the thread that watches deadlines.
    pub(super) clock: Condvar,
    pub(super) ended: Condvar,
    pub(super) start: Instant,
    pub(super) engines: RwLock<Engines>,
    pub(super) models: Vec<RwLock<Option<CostModel>>>,
    pub(super) shares: Vec<f64>,
    pub(super) contexts: Vec<Context>,
    pub(super) cache: Option<ResultCache<Answer, u64>>,
    pub(super) late: AtomicU64,
    pub(super) partial: AtomicU64,
}

/// Origin of an answer.
#[derive(Clone, Copy, Default)]
pub(super) struct How {
    pub(super) station: Option<usize>,
    pub(super) batch: usize,
    pub(super) shared: bool,
}

/// A server's batch: its requests, the engine that answers them, and the context that limits it.
struct Work {
    batch: Batch,
    plans: Vec<(u64, Arc<Plan>)>,
    engine: Option<Arc<dyn Engine>>,
    context: Context,
    began: Instant,
}

type Finished = Vec<(Pending, Result<Answer, ServiceError>, How)>;

/// Returns an answer for requests other than the one that it was computed for.
pub(super) fn for_others(answer: &Answer) -> Answer {
    Answer { work: None, ..answer.clone() }
}

impl Shared {
    pub(super) fn new(
        places: Vec<Place>,
        scheduler: Scheduler,
        cache: Option<ResultCache<Answer, u64>>,
    ) -> Self {
        let engines = places.iter().map(|place| place.engine.clone()).collect();
        let inbox = Inbox::new(&scheduler, places.len());
        let state = State {
            scheduler,
            pending: FxHashMap::default(),
            deadlines: BinaryHeap::new(),
            working: 0,
            sorted: Vec::new(),
        };
        Shared {
            state: Mutex::new(state),
            inbox: Mutex::new(inbox),
            changes: AtomicU64::new(0),
            work: places.iter().map(|_| Condvar::new()).collect(),
            lookouts: places.iter().map(|place| nanos(place.lookout)).collect(),
            looks_out: places.iter().map(|_| AtomicBool::new(false)).collect(),
            clock: Condvar::new(),
            ended: Condvar::new(),
            start: Instant::now(),
            engines: RwLock::new(Engines { engines, group: 0 }),
            shares: places.iter().map(|place| place.share).collect(),
            contexts: places.iter().map(|place| Context::new(place.threads)).collect(),
            models: places.into_iter().map(|place| RwLock::new(place.model)).collect(),
            cache,
            late: AtomicU64::new(0),
            partial: AtomicU64::new(0),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn at(&self, moment: Instant) -> Nanos {
        nanos(moment.saturating_duration_since(self.start))
    }

    /// Passes an answer to its request.
    pub(super) fn finish(&self, pending: Pending, answer: Result<Answer, ServiceError>, how: How) {
        let How { station, batch, shared } = how;
        let now = Instant::now();
        let late = pending.deadline.is_some_and(|deadline| now > deadline);
        self.late.fetch_add(u64::from(late), Ordering::Relaxed);
        let partial = answer.as_ref().is_ok_and(|answer| !answer.coverage.is_complete());
        self.partial.fetch_add(u64::from(partial), Ordering::Relaxed);
        let took = now.saturating_duration_since(pending.arrived);
        let waited =
            pending.began.map_or(took, |began| began.saturating_duration_since(pending.arrived));
        let served = Served { answer, waited, took, late, station, batch, shared };
        caught(|| (pending.done)(served));
    }

    fn finish_all(&self, finished: Finished) {
        for (pending, answer, how) in finished {
            self.finish(pending, answer, how);
        }
    }

    /// Releases a request that is not answered in full. If it waits for the answer to an equal
    /// request, it waits no longer. Otherwise the requests that wait for its answer are scheduled
    /// by themselves.
    fn let_go(&self, state: &mut State, pending: &Pending) {
        let (Some(cache), Some(key)) = (&self.cache, &pending.key) else { return };
        if pending.follows {
            cache.remove_waiter(key, pending.job.id);
            return;
        }
        let followers = cache.abandon(key);
        if followers.is_empty() {
            return;
        }
        self.sort_in(state);
        for id in followers {
            let Some(follower) = state.pending.get_mut(&id) else { continue };
            (follower.follows, follower.key) = (false, None);
            let job = follower.job.clone();
            // A request that waits for an answer must not be refused later. Some station can
            // answer it, just as it could answer the other request.
            state.scheduler.admit(job);
        }
    }

    /// Wakes a sleeping server, if there is work for one.
    fn wake_for(&self, state: &State, except: Option<usize>, now: Nanos) {
        if let Some(station) = state.scheduler.wake(except, now) {
            self.wake(station);
        }
    }

    pub(crate) fn cancel(&self, id: u64) {
        let mut state = self.state();
        self.sort_in(&mut state);
        let Some(pending) = state.pending.get(&id) else { return };
        if pending.began.is_some() {
            pending.cancel.set();
            return;
        }
        state.scheduler.remove(id);
        if let Some(pending) = state.pending.remove(&id) {
            self.let_go(&mut state, &pending);
            self.publish(&state);
            self.wake_for(&state, None, self.at(Instant::now()));
            drop(state);
            self.finish(*pending, Err(ServiceError::Cancelled), How::default());
        }
    }

    /// Stops accepting requests, and returns those that wait.
    pub(super) fn close(&self) -> Vec<Pending> {
        let mut state = self.state();
        {
            let mut inbox = self.inbox();
            inbox.closed = true;
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
        self.sort_in(&mut state);
        let waiting: Vec<u64> =
            state.pending.iter().filter(|(_, p)| p.began.is_none()).map(|(id, _)| *id).collect();
        let waiting = waiting.into_iter().filter_map(|id| {
            state.scheduler.remove(id);
            Some(*state.pending.remove(&id)?)
        });
        let waiting = waiting.collect();
        self.work.iter().chain([&self.clock]).for_each(Condvar::notify_all);
        waiting
    }

    /// Runs a server, which answers one batch after another until the service ends.
    pub(super) fn serve(&self, station: usize) {
        loop {
            let seen = self.changes.load(Ordering::Acquire);
            let mut state = self.state();
            self.sort_in(&mut state);
            let now = self.at(Instant::now());
            let batch = state.scheduler.next(station, now);
            let again = match batch {
                Some(_) => None,
                None => state.scheduler.ask_again(station, now),
            };
            self.publish(&state);
            let Some(batch) = batch else {
                self.wake_for(&state, Some(station), now);
                drop(state);
                if self.inbox().closed {
                    return;
                }
                self.rest(station, seen, again);
                continue;
            };
            let work = self.begin(station, batch, &mut state);
            // There may be more work than this server can take.
            self.wake_for(&state, None, now);
            drop(state);
            self.answer(station, work);
        }
    }

    fn begin(&self, station: usize, batch: Batch, state: &mut State) -> Work {
        let (began, size) = (Instant::now(), batch.jobs.len());
        let mut plans = Vec::with_capacity(size);
        // For a single request, waking other threads takes longer than they save.
        let context = if size == 1 { Context::single() } else { &self.contexts[station] };
        let (mut context, mut until, mut engine) = (context.clone(), Some(began), None);
        for &id in &batch.jobs {
            let Some(pending) = state.pending.get_mut(&id) else { continue };
            pending.began = Some(began);
            // The engine stops when the time of all requests is up.
            until = until.zip(pending.stops).map(|(a, b)| a.max(b));
            engine.get_or_insert_with(|| pending.engines[station].clone());
            if size == 1 {
                context = context.cancelled_by(pending.cancel.clone());
            }
            plans.push((id, pending.plan.clone()));
        }
        if let Some(until) = until {
            context = context.until(until);
        }
        state.working += 1;
        Work { batch, plans, engine, context, began }
    }

    fn answer(&self, station: usize, work: Work) {
        let Work { batch, plans, engine, context, began } = work;
        let refs: Vec<&Plan> = plans.iter().map(|(_, plan)| &**plan).collect();
        let absent = match (&engine, &refs[..]) {
            (Some(engine), [plan]) => engine.absent(plan),
            _ => 0,
        };
        let mut answers = match engine {
            // If an engine panics, its requests have no answer, and its server continues.
            Some(engine) => caught(|| engine.search(&refs, &context)).unwrap_or_default(),
            None => Vec::new(),
        };
        let took = began.elapsed();
        answers.resize_with(refs.len(), || Err(ExecError::NoAnswer));
        let failed = answers.iter().any(|answer| answer.as_ref().is_err_and(ExecError::is_final));
        let whole =
            answers.iter().all(|answer| answer.as_ref().is_ok_and(|a| a.coverage.is_complete()));
        if let ([plan], true) = (&refs[..], whole)
            && let Some(model) =
                &mut *self.models[station].write().unwrap_or_else(PoisonError::into_inner)
        {
            model.learn(&Features { absent, ..Features::of(plan) }, took);
        }
        let finished = self.collect(station, &plans, answers);
        self.finish_all(finished);
        // The server was busy until here.
        let mut state = self.state();
        let now = self.at(Instant::now());
        match failed {
            true => state.scheduler.failed(station, batch.server, now),
            false => state.scheduler.done(station, batch.server, now),
        }
        state.working -= 1;
        if state.working == 0 {
            self.ended.notify_all();
        }
    }

    /// Removes the requests of a batch and returns them with their answers, together with the
    /// requests that wait for the same answers. Requests that the engine failed may go to another
    /// station instead.
    fn collect(
        &self,
        station: usize,
        plans: &[(u64, Arc<Plan>)],
        answers: Vec<Result<Answer, ExecError>>,
    ) -> Finished {
        let mut finished = Vec::with_capacity(plans.len());
        let mut followers = Vec::new();
        let mut state = self.state();
        for ((id, _), answer) in plans.iter().zip(answers) {
            let is_device =
                matches!(&answer, Err(ExecError::Device { .. } | ExecError::Unsupported { .. }));
            let is_final = answer.as_ref().is_err_and(ExecError::is_final);
            let Some(mut pending) = state.pending.remove(id) else { continue };
            let in_time = pending.deadline.is_none_or(|deadline| Instant::now() < deadline);
            if is_device && in_time && !pending.cancel.is_set() {
                // Another engine may answer the request; so may this one, if it only lacked
                // memory for the whole batch.
                let cost = pending.job.costs[station].take();
                let others = pending.job.costs.iter().any(Option::is_some);
                if !others && !is_final && !pending.again {
                    (pending.again, pending.job.costs[station]) = (true, cost);
                }
                if !self.inbox().closed && state.scheduler.admit(pending.job.clone()) {
                    pending.began = None;
                    state.pending.insert(*id, pending);
                    continue;
                }
            }
            let how = How { station: Some(station), batch: plans.len(), shared: false };
            let answer = match pending.cancel.is_set() {
                true => Err(ServiceError::Cancelled),
                false => answer.map_err(ServiceError::from),
            };
            match (&self.cache, &pending.key, &answer) {
                (Some(cache), Some(key), Ok(answer)) if answer.coverage.is_complete() => {
                    let answer = Arc::new(for_others(answer));
                    let how = How { shared: true, ..how };
                    let ids = cache.fill(key, &answer, true).into_iter();
                    followers.extend(ids.map(|id| (id, answer.clone(), how)));
                }
                _ => self.let_go(&mut state, &pending),
            }
            finished.push((*pending, answer, how));
        }
        if !followers.is_empty() {
            // Some followers may still be in the inbox.
            self.sort_in(&mut state);
        }
        for (id, answer, how) in followers {
            let follower = state.pending.remove(&id);
            finished.extend(follower.map(|follower| (*follower, Ok((*answer).clone()), how)));
        }
        finished
    }

    /// Runs the thread that answers requests whose time is up, whether they wait or an engine
    /// does not return.
    pub(super) fn watch(&self) {
        loop {
            let mut state = self.state();
            self.sort_in(&mut state);
            let finished = self.expire(&mut state);
            if !finished.is_empty() {
                self.publish(&state);
            }
            let now = self.at(Instant::now());
            self.wake_for(&state, None, now);
            // As long as requests wait, wake stations without work regularly, to check whether
            // another station got stuck.
            let look = self.work.len() > 1 && state.scheduler.waiting() > 0;
            let look = look.then_some(now + LOOK_AROUND);
            let next = state.deadlines.peek().map(|Reverse((due, _))| *due);
            {
                // The state is still locked, so no request moves out of the inbox here: each one
                // is either in the inbox or among the deadlines just examined.
                let mut inbox = self.inbox();
                let come = inbox.requests.iter().filter_map(|pending| pending.job.deadline).min();
                inbox.alarm = next.into_iter().chain(come).chain(look).min().unwrap_or(Nanos::MAX);
            }
            drop(state);
            self.finish_all(finished);
            let inbox = self.inbox();
            if inbox.closed {
                return;
            }
            let until = Some(inbox.alarm).filter(|&alarm| alarm < Nanos::MAX);
            drop(self.sleep(&self.clock, inbox, until));
        }
    }

    /// Removes and returns the requests whose time is up. Afterwards the first deadline is that
    /// of a request without an answer.
    fn expire(&self, state: &mut State) -> Finished {
        let mut finished = Vec::new();
        while let Some(&Reverse((deadline, id))) = state.deadlines.peek() {
            let Some(pending) = state.pending.get(&id) else {
                state.deadlines.pop();
                continue;
            };
            let now = Instant::now();
            if deadline > self.at(now) {
                break;
            }
            state.deadlines.pop();
            let waits = pending.follows || pending.began.is_none();
            let over = pending.deadline.map_or(now, |end| end + GRACE);
            if !waits && now < over {
                // An engine that will stop on its own works on the request.
                state.deadlines.push(Reverse((self.at(over), id)));
                continue;
            }
            state.scheduler.expire(id, self.at(now));
            if let Some(pending) = state.pending.remove(&id) {
                self.let_go(state, &pending);
                let nothing = Answer::nothing(&pending.plan);
                finished.push((*pending, Ok(nothing), How::default()));
            }
        }
        finished
    }
}

/// Calls a function that is not under the service's control. Returns `None` if it panics; any
/// state that it leaves behind is its own concern.
fn caught<T>(function: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(function)).ok()
}
