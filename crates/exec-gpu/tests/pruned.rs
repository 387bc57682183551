//! WAND and MaxScore on compressed lists.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashMap;
use std::sync::Arc;

use support::devices;
use warpseek_exec::{Answer, Engine, Mode, Plan, Planner, Query, Ranking, Reference};
use warpseek_exec_gpu::image::compressed::CODECS;
use warpseek_exec_gpu::pruned::{
    Batch, Partitioning, PrunedEngine, PrunedSettings, Pruning, Threshold,
};
use warpseek_index::Snapshot;
use warpseek_testkit::conformance;

/// One of all combinations of what gives the same hits, with partitions so small that small indexes have many.
fn settings(pruning: Pruning, turn: usize) -> PrunedSettings {
    PrunedSettings {
        pruning,
        partition_size: Some([32, 7, 128][turn % 3]),
        per_block: [Some(2), None, Some(1)][turn / 3 % 3],
        threshold: Threshold::ALL[turn / 2 % 3],
        batch: Batch::ALL[usize::from(turn % 5 == 4)],
        codec: CODECS[turn % CODECS.len()],
        streams: 3,
        round: 50,
        ..PrunedSettings::default()
    }
}

fn engine(pruning: Pruning, snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    // One device of the emulator runs everything forwards, the other backwards.
    let mut devices = devices();
    let device = devices.remove(threads % devices.len());
    let settings = settings(pruning, snapshot.doc_limit() as usize + threads);
    Box::new(PrunedEngine::new(snapshot, device, settings, threads).unwrap())
}

fn wand(snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    engine(Pruning::Wand, snapshot, threads)
}

fn maxscore(snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    engine(Pruning::MaxScore, snapshot, threads)
}

conformance!(gpu_wand, wand);
conformance!(gpu_maxscore, maxscore);
