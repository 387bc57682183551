//! Tests that the GPU finds the best matches that the CPU and the whole table of distances find,
//! on the emulator or on a GPU (see `support`).

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use support::{devices, devices_within};
use warpseek_core::DocId;
use warpseek_exec::Context;
use warpseek_ngram::distance::Match;
use warpseek_ngram::verify::{Pair, best_matches};
use warpseek_ngram::{GpuVerifier, MOST_LETTERS, VerifyCounts, VerifySettings};

/// Returns settings so small that there are many rounds, launches and ranges, and texts displace
/// each other.
fn small() -> VerifySettings {
    let usual = VerifySettings::within(1 << 20);
    VerifySettings { chunk: 4096, chunks: 3, pairs: 7, range: 64, ..usual }
}

/// Computes the match by the definition: the whole table of distances, with the latest start of
/// each match beside it.
fn by_table(query: &str, text: &str) -> Match {
    let query: Vec<char> = query.chars().collect();
    let mut column: Vec<(u32, i64)> = (0..=query.len() as u32).map(|row| (row, 0)).collect();
    let mut best = (column[query.len()], 0);
    for (end, c) in text.chars().enumerate() {
        let mut before = column[0];
        column[0] = (0, -(end as i64 + 1));
        for row in 1..=query.len() {
            let plus = |(distance, start): (u32, i64), more| (distance + more, start);
            let replaced = plus(before, u32::from(query[row - 1] != c));
            before = column[row];
            column[row] = replaced.min(plus(column[row], 1)).min(plus(column[row - 1], 1));
        }
        if column[query.len()].0 < best.0.0 {
            best = (column[query.len()], end + 1);
        }
    }
    let ((distance, start), end) = best;
    Match { distance, start: -start as usize, end }
}

/// Compares all queries with all texts, on every device; every eleventh document cannot be read.
/// Returns the counts of the last device with usual settings.
fn check(queries: &[String], texts: &[String]) -> VerifyCounts {
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let pairs: Vec<Pair> = (0..queries.len() as u32)
        .flat_map(|query| (0..texts.len() as DocId).rev().map(move |doc| Pair { query, doc }))
        .collect();
    let text = |doc: DocId| (doc % 11 != 7).then(|| texts[doc as usize].clone());
    let read = |docs: &[DocId]| docs.iter().map(|&doc| text(doc)).collect::<Vec<_>>();
    let want: Vec<Option<Match>> = pairs
        .iter()
        .map(|pair| Some(by_table(queries[pair.query as usize], &text(pair.doc)?)))
        .collect();
    let context = Context::new(2);
    assert_eq!(best_matches(&queries, &pairs, &read, &context), want);
    let mut counts = VerifyCounts::default();
    for device in devices() {
        for settings in [small(), VerifySettings::within(8 << 20)] {
            let verifier = GpuVerifier::new(&device, Some(settings));
            // The second time, texts may be on the device already.
            for _ in 0..2 {
                let found = verifier.best_matches(&queries, &pairs, &read, &context).unwrap();
                for ((pair, found), want) in pairs.iter().zip(found).zip(&want) {
                    let (query, text) = (queries[pair.query as usize], &texts[pair.doc as usize]);
                    assert_eq!(found, *want, "{query:?} in {text:?}, {settings:?}");
                }
            }
            counts = verifier.counts();
        }
    }
    counts
}

/// Returns a letter of an alphabet: a mixture of ASCII, letters of two bytes, ideographs and
/// pictures, unless the alphabet is small.
fn letter(alphabet: u32, i: u32) -> char {
    match alphabet {
        ..=26 => char::from(b'a' + (i % alphabet) as u8),
        _ => {
            let firsts = [0x61, 0xe0, 0x4e00, 0x1f400];
            char::from_u32(firsts[i as usize % 4] + i / 4 % (alphabet / 4)).unwrap()
        }
    }
}

fn spell(alphabet: u32, letters: &[u32]) -> String {
    letters.iter().map(|&i| letter(alphabet, i)).collect()
}

/// A random text: letters, errors of the query in it, and a flag and a position for the query.
type Drawn = (Vec<u32>, Vec<(u32, u32)>, (bool, u32));

/// Generates numbers of letters, with a length in one of the ranges.
fn letters(lengths: [std::ops::Range<usize>; 3]) -> impl Strategy<Value = Vec<u32>> {
    let [a, b, c] = lengths.map(|lengths| proptest::collection::vec(any::<u32>(), lengths));
    prop_oneof![a, b, c]
}

