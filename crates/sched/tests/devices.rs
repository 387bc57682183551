//! Runs the conformance suite of all engines on CPUs and GPUs that share an index or batches. The
//! GPUs are emulated; there are two, which execute everything in different orders.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use warpseek_cuda::Device;
use warpseek_cuda_emulator::{inject, symbol};
use warpseek_exec::{
    Answer, Answers, Cancel, Candidate, Choice, Context, Coverage, Engine, ExecError, Fault, Load,
    Mode, Plan, Rates, Reference, at_once, cheapest, is_not_slower,
};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_exec_gpu::image::least_bytes;
use warpseek_exec_gpu::{GpuEngine, PRUNED_TERMS, Settings};
use warpseek_index::{Snapshot, SnapshotId};
use warpseek_sched::{ByDocuments, ByQueries, Speed, split};
use warpseek_testkit::conformance::{check_fixed_cases, check_random_cases, part_of};
use warpseek_testkit::{Doc, Fixture, Search, answers, conformance, expected, generator, plans};

/// Settings with tiles so small that small indexes have many.
const SMALL: Settings =
    Settings { tile_bits: 5, or_bits: 8, and_bits: 10, round: 50, ..Settings::USUAL };

fn gpu(snapshot: &Arc<Snapshot>, ordinal: u32) -> GpuEngine {
    // SAFETY: the symbol is the emulator's own function.
    let device = unsafe { Device::emulated(symbol, ordinal, None) }.unwrap();
    GpuEngine::new(snapshot.clone(), device, SMALL).unwrap()
}

fn cpu(snapshot: &Arc<Snapshot>, algorithm: Option<Algorithm>) -> CpuEngine {
    CpuEngine::new(snapshot.clone(), algorithm)
}

/// Returns the CPU's engine for a range of documents.
fn cpu_part(snapshot: &Arc<Snapshot>, docs: Range<u32>) -> (Range<u32>, Box<dyn Engine>) {
    (docs.clone(), Box::new(cpu(snapshot, None).within(docs)))
}

/// Returns a GPU's engine for a range of documents.
fn gpu_part(
    snapshot: &Arc<Snapshot>,
    ordinal: u32,
    docs: Range<u32>,
) -> (Range<u32>, Box<dyn Engine>) {
    (docs.clone(), Box::new(gpu(snapshot, ordinal).within(docs)))
}

/// Combines the CPU and both GPUs, each with its own documents.
fn together(snapshot: Arc<Snapshot>, _threads: usize) -> Box<dyn Engine> {
    let [host, first, second] = shares(&snapshot, [0.3, 0.5, 0.2]);
    Box::new(ByDocuments::new(vec![
        cpu_part(&snapshot, host),
        gpu_part(&snapshot, 0, first),
        gpu_part(&snapshot, 1, second),
    ]))
}

/// Combines one GPU with itself.
fn twice(snapshot: Arc<Snapshot>, _threads: usize) -> Box<dyn Engine> {
    let parts = shares(&snapshot, [0.5, 0.5]).map(|docs| gpu_part(&snapshot, 0, docs));
    Box::new(ByDocuments::new(parts.into()))
}

fn shares<const N: usize>(snapshot: &Snapshot, rates: [f64; N]) -> [Range<u32>; N] {
    split(snapshot.doc_limit(), &rates).try_into().unwrap()
}

#[test]
fn cpu_and_gpus_by_documents_conform() {
    check_fixed_cases(together, part_of(1, 1));
    check_random_cases(together, part_of(1, 1));
}

#[test]
fn one_gpu_twice_by_documents_conforms() {
    check_fixed_cases(twice, part_of(1, 2));
}

/// Returns an initial speed of this many microseconds per query.
fn speed(microseconds: f64) -> Speed {
    Speed::new(Rates::device(0.0, microseconds * 1e3, 0.0, 0.0), 1)
}

