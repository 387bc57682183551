//! The speed of an engine, which is learned from its searches, and the division of a batch among
//! engines by speed.

use std::time::Duration;

use warpseek_exec::{Answers, Load, Rates, Workers};

/// The speed of an engine: the rates that it states, times a factor that is learned.
#[derive(Debug, Clone, Copy)]
pub struct Speed {
    rates: Rates,
    threads: usize,
    factor: f64,
    /// True if the factor comes from an actual search.
    known: bool,
}

/// Square of the maximum change of the factor by one search after the first, since a single
/// search may have had to wait for something that others do not.
const SURPRISE: f64 = 4.0;

impl Speed {
    /// Creates the speed of an engine with these rates, and with this many threads if it runs on
    /// the CPU.
    pub fn new(rates: Rates, threads: usize) -> Self {
        Speed { rates, threads, factor: 1.0, known: false }
    }

    /// Returns the number of queries that the engine answers at the same time if each takes one
    /// thread.
    pub(crate) fn at_once(&self) -> usize {
        match self.rates.workers {
            Workers::Threads => self.threads.max(1),
            Workers::Device => 1,
        }
    }

    fn cost(&self, load: &Load) -> f64 {
        self.rates.time(load, self.threads)
    }

    /// Returns the expected time in nanoseconds.
    pub(crate) fn time(&self, load: &Load) -> f64 {
        self.factor * self.cost(load)
    }

    /// Learns from a search that took this long.
    pub(crate) fn learn(&mut self, load: &Load, took: Duration) {
        let cost = self.cost(load);
        if cost > 0.0 {
            let seen = (took.as_nanos() as f64 / cost).max(1e-6);
            let usual = seen.clamp(self.factor / SURPRISE, self.factor * SURPRISE);
            self.factor = if self.known { (self.factor * usual).sqrt() } else { seen };
            self.known = true;
        }
    }

    /// Learns from representative queries. The first actual search replaces the result.
    pub(crate) fn guess(&mut self, load: &Load, took: Duration) {
        self.known = false;
        self.learn(load, took);
        self.known = false;
    }

    /// Returns the speed of an engine that is expected to take this long for representative
    /// queries, as a calibration says. The first actual search replaces it.
    pub fn expecting(mut self, load: &Load, time: Duration) -> Self {
        self.guess(load, time);
        self
    }

    /// Notes that the engine got no queries. A slow engine may have become faster, and would
    /// otherwise never be tried again.
    pub(crate) fn forget(&mut self) {
        self.factor = self.factor.min(self.factor.powf(0.9));
    }
}

/// Returns true if a search shows how fast an engine is. A search that failed or stopped early
/// does not.
pub(crate) fn is_whole(answers: &Answers) -> bool {
    answers.iter().all(|answer| answer.as_ref().is_ok_and(|answer| answer.coverage.is_complete()))
}

/// Returns the nanoseconds that the engines take together.
pub(crate) fn together(speeds: &[Speed], load: &Load) -> f64 {
    let rates: f64 = speeds.iter().map(|speed| 1.0 / speed.time(load)).sum();
    if rates > 0.0 { 1.0 / rates } else { 0.0 }
}

/// Returns how many of these queries, the shortest of a batch in ascending order, go to a helper:
/// as many as it finishes while the engines answer the others, or none if that is fewer than it
/// answers at once.
///
/// The helper gets short queries because it has the least disadvantage there: a GPU takes about
/// the same time for all.
pub(crate) fn share(loads: &[Load], batch: Load, helper: &Speed, engines: &[Speed]) -> usize {
    let (mut own, mut others) = (Load::default(), batch);
    let fits = |load: &&Load| {
        own += **load;
        others -= **load;
        helper.time(&own) <= together(engines, &others)
    };
    let n = loads.iter().take_while(fits).count();
    if n < helper.at_once() { 0 } else { n }
}

/// Returns how many of the queries, longest first, a helper takes next: as many as should take a
/// quarter of the time of all of them, and at least as many as it answers at once. Pieces therefore
/// become smaller towards the end, and the last ones have the shortest queries.
pub(crate) fn piece(loads: &[Load], helper: &Speed) -> usize {
    let most = helper.time(&loads.iter().copied().sum()) / 4.0;
    let mut taken = Load::default();
    let fits = |load: &&Load| {
        taken += **load;
        helper.time(&taken) <= most
    };
    let n = loads.iter().take_while(fits).count();
    n.max(helper.at_once()).min(loads.len())
}

