//! Tests that indexes of every kind are the same from a GPU as from the CPU, byte for byte: fields
//! of a schema with different analyzers, positions, sparse vectors, n-grams.

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

mod builds;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use builds::{assert_equal, on_gpu};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::{devices, devices_within, on_gpu as on_real_gpu};
use warpseek_build_gpu::{GpuInverters, OnFailure};
use warpseek_cuda_emulator::inject;
use warpseek_index::{BuildConfig, Progress, StoreMode, add, create, verify};
use warpseek_testkit::skips::elsewhere;
use warpseek_text::{Analyzer, GramConfig, ReaderConfig, Schema, Unit};

/// All kinds of tokens, and attributes.
const SCHEMA: &str = r#"{
    "analyzers": {
        "folded": {"fold": true, "stop": ["und", "die"]},
        "grams": {"tokens": {"grams": {"least": 2, "most": 3}}},
        "upper": {"lower": false}
    },
    "text": [
        {"name": "title"},
        {"name": "body", "analyzer": "plain"},
        {"name": "german", "source": "body", "analyzer": "german"},
        {"name": "tag", "source": "tags", "analyzer": "keyword"},
        {"name": "raw", "source": "title", "analyzer": "raw"},
        {"name": "cjk", "source": "body", "analyzer": "cjk"},
        {"name": "folded", "source": "body", "analyzer": "folded"},
        {"name": "grams", "source": "title", "analyzer": "grams"},
        {"name": "upper", "source": "body", "analyzer": "upper"}
    ],
    "attributes": [
        {"name": "year", "type": "integer"},
        {"name": "tags", "type": "keyword", "many": true}
    ]
}"#;

fn config() -> BuildConfig {
    BuildConfig { store: StoreMode::Ids, threads: 2, ..BuildConfig::default() }
}

fn with_schema(json: &str) -> BuildConfig {
    let schema = Some(Arc::new(Schema::parse(json).unwrap()));
    BuildConfig { reader: ReaderConfig { schema, ..ReaderConfig::default() }, ..config() }
}

fn with_positions(config: BuildConfig) -> BuildConfig {
    BuildConfig { positions: true, ..config }
}

fn with_grams(grams: GramConfig) -> BuildConfig {
    BuildConfig { grams: Some(grams), ..config() }
}

fn write(dir: &Path, name: &str, records: &[Value]) -> PathBuf {
    let file = dir.join(name);
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    std::fs::write(&file, lines).unwrap();
    file
}

/// Builds on both and compares; then adds documents to both and compares again.
fn check(records: &[Value], config: &BuildConfig, batches: &[usize]) {
    let dir = tempfile::tempdir().unwrap();
    let (first, more) = records.split_at(records.len() * 2 / 3);
    let file = write(dir.path(), "first.jsonl", first);
    let more = write(dir.path(), "more.jsonl", more);
    let progress = Progress::default();
    let build = |dir: &Path, config: &BuildConfig| {
        let report = create(dir, std::slice::from_ref(&file), config, true, &progress).unwrap();
        // The index has its schema already.
        let adding = BuildConfig { reader: ReaderConfig::default(), ..config.clone() };
        add(dir, std::slice::from_ref(&more), &adding, &progress).unwrap();
        assert!(verify(dir, &progress).unwrap().problems.is_empty());
        (report.documents, report.tokens, report.terms, report.postings, report.notices)
    };
    let cpu = dir.path().join("cpu");
    let report = build(&cpu, config);
    for device in devices() {
        for &batch in batches {
            let gpu = dir.path().join("gpu");
            _ = std::fs::remove_dir_all(&gpu);
            assert_eq!(build(&gpu, &on_gpu(config, &device, batch)), report);
            assert_equal(&cpu, &gpu, &format!("batches of {batch}"));
        }
    }
}

/// Returns words that make long and short lists, in documents with and without all fields.
fn records(count: usize) -> Vec<Value> {
    let words = |i: usize, many: usize| -> String {
        let word = |j: usize| match (i * 7 + j * j) % 11 {
            0 => "die ".to_owned(),
            1 => format!("Word{} ", i * j % 97),
            2 => "Häuser Straße ".to_owned(),
            3 => "東京タワー ".to_owned(),
            4 => "don't_stop 3.14 ".to_owned(),
            5 => "the running dogs ".to_owned(),
            _ => format!("w{} ", j % 13),
        };
        (0..many).map(word).collect()
    };
    let record = |i: usize| {
        let mut record = json!({"id": i.to_string(), "year": 1900 + i % 150});
        if !i.is_multiple_of(5) {
            record["title"] = json!(words(i, i % 9));
        }
        match i % 4 {
            0 => record["body"] = json!([words(i, 3), words(i + 1, i % 60), ""]),
            1 => record["body"] = json!(words(i, i % 60)),
            _ => record["body"] = json!(words(i, 12)),
        }
        record["tags"] =
            json!((0..i % 3).map(|j| format!("Tag {}", i * j % 7)).collect::<Vec<_>>());
        record
    };
    (0..count).map(record).collect()
}

