//! AND on compressed lists: the suite of all engines, and requirement D6: as many blocks are decoded as on the CPU.

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use support::devices;
use warpseek_codec::CodecId;
use warpseek_exec::{Answer, Engine, ExecError, Mode, Plan, Reference};
use warpseek_exec_gpu_papers::IntersectEngine;
use warpseek_exec_gpu_papers::compressed::CODECS;
use warpseek_index::Snapshot;
use warpseek_testkit::blocks;
use warpseek_testkit::conformance::{
    check_collections, check_fixed_cases, check_random_cases, check_snapshot, part_of,
};
use warpseek_testkit::{Doc, Fixture, Search};

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
    let device = devices.remove(threads / 2 % devices.len());
    let reference = Reference::new(snapshot.clone(), threads);
    Box::new(WithReference(
        IntersectEngine::new(snapshot, device, codec, threads).unwrap(),
        reference,
    ))
}

#[test]
fn fixed_cases() {
    check_fixed_cases(|snapshot, threads| engine(snapshot, threads, None), part_of(1, 1));
}

/// The device has the index's codec, or bit packing in its place.
#[test]
fn random_cases() {
    check_random_cases(|snapshot, threads| engine(snapshot, threads, None), part_of(1, 1));
}

#[test]
fn blocks_of_random_lists() {
    blocks::check_random_lists(|snapshot, threads| engine(snapshot, threads, None));
}

#[test]
fn blocks_of_real_lists() {
    blocks::check_real_lists(|snapshot, threads| engine(snapshot, threads, None));
}

#[test]
fn shared_collections() {
    check_collections(|snapshot, threads| engine(snapshot, threads, None));
}

/// The device's codecs, whatever that of the index is.
#[test]
fn codecs() {
    for codec in CODECS {
        let fixture = Fixture::of(&(0..700).map(|i| Doc::text(i, text(i))).collect::<Vec<_>>());
        let and = |terms: &[&str]| Search { mode: Mode::And, ..Search::of(terms) };
        let searches = [and(&["a", "b"]), and(&["c", "a"]), and(&["b", "c", "a"]), and(&["c"])];
        let make = |snapshot, threads| engine(snapshot, threads, Some(codec));
        check_snapshot(&make, codec.name(), &fixture.snapshot(), &searches);
    }
}

/// Words in every second, third and fifth document, sometimes many times over.
fn text(i: usize) -> String {
    let words = [("a ", 2), ("b ", 3), ("c ", 5)];
    let times = |every: usize| if i.is_multiple_of(every) { 1 + i * i % 7 * (i % 31) } else { 0 };
    words.iter().map(|&(word, every)| word.repeat(times(every))).collect::<String>() + "d"
}