/// Returns an initial speed of CPU threads, in microseconds per query.
fn thread_speed(microseconds: f64, threads: usize) -> Speed {
    Speed::new(Rates::thread(microseconds * 1e3, 0.0), threads)
}

/// Combines engines that are initially assumed to be equally fast.
fn equals(engines: impl IntoIterator<Item = Box<dyn Engine>>) -> ByQueries {
    ByQueries::new(engines.into_iter().map(|engine| (engine, speed(1e3))).collect())
}

/// Combines both GPUs and the CPU.
fn devices(snapshot: Arc<Snapshot>, _threads: usize) -> Box<dyn Engine> {
    Box::new(equals([
        Box::new(gpu(&snapshot, 0)) as Box<dyn Engine>,
        Box::new(cpu(&snapshot, None)),
        Box::new(gpu(&snapshot, 1)),
    ]))
}

/// Combines both GPUs with the CPU as their helper.
fn helped(snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    let gpus = [0, 1].map(|i| Box::new(gpu(&snapshot, i)) as Box<dyn Engine>);
    let helper = Arc::new(cpu(&snapshot, None));
    Box::new(equals(gpus).helped_by(helper, thread_speed(1e3, threads)))
}

#[test]
fn cpu_and_gpus_by_queries_conform() {
    check_fixed_cases(devices, part_of(1, 2));
    check_fixed_cases(helped, part_of(2, 2));
}

/// Combines three parts on the CPU, which use an algorithm that can answer for a part.
fn parts(snapshot: Arc<Snapshot>, algorithm: Option<Algorithm>) -> Box<dyn Engine> {
    let part = |docs: Range<u32>| {
        let engine = cpu(&snapshot, algorithm).with_tile(50).within(docs.clone());
        (docs, Box::new(engine) as Box<dyn Engine>)
    };
    Box::new(ByDocuments::new(shares(&snapshot, [0.4, 0.35, 0.25]).map(part).into()))
}

conformance!(parts_by_windows, |snapshot, _| parts(snapshot, None));
conformance!(parts_by_cohort, |snapshot, _| parts(snapshot, Some(Algorithm::Cohort)));

/// Returns the documents between two numbers of thousandths.
fn between(docs: u32, from: u32, to: u32) -> Range<u32> {
    let at = |part: u32| (u64::from(docs) * u64::from(part) / 1000) as u32;
    at(from)..at(to)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Hits and counts are those of the reference for any division of the documents among any
    /// devices.
    #[test]
    fn any_split_gives_the_same_hits(
        case in generator::cases(), cut in 0u32..=1000, count in any::<bool>(), host_first in any::<bool>(),
    ) {
        let fixture = Fixture::after_each(&case.history(), |number| case.config(number));
        let snapshot = fixture.snapshot();
        let mut plans = plans(&snapshot, &case.searches(20));
        let expected = expected(&snapshot, &plans);
        plans.iter_mut().for_each(|plan| plan.count = count);
        let docs = snapshot.doc_limit();
        let (first, second) = (between(docs, 0, cut), between(docs, cut, 1000));
        let (host, device) = if host_first { (first, second) } else { (second, first) };
        let parts = vec![cpu_part(&snapshot, host), gpu_part(&snapshot, cut % 2, device)];
        let answers = answers(&ByDocuments::new(parts), &plans, 1).unwrap();
        for (i, (answer, expected)) in answers.iter().zip(&expected).enumerate() {
            prop_assert_eq!(&answer.hits, &expected.hits, "{}", i);
            prop_assert!(answer.coverage.is_complete(), "{}", i);
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

/// Every engine takes a part of batches of this size, and answers are in order.
#[test]
fn batches_are_divided_among_engines() {
    struct Counted(Box<dyn Engine>, Arc<AtomicUsize>);
    impl Engine for Counted {
        fn name(&self) -> &'static str {
            self.0.name()
        }
        fn snapshot(&self) -> SnapshotId {
            self.0.snapshot()
        }
        fn candidates(&self, plan: &Plan, alone: bool, context: &Context) -> Vec<Candidate> {
            self.0.candidates(plan, alone, context)
        }
        fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
            self.1.fetch_add(plans.len(), Ordering::Relaxed);
            self.0.search(plans, context)
        }
    }
    let (_fixture, snapshot, plans) = apples(300);
    let expected = expected(&snapshot, &plans);
    let counts: [Arc<AtomicUsize>; 2] = Default::default();
    let engines = counts.iter().map(|count| {
        Box::new(Counted(Box::new(cpu(&snapshot, None)), count.clone())) as Box<dyn Engine>
    });
    let engine = equals(engines);
    for batch in 0..20 {
        let answers = answers(&engine, &plans, 1).unwrap();
        for (answer, expected) in answers.iter().zip(&expected) {
            assert_eq!(answer.hits, expected.hits, "batch {batch}");
        }
        assert_eq!(answers.len(), plans.len());
    }
    let counts = counts.map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counts.iter().sum::<usize>(), 20 * plans.len());
    // Several callers use these engines, and engines with a helper, at the same time.
    for engine in [&engine as &dyn Engine, &*helped(snapshot.clone(), 1)] {
        for answers in at_once(&[(); 3], |()| answers(engine, &plans, 2).unwrap()) {
            assert_eq!(answers.len(), plans.len());
            assert!(answers.iter().zip(&expected).all(|(a, e)| a.hits == e.hits));
        }
    }
}

