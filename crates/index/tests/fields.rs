//! Tests of indexes with a schema: after any history, the index has the contents of its
//! documents.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use warpseek_codec::CodecId;
use warpseek_index::container::{Kind, SealedFile, seal_bytes_as};
use warpseek_index::{
    AttributeValue, BuildConfig, Impacts, IndexError, LiveIndex, LiveOptions, Manifest,
    MergeConfig, Progress, Segment, SegmentBuilder, Snapshot, StoreMode, add, create, delete,
    inspect, merge, verify,
};
use warpseek_text::{Document, ReaderConfig, Schema, Unknown};

const SCHEMA: &str = r#"{
    "analyzers": {"names": {"fold": true}},
    "text": [
        {"name": "title", "k1": 1.2, "b": 0.75},
        {"name": "body", "analyzer": "plain"},
        {"name": "author", "source": "authors.name", "analyzer": "names"}
    ],
    "attributes": [
        {"name": "author.keyword", "source": "authors.name", "type": "keyword", "many": true},
        {"name": "year", "type": "integer"},
        {"name": "published", "type": "date"},
        {"name": "price", "type": "float"},
        {"name": "open", "type": "boolean"}
    ]
}"#;

/// Returns the schema with one more field of each kind.
fn extended() -> Arc<Schema> {
    let mut schema: Value = serde_json::from_str(SCHEMA).unwrap();
    schema["text"].as_array_mut().unwrap().push(json!({"name": "note", "analyzer": "plain"}));
    let attributes = schema["attributes"].as_array_mut().unwrap();
    attributes.push(json!({"name": "lang", "type": "keyword"}));
    Arc::new(Schema::parse(&schema.to_string()).unwrap())
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::parse(SCHEMA).unwrap())
}

fn config(schema: &Arc<Schema>) -> BuildConfig {
    let reader = ReaderConfig { schema: Some(schema.clone()), ..ReaderConfig::default() };
    BuildConfig { threads: 2, memory: 16 << 20, reader, ..BuildConfig::default() }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn words(&mut self, most: u64) -> String {
        const WORDS: [&str; 8] = ["the", "Running", "runs", "Łódź", "city", "cities", "of", "x"];
        let word = |random: &mut Self| match random.below(3) {
            0 => format!("w{}", random.below(300)),
            _ => WORDS[random.below(8) as usize].to_owned(),
        };
        (0..self.below(most)).map(|_| word(self)).collect::<Vec<_>>().join(" ")
    }

    /// Generates a document in which each field may be missing.
    fn document(&mut self, id: &str) -> Value {
        let mut document = json!({"id": id, "unknown": {"deep": [1, "2"]}, "note": self.words(4)});
        let mut set = |random: &mut Self, name: &str, value: Value| {
            if random.below(4) > 0 {
                document[name] = value;
            }
        };
        let title = self.words(6);
        set(self, "title", json!(title));
        let body = self.words(40);
        set(self, "body", json!(body));
        let authors: Vec<Value> = (0..self.below(4))
            .map(|_| json!({"name": format!("José {}", self.below(9))}))
            .collect();
        set(self, "authors", json!(authors));
        let year = self.below(50) as i64 - 10;
        set(self, "year", json!(year));
        let day = format!("2020-01-{:02}", 1 + self.below(31));
        set(self, "published", json!(day));
        let price = self.below(900) as f64 / 8.0;
        set(self, "price", json!(price));
        let open = self.below(2) == 0;
        set(self, "open", json!(open));
        let lang = ["en", "pl"][self.below(2) as usize];
        set(self, "lang", json!(lang));
        document
    }
}

/// The contents of a document in the index.
#[derive(Debug, Default, PartialEq)]
struct Contents {
    terms: BTreeMap<(u8, String), u32>,
    lengths: Vec<u32>,
    attributes: Vec<(u16, AttributeValue)>,
}

type All = BTreeMap<String, Contents>;

/// Returns the contents that the index must have of a document, by analysing it here.
fn expected_of(json: &Value, schema: &Arc<Schema>, fields: usize) -> Contents {
    let reader = ReaderConfig { schema: Some(schema.clone()), ..ReaderConfig::default() };
    let line = json.to_string();
    let document = Document::parse(&line, &reader).unwrap();
    let mut contents = Contents { lengths: vec![0; fields], ..Contents::default() };
    for (field, text) in &document.fields {
        for (term, _) in schema.analyzer(*field).terms(text) {
            *contents.terms.entry((*field, term)).or_default() += 1;
            contents.lengths[usize::from(*field)] += 1;
        }
    }
    let values = document.attributes.into_iter();
    contents.attributes = values.map(|(number, value)| (number, value.into_owned())).collect();
    contents
}

