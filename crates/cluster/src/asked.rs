//! A request that is being answered, together with others or alone, and the place of its answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, oneshot};

use crate::error::ClusterError;
use crate::request::{ClusterRequest, ClusterResponse};

/// Result of a request.
pub(crate) type Outcome = Result<Arc<ClusterResponse>, ClusterError>;

/// A request that is being answered.
pub(crate) struct Asked {
    pub(crate) request: ClusterRequest,
    /// Time from which the time limit counts.
    pub(crate) arrived: Instant,
    /// Deadline, if there is one.
    pub(crate) until: Option<Instant>,
    state: Mutex<State>,
    /// Tells the task that answers the request that its client does not wait any more.
    ended: Notify,
}

struct State {
    /// `None` once the request is answered or its client is gone.
    reply: Option<oneshot::Sender<Outcome>>,
    /// True if the request has to be asked alone, because its answer in a cohort would be another
    /// one.
    is_apart: bool,
    /// A partial answer of a cohort whose time ended before that of the request.
    spare: Option<Arc<ClusterResponse>>,
}

impl Asked {
    /// Creates a request whose time limit counts from `arrived`, and the receiver of its answer.
    pub(crate) fn new(
        request: ClusterRequest,
        arrived: Instant,
    ) -> (Arc<Self>, oneshot::Receiver<Outcome>) {
        let (reply, answer) = oneshot::channel();
        let until = request.deadline.and_then(|deadline| arrived.checked_add(deadline));
        let state = Mutex::new(State { reply: Some(reply), is_apart: false, spare: None });
        (Arc::new(Asked { request, arrived, until, state, ended: Notify::new() }), answer)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a client waits for the answer.
    pub(crate) fn is_open(&self) -> bool {
        self.state().reply.is_some()
    }

    /// Returns true if the request is still to be answered together with others.
    pub(crate) fn is_together(&self) -> bool {
        let state = self.state();
        state.reply.is_some() && !state.is_apart
    }

    /// Returns true if the request may still be answered after this time.
    pub(crate) fn is_after(&self, time: Instant) -> bool {
        self.until.is_none_or(|until| until > time)
    }

    /// Takes the request out of its cohort. It has to be asked again, alone.
    pub(crate) fn set_apart(&self, spare: Option<Arc<ClusterResponse>>) {
        let mut state = self.state();
        (state.is_apart, state.spare) = (true, spare);
    }

    /// Makes the request, which was taken out of its cohort, a cohort of its own.
    pub(crate) fn ask_alone(&self) {
        self.state().is_apart = false;
    }

    /// Answers the request, with the partial answer that is known already if it covers more. A
    /// partial answer is an error if the request does not allow one.
    pub(crate) fn give(&self, outcome: Outcome) {
        let mut state = self.state();
        let best = match (outcome, state.spare.take()) {
            (Ok(own), Some(spare)) if spare.coverage.searched > own.coverage.searched => Ok(spare),
            (Err(error), Some(spare)) if !error.is_of_the_request() => Ok(spare),
            (outcome, _) => outcome,
        };
        let best = match best {
            Ok(partial) if !self.request.allow_partial && !partial.coverage.is_complete() => {
                Err(ClusterError::Incomplete(partial.coverage.clone()))
            }
            best => best,
        };
        if let Some(reply) = state.reply.take() {
            let _ = reply.send(best);
        }
        drop(state);
        self.ended.notify_one();
    }

    /// Ends the request without an answer: its client is gone, or the task that should have
    /// answered it is.
    pub(crate) fn close(&self) {
        drop(self.state().reply.take());
        self.ended.notify_one();
    }

    /// Completes when no client waits for the answer any more. Only one task may call this at a
    /// time.
    pub(crate) async fn ended(&self) {
        while self.is_open() {
            self.ended.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::coverage::Coverage;
    use crate::serve::runtime;

    fn response(searched: u64) -> Arc<ClusterResponse> {
        let partial = if searched < 10 { vec![0] } else { Vec::new() };
        let (documents, whole_statistics) = (10, true);
        let coverage =
            Coverage { searched, documents, partial, whole_statistics, ..Coverage::default() };
        Arc::new(ClusterResponse { hits: Vec::new(), matches: None, coverage, version: 1 })
    }

    fn asked(allow_partial: bool) -> (Arc<Asked>, oneshot::Receiver<Outcome>) {
        let request = ClusterRequest { allow_partial, ..ClusterRequest::new("fig") };
        Asked::new(request, Instant::now())
    }

    #[test]
    fn the_answer_that_covers_more_is_given() {
        for (spare, own, given) in [(4, Some(3), 4), (3, Some(4), 4), (3, None, 3)] {
            let (asked, mut answer) = asked(true);
            asked.set_apart(Some(response(spare)));
            assert!(asked.is_open() && !asked.is_together());
            asked.ask_alone();
            assert!(asked.is_together());
            asked.give(own.map(response).ok_or(ClusterError::Unsettled));
            assert_eq!(answer.try_recv().unwrap().unwrap().coverage.searched, given);
            assert!(!asked.is_open());
        }
        let (asked, mut answer) = asked(false);
        asked.give(Ok(response(3)));
        assert!(matches!(answer.try_recv().unwrap(), Err(ClusterError::Incomplete(_))));
    }

    #[test]
    fn the_task_learns_that_nobody_waits() {
        runtime().unwrap().block_on(async {
            for answered in [true, false] {
                let (asked, answer) = asked(true);
                let ended = tokio::spawn({
                    let asked = asked.clone();
                    async move { asked.ended().await }
                });
                match answered {
                    true => asked.give(Ok(response(10))),
                    false => asked.close(),
                }
                ended.await.unwrap();
                assert_eq!(answer.await.is_ok(), answered);
            }
        });
    }

    #[test]
    fn a_deadline_counts_from_the_arrival() {
        let now = Instant::now();
        let limit = Duration::from_secs(3);
        let request = ClusterRequest { deadline: Some(limit), ..ClusterRequest::new("fig") };
        assert_eq!(Asked::new(request.clone(), now).0.until, Some(now + limit));
        let endless = ClusterRequest { deadline: Some(Duration::MAX), ..request };
        assert_eq!(Asked::new(endless, now).0.until, None);
    }
}
