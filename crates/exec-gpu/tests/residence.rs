//! Data that newer snapshots and other formulas share on a device: only new data is copied, and
//! memory is freed with the last user.

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use support::{devices, devices_within, on_gpu};
use warpseek_cuda::Device;
use warpseek_exec::{Context, Engine, Mode, Plan, Ranking, RankingFunction};
use warpseek_exec_gpu::{GpuEngine, GpuLists, Policy, Residence, Settings};
use warpseek_index::Snapshot;
use warpseek_testkit::{Doc, Fixture, Search, expected, plans};

const FORMS: [GpuLists; 3] = [GpuLists::Tiles, GpuLists::Compact, GpuLists::OnDemand];

fn settings(form: GpuLists) -> Settings {
    Settings { tile_bits: 5, or_bits: 8, and_bits: 10, round: 7, lists: form, ..Settings::USUAL }
}

fn docs(range: std::ops::Range<usize>) -> Vec<Doc> {
    let text = |i: usize| {
        let every = [(1, "one "), (2, "two "), (3, "three "), (7, "seven "), (50, "fifty ")];
        let times = |n: usize| if i.is_multiple_of(n) { 1 + i * i % 5 } else { 0 };
        every.map(|(n, word)| word.repeat(times(n))).concat() + &format!("rare{}", i / 3)
    };
    range.map(|i| Doc::text(i, text(i))).collect()
}

/// Returns queries by some formulas: this many others in addition to the usual one.
fn searches(snapshot: &Arc<Snapshot>, formulas: usize) -> Vec<Plan> {
    let words: [&[&str]; 5] =
        [&["one", "two"], &["three", "seven"], &["two", "rare3", "seven"], &["rare90"], &["one"]];
    let bm25 = |k1: f64, b: f64| Ranking {
        function: RankingFunction::Bm25 { k1, b },
        ..Ranking::default()
    };
    let cosine = Ranking { function: RankingFunction::Cosine, ..Ranking::default() };
    let rankings = [Ranking::default(), bm25(2.0, 0.1), cosine, bm25(0.4, 0.9)];
    let search = |i: usize| Search {
        mode: [Mode::Or, Mode::And, Mode::AndOr][i % 3],
        k: [3, 40][i % 2],
        ranking: rankings[i / 5 % (formulas + 1)],
        ..Search::of(words[i % 5])
    };
    plans(snapshot, &(0..40).map(search).collect::<Vec<_>>())
}

fn check(engine: &GpuEngine, snapshot: &Arc<Snapshot>, plans: &[Plan]) {
    let answers = engine.search(&plans.iter().collect::<Vec<_>>(), &Context::new(2));
    for (answer, expected) in answers.into_iter().zip(expected(snapshot, plans)) {
        assert_eq!(answer.unwrap().hits, expected.hits);
    }
}

fn engine(
    snapshot: &Arc<Snapshot>,
    device: &Device,
    residence: &Arc<Residence>,
    form: GpuLists,
) -> GpuEngine {
    let engine = GpuEngine::new(snapshot.clone(), device.clone(), settings(form)).unwrap();
    engine.in_residence(residence.clone())
}

/// Returns the number of bytes of lists that were copied to the device.
fn moved(engine: &GpuEngine) -> u64 {
    engine.cache_counts().map_or(engine.loading().bytes(), |counts| counts.bytes_moved)
}

#[test]
fn a_newer_snapshot_copies_only_what_is_new() {
    for form in [GpuLists::Tiles, GpuLists::Compact] {
        for device in devices() {
            let residence = Arc::new(Residence::default());
            let fixture = Fixture::of(&docs(0..1500));
            let first = fixture.snapshot();
            let old = engine(&first, &device, &residence, form);
            check(&old, &first, &searches(&first, 0));
            let all = moved(&old);
            // The cache of lists counts for all engines.
            let before = if form == GpuLists::Tiles { 0 } else { all };

            fixture.add(&docs(1500..1600)).unwrap();
            let second = fixture.snapshot();
            let new = engine(&second, &device, &residence, form);
            check(&new, &second, &searches(&second, 0));
            let added = new
                .cache_counts()
                .map_or(new.loading().bytes(), |counts| counts.bytes_moved - before);
            assert!(added > 0 && added < all / 4, "{form}: {added} of {all}");

            fixture.delete(&["3".to_owned(), "700".to_owned(), "1502".to_owned()]).unwrap();
            let third = fixture.snapshot();
            let newest = engine(&third, &device, &residence, form);
            check(&newest, &third, &searches(&third, 0));
            let copied = newest
                .cache_counts()
                .map_or(newest.loading().bytes(), |counts| counts.bytes_moved - before - added);
            // Lists do not contain deletions, but lists may have been removed for tiles.
            assert!(
                copied == 0 || form == GpuLists::Compact && copied < all / 20,
                "{form}: {copied}"
            );

            // Searches over older snapshots still work.
            check(&old, &first, &searches(&first, 0));
            check(&new, &second, &searches(&second, 0));
            let together = device.memory().current;
            drop((old, new));
            assert!(device.memory().current < together, "{form}");
            check(&newest, &third, &searches(&third, 0));
            drop(newest);
            assert_eq!(device.memory().current, 0, "{form}: the residence keeps nothing");
        }
    }
}