/// Returns the contents of all live documents in the index.
fn contents(snapshot: &Snapshot) -> All {
    let mut all = All::new();
    for segment in snapshot.segments() {
        let mut ids = BTreeMap::new();
        for ordinal in 0..segment.documents().count() {
            let position = segment.documents().position(ordinal).unwrap();
            if !segment.is_deleted(position) {
                ids.insert(position, segment.ids().get(ordinal).unwrap());
            }
        }
        for (&position, id) in &ids {
            let lengths = (0..snapshot.text_fields())
                .map(|field| segment.lengths(field as u8).unwrap().get(position));
            let mut contents = Contents { lengths: lengths.collect(), ..Contents::default() };
            let columns = segment.attributes().map_or(Vec::new(), |a| a.columns().collect());
            for (number, kind) in columns {
                let column = segment.attributes().unwrap().column(number).unwrap().unwrap();
                for value in column.values(position).unwrap() {
                    assert_eq!(value.kind(), kind);
                    contents.attributes.push((number, value));
                }
            }
            assert!(all.insert(id.clone(), contents).is_none(), "{id} twice");
        }
        for (key, postings) in lists(segment) {
            let (field, term) = segment.named(&key);
            let term = String::from_utf8(term.to_vec()).unwrap();
            assert_eq!(*snapshot.key(field, &term), key[..]);
            for (position, freq) in postings {
                if let Some(id) = ids.get(&position) {
                    all.get_mut(id).unwrap().terms.insert((field, term.clone()), freq);
                }
            }
        }
    }
    all
}

/// Returns the lists of a segment by term.
fn lists(segment: &Segment) -> BTreeMap<Vec<u8>, Vec<(u32, u32)>> {
    let (mut terms, mut all) = (segment.dictionary().iter(), BTreeMap::new());
    let (mut docs, mut freqs) = ([0; 128], [0; 128]);
    while let Some(info) = terms.next_term().unwrap() {
        assert_eq!(segment.field_of(info.ordinal), segment.named(terms.term()).0);
        let (list, mut postings) = (segment.list(&info).unwrap(), Vec::new());
        for block in 0..list.blocks() {
            let n = list.decode_docs(block, &mut docs).unwrap();
            list.decode_freqs(block, &mut freqs).unwrap();
            postings.extend(docs[..n].iter().copied().zip(freqs[..n].iter().copied()));
        }
        all.insert(terms.term().to_vec(), postings);
    }
    all
}

/// Compares everything in the index with its documents.
fn check(snapshot: &Snapshot, expected: &All) {
    let found = contents(snapshot);
    assert!(found.keys().eq(expected.keys()), "{:?} {:?}", found.keys(), expected.keys());
    for (id, contents) in expected {
        assert_eq!(&found[id], contents, "{id}");
    }
    let mut dfs = BTreeMap::<(u8, &str), u64>::new();
    for contents in expected.values() {
        contents.terms.keys().for_each(|(f, term)| *dfs.entry((*f, term)).or_default() += 1);
    }
    for ((field, term), df) in dfs {
        let key = snapshot.key(field, term);
        assert_eq!(snapshot.document_frequency(&key).unwrap(), df, "{field} {term}");
    }
    let lengths = |field: usize| expected.values().map(move |contents| contents.lengths[field]);
    for field in 0..snapshot.text_fields() {
        let statistics = snapshot.field_statistics(field as u8);
        let documents = lengths(field).filter(|&length| length > 0).count() as u64;
        let tokens = lengths(field).map(u64::from).sum::<u64>();
        assert_eq!((statistics.documents, statistics.tokens), (documents, tokens), "{field}");
    }
    let all: u64 = (0..snapshot.text_fields()).flat_map(lengths).map(u64::from).sum();
    assert_eq!(snapshot.statistics().tokens, all);
    assert_eq!(snapshot.statistics().documents, expected.len() as u64);
}

fn check_dir(dir: &Path, expected: &All) {
    let found = verify(dir, &Progress::default()).unwrap();
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    check(&Snapshot::open(dir).unwrap(), expected);
}

fn input(dir: &Path, documents: &[Value]) -> PathBuf {
    let lines: String = documents.iter().map(|document| format!("{document}\n")).collect();
    let path = dir.join("input.jsonl");
    fs::write(&path, lines).unwrap();
    path
}

