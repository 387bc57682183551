//! Predicted costs of answering a batch, precise enough to choose between algorithms and devices.

use std::iter::Sum;
use std::ops::{AddAssign, SubAssign};

use crate::mode::Mode;
use crate::plan::Plan;

/// Number of postings per thread that justifies waking another thread for a single query.
const POSTINGS_PER_THREAD: u64 = 1 << 16;

/// The work of a number of queries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of queries.
    pub queries: u64,
    /// Number of postings in the lists of the queries.
    pub postings: u64,
    /// Number of postings that the CPU does not skip at once: for an AND, as many from each list
    /// as the shortest list has.
    pub effort: u64,
    /// The largest effort of a single query.
    pub longest: u64,
    /// Maximum number of hits.
    pub hits: u64,
}

impl Load {
    /// Returns the load of one query.
    pub fn of(plan: &Plan) -> Self {
        let (mut postings, mut shortest) = (0, u64::MAX);
        for term in &plan.terms {
            postings += term.df;
            shortest = shortest.min(term.df);
        }
        let effort = match plan.mode {
            Mode::Or => postings,
            Mode::And if plan.lacks_terms() => 0,
            Mode::And | Mode::AndOr if plan.terms.is_empty() => 0,
            Mode::And | Mode::AndOr => shortest * plan.terms.len() as u64,
        };
        Load { queries: 1, postings, effort, longest: effort, hits: postings.min(plan.k as u64) }
    }

    /// Returns the load of several queries.
    pub fn sum<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> Self {
        plans.into_iter().map(Load::of).sum()
    }
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Self) {
        self.queries += other.queries;
        self.postings += other.postings;
        self.effort += other.effort;
        self.longest = self.longest.max(other.longest);
        self.hits += other.hits;
    }
}

impl Sum for Load {
    fn sum<I: Iterator<Item = Load>>(loads: I) -> Load {
        loads.fold(Load::default(), |mut sum, load| {
            sum += load;
            sum
        })
    }
}

/// Subtracts a query that is not the longest.
impl SubAssign for Load {
    fn sub_assign(&mut self, other: Self) {
        self.queries -= other.queries;
        self.postings -= other.postings;
        self.effort -= other.effort;
        self.hits -= other.hits;
    }
}

/// The workers that process a batch, which determine how its queries share the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// CPU threads: each query runs on one thread, but a query that is alone is divided among all
    /// threads.
    Threads,
    /// A device that processes a batch as a whole. Its time depends on all postings of the
    /// queries' lists, whether or not it reads each of them.
    Device,
}

/// Costs in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// The workers.
    pub workers: Workers,
    /// Cost of a batch.
    pub batch: f64,
    /// Cost of a query.
    pub query: f64,
    /// Cost of a posting; on the CPU, only of postings that it does not skip at once.
    pub posting: f64,
    /// Cost of a requested hit.
    pub hit: f64,
}

impl Rates {
    /// Returns the rates of a device.
    pub const fn device(batch: f64, query: f64, posting: f64, hit: f64) -> Self {
        Rates { workers: Workers::Device, batch, query, posting, hit }
    }

    /// Returns the rates of one CPU thread.
    pub const fn thread(query: f64, posting: f64) -> Self {
        Rates { workers: Workers::Threads, batch: 0.0, query, posting, hit: 0.0 }
    }

    /// Returns the nanoseconds for a batch, with this many CPU threads.
    pub fn time(&self, load: &Load, threads: usize) -> f64 {
        if load.queries == 0 {
            return 0.0;
        }
        let whole = self.marginal(load);
        if self.workers == Workers::Device {
            return self.batch + whole;
        }
        let parts =
            if load.queries == 1 { load.effort / POSTINGS_PER_THREAD } else { load.queries };
        let shared = whole / parts.clamp(1, threads.max(1) as u64) as f64;
        match load.queries {
            1 => self.batch + shared,
            _ => self.batch + shared.max(self.query + load.longest as f64 * self.posting),
        }
    }