#[test]
fn formulas_share_lists() {
    for form in FORMS {
        for device in devices() {
            let fixture = Fixture::of(&docs(0..900));
            let snapshot = fixture.snapshot();
            let engine = engine(&snapshot, &device, &Arc::default(), form);
            check(&engine, &snapshot, &searches(&snapshot, 0));
            let (copied, memory) = (moved(&engine), device.memory().current);
            let plans = searches(&snapshot, 3);
            check(&engine, &snapshot, &plans);
            check(&engine, &snapshot, &plans);
            if form == GpuLists::Tiles {
                assert_eq!(engine.loading().bytes(), 0, "values are made of what is there");
                assert_eq!(engine.resident().now().formulas, 4);
                assert!(device.memory().current < 4 * memory);
            } else {
                assert!(moved(&engine) < 2 * copied, "{form}");
            }
        }
    }
}

/// Checks that engines with different policies do not share the memory for lists, which has one
/// policy.
#[test]
fn every_policy_has_its_own_lists() {
    let fixture = Fixture::of(&docs(0..500));
    let snapshot = fixture.snapshot();
    let plans = searches(&snapshot, 0);
    let device = devices().remove(0);
    let residence = Arc::default();
    let engine = |policy: Policy| {
        let settings = Settings { policy, ..settings(GpuLists::Compact) };
        let engine = GpuEngine::new(snapshot.clone(), device.clone(), settings).unwrap();
        let engine = engine.in_residence(Arc::clone(&residence));
        check(&engine, &snapshot, &plans);
        engine
    };
    let (first, second) = (engine(Policy::Worth), engine(Policy::Worth));
    let counts = first.cache_counts().unwrap();
    assert_eq!(second.cache_counts(), Some(counts), "engines with the same policy share lists");
    let other = engine(Policy::Recent);
    assert_eq!(first.cache_counts(), Some(counts));
    assert_eq!(2 * other.cache_counts().unwrap().rounds, counts.rounds);
}

/// Returns the most memory that searches took on a device that has enough. It depends on the
/// device: rounds take more on one with more processors.
fn taken(search: impl FnOnce(&Device)) -> u64 {
    let device = devices().remove(0);
    search(&device);
    device.memory().peak
}

/// Returns a number of documents whose lists take more memory than rounds do. Rounds take more on
/// a GPU than on the emulator.
fn many() -> std::ops::Range<usize> {
    0..if on_gpu() { 150_000 } else { 6000 }
}

/// Provides memory for one formula, but not for all: the oldest image is dropped.
#[test]
fn formulas_take_turns_if_memory_is_short() {
    let fixture = Fixture::of(&docs(many()));
    let snapshot = fixture.snapshot();
    let plans = searches(&snapshot, 1);
    let answer = |plans: &[Plan]| {
        taken(|device| {
            let engine = engine(&snapshot, device, &Arc::default(), GpuLists::Tiles);
            for _ in 0..2 {
                check(&engine, &snapshot, plans);
            }
        })
    };
    let (first, second): (Vec<Plan>, Vec<Plan>) =
        plans.iter().cloned().partition(|plan| plan.formulas == plans[0].formulas);
    let (one, both) = (answer(&first).max(answer(&second)), answer(&plans));
    assert!(one < both, "{one} and {both} bytes");
    for device in devices_within(Some(one + (both - one) / 2)) {
        let engine = engine(&snapshot, &device.unwrap(), &Arc::default(), GpuLists::Tiles);
        for _ in 0..2 {
            check(&engine, &snapshot, &plans);
        }
        assert_eq!(engine.resident().now().formulas, 1);
    }
}