/// Generates a query with some errors.
fn misspelt(query: &str, alphabet: u32, edits: &[(u32, u32)]) -> String {
    let mut letters: Vec<char> = query.chars().collect();
    for &(at, what) in edits {
        let at = at as usize % (letters.len() + 1);
        match what % 3 {
            0 => letters.insert(at, letter(alphabet, what / 3)),
            1 if at < letters.len() => drop(letters.remove(at)),
            _ if at < letters.len() => letters[at] = letter(alphabet, what / 3),
            _ => {}
        }
    }
    letters.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn matches_are_those_of_the_table(
        alphabet in prop_oneof![2u32..=4, Just(26), 40u32..400],
        queries in proptest::collection::vec(
            letters([0..10, 10..70, 120..300]),
            1..6,
        ),
        texts in proptest::collection::vec(
            (
                letters([0..5, 0..400, 2000..4000]),
                proptest::collection::vec((any::<u32>(), any::<u32>()), 0..9),
                any::<(bool, u32)>(),
            ),
            1..8,
        ),
    ) {
        let queries: Vec<String> = queries.iter().map(|query| spell(alphabet, query)).collect();
        let text = |(i, (letters, edits, (has_query, at))): (usize, &Drawn)| {
            let mut text: Vec<char> = spell(alphabet, letters).chars().collect();
            if *has_query {
                let at = *at as usize % (text.len() + 1);
                text.splice(at..at, misspelt(&queries[i % queries.len()], alphabet, edits).chars());
            }
            text.into_iter().collect::<String>()
        };
        let texts: Vec<String> = texts.iter().enumerate().map(text).collect();
        check(&queries, &texts);
    }
}

/// Tests queries around every number of letters at which something changes, with 0 to 5 errors at
/// the beginning, in the middle and at the end of texts.
#[test]
fn queries_of_all_lengths() {
    let lengths = [1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1024, 1025];
    for alphabet in [26, 400] {
        let mut state = 7u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let mut some = |len: usize| (0..len).map(|_| next()).collect::<Vec<u32>>();
        let (mut queries, mut texts) = (Vec::new(), Vec::new());
        for (errors, len) in lengths.into_iter().enumerate() {
            let query = spell(alphabet, &some(len));
            let edits: Vec<_> = some(errors % 6).into_iter().zip(some(errors % 6)).collect();
            let (before, after) = match errors % 3 {
                0 => (some(0), some(90)),
                1 => (some(150), some(35)),
                _ => (some(70), some(0)),
            };
            let wrong = misspelt(&query, alphabet, &edits);
            texts.push(spell(alphabet, &before) + &wrong + &spell(alphabet, &after));
            queries.push(query);
        }
        // Each query is compared with its own text and two others, so that there are not too many
        // pairs for the emulator.
        for i in 0..queries.len() {
            let own = [i, (i + 1) % texts.len(), (i + 5) % texts.len()].map(|i| texts[i].clone());
            check(&queries[i..=i], &own);
        }
    }
}

/// Tests the longest query that the GPU takes, one that is longer, and texts around the largest
/// that fit in a chunk.
#[test]
fn what_is_too_long_is_left_to_the_cpu() {
    let ideographs = |from: u32, len: usize| -> String {
        (0..len as u32).map(|i| char::from_u32(0x4e00 + (from + i) % 5000).unwrap()).collect()
    };
    let queries: Vec<String> = [MOST_LETTERS - 1, MOST_LETTERS, MOST_LETTERS + 1]
        .map(|len| ideographs(0, len))
        .into_iter()
        .collect();
    let texts = vec![ideographs(2900, MOST_LETTERS + 200), ideographs(0, 5)];
    let counts = check(&queries, &texts);
    assert_eq!((counts.on_gpu, counts.on_cpu), (2 * 4, 2 * 2));

    let device = devices().remove(0);
    let verifier = GpuVerifier::new(&device, Some(small()));
    let texts: Vec<String> =
        [4095, 4096, 4097].map(|len| "ab c".repeat(1100)[..len].to_owned()).into();
    let read = |docs: &[DocId]| docs.iter().map(|&doc| Some(texts[doc as usize].clone())).collect();
    let pairs: Vec<Pair> = (0..3).map(|doc| Pair { query: 0, doc }).collect();
    let found = verifier.best_matches(&["bc c"], &pairs, &read, &Context::new(1)).unwrap();
    let want: Vec<_> = texts.iter().map(|text| Some(by_table("bc c", text))).collect();
    assert_eq!(found, want);
    let counts = verifier.counts();
    assert_eq!((counts.on_gpu, counts.on_cpu, counts.texts_read), (2, 1, 2));
}

