//! Tests that the GPU finds the hits of the CPU, on the emulator or on a GPU (see `support`).

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use proptest::prelude::*;
use support::{devices, devices_within};
use warpseek_codec::CodecId;
use warpseek_exec::Context;
use warpseek_index::{BuildConfig, Progress, Snapshot, StoreMode, create_from_reader, delete};
use warpseek_ngram::{Algorithm, Division, GpuSearcher, GpuSettings, Misses, Query, Searcher};
use warpseek_text::{GramConfig, OwnedDocument, Reader, ReaderConfig};

/// Settings so small that small indexes have many ranges, and some queries too many candidates.
const SMALL: GpuSettings = GpuSettings { round: 5, range_bits: 8, room: 3000, most_of_query: 150 };

/// Generates words of few letters, so that n-grams repeat.
fn texts(documents: usize, words: usize) -> impl Strategy<Value = Vec<String>> {
    let word = prop_oneof!["[a-d]{1,6}", "[a-d]{1,6}", "[東京都の]{1,4}"];
    let text = proptest::collection::vec(word, 0..words).prop_map(|words| words.join(" "));
    proptest::collection::vec(text, documents)
}

fn searcher(
    dir: &std::path::Path,
    texts: &[String],
    grams: GramConfig,
    codec: CodecId,
) -> Searcher {
    let documents: Vec<OwnedDocument> =
        (0..).zip(texts).map(|(i, text)| OwnedDocument::new(format!("{i}"), "", text)).collect();
    let reader = Reader::of_documents(documents, ReaderConfig::default()).unwrap();
    let config = BuildConfig {
        grams: Some(grams),
        codec: Some(codec),
        store: StoreMode::Ids,
        threads: 1,
        ..BuildConfig::default()
    };
    create_from_reader(dir, reader, &config, true, &Progress::default()).unwrap();
    let gone: Vec<String> = (0..texts.len()).step_by(7).map(|i| i.to_string()).collect();
    delete(dir, &gone, 1, &Progress::default()).unwrap();
    Searcher::new(Arc::new(Snapshot::open(dir).unwrap())).unwrap()
}

/// Generates parts of texts, some with a letter changed.
fn queries(
    searcher: &Searcher,
    texts: &[String],
    picks: &[(usize, usize, usize, u32)],
) -> Vec<Query> {
    let query = |&(text, from, len, misses): &(usize, usize, usize, u32)| {
        let chars: Vec<char> = texts[text % texts.len()].chars().collect();
        let from = from % chars.len().max(1);
        let mut part: Vec<char> = chars.iter().copied().skip(from).take(len).collect();
        if let Some(c) = part.get_mut(len / 2) {
            *c = 'a';
        }
        let part: String = part.into_iter().collect();
        searcher.query(&part, Misses::Count(misses)).unwrap()
    };
    picks.iter().map(query).collect()
}

fn check(texts: &[String], grams: GramConfig, picks: &[(usize, usize, usize, u32)], k: usize) {
    for codec in [CodecId::Rice, CodecId::BitPack] {
        check_codec(texts, grams, codec, picks, k);
    }
}

