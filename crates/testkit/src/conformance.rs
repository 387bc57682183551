//! The suite that every engine must pass: hits equal those of the reference, documents, order and score bits, and so do counts of
//! matches where they are asked for, whatever the batch and the number of threads.

use std::sync::Arc;

use proptest::test_runner::{Config, TestRunner};
use warpseek_exec::{Answer, Engine, Mode, Plan, Query, Ranking, Reference};
use warpseek_index::{Progress, Snapshot, create};

use crate::cases::{fixed_cases, most_terms};
use crate::collections;
use crate::fixture::{Fixture, build_config, orders};
use crate::generator;
use crate::search::{Search, plans};

/// Random cases a run.
const CASES: u32 = 24;
/// Searches in each.
const SEARCHES: usize = 40;

/// Makes an engine for a snapshot that uses so many threads.
pub trait MakeEngine: Fn(Arc<Snapshot>, usize) -> Box<dyn Engine> {}

impl<F: Fn(Arc<Snapshot>, usize) -> Box<dyn Engine>> MakeEngine for F {}

/// Stamps the suite out for an engine: `conformance!(name, |snapshot, threads| ...)`.
#[macro_export]
macro_rules! conformance {
    ($name:ident, $make:expr) => {
        $crate::conformance!($name, $make, {
            #[test]
            fn shared_collections() {
                $crate::conformance::check_collections($make);
            }
        });
    };
    // An engine that is slow on the emulator does without the collections there.
    ($name:ident, $make:expr, cases alone) => {
        $crate::conformance!($name, $make, {});
    };
    // Slow engines that differ little share the cases among them there.
    ($name:ident, $make:expr, part $part:literal of $parts:literal) => {
        $crate::conformance!($name, $make, $crate::conformance::part_of($part, $parts), {});
    };
    ($name:ident, $make:expr, { $($more:item)* }) => {
        $crate::conformance!($name, $make, $crate::conformance::part_of(1, 1), { $($more)* });
    };
    ($name:ident, $make:expr, $part:expr, { $($more:item)* }) => {
        mod $name {
            use super::*;

            #[test]
            fn fixed_cases() {
                $crate::conformance::check_fixed_cases($make, $part);
            }

            #[test]
            fn random_cases() {
                $crate::conformance::check_random_cases($make, $part);
            }

            #[test]
            fn most_terms() {
                $crate::conformance::check_most_terms($make, $part);
            }

            $($more)*
        }
    };
}

/// The whole suite.
pub fn check_engine(make: impl MakeEngine) {
    check_fixed_cases(&make, part_of(1, 1));
    check_random_cases(&make, part_of(1, 1));
    check_most_terms(&make, part_of(1, 1));
    check_collections(&make);
}

/// Cases at the edges: lengths around blocks, ties, many terms, nothing at all, deletions, segments, statics, vectors; each also reordered.
pub fn check_fixed_cases(make: impl MakeEngine, (part, parts): Part) {
    let [by_input, by_text, ..] = orders();
    let mut number = 0;
    for (order, config) in [("", by_input), (" by text", by_text)] {
        for case in fixed_cases(&config) {
            number += 1;
            if number % parts != part % parts {
                continue;
            }
            let name = format!("{}{order}", case.name);
            check_snapshot(&make, &name, &case.fixture.snapshot(), &case.searches);
        }
    }
}

/// Queries of as many terms as there can be. An engine may have no room for them, and must say so; that is reported by name, as is that a slow one does without.
pub fn check_most_terms(make: impl MakeEngine, (_, parts): Part) {
    let (fixture, searches) = most_terms();
    let snapshot = fixture.snapshot();
    if parts > 1 {
        let name = make(snapshot, 1).name();
        return println!("skipped: {name}, most terms: it takes too long for a part of the cases");
    }
    let plans = plans(&snapshot, &searches);
    let expected = Reference::new(snapshot.clone(), 1).search(&plans).unwrap();
    for threads in [1, 3] {
        let engine = make(snapshot.clone(), threads);
        for (plan, expected) in plans.iter().zip(&expected) {
            let case = format!("{}, {} terms, {}", engine.name(), plan.terms.len(), plan.mode);
            match engine.search(std::slice::from_ref(plan)) {
                Ok(answers) => assert_eq!(answers[0].hits, expected.hits, "hits: {case}"),
                Err(error) => {
                    let why = error.to_string();
                    assert!(why.contains("cannot answer the query"), "{case}: {why}");
                    println!("skipped: {case}: {why}");
                }
            }
        }
    }
}