    /// Returns the nanoseconds that these queries add to a batch in progress, with one thread.
    pub fn marginal(&self, load: &Load) -> f64 {
        let postings = match self.workers {
            Workers::Threads => load.effort,
            Workers::Device => load.postings,
        };
        load.queries as f64 * self.query
            + postings as f64 * self.posting
            + load.hits as f64 * self.hit
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use warpseek_testkit::{Doc, Fixture};

    use super::*;
    use crate::plan::Planner;
    use crate::query::Query;
    use crate::ranking::Ranking;

    /// Returns a plan of terms with these document frequencies.
    fn plan(mode: Mode, k: usize, dfs: &[u64]) -> Plan {
        let words: Vec<String> = (0..dfs.len()).map(|i| format!("a{i}")).collect();
        let snapshot = Fixture::of(&[Doc::text(0, words.join(" "))]).snapshot();
        let planner = Planner::new(snapshot, Ranking::default()).unwrap();
        let terms = words.into_iter().map(|word| (word, 1.0));
        let mut plan = planner.plan(&Query::of(terms), mode, k).unwrap();
        plan.terms.iter_mut().zip(dfs).for_each(|(term, &df)| term.df = df);
        plan
    }

    #[test]
    fn the_load_of_a_plan_counts_postings_and_hits() {
        let load = |queries, postings, effort, longest, hits| Load {
            queries,
            postings,
            effort,
            longest,
            hits,
        };
        let or = plan(Mode::Or, 10, &[5, 900, 100]);
        assert_eq!(Load::of(&or), load(1, 1005, 1005, 1005, 10));
        // AND reads the shortest list and looks up its documents in the others.
        for mode in [Mode::And, Mode::AndOr] {
            let plan = Plan { mode, ..or.clone() };
            assert_eq!(Load::of(&plan), load(1, 1005, 15, 15, 10), "{mode}");
        }
        // If a term is in no document, AND has nothing to do.
        let lacking = Plan { missing: vec![(0, "x".to_owned())], ..or.clone() };
        let effort = |mode| Load::of(&Plan { mode, ..lacking.clone() }).effort;
        assert_eq!([Mode::Or, Mode::And, Mode::AndOr].map(effort), [1005, 0, 15]);
        for mode in [Mode::Or, Mode::And, Mode::AndOr] {
            let load = Load::of(&plan(mode, 10, &[]));
            assert_eq!((load.queries, load.effort, load.hits), (1, 0, 0), "{mode} without terms");
        }
        // There are at most as many hits as postings.
        let greedy = plan(Mode::Or, usize::MAX, &[7, 8]);
        assert_eq!(Load::of(&greedy).hits, 15);
        assert_eq!(Load::sum([&or, &greedy, &or]), load(3, 2025, 2025, 1005, 35));
        let mut rest = Load::sum([&or, &greedy]);
        rest -= Load::of(&greedy);
        assert_eq!(rest, Load::of(&or));
        assert_eq!(Load::sum([]), Load::default());
    }

    /// Tests that threads cannot share a query unless it is alone.
    #[test]
    fn threads_share_queries() {
        const CPU: Rates = Rates::thread(5_000.0, 3.0);
        let load = |effort| Load { queries: 1, effort, longest: effort, ..Load::default() };
        let (short, long) = (load(1000), load(1_000_000));
        let time = |loads: &[Load], threads| CPU.time(&loads.iter().copied().sum(), threads);
        assert_eq!(time(&[short; 8], 4), 2.0 * 8_000.0);
        assert_eq!(time(&[short, long], 4), 3_005_000.0);
        assert_eq!(time(&[long], 4), 3_005_000.0 / 4.0);
        assert_eq!(
            time(&[long], 100),
            3_005_000.0 / 15.0,
            "only as many threads as have enough to do"
        );
        assert_eq!(time(&[short], 4), 8_000.0);
        assert_eq!(time(&[short; 3], 0), time(&[short; 3], 1), "there is always one thread");
        assert_eq!(time(&[], 4), 0.0);
    }

    #[test]
    fn a_device_takes_a_batch_as_a_whole() {
        const GPU: Rates = Rates::device(50_000.0, 2_000.0, 0.5, 7.0);
        let one = Load { queries: 1, postings: 1000, effort: 10, longest: 10, hits: 10 };
        let many = vec![one; 100].into_iter().sum();
        assert_eq!(GPU.marginal(&one), 2_000.0 + 500.0 + 70.0);
        assert_eq!(GPU.time(&one, 1), 50_000.0 + 2_570.0);
        assert_eq!(GPU.time(&many, 16), 50_000.0 + 257_000.0, "independent of the threads");
        assert_eq!(GPU.time(&Load::default(), 16), 0.0, "no batch");
    }

    fn loads() -> impl Strategy<Value = Vec<Load>> {
        let load =
            (0u64..10_000_000, 0u64..10_000_000, 0u64..1000).prop_map(|(effort, more, hits)| {
                Load { queries: 1, postings: effort + more, effort, longest: effort, hits }
            });
        prop::collection::vec(load, 1..40)
    }

    proptest! {
        /// Checks that a batch takes at most the time that one thread needs for all of it, and at
        /// least that of its longest query or of an even share per thread.
        #[test]
        fn threads_take_between_an_even_share_and_the_whole(
            loads in loads(), threads in 1usize..64, query in 0.0f64..1e5, posting in 0.0f64..10.0,
        ) {
            let rates = Rates::thread(query, posting);
            let batch: Load = loads.iter().copied().sum();
            let (time, whole) = (rates.time(&batch, threads), rates.marginal(&batch));
            prop_assert_eq!(rates.time(&batch, 1), whole);
            prop_assert!(time <= whole && time >= whole / threads as f64);
            prop_assert!(time <= rates.time(&batch, threads.div_ceil(2)), "more threads take longer");
            if let [_, _, ..] = &loads[..] {
                let longest = loads.iter().map(|load| rates.time(load, 1)).fold(0.0, f64::max);
                prop_assert!(time >= longest, "{} < {}", time, longest);
            }
        }

        /// Checks that adding a query never makes a batch of several queries faster.
        #[test]
        fn more_queries_take_longer(
            loads in loads(), threads in 1usize..64, query in 0.0f64..1e5, posting in 0.0f64..10.0, hit in 0.0f64..10.0, batch in 0.0f64..1e6,
        ) {
            for rates in [Rates::thread(query, posting), Rates::device(batch, query, posting, hit)] {
                let mut sum: Load = loads[..loads.len().min(2)].iter().copied().sum();
                let mut last = rates.time(&sum, threads);
                for &load in loads.iter().skip(2) {
                    sum += load;
                    let time = rates.time(&sum, threads);
                    // Averages are rounded.
                    prop_assert!(time >= last * (1.0 - 1e-12), "{} < {}", time, last);
                    last = time;
                }
            }
        }
    }
}
