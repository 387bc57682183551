//! Tests of cohorts: the conformance suite of all engines, and cohorts, groups and tiles of many
//! sizes.

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use support::{devices, on_gpu};
use warpseek_core::limits::MAX_IMPACT;
use warpseek_cuda_emulator::inject;
use warpseek_exec::{Context, Engine, Mode, Query, Ranking, RankingFunction};
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_exec_gpu_papers::kernels::cohort::shared_bytes;
use warpseek_exec_gpu_papers::{CohortEngine, CohortSettings};
use warpseek_index::Snapshot;
use warpseek_testkit::skips::elsewhere;
use warpseek_testkit::{Doc, Fixture, Search, answers, conformance, expected, plans};

/// Returns settings with tiles so small that small indexes have many of them.
const SMALL: Settings = Settings {
    tile_bits: 5,
    or_bits: 8,
    and_bits: 10,
    round: 50,
    pruned: false,
    ..Settings::USUAL
};

fn engine(snapshot: Arc<Snapshot>, device: usize, cohort: CohortSettings) -> CohortEngine {
    let mut devices = devices();
    let device = devices.remove(device % devices.len());
    let tiles = GpuEngine::new(snapshot, device, SMALL).unwrap();
    CohortEngine::new(Arc::new(tiles), cohort).unwrap()
}

/// Runs on one device with one thread, on the other with three.
fn cohort(snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    let settings = CohortSettings { cohort: 50, tile: 300, micro_bits: 7, group: 6 };
    Box::new(engine(snapshot, threads / 2, settings))
}

conformance!(cohorts, cohort, cases alone);

/// Returns a text with words that are in every second to seventh document, and a few that are in
/// very few documents.
fn text(i: usize) -> String {
    let words =
        [("ant ", 2), ("bee ", 3), ("cat ", 5), ("dog ", 7), ("rare ", 211), ("rarer ", 607)];
    let times = |every: usize| if i.is_multiple_of(every) { 1 + i * i % 5 } else { 0 };
    words.iter().map(|&(word, every)| word.repeat(times(every))).collect::<String>() + "elk"
}

/// Returns queries that share lists, dense and sparse, in both halves of a pair or in one.
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
    let search = |terms: &&[&str]| Search { mode, ..Search::of(terms) };
    queries.iter().map(search).collect()
}

/// Tests that answers do not depend on the layout.
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

/// Returns a search for the first `terms` words of an index of vectors.
fn many(terms: usize, mode: Mode) -> Search {
    let terms = (0..terms).map(|i| (format!("w{i}"), 1.0));
    let ranking = Ranking { function: RankingFunction::Impact, static_weight: 0.0 };
    Search { query: Query::of(terms), mode, k: 5, ranking }
}

/// Creates documents that contain this many words with the largest possible values; every third
/// document lacks one of them.
fn full(words: usize) -> Fixture {
    let names: Vec<String> = (0..words).map(|i| format!("w{i}")).collect();
    // Weights are kept in 256ths.
    let most = f64::from(MAX_IMPACT) / 256.0;
    let doc = |i: usize| {
        let has = |j: &usize| !i.is_multiple_of(3) || *j != i * 7;
        let weights: Vec<_> = (0..words).filter(has).map(|j| (&*names[j], most)).collect();
        Doc::vector(i, &weights)
    };
    Fixture::of(&(0..40).map(doc).collect::<Vec<_>>())
}

/// Checks that a plan is answered as by the reference, by a cohort or, above its limits, by the
/// engine whose image it uses. Returns true if it was a cohort.
fn check(engine: &CohortEngine, snapshot: &Arc<Snapshot>, search: &Search) -> bool {
    let plans = plans(snapshot, std::slice::from_ref(search));
    let answers = answers(engine, &plans, 1).unwrap();
    let expected = expected(snapshot, &plans);
    assert_eq!(answers[0].hits, expected[0].hits, "{} terms", plans[0].terms.len());
    let choice = engine.explain(&[&plans[0]], &Context::new(1)).remove(0);
    let limit = engine.why_not(&plans[0]);
    assert_eq!(choice.algorithm == "cohort", limit.is_none(), "{choice:?}");
    assert_eq!(choice.why, limit.unwrap_or("asked for"));
    limit.is_none()
}

/// Tests the limits of sums of 15 bits. With the largest unit a posting adds up to three units,
/// which is enough for 10,922 terms; with AND each posting adds one.
#[test]
fn more_terms_than_sums_have_room_for() {
    let snapshot = full(32_768).snapshot();
    for device in 0..devices().len() {
        let engine = engine(snapshot.clone(), device, CohortSettings::default());
        let answered = |terms, mode| check(&engine, &snapshot, &many(terms, mode));
        assert!(answered(10_922, Mode::Or) && !answered(10_923, Mode::Or));
        assert!(answered(32_767, Mode::And) && !answered(32_768, Mode::And));
        assert!(answered(10_922, Mode::AndOr) && !answered(10_923, Mode::AndOr));
    }
}

/// Tests the limits of shared memory: short lists take two words each, long lists none.
#[test]
fn more_short_lists_than_shared_memory_has_room_for() {
    if on_gpu() {
        return elsewhere("less shared memory", "a GPU has what it has");
    }
    let words: Vec<String> = (0..10_000).map(|i| format!("w{i}")).collect();
    // The first words are in every document, the others in one of the first documents.
    let doc = |i: usize| {
        let has = |j: &usize| *j < 2000 || j % 40 == i;
        let weights: Vec<_> = (0..words.len()).filter(has).map(|j| (&*words[j], 1.0)).collect();
        Doc::vector(i, &weights)
    };
    let fixture = Fixture::of(&(0..40).map(doc).collect::<Vec<_>>());
    let snapshot = fixture.snapshot();
    let _injected = inject("shared=65536");
    for device in 0..devices().len() {
        let engine = engine(snapshot.clone(), device, CohortSettings::default());
        let fixed = shared_bytes(4, 1 << 11, 0);
        let room = ((65_536 - fixed) / 8) as usize;
        assert!(check(&engine, &snapshot, &many(2000 + room, Mode::Or)));
        assert!(!check(&engine, &snapshot, &many(2000 + room + 1, Mode::Or)));
        // Settings shrink to what fits, and a device whose shared memory is too small for the
        // smallest settings is refused.
        let large = CohortSettings { micro_bits: 15, group: 32, ..CohortSettings::default() };
        let engine = CohortEngine::new(engine.tiles().clone(), large).unwrap();
        let CohortSettings { micro_bits, group, .. } = engine.settings();
        assert!((micro_bits, group) < (15, 32));
        assert!(check(&engine, &snapshot, &many(600, Mode::Or)));
    }
}
