//! Lists that are loaded to the device when queries need them: whatever the memory, the hits are
//! the reference's.

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use proptest::prelude::*;
use support::{devices, devices_within, on_gpu};
use warpseek_codec::CodecId;
use warpseek_exec::{Context, Engine, ExecError, Fault, Mode, Plan, Ranking, RankingFunction};
use warpseek_exec_gpu::image::least_bytes;
use warpseek_exec_gpu::{GpuEngine, GpuLists, Policy, Settings};
use warpseek_index::{BuildConfig, Snapshot};
use warpseek_testkit::generator::{Case, cases};
use warpseek_testkit::skips::elsewhere;
use warpseek_testkit::{Doc, Fixture, Random, Search, build_config, conformance, expected, plans};

const SMALL: Settings = Settings {
    tile_bits: 5,
    or_bits: 8,
    and_bits: 10,
    round: 25,
    lists: GpuLists::Compact,
    ..Settings::USUAL
};

fn compact(snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    let mut devices = devices();
    let device = devices.remove(threads / 2 % devices.len());
    Box::new(GpuEngine::new(snapshot, device, SMALL).unwrap())
}

conformance!(compact_lists, compact, cases alone);

/// Answers all plans, in one batch and in small ones, and returns the number answered. Errors
/// must be about memory.
fn check(engine: &GpuEngine, snapshot: &Arc<Snapshot>, plans: &[Plan], threads: usize) -> usize {
    let context = Context::new(threads);
    let expected = expected(snapshot, plans);
    let all: Vec<&Plan> = plans.iter().collect();
    let mut answered = 0;
    for batch in [plans.len().max(1), 3, 1] {
        for (some, wanted) in all.chunks(batch).zip(expected.chunks(batch)) {
            for (answer, wanted) in engine.search(some, &context).into_iter().zip(wanted) {
                match answer {
                    Ok(answer) => {
                        assert_eq!(answer.hits, wanted.hits);
                        assert!(answer.matches.is_none_or(|n| Some(n) == wanted.matches));
                        answered += 1;
                    }
                    Err(ExecError::Device { fault, source }) => {
                        assert_ne!(fault, Fault::Device, "{source}");
                        assert!(source.to_string().contains("memory"), "{source}");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
    answered
}

/// Returns documents with common and rare words.
fn docs(count: usize) -> Vec<Doc> {
    let mut random = Random::new(3);
    let text = |i: usize| {
        let mut words = Vec::new();
        for step in [1usize, 2, 3, 5, 20, 90, 700] {
            if random.one_in(step) {
                words.extend(std::iter::repeat_n(format!("w{step}"), random.below(4) + 1));
            }
        }
        // Words that are in one part of the documents only.
        words.push(format!("part{}", i * 5 / count.max(1)));
        words.join(" ")
    };
    (0..count).map(text).enumerate().map(|(i, text)| Doc::text(i, text)).collect()
}

fn searches() -> Vec<Search> {
    let of = |terms: &[&str]| Search::of(terms);
    let mut searches = vec![
        of(&["w1"]),
        of(&["w1", "w2", "w3"]),
        of(&["w2", "w20", "part3"]),
        of(&["w700"]),
        of(&["w5", "w90", "w700", "part0"]),
        of(&["part1", "part2"]),
        of(&["w3", "absent"]),
    ];
    for (i, k) in [(0, 1), (1, 3), (2, 10), (3, 40), (4, 100)] {
        searches.push(Search { k, ..searches[i].clone() });
    }
    let and = searches.iter().map(|search| Search { mode: Mode::And, ..search.clone() });
    let and_or = searches.iter().map(|search| Search { mode: Mode::AndOr, ..search.clone() });
    let (and, and_or): (Vec<_>, Vec<_>) = (and.collect(), and_or.collect());
    searches.into_iter().chain(and).chain(and_or).collect()
}

/// Returns plans of the searches, half of them with a count of all matches.
fn all_plans(snapshot: &Arc<Snapshot>) -> Vec<Plan> {
    let plans = plans(snapshot, &searches());
    let counted = plans.iter().map(|plan| Plan { count: true, ..plan.clone() });
    plans.iter().cloned().chain(counted).collect()
}

/// Varies memory from none to enough for everything: answers are correct or absent, and every
/// query is answered from some size on.
#[test]
fn any_budget() {
    let docs = docs(6000);
    let fixture = Fixture::of(&docs[..5000]);
    fixture.add(&docs[5000..]).unwrap();
    let deleted: Vec<String> = (0..6000).step_by(7).map(|i| i.to_string()).collect();
    fixture.delete(&deleted).unwrap();
    let snapshot = fixture.snapshot();
    let plans = all_plans(&snapshot);
    // Queries that need no list are answered without memory.
    let asks = |plan: &&Plan| plan.mode != Mode::And || plan.missing.is_empty();
    let asking = 3 * plans.iter().filter(asks).count();
    let idle = 3 * plans.len() - asking;
    for policy in [Policy::Worth, Policy::Recent] {
        let (mut lists, mut slices, mut rounds) = ([0; 3], 0, 0);
        for budget in [0, 30_000, 100_000, 250_000, 500_000, 3_000_000] {
            for device in devices_within(Some(budget)) {
                let settings = Settings { lists: GpuLists::Auto, policy, ..SMALL };
                let engine = GpuEngine::new(snapshot.clone(), device.unwrap(), settings).unwrap();
                let answered = check(&engine, &snapshot, &plans, 2);
                assert!(engine.device().memory().peak <= budget);
                assert!(budget > 0 || answered == idle, "{answered} of {asking}");
                assert!(budget < 500_000 || answered == asking + idle, "{budget}: {answered}");
                let counts = engine.cache_counts().unwrap_or_default();
                lists.iter_mut().zip(counts.lists).for_each(|(sum, one)| *sum += one);
                (slices, rounds) = (slices + counts.slices, rounds + counts.rounds);
            }
        }
        // On a GPU, rounds need more memory than all lists. Tiles stayed, compressed lists
        // stayed, lists were copied from main memory, and documents were cut.
        let used = lists.iter().all(|&n| n > 0) && slices > 3 * rounds;
        assert!(on_gpu() || used, "{lists:?} {slices} {rounds}");
    }
}

/// Checks that slices can enter lists that stay as tiles in the middle.
#[test]
fn tiles_that_stay_are_cut_too() {
    let mut random = Random::new(5);
    let words: Vec<String> = (0..20).map(|i| format!("w{i}")).collect();
    let mut text = |i: usize| {
        let bits = random.bits();
        let some = words.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
        let text = some.map(|(_, word)| word.as_str()).collect::<Vec<_>>().join(" ");
        // The best documents come late.
        text.repeat(if i > 70_000 && i.is_multiple_of(97) { i % 5 + 1 } else { 1 })
    };
    let docs: Vec<Doc> = (0..100_000).map(|i| Doc::text(i, text(i))).collect();
    let fixture = Fixture::of(&docs);
    let snapshot = fixture.snapshot();
    // The first ten stay, the others do not.
    let single = |i: usize| Search::of(&[&format!("w{}", i % 10)]);
    let mixed: [&[&str]; 3] = [&["w0", "w10", "w11"], &["w1", "w12"], &["w2", "w13", "w3", "w14"]];
    let mixed = mixed.iter().map(|terms| Search::of(terms));
    let searches: Vec<Search> = (0..30).map(single).chain(mixed).collect();
    let plans = plans(&snapshot, &searches);
    let expected = expected(&snapshot, &plans);
    let settings = Settings { tile_bits: 10, ..Settings::USUAL };
    let budget = if on_gpu() { 30_000_000 } else { 6_500_000 };
    let device = devices_within(Some(budget)).remove(0).unwrap();
    let engine = GpuEngine::new(snapshot.clone(), device, settings).unwrap();
    for _ in 0..2 {
        for (plan, expected) in plans.iter().zip(&expected) {
            let answer = engine.search(&[plan], &Context::new(2)).remove(0).unwrap();
            assert_eq!(answer.hits, expected.hits);
        }
        let all: Vec<&Plan> = plans.iter().collect();
        for (answer, expected) in engine.search(&all, &Context::new(2)).into_iter().zip(&expected) {
            assert_eq!(answer.unwrap().hits, expected.hits);
        }
    }
    let counts = engine.cache_counts().unwrap_or_default();
    assert!(on_gpu() || counts.lists[0] > 0 && counts.slices > counts.rounds, "{counts:?}");
}

/// Checks that the cost of a plan counts the tiles of its own formula, whichever formula was
/// requested last.
#[test]
fn costs_are_those_of_the_formula() {
    if on_gpu() {
        elsewhere(
            "the cost of lists that stay as tiles",
            "rounds on a GPU need more memory than lists",
        );
        return;
    }
    // So few tiles that lists can stay as tiles, and too little memory for all of them.
    let fixture = Fixture::of(&docs(32_000));
    let snapshot = fixture.snapshot();
    let settings = Settings { tile_bits: 10, lists: GpuLists::Auto, ..SMALL };
    let all = least_bytes(&snapshot.segments()[0], &(0..32_000), settings.tile_bits).unwrap();
    let device = devices_within(Some(all * 15 / 16)).remove(0).unwrap();
    let engine = GpuEngine::new(snapshot.clone(), device, settings).unwrap();
    let context = Context::new(1);
    let cosine = Ranking { function: RankingFunction::Cosine, ..Ranking::default() };
    let search = Search::of(&["w20"]);
    let plans = plans(&snapshot, &[search.clone(), Search { ranking: cosine, ..search }]);
    let cost = |plan: &Plan| engine.cost(&[plan], &context);

    engine.prepare(&plans[0].formulas, &context).unwrap();
    let cold = cost(&plans[0]);
    engine.search(&[&plans[0]], &context).remove(0).unwrap();
    let warm = cost(&plans[0]);
    assert!(warm < cold, "the list stays as tiles: {warm:?} and {cold:?}");
    assert!(cost(&plans[1]) > warm, "tiles have the values of one formula");
    engine.prepare(&plans[1].formulas, &context).unwrap();
    assert_eq!(cost(&plans[0]), warm);
    let both = engine.cost(&[&plans[0], &plans[1]], &context);
    assert_eq!(engine.cost(&[&plans[1], &plans[0]], &context), both);
    assert_eq!((engine.absent(&plans[0]), engine.absent(&plans[1])), (0, 0));
}

#[test]
fn every_codec() {
    let docs = docs(1500);
    for codec in CodecId::ALL {
        let fixture = Fixture::with(&docs, BuildConfig { codec: Some(codec), ..build_config() });
        let snapshot = fixture.snapshot();
        let plans = all_plans(&snapshot);
        let device = devices_within(Some(800_000)).remove(0).unwrap();
        let settings = Settings { lists: GpuLists::Compact, ..SMALL };
        let engine = GpuEngine::new(snapshot.clone(), device, settings).unwrap();
        assert_eq!(check(&engine, &snapshot, &plans, 1), 3 * plans.len(), "{codec}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn any_index_any_budget(case in cases(), budget in 50_000u64..1_500_000, recent: bool) {
        let case: Case = case;
        let fixture = Fixture::after_each(&case.history(), |operation| case.config(operation));
        let snapshot = fixture.snapshot();
        let plans = plans(&snapshot, &case.searches(30));
        let policy = if recent { Policy::Recent } else { Policy::Worth };
        for device in devices_within(Some(budget)) {
            let settings = Settings { policy, ..SMALL };
            let engine = GpuEngine::new(snapshot.clone(), device.unwrap(), settings).unwrap();
            check(&engine, &snapshot, &plans, 2);
        }
    }
}
