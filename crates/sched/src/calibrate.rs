//! Calibration: measures the cost of queries on an engine of this machine.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use warpseek_exec::{Context, Engine, ExecError, Mode, Plan, Planner, Query};
use warpseek_index::Snapshot;

use crate::measure::{Word, own_words, words_by_length};
use crate::model::{CostModel, Features, Form};

/// Number of queries per second of measuring.
const QUERIES: f64 = 3000.0;
/// Minimum and maximum number of queries.
const LEAST_AND_MOST: (f64, f64) = (3000.0, 30_000.0);
/// Maximum number of terms per query.
const MOST_TERMS: usize = 6;

/// Number of words to choose from per order of magnitude of list lengths.
const WORDS: usize = 200;
/// Interval of queries with a word that the index does not contain.
const UNKNOWN: usize = 11;

/// Interval of queries whose words are as frequent as those of the text.
const FREQUENT: usize = 8;

/// Number of times that a query is timed, unless it takes longer than `LONG` in total. The median
/// counts, so that one stall does not matter.
const TIMES: usize = 3;
const LONG: Duration = Duration::from_millis(3);

/// Interval of queries that are held out when the model is fitted, to measure its error.
const UNSEEN: usize = 4;

/// Numbers of queries in the two batches that measure the cost of a batch.
const BATCHES: [usize; 2] = [64, 1024];

/// The features of a query, and how long it took.
type Sample = (Features, Duration);

/// The measured cost of queries on an engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// Model of the cost of a single query.
    pub model: CostModel,
    /// Cost of a batch, however many queries it has.
    pub fixed: Duration,
    /// Share of its single cost that a query adds to a large batch.
    pub share: f64,
    /// True if the engine answers batches as a whole.
    pub batches: bool,
    /// Mean relative error on queries that the model was not fitted to, by form: rules, one tree,
    /// and boosted trees, the form in use.
    pub errors: [f64; 3],
    /// Number of queries that were timed to fit the model and to measure its error.
    pub queries: usize,
    /// Number of queries that were timed only to measure the error.
    pub unseen: usize,
    /// Median of the times of all queries.
    pub median: Duration,
    /// Median ratio of the times of queries to the engine's own estimates. It applies to queries
    /// that the model does not know, such as trees.
    pub ratio: f64,
}

/// Maximum number of queries of a batch whose times are predicted one by one. They represent the
/// others.
const PREDICTED: usize = 256;

impl Calibration {
    /// Returns the expected time of a batch on the engine that was measured.
    pub fn time(&self, engine: &dyn Engine, plans: &[&Plan], context: &Context) -> Duration {
        let step = plans.len().div_ceil(PREDICTED).max(1);
        let (mut sum, mut longest, mut some) = (0.0, 0.0f64, 0usize);
        for plan in plans.iter().step_by(step) {
            let time = self.single(engine, plan);
            (sum, longest, some) = (sum + time, longest.max(time), some + 1);
        }
        let sum = sum * plans.len() as f64 / some.max(1) as f64;
        let time = match (plans, self.batches) {
            ([], _) => 0.0,
            // The engine was measured with one query at a time.
            ([_], true) => sum,
            (_, true) => self.fixed.as_secs_f64() + self.share * sum,
            ([plan], false) => {
                // The engine's estimates say how many threads share a query.
                let estimate = |context| engine.cost(plans, context).as_secs_f64();
                let alone = estimate(Context::single());
                let threads = if context.threads() > 1 && !is_other(plan) && alone > 0.0 {
                    alone / estimate(context).max(1e-12)
                } else {
                    1.0
                };
                sum / threads.max(1.0)
            }
            (_, false) => (sum / context.threads().min(plans.len()) as f64).max(longest),
        };
        Duration::from_secs_f64(time)
    }

    /// Returns the expected seconds of a query alone, on one thread of a CPU.
    fn single(&self, engine: &dyn Engine, plan: &Plan) -> f64 {
        match is_other(plan) {
            true => self.ratio * engine.cost(&[plan], Context::single()).as_secs_f64(),
            false => self.model.predict(&features(engine, plan)).as_secs_f64(),
        }
    }
}

/// Returns true if a plan has what calibrations do not measure.
fn is_other(plan: &Plan) -> bool {
    plan.tree.is_some() || plan.mask.is_some() || plan.gather.is_some()
}