/// A selection of the plans, in any order, gets the same answers as in the whole batch.
#[test]
fn a_selection_of_plans_is_answered_as_in_the_whole_batch() {
    let (_fixture, snapshot, plans) = apples(300);
    let expected = expected(&snapshot, &plans);
    let some: Vec<usize> = (0..plans.len()).rev().step_by(7).collect();
    let selected: Vec<&Plan> = some.iter().map(|&i| &plans[i]).collect();
    let engines: [Box<dyn Engine>; 4] = [
        Box::new(gpu(&snapshot, 0)),
        Box::new(cpu(&snapshot, None)),
        together(snapshot.clone(), 1),
        helped(snapshot.clone(), 1),
    ];
    for engine in engines {
        let answers = engine.search(&selected, &Context::new(1));
        assert_eq!(answers.len(), some.len());
        for (answer, &i) in answers.into_iter().zip(&some) {
            assert_eq!(answer.unwrap().hits, expected[i].hits, "{}", engine.name());
        }
    }
}

/// Checks a batch during which a device fails: queries that the device had get its error, not
/// incomplete hits, and all others are answered. Returns the number of failed queries.
fn failures(engine: &dyn Engine, plans: &[Plan], expected: &[Answer]) -> usize {
    let answers = engine.search(&plans.iter().collect::<Vec<_>>(), &Context::new(1));
    assert_eq!(answers.len(), plans.len());
    let mut failed = 0;
    for (answer, expected) in answers.into_iter().zip(expected) {
        match answer {
            Ok(answer) => assert_eq!(answer.hits, expected.hits),
            Err(ExecError::Device { fault: Fault::Device, .. }) => failed += 1,
            Err(error) => panic!("{error}"),
        }
    }
    failed
}

