//! The thread of a service that watches deadlines, so that every request is answered in time even
//! if all servers are busy or hang.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use warpseek_exec::Answer;

use super::inbox::LOOK_AROUND;
use super::job::Nanos;
use super::served::{How, ServiceError};
use super::shared::{Finished, Shared, State};

/// Time after its deadline at which the service abandons a request that an engine is answering.
/// Engines stop on their own, but not immediately.
const GRACE: Duration = Duration::from_millis(10);

impl Shared {
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
                let answer = match pending.cancel.is_set() {
                    true => Err(ServiceError::Cancelled),
                    false => Ok(Answer::nothing(&pending.plan)),
                };
                finished.push((*pending, answer, How::default()));
            }
        }
        finished
    }
}
