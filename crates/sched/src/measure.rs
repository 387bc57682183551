//! Measurements of engines, which determine how documents and queries are divided.

use std::time::{Duration, Instant};

use warpseek_exec::{Context, Engine, ExecError, Load, Mode, Plan, Planner, Query, Rates};
use warpseek_index::{Segment, Snapshot};

/// Number of representative queries.
const QUERIES: usize = 32;
/// Number of terms per representative query.
const TERMS: usize = 3;

/// Duration of a batch that is long enough to be meaningful.
const LONG_ENOUGH: Duration = Duration::from_millis(25);
/// Number of times that a batch is repeated; the shortest time counts.
const TIMES: usize = 3;

/// A term of an index, with its text field.
pub(crate) type Word = (u8, String);

/// Splits a key of a segment's dictionary into field and term.
fn word(segment: &Segment, term: &[u8]) -> Word {
    let (field, term) = segment.named(term);
    (field, String::from_utf8_lossy(term).into_owned())
}

/// Returns at most this many of an index's terms, each with a probability proportional to its
/// postings: postings at regular intervals each select their term.
pub(crate) fn own_words(snapshot: &Snapshot, count: usize) -> Result<Vec<Word>, ExecError> {
    let all: u64 = snapshot.segments().iter().map(|s| s.dictionary().postings()).sum();
    let step = (all / count as u64).max(1);
    let (mut seen, mut next, mut words) = (0, step / 2, Vec::new());
    for segment in snapshot.segments() {
        let mut terms = segment.dictionary().iter();
        while let Some(info) = terms.next_term()? {
            seen += u64::from(info.df);
            while seen > next {
                next += step;
                words.push(word(segment, terms.term()));
            }
        }
    }
    words.truncate(count);
    Ok(words)
}

/// Returns some of an index's terms for each power of two of their lists' lengths, from the
/// shortest lists to the longest. Each power has at most twice `count` terms. The largest segment
/// represents the others.
pub(crate) fn words_by_length(
    snapshot: &Snapshot,
    count: usize,
) -> Result<Vec<Vec<Word>>, ExecError> {
    /// A sample of the terms of one order of magnitude.
    struct Order {
        words: Vec<Word>,
        /// Distance between two terms of the sample.
        every: u64,
        /// Number of terms to skip before the next one of the sample.
        left: u64,
    }
    let mut orders: Vec<Order> = Vec::new();
    let Some(segment) = snapshot.segments().iter().max_by_key(|s| s.dictionary().postings()) else {
        return Ok(Vec::new());
    };
    let mut terms = segment.dictionary().iter();
    while let Some(info) = terms.next_term()? {
        let order = info.df.max(1).ilog2() as usize;
        let new = || Order { words: Vec::new(), every: 1, left: 0 };
        orders.resize_with(orders.len().max(order + 1), new);
        let order = &mut orders[order];
        if order.left > 0 {
            order.left -= 1;
            continue;
        }
        order.words.push(word(segment, terms.term()));
        if order.words.len() == 2 * count {
            let mut keeps = false;
            order.words.retain(|_| {
                keeps = !keeps;
                keeps
            });
            order.every *= 2;
        }
        order.left = order.every - 1;
    }
    Ok(orders.into_iter().map(|order| order.words).filter(|words| !words.is_empty()).collect())
}

/// Creates queries from an index's terms, each with a probability proportional to its postings.
pub fn probes(
    snapshot: &Snapshot,
    planner: &Planner,
    mode: Mode,
    k: usize,
) -> Result<Vec<Plan>, ExecError> {
    queries_of(&own_words(snapshot, QUERIES * TERMS)?, planner, mode, k)
}

/// Divides words among queries.
fn queries_of(
    words: &[Word],
    planner: &Planner,
    mode: Mode,
    k: usize,
) -> Result<Vec<Plan>, ExecError> {
    // Neighbours in the dictionary go to different queries.
    let queries = words.len().div_ceil(TERMS);
    let query = |first: usize| {
        let words = words.iter().skip(first).step_by(queries.max(1));
        Query::of_fields(words.map(|(field, word)| (*field, word.clone(), 1.0)))
    };
    (0..queries).map(|first| planner.plan(&query(first), mode, k)).collect()
}

/// Number of blocks of the dictionary that [`few_probes`] reads.
const BLOCKS: u64 = 512;
/// Number of queries of [`few_probes`].
const FEW: usize = 8;

