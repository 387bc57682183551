//! Tests of filtered queries on an index of many windows: masks of all densities, on segments
//! with deletions, in two orders of documents.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use warpseek_exec::{Context, Engine, Mask, Mode, Plan};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_index::{DocSet, Snapshot};
use warpseek_testkit::{Doc, Fixture, Random, Search, expected, orders, plans};

/// Documents of the two segments; the first has several windows.
const SEGMENTS: [usize; 2] = [40_000, 9_000];

/// Returns documents of two to nine words. A few words are in many documents, many are in few,
/// and some come in stretches of documents.
fn docs(random: &mut Random, ids: std::ops::Range<usize>) -> Vec<Doc> {
    let mut doc = |id: usize| {
        let mut words = Vec::new();
        for _ in 0..=random.below(8) {
            let most = *random.pick(&[2, 5, 30, 3000]);
            words.push(format!("w{}", random.below(most)));
        }
        words.push(format!("s{}", id / 700 % 9));
        Doc::text(id, words.join(" "))
    };
    ids.map(&mut doc).collect()
}

/// Returns sets of documents, with names.
fn masks(snapshot: &Snapshot) -> Vec<(&'static str, Option<Arc<Mask>>)> {
    let mut random = Random::new(3);
    let mut mask = |admits: &mut dyn FnMut(u32, &mut Random) -> bool| {
        let sets = snapshot.segments().iter().map(|segment| {
            let mut set = DocSet::new(segment.documents().count());
            let base = segment.base();
            for doc in 0..segment.documents().count() {
                if admits(base + doc, &mut random) {
                    set.insert(doc);
                }
            }
            set
        });
        Some(Arc::new(Mask::new(snapshot, sets.collect())))
    };
    vec![
        ("no mask", None),
        ("none", mask(&mut |_, _| false)),
        ("one", mask(&mut |doc, _| doc == 31_234)),
        ("0.1 %", mask(&mut |_, random| random.one_in(1000))),
        ("1 %", mask(&mut |_, random| random.one_in(100))),
        ("10 %", mask(&mut |_, random| random.one_in(10))),
        ("50 %", mask(&mut |_, random| random.one_in(2))),
        ("all", mask(&mut |_, _| true)),
        ("stretches", mask(&mut |doc, random| doc / 3000 % 4 == 1 && !random.one_in(9))),
        ("the second segment", mask(&mut |doc, random| doc >= 40_000 && random.one_in(3))),
    ]
}

fn searches() -> Vec<Search> {
    let queries: [&[&str]; 6] = [
        &["w0"],
        &["w0", "w1", "w4"],
        &["w29", "w3"],
        &["w0", "w2500", "s3"],
        &["w1", "w2", "w20", "s1", "s2", "w100"],
        &["w0", "missing"],
    ];
    let mut searches = Vec::new();
    for (i, words) in queries.iter().enumerate() {
        for mode in [Mode::Or, Mode::And, Mode::AndOr] {
            for k in [[1, 10], [10, 1000], [10, 0]][i % 3] {
                searches.push(Search { mode, k, ..Search::of(words) });
            }
        }
    }
    searches
}

fn check(config: warpseek_index::BuildConfig) {
    let mut random = Random::new(11);
    let [first, second] = SEGMENTS;
    let fixture = Fixture::with(&docs(&mut random, 0..first), config);
    fixture.add(&docs(&mut random, first..first + second)).unwrap();
    let ids = (0..first + second).filter(|id| id % 37 == 5 || (20_000..21_000).contains(id));
    let ids: Vec<String> = ids.map(|id| Doc::text(id, "").id).collect();
    fixture.delete(&ids).unwrap();
    let snapshot = fixture.snapshot();
    let (mut all, mut named) = (Vec::new(), Vec::new());
    for (name, mask) in masks(&snapshot) {
        for (i, plan) in plans(&snapshot, &searches()).into_iter().enumerate() {
            all.push(Plan { mask: mask.clone(), count: i % 3 == 0, ..plan });
            named.push(name);
        }
    }
    let expected = expected(&snapshot, &all);
    let algorithms = [
        None,
        Some(Algorithm::Filtered),
        Some(Algorithm::WindowedMaxScore),
        Some(Algorithm::Cohort),
        Some(Algorithm::Decoded),
        Some(Algorithm::BlockMaxWand),
    ];
    for algorithm in algorithms {
        let engine = CpuEngine::new(snapshot.clone(), algorithm);
        for threads in [1, 3] {
            for (plan, (name, expected)) in all.iter().zip(named.iter().zip(&expected)) {
                let answer = engine.search(&[plan], &Context::new(threads)).remove(0).unwrap();
                let words: Vec<&str> = plan.terms.iter().map(|term| term.term.as_str()).collect();
                let what =
                    format!("{algorithm:?}, {threads} threads, {name}, {:?} {words:?}", plan.mode);
                assert_eq!(answer.hits, expected.hits, "{what}, k {}", plan.k);
                assert!(!plan.count || answer.matches == expected.matches, "{what}: matches");
            }
        }
    }
}

#[test]
fn masks_of_all_densities_give_the_hits_of_the_reference() {
    check(orders()[0].clone());
}

#[test]
fn and_in_reordered_segments() {
    check(orders()[1].clone());
}

/// Tests that neither the postings that are scored nor the blocks that are decoded grow with the
/// lists if a mask has few documents.
#[test]
fn a_selective_mask_bounds_the_work() {
    let mut random = Random::new(5);
    let fixture = Fixture::of(&docs(&mut random, 0..40_000));
    let snapshot = fixture.snapshot();
    let mut set = DocSet::new(40_000);
    (0..40_000).step_by(1009).for_each(|doc| assert!(set.insert(doc)));
    let (documents, mask) = (set.len(), Arc::new(Mask::new(&snapshot, vec![set])));
    for mode in [Mode::Or, Mode::And] {
        for count in [false, true] {
            let search = Search { mode, ..Search::of(&["w0", "w1"]) };
            let mut plan = plans(&snapshot, &[search]).remove(0);
            (plan.mask, plan.count) = (Some(mask.clone()), count);
            let postings: u64 = plan.terms.iter().map(|term| term.df).sum();
            assert!(postings > 20_000, "the lists are long");
            for algorithm in [None, Some(Algorithm::Filtered), Some(Algorithm::WindowedMaxScore)] {
                let engine = CpuEngine::new(snapshot.clone(), algorithm);
                let work = engine.search(&[&plan], &Context::new(1)).remove(0).unwrap().work;
                let work = work.unwrap();
                // Windowed MaxScore counts separately, and reads all lists for that.
                let counts_apart = count && algorithm == Some(Algorithm::WindowedMaxScore);
                let most = 2 * documents;
                let what = format!("{algorithm:?} {mode:?} {count}: {work:?}");
                assert!(work.postings_scored <= most, "{what}");
                assert!(work.blocks_decoded <= most || counts_apart, "{what}");
            }
        }
    }
}
