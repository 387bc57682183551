//! Golden indexes of every format version, which must stay readable. The current version must
//! also be written with the same bytes.
//!
//! Versions 1 and 2 were written by earlier programs. They have the contents of indexes of the
//! current version, and become equal to them when they are merged.
//!
//! `UPDATE_GOLDEN=1 cargo test -p warpseek-index --test golden` rewrites the golden indexes of
//! the current version; that is right only for a version that no release has written.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warpseek_core::limits::BLOCK;
use warpseek_exec::{Mode, Query, Ranking};
use warpseek_index::container::{Kind, SealedFile, VERSION};
use warpseek_index::{
    AttributeValue, BIN, BuildConfig, Impacts, LookUp, Manifest, MapListParts, MergeConfig,
    PositionReader, Progress, Segment, Snapshot, add, create, delete, merge, verify,
};
use warpseek_testkit::{
    Doc, ExternalHit, Fixture, History, Operation, STATIC_FIELD, Search, build_config,
    external_hits, file_bytes, orders, plans,
};
use warpseek_text::{
    Attribute, AttributeKind, GramConfig, GramScratch, ReaderConfig, Schema, TextField, Unit,
};

/// Builds two segments with lists of one, some and many postings, an update, deletions, static
/// scores, and ids outside of ASCII.
fn text() -> History {
    let doc = |i: usize| {
        let id = if i % 50 == 7 { format!("größe/{i}") } else { format!("doc-{i}") };
        let text =
            format!("The {} {} of n{i}", "apple ".repeat(1 + i % 5), ["pies", "tart"][i % 2]);
        let title = if i.is_multiple_of(3) { "An orchard".to_owned() } else { String::new() };
        let static_score = i.is_multiple_of(4).then_some(i as f32 / 8.0);
        Doc { id, title, text, static_score, ..Doc::default() }
    };
    let update = Doc::text("doc-3", "apple crumble");
    let second = [vec![update], (150..170).map(doc).collect()].concat();
    let gone = ["doc-5", "größe/107", "doc-160"].map(str::to_owned).to_vec();
    let first = Operation::Add((0..150).map(doc).collect());
    History { operations: vec![first, Operation::Add(second), Operation::Delete(gone)] }
}

fn vectors() -> History {
    let doc = |i: usize| {
        let weight = |step: usize| (i * step % 10) as f64 * 0.37;
        Doc::vector(i, &[("##a", weight(3)), ("B", weight(7)), (["x", "y"][i % 2], 255.5)])
    };
    History::of((0..140).map(doc).collect())
}

/// Builds lists of every form (one entry, one block, several blocks, bins), from documents of one
/// segment and of many, some of them with several parts.
fn passages() -> History {
    let doc = |i: usize| {
        let words = match i {
            77 => 700,
            _ if i.is_multiple_of(90) => 150,
            _ => i % 9,
        };
        let word = |w: usize| match (i * 7 + w * w) % 40 {
            0 => ["Straße", "東京都", "x"][i % 3].to_owned(),
            1..=3 => format!("n{}", i % 300),
            4..=6 => ["acid", "aspirin"][w % 2].to_owned(),
            _ => ["to", "tea"][(i + w) % 2].to_owned(),
        };
        let text: Vec<String> = (0..words).map(word).collect();
        let title = if i.is_multiple_of(50) { "A title".to_owned() } else { String::new() };
        Doc { title, ..Doc::text(format!("doc-{i}"), text.join(" ")) }
    };
    let gone = ["doc-5", "doc-77", "doc-1120"].map(str::to_owned).to_vec();
    let second =
        [vec![Doc::text("doc-3", "one aspirin")], (1100..1130).map(doc).collect()].concat();
    let first = Operation::Add((0..1100).map(doc).collect());
    History { operations: vec![first, Operation::Add(second), Operation::Delete(gone)] }
}