fn id_of(document: &Value) -> String {
    document["id"].as_str().unwrap().to_owned()
}

/// A change of an index: documents from `first`, ids to delete, and other operations.
#[derive(Clone, Debug)]
enum Step {
    Add { first: u64, count: u64, reorder: bool },
    Live { first: u64, count: u64, gone: Vec<u64> },
    Delete(Vec<u64>),
    Merge { reorder: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let ids = || proptest::collection::vec(0u64..60, 0..12);
    prop_oneof![
        3 => (0u64..50, 1u64..30, any::<bool>())
            .prop_map(|(first, count, reorder)| Step::Add { first, count, reorder }),
        2 => (0u64..50, 1u64..10, ids()).prop_map(|(first, count, gone)| Step::Live { first, count, gone }),
        2 => ids().prop_map(Step::Delete),
        2 => any::<bool>().prop_map(|reorder| Step::Merge { reorder }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn an_index_has_what_its_documents_have(
        seed: u64,
        count in prop_oneof![1u64..4, 100u64..300],
        codec in 0..CodecId::ALL.len(),
        stores: bool,
        steps in proptest::collection::vec(step(), 0..6),
        last_schema in 0usize..7,
    ) {
        let (dir, mut random, progress) = (tempfile::tempdir().unwrap(), Random(seed), Progress::default());
        let index = dir.path().join("index");
        let mut schema = schema();
        let store = if stores { StoreMode::All } else { StoreMode::Ids };
        let base = BuildConfig { codec: Some(CodecId::ALL[codec]), store, ..config(&schema) };
        let docs: Vec<Value> = (0..count).map(|id| random.document(&id.to_string())).collect();
        create(&index, &[input(dir.path(), &docs)], &base, false, &progress).unwrap();
        // Contents of each live document, analysed with the schema at the time of its addition.
        let mut live: All = docs.iter().map(|d| (id_of(d), expected_of(d, &schema, 4))).collect();
        let known = |live: &All, fields: usize| -> All {
            live.iter().map(|(id, c)| (id.clone(), Contents {
                terms: c.terms.clone(), attributes: c.attributes.clone(), lengths: c.lengths[..fields].to_vec(),
            })).collect()
        };
        check_dir(&index, &known(&live, 3));
        for (i, step) in steps.into_iter().enumerate() {
            if i == last_schema {
                schema = extended();
            }
            match step {
                Step::Add { first, count, reorder } => {
                    let docs: Vec<Value> =
                        (first..first + count).map(|id| random.document(&id.to_string())).collect();
                    let mut config = BuildConfig { reorder, ..base.clone() };
                    // An index records its schema. A schema that is given may have more fields.
                    config.reader.schema = (i >= last_schema).then(|| schema.clone());
                    add(&index, &[input(dir.path(), &docs)], &config, &progress).unwrap();
                    let now = Snapshot::open(&index).unwrap().manifest().schema.clone().unwrap();
                    live.extend(docs.iter().map(|d| (id_of(d), expected_of(d, &now, 4))));
                }
                Step::Live { first, count, gone } => {
                    let options = LiveOptions { threads: 2, ..LiveOptions::default() };
                    let writer = LiveIndex::open(&index, options.clone()).unwrap();
                    let now = writer.snapshot().manifest().schema.clone().unwrap();
                    for id in first..first + count {
                        let document = random.document(&id.to_string());
                        writer.put(&document.to_string()).unwrap().wait().unwrap();
                        live.insert(id_of(&document), expected_of(&document, &now, 4));
                    }
                    check(&writer.refresh().unwrap(), &known(&live, now.text().len()));
                    for id in &gone {
                        let id = id.to_string();
                        let was_there = writer.delete(&id).unwrap().map(|t| t.wait().unwrap()).is_some();
                        prop_assert_eq!(was_there, live.remove(&id).is_some());
                    }
                    check(&writer.refresh().unwrap(), &known(&live, now.text().len()));
                    if gone.len() % 2 == 0 {
                        writer.close().unwrap();
                    } else {
                        // Writes that are only in the log are replayed.
                        drop(writer);
                        LiveIndex::open(&index, options).unwrap().close().unwrap();
                    }
                }
                Step::Delete(ids) => {
                    let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
                    delete(&index, &ids, 2, &progress).unwrap();
                    ids.iter().for_each(|id| drop(live.remove(id)));
                }
                Step::Merge { reorder } => {
                    merge(&index, &MergeConfig { threads: 2, reorder, ..MergeConfig::default() }, &progress).unwrap();
                }
            }
            let fields = Snapshot::open(&index).unwrap().text_fields();
            check_dir(&index, &known(&live, fields));
        }
    }
}

/// Returns the bytes of the files of an index's only segment.
fn only_segment(dir: &Path) -> BTreeMap<Kind, Vec<u8>> {
    let snapshot = Snapshot::open(dir).unwrap();
    let [segment] = snapshot.segments() else { panic!("{} segments", snapshot.segments().len()) };
    let files = segment.files().map(|(kind, file)| (kind, fs::read(file.path()).unwrap()));
    files.collect()
}

#[test]
fn merged_is_as_built() {
    let (dir, progress, schema) = (tempfile::tempdir().unwrap(), Progress::default(), schema());
    let (merged, built) = (dir.path().join("merged"), dir.path().join("built"));
    let mut random = Random(7);
    let docs: Vec<Value> = (0..400).map(|id| random.document(&id.to_string())).collect();
    let config = BuildConfig { store: StoreMode::Ids, ..config(&schema) };
    create(&merged, &[input(dir.path(), &docs[..150])], &config, false, &progress).unwrap();
    add(&merged, &[input(dir.path(), &docs[150..290])], &config, &progress).unwrap();
    add(&merged, &[input(dir.path(), &docs[290..])], &config, &progress).unwrap();
    let gone: Vec<String> = (0..400).step_by(7).map(|id| id.to_string()).collect();
    delete(&merged, &gone, 2, &progress).unwrap();
    let live: Vec<Value> = docs.into_iter().filter(|doc| !gone.contains(&id_of(doc))).collect();
    create(&built, &[input(dir.path(), &live)], &config, false, &progress).unwrap();
    merge(&merged, &MergeConfig { threads: 2, ..MergeConfig::default() }, &progress).unwrap();
    let (a, b) = (only_segment(&merged), only_segment(&built));
    assert!(a.keys().eq(b.keys()));
    assert_eq!(a.len(), 6);
    a.iter().for_each(|(kind, bytes)| assert!(*bytes == b[kind], "{kind:?}"));
    let entry = |dir: &Path| Snapshot::open(dir).unwrap().manifest().segments[0].fields.clone();
    assert_eq!(entry(&merged), entry(&built));

    // A segment built in memory has the same bytes, too.
    let mut builder = SegmentBuilder::new(Snapshot::open(&built).unwrap().manifest()).unwrap();
    let reader = config.reader.clone();
    for document in &live {
        let line = document.to_string();
        builder.add(&Document::parse(&line, &reader).unwrap()).unwrap();
    }
    let (entry, segment) = builder.finish(0, 2).unwrap().unwrap();
    assert_eq!(entry.fields, Snapshot::open(&built).unwrap().manifest().segments[0].fields);
    for (kind, file) in segment.files() {
        let copy = dir.path().join("copy");
        file.copy_to(&copy).unwrap();
        assert!(fs::read(copy).unwrap() == b[&kind], "{kind:?}");
    }
}

#[test]
fn runs_that_are_spilled_change_nothing() {
    let (dir, progress, schema) = (tempfile::tempdir().unwrap(), Progress::default(), schema());
    let mut random = Random(3);
    // Every word is new, so that memory fills.
    let docs: Vec<Value> = (0..6000)
        .map(|id: u64| {
            let mut document = random.document(&id.to_string());
            document["body"] = json!((0..40).map(|w| format!("u{id}x{w} ")).collect::<String>());
            document
        })
        .collect();
    let path = input(dir.path(), &docs);
    let build = |name: &str, memory: usize, threads| {
        let config = BuildConfig {
            memory,
            threads,
            store: StoreMode::Ids,
            reorder: true,
            ..config(&schema)
        };
        let index = dir.path().join(name);
        let report =
            create(&index, std::slice::from_ref(&path), &config, false, &progress).unwrap();
        (report.runs, only_segment(&index))
    };
    let (one, many) = (build("one", 1 << 30, 1), build("many", 1 << 20, 2));
    assert!(one.0 == 1 && many.0 > 2, "{} and {} runs", one.0, many.0);
    assert!(one.1 == many.1);
}

/// A schema of one field prefixes terms with its number and changes nothing else about them.
#[test]
fn one_field_is_as_none() {
    let (dir, progress) = (tempfile::tempdir().unwrap(), Progress::default());
    let one = Arc::new(Schema::parse(r#"{"text": [{"name": "text"}]}"#).unwrap());
    let mut random = Random(11);
    let docs: Vec<Value> =
        (0..500).map(|id| json!({"id": id.to_string(), "text": random.words(30)})).collect();
    let path = input(dir.path(), &docs);
    let (with, without) = (dir.path().join("with"), dir.path().join("without"));
    create(&with, std::slice::from_ref(&path), &config(&one), false, &progress).unwrap();
    let plain = BuildConfig { reader: ReaderConfig::default(), ..config(&one) };
    create(&without, &[path], &plain, false, &progress).unwrap();
    let (with, without) = (Snapshot::open(&with).unwrap(), Snapshot::open(&without).unwrap());
    let (a, b) = (&with.segments()[0], &without.segments()[0]);
    let prefixed: BTreeMap<Vec<u8>, _> =
        lists(b).into_iter().map(|(term, list)| ([vec![0], term].concat(), list)).collect();
    assert_eq!(lists(a), prefixed);
    assert!(a.lengths(0).unwrap().iter().eq(b.lengths(0).unwrap().iter()));
    assert!(a.files().map(|file| file.0).eq(b.files().map(|file| file.0)));
    assert_eq!(with.statistics(), without.statistics());
    // Documents without a token count for the index, but not for the field.
    let empty = b.lengths(0).unwrap().iter().filter(|&length| length == 0).count() as u64;
    assert!(empty > 0);
    assert_eq!(with.field_statistics(0).documents, without.statistics().documents - empty);
    assert_eq!(without.field_statistics(0), without.statistics());
    assert_eq!((with.text_fields(), without.text_fields()), (1, 1));
}

#[test]
fn a_later_segment_may_know_more() {
    let (dir, progress) = (tempfile::tempdir().unwrap(), Progress::default());
    let index = dir.path().join("index");
    let small =
        Arc::new(Schema::parse(r#"{"text": [{"name": "title", "k1": 1.2, "b": 0.75}]}"#).unwrap());
    let docs = |ids: [&str; 2]| {
        ids.map(|id| json!({"id": id, "title": "a title", "body": "two words", "year": 7}))
    };
    create(&index, &[input(dir.path(), &docs(["1", "2"]))], &config(&small), false, &progress)
        .unwrap();
    add(&index, &[input(dir.path(), &docs(["3", "4"]))], &config(&schema()), &progress).unwrap();
    let snapshot = Snapshot::open(&index).unwrap();
    let known: Vec<usize> = snapshot.segments().iter().map(|s| s.text_fields()).collect();
    assert_eq!((snapshot.text_fields(), &known[..]), (3, &[1, 3][..]));
    let [old, new] = snapshot.segments() else { panic!() };
    assert!(old.attributes().is_none() && new.attributes().is_some());
    for field in 1..3 {
        assert!(old.lengths(field).unwrap().iter().eq([0, 0]));
    }
    assert_eq!(snapshot.field_statistics(0).documents, 4);
    assert_eq!(snapshot.field_statistics(1).documents, 2);
    assert_eq!(snapshot.document_frequency(&snapshot.key(1, "two")).unwrap(), 2);
    delete(&index, &["1".to_owned(), "3".to_owned()], 2, &progress).unwrap();
    merge(&index, &MergeConfig::default(), &progress).unwrap();
    assert!(verify(&index, &progress).unwrap().problems.is_empty());
    let snapshot = Snapshot::open(&index).unwrap();
    let [merged] = snapshot.segments() else { panic!() };
    assert_eq!(merged.text_fields(), 3);
    assert!(merged.lengths(1).unwrap().iter().eq([0, 2]));
    let column = merged.attributes().unwrap().column(1).unwrap().unwrap();
    assert_eq!((column.has(0), column.has(1)), (false, true));
    assert_eq!(snapshot.field_statistics(1).documents, 1);
}

/// The treatment of unknown fields affects neither searches nor deletions, which read documents
/// again.
#[test]
fn unknown_fields_are_stored_or_not() {
    let progress = Progress::default();
    for unknown in [Unknown::Store, Unknown::Ignore, Unknown::Refuse] {
        let (dir, mut random) = (tempfile::tempdir().unwrap(), Random(21));
        let index = dir.path().join("index");
        let schema = Arc::new(extended().with_unknown(unknown));
        let mut docs: Vec<Value> = (0..200).map(|id| random.document(&id.to_string())).collect();
        if unknown == Unknown::Refuse {
            docs.iter_mut().for_each(|doc| drop(doc.as_object_mut().unwrap().remove("unknown")));
        }
        // A score has a separate field, which is not unknown.
        docs.iter_mut().for_each(|doc| doc["rank"] = json!(0.5));
        let mut config = config(&schema);
        config.reader.static_field = Some("rank".into());
        create(&index, &[input(dir.path(), &docs)], &config, false, &progress).unwrap();
        let snapshot = Snapshot::open(&index).unwrap();
        let stored: Value =
            serde_json::from_slice(&snapshot.document(3).unwrap().unwrap()).unwrap();
        assert_eq!(stored.get("unknown").is_some(), unknown == Unknown::Store);
        assert_eq!(stored["rank"], json!(0.5));
        delete(&index, &["3".to_owned(), "150".to_owned()], 2, &progress).unwrap();
        let mut expected: All =
            docs.iter().map(|doc| (id_of(doc), expected_of(doc, &extended(), 4))).collect();
        expected.retain(|id, _| !["3", "150"].contains(&id.as_str()));
        check_dir(&index, &expected);
        let live = LiveIndex::open(&index, LiveOptions::default()).unwrap();
        let odd = r#"{"id": "odd", "title": "x", "strange": 1}"#;
        match live.put(odd) {
            Ok(ticket) => {
                drop(ticket);
                let kept = live.get("odd").unwrap().unwrap();
                let whole = kept == odd.as_bytes();
                assert_eq!(whole, unknown == Unknown::Store);
                live.refresh().unwrap();
                // The result does not change with a refresh.
                assert_eq!(live.get("odd").unwrap().unwrap(), kept);
            }
            Err(error) => {
                assert_eq!(unknown, Unknown::Refuse, "{error}");
                assert!(error.to_string().contains("strange"), "{error}");
            }
        }
    }
}

#[test]
fn an_inspection_names_fields_and_attributes() {
    let (dir, progress) = (tempfile::tempdir().unwrap(), Progress::default());
    let index = dir.path().join("index");
    let docs = [
        json!({"id": "1", "title": "a title", "body": "x y", "year": 7, "authors": {"name": "A B"}}),
        json!({"id": "2", "body": "x x", "authors": [{"name": "A B"}, {"name": "C"}]}),
        json!({"id": "3", "body": "gone", "year": 9}),
    ];
    create(&index, &[input(dir.path(), &docs)], &config(&schema()), false, &progress).unwrap();
    delete(&index, &["3".to_owned()], 1, &progress).unwrap();
    let found = inspect(&index).unwrap();
    let fields: Vec<_> = found
        .fields
        .iter()
        .map(|f| (f.name.as_str(), f.documents, f.tokens, f.terms, f.postings))
        .collect();
    assert_eq!(fields, [("title", 1, 1, 1, 1), ("body", 2, 4, 3, 4), ("author", 2, 5, 3, 5)]);
    let attributes: Vec<_> =
        found.attributes.iter().map(|a| (a.name.as_str(), a.documents, a.values)).collect();
    assert_eq!(attributes[..2], [("author.keyword", 2, Some(2)), ("year", 1, None)]);
    assert_eq!(attributes[2..], ["published", "price", "open"].map(|name| (name, 0, None)));
    assert!(found.attributes[0].bytes > 0 && found.attributes[2].bytes == 0);
    assert!(found.sizes.attributes > found.attributes[0].bytes);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let (dir, progress) = (tempfile::tempdir().unwrap(), Progress::default());
    let path = input(dir.path(), &[json!({"id": "1", "title": "x", "year": 7})]);
    let base = config(&schema());
    let refused = |config: &BuildConfig| {
        let result =
            create(&dir.path().join("no"), std::slice::from_ref(&path), config, false, &progress);
        assert!(!dir.path().join("no").exists());
        result.unwrap_err()
    };
    let quantized = BuildConfig { impacts: Some(Impacts::new(0.9, 0.4)), ..base.clone() };
    let error = refused(&quantized);
    assert!(
        matches!(&error, IndexError::Schema { what } if what.contains("--quantize")),
        "{error}"
    );
    let grams = BuildConfig { grams: Some(Default::default()), ..base.clone() };
    assert!(matches!(refused(&grams), IndexError::Schema { .. }));

    let plain = BuildConfig { reader: ReaderConfig::default(), ..base.clone() };
    let (with, without) = (dir.path().join("with"), dir.path().join("without"));
    create(&without, std::slice::from_ref(&path), &plain, false, &progress).unwrap();
    let error = add(&without, std::slice::from_ref(&path), &base, &progress).unwrap_err();
    assert!(error.to_string().contains("index --schema"), "{error}");
    create(&with, std::slice::from_ref(&path), &config(&extended()), false, &progress).unwrap();
    // Fields cannot be removed.
    let error = add(&with, std::slice::from_ref(&path), &base, &progress).unwrap_err().to_string();
    assert!(error.contains("note") || error.contains("field"), "{error}");
    // Without a given schema, documents are read with that of the index.
    assert_eq!(add(&with, std::slice::from_ref(&path), &plain, &progress).unwrap().replaced, 1);
    let bad = input(dir.path(), &[json!({"id": "2", "year": "seven"})]);
    let error = add(&with, &[bad], &plain, &progress).unwrap_err().to_string();
    assert!(error.contains("input.jsonl:1") && error.contains("\"year\""), "{error}");
    let live = LiveIndex::open(&with, LiveOptions::default()).unwrap();
    let error = live.put(r#"{"id": "3", "open": 1}"#).err().unwrap().to_string();
    assert!(error.contains("\"open\""), "{error}");
}

/// Replaces the manifest of an index.
fn forge(dir: &Path, version: u32, change: impl FnOnce(&mut Manifest)) {
    let mut manifest = warpseek_index::read_manifest(dir).unwrap();
    change(&mut manifest);
    let bytes = seal_bytes_as(Kind::Manifest, version, &manifest.to_bytes());
    fs::write(dir.join("manifest"), bytes).unwrap();
}

/// Replaces a file of the index's first segment, and its seal in the manifest.
fn replace(dir: &Path, kind: Kind, version: u32, change: impl FnOnce(&mut Vec<u8>)) {
    let path = dir.join(format!("000001.{}", kind.name()));
    let mut body = SealedFile::open(&path, kind).unwrap().all().unwrap().to_vec();
    change(&mut body);
    let bytes = seal_bytes_as(kind, version, &body);
    let seal = SealedFile::from_bytes("f", kind, bytes.clone()).unwrap().seal();
    fs::write(&path, bytes).unwrap();
    forge(dir, 3, |manifest| {
        drop(manifest.segments[0].files.insert(kind.name().to_owned(), format!("{seal:016x}")));
    });
}

/// The lengths of 100 documents in a table without long ones: the start of their bits, and the
/// bits per length.
struct Packed {
    start: usize,
    width: usize,
}

impl Packed {
    /// Locates the second table of a file.
    fn second(body: &[u8]) -> Self {
        let table = |at: usize| {
            assert_eq!(body[at + 20..at + 24], [0; 4], "long lengths");
            Packed { start: at + 24, width: body[at + 16].into() }
        };
        let first = table(0);
        table(first.start + (100 * first.width).div_ceil(64) * 8 + 8)
    }

    fn bits(&self, doc: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        (self.width * doc..self.width * (doc + 1)).map(|bit| (bit / 8, bit % 8))
    }

    fn get(&self, body: &[u8], doc: usize) -> u32 {
        let bits = (0..).zip(self.bits(doc));
        bits.map(|(i, (byte, bit))| u32::from(body[self.start + byte] >> bit & 1) << i).sum()
    }

    fn set(&self, body: &mut [u8], doc: usize, length: u32) {
        for (i, (byte, bit)) in (0..).zip(self.bits(doc)) {
            let byte = &mut body[self.start + byte];
            *byte = *byte & !(1 << bit) | ((length >> i & 1) as u8) << bit;
        }
    }
}

#[test]
fn forged_counts_versions_and_files_are_found() {
    /// A part of the message, and the forgery.
    type Forgery = (&'static str, fn(&Path));
    let progress = Progress::default();
    let forgeries: [Forgery; 16] = [
        ("version", |dir| forge(dir, 1, |_| {})),
        ("version", |dir| replace(dir, Kind::Post, 1, |_| {})),
        ("version", |dir| replace(dir, Kind::Lengths, 1, |_| {})),
        ("fields", |dir| forge(dir, 3, |m| _ = m.segments[0].fields.pop())),
        ("counts", |dir| forge(dir, 3, |m| m.segments[0].fields[1].documents += 1)),
        ("impossible", |dir| forge(dir, 3, |m| m.segments[0].fields[1].documents += 100)),
        ("counts", |dir| forge(dir, 3, |m| m.segments[0].fields[0].documents -= 1)),
        ("counts", |dir| {
            forge(dir, 3, |m| {
                m.segments[0].fields[1].tokens -= 1;
                m.segments[0].fields[2].tokens += 1;
            });
        }),
        ("fields", |dir| {
            forge(dir, 3, |m| m.segments[0].deletes.as_mut().unwrap().fields.clear());
        }),
        ("names", |dir| {
            forge(dir, 3, |m| m.segments[0].deletes.as_mut().unwrap().fields[0].documents -= 1);
        }),
        ("lengths", |dir| {
            forge(dir, 3, |m| drop(m.segments[0].files.remove("lengths")));
        }),
        ("schema", |dir| {
            forge(dir, 3, |m| {
                m.impacts = Some(Impacts { k1: 0.9, b: 0.4, tokens: 9, documents: 9 });
            });
        }),
        ("schema", |dir| {
            forge(dir, 3, |m| {
                let mut config = m.schema.as_ref().unwrap().config().clone();
                config.attributes.swap(1, 3);
                m.schema = Some(Arc::new(Schema::new(config).unwrap()));
            });
        }),
        ("malformed", |dir| replace(dir, Kind::Lengths, 3, |body| body[24] ^= 1)),
        ("document", |dir| {
            // Two lengths of the last field change places: all sums remain, but they no longer
            // match the lists.
            replace(dir, Kind::Lengths, 3, |body| {
                let bits = Packed::second(body);
                // Every ninth document is deleted, and the counts of these would reveal a change.
                let docs = (0..100).filter(|doc| doc % 9 != 0);
                let one = docs.clone().find(|&doc| bits.get(body, doc) > 0).unwrap();
                let length = bits.get(body, one);
                let differs = |&doc: &usize| ![0, length].contains(&bits.get(body, doc));
                let other = docs.clone().find(differs).unwrap();
                let longer = bits.get(body, other);
                bits.set(body, one, longer);
                bits.set(body, other, length);
            });
        }),
        ("column", |dir| replace(dir, Kind::Attributes, 3, |body| body[16 * 8] ^= 1)),
    ];
    for (i, (word, forge)) in forgeries.into_iter().enumerate() {
        let (dir, mut random) = (tempfile::tempdir().unwrap(), Random(5));
        let index = dir.path().join("index");
        let docs: Vec<Value> = (0..100).map(|id| random.document(&id.to_string())).collect();
        create(&index, &[input(dir.path(), &docs)], &config(&schema()), false, &progress).unwrap();
        let gone: Vec<String> = (0..100).step_by(9).map(|id| id.to_string()).collect();
        delete(&index, &gone, 2, &progress).unwrap();
        assert!(verify(&index, &progress).unwrap().problems.is_empty());
        forge(&index);
        let found = verify(&index, &progress).unwrap();
        let problems: Vec<&str> = found.problems.iter().map(|p| p.what.as_str()).collect();
        assert!(problems.iter().any(|what| what.contains(word)), "forgery {i}: {problems:?}");
    }
}

/// Deletions that are flushed while their segments are merged are part of the result, which other
/// readers can open at once.
#[test]
fn deletions_during_a_merge() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, input) = (folder.path().join("index"), folder.path().join("none.jsonl"));
    fs::write(&input, "").unwrap();
    create(&dir, &[input], &config(&schema()), false, &Progress::default()).unwrap();
    // The merge is slow, so that there is time to delete. If there is not, the result is the
    // same.
    let options = LiveOptions { merge_rate: Some(20_000), threads: 1, ..LiveOptions::default() };
    let live = LiveIndex::open(&dir, options).unwrap();
    let mut random = Random(5);
    for id in 0..80 {
        drop(live.put(&random.document(&id.to_string()).to_string()).unwrap());
        if id % 10 == 9 {
            live.flush().unwrap();
        }
    }
    let files = || fs::read_dir(&dir).unwrap().count();
    let before = files();
    std::thread::scope(|scope| {
        let merge = scope.spawn(|| live.merge_some(&Progress::default()).unwrap());
        while files() == before && !merge.is_finished() {}
        for id in (0..80).step_by(3) {
            drop(live.delete(&id.to_string()).unwrap().unwrap());
        }
        live.flush().unwrap();
        assert!(merge.join().unwrap());
    });
    let snapshot = Snapshot::open(&dir).unwrap();
    assert_eq!(snapshot.segments().len(), 1);
    for id in 0..80 {
        let found = snapshot.find_id(&id.to_string()).unwrap();
        assert_eq!(found.is_some(), id % 3 != 0, "document {id}");
    }
    let found = verify(&dir, &Progress::default()).unwrap();
    assert!(found.problems.is_empty(), "{:?}", found.problems);
}
