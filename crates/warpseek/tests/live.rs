//! Single writes through the library: which of them searchers see, and when.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use warpseek::index::{Durability, IndexError};
use warpseek::{
    Document, Error, Index, LiveIndex, LiveOptions, Request, Searcher, SearcherOptions,
    ServiceOptions,
};

fn document(id: usize, version: usize) -> Document {
    let words = ["apple", "pear", "plum", "quince"];
    let text: Vec<&str> = (0..=id % 5).map(|i| words[(id * 7 + version + i) % 4]).collect();
    Document::new(id.to_string(), format!("title {}", id % 3), text.join(" "))
}

/// Returns ids and scores of the hits of some queries.
fn hits(searcher: &Searcher) -> Vec<Vec<(String, u64)>> {
    let hits = |query: &str| {
        let response = searcher.search(&Request::new(query).k(1000)).unwrap();
        let one = |rank| (response.id(rank).unwrap(), response.score(rank).to_bits());
        (0..response.hits().len()).map(one).collect()
    };
    ["apple", "pear plum", "title quince 2"].map(hits).into()
}

fn fixture() -> (tempfile::TempDir, Index) {
    let folder = tempfile::tempdir().unwrap();
    let index = Index::create(folder.path().join("index")).unwrap();
    (folder, index)
}

fn open(index: &Index) -> LiveIndex {
    index.live(LiveOptions::new().durability(Durability::Written).threads(1)).unwrap()
}

fn searcher(live: &LiveIndex) -> Searcher {
    live.searcher(SearcherOptions::new().threads(1)).unwrap()
}

#[test]
fn searches_equal_those_of_a_built_index() {
    let (_folder, index) = fixture();
    let live = open(&index);
    let searcher = searcher(&live);
    for version in 0..4 {
        for id in (0..200).filter(|id| id % (version + 1) == 0) {
            live.put(&document(id, version)).unwrap().wait().unwrap();
        }
        live.refresh().unwrap();
        let (_built_folder, built) = fixture();
        let mut writer = built.writer().unwrap();
        // Replaced documents go to the end.
        let newest = |id: usize| (0..=version).rev().find(|v| id.is_multiple_of(v + 1)).unwrap();
        let mut ids: Vec<usize> = (0..200).collect();
        ids.sort_by_key(|&id| (newest(id), id));
        ids.into_iter().try_for_each(|id| writer.add(document(id, newest(id)))).unwrap();
        writer.commit().unwrap();
        let wanted = hits(&built.searcher().unwrap());
        assert_eq!(hits(&searcher), wanted, "version {version}");
        live.flush().unwrap();
        assert_eq!(hits(&searcher), wanted, "version {version}, flushed");
    }
    let before = hits(&searcher);
    live.close().unwrap();
    assert_eq!(hits(&searcher), before, "after the end");
    assert!(!searcher.refresh().unwrap());
    assert_eq!(hits(&index.searcher().unwrap()), before);
}

#[test]
fn services_follow_by_themselves() {
    let (_folder, index) = fixture();
    let live = open(&index);
    let options = ServiceOptions::new().calibration(Duration::ZERO).threads(1).cache(1 << 20);
    let service = searcher(&live).service(options).unwrap();
    let found = || {
        let served = service.submit(&Request::new("title").k(1000)).unwrap().wait();
        served.answer.unwrap().hits().len()
    };
    for id in 0..20 {
        live.put(&document(id, 0)).unwrap().wait().unwrap();
        assert_eq!(found(), id, "before the refresh");
        live.refresh().unwrap();
        assert_eq!(found(), id + 1);
    }
    assert!(!service.refresh().unwrap());
}

