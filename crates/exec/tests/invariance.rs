//! Results must not depend on threads, memory, segments, merges, batches, traces of deleted
//! documents, or the order of documents. All comparisons are by equality, down to the bits of
//! scores and, if possible, of files.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use warpseek_core::Hit;
use warpseek_exec::Reference;
use warpseek_index::{BuildConfig, Progress, StoreMode, verify};
use warpseek_testkit::generator::{self, Case};
use warpseek_testkit::{
    Doc, ExternalHit, Fixture, Random, Search, answers, build_config, expected, external_hits,
    file_bytes, orders, plans,
};

/// Returns the hits by external id, in order, with scores.
fn results(fixture: &Fixture, searches: &[Search], threads: usize) -> Vec<Vec<ExternalHit>> {
    let snapshot = fixture.snapshot();
    let plans = plans(&snapshot, searches);
    let answers = answers(&Reference::new(snapshot.clone()), &plans, threads).unwrap();
    let pairs = plans.iter().zip(&answers);
    pairs.map(|(plan, answer)| external_hits(&snapshot, plan, answer)).collect()
}

/// Returns the hits by document number.
fn hits(fixture: &Fixture, searches: &[Search]) -> Vec<Vec<Hit>> {
    let snapshot = fixture.snapshot();
    let answers = expected(&snapshot, &plans(&snapshot, searches));
    answers.into_iter().map(|answer| answer.hits).collect()
}

fn config(threads: usize, batch_records: usize) -> BuildConfig {
    let mut config = build_config();
    config.threads = threads;
    config.reader.batch_records = batch_records;
    config
}

/// Returns the files of the index that hold searched data, by kind: all files except the
/// manifest, the lock and the store.
fn searched_files(fixture: &Fixture) -> BTreeMap<String, Vec<u8>> {
    let files = file_bytes(&fixture.dir()).into_iter();
    let kind = |name: &str| name.split('.').nth(1).map(str::to_owned);
    files
        .filter_map(|(name, bytes)| Some((kind(&name)?, bytes)))
        .filter(|(kind, _)| kind != "store")
        .collect()
}

/// Generates a corpus of many different words, which exceeds even the smallest memory budget of
/// an inverter.
fn wordy(docs: usize) -> Vec<Doc> {
    let mut random = Random::new(7);
    let mut text = |_| format!("common{} x{:x}", random.below(9), random.bits());
    let doc = |id: usize| Doc::text(id, (0..60).map(&mut text).collect::<Vec<_>>().join(" "));
    (0..docs).map(doc).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn results_do_not_depend_on_threads_or_input_batches(case in generator::cases()) {
        let (corpus, searches) = (case.corpus(), case.searches(20));
        let one = Fixture::with(&corpus, config(1, 20));
        let expected = results(&one, &searches, 1);
        for threads in [2, 5] {
            let many = Fixture::with(&corpus, config(threads, 20));
            prop_assert!(file_bytes(&one.dir()) == file_bytes(&many.dir()), "{threads} threads");
            prop_assert_eq!(&results(&many, &searches, threads), &expected);
        }
        // Input batches may divide the store differently, but they must not change any searched
        // file.
        let other = Fixture::with(&corpus, config(3, 7));
        prop_assert!(searched_files(&one) == searched_files(&other));
    }

    #[test]
    fn results_do_not_depend_on_the_order_of_documents(case in generator::cases(), ids_only: bool) {
        let (history, searches) = (case.history(), case.searches(30));
        let store = if ids_only { StoreMode::Ids } else { StoreMode::All };
        let plain = Fixture::after(&history, BuildConfig { store, ..build_config() });
        // Documents are compared by number as well, because nothing outside a segment depends on
        // its order.
        let expected = (hits(&plain, &searches), results(&plain, &searches, 1));
        plain.merge().unwrap();
        let merged = (hits(&plain, &searches), results(&plain, &searches, 1));
        let live = history.live();
        for (i, config) in orders().into_iter().enumerate() {
            // With the first order, that of the input, the operations use alternating
            // configurations.
            let config = |number: usize| match i {
                0 => BuildConfig { store, ..case.config(number) },
                _ => BuildConfig { store, ..config.clone() },
            };
            let fixture = Fixture::after_each(&history, config);
            let found = (hits(&fixture, &searches), results(&fixture, &searches, 1));
            prop_assert_eq!(&found, &expected, "order {}", i);
            check_store(&fixture, &live, ids_only);
            let found = verify(&fixture.dir(), &Progress::default()).unwrap();
            prop_assert!(found.problems.is_empty(), "order {}: {:?}", i, found.problems);
            fixture.merge().unwrap();
            let found = (hits(&fixture, &searches), results(&fixture, &searches, 1));
            prop_assert_eq!(&found, &merged, "order {}, merged", i);
            check_store(&fixture, &live, ids_only);
        }
    }

    #[test]
    fn a_merge_restores_the_order_of_the_input(case in generator::cases()) {
        let (history, plain) = (case.history(), Fixture::of(&case.history().live()));
        let by_text = Fixture::after(&history, orders()[1].clone());
        // An added document makes sure that there is something to merge, even if there is only
        // one segment without deletions.
        let text = Doc::text("last", "words");
        by_text.add(&[if case.vectors { Doc::vector("last", &[("x", 1.0)]) } else { text }]).unwrap();
        by_text.delete(&["last".into()]).unwrap();
        by_text.merge().unwrap();
        prop_assert!(searched_files(&by_text) == searched_files(&plain));
    }

    #[test]
    fn bisection_does_not_depend_on_threads(case in generator::cases()) {
        let corpus = case.corpus();
        let build = |threads: usize| {
            let config = BuildConfig { threads, reorder: true, ..build_config() };
            let fixture = Fixture::with(&corpus, config);
            let built = file_bytes(&fixture.dir());
            fixture.merge().unwrap();
            (built, file_bytes(&fixture.dir()))
        };
        let expected = build(1);
        for threads in [2, 5] {
            prop_assert!(build(threads) == expected, "{threads} threads");
        }
    }

    #[test]
    fn results_do_not_depend_on_query_batches(case in generator::cases()) {
        let fixture = Fixture::after(&case.history(), build_config());
        let searches = case.searches(20);
        let expected = results(&fixture, &searches, 1);
        prop_assert_eq!(&results(&fixture, &searches, 3), &expected);
        for (search, expected) in searches.chunks(7).zip(expected.chunks(7)) {
            prop_assert_eq!(&results(&fixture, search, 1)[..], expected);
        }
    }

    #[test]
    fn results_do_not_depend_on_segments(case in generator::cases()) {
        let (corpus, searches) = (case.corpus(), case.searches(20));
        let whole = Fixture::of(&corpus);
        let expected = results(&whole, &searches, 1);
        for batches in [2, 5] {
            let cut = Fixture::of(&[]);
            for batch in corpus.chunks(corpus.len().div_ceil(batches).max(1)) {
                cut.add(batch).unwrap();
            }
            prop_assert_eq!(&results(&cut, &searches, 1), &expected);
            cut.merge().unwrap();
            prop_assert_eq!(&results(&cut, &searches, 1), &expected);
            prop_assert!(searched_files(&cut) == searched_files(&whole), "{batches} batches");
        }
    }

    #[test]
    fn deletions_and_updates_leave_no_trace(case in generator::cases(), ids_only: bool) {
        let mut config = config(3, 50);
        config.store = if ids_only { StoreMode::Ids } else { StoreMode::All };
        let (history, searches) = (case.history(), case.searches(30));
        let changed = Fixture::after(&history, config);
        let live = history.live();
        let fresh = Fixture::of(&live);
        let expected = results(&fresh, &searches, 1);
        prop_assert_eq!(&results(&changed, &searches, 1), &expected);
        check_store(&changed, &live, ids_only);
        changed.merge().unwrap();
        prop_assert_eq!(&results(&changed, &searches, 1), &expected);
        check_store(&changed, &live, ids_only);
        prop_assert!(searched_files(&changed) == searched_files(&fresh), "after the merge");
    }
}

