//! Searches that are stopped, on the emulator or on a GPU (see `support`).

#![allow(clippy::unwrap_used)]

#[path = "support/stopped.rs"]
mod stopped;
#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::time::Duration;

use support::devices;
use warpseek_exec::{Context, Engine, Mode, Plan};
use warpseek_exec_gpu::{GpuEngine, Settings};

const MODES: [Mode; 3] = [Mode::Or, Mode::And, Mode::AndOr];

/// Settings with rounds of two queries.
const SMALL: Settings =
    Settings { tile_bits: 5, or_bits: 8, and_bits: 10, round: 2, ..Settings::USUAL };

#[test]
fn queries_are_answered_as_a_whole_or_not_at_all() {
    let (_fixture, snapshot, plans) = stopped::case(&MODES);
    for device in devices() {
        for (pruned, in_flight) in [(true, 1), (true, 3), (false, 1), (false, 3)] {
            let settings = Settings { pruned, in_flight, ..SMALL };
            let engine = GpuEngine::new(snapshot.clone(), device.clone(), settings).unwrap();
            let trivial = stopped::check(&engine, &snapshot, &plans, in_flight == 1);
            // No hits are requested, or a term is in no document.
            let asks = |plan: &&Plan| {
                (plan.k > 0 || plan.count) && (plan.mode != Mode::And || !plan.lacks_terms())
            };
            assert_eq!(trivial, plans.len() - plans.iter().filter(asks).count());
        }
    }
}

/// Checks that not even the copy of the index begins if the deadline has passed.
#[test]
fn no_index_is_copied_too_late() {
    let (_fixture, snapshot, plans) = stopped::case(&MODES);
    let batch: Vec<&Plan> = plans.iter().collect();
    for device in devices() {
        let engine = GpuEngine::new(snapshot.clone(), device, SMALL).unwrap();
        let before = engine.device().memory().current;
        let answers = engine.search(&batch, &Context::new(1).within(Duration::ZERO));
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(
            (engine.loading().postings(), engine.device().memory().current),
            ((0, 0), before)
        );
    }
}
