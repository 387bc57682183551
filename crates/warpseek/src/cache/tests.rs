//! Tests of questions, and of what the cache keeps and drops.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::time::Duration;

use tempfile::TempDir;
use warpseek_exec::gather::{Facet, SortKey};
use warpseek_exec::query::{Node, Words};
use warpseek_exec::{Cancel, Mode, Query, Ranking, RankingFunction};

use super::*;
use crate::{Document, Index, IndexWriter, QueryInput, Searcher};

/// An index of `count` documents that all contain `apple`.
fn apples(count: usize) -> (TempDir, IndexWriter, Searcher) {
    let folder = tempfile::tempdir().unwrap();
    let index = Index::create(folder.path().join("index")).unwrap();
    let mut writer = index.writer().unwrap();
    for id in 0..count {
        writer.add(Document::new(id.to_string(), "", format!("apple word{id}"))).unwrap();
    }
    writer.commit().unwrap();
    let searcher = index.searcher().unwrap();
    (folder, writer, searcher)
}

/// Answers a request over the current snapshot, from the cache if possible. Returns true if the
/// answer was in the cache.
fn search(cache: &AnswerCache, searcher: &Searcher, request: &Request) -> (Response, bool) {
    let snapshot = searcher.snapshot();
    let question = AnswerCache::question(&snapshot, request).unwrap();
    if let Some(response) = cache.get(&question, &snapshot) {
        return (response, true);
    }
    let response = searcher.search(request).unwrap();
    cache.add(&question, &response);
    (response, false)
}

#[test]
fn whatever_changes_an_answer_changes_the_question() {
    let (_folder, mut writer, searcher) = apples(3);
    let words = |text: &str| Node::Words(Words::any(["body".to_owned()], text));
    let after = searcher.search(&Request::new("apple")).unwrap().sort_values(0);
    let ranking =
        |k1| Ranking { function: RankingFunction::Bm25 { k1, b: 0.75 }, static_weight: 0.0 };
    let apple = || Request::new("apple");
    let requests = [
        apple(),
        Request::new("apple "),
        Request::new("apple\"), \""),
        Request::new(QueryInput::Expression("apple".to_owned())),
        Request::new(Query::of([("apple", 1.0)])),
        Request::new(Query::of([("apple", 1.000_000_1)])),
        Request::new(words("apple")),
        Request::new(Node::Boost(Box::new(words("apple")), 2.0)),
        Request::new(Node::Constant { filter: Box::new(words("apple")), score: 0.0 }),
        Request::new(Node::Constant { filter: Box::new(words("apple")), score: -0.0 }),
        apple().k(2),
        apple().mode(Mode::And),
        apple().count(true),
        apple().count_to(10),
        apple().filter(words("apple")),
        apple().sort([SortKey::document()]),
        apple().sort([SortKey::ascending("year")]),
        apple().sort([SortKey::descending("year")]),
        apple().after(after),
        apple().facets([Facet::Values { field: "year".to_owned(), top: 10 }]),
        apple().facets([Facet::Values { field: "year".to_owned(), top: 11 }]),
        apple().ranking(ranking(0.9)),
        apple().ranking(ranking(1.0)),
    ];
    let snapshot = searcher.snapshot();
    let key = |request: &Request| AnswerCache::question(&snapshot, request).unwrap().0;
    let keys: HashSet<Key> = requests.iter().map(key).collect();
    assert_eq!(keys.len(), requests.len());
    // Limits change nothing in a complete answer, nor do more hits than there are documents.
    assert_eq!(key(&apple().k(3)), key(&apple().k(4)));
    let limited = apple().deadline(Duration::from_secs(1)).cancelled_by(Cancel::new());
    assert_eq!(key(&limited), key(&apple()));
    assert!(AnswerCache::question(&snapshot, &apple().among(["1"])).is_none());
    let collection = Arc::new(warpseek_exec::CollectionStatistics::of(&snapshot));
    assert!(AnswerCache::question(&snapshot, &apple().of_collection(collection)).is_none());
    writer.add(Document::new("new", "", "apple")).unwrap();
    writer.commit().unwrap();
    assert!(searcher.refresh().unwrap());
    let now = AnswerCache::question(&searcher.snapshot(), &apple()).unwrap().0;
    assert!(!keys.contains(&now));
}