/// Returns how many of a helper's queries the idle engines take back: their share by speed, or
/// all of them if that share exceeds three quarters.
pub(crate) fn back(left: &[Load], helper: &Speed, engines: &[Speed]) -> usize {
    let load = left.iter().copied().sum();
    let (own, its) = (together(engines, &load), helper.time(&load));
    let part = its / (own + its);
    let n = if part > 0.75 { left.len() } else { (left.len() as f64 * part) as usize };
    n.max(LEAST).min(left.len())
}

/// Minimum number of queries that an engine takes at a time from a shared batch.
pub(crate) const LEAST: usize = 64;

/// Returns how many of the remaining queries an engine takes. The first time it takes seven
/// eighths of its share of the batch, since GPUs are fast with many queries; later it takes its
/// share of the rest.
pub(crate) fn portion(
    speeds: &[Speed],
    engine: usize,
    batch: &Load,
    left: usize,
    first: bool,
) -> usize {
    let part = together(speeds, batch) / speeds[engine].time(batch);
    let n = if first { batch.queries as f64 * part * 7.0 / 8.0 } else { left as f64 * part };
    let n = if speeds.len() == 1 { left } else { n as usize };
    n.max(LEAST).min(left)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MICROSECOND: f64 = 1e3;

    /// Returns the rates of a device: microseconds per query, and nanoseconds per posting.
    fn cost(query: f64, posting: f64) -> Rates {
        Rates::device(0.0, query * MICROSECOND, posting, 0.0)
    }

    /// Returns the rates of a CPU thread: microseconds per query, and nanoseconds per posting.
    fn thread(query: f64, posting: f64) -> Rates {
        Rates::thread(query * MICROSECOND, posting)
    }

    fn load(postings: u64) -> Load {
        Load { queries: 1, postings, effort: postings, longest: postings, hits: 10 }
    }

    fn sum(loads: &[Load]) -> Load {
        loads.iter().copied().sum()
    }

    #[test]
    fn speeds_are_learned() {
        let mut speed = Speed::new(cost(1.0, 0.0), 1);
        assert_eq!(speed.time(&load(5)), 1e3);
        speed.guess(&load(5), Duration::from_secs(1));
        assert_eq!(speed.time(&load(5)), 1e9);
        // The first search alone determines the speed; later, many searches weigh more than one.
        speed.learn(&load(5), Duration::from_micros(50));
        assert_eq!(speed.time(&load(5)), 50e3);
        (0..12).for_each(|_| speed.learn(&load(5), Duration::from_micros(3)));
        assert!((speed.time(&load(5)) / 3e3 - 1.0).abs() < 0.01, "{speed:?}");
        // A search that waited for a disk has little weight.
        speed.learn(&load(5), Duration::from_secs(100));
        assert!(speed.time(&load(5)) < 6.1e3, "{speed:?}");
        speed.learn(&Load::default(), Duration::from_secs(1));
        assert!(speed.time(&load(5)) < 6.1e3, "it was not asked: {speed:?}");
        let before = speed.factor;
        speed.forget();
        assert!(speed.factor < before && speed.factor > 1.0);
        let mut fast = Speed { factor: 0.5, ..speed };
        fast.forget();
        assert_eq!(fast.factor, 0.5, "only slowness is forgotten");
    }

    /// Tests the machine of docs/measurements/gpu.md: 5 us per query on the GPU, 21 ms per query
    /// and thread on 13 CPU threads.
    #[test]
    fn a_helper_gets_what_it_can_finish_in_time() {
        let (gpu, host) = (Speed::new(cost(5.0, 0.0), 1), Speed::new(thread(5.0, 5.6), 13));
        let same = vec![load(3_740_000); 10_000];
        // In 50 ms the helper answers two queries per thread, and some more.
        assert_eq!(share(&same, sum(&same), &host, &[gpu]), 30);
        // Two GPUs leave it half of the time, and a batch of an eighth leaves it none.
        assert_eq!(share(&same, sum(&same), &host, &[gpu, gpu]), 15);
        assert_eq!(share(&same[..1250], sum(&same[..1250]), &host, &[gpu]), 0);
        // With short queries the helper gets more.
        let mut mixed = vec![load(1000); 5000];
        mixed.extend(&same[..5000]);
        let n = share(&mixed, sum(&mixed), &host, &[gpu]);
        assert!(n > 4900 && n < 5100, "{n}");
        assert_eq!(share(&[], sum(&[]), &host, &[gpu]), 0);
    }

    #[test]
    fn engines_take_back_queries_that_they_answer_faster() {
        let left = vec![load(1); 1000];
        let taken = |helper, engine| {
            back(&left, &Speed::new(thread(helper, 0.0), 1), &[Speed::new(cost(engine, 0.0), 1)])
        };
        assert_eq!([taken(1.0, 1.0), taken(1.0, 4.0), taken(4.0, 1.0)], [500, 200, 1000]);
        assert_eq!(
            [taken(1.0, 1e6), taken(0.0, 0.0)],
            [LEAST; 2],
            "at least some are taken, so that it ends"
        );
        assert_eq!(
            back(&left[..3], &Speed::new(cost(1.0, 0.0), 1), &[Speed::new(cost(9.0, 0.0), 1)]),
            3
        );
    }

    /// Returns the nanoseconds at which each of the two finishes if they are as fast as expected.
    fn ends(loads: &[Load], helper: &Speed, engine: &Speed) -> (f64, f64) {
        let (own, others) = loads.split_at(share(loads, sum(loads), helper, &[*engine]));
        let (mut left, mut time) = (own.to_vec(), 0.0);
        left.reverse();
        while !left.is_empty() {
            let next: Vec<Load> = left.drain(..piece(&left, helper)).collect();
            time += helper.time(&sum(&next));
        }
        (time, engine.time(&sum(others)))
    }

    proptest! {
        /// A batch ends no later than with the engine alone; if there are many queries per
        /// thread, both finish together.
        #[test]
        fn ends_are_even(
            mut postings in prop::collection::vec(0u64..20_000, 1000..3000),
            query in 1.0f64..50.0, posting in 0.0f64..10.0, gpu in 0.5f64..20.0, threads in 1usize..32,
        ) {
            postings.sort_unstable();
            let loads: Vec<Load> = postings.into_iter().map(load).collect();
            let (host, gpu) = (Speed::new(thread(query, posting), threads), Speed::new(cost(gpu, 0.0), 1));
            let (own, others) = ends(&loads, &host, &gpu);
            let alone = gpu.time(&sum(&loads));
            // At the end of a piece, threads wait for each other for at most one query, and there
            // are no more pieces than halvings of the queries.
            let longest = query * MICROSECOND + 20_000.0 * posting;
            let slack = 40.0 * longest;
            prop_assert!(own <= others + slack, "{} after {}", own, others);
            prop_assert!(others <= alone);
            let n = share(&loads, sum(&loads), &host, &[gpu]);
            let next = host.time(&sum(&loads[..(n + threads).min(loads.len())]));
            prop_assert!(next + slack >= gpu.time(&sum(&loads[n..])) || n == loads.len(), "{} of {} is too few", n, loads.len());
        }

        #[test]
        fn pieces_are_a_quarter_or_one_query_per_thread(
            mut postings in prop::collection::vec(0u64..5_000_000, 1..500), threads in 1usize..32,
        ) {
            postings.sort_unstable_by(|a, b| b.cmp(a));
            let loads: Vec<Load> = postings.into_iter().map(load).collect();
            let host = Speed::new(thread(5.0, 3.0), threads);
            let n = piece(&loads, &host);
            prop_assert!(n >= threads.min(loads.len()) && n <= loads.len());
            let whole = host.time(&sum(&loads));
            prop_assert!(n <= threads || host.time(&sum(&loads[..n])) <= whole / 4.0);
        }

        /// Engines that are as fast as expected finish at about the same time, each after a few
        /// pieces, and no query is left.
        #[test]
        fn engines_finish_at_the_same_time(
            rates in prop::collection::vec(1.0f64..20.0, 1..5), queries in 1000usize..20_000,
        ) {
            let speeds: Vec<Speed> = rates.iter().map(|&us| Speed::new(cost(us, 0.0), 1)).collect();
            let batch = sum(&vec![load(1); queries]);
            let (mut left, mut ends, mut pieces) = (queries, vec![0.0; speeds.len()], vec![0; speeds.len()]);
            while left > 0 {
                // The first engine to be free takes the next piece.
                let engine = (0..ends.len()).min_by(|&a, &b| f64::total_cmp(&ends[a], &ends[b])).unwrap_or(0);
                let n = portion(&speeds, engine, &batch, left, pieces[engine] == 0);
                prop_assert!(n > 0 && n <= left);
                left -= n;
                pieces[engine] += 1;
                ends[engine] += speeds[engine].time(&sum(&vec![load(1); n]));
            }
            let last = ends.iter().copied().fold(0.0, f64::max);
            let best = together(&speeds, &batch);
            let one = rates.iter().copied().fold(0.0, f64::max) * MICROSECOND * LEAST as f64;
            prop_assert!(last <= best + one + 1.0, "{} instead of {}", last, best);
            prop_assert!(pieces.iter().all(|&n| n <= 20), "{:?}", pieces);
            prop_assert!(speeds.len() > 1 || pieces == [1]);
        }
    }
}