/// Checks that every live document is found by its id, and that its text is stored.
fn check_store(fixture: &Fixture, live: &[Doc], ids_only: bool) {
    let snapshot = fixture.snapshot();
    assert_eq!(snapshot.statistics().documents, live.len() as u64);
    for doc in live {
        let found = snapshot.find_id(&doc.id).unwrap().unwrap();
        assert_eq!(snapshot.external_id(found).unwrap(), doc.id);
        let stored = snapshot.document(found).unwrap();
        assert_eq!(stored, (!ids_only).then(|| doc.to_json().into_bytes()));
    }
}

#[test]
fn a_deleted_document_does_not_affect_the_scale() {
    let doc = |i: usize| Doc::text(i, "apple pie").with_static(i as f32);
    let live: Vec<_> = (0..20).map(doc).collect();
    let huge = Doc::text("huge", "apple").with_static(1e9);
    let changed = Fixture::of(&[&live[..], &[huge]].concat());
    changed.delete(&["huge".into()]).unwrap();
    let mut search = Search::of(&["appl", "pie"]);
    search.ranking.static_weight = 1.0;
    let expected = results(&Fixture::of(&live), std::slice::from_ref(&search), 1);
    assert_eq!(results(&changed, &[search], 1), expected);
}

#[test]
fn results_do_not_depend_on_memory() {
    let corpus = wordy(4000);
    let build = |threads: usize, memory: usize| {
        let fixture = Fixture::empty(BuildConfig { memory, ..config(threads, 100) });
        let report = fixture.create(&corpus).unwrap();
        (fixture, report.runs)
    };
    let (roomy, runs) = build(1, 1 << 30);
    assert_eq!(runs, 1);
    let expected = file_bytes(&roomy.dir());
    for threads in [1, 3] {
        let (tight, runs) = build(threads, 0);
        assert!(runs > 2, "{runs} runs do not test merging them");
        assert!(file_bytes(&tight.dir()) == expected, "{threads} threads, {runs} runs");
    }
}

#[test]
fn generated_histories_delete_documents() {
    // The generator must produce histories with deletions, which the tests above rely on.
    let histories = (0..60).map(|seed| Case { docs: 300, vectors: false, seed }.history());
    let deleting = histories.filter(|h| h.live().len() < 290).count();
    assert!(deleting > 10, "only {deleting} histories delete");
}

#[test]
fn an_index_of_nothing_has_no_files_but_the_manifest() {
    let names = |fixture: &Fixture| file_bytes(&fixture.dir()).into_keys().collect::<Vec<_>>();
    let created = Fixture::of(&[]);
    assert_eq!(names(&created), ["lock", "manifest"]);
    created.add(&[]).unwrap();
    assert_eq!(names(&created), ["lock", "manifest"]);
    created.add(&[Doc::text("one", "words")]).unwrap();
    created.delete(&["one".into()]).unwrap();
    created.merge().unwrap();
    assert_eq!(names(&created), ["lock", "manifest"]);
}
