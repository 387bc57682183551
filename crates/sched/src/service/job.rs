//! A request as the scheduler sees it, and the times that it computes with.

use std::time::Duration;

/// A time or a duration in nanoseconds.
pub type Nanos = u64;

/// Returns a duration in nanoseconds, or the maximum if it is too long.
pub(super) fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}

/// The properties of a request that the scheduler uses.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Number of the request, which no other request has.
    pub id: u64,
    /// Time of arrival.
    pub arrived: Nanos,
    /// Time by which the request must be answered.
    pub deadline: Option<Nanos>,
    /// Cost that the request adds to a batch of each station; none if the station cannot answer
    /// it.
    pub costs: Vec<Option<Nanos>>,
    /// Group of the request. Requests of different groups, such as those for different snapshots,
    /// never share a batch.
    pub group: u64,
}

impl Job {
    /// Returns the time from arrival to deadline.
    pub(super) fn time(&self) -> Nanos {
        self.deadline.map_or(Nanos::MAX, |deadline| deadline.saturating_sub(self.arrived))
    }
}