/// Random corpora with random histories, codecs and orders of documents.
pub fn check_random_cases(make: impl MakeEngine, (_, parts): Part) {
    let cases = CASES.div_ceil(parts);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&generator::cases(), |case| {
        let fixture = Fixture::after_each(&case.history(), |number| case.config(number));
        let name = format!("{case:?}");
        check_snapshot(&make, &name, &fixture.snapshot(), &case.searches(SEARCHES));
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Which part of the cases, from 1 on, of how many.
pub type Part = (u32, u32);

/// The part that is asked for, on a device all cases; or, for tools under which the whole takes too long, what WARPSEEK_TEST_PART says, 2/5 being the second of five parts.
pub fn part_of(part: u32, parts: u32) -> Part {
    let Ok(text) = std::env::var("WARPSEEK_TEST_PART") else {
        let on_device = std::env::var_os("WARPSEEK_TEST_DEVICE").is_some();
        return if on_device { (1, 1) } else { (part, parts) };
    };
    let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((i, n)) if (1..=n).contains(&i) => (i, n),
        _ => panic!("WARPSEEK_TEST_PART is `{text}`; it must be like 2/5"),
    }
}

/// The shared collections with all their queries.
pub fn check_collections(make: impl MakeEngine) {
    let rankings = ["bm25", "okapi", "wakatsuki", "cosine"]
        .map(|name| Ranking { function: name.parse().unwrap(), static_weight: 0.0 });
    for collection in collections::present() {
        let fixture = Fixture::empty(build_config());
        let (config, progress) = (fixture.config(), Progress::default());
        create(&fixture.dir(), &[collection.corpus()], config, false, &progress).unwrap();
        let snapshot = fixture.snapshot();
        let manifest = snapshot.manifest();
        let mut searches = Vec::new();
        for (i, (_, text)) in collection.queries().iter().enumerate() {
            let query = Query::parse(text, manifest.analyzer, manifest.content).unwrap();
            let (k, ranking) = ([10, 1, 1000][i % 3], rankings[i % 4]);
            for mode in [Mode::Or, Mode::And, Mode::AndOr] {
                searches.push(Search { query: query.clone(), mode, k, ranking });
            }
        }
        check_snapshot(&make, collection.name, &snapshot, &searches);
    }
}

/// Some searches on one snapshot: all at once and one by one, in one thread and in three, each once with its matches counted and once
/// without.
pub fn check_snapshot(
    make: &impl MakeEngine,
    name: &str,
    snapshot: &Arc<Snapshot>,
    searches: &[Search],
) {
    let mut plans = plans(snapshot, searches);
    let expected = Reference::new(snapshot.clone(), 1).search(&plans).unwrap();
    for threads in [1, 3] {
        let engine = make(snapshot.clone(), threads);
        let compare = |how: &str, i: usize, plan: &Plan, answer: &Answer| {
            let context = || {
                format!(
                    "{}, {name}, {how}, {threads} threads, {:?}",
                    engine.name(),
                    brief(&searches[i])
                )
            };
            assert_eq!(answer.hits, expected[i].hits, "hits: {}", context());
            let uncounted = !plan.count && answer.matches.is_none();
            let counted = uncounted || answer.matches == expected[i].matches;
            assert!(counted, "{:?} matches: {}", answer.matches, context());
        };
        for (i, plan) in plans.iter_mut().enumerate() {
            plan.count = i.is_multiple_of(2);
        }
        let answers = engine.search(&plans).unwrap();
        assert_eq!(answers.len(), plans.len(), "answers: {}, {name}", engine.name());
        for (i, (plan, answer)) in plans.iter().zip(&answers).enumerate() {
            compare("all at once", i, plan, answer);
        }
        for (i, plan) in plans.iter_mut().enumerate() {
            plan.count = !plan.count;
            let answers = engine.search(std::slice::from_ref(plan)).unwrap();
            assert_eq!(answers.len(), 1, "answers: {}, {name}", engine.name());
            compare("alone", i, plan, &answers[0]);
        }
        assert!(engine.search(&[]).unwrap().is_empty(), "answers to an empty batch");
    }
}

/// The search with its first few terms.
fn brief(search: &Search) -> Search {
    let mut search = search.clone();
    search.query.terms.truncate(12);
    search
}
