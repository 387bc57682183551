//! Tests of documents from memory, and of additions and deletions in one commit.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use warpseek_index::{
    BuildConfig, BuildReport, Impacts, IndexError, OnError, Progress, Result, Snapshot, StoreMode,
    UpdateReport, create, create_from_reader, update, verify,
};
use warpseek_testkit::{Search, build_config, file_bytes, plans};
use warpseek_text::{OwnedDocument, Reader, ReaderConfig};

struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Home(tempfile::tempdir().unwrap())
    }

    fn dir(&self) -> PathBuf {
        self.0.path().join("index")
    }

    fn create(&self, documents: Vec<OwnedDocument>) -> BuildReport {
        let config = build_config();
        let reader = reader(documents, &config);
        create_from_reader(&self.dir(), reader, &config, false, &Progress::default()).unwrap()
    }

    fn update(&self, documents: Option<Vec<OwnedDocument>>, ids: &[&str]) -> Result<UpdateReport> {
        let config = build_config();
        let reader = documents.map(|documents| reader(documents, &config));
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        update(&self.dir(), reader, &ids, &config, &Progress::default())
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::new(Snapshot::open(&self.dir()).unwrap())
    }
}

fn reader(documents: Vec<OwnedDocument>, config: &BuildConfig) -> Reader {
    Reader::of_documents(documents, config.reader.clone()).unwrap()
}

fn text(id: impl ToString, text: &str) -> OwnedDocument {
    OwnedDocument::new(id.to_string(), "", text)
}

/// Returns the live documents of a snapshot by id, with their stored JSON.
fn live(snapshot: &Snapshot) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for doc in 0..snapshot.doc_limit() {
        let id = snapshot.external_id(doc).unwrap();
        if snapshot.find_id(&id).unwrap() == Some(doc) {
            let stored = String::from_utf8(snapshot.document(doc).unwrap().unwrap()).unwrap();
            found.push((id, stored));
        }
    }
    found.sort();
    found
}

fn assert_sound(dir: &Path) {
    let found = verify(dir, &Progress::default()).unwrap();
    assert!(found.problems.is_empty(), "{:?}", found.problems);
}

#[test]
fn files_are_those_of_the_same_lines() {
    let mut rich = OwnedDocument::new("r", "Städte \"A\"\n", "running in the city \u{1}");
    rich.static_score = Some(0.1);
    rich.fields.insert("url".into(), "http://x/?q=ü".into());
    rich.fields.insert("tags".into(), serde_json::json!(["a", 1, null]));
    let rich_line = r#"{"id":"r","title":"Städte \"A\"\n","text":"running in the city \u0001","score":0.1,"tags":["a",1,null],"url":"http://x/?q=ü"}"#;
    let (mut texts, mut text_lines) = (vec![rich], vec![rich_line.to_owned()]);
    let (mut vectors, mut vector_lines) = (Vec::new(), Vec::new());
    for i in 0..1500 {
        let words = format!("city number {} of {}", i % 37, (i * i) % 11);
        texts.push(text(i, &words));
        text_lines.push(format!("{{\"id\":\"{i}\",\"text\":\"{words}\"}}"));
        let mut vector = OwnedDocument::new(i.to_string(), "", "");
        vector.vector =
            Some(vec![(format!("t{}", i % 50), 1.25), ("all".into(), f64::from(i) / 16.0)]);
        vectors.push(vector);
        let weights = format!("{{\"t{}\":1.25,\"all\":{:?}}}", i % 50, f64::from(i) / 16.0);
        vector_lines.push(format!("{{\"id\":\"{i}\",\"vector\":{weights}}}"));
    }
    for (documents, lines) in [(texts, text_lines), (vectors, vector_lines)] {
        for (reorder, threads) in [(false, 1), (true, 3)] {
            let mut config = BuildConfig { reorder, threads, ..build_config() };
            config.reader.batch_records = 100;
            let (made, read) = (Home::new(), Home::new());
            let none = Progress::default();
            let from = reader(documents.clone(), &config);
            create_from_reader(&made.dir(), from, &config, false, &none).unwrap();
            let input = read.0.path().join("input.jsonl");
            std::fs::write(&input, lines.join("\n")).unwrap();
            create(&read.dir(), &[input], &config, false, &none).unwrap();
            assert!(file_bytes(&made.dir()) == file_bytes(&read.dir()));
            assert_sound(&made.dir());
        }
    }
}

#[test]
fn an_update_adds_replaces_and_deletes_in_one_commit() {
    let home = Home::new();
    home.create((0..6).map(|i| text(i, "old apple")).collect());
    let before = home.snapshot();
    let new = vec![text(1, "new pear"), text(2, "new pear"), text(9, "new pear")];
    // Document 2 is deleted and added again. The new document 9 is not deleted, since its id was
    // not in the index before.
    let report = home.update(Some(new), &["2", "3", "9", "nosuch", "3"]).unwrap();
    assert_eq!((report.added.documents, report.added.replaced), (3, 1));
    assert_eq!(report.deleted.deleted, 2);
    assert_eq!(report.deleted.missing, ["9", "nosuch"]);

    let after = home.snapshot();
    assert_eq!((before.generation(), after.generation()), (1, 2));
    let ids: Vec<_> =
        live(&after).into_iter().map(|(id, json)| (id, json.contains("new"))).collect();
    let expected =
        [("0", false), ("1", true), ("2", true), ("4", false), ("5", false), ("9", true)];
    assert!(ids.iter().map(|(id, new)| (id.as_str(), *new)).eq(expected));
    assert_eq!(after.statistics().documents, 6);
    assert_eq!(after.document_frequency(b"appl").unwrap(), 3);
    assert_eq!(after.document_frequency(b"pear").unwrap(), 3);
    assert_eq!(live(&before).len(), 6);
    assert_sound(&home.dir());

    // Deletions alone and additions alone are updates, too.
    assert_eq!(home.update(None, &["9"]).unwrap().deleted.deleted, 1);
    assert_eq!(home.update(Some(vec![text(9, "fig")]), &[]).unwrap().added.documents, 1);
    assert_eq!(home.snapshot().generation(), 4);
}