/// Creates queries of one to six of the index's terms, in all modes, as many as can be timed in
/// about this long. In some of them, terms are as probable as they are frequent; in the others,
/// short lists are as probable as long ones, since users search for both. Some have a word that
/// the index does not contain.
pub fn own_queries(
    snapshot: &Snapshot,
    planner: &Planner,
    k: usize,
    time: Duration,
) -> Result<Vec<Plan>, ExecError> {
    let queries = QUERIES * time.as_secs_f64();
    let queries = queries.clamp(LEAST_AND_MOST.0, LEAST_AND_MOST.1) as usize;
    let frequent = own_words(snapshot, queries / FREQUENT * MOST_TERMS)?;
    let orders = words_by_length(snapshot, WORDS)?;
    let (mut plans, mut at) = (Vec::new(), 0usize);
    if frequent.is_empty() || orders.is_empty() {
        return Ok(plans);
    }
    // Multiples of a prime that is unrelated to any regularity of the dictionary separate
    // neighbours.
    let spread = |i: usize, len: usize| (i * 7919) % len;
    for number in 0..queries {
        let terms = 1 + (number * 31 + number / 7) % MOST_TERMS;
        let word = |i: usize| match number % FREQUENT {
            0 => frequent[spread(i, frequent.len())].clone(),
            _ => {
                let words = &orders[spread(i, 1009) % orders.len()];
                words[spread(i, words.len())].clone()
            }
        };
        let mut words: Vec<Word> = (at..at + terms).map(word).collect();
        at += terms;
        if number % UNKNOWN == UNKNOWN - 1 {
            // No analyzer produces this word.
            words.push((0, "\u{0}".to_owned()));
        }
        let mode = [Mode::Or, Mode::Or, Mode::And, Mode::AndOr][number / FREQUENT % 4];
        let query = Query::of_fields(words.into_iter().map(|(field, word)| (field, word, 1.0)));
        plans.push(planner.plan(&query, mode, k)?);
    }
    Ok(plans)
}

/// The use of an engine, and the duration of its measurement.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Number of requests that the engine answers at the same time. Each is measured beside
    /// others.
    pub servers: usize,
    /// Number of CPU threads that each request may use.
    pub threads: usize,
    /// True if the engine answers batches, whose cost is then measured, too.
    pub batches: bool,
    /// Approximate duration of the measurement.
    pub time: Duration,
}

/// Times queries on an engine, as many at the same time as there are servers, and in batches if
/// the engine answers batches. The error of the model is measured on the queries of a log.
/// Without a log, a part of the queries is held out for it. As in a service, the model predicts
/// each of these queries before it learns from it.
pub fn calibrate(
    engine: &dyn Engine,
    plans: &[Plan],
    log: Option<&[Plan]>,
    usage: Usage,
) -> Result<Calibration, ExecError> {
    let (start, context) = (Instant::now(), Context::new(usage.threads));
    let supported = |plans: &[Plan]| -> Vec<Plan> {
        plans.iter().filter(|plan| engine.can_answer(plan).is_ok()).cloned().collect()
    };
    let plans = supported(plans);
    // The first queries may include work that is done only once.
    for plan in plans.iter().take(3) {
        ask(engine, &[plan], &context)?;
    }
    // Half of the time is for batches, and half of the rest for a log.
    let singles = if usage.batches { usage.time / 2 } else { usage.time };
    let time = if log.is_some() { singles / 2 } else { singles };
    let samples = sample(engine, &plans, usage, start + time)?;
    let part = |unseen: bool| {
        let some = samples.iter().enumerate();
        let some = some.filter(|(i, _)| i.is_multiple_of(UNSEEN) == unseen);
        some.map(|(_, &sample)| sample).collect::<Vec<_>>()
    };
    let (unseen, seen) = match log {
        Some(log) => {
            let until = Instant::now() + time;
            (sample(engine, &supported(log), usage, until)?, samples.clone())
        }
        None => (part(true), part(false)),
    };
    let errors = [Form::Rules, Form::Tree, Form::Boosted]
        .map(|form| CostModel::fit(form, &seen).learning_error(&unseen));
    let queries = samples.len() + if log.is_some() { unseen.len() } else { 0 };
    let model = CostModel::fit(Form::Boosted, &samples);
    let (mut fixed, mut share) = (Duration::ZERO, 1.0);
    if usage.batches {
        let (mut took, mut alone) = ([0.0; 2], [0.0; 2]);
        for ((size, took), alone) in BATCHES.into_iter().zip(&mut took).zip(&mut alone) {
            let some: Vec<&Plan> = plans.iter().take(size).collect();
            ask(engine, &some, &context)?;
            let mut times = Vec::new();
            while times.len() < TIMES || (times.len() < 20 && start.elapsed() < usage.time) {
                times.push(ask(engine, &some, &context)?.as_secs_f64());
            }
            times.sort_by(f64::total_cmp);
            *took = times[times.len() / 2];
            let predict = |plan: &&Plan| model.predict(&features(engine, plan)).as_secs_f64();
            *alone = some.iter().map(predict).sum();
        }
        // Fit a line through both batches: its intercept is the fixed cost, its slope the cost
        // per query.
        let slope = (took[1] - took[0]) / (alone[1] - alone[0]).max(1e-12);
        share = slope.clamp(1e-4, 1.0);
        fixed = Duration::from_secs_f64((took[0] - share * alone[0]).max(0.0));
    }
    let mut times: Vec<Duration> = samples.iter().chain(&unseen).map(|(_, took)| *took).collect();
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let ratio = ratio(engine, &plans[..samples.len().min(plans.len())], &samples);
    let (batches, unseen) = (usage.batches, unseen.len());
    Ok(Calibration { model, fixed, share, batches, errors, queries, unseen, median, ratio })
}

