//! Finds out what queries cost on an engine of this machine.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use warpseek_exec::{Context, Engine, ExecError, Mode, Plan, Planner, Query};
use warpseek_index::Snapshot;

use crate::model::{CostModel, Features, Form};

/// Queries of an index's own terms, and the most terms of one.
const QUERIES: usize = 3000;
const MOST_TERMS: usize = 6;

/// How often a query is timed: the median counts, which the stall of one does not change.
const TIMES: usize = 3;

/// One query in this many is left out when the model is made, and shows how good it is.
const UNSEEN: usize = 4;

/// Queries of the batches that show what a batch costs.
const BATCHES: [usize; 2] = [64, 1024];

/// What queries cost on an engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// What a query costs alone.
    pub model: CostModel,
    /// What a batch costs, however many queries it has.
    pub fixed: Duration,
    /// What a query adds to a large batch, of what it costs alone.
    pub share: f64,
    /// Mean relative error of the model on queries that it was not made from, by form: rules, a tree, boosted trees, which is the one that is used.
    pub errors: [f64; 3],
    /// Queries that were timed.
    pub queries: usize,
}

/// Queries of one to six of an index's own terms, in all modes. A term is as probable as its postings are many.
pub fn own_queries(
    snapshot: &Snapshot,
    planner: &Planner,
    k: usize,
) -> Result<Vec<Plan>, ExecError> {
    let all: u64 = snapshot.segments().iter().map(|s| s.dictionary().postings()).sum();
    let wanted = QUERIES * MOST_TERMS;
    let step = (all / wanted as u64).max(1);
    let (mut seen, mut next, mut words) = (0, step / 2, Vec::new());
    for segment in snapshot.segments() {
        let mut terms = segment.dictionary().iter();
        while let Some(info) = terms.next_term()? {
            seen += u64::from(info.df);
            while seen > next && words.len() < wanted {
                next += step;
                words.push(String::from_utf8_lossy(terms.term()).into_owned());
            }
        }
    }
    let mut plans = Vec::new();
    // A prime far from any regularity of the dictionary takes neighbours apart.
    let word = |i: usize| words[(i * 7919) % words.len()].clone();
    let mut at = 0;
    while !words.is_empty() && plans.len() < QUERIES.min(words.len()) {
        let number = plans.len();
        let terms = 1 + (number * 31 + number / 7) % MOST_TERMS;
        let query = Query { terms: (at..at + terms).map(|i| (word(i), 1.0)).collect() };
        at += terms;
        let mode = [Mode::Or, Mode::Or, Mode::And, Mode::AndOr][number % 4];
        plans.push(planner.plan(&query, mode, k)?);
    }
    Ok(plans)
}

/// Times queries one by one on an engine, and in batches if it answers `batches`, for about this long.
pub fn calibrate(
    engine: &dyn Engine,
    plans: &[Plan],
    batches: bool,
    context: &Context,
    time: Duration,
) -> Result<Calibration, ExecError> {
    let start = Instant::now();
    let mut samples: Vec<(Features, Duration)> = Vec::new();
    // The first query may have to wait for what is done once.
    for plan in plans.iter().take(3) {
        ask(engine, &[plan], context)?;
    }
    for plan in plans {
        // Half of the time is for batches.
        if start.elapsed() > if batches { time / 2 } else { time } {
            break;
        }
        if engine.supports(plan).is_err() {
            continue;
        }
        let mut took = [Duration::ZERO; TIMES];
        for took in &mut took {
            *took = ask(engine, &[plan], context)?;
        }
        took.sort_unstable();
        samples.push((Features::of(plan), took[TIMES / 2]));
    }
    let (unseen, seen): (Vec<_>, Vec<_>) =
        samples.iter().enumerate().partition(|(i, _)| i % UNSEEN == 0);
    let of = |some: Vec<(usize, &(Features, Duration))>| {
        some.into_iter().map(|(_, sample)| *sample).collect::<Vec<_>>()
    };
    let (unseen, seen) = (of(unseen), of(seen));
    let errors = [Form::Rules, Form::Tree, Form::Boosted]
        .map(|form| CostModel::fit(form, &seen).relative_error(&unseen));
    let model = CostModel::fit(Form::Boosted, &samples);
    let (mut fixed, mut share) = (Duration::ZERO, 1.0);
    if batches {
        let mut took = [0.0; 2];
        let mut alone = [0.0; 2];
        for ((size, took), alone) in BATCHES.into_iter().zip(&mut took).zip(&mut alone) {
            let some: Vec<&Plan> =
                plans.iter().filter(|plan| engine.supports(plan).is_ok()).take(size).collect();
            ask(engine, &some, context)?;
            let mut times = Vec::new();
            while times.len() < TIMES || (times.len() < 20 && start.elapsed() < time) {
                times.push(ask(engine, &some, context)?.as_secs_f64());
            }
            times.sort_by(f64::total_cmp);
            *took = times[times.len() / 2];
            *alone = some.iter().map(|plan| model.predict(&Features::of(plan)).as_secs_f64()).sum();
        }
        // The line through both: what a batch costs alone, and what a query adds.
        let slope = (took[1] - took[0]) / (alone[1] - alone[0]).max(1e-12);
        share = slope.clamp(1e-4, 1.0);
        fixed = Duration::from_secs_f64((took[0] - share * alone[0]).max(0.0));
    }
    Ok(Calibration { model, fixed, share, errors, queries: samples.len() })
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
        let plans = own_queries(&snapshot, &planner, 10).unwrap();
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
        for batches in [false, true] {
            let time = Duration::from_millis(200);
            let found = calibrate(&engine, &plans, batches, Context::single(), time).unwrap();
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
        let plans = own_queries(&snapshot, &planner, 10).unwrap();
        assert!(plans.is_empty());
        let engine = CpuEngine::new(snapshot, None);
        let found = calibrate(&engine, &plans, false, Context::single(), Duration::from_millis(10))
            .unwrap();
        assert_eq!(found.queries, 0);
    }
}