/// Tests that texts stay on the device until memory runs out, and are read again then.
#[test]
fn texts_are_read_once_if_there_is_room() {
    let text = |doc: DocId| format!("{} acid of {doc} {}", "abc ".repeat(20), "äöü ".repeat(30));
    let reads = AtomicUsize::new(0);
    let read = |docs: &[DocId]| {
        reads.fetch_add(docs.len(), Ordering::Relaxed);
        docs.iter().map(|&doc| Some(text(doc))).collect::<Vec<_>>()
    };
    let queries = ["acid of 7", "abc acd of 19 ä"];
    let batch = |docs: std::ops::Range<DocId>| {
        docs.flat_map(|doc| [0, 1].map(|query| Pair { query, doc })).collect::<Vec<_>>()
    };
    let context = Context::new(2);
    let device = devices().remove(0);
    for chunks in [100, 3] {
        let settings = VerifySettings { chunks, pairs: 1000, ..small() };
        let verifier = GpuVerifier::new(&device, Some(settings));
        reads.store(0, Ordering::Relaxed);
        for _ in 0..2 {
            let pairs = batch(0..150);
            let found = verifier.best_matches(&queries, &pairs, &read, &context).unwrap();
            assert_eq!(
                found,
                best_matches(
                    &queries,
                    &pairs,
                    &|docs| docs.iter().map(|&d| Some(text(d))).collect(),
                    &context
                )
            );
        }
        let all = reads.load(Ordering::Relaxed);
        assert!(if chunks == 100 { all == 150 } else { all > 200 }, "{all} texts were read");
        // The texts that were read last are there in any case.
        let end = if chunks == 100 { 150 } else { all - 150 } as DocId;
        verifier.best_matches(&queries, &batch(end - 10..end), &read, &context).unwrap();
        assert_eq!(reads.load(Ordering::Relaxed), all);
        let counts = verifier.counts();
        assert_eq!(
            (counts.texts_read as usize, counts.texts_kept as usize),
            (all, 2 * (310 - all))
        );
        assert_eq!((counts.on_gpu, counts.on_cpu), (620, 0));
    }
}

/// Tests that without memory the CPU verifies, and the counts say so.
#[test]
fn without_memory_the_cpu_verifies() {
    let text = |doc: DocId| format!("flap {doc} damping");
    let read = |docs: &[DocId]| docs.iter().map(|&doc| Some(text(doc))).collect::<Vec<_>>();
    let pairs: Vec<Pair> = (0..50).map(|doc| Pair { query: 0, doc }).collect();
    let context = Context::new(1);
    let want = best_matches(&["flap 31 dam"], &pairs, &read, &context);
    let mut by_cpu = Vec::new();
    // The last one is too small for a chunk of texts beside the rest.
    let beside = devices().remove(0);
    let all = GpuVerifier::new(&beside, Some(VerifySettings::within(1 << 20)));
    all.best_matches(&["flap 31 dam"], &pairs, &read, &context).unwrap();
    let enough = beside.memory().current;
    for memory in [enough, enough - 1, 1 << 14, 0] {
        let device = devices_within(Some(memory)).remove(0).unwrap();
        let verifier = GpuVerifier::new(&device, Some(VerifySettings::within(1 << 20)));
        for _ in 0..2 {
            let found = verifier.best_matches(&["flap 31 dam"], &pairs, &read, &context).unwrap();
            assert_eq!(found, want, "{memory}");
        }
        let counts = verifier.counts();
        assert_eq!(counts.on_gpu + counts.on_cpu, 100);
        by_cpu.push(counts.on_cpu);
    }
    assert_eq!(by_cpu, [0, 100, 100, 100]);
}

/// Tests that all buffers together fit in the given memory.
#[test]
fn settings_follow_memory() {
    for memory in [0, 1, 1 << 20, 100 << 20, 30 << 30, u64::MAX] {
        let VerifySettings { chunk, chunks, pairs, tables, range } = VerifySettings::within(memory);
        assert!(chunk.is_multiple_of(8) && chunk <= 64 << 20 && chunks >= 1 && range > 0);
        assert!((1 << 10..=1 << 18).contains(&pairs) && tables <= 64 << 20);
        if memory >= 2 << 20 {
            assert!((chunk * chunks + tables + pairs * 96) as u64 <= memory, "{memory}");
        }
    }
}
