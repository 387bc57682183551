//! Processors and GPUs that share an index, or batches, against the suite of all engines. GPUs are the emulator's, of which there are two that do everything in
//! different order.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;
use warpseek_cuda::Device;
use warpseek_cuda_emulator::{inject, symbol};
use warpseek_exec::{Answer, Choice, Engine, ExecError, Mode, Plan, Reference, in_parallel};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_exec_gpu::image::least_bytes;
use warpseek_exec_gpu::{GpuEngine, PRUNED_TERMS, Settings};
use warpseek_index::Snapshot;
use warpseek_sched::{ByDocuments, ByQueries, Cost, Costs, Speed, split};
use warpseek_testkit::conformance::{check_fixed_cases, check_random_cases, part_of};
use warpseek_testkit::{Doc, Fixture, Search, conformance, generator, plans};

/// Tiles so small that small indexes have many.
const SMALL: Settings =
    Settings { tile_bits: 5, or_bits: 8, and_bits: 10, round: 50, pruned: true };

fn gpu(snapshot: &Arc<Snapshot>, ordinal: u32, threads: usize) -> GpuEngine {
    // SAFETY: the emulator's own function.
    let device = unsafe { Device::emulated(symbol, ordinal, None) }.unwrap();
    GpuEngine::new(snapshot.clone(), device, SMALL, threads).unwrap()
}

fn cpu(snapshot: &Arc<Snapshot>, algorithm: Option<Algorithm>, threads: usize) -> CpuEngine {
    CpuEngine::new(snapshot.clone(), algorithm, threads)
}

/// The processor and both GPUs, each for its documents.
fn together(snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    let [host, first, second] = shares(&snapshot, [0.3, 0.5, 0.2]);
    Box::new(ByDocuments::new(vec![
        Box::new(cpu(&snapshot, None, threads).within(host)),
        Box::new(gpu(&snapshot, 0, threads).within(first)),
        Box::new(gpu(&snapshot, 1, threads).within(second)),
    ]))
}

/// One GPU, opened twice.
fn twice(snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    let [first, second] = shares(&snapshot, [0.5, 0.5]);
    let part = |docs| Box::new(gpu(&snapshot, 0, threads).within(docs)) as Box<dyn Engine>;
    Box::new(ByDocuments::new(vec![part(first), part(second)]))
}

fn shares<const N: usize>(snapshot: &Snapshot, rates: [f64; N]) -> [Range<u32>; N] {
    split(snapshot.doc_limit(), &rates).try_into().unwrap()
}

#[test]
fn host_and_devices_by_documents() {
    check_fixed_cases(together, part_of(1, 1));
    check_random_cases(together, part_of(1, 1));
}

#[test]
fn one_gpu_twice_by_documents() {
    check_fixed_cases(twice, part_of(1, 2));
}

/// Takes so many microseconds a query, as far as anybody knows.
fn speed(microseconds: f64) -> Speed {
    Speed::gpu(Cost { batch: 0.0, query: microseconds * 1e3, posting: 0.0, hit: 0.0 })
}

/// Engines thought to be as fast as each other.
fn equals(engines: impl IntoIterator<Item = Box<dyn Engine>>) -> ByQueries {
    ByQueries::new(engines.into_iter().map(|engine| (engine, speed(1e3))).collect())
}

/// Both GPUs, helped by the processor.
fn helped(snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    let gpus = [0, 1].map(|i| Box::new(gpu(&snapshot, i, threads)) as Box<dyn Engine>);
    Box::new(equals(gpus).helped_by(Arc::new(cpu(&snapshot, None, threads)), speed(1e3)))
}

#[test]
fn host_and_devices_by_queries() {
    let make = |snapshot: Arc<Snapshot>, threads| -> Box<dyn Engine> {
        Box::new(equals([
            Box::new(gpu(&snapshot, 0, threads)) as Box<dyn Engine>,
            Box::new(cpu(&snapshot, None, threads)),
            Box::new(gpu(&snapshot, 1, threads)),
        ]))
    };
    check_fixed_cases(make, part_of(1, 2));
    check_fixed_cases(helped, part_of(2, 2));
}

/// Three parts of the processor, each algorithm that can do so.
fn parts(snapshot: Arc<Snapshot>, threads: usize, of: Option<Algorithm>) -> Box<dyn Engine> {
    let part = |docs| Box::new(cpu(&snapshot, of, threads).with_tile(50).within(docs));
    let docs = shares(&snapshot, [0.4, 0.35, 0.25]);
    Box::new(ByDocuments::new(docs.map(|docs| part(docs) as Box<dyn Engine>).into()))
}

