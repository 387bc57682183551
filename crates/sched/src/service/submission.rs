//! The submission of requests. A submitting thread only locks the inbox, so it never waits for the
//! scheduler, however busy that is.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use warpseek_exec::{Cancel, Engine, ExecError, Plan};

use super::Limits;
use super::inbox::LOOK_AROUND;
use super::job::{Job, Nanos, nanos};
use super::outlook::Refused;
use super::pending::{Done, Pending};
use super::served::{How, ServiceError, for_others};
use super::shared::Shared;
use crate::cache::{Key, Lookup};
use crate::model::Features;

/// Time before its deadline at which a request expires, so that the answer arrives by the
/// deadline. If a twentieth of the time to the deadline is shorter, that counts.
const MARGIN: Duration = Duration::from_micros(100);
const MARGIN_PART: u32 = 20;

impl Shared {
    /// Returns the cost that a request adds to a batch of each station; none if the station
    /// cannot answer it.
    fn costs(&self, plan: &Plan, engines: &[Arc<dyn Engine>]) -> Vec<Option<Nanos>> {
        let features = Features::of(plan);
        let cost = |(s, engine): (usize, &Arc<dyn Engine>)| {
            engine.can_answer(plan).ok()?;
            let model = self.models[s].read().unwrap_or_else(PoisonError::into_inner);
            let alone = match &*model {
                Some(model) => model.predict(&features.on(&**engine, plan)),
                None => engine.cost(&[plan], &self.contexts[s]),
            };
            Some((nanos(alone) as f64 * self.shares[s]) as Nanos)
        };
        engines.iter().enumerate().map(cost).collect()
    }

    /// Accepts a request, and returns its number. An equal request may have its answer already;
    /// then the request is answered at once.
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
}

fn unsupported(plan: &Plan, engines: &[Arc<dyn Engine>]) -> ExecError {
    let why =
        engines.iter().find_map(|engine| Some((engine.name(), engine.can_answer(plan).err()?)));
    let (engine, why) = why.unwrap_or(("service", "it has no engine"));
    ExecError::Unsupported { engine, why: why.to_owned() }
}
