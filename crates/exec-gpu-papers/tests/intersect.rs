//! Tests of AND on compressed lists: the conformance suite of all engines, and a check that as
//! many blocks are decoded as on the CPU (Ding 2009, section 8.1).

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use support::devices;
use warpseek_codec::CodecId;
use warpseek_exec::{Context, Engine, ExecError, Mode, Plan};
use warpseek_exec_gpu_papers::IntersectEngine;
use warpseek_exec_gpu_papers::compressed::CODECS;
use warpseek_index::Snapshot;
use warpseek_testkit::blocks;
use warpseek_testkit::conformance::{
    check_collections, check_fixed_cases, check_random_cases, check_snapshot, part_of,
};
use warpseek_testkit::{Doc, Fixture, Search, expected, plans};

fn engine(snapshot: Arc<Snapshot>, threads: usize, codec: Option<CodecId>) -> Box<dyn Engine> {
    let mut devices = devices();
    let device = devices.remove(threads / 2 % devices.len());
    Box::new(IntersectEngine::new(snapshot, device, codec).unwrap())
}

/// Tests that every query that is not AND is refused, and the others of its batch are answered.
#[test]
fn other_modes_are_refused() {
    let fixture = Fixture::of(&(0..700).map(|i| Doc::text(i, text(i))).collect::<Vec<_>>());
    let snapshot = fixture.snapshot();
    let modes = [Mode::And, Mode::Or, Mode::And, Mode::AndOr, Mode::And];
    let search = |mode| Search { mode, ..Search::of(&["a", "b"]) };
    let plans = plans(&snapshot, &modes.map(search));
    let expected = expected(&snapshot, &plans);
    for threads in [1, 3] {
        let engine = engine(snapshot.clone(), threads, None);
        let answers = engine.search(&plans.iter().collect::<Vec<_>>(), &Context::new(threads));
        assert_eq!(answers.len(), plans.len());
        for (answer, (plan, expected)) in answers.into_iter().zip(plans.iter().zip(&expected)) {
            match (plan.mode, answer) {
                (Mode::And, answer) => assert_eq!(answer.unwrap().hits, expected.hits),
                (_, Err(ExecError::Unsupported { engine: name, why })) => {
                    assert_eq!((name, &*why), ("intersect", "it answers AND alone"));
                    assert!(engine.supports(plan).is_err());
                }
                (mode, answer) => panic!("{mode}: {answer:?}"),
            }
        }
        let others: Vec<&Plan> = plans.iter().filter(|plan| plan.mode != Mode::And).collect();
        let answers = engine.search(&others, &Context::new(threads));
        assert!(answers.iter().all(Result::is_err), "{answers:?}");
    }
}

#[test]
fn fixed_cases() {
    check_fixed_cases(|snapshot, threads| engine(snapshot, threads, None), part_of(1, 1));
}

/// Tests that the device uses the index's codec, or bit packing instead.
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

/// Tests every codec of the device, whatever the codec of the index.
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

/// Returns a text with words of every second, third and fifth document, sometimes many times
/// over.
fn text(i: usize) -> String {
    let words = [("a ", 2), ("b ", 3), ("c ", 5)];
    let times = |every: usize| if i.is_multiple_of(every) { 1 + i * i % 7 * (i % 31) } else { 0 };
    words.iter().map(|&(word, every)| word.repeat(times(every))).collect::<String>() + "d"
}
