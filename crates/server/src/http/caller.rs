//! The client that waits for an answer. Its work stops when the client disconnects or its time is
//! up.

use std::time::{Duration, Instant};

use metrics::counter;
use warpseek::Request;
use warpseek::query::{Cancel, Limit};

use crate::error::{Failure, Kind};
use crate::http::costs::RequestKind;

/// The client of a request. Clones refer to the same client.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Arrival time of the request, from which time limits count.
    pub(crate) arrived: Instant,
    /// Set when the client disconnects before it has its answer.
    gone: Cancel,
    /// Time at which an attempt on a connection thread is abandoned and moved to another thread.
    hurry: Option<Instant>,
    /// True if the time of the request was up before its turn came.
    is_late: bool,
    /// Kind of the request, which tells how long it is expected to take.
    pub(crate) kind: RequestKind,
}

impl Caller {
    /// Creates a caller whose request arrives now. The client counts as gone once `gone` is set.
    pub(crate) fn new(gone: Cancel) -> Self {
        let kind = RequestKind::default();
        Caller { arrived: Instant::now(), gone, hurry: None, is_late: false, kind }
    }

    /// Returns the same caller for an attempt that must not take longer than `time`. After that,
    /// [`Caller::check`] fails with [`Kind::HandOver`].
    pub(crate) fn hurried(&self, time: Duration) -> Self {
        Caller { hurry: Some(Instant::now() + time), ..self.clone() }
    }

    /// Returns the same caller for a request whose time was up before its turn came.
    pub(crate) fn late(&self) -> Self {
        Caller { is_late: true, ..self.clone() }
    }

    /// Returns the limit of work that may take `time`, or as long as it needs for `None`.
    pub(crate) fn limit(&self, time: Option<Duration>) -> Limit {
        let limit = match time {
            Some(time) => Limit::none().after(self.arrived, time),
            None => Limit::none(),
        };
        let limit = limit.cancelled_by(self.gone.clone());
        if self.is_late {
            return limit.until(self.arrived);
        }
        match self.hurry {
            Some(hurry) if limit.deadline().is_none_or(|deadline| hurry < deadline) => {
                limit.until(hurry)
            }
            _ => limit,
        }
    }

    /// Fails if the client has disconnected, or if this work has to move to another thread.
    /// Results found under the limit are then to be discarded.
    pub(crate) fn check(&self, limit: &Limit) -> Result<(), Failure> {
        if self.gone.is_set() {
            return Err(Failure::new(
                Kind::Gone,
                "the client disconnected before the answer was ready",
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

/// Guard that sets a client's flag when it is dropped before the answer is ready.
#[derive(Debug)]
pub(crate) struct Presence(Option<Cancel>);

impl Presence {
    pub(crate) fn of(gone: Cancel) -> Self {
        Presence(Some(gone))
    }

    /// Disarms the guard: the answer is ready, and work that continues afterwards must not be
    /// cancelled.
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

/// Puts a request under a limit with this much time left. Requests that run together share the
/// value.
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
        // A late caller has no time left, and its result is to be shown.
        let late = caller.late();
        let limit = late.limit(Some(HOUR));
        assert!(limit.is_over() && late.check(&limit).is_ok());
        // The caller's deadline is shorter, so its result is the one to show.
        let calm = caller.hurried(HOUR);
        let limit = calm.limit(Some(Duration::ZERO));
        assert!(limit.is_over() && calm.check(&limit).is_ok());
    }
}
