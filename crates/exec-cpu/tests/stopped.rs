//! A first threshold comes from all documents of a segment. A search that has to stop before it
//! has seen them must not miss hits because of it: its answer is exact over what it covers.
#![allow(clippy::unwrap_used)]

use warpseek_exec::{Cancel, Context, Coverage, Engine, Mode, Planner, Query, Reference};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_testkit::{Doc, Fixture, answers};

/// Tests segments each of which is better than the one before, and better at its end: the worst
/// case for a threshold that is known at its beginning.
#[test]
fn hits_of_what_was_searched_are_there() {
    let freq = |i: usize| match i {
        0..2000 => 1 + i % 2,
        2000..35_900 => 3 + i % 3,
        _ => 9,
    };
    // The second segment has several windows. Half of the documents contain "apple", the word
    // that counts; the others contain one that hardly does. A rare word scores more, so that
    // lists are searched separately.
    let text = |i: usize| match i % 2 {
        _ if i % 1000 == 399 => "fig pear".to_owned(),
        _ if i % 1000 == 700 => "apple apple fig".to_owned(),
        0 => "apple ".repeat(freq(i)),
        _ => "pear".to_owned(),
    };
    let documents: Vec<Doc> = (0..36_000).map(|i| Doc::text(i, text(i))).collect();
    let fixture = Fixture::of(&documents[..2000]);
    fixture.add(&documents[2000..]).unwrap();
    let snapshot = fixture.snapshot();
    let planner = Planner::suited(snapshot.clone()).unwrap();
    let query = |fig: f64| {
        let words = [("appl", 1.0), ("pear", 0.01), ("fig", fig)];
        Query::of(
            words.into_iter().filter(|&(_, weight)| weight > 0.0).map(|(w, n)| (w.to_owned(), n)),
        )
    };
    let mut partial = 0;
    let cases = [
        (0.0, 1, false),
        (0.0, 10, false),
        (0.0, 10, true),
        (0.0, 100, false),
        (0.0, 5000, false),
        (0.2, 10, false),
        (0.2, 100, false),
        (1.0, 100, false),
    ];
    let algorithms = [Algorithm::WindowedMaxScore, Algorithm::Decoded];
    let cases = cases.into_iter().flat_map(|case| algorithms.map(|algorithm| (case, algorithm)));
    for ((fig, k, count), algorithm) in cases {
        let mut plan = planner.plan(&query(fig), Mode::Or, k).unwrap();
        plan.count = count;
        let engine = CpuEngine::new(snapshot.clone(), Some(algorithm));
        // The first search has no limit, so that nothing is left to be computed during the
        // others.
        engine.search(&[&plan], &Context::new(1)).remove(0).unwrap();
        for checks in 0..400 {
            let context = Context::new(1).cancelled_by(Cancel::after(checks));
            let answer = engine.search(&[&plan], &context).remove(0).unwrap();
            let over = answer.coverage.clone();
            let reference = Reference::over(snapshot.clone(), over.clone());
            let expected = answers(&reference, std::slice::from_ref(&plan), 1).unwrap().remove(0);
            assert_eq!(
                answer.hits, expected.hits,
                "{algorithm}, k = {k}, {checks} checks, {over:?}"
            );
            if count {
                assert_eq!(answer.matches, expected.matches, "{algorithm}, {checks} checks");
            }
            let some = over != Coverage::NOTHING && !over.is_complete();
            partial += u32::from(some && !answer.hits.is_empty());
            if over.is_complete() {
                break;
            }
        }
    }
    assert!(partial > 100, "{partial} answers for a part");
}
