//! Tests of single writes: after any sequence of operations, the index equals that of the newest
//! documents.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;

use warpseek_index::log::Durability;
use warpseek_index::{
    BuildConfig, IndexError, LiveIndex, LiveOptions, MergeConfig, Progress, Snapshot, StoreMode,
    delete, merge, read_manifest, verify,
};
use warpseek_testkit::{
    Doc, ExternalHit, Fixture, Random, Search, build_config, external_hits, file_bytes, plans,
};

fn options() -> LiveOptions {
    LiveOptions { durability: Durability::Written, threads: 1, ..LiveOptions::default() }
}

fn open(fixture: &Fixture) -> LiveIndex {
    LiveIndex::open(&fixture.dir(), options()).unwrap()
}

fn doc(id: u64, version: u64) -> Doc {
    let text = format!("apple {} version {version}", "pie ".repeat((id + version) as usize % 5));
    Doc::text(id, text + " " + &"crumb ".repeat(version as usize % 3))
}

fn put(live: &LiveIndex, doc: &Doc) {
    live.put(&doc.to_json()).unwrap().wait().unwrap();
}

fn hits(snapshot: &Arc<Snapshot>) -> Vec<Vec<ExternalHit>> {
    let searches = ["appl", "pie", "crumb"].map(|word| Search { k: 1000, ..Search::of(&[word]) });
    let plans = plans(snapshot, &searches);
    let answers = warpseek_testkit::expected(snapshot, &plans);
    plans.iter().zip(&answers).map(|(plan, a)| external_hits(snapshot, plan, a)).collect()
}

/// The expected contents of an index, in the order of the last writes.
#[derive(Clone, Default)]
struct Model(Vec<Doc>);

impl Model {
    fn put(&mut self, doc: &Doc) {
        self.delete(&doc.id);
        self.0.push(doc.clone());
    }

    fn delete(&mut self, id: &str) {
        self.0.retain(|other| other.id != id);
    }

    /// Compares hits, their order and scores with those of an index that was built from the same
    /// documents at once.
    fn check(&self, snapshot: &Arc<Snapshot>) {
        let built = Fixture::of(&self.0).snapshot();
        assert_eq!(snapshot.statistics(), built.statistics());
        assert_eq!(hits(snapshot), hits(&built));
    }

    fn check_reads(&self, live: &LiveIndex, ids: u64) {
        for id in 0..ids {
            let id = id.to_string();
            let doc = self.0.iter().find(|doc| doc.id == id);
            assert_eq!(live.get(&id).unwrap(), doc.map(|doc| doc.to_json().into_bytes()), "{id}");
            assert_eq!(live.contains(&id).unwrap(), doc.is_some());
        }
    }
}

fn is_sound(dir: &Path) -> bool {
    verify(dir, &Progress::default()).unwrap().problems.is_empty()
}

/// Copies the present files, which are those left by `kill -9` at this moment.
fn crash(dir: &Path) -> Fixture {
    let copy = Fixture::empty(build_config());
    fs::create_dir(copy.dir()).unwrap();
    for (name, bytes) in file_bytes(dir) {
        fs::write(copy.dir().join(name), bytes).unwrap();
    }
    copy
}

