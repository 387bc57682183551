//! Tests of concurrent readers and writers: snapshots do not change, only one writer works at a
//! time, and leftovers are removed.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use warpseek_index::{
    IndexError, Lists, ListsConfig, MergeConfig, OpenOptions, Progress, Snapshot, add, create,
    create_from_lists, delete, inspect, merge, verify,
};
use warpseek_testkit::{Doc, ExternalHit, Fixture, Search, external_hits, file_bytes, plans};

fn docs(from: usize, to: usize) -> Vec<Doc> {
    (from..to).map(|i| Doc::text(i, format!("apple pie number {i} of {}", i % 7))).collect()
}

fn hits(snapshot: &Arc<Snapshot>) -> Vec<Vec<ExternalHit>> {
    let searches = [Search { k: 1000, ..Search::of(&["appl", "number"]) }, Search::of(&["3", "5"])];
    let plans = plans(snapshot, &searches);
    let answers = warpseek_testkit::expected(snapshot, &plans);
    plans.iter().zip(&answers).map(|(plan, a)| external_hits(snapshot, plan, a)).collect()
}

#[test]
fn an_open_reader_keeps_its_snapshot() {
    let fixture = Fixture::of(&docs(0, 200));
    let first = fixture.snapshot();
    let before = hits(&first);
    fixture.add(&docs(150, 300)).unwrap();
    let second = fixture.snapshot();
    let between = hits(&second);
    assert_ne!(before, between);
    fixture.delete(&["3".into(), "299".into()]).unwrap();
    fixture.merge().unwrap();
    let input = fixture.input(Doc::text("other", "apple").to_json().as_bytes());
    create(&fixture.dir(), &[input], fixture.config(), true, &Progress::default()).unwrap();
    assert_eq!(fixture.snapshot().statistics().documents, 1);
    assert_eq!(hits(&first), before);
    assert_eq!(hits(&second), between);
    assert_eq!(first.document(7).unwrap().unwrap(), docs(7, 8)[0].to_json().into_bytes());
}

#[test]
fn a_second_writer_is_told() {
    let fixture = Fixture::of(&docs(0, 9));
    let (dir, input) = (fixture.dir(), [fixture.input(b"{\"id\":\"x\",\"text\":\"y\"}\n")]);
    let before = file_bytes(&dir);
    let lock = File::options().write(true).open(dir.join("lock")).unwrap();
    lock.try_lock().unwrap();
    // Each one waits a little for the lock; they wait at the same time.
    std::thread::scope(|scope| {
        let (dir, input, config) = (&dir, &input, fixture.config());
        let none = Progress::default;
        let writers = [
            scope.spawn(move || add(dir, input, config, &none()).map(drop)),
            scope.spawn(move || delete(dir, &["1".into()], 1, &none()).map(drop)),
            scope.spawn(move || {
                merge(dir, &MergeConfig { threads: 1, ..MergeConfig::default() }, &none()).map(drop)
            }),
            scope.spawn(move || create(dir, input, config, true, &none()).map(drop)),
        ];
        for writer in writers {
            let error = writer.join().unwrap().unwrap_err();
            assert!(matches!(error, IndexError::Locked { .. }), "{error}");
        }
    });
    assert_eq!(file_bytes(&dir), before);
    // Readers need no lock.
    assert_eq!(fixture.snapshot().statistics().documents, 9);
    drop(lock);
    fixture.delete(&["1".into()]).unwrap();
    assert_eq!(fixture.snapshot().statistics().documents, 8);
}

fn litter(dir: &Path) {
    for name in ["000009.post", "000001.77.del", "manifest.new"] {
        fs::write(dir.join(name), b"half a fi").unwrap();
    }
    fs::create_dir(dir.join("build-123")).unwrap();
    fs::write(dir.join("build-123/run-0"), b"x").unwrap();
}

#[test]
fn readers_leave_leftovers_and_writers_remove_them_and_nothing_else() {
    let fixture = Fixture::of(&docs(0, 9));
    let dir = fixture.dir();
    for name in ["notes.txt", "000001.txt", "000001.post.bak", "x.del", "manifest.old"] {
        fs::write(dir.join(name), b"mine").unwrap();
    }
    fs::create_dir(dir.join("mine")).unwrap();
    let before = file_bytes(&dir);
    litter(&dir);
    let with_litter = file_bytes(&dir);
    // No lock is held here, but on a network file system, a writer on another host may hold one
    // that this host does not see.
    assert_eq!(fixture.snapshot().statistics().documents, 9);
    assert!(verify(&dir, &Progress::default()).unwrap().problems.is_empty());
    inspect(&dir).unwrap();
    assert_eq!(file_bytes(&dir), with_litter, "after an open");
    assert!(dir.join("build-123/run-0").exists());

    fixture.delete(&["nosuch".into()]).unwrap();
    assert_eq!(file_bytes(&dir), before, "after a deletion of nothing");
    litter(&dir);
    fixture.merge().unwrap();
    assert_eq!(file_bytes(&dir), before, "after a merge of one segment");
    litter(&dir);
    fixture.add(&docs(9, 12)).unwrap();
    assert!(!left(&dir), "after an addition");
    litter(&dir);
    let input = fixture.input(Doc::text("other", "apple").to_json().as_bytes());
    create(&dir, &[input], fixture.config(), true, &Progress::default()).unwrap();
    assert!(!left(&dir), "after a build over the index");
}

/// Returns true if any of the leftovers remain.
fn left(dir: &Path) -> bool {
    ["000009.post", "000001.77.del", "manifest.new", "build-123"]
        .iter()
        .any(|name| dir.join(name).exists())
}

/// A source without lists that looks at the directory when a build reads it.
struct Watch<'a> {
    dir: &'a Path,
    clean: AtomicBool,
}

