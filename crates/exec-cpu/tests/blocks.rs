//! AND decodes no more blocks than (Ding 2009, section 8.1) allows (see `testkit::blocks`).

use std::sync::Arc;

use warpseek_exec::Engine;
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_index::Snapshot;
use warpseek_testkit::blocks;

fn engine(snapshot: Arc<Snapshot>, _threads: usize) -> Box<dyn Engine> {
    Box::new(CpuEngine::new(snapshot, Some(Algorithm::Daat)))
}

#[test]
fn blocks_are_skipped_on_random_lists() {
    blocks::check_random_lists(engine);
}

#[test]
fn blocks_are_skipped_on_real_lists() {
    blocks::check_real_lists(engine);
}
