//! Compares the bytes that kernels count with those that follow from reading their sources.

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::sync::Arc;

use support::{devices, on_gpu};
use warpseek_exec::{Context, Mode, Plan, Planner, Query, Ranking};
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_exec_gpu_papers::CountedEngine;
use warpseek_index::Snapshot;
use warpseek_testkit::{Doc, Fixture, expected};

const LANES: u64 = 32;

/// Sizes of structures in `tiles.cuh`.
const ITEM: u64 = 16;
const QUERY: u64 = 64;
const TERM: u64 = 80;

const POSTINGS: u64 = 100;

fn plan(snapshot: &Arc<Snapshot>, text: &str, mode: Mode) -> Plan {
    let manifest = snapshot.manifest();
    let planner = Planner::new(snapshot.clone(), Ranking::suited(manifest)).unwrap();
    let query = Query::parse(text, manifest.analyzer, manifest.content).unwrap();
    planner.plan(&query, mode, 1).unwrap()
}

/// Returns the bytes moved by each kernel, for a query whose hits equal the reference's.
fn moved(
    engine: &CountedEngine,
    snapshot: &Arc<Snapshot>,
    text: &str,
    mode: Mode,
) -> HashMap<String, u64> {
    let plans = [plan(snapshot, text, mode)];
    engine.take_moved().unwrap();
    let answer = engine.search(&[&plans[0]], &Context::new(1)).remove(0).unwrap();
    assert_eq!(answer.hits, expected(snapshot, &plans)[0].hits);
    let moved = engine.take_moved().unwrap();
    assert!(engine.take_moved().unwrap().iter().all(|(_, bytes)| *bytes == 0), "counted twice");
    moved.into_iter().map(|(name, bytes)| (name.to_string(), bytes)).collect()
}

/// Returns the bytes that the single warp of `or_tiles` moves to score every one of 100
/// documents, for a query whose lists contain all of them. Four tiles of 32 are processed at once.
fn or_tiles(lists: u64) -> u64 {
    let begin = LANES * (ITEM + QUERY) + lists * TERM;
    let rough = lists * (LANES * 4 + POSTINGS * (2 + 2));
    // Both ends, positions, and one value each, since all documents are candidates.
    let exact = lists * (LANES * (4 + 4) + POSTINGS * (2 + 4));
    // The threshold is written and read, one hit is written and counted.
    begin + rough + exact + (8 + 8) + (8 + 4)
}

/// Returns the bytes that the single warp of `and_tiles` moves for the same documents.
fn and_tiles(lists: u64) -> u64 {
    let begin = LANES * (ITEM + QUERY) + lists * TERM;
    // Both ends by one lane, positions for the bits, then positions and values of the matches.
    let lists = lists * ((4 + 4) + POSTINGS * (2 + 2 + 4));
    // The rest is as with OR, and matches are counted.
    begin + lists + (8 + 8) + (8 + 4) + 8
}

/// Runs all checks in a single test, because the emulator's counters belong to the process.
#[test]
fn every_byte_is_counted_once() {
    let docs: Vec<Doc> = (0..100).map(|i| Doc::text(i, "red green")).collect();
    let fixture = Fixture::of(&docs);
    let snapshot = fixture.snapshot();
    let exhaustive =
        Settings { tile_bits: 5, or_bits: 8, and_bits: 10, pruned: false, ..Settings::default() };
    for device in devices() {
        let engine = |settings| {
            let engine = GpuEngine::new(snapshot.clone(), device.clone(), settings).unwrap();
            CountedEngine::new(engine).unwrap()
        };
        let tiles = engine(exhaustive);
        for (text, lists, mode) in [
            ("red", 1, Mode::Or),
            ("red green", 2, Mode::Or),
            ("red", 1, Mode::And),
            ("red green", 2, Mode::And),
        ] {
            let moved = moved(&tiles, &snapshot, text, mode);
            let (here, other, expected) = match mode {
                Mode::And => (moved["and_tiles"], moved["or_tiles"], and_tiles(lists)),
                _ => (moved["or_tiles"], moved["and_tiles"], or_tiles(lists)),
            };
            assert_eq!((other, moved["pruned_tiles"]), (0, 0));
            if on_gpu() {
                // On a GPU, the kernels count sectors: fewer bytes if lanes read the same
                // address, more at the ends of runs.
                assert!(here.is_multiple_of(32) && here > lists * 8 * POSTINGS, "{here}");
                assert!(moved["merge"].is_multiple_of(32) && moved["merge"] > 0);
                continue;
            }
            assert_eq!(here, expected, "{mode} {text}");
            // The query, its threshold and both counts; one key read and one written.
            assert_eq!(moved["merge"], QUERY + 8 + 4 + 4 + 8 + 8, "{text}");
        }
        let pruned = moved(
            &engine(Settings { pruned: true, ..exhaustive }),
            &snapshot,
            "red green",
            Mode::Or,
        );
        assert_eq!((pruned["and_tiles"], pruned["or_tiles"]), (0, 0));
        // A single query merges its own hits.
        assert_eq!(
            (pruned["pruned_tiles"], pruned["pruned_single_two_pass"], pruned["merge"]),
            (0, 0, 0)
        );
        assert!(pruned["pruned_single"] > 0);
    }
}