impl Lists for Watch<'_> {
    fn documents(&self) -> u32 {
        self.clean.fetch_and(!left(self.dir), Ordering::Relaxed);
        0
    }

    fn count(&self) -> u32 {
        0
    }

    fn term(&self, _: u32) -> &[u8] {
        &[]
    }

    fn weight(&self, _: u32) -> usize {
        0
    }

    fn load(&self, _: u32, _: &mut Vec<(u32, u32)>) {}
}

#[test]
fn a_build_cleans_up_before_it_begins() {
    let fixture = Fixture::of(&docs(0, 9));
    let dir = fixture.dir();
    litter(&dir);
    let watch = Watch { dir: &dir, clean: AtomicBool::new(true) };
    create_from_lists(&dir, &watch, &ListsConfig::default(), true, &Progress::default()).unwrap();
    assert!(watch.clean.into_inner());
    // Without a manifest, scratch files are removed, and segments stay until the first commit.
    let other = Fixture::empty(fixture.config().clone());
    fs::create_dir(other.dir()).unwrap();
    litter(&other.dir());
    let input = other.input(b"not a document");
    create(&other.dir(), &[input], other.config(), false, &Progress::default()).unwrap_err();
    assert!(file_bytes(&other.dir()).keys().eq(["000001.77.del", "000009.post", "lock"]));
}

#[test]
fn a_crash_before_the_rename_leaves_the_old_index() {
    let fixture = Fixture::of(&docs(0, 50));
    let (dir, before) = (fixture.dir(), hits(&fixture.snapshot()));
    let files = file_bytes(&dir);
    fixture.add(&docs(40, 90)).unwrap();
    // Everything was written, including the manifest, which was not renamed.
    fs::rename(dir.join("manifest"), dir.join("manifest.new")).unwrap();
    fs::write(dir.join("manifest"), &files["manifest"]).unwrap();
    assert_eq!(hits(&fixture.snapshot()), before);
    fixture.delete(&["nosuch".into()]).unwrap();
    assert_eq!(file_bytes(&dir), files);
}

#[test]
fn without_mapping_truncated_files_do_no_harm() {
    let fixture = Fixture::of(&docs(0, 500));
    fixture.add(&docs(400, 600)).unwrap();
    let options = OpenOptions { mmap: false };
    let snapshot = Arc::new(Snapshot::open_with(&fixture.dir(), &options).unwrap());
    let read = || {
        let stored: Vec<_> = (0..700).map(|doc| snapshot.document(doc).unwrap()).collect();
        let ids: Vec<_> = (0..700).map(|doc| snapshot.external_id(doc).unwrap()).collect();
        (hits(&snapshot), stored, ids)
    };
    for name in file_bytes(&fixture.dir()).keys() {
        File::options().write(true).open(fixture.dir().join(name)).unwrap().set_len(0).unwrap();
    }
    // All pages are read for the first time here, so none can be in memory by chance.
    let after = read();
    let other = Fixture::of(&docs(0, 500));
    other.add(&docs(400, 600)).unwrap();
    let mapped = other.snapshot();
    assert_eq!(after.0, hits(&mapped));
    assert!(after.1.iter().enumerate().all(|(doc, stored)| {
        *stored == mapped.document(doc as u32).unwrap()
            && after.2[doc] == mapped.external_id(doc as u32).unwrap()
    }));
}

#[test]
fn every_snapshot_has_an_id_of_its_own() {
    let fixture = Fixture::of(&docs(0, 3));
    let (first, second) = (fixture.snapshot(), fixture.snapshot());
    assert_ne!(first.id(), second.id());
    assert_eq!((first.id(), first.generation()), (first.id(), 1));
    fixture.delete(&["1".into()]).unwrap();
    assert_eq!((first.generation(), fixture.snapshot().generation()), (1, 2));
}

#[test]
fn segments_without_a_manifest_stay_until_an_index_is_built_anew() {
    let fixture = Fixture::of(&docs(0, 9));
    let dir = fixture.dir();
    fs::remove_file(dir.join("manifest")).unwrap();
    assert!(matches!(Snapshot::open(&dir), Err(IndexError::NotAnIndex { .. })));
    assert!(
        file_bytes(&dir).contains_key("000001.post"),
        "a lost manifest is no reason to remove data"
    );
    fixture.create(&docs(0, 4)).unwrap();
    assert_eq!(fixture.snapshot().statistics().documents, 4);
    assert!(!file_bytes(&dir).contains_key("000001.post"));
}

/// Stops the readers even if the writer panics, so that the test ends.
struct StopReaders<'a>(&'a AtomicBool);

impl Drop for StopReaders<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn readers_open_at_any_moment_of_a_writer() {
    let fixture = Fixture::of(&docs(0, 10));
    let (dir, done) = (fixture.dir(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut opened, mut generation) = (0, 0);
                    while !done.load(Ordering::Relaxed) {
                        let snapshot = Arc::new(Snapshot::open(&dir).unwrap());
                        let now = snapshot.manifest().generation;
                        assert!(now >= generation, "generations go back");
                        // Each round adds ten documents, all of them or none.
                        assert_eq!(hits(&snapshot)[0].len() % 10, 0);
                        (generation, opened) = (now, opened + 1);
                    }
                    opened
                })
            })
            .collect();
        let stop = StopReaders(&done);
        for round in 1..8 {
            fixture.add(&docs(10 * round, 10 * round + 10)).unwrap();
            fixture.merge().unwrap();
        }
        drop(stop);
        readers.into_iter().for_each(|reader| assert!(reader.join().unwrap() > 0));
    });
    assert_eq!(fixture.snapshot().statistics().documents, 80);
}
