//! The conformance suite of all engines, on the emulator or on a GPU (see `support`).

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use support::devices;
use warpseek_exec::Engine;
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_index::Snapshot;
use warpseek_testkit::conformance;

/// Tiles and blocks so small that small indexes have many of them.
const SMALL: Settings =
    Settings { tile_bits: 5, or_bits: 8, and_bits: 10, round: 50, ..Settings::USUAL };

fn engine(snapshot: Arc<Snapshot>, threads: usize, settings: Settings) -> Box<dyn Engine> {
    // One device of the emulator runs everything forwards, the other backwards.
    let mut devices = devices();
    let device = devices.remove(threads / 2 % devices.len());
    Box::new(GpuEngine::new(snapshot, device, settings).unwrap())
}

fn pruned(snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    engine(snapshot, threads, SMALL)
}

fn exhaustive(snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    engine(snapshot, threads, Settings { pruned: false, ..SMALL })
}

conformance!(pruned_tiles, pruned);
conformance!(all_tiles, exhaustive, cases alone);
