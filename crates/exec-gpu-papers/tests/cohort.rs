//! Cohorts: the suite of all engines, and cohorts, groups and tiles of many sizes.

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use support::devices;
use warpseek_exec::{Engine, Mode};
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_exec_gpu_papers::{CohortEngine, CohortSettings};
use warpseek_index::Snapshot;
use warpseek_testkit::{Doc, Fixture, Search, answers, conformance, expected, plans};

/// Tiles so small that small indexes have many.
const SMALL: Settings =
    Settings { tile_bits: 5, or_bits: 8, and_bits: 10, round: 50, in_flight: 3, pruned: false };

fn engine(snapshot: Arc<Snapshot>, device: usize, cohort: CohortSettings) -> CohortEngine {
    let mut devices = devices();
    let device = devices.remove(device % devices.len());
    let tiles = GpuEngine::new(snapshot, device, SMALL).unwrap();
    CohortEngine::new(Arc::new(tiles), cohort).unwrap()
}

/// With one thread on one device, with three on the other.
fn cohort(snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    let settings = CohortSettings { cohort: 50, tile: 300, micro_bits: 7, group: 6 };
    Box::new(engine(snapshot, threads / 2, settings))
}

conformance!(cohorts, cohort, cases alone);

/// Words in every second to seventh document, and a few in very few.
fn text(i: usize) -> String {
    let words =
        [("ant ", 2), ("bee ", 3), ("cat ", 5), ("dog ", 7), ("rare ", 211), ("rarer ", 607)];
    let times = |every: usize| if i.is_multiple_of(every) { 1 + i * i % 5 } else { 0 };
    words.iter().map(|&(word, every)| word.repeat(times(every))).collect::<String>() + "elk"
}

/// Queries that have lists in common, dense and sparse, in both halves of pairs and in one.
fn searches(mode: Mode) -> Vec<Search> {
    let queries: [&[&str]; 9] = [
        &["ant", "bee"],
        &["ant", "bee", "cat"],
        &["ant"],
        &["bee", "rare"],
        &["rare", "rarer"],
        &["ant", "bee", "cat", "dog", "rare"],
        &["dog", "cat"],
        &["ant", "rarer"],
        &["elk", "dog"],
    ];
    let of = |terms: &&[&str]| Search { mode, ..Search::of(terms) };
    queries.iter().map(of).collect()
}

/// The layout is no part of the answer.
#[test]
fn layouts() {
    let docs: Vec<_> = (0..1500).map(|i| Doc::text(i, text(i))).collect();
    let fixture = Fixture::of(&docs);
    let snapshot = fixture.snapshot();
    for mode in [Mode::Or, Mode::And, Mode::AndOr] {
        for k in [1, 10, 40] {
            let searches: Vec<_> = searches(mode).into_iter().map(|s| Search { k, ..s }).collect();
            let plans = plans(&snapshot, &searches);
            let expected = expected(&snapshot, &plans);
            let expected: Vec<_> = expected.iter().map(|answer| &answer.hits).collect();
            for (cohort, group, tile, micro_bits) in
                [(1, 1, 1, 7), (4, 2, 100, 8), (9, 3, 1000, 7), (9, 32, 1 << 20, 9)]
            {
                for device in 0..devices().len() {
                    let settings = CohortSettings { cohort, group, tile, micro_bits };
                    let engine = engine(snapshot.clone(), device, settings);
                    let answers = answers(&engine, &plans, 1).unwrap();
                    let hits: Vec<_> = answers.iter().map(|answer| &answer.hits).collect();
                    assert_eq!(hits, expected, "{mode}, k {k}, {settings:?}, device {device}");
                }
            }
        }
    }
}
