//! Searches that are stopped between rounds, for engines that answer a query as a whole or not at
//! all.

use std::sync::Arc;
use std::time::Duration;

use warpseek_exec::{Answer, Cancel, Context, Coverage, Engine, Mode, Plan, Ranking};
use warpseek_index::Snapshot;
use warpseek_testkit::{Doc, Fixture, Search, expected, plans};

/// Returns an index of two segments, and plans of these modes: with few, many and no hits, of two
/// formulas, and every fifth with its matches counted.
pub(crate) fn case(modes: &[Mode]) -> (Fixture, Arc<Snapshot>, Vec<Plan>) {
    let text = |i: usize| {
        let every = [(1, "one "), (2, "two "), (3, "three "), (7, "seven ")];
        let times = |n: usize| if i.is_multiple_of(n) { 1 + i * i % 5 } else { 0 };
        every.map(|(n, word)| word.repeat(times(n))).concat()
    };
    let docs: Vec<Doc> = (0..300).map(|i| Doc::text(i, text(i))).collect();
    let fixture = Fixture::of(&docs[..200]);
    fixture.add(&docs[200..]).unwrap();
    let snapshot = fixture.snapshot();
    let words: [&[&str]; 4] =
        [&["one", "two"], &["three"], &["two", "three", "seven"], &["one", "missing"]];
    let cosine = Ranking { function: "cosine".parse().unwrap(), static_weight: 0.0 };
    let search = |i: usize| Search {
        mode: modes[i % modes.len()],
        k: [3, 40, 0][i / 3 % 3],
        ranking: if i < 36 { Ranking::default() } else { cosine },
        ..Search::of(words[i % 4])
    };
    let mut plans = plans(&snapshot, &(0..48).map(search).collect::<Vec<_>>());
    plans.iter_mut().step_by(5).for_each(|plan| plan.count = true);
    (fixture, snapshot, plans)
}

/// Returns the number of queries that were answered. The others have no hits, and say that
/// nothing was searched.
fn answered(plans: &[Plan], answers: Vec<Answer>, expected: &[Answer], what: &str) -> usize {
    assert_eq!(answers.len(), plans.len(), "{what}");
    let mut complete = 0;
    for (i, (answer, plan)) in answers.into_iter().zip(plans).enumerate() {
        if answer.coverage.is_complete() {
            assert_eq!(answer.hits, expected[i].hits, "{what}, query {i}");
            let uncounted = !plan.count && answer.matches.is_none();
            assert!(uncounted || answer.matches == expected[i].matches, "{what}, query {i}");
            complete += 1;
        } else {
            assert_eq!(answer.coverage, Coverage::NOTHING, "{what}, query {i}");
            assert!(answer.hits.is_empty(), "{what}, query {i}");
            assert_eq!(answer.matches, plan.count.then_some(0), "{what}, query {i}");
        }
    }
    complete
}

/// Stops the search of a batch after 0, 1, 2 checks and so on, until it ends before it is
/// stopped. With `in_order`, rounds run one after another, so the later the search is stopped,
/// the more queries are answered. Returns the number of queries that need no search.
pub(crate) fn check(
    engine: &dyn Engine,
    snapshot: &Arc<Snapshot>,
    plans: &[Plan],
    in_order: bool,
) -> usize {
    let expected = expected(snapshot, plans);
    let batch: Vec<&Plan> = plans.iter().collect();
    let search = |context: &Context, what: &str| {
        let answers = engine.search(&batch, context).into_iter().map(Result::unwrap).collect();
        answered(plans, answers, &expected, &format!("{}, {what}", engine.name()))
    };
    let late = Context::new(1).within(Duration::ZERO);
    let trivial = search(&late, "a deadline that has passed");
    let mut last = trivial;
    let mut steps = 0;
    for moment in 0.. {
        assert!(moment < 1000, "{}: there is no end", engine.name());
        let context = Context::new(1).cancelled_by(Cancel::after(moment));
        let now = search(&context, &format!("stopped at {moment}"));
        assert!(moment > 0 || now == trivial, "{now} queries were answered in no time");
        assert!(!in_order || now >= last, "{now} at {moment}, and {last} before");
        steps += usize::from(now != last);
        last = now;
        if !context.is_over() {
            break;
        }
        // The engine answers again when it may.
        if moment % 8 == 0 {
            assert_eq!(search(&Context::new(1), "not stopped"), plans.len());
        }
    }
    assert_eq!(last, plans.len());
    assert!(steps > 1, "{}: it never stopped between rounds", engine.name());
    trivial
}