/// Returns the median ratio of times to the engine's estimates, or 1 without samples. The samples
/// are of the first plans, in the same order.
fn ratio(engine: &dyn Engine, plans: &[Plan], samples: &[Sample]) -> f64 {
    let ratio = |(plan, (_, took)): (&Plan, &Sample)| {
        // The cost of an engine may be corrected already; its estimate is not.
        let estimate = engine.estimate(&[plan], Context::single()).time.as_secs_f64();
        (estimate > 0.0).then(|| took.as_secs_f64() / estimate)
    };
    let mut ratios: Vec<f64> = plans.iter().zip(samples).filter_map(ratio).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(1.0)
}

/// Times queries on all servers until this moment.
fn sample(
    engine: &dyn Engine,
    plans: &[Plan],
    usage: Usage,
    until: Instant,
) -> Result<Vec<Sample>, ExecError> {
    let next = AtomicUsize::new(0);
    let measure = || -> Result<Vec<(usize, Sample)>, ExecError> {
        let mut samples = Vec::new();
        while Instant::now() < until {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(plan) = plans.get(number) else { break };
            samples.push((number, time(engine, plan, Context::single())?));
        }
        Ok(samples)
    };
    // An engine with batches answers one batch after another.
    let servers = if usage.batches { 1 } else { usage.servers.max(1) };
    let mut samples = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..servers).map(|_| scope.spawn(measure)).collect();
        let mut samples = Vec::new();
        for thread in threads {
            samples.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok::<_, ExecError>(samples)
    })?;
    samples.sort_by_key(|(number, _)| *number);
    Ok(samples.into_iter().map(|(_, sample)| sample).collect())
}

fn features(engine: &dyn Engine, plan: &Plan) -> Features {
    Features::of(plan).on(engine, plan)
}

/// Returns the time of a query, and its features before it ran.
fn time(engine: &dyn Engine, plan: &Plan, context: &Context) -> Result<Sample, ExecError> {
    let before = features(engine, plan);
    let mut took = vec![ask(engine, &[plan], context)?];
    // The engine foresees more of a query whose lists it has searched before, as those of most
    // queries are in a service.
    let features = Features { absent: before.absent, ..features(engine, plan) };
    // Do not repeat a query whose lists had to be transferred: now they are where the engine
    // needs them.
    while features.absent == 0 && took.len() < TIMES && took.iter().sum::<Duration>() < LONG {
        took.push(ask(engine, &[plan], context)?);
    }
    took.sort_unstable();
    Ok((features, took[took.len() / 2]))
}

fn ask(engine: &dyn Engine, plans: &[&Plan], context: &Context) -> Result<Duration, ExecError> {
    let start = Instant::now();
    let answers = engine.search(plans, context);
    let took = start.elapsed();
    answers.into_iter().try_for_each(|answer| answer.map(|_| ()))?;
    Ok(took)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use warpseek_exec::Ranking;
    use warpseek_exec_cpu::CpuEngine;
    use warpseek_testkit::{Doc, Fixture};

    use super::*;

    #[test]
    fn an_index_is_calibrated_with_its_own_queries() {
        let text = |i: usize| format!("a{} b{} c{}", i % 3, i % 17, i % 101);
        let fixture = Fixture::of(&(0..500).map(|i| Doc::text(i, text(i))).collect::<Vec<_>>());
        let snapshot = fixture.snapshot();
        let planner = Planner::new(snapshot.clone(), Ranking::default()).unwrap();
        let plans = own_queries(&snapshot, &planner, 10, Duration::ZERO).unwrap();
        assert!(plans.len() > 100);
        assert!(
            (1..=MOST_TERMS).all(|n| plans
                .iter()
                .any(|plan| plan.terms.len() + plan.missing.len() >= n.min(3)))
        );
        assert!(
            [Mode::Or, Mode::And, Mode::AndOr]
                .iter()
                .all(|mode| plans.iter().any(|plan| plan.mode == *mode))
        );
        let engine = CpuEngine::new(Arc::clone(&snapshot), None);
        for (batches, log) in [(false, None), (true, None), (false, Some(&plans[..100]))] {
            // Calibration ends early when there are no more plans.
            let time = Duration::from_secs(5);
            let found =
                calibrate(&engine, &plans, log, Usage { servers: 2, threads: 1, batches, time })
                    .unwrap();
            assert!(found.queries > 10 && found.share > 0.0 && found.share <= 1.0, "{found:?}");
            let text = serde_json::to_string(&found).unwrap();
            let read: Calibration = serde_json::from_str(&text).unwrap();
            assert_eq!(read.model, found.model);
        }
    }

    #[test]
    fn an_empty_index_has_nothing_to_calibrate() {
        let snapshot = Fixture::of(&[]).snapshot();
        let planner = Planner::new(snapshot.clone(), Ranking::default()).unwrap();
        let plans = own_queries(&snapshot, &planner, 10, Duration::ZERO).unwrap();
        assert!(plans.is_empty());
        let engine = CpuEngine::new(snapshot, None);
        let time = Duration::from_millis(10);
        let usage = Usage { servers: 1, threads: 1, batches: true, time };
        let found = calibrate(&engine, &plans, None, usage).unwrap();
        assert_eq!(found.queries, 0);
    }
}