#[test]
fn an_update_that_fails_changes_nothing() {
    let home = Home::new();
    home.create((0..6).map(|i| text(i, "old apple")).collect());
    let before = file_bytes(&home.dir());
    let twice = vec![text(7, "pear"), text(8, "pear"), text(7, "pear")];
    let error = home.update(Some(twice.clone()), &["1"]).unwrap_err();
    assert!(matches!(error, IndexError::DuplicateId { .. }));
    assert!(error.to_string().starts_with("document 3: "), "{error}");
    let progress = Progress::default();
    progress.cancel();
    let cancelled = update(&home.dir(), None, &["1".into()], &build_config(), &progress);
    assert!(matches!(cancelled, Err(IndexError::Cancelled)));
    assert!(file_bytes(&home.dir()) == before);

    // Skipped records do not affect the rest of the update.
    let config = BuildConfig { on_error: OnError::Skip, ..build_config() };
    let bad = reader(vec![text("", "pear")], &config);
    let report =
        update(&home.dir(), Some(bad), &["1".into()], &config, &Progress::default()).unwrap();
    assert_eq!((report.added.skipped, report.deleted.deleted), (1, 1));
    assert_eq!(home.snapshot().statistics().documents, 5);
    assert_sound(&home.dir());
}

#[test]
fn an_update_of_nothing_commits_nothing() {
    let home = Home::new();
    home.create(vec![text(1, "apple")]);
    let before = file_bytes(&home.dir());
    home.update(None, &[]).unwrap();
    home.update(Some(Vec::new()), &["nosuch"]).unwrap();
    assert!(file_bytes(&home.dir()) == before);
}

#[test]
fn an_index_may_begin_empty() {
    let home = Home::new();
    assert_eq!(home.create(Vec::new()).documents, 0);
    let empty = home.snapshot();
    assert_eq!((empty.doc_limit(), empty.statistics().documents), (0, 0));
    let search = |snapshot: &Arc<Snapshot>| {
        let plans = plans(snapshot, &[Search::of(&["appl"])]);
        warpseek_testkit::expected(snapshot, &plans)[0].hits.len()
    };
    assert_eq!(search(&empty), 0);
    assert_sound(&home.dir());
    let report = home.update(Some(vec![text(1, "apple"), text(2, "pear")]), &["1"]).unwrap();
    assert_eq!((report.added.documents, report.deleted.missing.len()), (2, 1));
    assert_eq!(search(&home.snapshot()), 1);
    assert_sound(&home.dir());

    // No inputs at all, and vectors as the first documents.
    let home = Home::new();
    create(&home.dir(), &[], &build_config(), false, &Progress::default()).unwrap();
    let mut vector = text(1, "");
    vector.vector = Some(vec![("a".into(), 1.0)]);
    home.update(Some(vec![vector]), &[]).unwrap();
    assert_eq!(home.snapshot().document_frequency(b"a").unwrap(), 1);
}

/// Few deletions read their documents from the store. Without a store, they walk over all lists.
#[test]
fn deletions_are_the_same_with_and_without_a_store() {
    let documents = |from: usize, to: usize| -> Vec<_> {
        (from..to).map(|i| text(i, &format!("word{i} common other{} {}", i % 700, i % 7))).collect()
    };
    for (impacts, reorder) in [(None, false), (None, true), (Some(Impacts::new(0.9, 0.4)), false)] {
        let [stored, walked] = [StoreMode::All, StoreMode::Ids].map(|store| {
            let config = BuildConfig { impacts, reorder, store, ..build_config() };
            let (home, none) = (Home::new(), Progress::default());
            let first = reader(documents(0, 4000), &config);
            create_from_reader(&home.dir(), first, &config, false, &none).unwrap();
            for (from, to, gone) in [(0, 0, "17"), (3990, 4010, "18"), (0, 0, "4005")] {
                let new = Some(reader(documents(from, to), &config));
                update(&home.dir(), new, &[gone.to_owned()], &config, &none).unwrap();
            }
            assert_sound(&home.dir());
            let mut files = file_bytes(&home.dir());
            files.retain(|name, _| name.ends_with(".del"));
            files
        });
        assert_eq!(stored.len(), 2);
        assert!(stored == walked);
    }
}

#[test]
fn weights_are_scaled_as_the_index_says() {
    let mut vector = text(1, "");
    vector.vector = Some(vec![("a".into(), 3.0)]);
    let scaled = |vector_scale| ReaderConfig { vector_scale, ..ReaderConfig::default() };
    let home = Home::new();
    let (config, none) = (build_config(), Progress::default());
    let first = Reader::of_documents([vector.clone()], scaled(10)).unwrap();
    create_from_reader(&home.dir(), first, &config, false, &none).unwrap();
    vector.id = "2".into();
    let second = Reader::of_documents([vector], scaled(99)).unwrap();
    update(&home.dir(), Some(second), &[], &config, &none).unwrap();
    assert_eq!(
        (home.snapshot().manifest().vector_scale, home.snapshot().statistics().tokens),
        (10, 60)
    );
}
