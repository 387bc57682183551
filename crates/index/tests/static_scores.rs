//! Tests of static scores: the index records their field, and every writer takes scores from it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use warpseek_index::log::Durability;
use warpseek_index::{
    BuildConfig, BuildReport, IndexError, LiveIndex, LiveOptions, MergeConfig, Progress, Result,
    Snapshot, add, create, create_from_reader, delete, merge, read_manifest, set_static_field,
    update, verify,
};
use warpseek_testkit::file_bytes;
use warpseek_text::{GramConfig, OwnedDocument, Reader, ReaderConfig, STATIC_FIELD, Schema};

struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Home(tempfile::tempdir().unwrap())
    }

    fn dir(&self) -> PathBuf {
        self.0.path().join("index")
    }

    /// Writes a file with documents of these numbers, each with a different `rank`.
    fn file(&self, numbers: &[u32]) -> [PathBuf; 1] {
        let path = self.0.path().join("documents.jsonl");
        let lines: Vec<String> = numbers.iter().map(|&number| line(number)).collect();
        fs::write(&path, lines.join("\n")).unwrap();
        [path]
    }

    fn create(&self, numbers: &[u32], config: &BuildConfig) -> BuildReport {
        let input = self.file(numbers);
        create(&self.dir(), &input, config, false, &Progress::default()).unwrap()
    }

    fn add(&self, numbers: &[u32], config: &BuildConfig) -> Result<BuildReport> {
        add(&self.dir(), &self.file(numbers), config, &Progress::default())
    }

    fn live(&self) -> LiveIndex {
        let options = LiveOptions { durability: Durability::Written, ..LiveOptions::default() };
        LiveIndex::open(&self.dir(), options).unwrap()
    }

    /// Returns the static scores of live documents.
    fn scores(&self) -> BTreeMap<String, f32> {
        let found = verify(&self.dir(), &Progress::default()).unwrap();
        assert!(found.problems.is_empty(), "{:?}", found.problems);
        scores(&Snapshot::open(&self.dir()).unwrap())
    }
}

fn scores(snapshot: &Snapshot) -> BTreeMap<String, f32> {
    let mut found = BTreeMap::new();
    for doc in 0..snapshot.doc_limit() {
        let (segment, ordinal) = snapshot.locate(doc).unwrap();
        let position = segment.documents().position(ordinal).unwrap();
        if !segment.is_deleted(position) {
            let statics = segment.documents().statics().unwrap();
            let score = statics.map_or(0.0, |statics| statics.get(position));
            found.insert(snapshot.external_id(doc).unwrap(), score);
        }
    }
    found
}

fn rank(number: u32) -> f32 {
    number as f32 + 0.5
}