fn check_codec(
    texts: &[String],
    grams: GramConfig,
    codec: CodecId,
    picks: &[(usize, usize, usize, u32)],
    k: usize,
) {
    let dir = tempfile::tempdir().unwrap();
    let cpu = searcher(dir.path(), texts, grams, codec);
    let queries = queries(&cpu, texts, picks);
    let context = Context::new(1);
    let want: Vec<_> = cpu
        .search_many(&queries, k, Algorithm::Bins, &context)
        .into_iter()
        .map(|answer| answer.unwrap().hits)
        .collect();
    for device in devices() {
        let roomy = GpuSettings { room: 1 << 16, most_of_query: 1 << 14, ..SMALL };
        // Queries compete for the memory of candidates.
        let crowded = GpuSettings { room: 200, ..SMALL };
        for settings in [SMALL, roomy, crowded] {
            let gpu = GpuSearcher::new(cpu.clone(), device.clone(), settings).unwrap();
            for algorithm in Algorithm::ALL {
                let found = gpu.search_many(&queries, k, algorithm, &context);
                let found: Vec<_> = found.into_iter().map(|answer| answer.unwrap().hits).collect();
                assert_eq!(found, want, "{codec} {settings:?} {algorithm}");
            }
            for division in [Division::CpuGathers, Division::GpuGathers] {
                for (query, want) in queries.iter().zip(&want) {
                    let found = gpu.search_divided(query, k, division, &context).unwrap();
                    assert_eq!(found.hits, *want, "{codec} {settings:?} {division:?}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn hits_are_those_of_the_cpu(
        texts in texts(700, 60),
        n in 2u32..5,
        segment_words in 1u32..10,
        parts: bool,
        picks in proptest::collection::vec((0usize..1000, 0usize..200, 0usize..60, 0u32..13), 12),
        k in prop_oneof![Just(1usize), Just(10), Just(100_000)],
    ) {
        let grams = GramConfig { n, segment_words, parts, ..GramConfig::default() };
        check(&texts, grams, &picks, k);
    }
}

/// Tests memory that is too small for all lists, and down to too small for those of one query.
#[test]
fn lists_that_have_no_room_come_with_queries() {
    let word = |i: usize| format!("{}{}", ["ka", "to", "ri", "su"][i % 4], i * i % 97);
    let texts: Vec<String> = (0..1500)
        .map(|doc| (0..40).map(|i| word(doc * 7 + i * i)).collect::<Vec<_>>().join(" "))
        .collect();
    let picks: Vec<_> = (0..12).map(|i| (i * 71, i * 5, 10 + i * 4, (i % 7) as u32)).collect();
    let dir = tempfile::tempdir().unwrap();
    for codec in [CodecId::Rice, CodecId::BitPack] {
        let cpu = searcher(dir.path(), &texts, GramConfig::default(), codec);
        let queries = queries(&cpu, &texts, &picks);
        let context = Context::new(2);
        let want =
            |query: &Query| cpu.search(query, 10, Algorithm::Counting, &context).unwrap().hits;
        let want: Vec<_> = queries.iter().map(want).collect();
        let device = devices().remove(0);
        let whole = GpuSearcher::new(cpu.clone(), device.clone(), SMALL).unwrap();
        assert!(whole.is_resident());
        let (all, lists) = (device.memory().current, whole.resident());
        let mut on_demand = 0;
        for eighths in [6, 5, 4, 3, 2] {
            let device = devices_within(Some(all - lists + lists * eighths / 8)).remove(0).unwrap();
            let gpu = GpuSearcher::new(cpu.clone(), device, SMALL).unwrap();
            // With less memory there are fewer candidates, too, so the size at which lists do not
            // fit is not known.
            on_demand += usize::from(!gpu.is_resident());
            for algorithm in Algorithm::ALL {
                let found = gpu.search_many(&queries, 10, algorithm, &context);
                let found: Vec<_> = found.into_iter().map(|answer| answer.unwrap().hits).collect();
                assert_eq!(found, want, "{codec}, {eighths} eighths, {algorithm}");
            }
            for division in [Division::CpuGathers, Division::GpuGathers] {
                let found = gpu.search_divided(&queries[3], 10, division, &context).unwrap();
                assert_eq!(found.hits, want[3], "{codec}, {eighths} eighths, {division:?}");
            }
        }
        assert!(on_demand >= 2, "{codec}: {on_demand}");
    }
}

/// Tests documents of more than 32 segments, lists of every form, and windows of many segments.
#[test]
fn long_documents_and_long_queries() {
    let word = |i: usize| {
        let i = (i as u32).wrapping_mul(2_654_435_761) >> 20;
        format!("{}{}", ["ka", "to", "ri", "su"][i as usize % 4], i % 97)
    };
    let texts: Vec<String> = (0..300)
        .map(|doc| {
            let words = [3, 40, 700][doc % 3];
            (0..words).map(|i| word(doc * 31 + i)).collect::<Vec<_>>().join(" ")
        })
        .collect();
    let picks: Vec<_> = (0..30).map(|i| (i * 7, i * 13, 10 + i * 9, (i % 13) as u32)).collect();
    for parts in [false, true] {
        let grams = GramConfig { segment_words: 3, parts, ..GramConfig::default() };
        check(&texts, grams, &picks, 10);
    }
}

/// Tests enough documents for lists of several blocks that are not dense, and of more than 16
/// blocks.
#[test]
fn lists_of_many_blocks() {
    let mut state = 1u64;
    let mut next = move |bound: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    // Some letters are far rarer than others.
    let mut word = || {
        let len = 2 + next(6);
        let letter = |_| char::from(b'a' + (next(27).min(next(27)).min(next(27))) as u8 % 26);
        (0..len).map(letter).collect::<String>()
    };
    let texts: Vec<String> =
        (0..30_000).map(|_| (0..12).map(|_| word()).collect::<Vec<_>>().join(" ")).collect();
    let picks: Vec<_> = (0..60).map(|i| (i * 401, i * 3, 8 + i, (i % 7) as u32)).collect();
    check(&texts, GramConfig { segment_words: 2, ..GramConfig::default() }, &picks, 10);
}

/// Tests segments of one to nine documents, where a list has no bitmap or every list may be
/// dense, with maps and, where every document has one segment, without.
#[test]
fn few_documents() {
    for documents in 1..=9 {
        let text = |i: usize| format!("alpha {} beta gamma {}", i * 7 % 5, "delta ".repeat(i % 3));
        let texts: Vec<String> = (0..documents).map(text).collect();
        let picks: Vec<_> = (0..12).map(|i| (i, i, 4 + i, (i % 5) as u32)).collect();
        for segment_words in [2, 100] {
            check(&texts, GramConfig { segment_words, ..GramConfig::default() }, &picks, 3);
        }
    }
}

/// Tests queries for no hits, for more than there are, and with so many misses that scores have
/// more levels than are distinguished, or that counting has no benefit.
#[test]
fn unusual_numbers() {
    let text = |i: usize| {
        let word = |j: usize| format!("w{}", (i * 31 + j * 17) % 211);
        (0..60).map(word).collect::<Vec<_>>().join(" ")
    };
    let texts: Vec<String> = (0..80).map(text).collect();
    let picks: Vec<_> =
        [0, 12, 40, 100, 126, 127, 128, 150, 400].map(|misses| (3, 0, 170, misses)).to_vec();
    for k in [0, 10] {
        check(&texts, GramConfig { segment_words: 3, ..GramConfig::default() }, &picks, k);
    }
    // This is more lists than a byte counts.
    let long: Vec<_> = (0..4).map(|i| (i, 0, 2000, 300)).collect();
    check(&texts, GramConfig { n: 4, ..GramConfig::default() }, &long, 5);
}
