//! The inbox of a service. A submitting thread only locks the inbox, so it never waits for the
//! scheduler, however busy that is.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warpseek_exec::{Cancel, Engine, ExecError, Plan};

use super::servers::{Done, How, Pending, Shared, State, for_others};
use super::{Job, Limits, Nanos, Outlook, Refused, Scheduler, ServiceError, nanos};
use crate::cache::{Key, Lookup};
use crate::model::Features;

/// Time before its deadline at which a request expires, so that the answer arrives by the
/// deadline. If a twentieth of the time to the deadline is shorter, that counts.
const MARGIN: Duration = Duration::from_micros(100);
const MARGIN_PART: u32 = 20;

/// Minimum interval at which other stations are woken to look for work if all servers of the
/// station that suits a request best are busy. Mostly they find nothing to do.
pub(super) const LOOK_AROUND: Nanos = 1_000_000;

/// Requests that are not yet in the scheduler, and the state of sleeping threads.
#[derive(Default)]
pub(super) struct Inbox {
    #[expect(
        clippy::vec_box,
        reason = "requests go from here to the scheduler's, and only their addresses move"
    )]
    pub(super) requests: Vec<Box<Pending>>,
    pub(super) outlook: Outlook,
    pub(super) refused: u64,
    pub(super) closed: bool,
    next: u64,
    /// Number of servers that sleep, by station.
    pub(super) asleep: Vec<usize>,
    /// Number of sleeping servers that have been notified but are not awake yet, by station.
    pub(super) called: Vec<usize>,
    /// Time at which the thread that watches deadlines wakes.
    pub(super) alarm: Nanos,
}

impl Inbox {
    pub(super) fn new(scheduler: &Scheduler, stations: usize) -> Self {
        let (asleep, called) = (vec![0; stations], vec![0; stations]);
        let mut inbox = Inbox { asleep, called, alarm: Nanos::MAX, ..Inbox::default() };
        scheduler.outlook(&mut inbox.outlook);
        inbox
    }

    /// Claims a sleeping server of a station. Returns true if there is one, which the caller must
    /// then notify.
    fn call(&mut self, station: usize) -> bool {
        let sleeps = self.asleep[station] > self.called[station];
        self.called[station] += usize::from(sleeps);
        sleeps
    }

    /// Lets the clock wake at this time or earlier. Returns true if that is earlier than before.
    fn ring(&mut self, at: Nanos) -> bool {
        let is_earlier = at < self.alarm;
        self.alarm = self.alarm.min(at);
        is_earlier
    }
}

impl Shared {
    pub(super) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cost that a request adds to a batch of each station; none if the station
    /// cannot answer it.
    fn costs(&self, plan: &Plan, engines: &[Arc<dyn Engine>]) -> Vec<Option<Nanos>> {
        let features = Features::of(plan);
        let cost = |(s, engine): (usize, &Arc<dyn Engine>)| {
            engine.can_answer(plan).ok()?;
            let model = self.models[s].read().unwrap_or_else(PoisonError::into_inner);
            let alone = match &*model {
                Some(model) => model.predict(&Features { absent: engine.absent(plan), ..features }),
                None => engine.cost(&[plan], &self.contexts[s]),
            };
            Some((nanos(alone) as f64 * self.shares[s]) as Nanos)
        };
        engines.iter().enumerate().map(cost).collect()
    }

