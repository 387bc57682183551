//! The state that the threads of a service share, and the operations on it: moving requests from
//! the inbox to the scheduler, waking servers, cancelling requests and passing on answers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use warpseek_exec::{Answer, Context, Engine};

use super::Place;
use super::inbox::Inbox;
use super::job::{Nanos, nanos};
use super::pending::Pending;
use super::scheduler::Scheduler;
use super::served::{How, Served, ServiceError};
use crate::cache::ResultCache;
use crate::model::CostModel;

/// The requests without an answer, and the scheduler that orders them.
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

/// The engines of the current snapshot, one per station.
pub(super) struct Engines {
    pub(super) engines: Arc<[Arc<dyn Engine>]>,
    pub(super) group: u64,
}

/// The state that all threads of a service share. A thread that locks both `state` and `inbox`
/// locks `state` first.
pub(super) struct Shared {
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

/// Requests that have been answered, with their answers.
pub(super) type Finished = Vec<(Pending, Result<Answer, ServiceError>, How)>;

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

    pub(super) fn finish_all(&self, finished: Finished) {
        for (pending, answer, how) in finished {
            self.finish(pending, answer, how);
        }
    }

    /// Releases a request that is not answered in full. If it waits for the answer to an equal
    /// request, it waits no longer. Otherwise the requests that wait for its answer are scheduled
    /// by themselves.
    pub(super) fn let_go(&self, state: &mut State, pending: &Pending) {
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
    pub(super) fn wake_for(&self, state: &State, except: Option<usize>, now: Nanos) {
        if let Some(station) = state.scheduler.wake(except, now) {
            self.wake(station);
        }
    }

    /// Cancels a request that has no answer yet. If an engine works on it, the engine stops.
    pub(super) fn cancel(&self, id: u64) {
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

    pub(super) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the requests from the inbox to the scheduler.
    pub(super) fn sort_in(&self, state: &mut State) {
        let mut requests = std::mem::take(&mut state.sorted);
        std::mem::swap(&mut self.inbox().requests, &mut requests);
        for pending in requests.drain(..) {
            let id = pending.job.id;
            if !pending.follows {
                state.scheduler.enter(pending.job.clone(), pending.wait);
            }
            if let Some(due) = pending.job.deadline {
                state.deadlines.push(Reverse((due, id)));
            }
            state.pending.insert(id, pending);
        }
        state.sorted = requests;
    }

    /// Updates the outlook for the requests to come.
    pub(super) fn publish(&self, state: &State) {
        let mut inbox = self.inbox();
        let Inbox { outlook, requests, .. } = &mut *inbox;
        state.scheduler.outlook(outlook);
        for pending in requests.iter().filter(|pending| !pending.follows) {
            outlook.add(&pending.job);
        }
    }

    /// Wakes a server of a station, if one sleeps.
    pub(super) fn wake(&self, station: usize) {
        let mut inbox = self.inbox();
        if inbox.call(station) {
            drop(inbox);
            self.work[station].notify_one();
        } else if inbox.asleep[station] == 0 {
            // A server may be about to sleep.
            self.changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Sleeps until the condition variable is notified, or until this time.
    pub(super) fn sleep<'a>(
        &self,
        woken: &Condvar,
        inbox: MutexGuard<'a, Inbox>,
        until: Option<Nanos>,
    ) -> MutexGuard<'a, Inbox> {
        let Some(until) = until else {
            return woken.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        };
        let time = Duration::from_nanos(until.saturating_sub(self.at(Instant::now())).max(1));
        woken.wait_timeout(inbox, time).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Calls a function that is not under the service's control. Returns `None` if it panics; any
/// state that it leaves behind is its own concern.
pub(super) fn caught<T>(function: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(function)).ok()
}