#[test]
fn searchers_follow_by_themselves() {
    let (_folder, index) = fixture();
    let options = LiveOptions::new().refresh_every(Duration::from_millis(10)).threads(1);
    let live = index.live(options).unwrap();
    let searcher = searcher(&live);
    live.put(&document(1, 1)).unwrap().wait().unwrap();
    let start = Instant::now();
    while searcher.search(&Request::new("title")).unwrap().hits().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60), "no refresh came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_search_beside_writes_sees_each_document_once() {
    let (_folder, index) = fixture();
    let live = open(&index);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ended = &ended;
        let live = &live;
        let searches: Vec<_> = (0..2)
            .map(|_| {
                let searcher = searcher(live);
                scope.spawn(move || {
                    let (mut searches, mut least) = (0, 0);
                    while !ended.load(Ordering::Relaxed) || searches == 0 {
                        let response = searcher.search(&Request::new("title").k(1000)).unwrap();
                        let n = response.hits().len();
                        let mut ids: Vec<_> = (0..n).map(|r| response.id(r).unwrap()).collect();
                        ids.sort_unstable();
                        ids.dedup();
                        assert_eq!(ids.len(), n);
                        assert!(n >= least, "{n} documents after {least}");
                        (searches, least) = (searches + 1, n);
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..2)
            .map(|thread| {
                scope.spawn(move || {
                    for version in 0..5 {
                        for id in (0..60).filter(|id| id % 2 == thread) {
                            drop(live.put(&document(id, version)).unwrap());
                        }
                        live.refresh().unwrap();
                        if version == 2 {
                            live.flush().unwrap();
                        }
                    }
                })
            })
            .collect();
        let written: Vec<_> = writers.into_iter().map(ScopedJoinHandle::join).collect();
        ended.store(true, Ordering::Relaxed);
        written.into_iter().for_each(|result| result.unwrap());
        searches.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let (searcher, wanted) = (searcher(&live), document(59, 4));
    let response = searcher.search(&Request::new("title").k(1000)).unwrap();
    assert_eq!(response.hits().len(), 60);
    assert_eq!(live.get("59").unwrap().unwrap()["text"], wanted.text.as_str());
}

#[test]
fn updates_change_what_they_name() {
    let (_folder, index) = fixture();
    let live = open(&index);
    let json = r#"{"id": "1", "text": "an apple", "price": {"eur": 3, "usd": 4}, "old": true}"#;
    drop(live.put_json(json).unwrap());
    let patch = r#"{"text": "a pear", "price": {"eur": 5}, "old": null}"#;
    for _ in 0..2 {
        live.update("1", patch).unwrap().unwrap().wait().unwrap();
        let document = live.get("1").unwrap().unwrap();
        assert_eq!(document["text"], "a pear");
        assert_eq!((&document["price"]["eur"], &document["price"]["usd"]), (&5.into(), &4.into()));
        assert!(document.get("old").is_none());
        live.refresh().unwrap();
    }
    assert!(live.update("2", patch).unwrap().is_none());
    for refused in [r#"{"id": "2"}"#, r#"{"id": null}"#, "[]", "{"] {
        let error = live.update("1", refused).err().unwrap();
        assert!(matches!(error, Error::Index(IndexError::Refused { .. })), "{refused}: {error}");
    }
    // All increments of many threads are there.
    drop(live.put_json(r#"{"id": "n", "text": "", "done": {}}"#).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let live = &live;
            scope.spawn(move || {
                for i in 0..20 {
                    let patch = format!(r#"{{"done": {{"{thread}.{i}": 1}}}}"#);
                    drop(live.update("n", &patch).unwrap().unwrap());
                    if i == 10 {
                        live.refresh().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(live.get("n").unwrap().unwrap()["done"].as_object().unwrap().len(), 80);
}

#[test]
fn static_scores_need_a_field() {
    let (_folder, index) = fixture();
    let live = open(&index);
    let scored = Document { static_score: Some(1.5), ..document(1, 1) };
    let error = live.put(&scored).err().unwrap();
    assert!(error.to_string().contains("set_static_field"), "{error}");
    live.close().unwrap();
    index.set_static_field("rank").unwrap();
    let live = open(&index);
    drop((live.put(&scored).unwrap(), live.create(&document(2, 1)).unwrap()));
    assert_eq!(live.get("1").unwrap().unwrap()["rank"], 1.5);
    drop(live.update("1", r#"{"other": 3}"#).unwrap().unwrap());
    drop(live.update("2", r#"{"rank": 0.5}"#).unwrap().unwrap());
    assert_eq!(live.refresh().unwrap().statistics().max_static, 1.5);
    drop(live.delete("1").unwrap().unwrap());
    assert_eq!(live.refresh().unwrap().statistics().max_static, 0.5);
    live.close().unwrap();
    // A writer for commits finds the field in the index too.
    let mut writer = index.writer().unwrap();
    writer.add(Document { static_score: Some(4.0), ..document(3, 1) }).unwrap();
    writer.commit().unwrap();
    assert_eq!(index.snapshot().unwrap().statistics().max_static, 4.0);
    assert_eq!(index.manifest().unwrap().static_field.as_deref(), Some("rank"));
}

#[test]
fn what_single_writes_cannot_keep_is_refused() {
    let (_folder, index) = fixture();
    let live = open(&index);
    drop(live.create(&document(1, 1)).unwrap());
    let error = live.create(&document(1, 2)).err().unwrap();
    assert!(matches!(error, Error::Index(IndexError::Conflict { .. })), "{error}");
    // An index that is dropped without being closed leaves a log, which the next writer reads.
    drop(live);
    let live = open(&index);
    assert!(live.contains("1").unwrap());
    assert!(matches!(index.live(LiveOptions::new()), Err(Error::Index(IndexError::Locked { .. }))));
}
