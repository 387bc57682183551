//! Tests of searches by the papers' engines that are stopped, on the emulator or on a GPU (see
//! `support`).

#![allow(clippy::unwrap_used)]

#[path = "../../exec-gpu/tests/support/stopped.rs"]
mod stopped;
#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use support::devices;
use warpseek_exec::Mode;
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_exec_gpu_papers::partitioned::{Batch, PartitionSettings, PartitionedEngine, Pruning};
use warpseek_exec_gpu_papers::{CohortEngine, CohortSettings, IntersectEngine};

const MODES: [Mode; 3] = [Mode::Or, Mode::And, Mode::AndOr];

#[test]
fn cohorts() {
    let (_fixture, snapshot, plans) = stopped::case(&MODES);
    for device in devices() {
        for in_flight in [1, 3] {
            let tiles = Settings { tile_bits: 5, in_flight, ..Settings::default() };
            let tiles = GpuEngine::new(snapshot.clone(), device.clone(), tiles).unwrap();
            let settings = CohortSettings { cohort: 2, tile: 300, micro_bits: 7, group: 2 };
            let engine = CohortEngine::new(Arc::new(tiles), settings).unwrap();
            stopped::check(&engine, &snapshot, &plans, in_flight == 1);
        }
    }
}

/// Tests AND-then-OR, which has two passes between which the search may stop.
#[test]
fn partitions() {
    let (_fixture, snapshot, plans) = stopped::case(&MODES);
    for device in devices() {
        for &pruning in Pruning::ALL {
            for &batch in Batch::ALL {
                let settings =
                    PartitionSettings { pruning, batch, round: 2, ..PartitionSettings::default() };
                let engine = PartitionedEngine::new(snapshot.clone(), device.clone(), settings);
                stopped::check(&engine.unwrap(), &snapshot, &plans, true);
            }
        }
    }
}

/// Tests rounds that are so large that these queries take one for each formula.
#[test]
fn intersection() {
    let (_fixture, snapshot, plans) = stopped::case(&[Mode::And]);
    for device in devices() {
        let engine = IntersectEngine::new(snapshot.clone(), device, None).unwrap();
        stopped::check(&engine, &snapshot, &plans, true);
    }
}