/// Returns documents for an index without a schema.
fn texts(count: usize) -> Vec<Value> {
    let text = |record: &Value| match &record["body"] {
        Value::Array(values) => values[1].clone(),
        value => value.clone(),
    };
    let title = |record: &Value| record["title"].as_str().unwrap_or("").to_owned();
    let all = records(count);
    all.iter().map(|r| json!({"id": r["id"], "title": title(r), "text": text(r)})).collect()
}

fn vectors(count: usize) -> Vec<Value> {
    let record = |i: usize| {
        let token =
            |j: usize| (format!("t {}\u{1e}é", i * j % 61), 0.1 + (i * j % 50) as f64 / 4.0);
        let mut vector: serde_json::Map<String, Value> =
            (0..i % 30).map(token).map(|(token, weight)| (token, json!(weight))).collect();
        vector.insert("always".to_owned(), json!(1.0 + (i % 40) as f64));
        vector.insert("x".repeat(255), json!(200.0));
        json!({"id": i.to_string(), "vector": if i % 17 == 3 { json!({}) } else { json!(vector) }})
    };
    (0..count).map(record).collect()
}

#[test]
fn fields_with_analyzers_of_their_own() {
    check(&records(400), &with_schema(SCHEMA), &[1 << 22, 3000, 50]);
    check(&records(30), &with_schema(r#"{"text": [{"name": "body"}]}"#), &[1 << 22, 100]);
    check(&[], &with_schema(SCHEMA), &[100]);
}

/// Tests that the device encodes blocks of lists with the lengths of their own fields.
#[test]
fn long_lists_in_several_fields() {
    let schema = r#"{"text": [{"name": "a"}, {"name": "b", "analyzer": "raw"}, {"name": "c"}]}"#;
    let record = |i: usize| {
        let words = |word: &str, times: usize| format!("{word} ").repeat(times);
        json!({"id": i.to_string(), "a": words("always", 1 + i % 40),
            "b": words("always", 40 - i % 40) + &words("Other", i % 3), "c": words("always", i % 2)})
    };
    let records: Vec<Value> = (0..1500).map(record).collect();
    check(&records, &with_schema(schema), &[1 << 22, 20_000]);
}

#[test]
fn positions() {
    for analyzer in [Analyzer::English, Analyzer::Raw] {
        let config = with_positions(BuildConfig { analyzer, ..config() });
        check(&texts(400), &config, &[1 << 22, 3000, 50]);
    }
    check(&records(250), &with_positions(with_schema(SCHEMA)), &[1 << 22, 5000]);
    let some =
        SCHEMA.replace(r#""analyzer": "plain"}"#, r#""analyzer": "plain", "positions": true}"#);
    check(&records(250), &with_schema(&some), &[1 << 22, 5000]);
    let long = json!({"id": "l", "text": "much text ".repeat(3000)});
    check(&[long.clone(), json!({"id": "m", "text": ""}), long], &with_positions(config()), &[500]);
}

#[test]
fn sparse_vectors() {
    check(&vectors(600), &config(), &[1 << 22, 4000, 30]);
    check(&vectors(600), &BuildConfig { norms: true, ..config() }, &[1 << 22]);
    check(&[json!({"id": "1", "vector": {}})], &config(), &[100]);
}

#[test]
fn n_grams() {
    let grams = GramConfig::default();
    check(&texts(200), &with_grams(grams), &[1 << 22, 3000, 50]);
    let words = GramConfig { unit: Unit::Word, n: 2, ..grams };
    check(&texts(200), &with_grams(words), &[1 << 22, 3000]);
    // Long documents have several parts.
    let parts = GramConfig { segment_words: 1, parts: true, ..grams };
    let long = |i: usize| json!({"id": i.to_string(), "text": "é long text ".repeat(i % 7 * 60)});
    check(&(0..40).map(long).collect::<Vec<_>>(), &with_grams(parts), &[1 << 22, 3000, 50]);
}

/// Tests runs on disk, other orders and little device memory.
#[test]
fn settings_of_builds_of_every_kind() {
    let kinds: [(Vec<Value>, BuildConfig); 4] = [
        (records(120), with_positions(with_schema(SCHEMA))),
        (texts(120), with_positions(config())),
        (vectors(120), config()),
        (texts(120), with_grams(GramConfig::default())),
    ];
    for (records, config) in kinds {
        check(&records, &BuildConfig { memory: 1, ..config.clone() }, &[1000]);
        if config.grams.is_none() {
            check(&records, &BuildConfig { reorder: true, ..config.clone() }, &[1000]);
        }
        let dir = tempfile::tempdir().unwrap();
        let (cpu, gpu) = (dir.path().join("cpu"), dir.path().join("gpu"));
        let file = [write(dir.path(), "docs.jsonl", &records)];
        let progress = Progress::default();
        create(&cpu, &file, &config, true, &progress).unwrap();
        let device = devices_within(Some(1 << 20)).remove(0).unwrap();
        create(&gpu, &file, &on_gpu(&config, &device, usize::MAX), true, &progress).unwrap();
        assert_equal(&cpu, &gpu, "1 MB");
    }
}

/// Tests that the CPU takes over with values and fields.
#[test]
fn a_gpu_that_fails_is_replaced_by_the_cpu() {
    if on_real_gpu() {
        return elsewhere("faults of a build on a GPU", "only the emulator can inject faults");
    }
    let kinds: [(Vec<Value>, BuildConfig); 4] = [
        (records(60), with_schema(SCHEMA)),
        (records(60), with_positions(with_schema(SCHEMA))),
        (vectors(60), config()),
        (texts(60), with_grams(GramConfig::default())),
    ];
    for (records, config) in kinds {
        let dir = tempfile::tempdir().unwrap();
        let (cpu, gpu) = (dir.path().join("cpu"), dir.path().join("gpu"));
        let file = [write(dir.path(), "docs.jsonl", &records)];
        let progress = Progress::default();
        create(&cpu, &file, &config, true, &progress).unwrap();
        let mut noticed = 0;
        for function in ["cuLaunchKernel", "cuMemcpyDtoHAsync_v2"] {
            for number in [1, 9, 60] {
                let _injected = inject(&format!("{function}@{number}=700!"));
                let device = devices_within(None).remove(0).unwrap();
                let inverters = GpuInverters::new(device, OnFailure::UseCpu).with_batches_of(2000);
                let inverter: Option<Arc<dyn warpseek_index::InverterFactory>> =
                    Some(Arc::new(inverters));
                let config = BuildConfig { inverter, ..config.clone() };
                // Segments of a replaced index are not numbered from the start.
                _ = std::fs::remove_dir_all(&gpu);
                let report = create(&gpu, &file, &config, true, &progress).unwrap();
                noticed += report.notices.len();
                assert_equal(&cpu, &gpu, &format!("{function}@{number}"));
            }
        }
        assert!(noticed > 2, "only {noticed} builds met a fault");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_documents(
        fields in prop::collection::vec(prop::collection::vec(
            "([a-cA-C0-2.':,;_ \t\n\u{1e}-]{0,20}|[éÉßİΣאבカ東ะः’'\u{a0}\u{300}\u{3000}😀 ]{0,6}|\\PC{0,4}){0,8}", 0..4), 0..25),
        batch in prop_oneof![1usize..300, Just(1 << 20)],
        kind in 0..5,
    ) {
        let record = |(i, values): (usize, &Vec<String>)| match kind {
            0 | 1 => json!({"id": i.to_string(), "title": values.first(), "body": values}),
            2 | 3 => json!({"id": i.to_string(), "title": values.first().cloned().unwrap_or_default(),
                "text": values.concat()}),
            _ => json!({"id": i.to_string(), "vector": values.iter().enumerate()
                .filter(|(_, value)| (1..=255).contains(&value.len()))
                .map(|(at, value)| (value.clone(), json!(at as f64 / 2.0)))
                .collect::<serde_json::Map<String, Value>>()}),
        };
        let records: Vec<Value> = fields.iter().enumerate().map(record).collect();
        let config = match kind {
            0 => with_schema(SCHEMA),
            1 => with_positions(with_schema(SCHEMA)),
            2 => with_positions(config()),
            3 => with_grams(GramConfig::default()),
            _ => config(),
        };
        check(&records, &config, &[batch]);
    }
}