fn line(number: u32) -> String {
    format!(r#"{{"id":"{number}","text":"apple","rank":{}}}"#, rank(number))
}

/// Returns the scores that documents of these numbers should have.
fn wanted(numbers: impl IntoIterator<Item = u32>) -> BTreeMap<String, f32> {
    numbers.into_iter().map(|number| (number.to_string(), rank(number))).collect()
}

fn plain() -> BuildConfig {
    BuildConfig { threads: 2, memory: 64 << 20, ..BuildConfig::default() }
}

fn named(field: &str) -> BuildConfig {
    let reader = ReaderConfig { static_field: Some(field.into()), ..ReaderConfig::default() };
    BuildConfig { reader, ..plain() }
}

fn scored(number: u32) -> OwnedDocument {
    let score = f64::from(rank(number));
    OwnedDocument {
        static_score: Some(score),
        ..OwnedDocument::new(number.to_string(), "", "apple")
    }
}

fn of_memory(documents: Vec<OwnedDocument>) -> Reader {
    Reader::of_documents(documents, ReaderConfig::default()).unwrap()
}

#[test]
fn every_way_of_writing_keeps_them() {
    let schema = r#"{"text": [{"name": "text"}], "unknown": "refuse"}"#;
    let schema = std::sync::Arc::new(Schema::parse(schema).unwrap());
    for schema in [None, Some(schema)] {
        let (home, progress) = (Home::new(), Progress::default());
        let mut config = named("rank");
        config.reader.schema = schema;
        home.create(&[0, 1], &config);
        // Documents are added without naming the field, or with the same name.
        home.add(&[1, 2], &plain()).unwrap();
        home.add(&[3], &named("rank")).unwrap();
        assert_eq!(home.scores(), wanted(0..4));
        // Documents in memory get their scores from the same field.
        let reader = Some(of_memory(vec![scored(4)]));
        update(&home.dir(), reader, &[], &plain(), &progress).unwrap();
        assert_eq!(home.scores(), wanted(0..5));
        let snapshot = Snapshot::open(&home.dir()).unwrap();
        let doc = snapshot.find_id("4").unwrap().unwrap();
        let stored = String::from_utf8(snapshot.document(doc).unwrap().unwrap()).unwrap();
        assert!(stored.contains(r#""rank":4.5"#), "{stored}");
        drop(snapshot);
        // Single writes: a document that exists, a new one, and a change of another field.
        let live = home.live();
        live.put(&line(0)).unwrap().wait().unwrap();
        live.create(&line(5)).unwrap().wait().unwrap();
        live.update("1", r#"{"text":"pear"}"#).unwrap().unwrap().wait().unwrap();
        live.update("2", r#"{"rank":20.5}"#).unwrap().unwrap().wait().unwrap();
        let after = wanted(0..6).into_iter().chain([("2".into(), 20.5)]).collect();
        assert_eq!(scores(&live.refresh().unwrap()), after);
        // As after a crash: the log has the writes that no segment has.
        drop(live);
        let live = home.live();
        assert_eq!(scores(&live.snapshot()), after);
        live.close().unwrap();
        assert_eq!(home.scores(), after);
        for reorder in [false, true] {
            let config = MergeConfig { reorder, ..MergeConfig::default() };
            delete(&home.dir(), &["5".to_owned()], 1, &progress).unwrap();
            merge(&home.dir(), &config, &progress).unwrap();
            let mut kept = after.clone();
            kept.remove("5");
            assert_eq!(home.scores(), kept);
        }
        assert_eq!(read_manifest(&home.dir()).unwrap().static_field.as_deref(), Some("rank"));
    }
}

/// The name of a field that no document had may be corrected, since it may have been misspelt.
#[test]
fn a_field_without_scores_can_be_corrected() {
    let home = Home::new();
    home.create(&[0], &named("rnak"));
    home.add(&[1], &named("rank")).unwrap();
    assert_eq!(read_manifest(&home.dir()).unwrap().static_field.as_deref(), Some("rank"));
    assert!(home.add(&[2], &named("rnak")).is_err());
}

#[test]
fn an_index_has_one_field() {
    let home = Home::new();
    home.create(&[0], &named("rank"));
    let before = file_bytes(&home.dir());
    let progress = Progress::default();
    let refusals = [
        home.add(&[1], &named("price")).map(drop),
        set_static_field(&home.dir(), "price").map(drop),
        update(
            &home.dir(),
            Some(Reader::open(&home.file(&[1]), named("price").reader).unwrap()),
            &["0".to_owned()],
            &plain(),
            &progress,
        )
        .map(drop),
    ];
    for refused in refusals {
        let error = refused.unwrap_err();
        assert!(matches!(error, IndexError::StaticField { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains("`rank`") && said.contains("`price`"), "{said}");
    }
    assert!(file_bytes(&home.dir()) == before);
    // This holds even if there is nothing to add.
    assert!(home.add(&[], &named("price")).is_err());
}

#[test]
fn documents_from_memory_have_a_field_of_their_own() {
    let (home, progress) = (Home::new(), Progress::default());
    let apple = || OwnedDocument::new("apple", "", "apple");
    let reader = of_memory(vec![apple()]);
    create_from_reader(&home.dir(), reader, &plain(), false, &progress).unwrap();
    let field = || read_manifest(&home.dir()).unwrap().static_field;
    assert_eq!(field(), None, "nothing has a score");
    let reader = Some(of_memory(vec![scored(1)]));
    let report = update(&home.dir(), reader, &[], &plain(), &progress).unwrap();
    assert_eq!(field().as_deref(), Some(STATIC_FIELD));
    let notices = report.added.notices;
    assert!(notices.iter().any(|notice| notice.contains("static scores")), "{notices:?}");
    let reader = Some(of_memory(vec![scored(2)]));
    let report = update(&home.dir(), reader, &[], &plain(), &progress).unwrap();
    assert_eq!(report.added.notices, Vec::<String>::new());
    let live = home.live();
    live.put(&scored(3).to_json().unwrap()).unwrap().wait().unwrap();
    live.close().unwrap();
    let wanted: BTreeMap<_, _> = wanted(1..4).into_iter().chain([("apple".into(), 0.0)]).collect();
    assert_eq!(home.scores(), wanted);
}

#[test]
fn an_index_without_scores_can_get_a_field() {
    let home = Home::new();
    home.create(&[0, 1], &plain());
    let live = home.live();
    live.put(&line(1)).unwrap().wait().unwrap();
    live.close().unwrap();
    assert_eq!(home.scores(), [("0".into(), 0.0), ("1".into(), 0.0)].into());
    let report = home.add(&[0, 2], &named("rank")).unwrap();
    assert!(report.notices.iter().any(|notice| notice.contains("static scores")));
    let mut after = wanted([0, 2]);
    after.insert("1".into(), 0.0);
    assert_eq!(home.scores(), after);
    home.add(&[1], &plain()).unwrap();
    assert_eq!(home.scores(), wanted(0..3));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for (name, bytes) in file_bytes(from) {
        fs::write(to.join(name), bytes).unwrap();
    }
}

/// In an index of a program that did not record the field, writing without naming the field would
/// lose scores.
#[test]
fn an_older_index_wants_to_hear_its_field_once() {
    let golden = |version| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{version}/text"))
    };
    for version in ["v1", "v3"] {
        let home = Home::new();
        copy(&golden(version), &home.dir());
        let before = scores(&Snapshot::open(&home.dir()).unwrap());
        assert!(before.values().any(|score| *score > 0.0));
        let error = home.add(&[900], &plain()).unwrap_err();
        assert!(matches!(error, IndexError::StaticField { .. }), "{error}");
        assert!(error.to_string().contains("--static-field"), "{error}");
        let live = home.live();
        for refused in [live.put(&line(900)), live.create(&line(900))] {
            let error = refused.map(drop).unwrap_err();
            assert!(matches!(error, IndexError::StaticField { .. }), "{error}");
        }
        assert!(live.update("doc-4", r#"{"text":"pear"}"#).is_err());
        // Operations that need no score succeed.
        live.delete("doc-8").unwrap().unwrap().wait().unwrap();
        live.close().unwrap();
        // Naming the field once is enough, whatever is added.
        match version {
            "v1" => drop(home.add(&[], &named("score")).unwrap()),
            _ => drop(set_static_field(&home.dir(), "score").unwrap()),
        }
        assert!(set_static_field(&home.dir(), "rank").is_err());
        for reserved in ["", "id", "_id", "title", "text", "vector"] {
            let error = set_static_field(&home.dir(), reserved).unwrap_err().to_string();
            assert!(error.contains("static_field"), "{reserved}: {error}");
        }
        let live = home.live();
        live.update("doc-4", r#"{"text":"pear"}"#).unwrap().unwrap().wait().unwrap();
        live.put(r#"{"id":"doc-12","text":"pear","score":77}"#).unwrap().wait().unwrap();
        live.close().unwrap();
        let mut after = before;
        after.remove("doc-8");
        after.insert("doc-12".into(), 77.0);
        assert_eq!(home.scores(), after);
    }
}

#[test]
fn n_gram_indexes_have_none() {
    let home = Home::new();
    let config = BuildConfig { grams: Some(GramConfig::default()), ..named("rank") };
    let progress = Progress::default();
    let error = create(&home.dir(), &home.file(&[0]), &config, false, &progress).unwrap_err();
    assert!(matches!(error, IndexError::StaticField { .. }), "{error}");
    assert!(!home.dir().exists());
    let config = BuildConfig { grams: Some(GramConfig::default()), ..plain() };
    home.create(&[0], &config);
    assert!(home.add(&[1], &named("rank")).is_err());
    assert!(set_static_field(&home.dir(), "rank").is_err());
    home.add(&[1], &plain()).unwrap();
}