/// Creates a few OR queries in a time that does not grow with the index: it reads blocks at equal
/// distances in the dictionary of the largest segment. As with [`probes`], terms are as probable
/// as they are frequent, but among those of these blocks.
pub fn few_probes(
    snapshot: &Snapshot,
    planner: &Planner,
    k: usize,
) -> Result<Vec<Plan>, ExecError> {
    let Some(segment) = snapshot.segments().iter().max_by_key(|s| s.dictionary().postings()) else {
        return Ok(Vec::new());
    };
    let dictionary = segment.dictionary();
    let blocks = dictionary.blocks();
    let count = blocks.min(BLOCKS);
    let (mut found, mut all) = (Vec::new(), 0u64);
    for i in 0..count {
        let block = i * blocks / count;
        let mut terms = dictionary.iter_blocks(block, block + 1);
        while let Some(info) = terms.next_term()? {
            all += u64::from(info.df);
            found.push((all, word(segment, terms.term())));
        }
    }
    // Postings at equal distances select their terms.
    let wanted = (FEW * TERMS) as u64;
    let mut chosen: Vec<Word> = (0..wanted.min(all))
        .map(|i| (2 * i + 1) * all / (2 * wanted.min(all)))
        .filter_map(|at| found.get(found.partition_point(|(sum, _)| *sum <= at)))
        .map(|(_, word)| word.clone())
        .collect();
    chosen.dedup();
    queries_of(&chosen, planner, Mode::Or, k)
}

/// The time of a query on a part of the documents, in nanoseconds: a fixed time, plus a time
/// proportional to the part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Time on no documents.
    pub fixed: f64,
    /// Additional time on all documents.
    pub whole: f64,
}

impl Line {
    fn at(&self, part: f64) -> f64 {
        self.fixed + self.whole * part
    }

    /// Returns the line through measurements on two parts. More documents never take less time.
    fn through(a: (f64, f64), b: (f64, f64)) -> Self {
        let whole = if a.0 == b.0 { 0.0 } else { ((a.1 - b.1) / (a.0 - b.0)).max(0.0) };
        Line { fixed: (b.1 - whole * b.0).max(0.0), whole }
    }

    /// Returns the time that an algorithm takes in large batches of queries like these, given the
    /// time measured on a part of the documents.
    pub fn scaled(cost: &Rates, probes: &[Plan], part: f64, measured: f64) -> Self {
        let load = Load::sum(probes);
        let queries = load.queries.max(1) as f64;
        let fixed = cost.query + cost.hit * load.hits as f64 / queries;
        let line = Line { fixed, whole: cost.posting * load.postings as f64 / queries };
        let factor = measured / line.at(part).max(1e-9);
        Line { fixed: factor * line.fixed, whole: factor * line.whole }
    }
}

/// Returns the CPU's part of the documents with which the CPU and the GPUs finish at the same
/// time.
fn even(host: Line, gpus: Line) -> f64 {
    let more = gpus.at(1.0) - host.fixed;
    let slope = host.whole + gpus.whole;
    match (more > 0.0, slope > 0.0) {
        (true, true) => (more / slope).min(1.0),
        (true, false) => 1.0,
        (false, _) => 0.0,
    }
}

/// Parts of the documents on which the CPU is measured first.
const FIRST: [f64; 2] = [1.0 / 16.0, 1.0 / 64.0];

/// Minimum part of the documents that is worth dividing off: the answers of two engines have to
/// be merged, and the CPU has other work.
pub const WORTH: f64 = 0.02;

/// Returns the CPU's part of the documents, 0 if it would not help. `gpus` is the time of the
/// GPUs, and `host` measures the nanoseconds per query of the CPU on a part.
///
/// The CPU's time is not linear, since the postings that it skips depend on the number of
/// documents. So it is measured again, up to twice, at the part where the lines meet.
pub fn host_share(
    gpus: Line,
    mut host: impl FnMut(f64) -> Result<f64, ExecError>,
) -> Result<f64, ExecError> {
    let mut last = (FIRST[0], host(FIRST[0])?);
    let mut next = (FIRST[1], host(FIRST[1])?);
    for _ in 0..2 {
        let share = even(Line::through(last, next), gpus);
        if share < WORTH || share == next.0 {
            break;
        }
        (last, next) = (next, (share, host(share)?));
    }
    let share = even(Line::through(last, next), gpus);
    Ok(if share < WORTH { 0.0 } else { share })
}