conformance!(parts_by_ranges, |snapshot, threads| parts(snapshot, threads, None));
conformance!(parts_by_cohort, |snapshot, threads| parts(
    snapshot,
    threads,
    Some(Algorithm::Cohort)
));

/// What lies between two numbers of thousandths.
fn between(docs: u32, from: u32, to: u32) -> Range<u32> {
    let at = |part: u32| (u64::from(docs) * u64::from(part) / 1000) as u32;
    at(from)..at(to)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Wherever documents are cut, between any machines, hits and counts are the reference's.
    #[test]
    fn any_split_gives_the_same_hits(
        case in generator::cases(), cut in 0u32..=1000, count in any::<bool>(), host_first in any::<bool>(),
    ) {
        let fixture = Fixture::after_each(&case.history(), |number| case.config(number));
        let snapshot = fixture.snapshot();
        let mut plans = plans(&snapshot, &case.searches(20));
        let expected = warpseek_testkit::expected(&snapshot, &plans);
        plans.iter_mut().for_each(|plan| plan.count = count);
        let docs = snapshot.doc_limit();
        let (first, second) = (between(docs, 0, cut), between(docs, cut, 1000));
        let (host, device) = if host_first { (first, second) } else { (second, first) };
        let engine = ByDocuments::new(vec![
            Box::new(cpu(&snapshot, None, 1).within(host)),
            Box::new(gpu(&snapshot, cut % 2, 1).within(device)),
        ]);
        for (i, (answer, expected)) in engine.search(&plans).unwrap().iter().zip(&expected).enumerate() {
            prop_assert_eq!(&answer.hits, &expected.hits, "{}", i);
            if count {
                prop_assert_eq!(answer.matches, expected.matches, "matches of {}", i);
            }
        }
    }
}

fn apples(docs: usize) -> (Fixture, Arc<Snapshot>, Vec<Plan>) {
    let docs: Vec<_> = (0..docs).map(|i| Doc::text(i, format!("apple pie{}", i % 9))).collect();
    let fixture = Fixture::of(&docs);
    let snapshot = fixture.snapshot();
    let search =
        |i: usize| Search { k: 1 + i % 7, ..Search::of(&["appl", ["pie1", "pie5"][i % 2]]) };
    let plans = plans(&snapshot, &(0..700).map(search).collect::<Vec<_>>());
    (fixture, snapshot, plans)
}

/// Batches with so many queries that all engines take some, and that come back in order.
#[test]
fn batches_are_shared_out() {
    struct Counted(Box<dyn Engine>, Arc<std::sync::atomic::AtomicUsize>);
    impl Engine for Counted {
        fn name(&self) -> &'static str {
            self.0.name()
        }
        fn set_threads(&mut self, threads: usize) {
            self.0.set_threads(threads);
        }
        fn search(&self, plans: &[Plan]) -> Result<Vec<Answer>, ExecError> {
            self.1.fetch_add(plans.len(), std::sync::atomic::Ordering::Relaxed);
            self.0.search(plans)
        }
    }
    let (_fixture, snapshot, plans) = apples(300);
    let expected = warpseek_testkit::expected(&snapshot, &plans);
    let counts: [Arc<std::sync::atomic::AtomicUsize>; 2] = Default::default();
    let engines = counts.iter().map(|count| {
        Box::new(Counted(Box::new(cpu(&snapshot, None, 1)), count.clone())) as Box<dyn Engine>
    });
    let engine = equals(engines);
    for batch in 0..20 {
        let answers = engine.search(&plans).unwrap();
        for (answer, expected) in answers.iter().zip(&expected) {
            assert_eq!(answer.hits, expected.hits, "batch {batch}");
        }
        assert_eq!(answers.len(), plans.len());
    }
    let counts = counts.map(|count| count.load(std::sync::atomic::Ordering::Relaxed));
    assert_eq!(counts.iter().sum::<usize>(), 20 * plans.len());
    // Several callers at a time, of these and of engines with a helper.
    let callers = [(); 3];
    for engine in [&engine as &dyn Engine, &*helped(snapshot.clone(), 1)] {
        let all = in_parallel(&callers, 3, || (), |(), ()| engine.search(&plans)).unwrap();
        for answers in all {
            assert_eq!(answers.len(), plans.len());
            assert!(answers.iter().zip(&expected).all(|(a, e)| a.hits == e.hits));
        }
    }
}

