//! The servers of a service: threads that answer one batch after another.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use warpseek_exec::{Answer, Context, Engine, ExecError, Plan};

use super::job::Nanos;
use super::scheduler::Batch;
use super::served::{How, ServiceError, for_others};
use super::shared::{Finished, Shared, State, caught};
use crate::model::Features;

/// A server's batch: its requests, the engine that answers them, and the context that limits it.
struct Work {
    batch: Batch,
    plans: Vec<(u64, Arc<Plan>)>,
    engine: Option<Arc<dyn Engine>>,
    context: Context,
    began: Instant,
}

impl Shared {
    /// Runs a server, which answers one batch after another until the service ends.
    pub(super) fn serve(&self, station: usize) {
        loop {
            let seen = self.changes.load(Ordering::Acquire);
            let mut state = self.state();
            self.sort_in(&mut state);
            let now = self.at(Instant::now());
            let (batch, cancelled) = self.next_batch(station, &mut state, now);
            let again = match batch {
                Some(_) => None,
                None => state.scheduler.ask_again(station, now),
            };
            self.publish(&state);
            let Some(batch) = batch else {
                if !cancelled.is_empty() {
                    // Requests that waited for the same answers may be in the queues now.
                    drop(state);
                    self.finish_all(cancelled);
                    continue;
                }
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
            self.finish_all(cancelled);
            self.answer(station, work);
        }
    }

    /// Returns the next batch of a station, and the requests that were cancelled by the flags of
    /// their callers while they waited for their turn.
    fn next_batch(
        &self,
        station: usize,
        state: &mut State,
        now: Nanos,
    ) -> (Option<Batch>, Finished) {
        let (State { scheduler, pending, .. }, mut ids) = (&mut *state, Vec::new());
        let batch = scheduler.next_unless(station, now, |id| {
            let is_cancelled = pending.get(&id).is_some_and(|pending| pending.cancel.is_set());
            if is_cancelled {
                ids.push(id);
            }
            is_cancelled
        });
        let mut cancelled = Finished::new();
        for id in ids {
            if let Some(pending) = state.pending.remove(&id) {
                self.let_go(state, &pending);
                cancelled.push((*pending, Err(ServiceError::Cancelled), How::default()));
            }
        }
        (batch, cancelled)
    }

    /// Lets an idle server spin for a while, and then sleep until it is woken, or until this
    /// time. The server does not miss any change of the inbox after the count `seen`.
    fn rest(&self, station: usize, seen: u64, again: Option<Nanos>) {
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
        let features = match (&engine, &refs[..]) {
            (Some(engine), [plan]) => Some(Features::of(plan).on(&**engine, plan)),
            _ => None,
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
        if let (Some(features), true) = (features, whole)
            && let Some(model) =
                &mut *self.models[station].write().unwrap_or_else(PoisonError::into_inner)
        {
            model.learn(&features, took);
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
            finished.extend(follower.map(|follower| {
                let answer = match follower.cancel.is_set() {
                    true => Err(ServiceError::Cancelled),
                    false => Ok((*answer).clone()),
                };
                (*follower, answer, how)
            }));
        }
        finished
    }
}