/// Measures the nanoseconds per query in large batches of these plans.
pub fn time(
    engine: &dyn Engine,
    plans: &[Plan],
    most: usize,
    context: &Context,
) -> Result<f64, ExecError> {
    let (load, took) = batch(engine, plans, most, context)?;
    Ok(took.as_nanos() as f64 / load.queries.max(1) as f64)
}

/// Measures the time of a large batch of these plans, and returns its load and the time. It
/// doubles the batch until it takes long enough or has the maximum number of queries. The first
/// run does not count.
pub(crate) fn batch(
    engine: &dyn Engine,
    plans: &[Plan],
    most: usize,
    context: &Context,
) -> Result<(Load, Duration), ExecError> {
    let start = Instant::now();
    batch_by(|| start.elapsed(), engine, plans, most, context)
}

fn batch_by(
    now: impl Fn() -> Duration,
    engine: &dyn Engine,
    plans: &[Plan],
    most: usize,
    context: &Context,
) -> Result<(Load, Duration), ExecError> {
    if plans.is_empty() {
        return Ok(Default::default());
    }
    let ask = |plans: &[&Plan]| {
        let start = now();
        let answers = engine.search(plans, context);
        let took = now() - start;
        answers.into_iter().find_map(Result::err).map_or(Ok(took), Err)
    };
    let mut batch: Vec<&Plan> = plans.iter().collect();
    ask(&batch)?;
    let mut took = ask(&batch)?;
    while took < LONG_ENOUGH && batch.len() < most {
        batch.extend_from_within(..batch.len().min(most - batch.len()));
        took = ask(&batch)?;
    }
    // A batch that takes very long needs no repetition.
    let again = if took < 4 * LONG_ENOUGH { 1..TIMES } else { 0..0 };
    for _ in again {
        took = took.min(ask(&batch)?);
    }
    Ok((Load::sum(batch), took))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;

    use proptest::prelude::*;
    use warpseek_exec::{Answer, Answers, Candidate, Ranking, Reference};
    use warpseek_index::SnapshotId;
    use warpseek_testkit::{Doc, Fixture, Search};

    use super::*;

    #[test]
    fn probes_have_the_terms_of_the_index() {
        let docs: Vec<Doc> =
            (0..300).map(|i| Doc::text(i, format!("all m{} n{i}", i % 7))).collect();
        for (docs, expected) in [(&docs[..], QUERIES), (&docs[..1], 1), (&[], 0)] {
            let snapshot = Fixture::of(docs).snapshot();
            let planner = Planner::new(snapshot.clone(), Ranking::default()).unwrap();
            let plans = probes(&snapshot, &planner, Mode::Or, 10).unwrap();
            assert!(plans.len().abs_diff(expected) <= 1, "{} of {expected}", plans.len());
            assert!(plans.iter().all(|plan| plan.missing.is_empty() && plan.terms.len() <= TERMS));
            let engine = Reference::new(snapshot);
            let took = time(&engine, &plans, 100, &Context::new(1)).unwrap();
            assert_eq!(took > 0.0, expected > 0);
        }
    }

    /// An engine with a simulated clock: each batch and each query takes a fixed time.
    struct Fake {
        snapshot: SnapshotId,
        clock: AtomicU64,
        batch: u64,
        query: u64,
        largest: AtomicU64,
    }

    impl Engine for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }
        fn snapshot(&self) -> SnapshotId {
            self.snapshot
        }
        fn candidates(&self, _: &Plan, _: bool, _: &Context) -> Vec<Candidate> {
            let rates = Ok(Rates::device(self.batch as f64, self.query as f64, 0.0, 0.0));
            vec![Candidate { algorithm: "fake", rates, why: "asked for" }]
        }
        fn search(&self, plans: &[&Plan], _: &Context) -> Answers {
            let n = plans.len() as u64;
            // The first batch takes long.
            let first = if self.largest.load(Relaxed) == 0 { 1_000_000_000 } else { 0 };
            self.clock.fetch_add(self.batch + n * self.query + first, Relaxed);
            self.largest.fetch_max(n, Relaxed);
            plans.iter().map(|_| Ok(Answer::default())).collect()
        }
    }

    fn plans(n: usize) -> Vec<Plan> {
        let snapshot = Fixture::of(&[Doc::text(0, "a1")]).snapshot();
        let plan = warpseek_testkit::plans(&snapshot, &[Search::of(&["a1"])]).remove(0);
        vec![plan; n]
    }

    #[test]
    fn batches_are_as_large_as_necessary() {
        let plans = plans(32);
        // Batches of a GPU as in docs/measurements/gpu.md, of a CPU, and of engines that need the
        // largest batch allowed.
        for (batch, query, most, largest) in [
            (65_000, 5_000, 4096, 4096),
            (0, 1_310_000, 4096, 32),
            (0, 100_000, 256, 256),
            (9, 9, 33, 33),
        ] {
            let (clock, largest_seen) = Default::default();
            let snapshot = plans[0].snapshot;
            let engine = Fake { snapshot, clock, batch, query, largest: largest_seen };
            let now = || Duration::from_nanos(engine.clock.load(Relaxed));
            let (load, took) = batch_by(now, &engine, &plans, most, &Context::new(1)).unwrap();
            assert_eq!((engine.largest.load(Relaxed), load.queries), (largest, largest));
            assert_eq!(took, Duration::from_nanos(batch + query * largest));
        }
    }

    /// Returns the share of a CPU that takes this long per query on a part of all documents, and
    /// the number of measurements.
    fn share(gpu: Line, host: impl Fn(f64) -> f64) -> (f64, usize) {
        let mut asked = 0;
        let share = host_share(gpu, |part| {
            assert!(part > 0.0 && part <= 1.0, "{part}");
            asked += 1;
            Ok(host(part))
        });
        assert!(asked <= 4, "measured {asked} times");
        (share.unwrap(), asked)
    }

    #[test]
    fn the_cpu_gets_the_share_that_it_finishes_in_time() {
        let line = |fixed: f64, whole: f64| Line { fixed, whole };
        // Both are equally fast, so each gets a half.
        let gpu = line(0.0, 100.0);
        assert_eq!(share(gpu, |part| 100.0 * part).0, 0.5);
        // The CPU takes four times as long, plus a fixed time per query: 400 s + 20 = 100 (1 -
        // s).
        assert_eq!(share(gpu, |part| 20.0 + 400.0 * part).0, 0.16);
        // A CPU that is hundreds of times slower than 5 us per query is not worthwhile. Neither
        // is one that takes too long for a query on no documents.
        let h200 = line(2_000.0, 3_000.0);
        assert_eq!(share(h200, |part| 400.0 + 1_310_000.0 * part), (0.0, 2));
        assert_eq!(share(h200, |part| 6_000.0 + 100.0 * part), (0.0, 2));
        // The CPU gets all documents if the GPU is useless.
        assert_eq!(share(line(1e6, 1e6), |part| 100.0 * part).0, 1.0);
        assert_eq!(share(line(0.0, 0.0), |_| 0.0).0, 0.0);
    }

    proptest! {
        /// Both finish at about the same time even if times are not linear.
        #[test]
        fn ends_are_even(
            fixed in 0.0f64..2.0, whole in 1.0f64..100.0, bend in 0.6f64..1.0, host_fixed in 0.0f64..1.0, times in 0.2f64..20.0,
        ) {
            let gpu = Line { fixed, whole };
            let host = |part: f64| host_fixed + times * whole * part.powf(bend);
            let (share, _) = share(gpu, host);
            let (own, others) = (host(share), gpu.at(1.0 - share));
            if share > 0.0 {
                let worse = own.max(others) / own.min(others).max(1e-9);
                prop_assert!(worse < 1.25 || share > 0.98, "{} and {} at {}", own, others, share);
            } else {
                // A larger share would have been too much, or nearly.
                prop_assert!(host(2.0 * WORTH) > gpu.at(1.0 - 2.0 * WORTH), "nothing, with {}", host(0.04));
            }
        }
    }

    #[test]
    fn a_measured_part_predicts_the_whole() {
        let cost = Rates::device(1e9, 2_000.0, 2.0, 0.0);
        // Queries of one posting take 2 us and 2 ns; an eighth was measured, at half the speed.
        let line = Line::scaled(&cost, &plans(3), 0.125, 2.0 * 2000.25);
        assert_eq!(line, Line { fixed: 4_000.0, whole: 4.0 });
        assert_eq!(Line::scaled(&cost, &[], 0.125, 0.0).at(1.0), 0.0);
    }
}