    pub(super) fn submit(
        &self,
        plan: Arc<Plan>,
        limits: Limits,
        done: Done,
    ) -> Result<u64, ServiceError> {
        let arrived = limits.arrived.unwrap_or_else(Instant::now);
        let deadline = limits.deadline.and_then(|time| arrived.checked_add(time));
        let margin = limits.deadline.map_or(MARGIN, |time| MARGIN.min(time / MARGIN_PART));
        let stops = deadline.map(|deadline| deadline.checked_sub(margin).unwrap_or(deadline));
        let due = stops.map(|stops| self.at(stops));
        let (engines, group) = {
            let now = self.engines.read().unwrap_or_else(PoisonError::into_inner);
            (now.engines.clone(), now.group)
        };
        let costs = self.costs(&plan, &engines);
        let job = Job { id: 0, arrived: self.at(arrived), deadline: due, costs, group };
        let mut pending = Box::new(Pending {
            key: self.cache.as_ref().map(|_| Key::of(&plan)),
            plan,
            engines,
            arrived,
            deadline,
            stops,
            done,
            // The caller's flag may also cancel other requests, so this request gets a part of
            // it.
            cancel: limits.cancel.map_or_else(Cancel::new, |cancel| cancel.part()),
            began: None,
            job,
            wait: 0,
            follows: false,
            again: false,
        });
        let mut inbox = self.inbox();
        let now = self.at(Instant::now());
        if inbox.closed {
            return Err(ServiceError::Closed);
        }
        let id = inbox.next;
        inbox.next += 1;
        pending.job.id = id;
        if let (Some(cache), Some(key)) = (&self.cache, &pending.key) {
            match cache.lookup(key, id, id) {
                Lookup::Hit(answer, _) => {
                    drop(inbox);
                    let how = How { shared: true, ..How::default() };
                    self.finish(*pending, Ok(for_others(&answer)), how);
                    return Ok(id);
                }
                Lookup::Follow => pending.follows = true,
                Lookup::Lead(_) => {}
            }
        }
        let mut best = None;
        if !pending.follows {
            match inbox.outlook.admit(&pending.job, now) {
                Ok(wait) => {
                    pending.wait = wait;
                    best = inbox.outlook.add(&pending.job);
                }
                Err(Refused { wait }) => {
                    inbox.refused += 1;
                    if let (Some(cache), Some(key)) = (&self.cache, &pending.key) {
                        // The inbox is still locked, so no request can have joined this one.
                        cache.abandon(key);
                    }
                    drop(inbox);
                    return Err(match wait {
                        Some(wait) => ServiceError::Refused { wait: Duration::from_nanos(wait) },
                        None => unsupported(&pending.plan, &pending.engines).into(),
                    });
                }
            }
        }
        inbox.requests.push(pending);
        self.changes.fetch_add(1, Ordering::AcqRel);
        let is_looked_out = |station: usize| self.looks_out[station].load(Ordering::Acquire);
        let busy = best.filter(|&best| !is_looked_out(best));
        let called = busy.filter(|&best| inbox.call(best));
        let others_look = busy.is_some() && called.is_none() && self.work.len() > 1;
        let look = if others_look { now + LOOK_AROUND } else { Nanos::MAX };
        let is_first = inbox.ring(due.unwrap_or(Nanos::MAX).min(look));
        drop(inbox);
        if let Some(station) = called {
            self.work[station].notify_one();
        }
        if is_first {
            self.clock.notify_one();
        }
        Ok(id)
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
                state.deadlines.push(std::cmp::Reverse((due, id)));
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

    /// Lets an idle server spin for a while, and then sleep until it is woken, or until this
    /// time. The server does not miss any change of the inbox after the count `seen`.
    pub(super) fn rest(&self, station: usize, seen: u64, again: Option<Nanos>) {
        let has_changed = || self.changes.load(Ordering::Acquire) != seen;
        let until = self.at(Instant::now()) + self.lookouts[station];
        if self.lookouts[station] > 0 && !self.looks_out[station].swap(true, Ordering::AcqRel) {
            while !has_changed() && self.at(Instant::now()) < until.min(again.unwrap_or(until)) {
                std::hint::spin_loop();
            }
            self.looks_out[station].store(false, Ordering::Release);
        }
        let mut inbox = self.inbox();
        if has_changed() || inbox.closed {
            return;
        }
        inbox.asleep[station] += 1;
        let mut inbox = self.sleep(&self.work[station], inbox, again);
        inbox.asleep[station] -= 1;
        inbox.called[station] = inbox.called[station].saturating_sub(1).min(inbox.asleep[station]);
    }

    /// Sleeps until the condition variable is notified, or until this time.
    pub(super) fn sleep<'a>(
        &self,
        woken: &std::sync::Condvar,
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

fn unsupported(plan: &Plan, engines: &[Arc<dyn Engine>]) -> ExecError {
    let why =
        engines.iter().find_map(|engine| Some((engine.name(), engine.can_answer(plan).err()?)));
    let (engine, why) = why.unwrap_or(("service", "it has no engine"));
    ExecError::Unsupported { engine, why: why.to_owned() }
}
