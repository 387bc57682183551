//! Queries with very many terms: the engine finds the hits of the reference, up to the maximum
//! number of terms in a query, on every device, whatever its shared memory.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::sync::Arc;

use warpseek_core::limits::{MAX_IMPACT, MAX_QUERY_TERMS};
use warpseek_cuda::{Device, DeviceError};
use warpseek_cuda_emulator::{DEVICES, inject, symbol};
use warpseek_exec::{Mode, Query, Ranking, RankingFunction};
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_index::Snapshot;
use warpseek_testkit::{Doc, Fixture, Search, answers, expected, plans};

const SMALL: Settings =
    Settings { tile_bits: 5, or_bits: 8, and_bits: 10, round: 50, ..Settings::USUAL };

/// The scale of weights in an index of vectors.
const SCALE: f64 = 256.0;

fn word(i: usize) -> String {
    format!("w{i}")
}

/// Returns a query for any or all of the first `terms` words.
fn search(terms: usize, mode: Mode) -> Search {
    let terms = (0..terms).map(|i| (word(i), 1.0));
    let ranking = Ranking { function: RankingFunction::Impact, static_weight: 0.0 };
    Search { query: Query::of(terms), mode, k: 35, ranking }
}

fn check(snapshot: &Arc<Snapshot>, searches: &[Search]) {
    let plans = plans(snapshot, searches);
    let expected = expected(snapshot, &plans);
    for ordinal in 0..DEVICES {
        // SAFETY: the emulator's own function.
        let device = unsafe { Device::emulated(symbol, ordinal, None) }.unwrap();
        let engine = GpuEngine::new(snapshot.clone(), device, SMALL).unwrap();
        for (i, answer) in answers(&engine, &plans, 1).unwrap().iter().enumerate() {
            let (terms, mode) = (plans[i].terms.len(), plans[i].mode);
            assert_eq!(answer.hits, expected[i].hits, "{terms} terms, {mode}, device {ordinal}");
        }
    }
}

/// Covers lists with postings in every tile. With the largest rough unit, a posting adds three
/// units, or two if its value is small. 16 bits are full from 21,845 terms on, and with two small
/// values among 21,846 terms a 16-bit sum would be 0, which means no match.
#[test]
fn sums_of_many_terms() {
    const WORDS: usize = 21_846;
    let words: Vec<String> = (0..WORDS).map(word).collect();
    let most = f64::from(MAX_IMPACT) / SCALE;
    let doc = |i: usize| {
        let small = |j: usize| match i % 4 {
            0 => j == i || j == i + 100,
            1 => j == i,
            2 => j < 5000 + i,
            _ => false,
        };
        let weight = |j: usize| if small(j) { most / 3.0 } else { most };
        let has = |j: usize| i < 30 || j % 1000 != i;
        let weights: Vec<(&str, f64)> =
            (0..WORDS).filter(|&j| has(j)).map(|j| (&*words[j], weight(j))).collect();
        Doc::vector(i, &weights)
    };
    let fixture = Fixture::of(&(0..40).map(doc).collect::<Vec<_>>());
    let searches: Vec<Search> = [4096, 4097, 21_845, WORDS]
        .into_iter()
        .flat_map(|terms| [search(terms, Mode::Or), search(terms, Mode::And)])
        .collect();
    check(&fixture.snapshot(), &searches);
}

/// Covers lists of one document: their cursors do not fit into the shared memory of any GPU.
#[test]
fn short_lists_of_many_terms() {
    const DOCS: usize = 70;
    let doc = |i: usize| {
        let words: Vec<String> = (i..MAX_QUERY_TERMS).step_by(DOCS).map(word).collect();
        let weights: Vec<(&str, f64)> =
            words.iter().enumerate().map(|(j, w)| (&**w, 1.0 + (i * j % 19) as f64)).collect();
        Doc::vector(i, &weights)
    };
    let mut docs: Vec<Doc> = (0..DOCS).map(doc).collect();
    docs.push(Doc::vector("one", &[("w3", 2.0), ("w5", 1.0)]));
    let fixture = Fixture::of(&docs);
    let searches: Vec<Search> = [4096, 4097, MAX_QUERY_TERMS]
        .into_iter()
        .flat_map(|terms| [search(terms, Mode::Or), search(terms, Mode::AndOr)])
        .collect();
    check(&fixture.snapshot(), &searches);
}

/// Checks that the engine processes fewer documents at once on a GPU with little shared memory,
/// and that creating it fails on a GPU with too little.
#[test]
fn settings_shrink_to_the_available_shared_memory() {
    let docs: Vec<Doc> =
        (0..300).map(|i| Doc::vector(i, &[("w0", 1.0 + f64::from(i % 7))])).collect();
    let fixture = Fixture::of(&docs);
    let snapshot = fixture.snapshot();
    let engine = |settings: Settings| {
        // SAFETY: the emulator's own function.
        let device = unsafe { Device::emulated(symbol, 0, None) }.unwrap();
        GpuEngine::new(snapshot.clone(), device, settings)
    };
    let wide = Settings {
        tile_bits: 5,
        or_bits: 20,
        and_bits: 3,
        round: 0,
        in_flight: 0,
        pruned: false,
        ..Settings::USUAL
    };
    let sizes = |engine: GpuEngine| {
        let Settings { tile_bits, or_bits, and_bits, round, .. } = *engine.settings();
        (tile_bits, or_bits, and_bits, round)
    };
    assert_eq!(sizes(engine(wide).unwrap()), (5, 15, 10, 1));
    // Cursors of 4,096 terms and keys take 20 KiB, candidates some more.
    let injected = inject("shared=65536");
    let small = engine(wide).unwrap();
    let plans = plans(&snapshot, &[search(1, Mode::Or)]);
    let expected = expected(&snapshot, &plans);
    assert_eq!(answers(&small, &plans, 1).unwrap()[0].hits, expected[0].hits);
    assert_eq!(sizes(small), (5, 14, 10, 1));
    drop(injected);
    let _injected = inject("shared=16384");
    let error = engine(Settings::default()).err().unwrap();
    assert!(matches!(error, DeviceError::SharedMemory { most: 16_384, .. }), "{error}");
}