fn search(terms: &[(&str, f64)], mode: Mode, ranking: &str, static_weight: f64) -> Search {
    let terms = terms.iter().map(|&(term, weight)| (term.to_owned(), weight));
    let ranking = Ranking { function: ranking.parse().unwrap(), static_weight };
    Search { query: Query::of(terms), mode, k: 3, ranking }
}

/// Returns the path of the index of this version and name, such as `v1/text`.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Returns the path of the index of this name in the current version.
fn current(name: &str) -> PathBuf {
    golden(&format!("v{VERSION}/{name}"))
}

/// External id, score in units and scale of each expected hit.
type Expected<'a> = &'a [(&'a str, u32, i32)];

/// Checks the golden index of the current version, after rewriting it if requested, and that of
/// version 1.
fn check(name: &str, config: BuildConfig, history: &History, expected: &[(Search, Expected<'_>)]) {
    let built = Fixture::after(history, config);
    let dir = check_files(name, &built.dir());
    check_contents(&dir, history, expected);
    let old = golden(&format!("v1/{name}"));
    check_contents(&old, history, expected);
    check_upgrade(&old, &dir);
}

/// Checks that an index is intact, and compares its documents and hits.
fn check_contents(dir: &Path, history: &History, expected: &[(Search, Expected<'_>)]) {
    let found = verify(dir, &Progress::default()).unwrap();
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    let snapshot = Arc::new(Snapshot::open(dir).unwrap());
    for doc in history.live() {
        let found = snapshot.find_id(&doc.id).unwrap().unwrap();
        assert_eq!(snapshot.document(found).unwrap(), Some(doc.to_json().into_bytes()));
    }
    for (search, expected) in expected {
        let plans = plans(&snapshot, std::slice::from_ref(search));
        let answers = warpseek_testkit::expected(&snapshot, &plans);
        let expected: Vec<ExternalHit> =
            expected.iter().map(|&(id, score, scale)| (id.to_owned(), score, scale)).collect();
        assert_eq!(external_hits(&snapshot, &plans[0], &answers[0]), expected, "{search:?}");
    }
}

/// Checks that an index of an earlier version equals that of the current one when both are
/// merged, and that it is intact while it has files of both versions.
fn check_upgrade(old: &Path, new: &Path) {
    let (home, progress) = (tempfile::tempdir().unwrap(), Progress::default());
    let merged = [old, new].map(|from| {
        let version = from.parent().unwrap().file_name().unwrap();
        let dir = home.path().join(version);
        fs::create_dir(&dir).unwrap();
        file_bytes(from).iter().for_each(|(file, bytes)| fs::write(dir.join(file), bytes).unwrap());
        let first = Snapshot::open(&dir).unwrap().external_id(0).unwrap();
        assert_eq!(delete(&dir, &[first], 1, &progress).unwrap().deleted, 1);
        let found = verify(&dir, &progress).unwrap();
        assert!(found.problems.is_empty(), "{:?}", found.problems);
        let config = MergeConfig { threads: 1, ..MergeConfig::default() };
        assert!(merge(&dir, &config, &progress).unwrap().changed);
        let found = verify(&dir, &progress).unwrap();
        assert!(found.problems.is_empty(), "{:?}", found.problems);
        let mut files = file_bytes(&dir);
        files.remove("lock");
        without_stores(files)
    });
    let [old, new] = merged;
    assert_eq!(old.0, new.0);
    assert!(
        old.1 == new.1,
        "files of version 1 and of the current one differ once they are merged"
    );
}

/// Checks that the golden index of the current version has the files of one that was built now.
/// Returns its directory.
fn check_files(name: &str, built: &Path) -> PathBuf {
    let mut fresh = file_bytes(built);
    // Without a lock, the golden index is never written to.
    fresh.remove("lock");
    let dir = current(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        fresh.iter().for_each(|(file, bytes)| fs::write(dir.join(file), bytes).unwrap());
    }
    let kept = file_bytes(&dir);
    assert!(kept.keys().eq(fresh.keys()), "{:?} and {:?}", kept.keys(), fresh.keys());
    let (kept, mut fresh) = (without_stores(kept), without_stores(fresh));
    if kept.0.static_field.is_none() {
        // The golden index was written before the field of static scores was recorded.
        fresh.0.static_field = None;
    }
    for (file, bytes) in &kept.1 {
        assert!(*bytes == fresh.1[file], "{file} is written in another way");
    }
    assert_eq!(kept.0, fresh.0);
    dir
}

/// Returns the manifest and the files that must never change. Stores are not compared: another
/// version of Zstandard may compress differently.
fn without_stores(mut files: BTreeMap<String, Vec<u8>>) -> (Manifest, BTreeMap<String, Vec<u8>>) {
    let bytes = files.remove("manifest").unwrap();
    let file = SealedFile::from_bytes("manifest", Kind::Manifest, bytes).unwrap();
    let mut manifest = Manifest::read(&file).unwrap();
    for segment in &mut manifest.segments {
        segment.files.remove(Kind::Store.name());
    }
    files.retain(|name, _| !name.ends_with(Kind::Store.name()));
    (manifest, files)
}

/// The order of documents inside of segments does not affect hits, so both indexes have the same.
#[test]
fn text_index() {
    let expected: &[(Search, Expected<'_>)] = &[
        (
            search(&[("appl", 1.0), ("tart", 1.0)], Mode::Or, "bm25", 0.0),
            &[("doc-25", 440081535, 30), ("doc-35", 440081535, 30), ("doc-55", 440081535, 30)],
        ),
        (
            search(&[("orchard", 2.0), ("pie", 1.0)], Mode::And, "okapi", 0.0),
            &[("doc-0", 766249282, 29), ("doc-30", 766249282, 29), ("doc-60", 766249282, 29)],
        ),
        (
            search(&[("tart", 1.0), ("n160", 1.0)], Mode::AndOr, "wakatsuki", 0.0),
            &[("doc-25", 829175233, 30), ("doc-35", 829175233, 30), ("doc-55", 829175233, 30)],
        ),
        (
            search(&[("tart", 1.0), ("n167", 3.0)], Mode::Or, "cosine", 0.0),
            &[("doc-167", 451404610, 30), ("doc-25", 40963245, 30), ("doc-35", 40963245, 30)],
        ),
        (
            search(&[("appl", 1.0)], Mode::Or, "bm25", 0.5),
            &[
                ("doc-168", 1409605400, 27),
                ("doc-164", 1376064407, 27),
                ("doc-156", 1308900917, 27),
            ],
        ),
    ];
    let [by_input, by_text, ..] = orders();
    check("text", by_input, &text(), expected);
    check("reordered", by_text, &text(), expected);
    // Version 1 always has norms. The current version has them on request, and otherwise computes
    // the same ones.
    let config = BuildConfig { norms: true, ..build_config() };
    let kept = check_files("norms", &Fixture::after(&text(), config).dir());
    check_contents(&kept, &text(), expected);
    let [old, kept, computed] =
        [golden("v1/text"), kept, current("text")].map(|dir| Snapshot::open(&dir).unwrap());
    for ((old, kept), computed) in
        old.segments().iter().zip(kept.segments()).zip(computed.segments())
    {
        assert!(kept.documents().has_norms() && !computed.documents().has_norms());
        let norms = [old, kept, computed].map(|segment| segment.norms().unwrap().bytes().to_vec());
        assert!(norms[0] == norms[1] && norms[0] == norms[2]);
    }
}

/// The manifest records the field of static scores. The indexes above have scores but no record
/// of the field, and represent indexes of earlier programs.
#[test]
fn static_field() {
    let kept = check_files("statics", &Fixture::after(&text(), build_config()).dir());
    check_contents(&kept, &text(), &[]);
    let recorded = ["statics", "text"].map(|name| {
        let snapshot = Snapshot::open(&current(name)).unwrap();
        assert!(snapshot.has_statics());
        snapshot.manifest().static_field.clone()
    });
    assert_eq!(recorded, [Some(STATIC_FIELD.to_owned()), None]);
}

/// Positions add files and change no other file.
#[test]
fn positions_index() {
    let config = BuildConfig { positions: true, ..build_config() };
    check("positions", config, &text(), &[]);
    for version in [1, VERSION] {
        let [with, without] = ["positions", "text"].map(|name| {
            let mut files = file_bytes(&golden(&format!("v{version}/{name}")));
            files.remove("manifest");
            files
        });
        assert!(without.iter().all(|(name, bytes)| with[name] == *bytes));
        let others = with.keys().filter(|name| !without.contains_key(*name));
        assert!(others.eq(["000001.pos", "000002.pos"]));
        check_positions(&golden(&format!("v{version}/positions")));
    }
}

fn check_positions(dir: &Path) {
    let snapshot = Snapshot::open(dir).unwrap();
    let doc = snapshot.find_id("doc-9").unwrap().unwrap();
    let (segment, ordinal) = snapshot.locate(doc).unwrap();
    // The title has two words. The text begins a hundred positions later with a stop word.
    let places = |term: &str| {
        let info = segment.dictionary().find(term.as_bytes()).unwrap().unwrap();
        let (list, positions) = (segment.list(&info).unwrap(), segment.positions(&info).unwrap());
        let (mut docs, mut freqs, mut out) = ([0; BLOCK], [0; BLOCK], Vec::new());
        let block = list.block_for(ordinal);
        let n = list.decode_docs(block, &mut docs).unwrap();
        list.decode_freqs(block, &mut freqs).unwrap();
        let at = docs[..n].binary_search(&ordinal).unwrap();
        let mut reader = PositionReader::new(positions.unwrap());
        reader.read(block, &freqs[..n], at, &mut out).unwrap();
        out
    };
    assert_eq!(places("orchard"), [1]);
    assert_eq!(places("appl"), [103, 104, 105, 106, 107]);
    assert_eq!(places("n9"), [110]);
}

#[test]
fn vector_index() {
    check(
        "vectors",
        build_config(),
        &vectors(),
        &[
            (
                search(&[("##a", 1.0), ("B", 0.5)], Mode::Or, "impact", 0.0),
                &[("3", 14737410, 22), ("13", 14737410, 22), ("23", 14737410, 22)],
            ),
            (
                search(&[("y", 0.25), ("##a", 4.0)], Mode::And, "impact", 0.0),
                &[("3", 80936962, 20), ("13", 80936962, 20), ("23", 80936962, 20)],
            ),
        ],
    );
}

#[test]
fn quantized_index() {
    let config = BuildConfig { impacts: Some(Impacts::new(0.9, 0.4)), ..build_config() };
    check(
        "quantized",
        config,
        &text(),
        &[
            (
                search(&[("appl", 1.0), ("tart", 1.0)], Mode::Or, "bm25", 0.0),
                &[("doc-25", 442042713, 30), ("doc-35", 442042713, 30), ("doc-55", 442042713, 30)],
            ),
            (
                search(&[("appl", 1.0)], Mode::Or, "bm25", 0.5),
                &[
                    ("doc-168", 1409606187, 27),
                    ("doc-164", 1376065875, 27),
                    ("doc-156", 1308902101, 27),
                ],
            ),
        ],
    );
}

/// The n-grams of each segment, with parts and maps.
type Grams = Vec<BTreeMap<Vec<u8>, Vec<(u32, u32)>>>;

fn grams_by_list(snapshot: &Snapshot) -> Grams {
    let (mut docs, mut maps) = ([0; BIN], [0; BIN]);
    let segments = snapshot.segments().iter().map(|segment| {
        let (mut terms, mut grams) = (segment.dictionary().iter(), BTreeMap::new());
        while let Some(info) = terms.next_term().unwrap() {
            let list = segment.map_list(&info).unwrap();
            let mut entries = Vec::new();
            for block in 0..list.blocks() {
                let n = list.decode(block, &mut docs, &mut maps).unwrap();
                entries.extend(docs[..n].iter().copied().zip(maps[..n].iter().copied()));
            }
            let mut look_up = LookUp::default();
            for &(doc, map) in &entries {
                assert_eq!(list.map_of(doc, &mut look_up).unwrap(), map);
            }
            grams.insert(terms.term().to_vec(), entries);
        }
        grams
    });
    segments.collect()
}

fn grams_by_text(history: &History, config: &GramConfig) -> Grams {
    let mut scratch = GramScratch::default();
    let mut segments = Grams::new();
    for operation in &history.operations {
        let Operation::Add(docs) = operation else { continue };
        let (mut grams, mut first) = (BTreeMap::<Vec<u8>, BTreeMap<u32, u32>>::new(), 0);
        for doc in docs {
            let words = config.for_each(&mut scratch, &doc.title, &doc.text, |part, gram, bit| {
                *grams.entry(gram.to_vec()).or_default().entry(first + part).or_default() |= bit;
            });
            first += config.parts(words);
        }
        segments.push(
            grams.into_iter().map(|(gram, maps)| (gram, maps.into_iter().collect())).collect(),
        );
    }
    segments
}

#[test]
fn n_gram_indexes() {
    let config = GramConfig { segment_words: 1, parts: true, ..GramConfig::default() };
    for (name, config) in [
        ("grams", config),
        ("word-grams", GramConfig { unit: Unit::Word, n: 2, segment_words: 3, parts: false }),
    ] {
        let reader = ReaderConfig::default();
        let build = BuildConfig { grams: Some(config), reader, ..build_config() };
        check(name, build, &passages(), &[]);
        for version in [1, VERSION] {
            let snapshot = Snapshot::open(&golden(&format!("v{version}/{name}"))).unwrap();
            assert_eq!(snapshot.manifest().grams, Some(config));
            assert_eq!(grams_by_list(&snapshot), grams_by_text(&passages(), &config), "{name}");
        }
    }
    let snapshot = Snapshot::open(&current("grams")).unwrap();
    let second = &grams_by_list(&snapshot)[1];
    // "one aspirin" is the first document. The seventh has 東京都 as the sixth of its seven words.
    assert_eq!(second["e a".as_bytes()][0], (0, 0b01));
    assert_eq!(second[" as".as_bytes()][0], (0, 0b01));
    assert_eq!(second["asp".as_bytes()][0], (0, 0b10));
    assert_eq!(second["東京都".as_bytes()], [(6, 0b100000), (21, 1)]);
    let segment = &snapshot.segments()[0];
    assert_eq!(segment.parts().of(77).len(), 10, "700 words in parts of 128 that overlap by 64");
    assert_eq!(forms(segment), BTreeSet::from(["bins", "blocks", "one block", "one entry"]));
}

fn forms(segment: &Segment) -> BTreeSet<&'static str> {
    let (mut terms, mut forms) = (segment.dictionary().iter(), BTreeSet::new());
    while let Some(info) = terms.next_term().unwrap() {
        forms.insert(match segment.map_list(&info).unwrap().list_parts() {
            MapListParts::One { .. } => "one entry",
            MapListParts::Short(_) => "one block",
            MapListParts::Sparse { .. } => "blocks",
            MapListParts::Dense { .. } => "bins",
        });
    }
    forms
}

/// Tests text fields with different analyzers, attributes of every type, documents that lack some
/// of them, deletions, and a later segment that knows more fields.
#[test]
fn fields_index() {
    const FIRST: &str = r#"{
        "analyzers": {"names": {"fold": true}},
        "text": [
            {"name": "title", "k1": 1.2, "b": 0.75},
            {"name": "body", "source": "content.body", "analyzer": "plain"}
        ],
        "attributes": [
            {"name": "year", "type": "integer"},
            {"name": "tag", "source": "tags", "type": "keyword", "many": true},
            {"name": "price", "type": "float"},
            {"name": "open", "type": "boolean"}
        ]
    }"#;
    let first = Arc::new(Schema::parse(FIRST).unwrap());
    let mut config = first.config().clone();
    config.text.push(TextField::new("author", "names"));
    config.attributes.push(Attribute::new("published", AttributeKind::Date));
    let second = Arc::new(Schema::new(config).unwrap());
    let document = |i: usize| {
        let mut document = serde_json::json!({
            "id": format!("doc-{i}"),
            "content": {"body": format!("{} Größe n{i}", "apple ".repeat(i % 300))},
            "tags": (0..i % 4).map(|tag| format!("t{}", (i + tag) % 11)).collect::<Vec<_>>(),
            "author": (["José Łuk", "Ann"][i % 2]),
            "published": format!("2021-03-{:02}", 1 + i % 31),
            "else": i,
        });
        if !i.is_multiple_of(3) {
            document["title"] = "The Orchards of apples".into();
            document["year"] = (1990 + i as i64 % 40).into();
        }
        if i.is_multiple_of(5) {
            document["price"] = (i as f64 / 8.0).into();
            document["open"] = i.is_multiple_of(2).into();
        }
        format!("{document}\n")
    };
    let (dir, progress) = (tempfile::tempdir().unwrap(), Progress::default());
    let (input, index) = (dir.path().join("docs.jsonl"), dir.path().join("index"));
    let with = |schema: &Arc<Schema>| {
        let mut config = build_config();
        config.reader.schema = Some(schema.clone());
        config
    };
    fs::write(&input, (0..300).map(document).collect::<String>()).unwrap();
    create(&index, std::slice::from_ref(&input), &with(&first), false, &progress).unwrap();
    fs::write(&input, (290..340).map(document).collect::<String>()).unwrap();
    add(&index, std::slice::from_ref(&input), &with(&second), &progress).unwrap();
    let gone = ["doc-7", "doc-9", "doc-310"].map(str::to_owned);
    delete(&index, &gone, 1, &progress).unwrap();

    let dir = check_files("fields", &index);
    let old = golden("v2/fields");
    for dir in [&dir, &old] {
        let found = verify(dir, &progress).unwrap();
        assert!(found.problems.is_empty(), "{:?}", found.problems);
        let snapshot = Snapshot::open(dir).unwrap();
        assert_eq!(snapshot.manifest().schema.as_deref(), Some(&*second));
        check_fields(&snapshot, document(335).trim_end());
    }
    check_upgrade(&old, &dir);
}

/// Checks counts, document frequencies, and the contents of document 335.
fn check_fields(snapshot: &Snapshot, json: &str) {
    let counts = |field| {
        let statistics = snapshot.field_statistics(field);
        (statistics.documents, statistics.tokens)
    };
    // Of the 337 live documents, two thirds have a title of two terms. Only the second segment
    // knows the author.
    assert_eq!([0, 1, 2].map(counts), [(224, 448), (337, 46_278), (49, 73)]);
    for (field, term, df) in [(0, "orchard", 224), (1, "größe", 337), (2, "jose", 24)] {
        assert_eq!(snapshot.document_frequency(&snapshot.key(field, term)).unwrap(), df, "{term}");
    }
    let doc = snapshot.find_id("doc-335").unwrap().unwrap();
    let (segment, ordinal) = snapshot.locate(doc).unwrap();
    let values = |number: u16| {
        let column = segment.attributes().unwrap().column(number).unwrap().unwrap();
        column.values(ordinal).unwrap()
    };
    assert_eq!(values(0), [AttributeValue::Integer(2005)]);
    assert_eq!(values(1), ["t5", "t6", "t7"].map(|tag| AttributeValue::Keyword(tag.into())));
    assert_eq!(values(2), [AttributeValue::Float(41.875)]);
    assert_eq!(values(3), [AttributeValue::Boolean(false)]);
    assert_eq!(values(4), [AttributeValue::Date(1_616_716_800_000)]);
    let stored = snapshot.document(doc).unwrap().unwrap();
    assert_eq!(stored, json.as_bytes());
}