/// Some of a batch, in any order, is answered as the whole is.
#[test]
fn some_plans_of_a_batch() {
    let (_fixture, snapshot, plans) = apples(300);
    let expected = warpseek_testkit::expected(&snapshot, &plans);
    let some: Vec<usize> = (0..plans.len()).rev().step_by(7).collect();
    let of: Vec<&Plan> = some.iter().map(|&i| &plans[i]).collect();
    let engines: [Box<dyn Engine>; 2] =
        [Box::new(gpu(&snapshot, 0, 1)), Box::new(cpu(&snapshot, None, 1))];
    for engine in engines {
        let answers = engine.search_some(&of).unwrap();
        assert!(answers.iter().zip(&some).all(|(a, &i)| a.hits == expected[i].hits));
        assert_eq!(answers.len(), some.len());
    }
}

/// A device that fails is an error of the whole batch, and not hits without its documents.
#[test]
fn a_part_that_fails_is_an_error() {
    let (_fixture, snapshot, plans) = apples(100);
    for several in [true, false] {
        let _injected = inject("cuLaunchKernel@2=999!");
        let make = if several { together } else { twice };
        let error = make(snapshot.clone(), 1).search(&plans).unwrap_err();
        assert!(matches!(error, ExecError::Device(_)), "{error}");
    }
    let _injected = inject("cuLaunchKernel@1+=999!");
    // The GPU has what the helper has not.
    let by_queries = equals([Box::new(gpu(&snapshot, 0, 1)) as Box<dyn Engine>])
        .helped_by(Arc::new(cpu(&snapshot, None, 1)), speed(1.0));
    let error = by_queries.search(&plans).unwrap_err();
    assert!(matches!(error, ExecError::Device(_)), "{error}");
}

/// A part takes the memory of its documents, and no more.
#[test]
fn parts_take_parts_of_the_memory() {
    let (_fixture, snapshot, plans) = apples(4000);
    let bytes = |docs: Range<u32>| {
        let engine = gpu(&snapshot, 0, 1).within(docs);
        engine.load(plans[0].formula).unwrap();
        engine.loading().bytes()
    };
    let (whole, half) = (bytes(0..4000), bytes(1000..3000));
    assert!(half * 5 > whole * 2 && half * 5 < whole * 3, "{half} of {whole}");
    assert!(bytes(0..0) < 1000, "nothing has no bytes");
    // What is refused could not have fitted.
    let segment = &snapshot.segments()[0];
    for docs in [0..4000, 1000..3000, 1..3999, 127..257, 128..256, 0..0] {
        let least = least_bytes(segment, &docs, SMALL.tile_bits).unwrap();
        assert!(least <= bytes(docs.clone()), "{docs:?}: {least}");
        assert!(docs.len() < 1000 || least * 4 > bytes(docs.clone()), "{docs:?}: {least}");
    }
}

#[test]
fn engines_say_how_they_answer() {
    let (_fixture, snapshot, plans) = apples(100);
    let both = together(snapshot.clone(), 1).explain(&plans[..1]).remove(0);
    let Choice { place, algorithm, why } = both;
    assert_eq!(place, "the processor + emulated, in order + emulated, in reverse");
    assert_eq!(algorithm, "ranges + pruned tiles + pruned tiles");
    assert!(why.starts_with("each has its documents: "), "{why}");
    let engine = gpu(&snapshot, 0, 1);
    let counted = Plan { count: true, ..plans[0].clone() };
    let (one, many) = (plans[0].terms.clone(), plans[0].terms[0].clone());
    let long = Plan { terms: vec![many; 33], mode: Mode::Or, ..plans[0].clone() };
    let asked = [Plan { terms: one, ..plans[0].clone() }, counted, long];
    let of: Vec<_> = engine.explain(&asked);
    let algorithms: Vec<&str> = of.iter().map(|choice| choice.algorithm.as_str()).collect();
    assert_eq!(algorithms, ["pruned tiles", "tiles", "tiles"]);
    // As estimates would have it.
    let costs = Costs::new(PRUNED_TERMS);
    assert_eq!(asked.each_ref().map(|plan| costs.best(plan).name()), *algorithms);
    assert!(of[1].why.contains("counted") && of[2].why.contains("lists"), "{of:?}");
}