#[test]
fn a_part_that_fails_is_an_error() {
    let (_fixture, snapshot, plans) = apples(100);
    let expected = expected(&snapshot, &plans);
    for make in [together, twice] {
        // The second kernel creates the image. No round has ended before its launch, and later
        // launches fail as well.
        let _injected = inject("cuLaunchKernel@2=999!");
        let engine = make(snapshot.clone(), 1);
        assert_eq!(failures(&*engine, &plans, &expected), plans.len());
    }
    for make in [together, twice] {
        // Once the image exists, a launch that fails on a working device fails only its round of
        // 50 queries.
        let mut rounds = 0;
        for launch in (1..60).step_by(3) {
            let injected = inject(&format!("cuLaunchKernel@{launch}=1"));
            let engine = make(snapshot.clone(), 1);
            drop(injected);
            if engine.prepare(&plans[0].formulas, &Context::new(1)).is_ok() {
                let failed = failures(&*engine, &plans, &expected);
                assert!([0, SMALL.round].contains(&failed), "{launch}: {failed}");
                rounds += usize::from(failed > 0);
            }
            if rounds > 0 {
                assert_eq!(failures(&*engine, &plans, &expected), 0);
                break;
            }
        }
        assert!(rounds > 0);
    }
    let lost = || {
        let _injected = inject("cuLaunchKernel@1=999!");
        Box::new(gpu(&snapshot, 0)) as Box<dyn Engine>
    };
    // The GPU gets the queries that the helper does not have, and fails them.
    let helper = Arc::new(cpu(&snapshot, None));
    let by_queries = equals([lost()]).helped_by(helper, thread_speed(1.0, 1));
    assert!(failures(&by_queries, &plans, &expected) > 0);
    // Of two engines, one fails. The other answers its own queries and those that the failed one
    // has not taken.
    let by_queries = equals([lost(), Box::new(cpu(&snapshot, None))]);
    assert!(failures(&by_queries, &plans, &expected) < plans.len());
}

/// Creates documents with words that are in all of them, in every second to ninth, or in a few.
/// They are in two segments, and some are deleted.
fn words() -> (Fixture, Arc<Snapshot>) {
    let text = |i: usize| {
        let every = [(1, "all"), (2, "two"), (3, "three"), (5, "five"), (9, "nine"), (70, "few")];
        let times = |n: usize| if i.is_multiple_of(n) { 1 + i * i % 5 } else { 0 };
        every.map(|(n, word)| format!("{word} ").repeat(times(n))).concat()
    };
    let docs: Vec<Doc> = (0..900).map(|i| Doc::text(i, text(i))).collect();
    let fixture = Fixture::of(&docs[..500]);
    fixture.add(&docs[500..]).unwrap();
    let gone: Vec<String> = (0..900).step_by(7).map(|i| i.to_string()).collect();
    fixture.delete(&gone).unwrap();
    let snapshot = fixture.snapshot();
    (fixture, snapshot)
}

/// Returns queries of all modes, with few and many hits; every third counts its matches.
fn questions(snapshot: &Arc<Snapshot>, n: usize) -> Vec<Plan> {
    let terms: [&[&str]; 7] = [
        &["all", "two"],
        &["three", "five"],
        &["nine", "few"],
        &["all", "two", "three", "five", "nine", "few"],
        &["few"],
        &["two", "missing"],
        &["five", "all"],
    ];
    let search = |i: usize| Search {
        mode: [Mode::Or, Mode::And, Mode::AndOr][i % 3],
        k: [3, 1, 20, 500, 0][i / 3 % 5],
        ..Search::of(terms[i % 7])
    };
    let mut plans = plans(snapshot, &(0..n).map(search).collect::<Vec<_>>());
    plans.iter_mut().skip(1).step_by(4).for_each(|plan| plan.count = true);
    plans
}

/// Checks answers against the documents that they cover. It keeps the reference's results, since
/// many answers cover the same documents.
struct Judge {
    snapshot: Arc<Snapshot>,
    plans: Vec<Plan>,
    said: HashMap<(usize, Vec<Range<u32>>), Answer>,
}

impl Judge {
    fn new(snapshot: &Arc<Snapshot>, plans: &[Plan]) -> Self {
        Judge { snapshot: snapshot.clone(), plans: plans.to_vec(), said: HashMap::new() }
    }

