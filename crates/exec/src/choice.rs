//! The choice of an algorithm and of a device: the only place where it is made. Engines say what they can do and what it costs; the least costly wins.

use std::time::Duration;

use crate::cost::{Load, Rates};
use crate::plan::Plan;

/// A way to answer a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Its name.
    pub algorithm: &'static str,
    /// What it costs, or why it cannot answer the plan.
    pub rates: Result<Rates, &'static str>,
    /// Why it would be the right one.
    pub why: &'static str,
}

/// The candidate that answers a query of this load soonest; the first of those that are equal.
pub fn cheapest<'a>(candidates: &'a [Candidate], load: &Load) -> Option<&'a Candidate> {
    let mut best: Option<(&Candidate, f64)> = None;
    for candidate in candidates {
        let Ok(rates) = &candidate.rates else { continue };
        let time = rates.marginal(load);
        if best.is_none_or(|(_, least)| time < least) {
            best = Some((candidate, time));
        }
    }
    best.map(|(candidate, _)| candidate)
}

/// Whether the first of two ways to answer a batch is to be taken; it is if both take the same.
pub fn is_sooner(first: Duration, second: Duration) -> bool {
    first <= second
}

/// How an engine answers a plan, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Choice {
    /// `CPU`, or the name of a GPU.
    pub device: String,
    /// The algorithm there.
    pub algorithm: String,
    /// Why this one; the same for all plans that have the same reason.
    pub why: String,
}

/// An algorithm, and how long a batch should take by it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer {
    /// Its name.
    pub algorithm: &'static str,
    /// For the queries that it can answer; none if there is none.
    pub time: Option<Duration>,
    /// Why it does not answer all of them.
    pub why_not: Option<&'static str>,
}

/// How long an engine should take for a batch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Estimate {
    /// What the batch asks for.
    pub load: Load,
    /// Each query by the algorithm that is best for it.
    pub time: Duration,
    /// Every query by the same algorithm, for each.
    pub offers: Vec<Offer>,
}

impl Estimate {
    /// What a batch takes, from each plan's candidates, which are the same algorithms in the same order for all plans.
    pub fn new<'a>(
        plans: impl IntoIterator<Item = &'a Plan>,
        threads: usize,
        candidates: impl Fn(&Plan) -> Vec<Candidate>,
    ) -> Self {
        // Rates differ by mode; what is alike is summed up before it is priced, since a batch has its own cost.
        let mut groups: Vec<Group> = Vec::new();
        let mut all = Load::default();
        for plan in plans {
            let (load, of) = (Load::of(plan), candidates(plan));
            all += load;
            let chosen = cheapest(&of, &load).map(|candidate| candidate.algorithm);
            for (number, candidate) in of.iter().enumerate() {
                let same = |group: &&mut Group| {
                    group.number == number && group.candidate.rates == candidate.rates
                };
                let group = match groups.iter_mut().find(same) {
                    Some(group) => group,
                    None => {
                        groups.push(Group {
                            number,
                            candidate: *candidate,
                            load: Load::default(),
                            chosen: Load::default(),
                        });
                        let last = groups.len() - 1;
                        &mut groups[last]
                    }
                };
                group.load += load;
                if chosen == Some(candidate.algorithm) {
                    group.chosen += load;
                }
            }
        }
        let mut offers: Vec<Offer> = Vec::new();
        let mut time = 0.0;
        groups.sort_by_key(|group| group.number);
        for group in &groups {
            let algorithm = group.candidate.algorithm;
            if offers.len() <= group.number {
                offers.push(Offer { algorithm, time: None, why_not: None });
            }
            let offer = &mut offers[group.number];
            match group.candidate.rates {
                Ok(rates) => {
                    time += rates.time(&group.chosen, threads);
                    let more = nanoseconds(rates.time(&group.load, threads));
                    offer.time = Some(offer.time.unwrap_or_default() + more);
                }
                Err(why) => offer.why_not = Some(why),
            }
        }
        Estimate { load: all, time: nanoseconds(time), offers }
    }

    /// Adds the estimate of another batch by the same engine.
    pub fn add(&mut self, other: &Estimate) {
        self.load += other.load;
        self.time += other.time;
        if self.offers.is_empty() {
            self.offers.clone_from(&other.offers);
            return;
        }
        for (sum, more) in self.offers.iter_mut().zip(&other.offers) {
            sum.time = match (sum.time, more.time) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            };
            sum.why_not = sum.why_not.or(more.why_not);
        }
    }
}

/// Plans for which a candidate has the same rates.
struct Group {
    number: usize,
    candidate: Candidate,
    load: Load,
    /// Of the plans for which it is the best.
    chosen: Load,
}

fn nanoseconds(time: f64) -> Duration {
    Duration::from_nanos(time as u64)
}
