//! Admission: predicts whether a request can be answered in time, and how long it has to wait.

use super::job::{Job, Nanos};
use super::station::{HARDLY_HELPS, Prospect, StationState};

/// The refusal of a request that cannot be answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Expected time until its answer; none if no station can answer the request at all.
    pub wait: Option<Nanos>,
}

/// The state of the stations that admission needs. The service keeps a copy beside its inbox, so
/// that a submitting thread does not wait for the scheduler.
#[derive(Clone, Debug, Default)]
pub struct Outlook {
    /// State of each station, and the time that its servers need for the requests before one that
    /// comes now.
    pub(super) stations: Vec<(StationState, Nanos)>,
    /// Ratio of actual to expected waits.
    pub(super) waits: f64,
    /// True if every request waits for all others.
    pub(super) is_single: bool,
}

impl Outlook {
    /// Returns how long a request is expected to wait. Refuses a request that could not be
    /// answered in time.
    pub fn admit(&self, job: &Job, now: Nanos) -> Result<Nanos, Refused> {
        let costs = || {
            let costs = self.stations.iter().zip(&job.costs);
            costs.filter_map(|((state, queued), cost)| {
                Some((state, *queued, (*cost)?, state.share((*cost)?)))
            })
        };
        // A station that is much slower than another takes the request only if the other one is
        // stuck.
        let works = costs().filter(|(state, ..)| !state.is_stuck(now));
        let best = works.map(|(.., share)| share).fold(f64::INFINITY, f64::min);
        let able = costs().filter(|(.., share)| *share <= HARDLY_HELPS * best.max(1.0));
        let (mut shortest, mut answered, mut is_in_time) = (None, None, false);
        let least = |a: Option<Nanos>, b: Nanos| Some(a.map_or(b, |a| a.min(b)));
        for (state, queued, cost, _) in able {
            let Prospect { wait, rest, caution } = state.prospect(cost, job, queued, now);
            shortest = least(shortest, wait);
            answered = least(answered, wait.saturating_add(rest));
            let time = wait as f64 * self.waits * caution.0 + rest as f64 * caution.1;
            let end = now.saturating_add(time as Nanos);
            is_in_time |= job.deadline.is_none_or(|deadline| end < deadline);
        }
        match shortest {
            Some(wait) if is_in_time => Ok(wait),
            _ => Err(Refused { wait: answered }),
        }
    }

    /// Adds a request that was admitted and now waits. Returns the station that it suits best.
    pub fn add(&mut self, job: &Job) -> Option<usize> {
        let share = |(s, ((state, _), cost)): (usize, (&(StationState, Nanos), &Option<Nanos>))| {
            Some((s, state.scaled((*cost)?), state.share((*cost)?)))
        };
        let shares = self.stations.iter().zip(&job.costs).enumerate().filter_map(share);
        let (station, cost, _) = shares.min_by(|a, b| a.2.total_cmp(&b.2))?;
        for (s, (_, queued)) in self.stations.iter_mut().enumerate() {
            if s == station || self.is_single {
                *queued += cost.max(1);
            }
        }
        Some(station)
    }
}
