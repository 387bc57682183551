//! Scores that the parts of one search share, so that each part can leave out documents that the
//! hits of another have already beaten.
//!
//! If a part has found k documents that score at least s, no document that scores less is among
//! the best k of all parts. Scores are integers and every engine computes the same ones, so this
//! holds whichever device found the documents. A document that scores exactly s can still be a
//! hit, if its id is smaller than that of another; parts therefore leave out lower scores only.
//!
//! A floor only rises, so it does not matter when a part reads it: an old value excludes less.
//! A caller that merges the parts must keep the hits of all of them, also if a part had to stop: a
//! part publishes only scores of documents that its answer covers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use warpseek_core::{Hit, Score};

use crate::mode::Mode;
use crate::plan::Plan;

/// A score that at least k documents of a query are known to reach.
#[derive(Debug, Default)]
pub struct Floor(AtomicU32);

impl Floor {
    /// Returns a score that at least k documents reach, or 0 if none is known.
    #[inline]
    pub fn reached(&self) -> Score {
        self.0.load(Ordering::Relaxed)
    }

    /// Publishes a score that k documents reach.
    #[inline]
    pub fn raise(&self, reached: Score) {
        if reached > self.reached() {
            self.0.fetch_max(reached, Ordering::Relaxed);
        }
    }

    /// Returns a key that all hits exceed, in the order of [`warpseek_core::Hit::key`].
    pub fn least_key(&self) -> u64 {
        (u64::from(self.reached()) << 32).saturating_sub(1)
    }
}

/// The floors of the plans of a batch. Plans are identified by their addresses, which stay the
/// same while the batch is searched.
#[derive(Debug, Default)]
pub struct Floors(HashMap<usize, Arc<Floor>>);

impl Floors {
    /// Creates a floor for each plan for which parts can share one: hits must be ordered by score
    /// alone, and the scores of parts must be those of the merged hits.
    pub fn new(plans: &[&Plan]) -> Self {
        let shares = |plan: &Plan| {
            plan.k > 0 && plan.mode != Mode::AndOr && plan.tree.is_none() && plan.gather.is_none()
        };
        let shared = plans.iter().filter(|plan| shares(plan));
        Floors(shared.map(|plan| (address(plan), Arc::default())).collect())
    }

    /// Returns the floor of a plan, if it has one.
    pub fn of(&self, plan: &Plan) -> Option<&Arc<Floor>> {
        self.0.get(&address(plan))
    }

    /// Publishes the score of the worst hit, if there are as many hits as the plan requests.
    pub fn publish(&self, plan: &Plan, hits: &[Hit]) {
        if let Some(floor) = self.of(plan)
            && hits.len() >= plan.k
            && let Some(worst) = hits.last()
        {
            floor.raise(worst.score);
        }
    }
}

fn address(plan: &Plan) -> usize {
    std::ptr::from_ref(plan).addr()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use warpseek_testkit::{Doc, Fixture};

    use super::*;
    use crate::plan::Planner;
    use crate::query::Query;
    use crate::ranking::Ranking;

    #[test]
    fn a_floor_rises_and_keeps_ties() {
        let floor = Floor::default();
        assert_eq!((floor.reached(), floor.least_key()), (0, 0));
        floor.raise(7);
        floor.raise(5);
        assert_eq!(floor.reached(), 7);
        let key = |doc, score| Hit { doc, score }.key();
        assert!(key(u32::MAX - 1, 7) > floor.least_key() && key(0, 6) <= floor.least_key());
    }

    #[test]
    fn a_plan_has_a_floor_of_its_own() {
        let fixture = Fixture::of(&[Doc::text(0, "apple")]);
        let planner = Planner::new(fixture.snapshot(), Ranking::default()).unwrap();
        let plan = |k, mode| planner.plan(&Query::of([("appl", 1.0)]), mode, k).unwrap();
        let plans =
            [plan(1, Mode::Or), plan(2, Mode::And), plan(1, Mode::AndOr), plan(0, Mode::Or)];
        let floors = Floors::new(&plans.iter().collect::<Vec<_>>());
        assert!(floors.of(&plans[2]).is_none() && floors.of(&plans[3]).is_none());
        assert!(floors.of(&plans[0].clone()).is_none());
        let hits = [Hit { doc: 0, score: 9 }];
        plans.iter().for_each(|plan| floors.publish(plan, &hits));
        assert_eq!(floors.of(&plans[0]).unwrap().reached(), 9);
        assert_eq!(floors.of(&plans[1]).unwrap().reached(), 0, "one hit is not two");
    }
}
