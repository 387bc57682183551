//! Approximate search through the library: batches, time limits, snapshots.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use warpseek::ngram::{Misses, NgramAlgorithm, NgramError, NgramHit, NgramOptions, NgramRequest};
use warpseek::options::StoreMode;
use warpseek::query::Cancel;
use warpseek::text::GramConfig;
use warpseek::{Document, Error, Index, IndexOptions, NgramSearcher};

const WORDS: [&str; 12] = [
    "route",
    "flap",
    "damping",
    "acetic",
    "salicylic",
    "acid",
    "tower",
    "東京都庁",
    "walrus",
    "floating",
    "Straße",
    "index",
];

fn phrase(seed: usize, words: usize) -> String {
    let word = |i: usize| WORDS[(seed * 31 + i * i * 7 + i * seed) % WORDS.len()];
    (0..words).map(word).collect::<Vec<_>>().join(" ")
}

fn documents(index: &Index, range: std::ops::Range<usize>) {
    let mut writer = index.writer().unwrap();
    for i in range {
        let text = phrase(i, 5 + i % 40);
        writer.add(Document::new(format!("d{i}"), WORDS[i % 3], text)).unwrap();
    }
    writer.commit().unwrap();
}

fn index(options: IndexOptions) -> (tempfile::TempDir, Index) {
    let folder = tempfile::tempdir().unwrap();
    let options = options.grams(GramConfig { segment_words: 3, ..GramConfig::default() });
    let index = Index::create_with(folder.path().join("index"), options).unwrap();
    documents(&index, 0..300);
    (folder, index)
}

fn requests() -> Vec<NgramRequest> {
    let mut requests = Vec::new();
    for seed in 0..20 {
        let mut text = phrase(seed, 2 + seed % 4);
        let middle = text.floor_char_boundary(text.len() / 2);
        text.insert(middle, 'x');
        let request = NgramRequest::new(text).misses(Misses::Share(0.5)).k(1 + seed);
        requests.push(request.clone());
        requests.push(request.clone().verify(true).candidates(seed * 5));
        requests.push(request.verify(true).errors(1));
    }
    requests
}

fn hits(searcher: &NgramSearcher, request: &NgramRequest) -> Vec<NgramHit> {
    let response = searcher.search(request).unwrap();
    assert!(response.is_complete());
    response.hits().to_vec()
}

#[test]
fn threads_batches_and_algorithms_make_no_difference() {
    fn is_shared<T: Clone + Send + Sync>(_: &T) {}
    let (_folder, index) = index(IndexOptions::new());
    documents(&index, 290..400);
    let searcher = index.ngram_searcher_with(NgramOptions::new().threads(1)).unwrap();
    is_shared(&searcher);
    let requests = requests();
    let expected: Vec<_> = requests.iter().map(|request| hits(&searcher, request)).collect();
    assert!(expected.iter().filter(|hits| !hits.is_empty()).count() > 30);
    for algorithm in NgramAlgorithm::ALL {
        for threads in [1, 3] {
            let options = NgramOptions::new().threads(threads).algorithm(algorithm).mmap(false);
            let searcher = index.ngram_searcher_with(options).unwrap();
            for size in [1, 7, requests.len()] {
                let responses = requests.chunks(size).flat_map(|some| searcher.search_many(some));
                let found: Vec<_> = responses.map(|found| found.unwrap().hits().to_vec()).collect();
                assert_eq!(found, expected, "{algorithm}, {threads} threads, batches of {size}");
            }
        }
    }
}

