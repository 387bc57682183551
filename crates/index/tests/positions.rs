//! Tests of positions: which indexes can have them, and that builds, merges and single writes
//! agree on them.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use warpseek_core::limits::BLOCK;
use warpseek_index::container::Kind;
use warpseek_index::{
    BuildConfig, Impacts, IndexError, MergeConfig, PositionReader, Progress, Snapshot, create,
    merge, read_manifest, verify,
};
use warpseek_testkit::{Doc, Fixture, build_config, file_bytes, orders};
use warpseek_text::{GramConfig, Schema};

fn docs(from: usize, to: usize) -> Vec<Doc> {
    let doc = |i: usize| {
        let text = format!("apple {}of n{i} the {}", "pie ".repeat(i % 200), ["a", "tart"][i % 2]);
        let title = if i.is_multiple_of(3) { "Orchard".to_owned() } else { String::new() };
        Doc { title, ..Doc::text(i, text) }
    };
    (from..to).map(doc).collect()
}

fn with_positions() -> BuildConfig {
    BuildConfig { positions: true, ..build_config() }
}

/// Returns the positions of a term, by id of the document.
fn places(snapshot: &Snapshot, term: &[u8]) -> Vec<(String, Vec<u32>)> {
    let mut all = Vec::new();
    for segment in snapshot.segments() {
        let Some(info) = segment.dictionary().find(term).unwrap() else { continue };
        let list = segment.list(&info).unwrap();
        let mut reader = PositionReader::new(segment.positions(&info).unwrap().unwrap());
        let (mut docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
        for block in 0..list.blocks() {
            let n = list.decode_docs(block, &mut docs).unwrap();
            list.decode_freqs(block, &mut freqs).unwrap();
            for (i, &doc) in
                docs[..n].iter().enumerate().filter(|(_, doc)| !segment.is_deleted(**doc))
            {
                let ordinal = segment.documents().ordinals().unwrap().map_or(doc, |o| o.get(doc));
                let mut places = Vec::new();
                reader.read(block, &freqs[..n], i, &mut places).unwrap();
                assert_eq!(places.len(), freqs[i] as usize);
                all.push((segment.ids().get(ordinal).unwrap(), places));
            }
        }
    }
    all.sort_unstable();
    all
}

#[test]
fn orders_segments_spills_and_merges_keep_positions() {
    let expected = |term: &str| {
        let mut all = Vec::new();
        for doc in docs(0, 400).into_iter().skip(7) {
            let start = if doc.title.is_empty() { 0 } else { 101 };
            let words = doc.text.split_whitespace().zip(start..);
            let places: Vec<u32> = words.filter(|w| w.0 == term).map(|w| w.1).collect();
            if !places.is_empty() {
                all.push((doc.id, places));
            }
        }
        all.sort_unstable();
        all
    };
    for order in orders() {
        let config = BuildConfig { positions: true, ..order };
        let fixture = Fixture::with(&docs(0, 250), config.clone());
        fixture.add(&docs(250, 400)).unwrap();
        fixture.delete(&(0..7).map(|id| id.to_string()).collect::<Vec<_>>()).unwrap();
        let check = || {
            let snapshot = fixture.snapshot();
            for (term, word) in
                [("pie", "pie"), ("appl", "apple"), ("tart", "tart"), ("n37", "n37")]
            {
                assert_eq!(places(&snapshot, term.as_bytes()), expected(word), "{word}");
            }
            let found = verify(&fixture.dir(), &Progress::default()).unwrap();
            assert!(found.problems.is_empty(), "{:?}", found.problems);
        };
        check();
        for reorder in [true, false] {
            let config = MergeConfig { threads: 2, reorder, memory: 1 << 20 };
            merge(&fixture.dir(), &config, &Progress::default()).unwrap();
            check();
        }
    }
}

#[test]
fn a_merge_writes_what_a_build_writes() {
    let merged = Fixture::with(&docs(0, 100), with_positions());
    merged.add(&docs(100, 300)).unwrap();
    merge(&merged.dir(), &MergeConfig::default(), &Progress::default()).unwrap();
    let built = Fixture::with(&docs(0, 300), with_positions());
    let one_file = |fixture: &Fixture| {
        let files = file_bytes(&fixture.dir()).into_iter();
        let mut files = files.filter(|(name, _)| name.ends_with(".pos"));
        let file = files.next().unwrap();
        assert!(files.next().is_none());
        file.1
    };
    assert!(one_file(&merged) == one_file(&built));
}

#[test]
fn fields_have_positions_of_their_own() {
    let text = r#"{"text": [{"name": "title", "analyzer": "plain"}, {"name": "body", "source": "text", "analyzer": "plain", "positions": true}]}"#;
    let schema = Arc::new(Schema::parse(text).unwrap());
    let mut config = build_config();
    config.reader.schema = Some(schema.clone());
    let fixture = Fixture::with(&docs(0, 20), config.clone());
    let snapshot = fixture.snapshot();
    assert_eq!(snapshot.manifest().positioned(), [false, true]);
    let segment = &snapshot.segments()[0];
    let info = |key: &[u8]| segment.dictionary().find(key).unwrap().unwrap();
    assert!(segment.positions(&info(b"\x00orchard")).unwrap().is_none());
    // The title is another field, so the text begins at 0.
    assert!(places(&snapshot, b"\x01apple").iter().all(|(_, places)| *places == [0]));
    // With the option, all text fields have positions.
    let all = Fixture::with(&docs(0, 20), BuildConfig { positions: true, ..config.clone() });
    assert_eq!(all.snapshot().manifest().positioned(), [true, true]);
    // The settings of existing fields cannot be changed.
    let changed = Arc::new(schema.with_positions());
    assert!(changed.extends(&schema).is_err());
    // A field that is added later may have positions or not.
    for positions in [true, false] {
        let first = r#"{"text": [{"name": "title", "analyzer": "plain"}]}"#;
        let mut longer = Schema::parse(first).unwrap().config().clone();
        let mut field = schema.text()[1].clone();
        field.positions = positions;
        longer.text.push(field);
        config.reader.schema = Some(Arc::new(Schema::parse(first).unwrap()));
        let input = tempfile::tempdir().unwrap();
        let fixture = Fixture::with(&docs(0, 20), config.clone());
        let lines: String = docs(20, 40).iter().map(|doc| doc.to_json() + "\n").collect();
        let file = input.path().join("docs.jsonl");
        std::fs::write(&file, lines).unwrap();
        let mut config = build_config();
        config.reader.schema = Some(Arc::new(Schema::new(longer).unwrap()));
        warpseek_index::add(&fixture.dir(), &[file], &config, &Progress::default()).unwrap();
        let has = |segment: usize| {
            let manifest = read_manifest(&fixture.dir()).unwrap();
            manifest.segments[segment].files.contains_key(Kind::Positions.name())
        };
        assert_eq!((has(0), has(1)), (false, positions));
        merge(&fixture.dir(), &MergeConfig::default(), &Progress::default()).unwrap();
        assert_eq!(has(0), positions);
        assert!(verify(&fixture.dir(), &Progress::default()).unwrap().problems.is_empty());
        if positions {
            assert_eq!(places(&fixture.snapshot(), b"\x01apple").len(), 20);
        }
    }
}

#[test]
fn what_has_no_positions_is_refused() {
    let refused = |config: BuildConfig, doc: Doc| {
        let fixture = Fixture::empty(config);
        fixture.create(&[doc]).unwrap_err()
    };
    let text = || Doc::text(0, "apple");
    let quantized = BuildConfig { impacts: Some(Impacts::new(0.9, 0.4)), ..with_positions() };
    assert!(matches!(refused(quantized, text()), IndexError::Positions { .. }));
    let grams = BuildConfig { grams: Some(GramConfig::default()), ..with_positions() };
    assert!(matches!(refused(grams, text()), IndexError::Positions { .. }));
    let vector = Doc::vector(0, &[("a", 1.0)]);
    let error = refused(with_positions(), vector.clone());
    assert!(matches!(error, IndexError::PositionsOfVector { .. }), "{error}");
    // An empty index takes text and vectors, but not with positions.
    let fixture = Fixture::with(&[], with_positions());
    assert!(matches!(fixture.add(&[vector]), Err(IndexError::PositionsOfVector { .. })));
    fixture.add(&[text()]).unwrap();
    assert_eq!(places(&fixture.snapshot(), b"appl"), [("0".to_owned(), vec![0])]);
}

#[test]
fn small_memory_spills_positions_too() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("docs.jsonl");
    let lines: String = (0..6000)
        .map(|i| {
            Doc::text(i, format!("{} u{i}x{}", "apple pie ".repeat(100), i * 7)).to_json() + "\n"
        })
        .collect();
    std::fs::write(&file, lines).unwrap();
    let config = |memory, threads| BuildConfig { memory, threads, ..with_positions() };
    let build = |name: &str, config: BuildConfig| {
        let index = dir.path().join(name);
        let report =
            create(&index, std::slice::from_ref(&file), &config, false, &Progress::default())
                .unwrap();
        let mut files = file_bytes(&index);
        files.remove("lock");
        (report.runs, files)
    };
    let (few, once) = build("large", config(1 << 30, 1));
    let (many, often) = build("small", config(1, 3));
    assert!(few == 1 && many > 1, "{few} and {many} runs");
    assert!(once == often);
}
