//! The choice of an algorithm and a device. Engines only report which plans they can answer and at
//! what cost; this module chooses the cheapest candidate.

use std::time::Duration;

use crate::cost::{Load, Rates};
use crate::plan::Plan;

/// A way to answer a plan: an algorithm and its cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Name of the algorithm.
    pub algorithm: &'static str,
    /// The cost of the algorithm, or the reason why it cannot answer the plan.
    pub rates: Result<Rates, &'static str>,
    /// The reason to choose the algorithm.
    pub why: &'static str,
}

/// The reason to choose an algorithm that the user asked for.
pub const ASKED_FOR: &str = "asked for";

/// Returns the candidate that answers a query of this load fastest; of equally fast ones, the
/// first.
pub fn cheapest<'a>(candidates: &'a [Candidate], load: &Load) -> Option<&'a Candidate> {
    cheapest_of(candidates, |candidate| candidate, load)
}

/// Returns the item whose candidate answers a query of this load fastest; of equally fast ones,
/// the first.
pub fn cheapest_of<'a, T>(
    things: &'a [T],
    candidate: impl Fn(&T) -> &Candidate,
    load: &Load,
) -> Option<&'a T> {
    let mut best: Option<(&T, f64)> = None;
    for thing in things {
        let Ok(rates) = &candidate(thing).rates else { continue };
        let time = rates.marginal(load);
        if best.is_none_or(|(_, least)| time < least) {
            best = Some((thing, time));
        }
    }
    best.map(|(thing, _)| thing)
}

/// Returns true if the first of two ways to answer a batch should be chosen, which is also the
/// case if both take the same time.
pub fn is_not_slower(first: Duration, second: Duration) -> bool {
    first <= second
}

/// The way in which an engine answers a plan, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Choice {
    /// `CPU`, or the name of a GPU.
    pub device: String,
    /// The algorithm.
    pub algorithm: String,
    /// The reason; the text is the same for all plans that have the same reason.
    pub why: String,
}

impl Choice {
    /// Returns true if the user asked for the algorithm.
    pub fn is_asked_for(&self) -> bool {
        self.why == ASKED_FOR
    }
}

/// An algorithm and its expected time for a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer {
    /// Name of the algorithm.
    pub algorithm: &'static str,
    /// Expected time for the queries that the algorithm can answer; `None` if it can answer none.
    pub time: Option<Duration>,
    /// The reason why the algorithm cannot answer the other queries.
    pub why_not: Option<&'static str>,
}

/// The time that an engine is expected to take for a batch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Estimate {
    /// The load of the batch.
    pub load: Load,
    /// Time if each query is answered by the best algorithm for it.
    pub time: Duration,
    /// Time of each algorithm for the queries that it can answer.
    pub offers: Vec<Offer>,
}

