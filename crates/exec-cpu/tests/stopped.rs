//! A first threshold comes from all documents of a segment. A search that has to stop before it has seen them must not miss hits because of it: its answer is exact over what it covers.
#![allow(clippy::unwrap_used)]

use warpseek_exec::{Cancel, Context, Coverage, Engine, Mode, Planner, Query, Reference};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_testkit::{Doc, Fixture, answers};

/// Segments of which each is better than the one before, and better at its end: worst for a threshold that is known at its beginning.
#[test]
fn hits_of_what_was_searched_are_there() {
    let freq = |i: usize| match i {
        0..2000 => 1 + i % 2,
        2000..35_900 => 3 + i % 3,
        _ => 9,
    };
    // The second segment has several windows. Half of the documents have the word, so that it counts; the others have one that hardly does.
    let text = |i: usize| match i % 2 {
        0 => "apple ".repeat(freq(i)),
        _ => "pear".to_owned(),
    };
    let documents: Vec<Doc> = (0..36_000).map(|i| Doc::text(i, text(i))).collect();
    let fixture = Fixture::of(&documents[..2000]);
    fixture.add(&documents[2000..]).unwrap();
    let snapshot = fixture.snapshot();
    let planner = Planner::suited(snapshot.clone()).unwrap();
    let query = Query::of(vec![("appl".to_owned(), 1.0), ("pear".to_owned(), 0.01)]);
    let mut partial = 0;
    for (k, count) in [(1, false), (10, false), (10, true), (100, false), (5000, false)] {
        let mut plan = planner.plan(&query, Mode::Or, k).unwrap();
        plan.count = count;
        let engine = CpuEngine::new(snapshot.clone(), Some(Algorithm::WindowedMaxScore));
        // Once without a limit, so that nothing is left to be computed on the way.
        engine.search(&[&plan], &Context::new(1)).remove(0).unwrap();
        for checks in 0..400 {
            let context = Context::new(1).cancelled_by(Cancel::after(checks));
            let answer = engine.search(&[&plan], &context).remove(0).unwrap();
            let over = answer.coverage.clone();
            let reference = Reference::over(snapshot.clone(), over.clone());
            let expected = answers(&reference, std::slice::from_ref(&plan), 1).unwrap().remove(0);
            assert_eq!(answer.hits, expected.hits, "k = {k}, {checks} checks, {over:?}");
            let some = over != Coverage::NOTHING && !over.is_complete();
            partial += u32::from(some && !answer.hits.is_empty());
            if over.is_complete() {
                break;
            }
        }
    }
    assert!(partial > 100, "{partial} answers for a part");
}
