//! AND on compressed lists: the suite of all engines, and requirement D6: as many blocks are decoded as on the CPU.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use support::devices;
use warpseek_codec::CodecId;
use warpseek_exec::{Answer, Engine, ExecError, Mode, Plan, Planner, Query, Ranking, Reference};
use warpseek_exec_gpu::IntersectEngine;
use warpseek_exec_gpu::image::compressed::CODECS;
use warpseek_index::Snapshot;
use warpseek_testkit::conformance::{check_collections, check_fixed_cases, check_random_cases};

/// The engine for AND; what it does not claim to answer goes to the reference.
struct WithReference(IntersectEngine, Reference);

impl Engine for WithReference {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn set_threads(&mut self, threads: usize) {
        self.0.set_threads(threads);
    }

    fn search(&self, plans: &[Plan]) -> Result<Vec<Answer>, ExecError> {
        let (and, others): (Vec<Plan>, Vec<Plan>) =
            plans.iter().cloned().partition(|plan| plan.mode == Mode::And);
        let (mut and, mut others) =
            (self.0.search(&and)?.into_iter(), self.1.search(&others)?.into_iter());
        let next = |plan: &Plan| match plan.mode {
            Mode::And => and.next(),
            _ => others.next(),
        };
        Ok(plans.iter().filter_map(next).collect())
    }
}

fn engine(snapshot: Arc<Snapshot>, threads: usize, codec: Option<CodecId>) -> Box<dyn Engine> {
    let mut devices = devices();
    let device = devices.remove(threads % devices.len());
    let reference = Reference::new(snapshot.clone(), threads);
    Box::new(WithReference(
        IntersectEngine::new(snapshot, device, codec, threads).unwrap(),
        reference,
    ))
}

#[test]
fn fixed_cases() {
    check_fixed_cases(|snapshot, threads| engine(snapshot, threads, None));
}

/// The device has the index's codec, or bit packing in its place.
#[test]
fn random_cases() {
    check_random_cases(|snapshot, threads| engine(snapshot, threads, None));
}

#[test]
fn shared_collections() {
    check_collections(|snapshot, threads| engine(snapshot, threads, None));
}