#[test]
fn verified_hits_are_the_candidates_by_distance() {
    let (_folder, index) = index(IndexOptions::new());
    let searcher = index.ngram_searcher().unwrap();
    for request in requests() {
        let candidates = request.k.max(request.candidates);
        let all = searcher.search(&request.clone().verify(false).k(candidates)).unwrap();
        let mut expected = Vec::new();
        for (rank, hit) in all.hits().iter().enumerate() {
            let distance = all.alignment(rank).unwrap().distance;
            expected.push(NgramHit { distance: Some(distance), ..*hit });
        }
        expected.retain(|hit| request.errors.is_none_or(|most| hit.distance <= Some(most)));
        expected.sort_by_key(|hit| (hit.distance, std::cmp::Reverse(hit.score), hit.doc));
        expected.truncate(request.k);
        let request = request.verify(true);
        let response = searcher.search(&request).unwrap();
        assert_eq!(response.hits(), expected);
        for rank in 0..expected.len() {
            // The response shows what verification found, without searching again.
            let shown = response.alignment(rank).unwrap();
            let document = response.document(rank).unwrap().unwrap();
            let (title, text) = (document["title"].as_str(), document["text"].as_str());
            let (title, text) = (title.unwrap_or(""), text.unwrap_or(""));
            assert_eq!(shown, warpseek::ngram::NgramAlignment::of(&request.text, title, text));
            assert_eq!(response.position(rank).unwrap(), shown.in_text);
        }
    }
}

#[test]
fn what_is_stopped_says_so_and_has_no_wrong_hit() {
    let (_folder, index) = index(IndexOptions::new());
    let searcher = index.ngram_searcher_with(NgramOptions::new().threads(1)).unwrap();
    let request = NgramRequest::new("salicylic acid tower").misses(Misses::Share(0.8)).verify(true);
    let all = hits(&searcher, &request.clone().k(300));
    let expected = hits(&searcher, &request);
    let (mut partial, mut unverified) = (0, 0);
    for questions in 0.. {
        let limited = request.clone().cancelled_by(Cancel::after(questions));
        let response = searcher.search(&limited).unwrap();
        assert!(response.hits().iter().all(|hit| all.contains(hit)));
        if response.is_complete() {
            assert_eq!(response.hits(), expected);
            break;
        }
        partial += u32::from(!response.coverage().is_complete());
        unverified += u32::from(response.unverified() > 0);
    }
    assert!(partial > 0 && unverified > 0, "{partial} {unverified}");
    let late = searcher.search(&request.clone().deadline(Duration::ZERO)).unwrap();
    assert!(!late.is_complete() && late.hits().is_empty());
    assert_eq!(hits(&searcher, &request.deadline(Duration::MAX)), expected);
}

#[test]
fn later_commits_are_seen_after_a_refresh() {
    let (_folder, index) = index(IndexOptions::new());
    let searcher = index.ngram_searcher().unwrap();
    let (clone, request) = (searcher.clone(), NgramRequest::new("a heffalump").errors(1));
    let mut writer = index.writer().unwrap();
    writer.add(Document::new("new", "", "There is a heffalump.")).unwrap();
    writer.delete("d0");
    writer.commit().unwrap();
    assert!(hits(&searcher, &request).is_empty());
    assert!(searcher.refresh().unwrap() && !clone.refresh().unwrap());
    assert_eq!(clone.search(&request).unwrap().id(0).unwrap(), "new");
    assert_eq!(clone.search(&request).unwrap().documents_searched(), (300, 300));
}

#[test]
fn errors_say_what_is_wrong() {
    let (_folder, index) = index(IndexOptions::new().store(StoreMode::Ids));
    let searcher = index.ngram_searcher().unwrap();
    let request = NgramRequest::new("route flap");
    assert!(matches!(searcher.search(&request.clone().verify(true)), Err(Error::NoText)));
    let response = searcher.search(&request).unwrap();
    assert!(matches!(response.snippet(0, 80), Err(Error::NoText)));
    assert_eq!(response.document(0).unwrap(), None);
    let share = searcher.search(&request.clone().misses(Misses::Share(1.5)));
    assert!(matches!(share, Err(Error::Ngram(NgramError::Misses(_)))));
    // A request that fails does not affect the others.
    let many = [request.clone(), request.clone().verify(true), request];
    let answers: Vec<bool> = searcher.search_many(&many).iter().map(Result::is_ok).collect();
    assert_eq!(answers, [true, false, true]);

    let folder = tempfile::tempdir().unwrap();
    let words = Index::create(folder.path().join("words")).unwrap();
    assert!(matches!(words.ngram_searcher(), Err(Error::Ngram(NgramError::NotGrams))));
    assert!(index.searcher().is_err());
}