#[test]
fn an_answer_from_the_cache_is_the_answer() {
    let (_folder, _writer, searcher) = apples(20);
    let cache = AnswerCache::new(1 << 20);
    for request in [
        Request::new("apple word7 nosuch"),
        Request::new("apple").k(3).count(true),
        Request::new("apple word3").sort([SortKey::document()]),
    ] {
        let (first, found) = search(&cache, &searcher, &request);
        assert!(!found);
        let (again, found) = search(&cache, &searcher, &request);
        assert!(found);
        assert_eq!((&first.answer, first.plan()), (&again.answer, again.plan()));
        assert_eq!(first.explain(0).unwrap().score, again.explain(0).unwrap().score);
        assert_eq!(first.id(1).unwrap(), again.id(1).unwrap());
    }
    let counts = cache.counts();
    assert_eq!((counts.hits, counts.misses, counts.entries), (3, 3, 3));
    assert_eq!(counts.hit_rate(), 0.5);
    cache.clear();
    assert_eq!((cache.counts().entries, cache.counts().bytes), (0, 0));
}

#[test]
fn partial_answers_are_not_kept() {
    let (_folder, _writer, searcher) = apples(20);
    let cache = AnswerCache::new(1 << 20);
    let request = Request::new("apple");
    let cancel = Cancel::new();
    cancel.set();
    let (response, _) = search(&cache, &searcher, &request.clone().cancelled_by(cancel));
    assert!(!response.coverage().is_complete());
    let (response, found) = search(&cache, &searcher, &request);
    assert!(!found && response.coverage().is_complete());
    assert!(search(&cache, &searcher, &request).1);
}

#[test]
fn entries_go_with_their_snapshot() {
    let (_folder, mut writer, searcher) = apples(20);
    let cache = AnswerCache::new(1 << 20);
    let request = Request::new("apple").k(100);
    // Returns the number of hits, and whether the answer was in the cache, and keeps no snapshot.
    let hits = |searcher: &Searcher| {
        let (response, found) = search(&cache, searcher, &request);
        (response.hits().len(), found)
    };
    let frozen = searcher.frozen();
    assert_eq!(hits(&searcher), (20, false));
    writer.add(Document::new("new", "", "apple")).unwrap();
    writer.commit().unwrap();
    assert_eq!(hits(&searcher), (20, true));
    assert!(searcher.refresh().unwrap());
    // The new snapshot has an answer of its own; the old one is still searched.
    assert_eq!(hits(&searcher), (21, false));
    assert_eq!(hits(&frozen), (20, true));
    assert_eq!(cache.counts().entries, 2);
    // A question about one snapshot does not take the response of another.
    let other = Request::new("word1");
    let question = AnswerCache::question(&frozen.snapshot(), &other).unwrap();
    cache.add(&question, &searcher.search(&other).unwrap());
    assert!(cache.get(&question, &frozen.snapshot()).is_none());
    assert!(cache.get(&question, &searcher.snapshot()).is_none());
    drop(frozen);
    assert_eq!(cache.counts().entries, 1);
    assert_eq!(hits(&searcher), (21, true));
    drop(searcher);
    assert_eq!((cache.counts().entries, cache.counts().bytes), (0, 0));
}

#[test]
fn the_bound_in_bytes_holds() {
    const BOUND: u64 = 256 << 10;
    let (_folder, _writer, searcher) = apples(200);
    let cache = AnswerCache::new(BOUND);
    let hits = size_of::<crate::Hit>() as u64 * 200;
    for k in 0..400 {
        let request = Request::new(format!("apple other{k}")).k(200);
        let (response, _) = search(&cache, &searcher, &request);
        assert_eq!(response.hits().len(), 200);
        let counts = cache.counts();
        assert!(counts.bytes <= BOUND, "{counts:?}");
        // An entry counts with at least its hits and its plan.
        assert!(counts.bytes >= counts.entries * (hits + response.plan.bytes() as u64));
    }
    let counts = cache.counts();
    assert!(counts.entries > 0 && counts.evicted > 0, "{counts:?}");
    assert!(counts.entries + counts.evicted <= 400, "{counts:?}");
    // An answer that is too large is not kept, and evicts nothing.
    let cache = AnswerCache::new(16 << 10);
    search(&cache, &searcher, &Request::new("apple").k(200));
    assert_eq!((cache.counts().entries, cache.counts().evicted), (0, 0));
}
