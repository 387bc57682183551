//! The costs of queries that the engine reports, and the algorithms it chooses.
#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use support::devices;
use warpseek_exec::{Candidate, Context, Engine, Load, Mode, Plan, cheapest};
use warpseek_exec_gpu::{GpuEngine, PRUNED_TERMS, Settings};
use warpseek_testkit::{Doc, Fixture, Search, plans};

/// Returns an engine, and a plan of terms that occur in this many documents each.
fn engine(settings: Settings, dfs: &[u64]) -> (GpuEngine, Plan) {
    let words: Vec<String> = (0..dfs.len()).map(|i| format!("a{i}")).collect();
    let snapshot = Fixture::of(&[Doc::text(0, words.join(" "))]).snapshot();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut plan = plans(&snapshot, &[Search::of(&words)]).remove(0);
    plan.terms.iter_mut().zip(dfs).for_each(|(term, &df)| term.df = df);
    (GpuEngine::new(snapshot, devices().remove(0), settings).unwrap(), plan)
}

fn candidate(engine: &GpuEngine, plan: &Plan, algorithm: &str) -> Candidate {
    let candidates = engine.candidates(plan, false, &Context::new(1));
    *candidates.iter().find(|candidate| candidate.algorithm == algorithm).unwrap()
}

fn chosen(engine: &GpuEngine, plan: &Plan) -> &'static str {
    let candidates = engine.candidates(plan, false, &Context::new(1));
    cheapest(&candidates, &Load::of(plan)).unwrap().algorithm
}

/// Checks the cost of a posting by the number of terms, with OR.
#[test]
fn rates_grow_with_the_number_of_terms() {
    for (terms, measured) in [(6, 0.0022), (11, 0.0066), (22, 0.019)] {
        let (engine, plan) = engine(Settings::default(), &vec![1_360_000; terms]);
        let rates = candidate(&engine, &plan, "pruned tiles").rates.unwrap();
        assert!((rates.posting / measured - 1.0).abs() < 0.15, "{terms}: {}", rates.posting);
    }
}

/// Checks that the rates reproduce the measurements that they were derived from
/// (docs/measurements/gpu.md), in microseconds per query.
#[test]
fn rates_reproduce_the_measurements() {
    let (engine, plan) = engine(Settings::default(), &[240_000, 1_000_000, 2_500_000]);
    for (algorithm, mode, k, queries, measured) in [
        ("pruned tiles", Mode::Or, 10, 10_000, 4.5),
        ("pruned tiles", Mode::Or, 10, 1, 62.0),
        ("pruned tiles", Mode::Or, 1000, 10_000, 11.7),
        ("pruned tiles", Mode::And, 10, 10_000, 3.4),
        ("pruned tiles", Mode::And, 10, 1, 50.0),
        ("pruned tiles", Mode::And, 1000, 10_000, 5.9),
        ("tiles", Mode::Or, 10, 10_000, 12.4),
        ("tiles", Mode::Or, 10, 1, 95.0),
    ] {
        let plan = Plan { mode, k, ..plan.clone() };
        let rates = candidate(&engine, &plan, algorithm).rates.unwrap();
        let load = Load::sum(vec![&plan; queries]);
        let time = rates.time(&load, 1) / queries as f64 / 1e3;
        assert!((time / measured - 1.0).abs() < 0.05, "{algorithm}: {time} for {measured}");
    }
}

#[test]
fn the_algorithm_follows_from_the_plan() {
    let (pruned, plan) = engine(Settings::default(), &[5, 900_000]);
    for mode in [Mode::Or, Mode::And, Mode::AndOr] {
        assert_eq!(chosen(&pruned, &Plan { mode, ..plan.clone() }), "pruned tiles", "{mode}");
    }
    let counted = Plan { count: true, ..plan.clone() };
    assert_eq!(chosen(&pruned, &counted), "tiles");
    assert_eq!(candidate(&pruned, &counted, "pruned tiles").rates, Err("matches are counted"));
    for (terms, expected) in [(PRUNED_TERMS, "pruned tiles"), (PRUNED_TERMS + 1, "tiles")] {
        let (engine, long) = engine(Settings::default(), &vec![7; terms]);
        let long = Plan { mode: Mode::And, ..long };
        assert_eq!(chosen(&engine, &long), expected, "{terms} terms");
        let refused = candidate(&engine, &long, "pruned tiles").rates.err();
        assert_eq!(refused, (terms > PRUNED_TERMS).then_some("too many terms"));
    }
    // With OR, the bounds of many lists together seldom exclude a document.
    for (terms, mode, expected) in [
        (6, Mode::Or, "pruned tiles"),
        (11, Mode::Or, "tiles"),
        (22, Mode::Or, "tiles"),
        (22, Mode::AndOr, "tiles"),
        (22, Mode::And, "pruned tiles"),
    ] {
        let (engine, long) = engine(Settings::default(), &vec![1_360_000; terms]);
        assert_eq!(chosen(&engine, &Plan { mode, ..long }), expected, "{terms} terms, {mode}");
    }
    let (exhaustive, plan) = engine(Settings { pruned: false, ..Settings::default() }, &[5, 9]);
    assert_eq!(chosen(&exhaustive, &plan), "tiles");
    assert_eq!(candidate(&exhaustive, &plan, "tiles").why, "asked for");
    // If one algorithm cannot answer a plan, the other does.
    for plan in [&plan, &counted] {
        assert_eq!((exhaustive.supports(plan), pruned.supports(plan)), (Ok(()), Ok(())));
    }
}
