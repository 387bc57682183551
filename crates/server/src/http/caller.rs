//! Who waits for an answer: since when, and whether they are still there. What is done for them stops when they are gone or their time is up.

use std::time::{Duration, Instant};

use metrics::counter;
use warpseek::{Cancel, Limit, Request};

use crate::error::{Failure, Kind};

/// Whoever sent a request. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// When the request was there: limits of time count from here.
    pub(crate) arrived: Instant,
    /// Set when the connection is gone before the answer is there.
    gone: Cancel,
    /// When work that nobody else can be done beside is given up, to be done elsewhere.
    hurry: Option<Instant>,
}

impl Caller {
    /// One whose request is there now, and who is gone when the flag is set.
    pub(crate) fn new(gone: Cancel) -> Self {
        Caller { arrived: Instant::now(), gone, hurry: None }
    }

    /// The same caller, for an attempt that must not take longer than this: after it, [`Caller::check`] fails with [`Kind::HandOver`].
    pub(crate) fn hurried(&self, time: Duration) -> Self {
        Caller { hurry: Some(Instant::now() + time), ..self.clone() }
    }

    /// When work for a request has to stop that may take this long, or as long as it needs.
    pub(crate) fn limit(&self, time: Option<Duration>) -> Limit {
        let limit = match time {
            Some(time) => Limit::none().after(self.arrived, time),
            None => Limit::none(),
        };
        let limit = limit.cancelled_by(self.gone.clone());
        match self.hurry {
            Some(hurry) if limit.deadline().is_none_or(|deadline| hurry < deadline) => {
                limit.until(hurry)
            }
            _ => limit,
        }
    }

    /// Fails if nobody waits for the answer any more, or if the work under this limit is to be done elsewhere. What was found under the limit until then is of no use.
    pub(crate) fn check(&self, limit: &Limit) -> Result<(), Failure> {
        if self.gone.is_set() {
            return Err(Failure::new(
                Kind::Gone,
                "the client has left before the answer was there",
            ));
        }
        match self.hurry {
            Some(hurry) if limit.deadline() == Some(hurry) && limit.is_over() => {
                Err(Failure::new(Kind::HandOver, "the work takes longer than it may here"))
            }
            _ => Ok(()),
        }
    }
}

/// Keeps a flag from being set as long as this is there. Who drops it without an answer has left.
#[derive(Debug)]
pub(crate) struct Presence(Option<Cancel>);

impl Presence {
    pub(crate) fn of(gone: Cancel) -> Self {
        Presence(Some(gone))
    }

    /// The answer is there, so that nothing is to be stopped. What goes on after it was not waited for.
    pub(crate) fn answered(mut self) {
        self.0 = None;
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if let Some(gone) = &self.0 {
            counter!("warpseek_abandoned_requests_total").increment(1);
            gone.set();
        }
    }
}

/// A request under a limit, of whose time this is left. Requests that are asked together have the same time left.
pub(crate) fn under(request: Request, limit: &Limit, left: Option<Duration>) -> Request {
    Request { deadline: left, cancel: limit.cancel().cloned(), ..request }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn whoever_leaves_before_the_answer_is_gone() {
        let (gone, there) = (Cancel::new(), Cancel::new());
        let (left, stayed) = (Caller::new(gone.clone()), Caller::new(there.clone()));
        drop(Presence::of(gone));
        Presence::of(there).answered();
        let limit = left.limit(None);
        assert!(limit.is_over() && !stayed.limit(None).is_over());
        assert_eq!(left.check(&limit).unwrap_err().kind, Kind::Gone);
        assert!(stayed.check(&stayed.limit(None)).is_ok());
    }

    #[test]
    fn a_hurried_attempt_ends_early_and_keeps_shorter_limits() {
        let caller = Caller::new(Cancel::new());
        let hurried = caller.hurried(Duration::ZERO);
        let limit = hurried.limit(Some(HOUR));
        assert!(limit.is_over());
        assert_eq!(hurried.check(&limit).unwrap_err().kind, Kind::HandOver);
        assert!(!caller.limit(Some(HOUR)).is_over());
        // Its own time is shorter: its answer is the one that is shown.
        let calm = caller.hurried(HOUR);
        let limit = calm.limit(Some(Duration::ZERO));
        assert!(limit.is_over() && calm.check(&limit).is_ok());
    }
}
