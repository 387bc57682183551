//! Many threads search while a writer changes the index. Every answer equals that of the
//! reference for the snapshot that it names.
//!
//! The test takes some seconds; `cargo xtask soak` lets it run for a minute and more
//! (WARPSEEK_SOAK_SECONDS).
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use warpseek::index::MergeConfig;
use warpseek::{Document, Index, Mode, Progress, Request, Searcher};
use warpseek_testkit::{Random, expected};

const THREADS: usize = 8;
const WORDS: usize = 60;

fn seconds() -> u64 {
    std::env::var("WARPSEEK_SOAK_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(8)
}

/// Generates words, the first of which are much more frequent than the last.
fn words(random: &mut Random, n: usize) -> String {
    let word = |random: &mut Random| {
        let limit = random.below(WORDS) + 1;
        format!("w{}", random.below(limit))
    };
    (0..n).map(|_| word(random)).collect::<Vec<_>>().join(" ")
}

/// Adds, replaces, deletes and merges until told to stop, but at least once. Returns the number
/// of commits.
fn write(index: &Index, stop: &AtomicBool) -> u64 {
    let (mut random, mut writer) = (Random::new(7), index.writer().unwrap());
    let mut commits = 0;
    while !stop.load(Ordering::Relaxed) || commits == 0 {
        for _ in 0..random.below(60) {
            let id = random.below(2000).to_string();
            match random.below(4) {
                0 => writer.delete(id),
                _ => {
                    let length = random.below(30) + 1;
                    writer.add(Document::new(id, "", words(&mut random, length))).unwrap();
                }
            }
        }
        writer.commit().unwrap();
        if random.below(10) == 0 {
            let reorder = random.below(2) == 0;
            let config = MergeConfig { reorder, ..MergeConfig::default() };
            index.merge(&config, &Progress::default()).unwrap();
        }
        commits += 1;
    }
    commits
}

/// Searches until told to stop, but at least once, with single requests and in batches. Returns
/// the number of queries and the number of snapshots seen.
fn search(searcher: &Searcher, seed: u64, stop: &AtomicBool) -> (u64, u64) {
    let mut random = Random::new(seed);
    let (mut queries, mut last, mut snapshots) = (0, 0, 0);
    while !stop.load(Ordering::Relaxed) || queries == 0 {
        if random.below(4) == 0 {
            searcher.refresh().unwrap();
        }
        let requests: Vec<Request> = (0..random.below(6) + 1)
            .map(|_| {
                let length = random.below(5) + 1;
                let mode = [Mode::Or, Mode::And, Mode::AndOr][random.below(3)];
                let count = random.below(2) == 0;
                let k = random.below(30);
                Request::new(words(&mut random, length)).mode(mode).k(k).count(count)
            })
            .collect();
        let responses = match &requests[..] {
            [request] => vec![searcher.search(request)],
            requests => searcher.search_batch(requests),
        };
        for response in responses {
            let response = response.unwrap();
            assert!(response.coverage().is_complete());
            let snapshot = response.snapshot();
            assert_eq!(response.plan().snapshot, snapshot.id());
            let wanted = expected(snapshot, std::slice::from_ref(response.plan())).remove(0);
            assert_eq!(response.hits(), wanted.hits, "generation {}", response.generation());
            if response.plan().count {
                assert_eq!(response.matches(), wanted.matches);
            }
            // The hits can still be read, whatever has been merged or deleted since.
            for rank in 0..response.hits().len().min(2) {
                let document = response.document(rank).unwrap().unwrap();
                assert_eq!(document["id"], response.id(rank).unwrap());
            }
            snapshots += u64::from(last != response.generation());
            last = response.generation();
            queries += 1;
        }
    }
    (queries, snapshots)
}

#[test]
fn searches_and_writes_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let index = Index::create(folder.path().join("index")).unwrap();
    let searcher = index.searcher().unwrap();
    let (stop, queries, snapshots) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let stop_at = Instant::now() + Duration::from_secs(seconds());
    let commits = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&index, &stop));
        let searchers: Vec<_> = (0..THREADS as u64)
            .map(|seed| {
                let (searcher, stop) = (searcher.clone(), &stop);
                let (queries, snapshots) = (&queries, &snapshots);
                scope.spawn(move || {
                    let (asked, seen) = search(&searcher, seed, stop);
                    queries.fetch_add(asked, Ordering::Relaxed);
                    snapshots.fetch_add(seen, Ordering::Relaxed);
                })
            })
            .collect();
        // The first failure stops all threads.
        while Instant::now() < stop_at
            && !writer.is_finished()
            && !searchers.iter().any(std::thread::ScopedJoinHandle::is_finished)
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    let (queries, snapshots) = (queries.into_inner(), snapshots.into_inner());
    println!("{queries} queries, {snapshots} times a new snapshot, {commits} commits");
    assert!(queries > 0 && snapshots > 0 && commits > 0);
}