    fn check(&mut self, i: usize, answer: &Answer, what: &str) {
        let (plan, docs) = (&self.plans[i], self.snapshot.doc_limit());
        let ranges = answer.coverage.ranges(0..docs);
        assert!(ranges.iter().all(|range| range.start < range.end && range.end <= docs), "{what}");
        assert!(ranges.windows(2).all(|two| two[0].end < two[1].start), "{what}: {ranges:?}");
        let said = self.said.entry((i, ranges)).or_insert_with(|| {
            let reference = Reference::over(self.snapshot.clone(), answer.coverage.clone());
            answers(&reference, std::slice::from_ref(plan), 1).unwrap().remove(0)
        });
        let context = || format!("{what}, query {i}, {}, {:?}", plan.mode, answer.coverage);
        assert_eq!(answer.hits, said.hits, "{}", context());
        if plan.count || answer.matches.is_some() {
            assert_eq!(answer.matches, said.matches, "matches, {}", context());
        }
    }
}

/// Stops the search of a batch after its n-th check whether to stop, for many n. Checks that the
/// answers are exact for the part that was searched. Returns how many answers cover nothing, a
/// part, and all documents.
fn stop(make: fn(Arc<Snapshot>, usize) -> Box<dyn Engine>, queries: usize) -> [usize; 3] {
    let (_fixture, snapshot) = words();
    let plans = questions(&snapshot, queries);
    let batch: Vec<&Plan> = plans.iter().collect();
    let mut judge = Judge::new(&snapshot, &plans);
    let mut covered = [0; 3];
    for threads in [1, 3] {
        let engine = make(snapshot.clone(), threads);
        let moments = (0..24).chain((24..120).step_by(9)).chain([200, 400, 800, u32::MAX]);
        for moment in moments {
            let context = Context::new(threads).cancelled_by(Cancel::after(moment));
            let answers = engine.search(&batch, &context);
            assert_eq!(answers.len(), plans.len());
            for (i, answer) in answers.into_iter().enumerate() {
                let what = format!("{} stopped at {moment}, {threads} threads", engine.name());
                let answer = answer.unwrap_or_else(|error| panic!("{what}: {error}"));
                judge.check(i, &answer, &what);
                assert!(moment < u32::MAX || answer.coverage.is_complete(), "{what}");
                match answer.coverage {
                    Coverage::Complete => covered[2] += 1,
                    Coverage::Partial(ranges) => covered[usize::from(!ranges.is_empty())] += 1,
                }
            }
        }
        // A deadline in the past leaves no time for anything; queries without any hits need none.
        let late = Context::new(threads).within(Duration::ZERO);
        for (i, answer) in engine.search(&batch, &late).into_iter().enumerate() {
            let answer = answer.unwrap();
            judge.check(i, &answer, "a deadline that has passed");
            assert!(answer.hits.is_empty());
        }
    }
    covered
}

#[test]
fn documents_that_were_searched_in_time_are_answered_exactly() {
    for make in [
        together,
        twice,
        |snapshot, _| parts(snapshot, None),
        |snapshot, _| parts(snapshot, Some(Algorithm::Cohort)),
    ] {
        let covered = stop(make, 40);
        assert!(covered.iter().all(|&answers| answers > 0), "{covered:?}");
    }
}

/// Covers both batches that engines share and batches so small that one engine answers them.
#[test]
fn queries_that_were_answered_in_time_are_answered_exactly() {
    for make in [devices, helped] {
        let covered = stop(make, 240);
        assert!(covered[0] > 0 && covered[2] > 0, "{covered:?}");
        stop(make, 20);
    }
}

/// A part takes the memory of its documents, and no more.
#[test]
fn parts_take_parts_of_the_memory() {
    let (_fixture, snapshot, plans) = apples(4000);
    let bytes = |docs: Range<u32>| {
        let engine = gpu(&snapshot, 0).within(docs);
        engine.load(&plans[0].formulas, 1).unwrap();
        engine.device().memory().current
    };
    let (whole, half) = (bytes(0..4000), bytes(1000..3000));
    assert!(half * 5 > whole * 2 && half * 5 < whole * 3, "{half} of {whole}");
    assert!(bytes(0..0) < 5000, "an empty part has little more than the lengths of documents");
    // Parts that are refused could not have fitted.
    let segment = &snapshot.segments()[0];
    for docs in [0..4000, 1000..3000, 1..3999, 127..257, 128..256, 0..0] {
        let least = least_bytes(segment, &docs, SMALL.tile_bits).unwrap();
        assert!(least <= bytes(docs.clone()), "{docs:?}: {least}");
        assert!(docs.len() < 1000 || least * 4 > bytes(docs.clone()), "{docs:?}: {least}");
    }
}