impl Estimate {
    /// Estimates a batch from the candidates of each plan, which must be the same algorithms in
    /// the same order for all plans.
    pub fn new<'a>(
        plans: impl IntoIterator<Item = &'a Plan>,
        threads: usize,
        candidates: impl Fn(&Plan) -> Vec<Candidate>,
    ) -> Self {
        // Rates differ by mode. Plans with equal rates are added up before their time is
        // computed, because each batch has a fixed cost.
        let mut groups: Vec<Group> = Vec::new();
        let mut all = Load::default();
        for plan in plans {
            let (load, plan_candidates) = (Load::of(plan), candidates(plan));
            all += load;
            let chosen = cheapest(&plan_candidates, &load).map(|candidate| candidate.algorithm);
            for (number, candidate) in plan_candidates.iter().enumerate() {
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

/// Returns the expected time of a batch in which each plan has the given rates. It equals the
/// time of [`Estimate::new`] for the cheapest candidates, without the rest of the estimate.
pub fn batch_time<'a>(
    plans: impl IntoIterator<Item = &'a Plan>,
    threads: usize,
    rates: impl Fn(&Plan, &Load) -> Option<Rates>,
) -> Duration {
    // There are few different rates, so a list is fast enough.
    let mut groups: Vec<(Rates, Load)> = Vec::new();
    for plan in plans {
        let load = Load::of(plan);
        let Some(rates) = rates(plan, &load) else { continue };
        match groups.iter_mut().find(|(same, _)| *same == rates) {
            Some((_, sum)) => *sum += load,
            None => groups.push((rates, load)),
        }
    }
    nanoseconds(groups.iter().map(|(rates, load)| rates.time(load, threads)).sum())
}

/// A candidate and the plans for which it has the same rates.
struct Group {
    number: usize,
    candidate: Candidate,
    load: Load,
    /// Load of the plans for which the candidate is the best.
    chosen: Load,
}

fn nanoseconds(time: f64) -> Duration {
    Duration::from_nanos(time as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::LazyLock;

    use proptest::prelude::*;
    use warpseek_testkit::{Doc, Fixture};

    use super::*;
    use crate::mode::Mode;
    use crate::plan::Planner;
    use crate::query::Query;
    use crate::ranking::Ranking;

    /// Returns a plan of two terms with these document frequencies.
    fn plan(mode: Mode, dfs: [u64; 2]) -> Plan {
        static PLAN: LazyLock<Plan> = LazyLock::new(|| {
            let snapshot = Fixture::of(&[Doc::text(0, "a1 a2")]).snapshot();
            let planner = Planner::new(snapshot, Ranking::default()).unwrap();
            let terms = ["a1", "a2"].map(|word| (word, 1.0));
            planner.plan(&Query::of(terms), Mode::Or, 10).unwrap()
        });
        let mut plan = Plan { mode, ..PLAN.clone() };
        plan.terms.iter_mut().zip(dfs).for_each(|(term, df)| term.df = df);
        plan
    }

    fn candidate(algorithm: &'static str, rates: Result<Rates, &'static str>) -> Candidate {
        Candidate { algorithm, rates, why: ASKED_FOR }
    }

    const PRUNED: Rates = Rates::device(57_000.0, 2_000.0, 0.0007, 7.0);
    const PRUNED_AND: Rates = Rates::device(46_000.0, 2_000.0, 0.0004, 2.4);
    const TILES: Rates = Rates::device(83_000.0, 2_000.0, 0.0028, 7.0);

    /// Returns candidates like those of a GPU: one with other rates for AND that does not count
    /// matches, one that answers everything, and one that answers AND only.
    fn candidates(plan: &Plan) -> Vec<Candidate> {
        let pruned = match plan.mode {
            _ if plan.count => Err("matches are counted"),
            Mode::And => Ok(PRUNED_AND),
            Mode::Or | Mode::AndOr => Ok(PRUNED),
        };
        let intersect =
            if plan.mode == Mode::And { Ok(TILES) } else { Err("it answers AND alone") };
        vec![
            candidate("pruned", pruned),
            candidate("tiles", Ok(TILES)),
            candidate("intersect", intersect),
        ]
    }

    fn estimate(plans: &[&Plan]) -> Estimate {
        Estimate::new(plans.iter().copied(), 16, candidates)
    }

    fn offer(estimate: &Estimate, algorithm: &str) -> Offer {
        *estimate.offers.iter().find(|offer| offer.algorithm == algorithm).unwrap()
    }

    #[test]
    fn the_cheapest_candidate_that_can_answer_is_chosen() {
        let load = Load::of(&plan(Mode::Or, [5, 900_000]));
        let chosen = |candidates: &[Candidate]| cheapest(candidates, &load).map(|c| c.algorithm);
        // The cost per batch does not decide, because a query is one of many.
        let [fast, slow] = [Rates::device(1e9, 1.0, 0.0, 0.0), Rates::device(0.0, 2.0, 0.0, 0.0)];
        let [a, b] = [candidate("a", Ok(slow)), candidate("b", Ok(fast))];
        assert_eq!(chosen(&[a, b]), Some("b"));
        assert_eq!(chosen(&[b, a]), Some("b"));
        let same = candidate("c", Ok(fast));
        assert_eq!((chosen(&[b, same]), chosen(&[same, b])), (Some("b"), Some("c")), "the first");
        let cannot = candidate("d", Err("it cannot"));
        assert_eq!((chosen(&[cannot, a]), chosen(&[a, cannot])), (Some("a"), Some("a")));
        assert_eq!((chosen(&[cannot]), chosen(&[])), (None, None));
        let nonsense = candidate("e", Ok(Rates::device(0.0, f64::NAN, 0.0, 0.0)));
        assert_eq!(chosen(&[a, nonsense]), Some("a"));
        let [ms, us] = [Duration::from_millis(1), Duration::from_micros(1)];
        assert!(is_not_slower(us, ms) && is_not_slower(us, us) && !is_not_slower(ms, us));
    }

    #[test]
    fn estimates_consider_only_algorithms_that_can_answer() {
        let (or, and) = (plan(Mode::Or, [5, 900_000]), plan(Mode::And, [5, 900_000]));
        let counted = Plan { count: true, ..or.clone() };
        let best = |plan: &Plan| cheapest(&candidates(plan), &Load::of(plan)).unwrap().algorithm;
        assert_eq!([best(&or), best(&and), best(&counted)], ["pruned", "pruned", "tiles"]);
        let one = estimate(&[&counted]);
        assert_eq!(offer(&one, "pruned").why_not, Some("matches are counted"));
        assert_eq!((offer(&one, "pruned").time, offer(&one, "tiles").why_not), (None, None));
        assert_eq!(offer(&one, "tiles").time, Some(one.time));
        // In a batch each query gets the algorithm that suits it. An algorithm that cannot answer
        // all queries reports that, and its time for the others.
        let mixed = estimate(&[&or, &counted]);
        assert_eq!(mixed.time, estimate(&[&or]).time + one.time);
        let pruned = offer(&mixed, "pruned");
        assert_eq!(pruned.time, Some(estimate(&[&or]).time));
        assert_eq!(pruned.why_not, Some("matches are counted"));
        let intersect = offer(&estimate(&[&or, &and]), "intersect");
        assert_eq!(intersect.time, offer(&estimate(&[&and]), "intersect").time);
        assert_eq!(intersect.why_not, Some("it answers AND alone"));
        // If no algorithm can answer, the time is 0 and nothing is offered.
        let cannot = |_: &Plan| vec![candidate("d", Err("it cannot"))];
        let nobody = Estimate::new([&or], 1, cannot);
        assert_eq!((nobody.time, nobody.load), (Duration::ZERO, Load::of(&or)));
        assert_eq!((nobody.offers[0].time, nobody.offers[0].why_not), (None, Some("it cannot")));
        assert_eq!(estimate(&[]), Estimate::default());
    }

    /// Checks that the cost of a batch is counted once for each algorithm and each kind of query.
    #[test]
    fn queries_of_a_batch_are_priced_together() {
        let (or, and) = (plan(Mode::Or, [5, 900_000]), plan(Mode::And, [5, 900_000]));
        let many = estimate(&[&or; 100]);
        let expected = PRUNED.time(&Load::sum([&or; 100]), 16);
        assert_eq!(many.time, Duration::from_nanos(expected as u64));
        assert_eq!((many.load.queries, many.load.postings), (100, 90_000_500));
        assert_eq!((many.load.longest, many.load.hits), (900_005, 1000));
        assert!(many.time < 100 * estimate(&[&or]).time);
        let time_of = |plan| estimate(&[plan]).time;
        assert_eq!(estimate(&[&or, &and, &or, &and]).time, {
            let [or, and] =
                [PRUNED.time(&Load::sum([&or; 2]), 16), PRUNED_AND.time(&Load::sum([&and; 2]), 16)];
            Duration::from_nanos((or + and) as u64)
        });
        // AND-then-OR has the same rates as OR, so they share a batch.
        let and_or = plan(Mode::AndOr, [5, 900_000]);
        assert!(estimate(&[&or, &and_or]).time < time_of(&or) + time_of(&and_or));
        // CPU threads share the queries.
        let thread = |_: &Plan| vec![candidate("cpu", Ok(Rates::thread(5_000.0, 3.0)))];
        let time = |threads| Estimate::new([&or; 8], threads, thread).time;
        assert_eq!((time(4), time(8)), (time(1) / 4, time(1) / 8));
    }

    #[test]
    fn estimates_add_up() {
        let (or, and) = (plan(Mode::Or, [5, 900_000]), plan(Mode::And, [5, 900_000]));
        let single = |plan| estimate(&[plan]);
        let mut sum = Estimate::default();
        [&or, &and, &or].iter().for_each(|plan| sum.add(&single(plan)));
        assert_eq!(sum.time, 2 * single(&or).time + single(&and).time);
        assert_eq!((sum.load.queries, sum.load.longest), (3, 900_005));
        let intersect = offer(&sum, "intersect");
        assert_eq!(intersect.time, offer(&single(&and), "intersect").time);
        assert_eq!(intersect.why_not, Some("it answers AND alone"));
        let tiles = |estimate: &Estimate| offer(estimate, "tiles").time.unwrap();
        assert_eq!(tiles(&sum), 2 * tiles(&single(&or)) + tiles(&single(&and)));
    }

    fn any_plan() -> impl Strategy<Value = Plan> {
        let mode = prop::sample::select(vec![Mode::Or, Mode::And, Mode::AndOr]);
        let inputs = (mode, 1u64..50_000_000, 1u64..50_000_000, 0usize..100_000, any::<bool>());
        inputs.prop_map(|(mode, a, b, k, count)| Plan { k, count, ..plan(mode, [a, b]) })
    }

    fn any_rates() -> impl Strategy<Value = Rates> {
        (any::<bool>(), 0.0f64..1e6, 0.0f64..1e5, 0.0f64..10.0).prop_map(
            |(device, batch, query, posting)| match device {
                true => Rates::device(batch, query, posting, 1.0),
                false => Rates::thread(query, posting),
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Checks that no candidate that can answer a query is faster than the chosen one.
        #[test]
        fn no_candidate_is_cheaper_than_the_chosen_one(
            plan in any_plan(), rates in prop::collection::vec((any_rates(), any::<bool>()), 0..6),
        ) {
            let candidates: Vec<Candidate> = rates
                .into_iter()
                .map(|(rates, can)| candidate("any", if can { Ok(rates) } else { Err("it cannot") }))
                .collect();
            let load = Load::of(&plan);
            let time = |candidate: &Candidate| candidate.rates.ok().map(|rates| rates.marginal(&load));
            let least = candidates.iter().filter_map(time).min_by(f64::total_cmp);
            prop_assert_eq!(cheapest(&candidates, &load).and_then(time), least);
        }

        /// Checks that an estimate states the time of each algorithm for the queries that it can
        /// answer, which equals its time for a batch of these alone. Choosing per query costs no
        /// more than any algorithm that answers all queries, except for the additional batches.
        #[test]
        fn estimates_state_the_time_of_each_algorithm(
            plans in prop::collection::vec(any_plan(), 0..20), rates in prop::collection::vec(any_rates(), 1..4), threads in 1usize..32,
        ) {
            const NAMES: [&str; 4] = ["a", "b", "c", "d"];
            // The second does not count matches; the third answers AND only.
            let can = |number: usize, plan: &Plan| match number {
                1 => !plan.count,
                2 => plan.mode == Mode::And,
                _ => true,
            };
            let candidates = |plan: &Plan| -> Vec<Candidate> {
                let numbered = |(number, &rates): (usize, &Rates)| {
                    candidate(NAMES[number], if can(number, plan) { Ok(rates) } else { Err("it cannot") })
                };
                rates.iter().enumerate().map(numbered).collect()
            };
            let estimate = Estimate::new(&plans, threads, candidates);
            prop_assert_eq!(estimate.load, Load::sum(&plans));
            prop_assert_eq!(estimate.offers.len(), if plans.is_empty() { 0 } else { rates.len() });
            let batches: f64 = rates.iter().map(|rates| rates.batch).sum();
            for (number, (offer, rates)) in estimate.offers.iter().zip(&rates).enumerate() {
                let its: Load = plans.iter().filter(|plan| can(number, plan)).map(Load::of).sum();
                let time = Duration::from_nanos(rates.time(&its, threads) as u64);
                prop_assert_eq!(offer.time, (its.queries > 0).then_some(time), "{:?}", offer);
                prop_assert_eq!(offer.why_not.is_some(), its.queries < plans.len() as u64);
                if offer.why_not.is_none() {
                    let all = rates.marginal(&estimate.load) + batches;
                    prop_assert!(estimate.time.as_nanos() as f64 <= all * (1.0 + 1e-9));
                }
            }
        }
    }
}
