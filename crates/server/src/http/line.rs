//! The line of jobs that wait for their turn. It has no clock and no threads: its caller passes
//! times, so that tests decide what time it is.
//!
//! The order is that of the library's scheduler (`due`): a job is due after eight times its
//! expected cost, after 100 ms at the latest, and early enough for its deadline. So short jobs
//! overtake long ones, and jobs near their deadline overtake all. A job that arrives after another
//! one's due time is due later, so none starves.

use std::collections::BTreeMap;

use warpseek::service::{Nanos, due};

/// What the line knows of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Time of arrival.
    pub(crate) arrived: Nanos,
    /// Expected time of the work itself.
    pub(crate) cost: Nanos,
    /// Time by which the job must be done, if there is one.
    pub(crate) deadline: Option<Nanos>,
}

/// The place of a job in the line: its due time and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(Nanos, u64);

/// The waiting jobs with their costs, in their order.
pub(crate) struct Line<J> {
    jobs: BTreeMap<Place, (Nanos, J)>,
    next_number: u64,
}

impl<J> Default for Line<J> {
    fn default() -> Self {
        Line { jobs: BTreeMap::new(), next_number: 0 }
    }
}

impl<J> Line<J> {
    /// Returns the number of jobs.
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Returns true if a job that comes now cannot be done by its deadline: the `servers` still
    /// have to do too many jobs before it.
    pub(crate) fn is_late(&self, turn: &Turn, servers: usize, now: Nanos) -> bool {
        let Some(deadline) = turn.deadline else { return false };
        let place = Place(due_time(turn), self.next_number);
        let before: Nanos = self.jobs.range(..place).map(|(_, (cost, _))| cost).sum();
        now.saturating_add(before / servers.max(1) as u64) >= deadline
    }

    /// Adds a job and returns its place.
    pub(crate) fn enter(&mut self, turn: &Turn, job: J) -> Place {
        let place = Place(due_time(turn), self.next_number);
        self.next_number += 1;
        self.jobs.insert(place, (turn.cost, job));
        place
    }

    /// Removes the job at a place, unless its turn has come already.
    pub(crate) fn leave(&mut self, place: Place) -> Option<J> {
        self.jobs.remove(&place).map(|(_, job)| job)
    }

    /// Removes the job whose turn it is.
    pub(crate) fn next(&mut self) -> Option<J> {
        self.jobs.pop_first().map(|(_, (_, job))| job)
    }
}

fn due_time(turn: &Turn) -> Nanos {
    due(turn.arrived, turn.cost, turn.deadline)
}

#[cfg(test)]
mod tests {
    use warpseek::service::PATIENCE;

    use super::*;

    const MS: Nanos = 1_000_000;

    fn turn(arrived: Nanos, cost: Nanos) -> Turn {
        Turn { arrived, cost, deadline: None }
    }

    /// Returns the jobs of a line in their order.
    fn order(mut line: Line<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| line.next()).collect()
    }

    #[test]
    fn short_jobs_overtake_long_ones() {
        let mut line = Line::default();
        line.enter(&turn(0, 10 * MS), "long");
        line.enter(&turn(MS, MS), "short");
        line.enter(&turn(2 * MS, MS), "next short");
        line.enter(&turn(3 * MS, 50 * MS), "longer");
        line.enter(&turn(200 * MS, 0), "much later");
        assert_eq!(order(line), ["short", "next short", "long", "longer", "much later"]);
    }

    #[test]
    fn jobs_of_equal_cost_keep_their_order() {
        let mut line = Line::default();
        let names = ["a", "b", "c", "d"];
        for name in names {
            line.enter(&turn(5, MS), name);
        }
        assert_eq!(order(line), names);
    }

    #[test]
    fn jobs_near_their_deadline_come_first() {
        let mut line = Line::default();
        line.enter(&turn(0, MS), "patient");
        line.enter(&Turn { deadline: Some(900 * MS), ..turn(0, MS) }, "far");
        line.enter(&Turn { deadline: Some(20 * MS), ..turn(0, 10 * MS) }, "near");
        line.enter(&Turn { deadline: Some(3 * MS), ..turn(MS, MS) }, "nearest");
        assert_eq!(order(line), ["nearest", "near", "patient", "far"]);
    }

    #[test]
    fn no_job_starves() {
        // Short jobs arrive faster than they can be done, and a long one waits among them.
        let (mut line, mut now) = (Line::default(), 0);
        line.enter(&turn(0, 500 * MS), "long");
        let done = loop {
            line.enter(&turn(now, MS), "short");
            line.enter(&turn(now, MS), "short");
            match line.next() {
                Some("long") => break now,
                _ => now += MS,
            }
            assert!(now < 1000 * MS, "the long job starves");
        };
        // All shorter jobs before it had arrived before it was due.
        assert!(done >= PATIENCE / 2, "{done}");
        assert!(line.len() as u64 <= 2 * PATIENCE / MS + 2);
    }

    #[test]
    fn jobs_that_cannot_be_done_in_time_are_late() {
        let mut line = Line::default();
        for _ in 0..10 {
            line.enter(&turn(0, 4 * MS), "job");
        }
        let by = |deadline| Turn { deadline: Some(deadline), ..turn(40 * MS, MS) };
        // Ten jobs before it take 20 ms with two servers.
        assert!(line.is_late(&by(60 * MS), 2, 40 * MS));
        assert!(!line.is_late(&by(61 * MS), 2, 40 * MS));
        assert!(!line.is_late(&turn(40 * MS, MS), 2, 40 * MS));
        assert!(line.is_late(&by(61 * MS), 1, 40 * MS));
        // A job that is due before the others does not wait for them.
        let first = Turn { deadline: Some(5 * MS), ..turn(0, MS) };
        assert!(!line.is_late(&first, 1, MS) && line.is_late(&first, 1, 5 * MS));
    }

    #[test]
    fn those_who_leave_do_not_count() {
        let mut line = Line::default();
        let gone = line.enter(&turn(0, 9 * MS), "gone");
        line.enter(&turn(0, MS), "there");
        let late = Turn { deadline: Some(98 * MS), ..turn(0, 10 * MS) };
        assert!(line.is_late(&late, 1, 90 * MS));
        assert_eq!((line.leave(gone), line.leave(gone)), (Some("gone"), None));
        assert!(!line.is_late(&late, 1, 90 * MS));
        assert_eq!(order(line), ["there"]);
    }
}
