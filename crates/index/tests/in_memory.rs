//! Tests of segments in memory, which have the bytes of segments on disk and give the same
//! answers.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::sync::Arc;

use warpseek_codec::CodecId;
use warpseek_index::container::{Kind, SealedFile};
use warpseek_index::{
    BuildConfig, Impacts, IndexError, Segment, SegmentBuilder, Snapshot, StoreMode, read_manifest,
};
use warpseek_testkit::{Doc, ExternalHit, Fixture, Search, build_config, external_hits, plans};
use warpseek_text::Document;

fn docs(from: usize, to: usize) -> Vec<Doc> {
    let text = |i| format!("apple {} number {i} of {}", "pie ".repeat(i % 5), i % 7);
    (from..to).map(|i| Doc::text(i, text(i))).collect()
}

fn hits(snapshot: &Arc<Snapshot>) -> Vec<Vec<ExternalHit>> {
    let searches = [Search { k: 1000, ..Search::of(&["appl", "pie"]) }, Search::of(&["3", "5"])];
    let plans = plans(snapshot, &searches);
    let answers = warpseek_testkit::expected(snapshot, &plans);
    plans.iter().zip(&answers).map(|(plan, a)| external_hits(snapshot, plan, a)).collect()
}

/// Adds documents to a fixture on disk and to its snapshot in memory.
fn both(config: BuildConfig, first: &[Doc], more: &[Doc]) -> (Fixture, Arc<Snapshot>, Segment) {
    let fixture = Fixture::with(first, config);
    let before = fixture.snapshot();
    let mut manifest = before.manifest().clone();
    let mut builder = SegmentBuilder::new(&manifest).unwrap();
    for (ordinal, doc) in (0..).zip(more) {
        let json = doc.to_json();
        let document = Document::from_json(&json, manifest.vector_scale).unwrap();
        assert_eq!(builder.add(&document).unwrap(), ordinal);
    }
    let (entry, segment) = builder.finish(before.doc_limit(), 2).unwrap().unwrap();
    manifest.segments.push(entry);
    let mut segments = before.segments().to_vec();
    segments.push(Arc::new(segment.with(segment.base(), None)));
    let snapshot = Snapshot::of(&fixture.dir(), manifest, segments).unwrap();
    fixture.add(more).unwrap();
    (fixture, Arc::new(snapshot), segment)
}

#[test]
fn a_segment_in_memory_has_the_bytes_of_one_on_disk() {
    let quantized = Some(Impacts::new(0.9, 0.4));
    let configs = [
        build_config(),
        BuildConfig { store: StoreMode::Ids, ..build_config() },
        BuildConfig { codec: Some(CodecId::Rice), ..build_config() },
        BuildConfig { positions: true, ..build_config() },
        BuildConfig { impacts: quantized, ..build_config() },
    ];
    for config in configs {
        let (keeps_all, config_positions) = (config.store == StoreMode::All, config.positions);
        let (fixture, snapshot, segment) = both(config, &docs(0, 50), &docs(50, 350));
        let on_disk = fixture.snapshot();
        assert_eq!(snapshot.manifest().segments, on_disk.manifest().segments);
        assert_eq!(hits(&snapshot), hits(&on_disk));
        let copies = tempfile::tempdir().unwrap();
        let mut kinds = Vec::new();
        for (kind, file) in segment.files() {
            let name = file.path().file_name().unwrap();
            file.copy_to(&copies.path().join(name)).unwrap();
            let [copy, original] = [copies.path().join(name), fixture.dir().join(name)]
                .map(|path| fs::read(path).unwrap());
            assert!(copy == original, "{}", name.display());
            kinds.push(kind);
        }
        let positions = config_positions.then_some(Kind::Positions);
        let own = Kind::SEGMENT[..if keeps_all { 5 } else { 4 }].iter().copied();
        assert!(kinds.into_iter().eq(own.chain(positions)));
    }
}

#[test]
fn vectors_are_built_in_memory_too() {
    let vector = |i: usize| {
        let tokens = [("a", 0.5), ("b", i as f64), (["x", "y"][i % 2], 2.0)];
        Doc::vector(i, &tokens)
    };
    let (first, more): (Vec<_>, Vec<_>) =
        ((0..5).map(vector).collect(), (5..80).map(vector).collect());
    let (fixture, snapshot, _) = both(build_config(), &first, &more);
    assert_eq!(snapshot.manifest().segments, fixture.snapshot().manifest().segments);
}

#[test]
fn a_builder_without_documents_makes_no_segment() {
    let fixture = Fixture::of(&docs(0, 3));
    let builder = SegmentBuilder::new(&read_manifest(&fixture.dir()).unwrap()).unwrap();
    assert!(builder.finish(3, 1).unwrap().is_none());
}

#[test]
fn files_must_be_those_of_the_entry() {
    let fixture = Fixture::of(&docs(0, 30));
    // One more document, so that every file differs.
    let other = Fixture::of(&docs(30, 61));
    let manifest = read_manifest(&fixture.dir()).unwrap();
    let entry = &manifest.segments[0];
    for wrong in Kind::SEGMENT.into_iter().filter(|kind| entry.files.contains_key(kind.name())) {
        let open = |kind: Kind| {
            let from = if kind == wrong { &other } else { &fixture };
            SealedFile::open(&from.dir().join(format!("000001.{}", kind.name())), kind)
        };
        let error = Segment::from_files(&manifest, entry, 0, open).err().unwrap();
        assert!(
            matches!(&error, IndexError::Corrupt { path, .. } if path.ends_with(format!("000001.{}", wrong.name()))),
            "{error}"
        );
    }
}

#[test]
fn deletions_belong_to_one_view_of_a_segment() {
    let fixture = Fixture::of(&docs(0, 30));
    let all = fixture.snapshot();
    fixture.delete(&["3".into(), "4".into()]).unwrap();
    let fewer = fixture.snapshot();
    let deletes = fewer.segments()[0].deletes().cloned();
    let view = Arc::new(all.segments()[0].with(0, deletes));
    let again = Snapshot::of(&fixture.dir(), fewer.manifest().clone(), vec![view]).unwrap();
    assert_eq!(hits(&Arc::new(again)), hits(&fewer));
    assert_ne!(hits(&all), hits(&fewer));
}

#[test]
#[should_panic(expected = "deletions of segment 1")]
fn a_snapshot_has_the_deletions_of_its_manifest() {
    let fixture = Fixture::of(&docs(0, 30));
    let segments = fixture.snapshot().segments().to_vec();
    fixture.delete(&["3".into()]).unwrap();
    let _ = Snapshot::of(&fixture.dir(), read_manifest(&fixture.dir()).unwrap(), segments);
}