/// Returns the device, CPU or GPU, that expects to answer a batch earlier.
fn sooner(snapshot: &Arc<Snapshot>, plans: &[&Plan], threads: usize) -> &'static str {
    let context = Context::new(threads);
    let host = cpu(snapshot, None).cost(plans, &context);
    let device = gpu(snapshot, 0).cost(plans, &context);
    if is_not_slower(host, device) { "CPU" } else { "GPU" }
}

#[test]
fn the_cpu_is_faster_with_few_short_queries() {
    let (_fixture, snapshot, plans) = apples(10);
    // Use document frequencies as in a large index.
    let with = |mode, dfs: [u64; 2]| {
        let mut plan = Plan { mode, ..plans[0].clone() };
        plan.terms.iter_mut().zip(dfs).for_each(|(term, df)| term.df = df);
        plan
    };
    let sooner = |plan: &Plan, n, threads| sooner(&snapshot, &vec![plan; n], threads);
    assert_eq!(sooner(&with(Mode::Or, [3, 10_000]), 1, 1), "CPU");
    let long = with(Mode::Or, [3, 100_000]);
    assert_eq!(sooner(&long, 1, 1), "GPU");
    assert_eq!(sooner(&long, 1, 16), "GPU", "it is too short for 16 threads");
    assert_eq!(sooner(&with(Mode::And, [3, 100_000]), 1, 1), "CPU");
    assert_eq!(sooner(&with(Mode::Or, [5_000, 10_000]), 100, 1), "GPU");
    assert_eq!(sooner(&long, 0, 1), "CPU", "neither takes any time");
}

#[test]
fn engines_explain_how_they_answer() {
    let (_fixture, snapshot, plans) = apples(1000);
    let context = Context::new(1);
    let both = together(snapshot.clone(), 1);
    let Choice { device, algorithm, why } = both.explain(&[&plans[0]], &context).remove(0);
    assert_eq!(device, "CPU + emulated, in order + emulated, in reverse");
    assert_eq!(device, both.device());
    assert_eq!(algorithm, "windowed-maxscore + pruned tiles + pruned tiles");
    assert!(why.starts_with("each device searches its own documents: "), "{why}");
    let engine = gpu(&snapshot, 0);
    let counted = Plan { count: true, ..plans[0].clone() };
    let term = plans[0].terms[0].clone();
    let long = Plan { terms: vec![term; PRUNED_TERMS + 1], ..plans[0].clone() };
    let asked = [&plans[0], &counted, &long];
    let choices = engine.explain(&asked, &context);
    let algorithms: Vec<&str> = choices.iter().map(|choice| choice.algorithm.as_str()).collect();
    assert_eq!(algorithms, ["pruned tiles", "tiles", "tiles"]);
    assert!(choices[1].why.contains("counted") && choices[2].why.contains("lists"), "{choices:?}");
    // Estimates use the same algorithms.
    for (plan, algorithm) in asked.into_iter().zip(algorithms) {
        let candidates = engine.candidates(plan, true, &context);
        let chosen = cheapest(&candidates, &Load::of(plan)).unwrap();
        assert_eq!(chosen.algorithm, algorithm);
        let estimate = engine.estimate(&[plan], &context);
        let offer = estimate.offers.iter().find(|offer| offer.algorithm == algorithm).unwrap();
        assert_eq!(offer.time, Some(estimate.time));
    }
}