#[test]
fn any_history_gives_the_index_of_its_newest_documents() {
    const IDS: u64 = 12;
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let first: Vec<Doc> = (0..seed % 4).map(|id| doc(id, 0)).collect();
        let fixture = Fixture::of(&first);
        let mut model = Model(first);
        let mut live = open(&fixture);
        for version in 1..100 {
            let id = random.below(IDS as usize) as u64;
            match random.below(20) {
                0..9 => {
                    put(&live, &doc(id, version));
                    model.put(&doc(id, version));
                }
                9..12 => {
                    let there = model.0.iter().any(|doc| doc.id == id.to_string());
                    let ticket = live.delete(&id.to_string()).unwrap();
                    assert_eq!(ticket.is_some(), there);
                    ticket.into_iter().for_each(|ticket| ticket.wait().unwrap());
                    model.delete(&id.to_string());
                }
                12..14 => {
                    let there = model.0.iter().any(|doc| doc.id == id.to_string());
                    match live.create(&doc(id, version).to_json()) {
                        Ok(ticket) => {
                            assert!(!there);
                            ticket.wait().unwrap();
                            model.put(&doc(id, version));
                        }
                        Err(IndexError::Conflict { id: other }) => {
                            assert!(there && other == id.to_string());
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                14..16 => drop(live.refresh().unwrap()),
                16 => {
                    live.flush().unwrap();
                    // Readers in other processes see the writes now.
                    model.check(&fixture.snapshot());
                }
                17 => {
                    let copy = crash(&fixture.dir());
                    let recovered = open(&copy);
                    model.check(&recovered.snapshot());
                    model.check_reads(&recovered, IDS);
                }
                18 => {
                    drop(live);
                    live = open(&fixture);
                    model.check(&live.snapshot());
                }
                _ => {
                    live.close().unwrap();
                    assert_eq!(read_manifest(&fixture.dir()).unwrap().log, None);
                    assert!(is_sound(&fixture.dir()));
                    model.check(&fixture.snapshot());
                    live = open(&fixture);
                }
            }
            model.check_reads(&live, IDS);
        }
        model.check(&live.refresh().unwrap());
        live.close().unwrap();
        model.check(&fixture.snapshot());
        assert!(!file_bytes(&fixture.dir()).keys().any(|name| name.ends_with(".log")));
    }
}

#[test]
fn reads_see_writes_at_once_and_searches_after_a_refresh() {
    let fixture = Fixture::of(&[doc(0, 0)]);
    let live = open(&fixture);
    let before = live.snapshot();
    put(&live, &doc(1, 1));
    assert_eq!(live.get("1").unwrap().unwrap(), doc(1, 1).to_json().into_bytes());
    assert_eq!(live.snapshot().id(), before.id());
    let after = live.refresh().unwrap();
    assert!(after.generation() > before.generation());
    assert_eq!((before.statistics().documents, after.statistics().documents), (1, 2));
    // Without writes, a refresh has no effect.
    assert_eq!(live.refresh().unwrap().id(), after.id());
    // Readers in other processes see only what was flushed.
    assert_eq!(fixture.snapshot().statistics().documents, 1);
    let generation = live.flush().unwrap();
    assert_eq!(fixture.snapshot().generation(), generation);
    assert_eq!(fixture.snapshot().statistics().documents, 2);
    assert_eq!(live.flush().unwrap(), generation);
}

#[test]
fn of_threads_that_create_one_id_one_wins() {
    const THREADS: usize = 4;
    let fixture = Fixture::of(&[]);
    let live = open(&fixture);
    let wins: Vec<Vec<bool>> = std::thread::scope(|scope| {
        let create = |thread: usize| {
            let live = &live;
            scope.spawn(move || {
                let one = |id: usize| match live.create(&doc(id as u64, thread as u64).to_json()) {
                    Ok(ticket) => ticket.wait().map(|()| true).unwrap(),
                    Err(error) => !matches!(error, IndexError::Conflict { .. }),
                };
                (0..100).map(one).collect()
            })
        };
        let threads: Vec<_> = (0..THREADS).map(create).collect();
        (0..10).for_each(|_| drop(live.refresh().unwrap()));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for id in 0..100 {
        let winners: Vec<usize> =
            wins.iter().enumerate().filter(|(_, won)| won[id]).map(|(thread, _)| thread).collect();
        let [winner] = winners[..] else { panic!("{id} was created by {winners:?}") };
        let document = live.get(&id.to_string()).unwrap().unwrap();
        assert_eq!(document, doc(id as u64, winner as u64).to_json().into_bytes());
    }
    assert_eq!(live.refresh().unwrap().statistics().documents, 100);
}

#[test]
fn threads_write_while_others_refresh_and_flush() {
    const THREADS: u64 = 3;
    const IDS: u64 = 40;
    let fixture = Fixture::of(&[]);
    let live = LiveIndex::open(
        &fixture.dir(),
        LiveOptions { durability: Durability::Synced, ..options() },
    )
    .unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let live = &live;
                scope.spawn(move || {
                    for version in 0..150 {
                        // Each thread has separate ids, so the last version is known.
                        let id = thread * IDS + version % IDS;
                        put(live, &doc(id, version));
                        let wanted = doc(id, version).to_json().into_bytes();
                        assert_eq!(live.get(&id.to_string()).unwrap(), Some(wanted));
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let snapshot = live.refresh().unwrap();
                // However busy writers are, no search ever sees two versions of a document.
                let all = hits(&snapshot).swap_remove(0);
                let ids: BTreeSet<_> = all.iter().map(|(id, ..)| id).collect();
                assert_eq!(ids.len(), all.len());
                live.flush().unwrap();
                let copy = crash(live.dir());
                assert!(is_sound(&copy.dir()));
            }
        });
        let results: Vec<_> = writers.into_iter().map(ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });
    let check = |live: &LiveIndex| {
        assert_eq!(live.snapshot().statistics().documents, THREADS * IDS);
        for id in 0..THREADS * IDS {
            let version = (0..150).rev().find(|version| version % IDS == id % IDS).unwrap();
            let wanted = doc(id, version).to_json().into_bytes();
            assert_eq!(live.get(&id.to_string()).unwrap(), Some(wanted));
        }
    };
    live.refresh().unwrap();
    check(&live);
    check(&open(&crash(&fixture.dir())));
}

#[test]
fn other_writers_settle_the_log_first() {
    let writers: [fn(&Fixture, &mut Model); 4] = [
        |fixture, model| {
            fixture.add(&[doc(1, 9)]).unwrap();
            model.put(&doc(1, 9));
        },
        |fixture, model| {
            let report = delete(&fixture.dir(), &["2".into()], 1, &Progress::default()).unwrap();
            assert_eq!(report.deleted, 1);
            model.delete("2");
        },
        |fixture, _| {
            let config = MergeConfig { threads: 1, ..MergeConfig::default() };
            assert!(merge(&fixture.dir(), &config, &Progress::default()).unwrap().changed);
        },
        |_, _| {},
    ];
    for write in writers {
        let fixture = Fixture::of(&[doc(0, 0)]);
        let mut model = Model(vec![doc(0, 0)]);
        let live = open(&fixture);
        for id in [1, 2, 1] {
            put(&live, &doc(id, 5));
            model.put(&doc(id, 5));
        }
        drop(live);
        write(&fixture, &mut model);
        // Old log records are not replayed over later writes.
        let live = open(&fixture);
        model.check(&live.snapshot());
        live.close().unwrap();
        model.check(&fixture.snapshot());
    }
}

#[test]
fn a_failed_flush_loses_nothing() {
    let fixture = Fixture::of(&[doc(0, 0)]);
    let live = open(&fixture);
    put(&live, &doc(1, 1));
    live.delete("0").unwrap().unwrap().wait().unwrap();
    let model = Model(vec![doc(1, 1)]);
    // Directories block the names of the next logs, then of the next dictionaries.
    for kind in ["log", "dict"] {
        let taken: Vec<_> = (0..40)
            .map(|number| fixture.dir().join(format!("{number:06}.{kind}")))
            .filter(|path| fs::create_dir(path).is_ok())
            .collect();
        assert!(matches!(live.flush(), Err(IndexError::Io { .. })));
        model.check_reads(&live, 3);
        // The next writer after a crash reads all logs and continues them.
        let copy = crash(&fixture.dir());
        let recovered = open(&copy);
        model.check(&recovered.snapshot());
        put(&recovered, &doc(2, 2));
        recovered.close().unwrap();
        let with_one_more = Model(vec![doc(1, 1), doc(2, 2)]);
        with_one_more.check(&copy.snapshot());
        assert!(is_sound(&copy.dir()));
        taken.iter().for_each(|path| fs::remove_dir(path).unwrap());
    }
    live.flush().unwrap();
    model.check(&fixture.snapshot());
    live.close().unwrap();
    assert!(is_sound(&fixture.dir()));
}

#[test]
fn a_failed_refresh_is_final_and_loses_nothing() {
    let fixture = Fixture::of(&(0..20_000).map(|id| doc(id, 0)).collect::<Vec<_>>());
    // The refresh counts the terms of the replaced document, for which it reads lists.
    let lists = fixture.dir().join("000001.post");
    let good = fs::read(&lists).unwrap();
    // Mapped files must keep their size.
    let overwrite = |bytes: &[u8]| {
        let mut file = fs::File::options().write(true).open(&lists).unwrap();
        file.write_all(bytes).unwrap();
    };
    let live = open(&fixture);
    put(&live, &doc(5, 1));
    let half = good.len() / 2;
    overwrite(&[&good[..16], &vec![0xff; half - 16], &good[half..]].concat());
    assert!(matches!(live.refresh(), Err(IndexError::Corrupt { .. })));
    let results = [
        live.put(&doc(6, 1).to_json()).map(drop),
        live.delete("5").map(drop),
        live.refresh().map(drop),
        live.flush().map(drop),
    ];
    for result in results {
        let error = result.unwrap_err();
        assert!(matches!(error, IndexError::Interrupted { .. }), "{error}");
    }
    assert_eq!(live.get("5").unwrap().unwrap(), doc(5, 1).to_json().into_bytes());
    drop(live);
    overwrite(&good);
    let live = open(&fixture);
    assert_eq!(live.get("5").unwrap().unwrap(), doc(5, 1).to_json().into_bytes());
    assert_eq!(live.snapshot().statistics().documents, 20_000);
}

#[test]
fn damaged_and_missing_logs_are_errors() {
    let fixture = Fixture::of(&[doc(0, 0)]);
    let live = open(&fixture);
    put(&live, &doc(1, 1));
    put(&live, &doc(2, 1));
    drop(live);
    let log = read_manifest(&fixture.dir()).unwrap().log.unwrap();
    let path = fixture.dir().join(format!("{:06}.log", log.number));
    let good = fs::read(&path).unwrap();
    let mut bad = good.clone();
    bad[100] ^= 1;
    fs::write(&path, &bad).unwrap();
    let error = LiveIndex::open(&fixture.dir(), options()).err().unwrap();
    assert!(
        matches!(&error, IndexError::Corrupt { path: damaged, .. } if *damaged == path),
        "{error}"
    );
    fs::remove_file(&path).unwrap();
    let error = LiveIndex::open(&fixture.dir(), options()).err().unwrap();
    assert!(error.to_string().contains("missing"), "{error}");
    // Readers do not need the log.
    assert_eq!(fixture.snapshot().statistics().documents, 1);
    fs::write(&path, &good).unwrap();
    assert_eq!(open(&fixture).snapshot().statistics().documents, 3);
}

#[test]
fn what_cannot_be_indexed_is_refused_and_leaves_no_trace() {
    let fixture = Fixture::of(&[doc(0, 0)]);
    let live = open(&fixture);
    let vector = Doc::vector("v", &[("a", 1.0)]).to_json();
    let long = Doc::text("x".repeat(1025), "y").to_json();
    let refused =
        ["", "[]", "{}", r#"{"id":""}"#, "{\"id\":\"1\",\n\"text\":\"x\"}", &vector, &long];
    for json in refused {
        let error = live.put(json).err().unwrap();
        assert!(matches!(error, IndexError::Refused { .. }), "{json}: {error}");
    }
    assert!(live.delete("no such id").unwrap().is_none());
    let same = live.refresh().unwrap();
    assert_eq!(same.statistics().documents, 1);
    drop(live);
    assert_eq!(open(&fixture).snapshot().statistics().documents, 1);
}

#[test]
fn the_first_document_decides_between_text_and_vectors() {
    let fixture = Fixture::of(&[]);
    let vector = Doc::vector("v", &[("a", 1.0)]);
    let live = open(&fixture);
    put(&live, &vector);
    assert!(live.put(&doc(1, 1).to_json()).is_err());
    drop(live);
    let live = open(&fixture);
    assert!(live.put(&doc(1, 1).to_json()).is_err());
    live.close().unwrap();
    let built = Fixture::of(&[vector]).snapshot();
    assert_eq!(fixture.snapshot().manifest().content, built.manifest().content);
}

#[test]
fn an_index_of_ids_has_no_documents_to_show() {
    let config = BuildConfig { store: StoreMode::Ids, ..build_config() };
    let fixture = Fixture::with(&[doc(0, 0)], config);
    let live = open(&fixture);
    put(&live, &doc(1, 1));
    for _ in 0..2 {
        assert!(live.contains("1").unwrap());
        assert_eq!(live.get("1").unwrap(), None);
        live.flush().unwrap();
    }
}

#[test]
fn an_index_has_one_writer_and_must_be_one() {
    let fixture = Fixture::of(&[doc(0, 0)]);
    let live = open(&fixture);
    assert!(matches!(LiveIndex::open(&fixture.dir(), options()), Err(IndexError::Locked { .. })));
    assert!(matches!(fixture.delete(&["0".into()]), Err(IndexError::Locked { .. })));
    drop(live);
    let nowhere = fixture.dir().join("nowhere");
    assert!(matches!(LiveIndex::open(&nowhere, options()), Err(IndexError::NotAnIndex { .. })));
}

#[test]
fn much_memory_is_reason_to_refresh() {
    let fixture = Fixture::of(&[]);
    let options = LiveOptions { memory: 1, ..options() };
    let live = LiveIndex::open(&fixture.dir(), options).unwrap();
    put(&live, &doc(1, 1));
    assert_eq!(live.snapshot().statistics().documents, 1);
}

#[test]
fn a_long_log_of_deletions_is_reason_to_flush() {
    let fixture = Fixture::of(&(0..300).map(|id| doc(id, 0)).collect::<Vec<_>>());
    let live =
        LiveIndex::open(&fixture.dir(), LiveOptions { memory: 4 << 10, ..options() }).unwrap();
    let mut deleted = 0;
    while !live.wants_flush() {
        let ticket = live.delete(&doc(deleted, 0).id).unwrap().expect("it is there");
        ticket.wait().unwrap();
        deleted += 1;
    }
    assert!((20..250).contains(&deleted), "{deleted} deletions");
    live.flush().unwrap();
    assert!(!live.wants_flush());
    assert_eq!(live.snapshot().statistics().documents, 300 - deleted);
}

/// Makes eight commits with separate documents, and one that replaces an earlier one.
fn many_segments(live: &LiveIndex, model: &mut Model) {
    for version in 0u64..8 {
        for id in (10 * version..10 * version + 10).chain([(10 * version).saturating_sub(7)]) {
            put(live, &doc(id, version));
            model.put(&doc(id, version));
        }
        live.flush().unwrap();
    }
}

fn segments_on_disk(fixture: &Fixture) -> usize {
    read_manifest(&fixture.dir()).unwrap().segments.len()
}

#[test]
fn merges_keep_documents_and_their_order() {
    let fixture = Fixture::of(&[]);
    let (live, mut model) = (open(&fixture), Model(Vec::new()));
    assert!(!live.merge_some(&Progress::default()).unwrap());
    many_segments(&live, &mut model);
    assert_eq!(segments_on_disk(&fixture), 8);
    // Writes that are not flushed when a merge ends are searched, but not on disk.
    put(&live, &doc(3, 99));
    live.refresh().unwrap();
    let flushed = model.0.clone();
    model.put(&doc(3, 99));
    assert!(live.merge_some(&Progress::default()).unwrap());
    assert!(!live.merge_some(&Progress::default()).unwrap());
    assert_eq!(segments_on_disk(&fixture), 1);
    Model(flushed).check(&fixture.snapshot());
    model.check(&live.snapshot());
    model.check_reads(&live, 90);
    let copy = crash(&fixture.dir());
    model.check(&open(&copy).snapshot());
    put(&live, &doc(4, 99));
    model.put(&doc(4, 99));
    live.close().unwrap();
    model.check(&fixture.snapshot());
    assert!(is_sound(&fixture.dir()));
}

#[test]
fn what_is_deleted_during_a_merge_stays_deleted() {
    // The merge is slow, so that there is time for writes. If there is not, the result is the
    // same.
    let options = LiveOptions { merge_rate: Some(20_000), ..options() };
    let fixture = Fixture::of(&[]);
    let live = LiveIndex::open(&fixture.dir(), options).unwrap();
    let mut model = Model(Vec::new());
    many_segments(&live, &mut model);
    let before = file_bytes(&fixture.dir()).len();
    std::thread::scope(|scope| {
        let merge = scope.spawn(|| live.merge_some(&Progress::default()).unwrap());
        while file_bytes(&fixture.dir()).len() == before && !merge.is_finished() {}
        for id in 0..30 {
            match id % 3 {
                0 => {
                    live.delete(&id.to_string()).unwrap().unwrap().wait().unwrap();
                    model.delete(&id.to_string());
                }
                1 => {
                    put(&live, &doc(id, 50));
                    model.put(&doc(id, 50));
                }
                _ => {}
            }
            // When the merge ends, some writes are flushed, some are refreshed, and some are
            // neither.
            match id {
                10 => drop(live.flush().unwrap()),
                20 => drop(live.refresh().unwrap()),
                _ => {}
            }
        }
        assert!(merge.join().unwrap());
    });
    assert!(segments_on_disk(&fixture) <= 2);
    model.check_reads(&live, 80);
    model.check(&open(&crash(&fixture.dir())).snapshot());
    model.check(&live.refresh().unwrap());
    assert!(is_sound(&fixture.dir()));
    live.close().unwrap();
    model.check(&fixture.snapshot());
    assert!(is_sound(&fixture.dir()));
}

#[test]
fn a_merge_that_is_cancelled_changes_nothing() {
    let fixture = Fixture::of(&[]);
    let (live, mut model) = (open(&fixture), Model(Vec::new()));
    many_segments(&live, &mut model);
    let before = file_bytes(&fixture.dir());
    let progress = Progress::default();
    progress.cancel();
    assert!(matches!(live.merge_some(&progress), Err(IndexError::Cancelled)));
    assert_eq!(file_bytes(&fixture.dir()), before);
    model.check(&live.snapshot());
    assert!(live.merge_some(&Progress::default()).unwrap());
    model.check(&fixture.snapshot());
}

#[test]
fn segments_of_which_most_is_deleted_are_written_anew() {
    let fixture = Fixture::of(&(0..10).map(|id| doc(id, 0)).collect::<Vec<_>>());
    let live = open(&fixture);
    for id in 0..10 {
        live.delete(&id.to_string()).unwrap().unwrap().wait().unwrap();
        live.flush().unwrap();
        let merged = live.merge_some(&Progress::default()).unwrap();
        // 4 of 10 remain, then 1 of these 4, then none.
        assert_eq!(merged, [5, 8, 9].contains(&id), "{id}");
    }
    assert_eq!(live.snapshot().segments().len(), 0);
    put(&live, &doc(1, 1));
    live.close().unwrap();
    Model(vec![doc(1, 1)]).check(&fixture.snapshot());
}