/// Checks that the newer snapshot's lists are loaded on demand if both do not fit.
#[test]
fn a_newer_snapshot_may_have_less_room() {
    let fixture = Fixture::of(&docs(many()));
    let first = fixture.snapshot();
    fixture.add(&docs(many().end..many().end + 3)).unwrap();
    let second = fixture.snapshot();
    let one = taken(|device| {
        let old = engine(&first, device, &Arc::default(), GpuLists::Tiles);
        check(&old, &first, &searches(&first, 0));
    });
    let both = taken(|device| {
        let residence = Arc::default();
        let old = engine(&first, device, &residence, GpuLists::Tiles);
        check(&old, &first, &searches(&first, 0));
        let new = engine(&second, device, &residence, GpuLists::Tiles);
        check(&new, &second, &searches(&second, 0));
    });
    assert!(one < both, "{one} and {both} bytes");
    for (budget, form) in [(one + (both - one) / 2, "compact"), (2 * both, "tiles")] {
        let device = devices_within(Some(budget)).remove(0).unwrap();
        let residence = Arc::default();
        let old = engine(&first, &device, &residence, GpuLists::Auto);
        check(&old, &first, &searches(&first, 0));
        let new = engine(&second, &device, &residence, GpuLists::Auto);
        check(&new, &second, &searches(&second, 0));
        assert_eq!(new.resident().now().form(), Some(form), "{budget}");
        check(&old, &first, &searches(&first, 0));
        drop(old);
        check(&new, &second, &searches(&second, 0));
    }
}

/// Puts the best hits last, in many segments: each segment keeps as many as are requested until
/// they are merged. With many terms, the best values of one list exclude none of them.
#[test]
fn every_segment_may_have_the_best_hits() {
    const ALL: [&str; 6] = ["sun", "moon", "red", "blue", "green", "tree"];
    let fixture = Fixture::of(&[]);
    for segment in 0..20 {
        let text =
            |i: usize| format!("{}rare{i}", "sun moon red blue green tree ".repeat(segment + 1));
        let docs: Vec<Doc> =
            (0..40 + 60 * (segment % 3)).map(|i| Doc::text(1000 * segment + i, text(i))).collect();
        fixture.add(&docs).unwrap();
    }
    let snapshot = fixture.snapshot();
    assert_eq!(snapshot.segments().len(), 20);
    let search = |i: usize| Search {
        k: [10, 30, 100][i % 3],
        mode: [Mode::Or, Mode::And][i % 2],
        ..Search::of([&ALL[..], &ALL[..5], &ALL[1..]][i / 2 % 3])
    };
    let plans = plans(&snapshot, &(0..18).map(search).collect::<Vec<_>>());
    assert!(expected(&snapshot, &plans).iter().all(|answer| answer.hits.len() >= 10));
    for form in FORMS {
        for device in devices() {
            let engine = engine(&snapshot, &device, &Arc::default(), form);
            check(&engine, &snapshot, &plans);
            plans.chunks(1).for_each(|one| check(&engine, &snapshot, one));
        }
    }
}

/// Covers engines for a part of the documents, which may be none of a segment's.
#[test]
fn parts_of_the_documents_in_every_form() {
    let fixture = Fixture::of(&docs(0..300));
    fixture.add(&docs(300..500)).unwrap();
    fixture.add(&docs(500..900)).unwrap();
    let snapshot = fixture.snapshot();
    let plans = searches(&snapshot, 0);
    let all: Vec<Plan> = plans.iter().map(|plan| Plan { k: 1000, ..plan.clone() }).collect();
    let expected = expected(&snapshot, &all);
    for form in FORMS {
        for within in [0..100, 300..500, 450..900, 0..900, 900..900] {
            let device = devices().remove(0);
            let engine = engine(&snapshot, &device, &Arc::default(), form).within(within.clone());
            let answers = engine.search(&plans.iter().collect::<Vec<_>>(), &Context::new(1));
            for ((answer, expected), plan) in answers.into_iter().zip(&expected).zip(&plans) {
                // AND-then-OR decides by the hits among its own documents.
                if plan.mode == Mode::AndOr {
                    continue;
                }
                let hits =
                    expected.hits.iter().filter(|hit| within.contains(&hit.doc)).take(plan.k);
                assert!(answer.unwrap().hits.iter().eq(hits), "{form} {within:?}");
            }
        }
    }
}

/// Checks that the memory for lists grows with the index.
#[test]
fn an_index_may_begin_empty() {
    let fixture = Fixture::of(&[]);
    let (empty, device) = (fixture.snapshot(), devices().remove(0));
    let residence = Arc::default();
    let old = engine(&empty, &device, &residence, GpuLists::Compact);
    check(&old, &empty, &searches(&empty, 0));
    old.load(&searches(&empty, 0)[0].formulas, 1).unwrap();
    fixture.add(&docs(0..3000)).unwrap();
    let full = fixture.snapshot();
    let new = engine(&full, &device, &residence, GpuLists::Compact);
    check(&new, &full, &searches(&full, 0));
}
