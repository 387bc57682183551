//! Expected times of batches: from a calibration, and from the queries of brief measurements.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use warpseek_exec::{Context, Engine, Load, Mode, Plan, Planner, Query, Ranking, Rates};
use warpseek_exec_cpu::CpuEngine;
use warpseek_index::Snapshot;
use warpseek_sched::calibrate::{Usage, calibrate, own_queries};
use warpseek_sched::{Speed, measure};
use warpseek_testkit::{Doc, Fixture};

/// Returns an index, and a planner for it.
fn index() -> (Fixture, Arc<Snapshot>, Planner) {
    let text = |i: usize| format!("a{} b{} c{}", i % 3, i % 17, i % 101);
    let fixture = Fixture::of(&(0..500).map(|i| Doc::text(i, text(i))).collect::<Vec<_>>());
    let snapshot = fixture.snapshot();
    let planner = Planner::new(snapshot.clone(), Ranking::default()).unwrap();
    (fixture, snapshot, planner)
}

/// Checks that the queries of a brief measurement are the same each time, consist of terms of the
/// index, and prefer frequent ones.
#[test]
fn brief_measurements_choose_the_same_frequent_terms() {
    let (_fixture, snapshot, planner) = index();
    let dfs = |plans: &[Plan]| -> Vec<Vec<u64>> {
        plans.iter().map(|plan| plan.terms.iter().map(|term| term.df).collect()).collect()
    };
    let plans = measure::few_probes(&snapshot, &planner, 10).unwrap();
    assert!(!plans.is_empty() && plans.iter().all(|plan| !plan.terms.is_empty()));
    assert!(plans.iter().all(|plan| plan.missing.is_empty() && plan.mode == Mode::Or));
    let again = measure::few_probes(&snapshot, &planner, 10).unwrap();
    assert_eq!(dfs(&plans), dfs(&again));
    // Three of the 121 terms have a third of all postings.
    let frequent = dfs(&plans).concat().into_iter().filter(|&df| df > 100).count();
    assert_eq!(frequent, 3, "{:?}", dfs(&plans));

    let nothing = Fixture::of(&[]).snapshot();
    let planner = Planner::new(nothing.clone(), Ranking::default()).unwrap();
    assert!(measure::few_probes(&nothing, &planner, 10).unwrap().is_empty());
}

/// Checks how a calibration adds up the times of the queries of a batch.
#[test]
fn a_batch_takes_as_long_as_its_queries_on_all_threads() {
    let (_fixture, snapshot, planner) = index();
    let engine = CpuEngine::new(snapshot.clone(), None);
    let queries = own_queries(&snapshot, &planner, 10, Duration::ZERO).unwrap();
    // The calibration ends early when there are no more queries.
    let usage = Usage { servers: 1, threads: 1, batches: false, time: Duration::from_secs(5) };
    let found = calibrate(&engine, &queries, None, usage).unwrap();
    assert!(found.ratio > 0.0 && found.ratio.is_finite(), "{found:?}");
    let plan = planner.plan(&Query::of([("a1".to_owned(), 1.0)]), Mode::Or, 10).unwrap();
    let time = |of: &warpseek_sched::calibrate::Calibration, queries: usize, threads| {
        of.time(&engine, &vec![&plan; queries], &Context::new(threads)).as_secs_f64()
    };
    let one = time(&found, 1, 1);
    let is = |time: f64, times: f64| (time / (times * one) - 1.0).abs() < 1e-3;
    assert!(one > 0.0 && time(&found, 0, 4) == 0.0);
    assert!(is(time(&found, 8, 1), 8.0) && is(time(&found, 8, 4), 2.0));
    assert!(is(time(&found, 2, 16), 1.0), "a query of a batch is not divided");
    // Large batches are represented by some of their queries.
    assert!(is(time(&found, 1000, 1), 1000.0));
    let fixed = Duration::from_secs_f64(3.0 * one);
    let device =
        warpseek_sched::calibrate::Calibration { batches: true, share: 0.5, fixed, ..found };
    assert!(is(time(&device, 1, 1), 1.0) && is(time(&device, 8, 16), 7.0));
    assert_eq!(engine.name(), "auto");
}

#[test]
fn a_speed_starts_as_a_calibration_expects() {
    let load = Load { queries: 4, postings: 1000, ..Load::default() };
    let speed = Speed::new(Rates::device(1e3, 1e3, 1.0, 0.0), 1);
    let expecting = speed.expecting(&load, Duration::from_micros(600));
    // A batch of 6 us by its rates takes a hundred times as long here.
    assert!(format!("{expecting:?}").contains("factor: 100.0"), "{expecting:?}");
}
