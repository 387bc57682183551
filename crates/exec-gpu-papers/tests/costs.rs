//! Tests of the costs that the papers' engines report for queries, compared with the engine that
//! serves.
#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use support::devices;
use warpseek_exec::{Context, Engine, Load, Mode, Plan};
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_exec_gpu_papers::partitioned::{PartitionSettings, PartitionedEngine, Pruning};
use warpseek_exec_gpu_papers::{CohortEngine, CohortSettings, IntersectEngine};
use warpseek_testkit::{Doc, Fixture, Search, plans};

/// Creates all engines of one small index, and a plan of three terms.
struct Engines {
    serving: Arc<GpuEngine>,
    papers: Vec<Box<dyn Engine>>,
    plan: Plan,
}

static ENGINES: LazyLock<Engines> = LazyLock::new(|| {
    let fixture = Fixture::of(&[Doc::text(0, "a1 a2 a3")]);
    let (snapshot, device) = (fixture.snapshot(), devices().remove(0));
    let plan = plans(&snapshot, &[Search::of(&["a1", "a2", "a3"])]).remove(0);
    let serving = GpuEngine::new(snapshot.clone(), device.clone(), Settings::default()).unwrap();
    let serving = Arc::new(serving);
    let mut papers: Vec<Box<dyn Engine>> = vec![
        Box::new(CohortEngine::new(serving.clone(), CohortSettings::default()).unwrap()),
        Box::new(IntersectEngine::new(snapshot.clone(), device.clone(), None).unwrap()),
    ];
    for &pruning in Pruning::ALL {
        let settings = PartitionSettings { pruning, ..PartitionSettings::default() };
        let engine = PartitionedEngine::new(snapshot.clone(), device.clone(), settings);
        papers.push(Box::new(engine.unwrap()));
    }
    Engines { serving, papers, plan }
});

/// Creates a plan of terms that occur in this many documents each.
fn plan(mode: Mode, k: usize, count: bool, dfs: [u64; 3]) -> Plan {
    let mut plan = Plan { mode, k, count, ..ENGINES.plan.clone() };
    plan.terms.iter_mut().zip(dfs).for_each(|(term, df)| term.df = df);
    plan
}

/// Tests that the rates reproduce the measurements that they were derived from
/// (docs/measurements/gpu.md), in microseconds per query.
#[test]
fn rates_reproduce_the_measurements() {
    let dfs = [240_000, 1_000_000, 2_500_000];
    for (name, mode, k, queries, measured) in [
        ("cohort", Mode::Or, 10, 64, 30.0),
        ("cohort", Mode::Or, 10, 1024, 21.0),
        ("intersect", Mode::And, 10, 10_000, 20.6),
        ("intersect", Mode::And, 10, 1, 135.0),
        ("gpu-wand", Mode::Or, 128, 100, 444.0),
        ("gpu-maxscore", Mode::Or, 128, 100, 260.0),
    ] {
        let plan = plan(mode, k, false, dfs);
        let engine = ENGINES.papers.iter().find(|engine| engine.name() == name).unwrap();
        let rates = engine.candidates(&plan, false, &Context::new(1))[0].rates.unwrap();
        let load = Load::sum(vec![&plan; queries]);
        let time = rates.time(&load, 1) / queries as f64 / 1e3;
        assert!((time / measured - 1.0).abs() < 0.05, "{name}: {time} for {measured}");
        let estimate = engine.cost(&vec![&plan; queries], &Context::new(1));
        assert_eq!(estimate.as_nanos(), rates.time(&load, 1) as u128, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Tests that with these rates the engine that serves is never the worse choice, so that no
    /// other engine need be opened.
    #[test]
    fn the_serving_engine_is_never_the_worse_choice(
        dfs in [1u64..50_000_000, 1u64..50_000_000, 1u64..50_000_000],
        queries in 1usize..2000, k in 1usize..100_000, count in any::<bool>(), mode in 0usize..3,
    ) {
        let plan = plan([Mode::Or, Mode::And, Mode::AndOr][mode], k, count, dfs);
        let (batch, context) = (vec![&plan; queries], Context::new(16));
        let estimate = ENGINES.serving.estimate(&batch, &context);
        let best = if count { "tiles" } else { "pruned tiles" };
        let offer = estimate.offers.iter().find(|offer| offer.algorithm == best).unwrap();
        prop_assert_eq!(offer.time, Some(estimate.time));
        for engine in ENGINES.papers.iter().filter(|engine| engine.supports(&plan).is_ok()) {
            let cost = engine.cost(&batch, &context);
            prop_assert!(cost >= estimate.time, "{}: {:?} < {:?}", engine.name(), cost, estimate.time);
        }
    }
}
