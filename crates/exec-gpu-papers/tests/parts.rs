//! Tests of the papers' engines for parts of the documents: together with the CPU they answer as
//! the reference does, however documents are divided, and parts that search later do less because
//! of what earlier ones found.

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;
use support::devices;
use warpseek_exec::{Answer, Context, Coverage, Engine, Floors, Mode, Plan};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_exec_gpu_papers::partitioned::{
    Batch, PartitionSettings, PartitionedEngine, Partitioning, Pruning,
};
use warpseek_exec_gpu_papers::{CohortEngine, CohortSettings, IntersectEngine};
use warpseek_index::Snapshot;
use warpseek_sched::{ByDocuments, split};
use warpseek_testkit::conformance::{check_fixed_cases, part_of};
use warpseek_testkit::{Doc, Fixture, Search, answers_in, expected, generator, plans};

/// The engines that the papers describe, and the CPU's.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Cpu(Option<Algorithm>),
    Pruned(Pruning),
    Cohort,
    Intersect,
    Serving,
}

/// Creates an engine for a range of documents, on one of the devices.
fn part(kind: Kind, snapshot: &Arc<Snapshot>, docs: Range<u32>, number: usize) -> Box<dyn Engine> {
    let mut devices = devices();
    let device = devices.remove(number % devices.len());
    let snapshot = snapshot.clone();
    let tiles = |device| {
        let settings = Settings { tile_bits: 5, or_bits: 8, and_bits: 10, ..Settings::USUAL };
        GpuEngine::new(snapshot.clone(), device, settings).unwrap().within(docs.clone())
    };
    match kind {
        Kind::Cpu(algorithm) => {
            Box::new(CpuEngine::new(snapshot, algorithm).with_tile(50).within(docs))
        }
        Kind::Pruned(pruning) => {
            let settings = PartitionSettings {
                pruning,
                partition_size: Some([32, 7, 500][number % 3]),
                block_maxima: number.is_multiple_of(2),
                batch: Batch::ALL[usize::from(number % 4 == 3)],
                round: 50,
                ..PartitionSettings::default()
            };
            Box::new(PartitionedEngine::new(snapshot, device, settings).unwrap().within(docs))
        }
        Kind::Cohort => {
            let settings = CohortSettings { cohort: 20, tile: 300, micro_bits: 7, group: 3 };
            Box::new(CohortEngine::new(Arc::new(tiles(device)), settings).unwrap())
        }
        Kind::Intersect => {
            Box::new(IntersectEngine::new(snapshot, device, None).unwrap().within(docs))
        }
        Kind::Serving => Box::new(tiles(device)),
    }
}

/// Combines engines, each with its share of the documents.
fn together(kinds: &[Kind], snapshot: &Arc<Snapshot>, rates: &[f64]) -> ByDocuments {
    let ranges = split(snapshot.doc_limit(), rates);
    let engines = kinds
        .iter()
        .zip(ranges)
        .enumerate()
        .map(|(number, (&kind, docs))| (docs.clone(), part(kind, snapshot, docs, number)));
    ByDocuments::new(engines.collect())
}

const HOST: Kind = Kind::Cpu(None);

fn by_wand(snapshot: Arc<Snapshot>, _threads: usize) -> Box<dyn Engine> {
    let kinds = [Kind::Cpu(Some(Algorithm::Wand)), Kind::Pruned(Pruning::Wand)];
    Box::new(together(&kinds, &snapshot, &[0.4, 0.6]))
}

fn by_maxscore(snapshot: Arc<Snapshot>, _threads: usize) -> Box<dyn Engine> {
    let kinds = [Kind::Pruned(Pruning::MaxScore), Kind::Cpu(Some(Algorithm::MaxScore))];
    Box::new(together(&kinds, &snapshot, &[0.4, 0.6]))
}

fn by_cohort(snapshot: Arc<Snapshot>, _threads: usize) -> Box<dyn Engine> {
    let kinds = [Kind::Cpu(Some(Algorithm::Cohort)), Kind::Cohort, Kind::Cohort];
    Box::new(together(&kinds, &snapshot, &[0.2, 0.5, 0.3]))
}

fn by_intersect(snapshot: Arc<Snapshot>, _threads: usize) -> Box<dyn Engine> {
    Box::new(together(&[HOST, Kind::Intersect, Kind::Intersect], &snapshot, &[0.2, 0.5, 0.3]))
}

#[test]
fn papers_engines_and_the_cpu_by_documents_conform() {
    check_fixed_cases(by_wand, part_of(1, 4));
    check_fixed_cases(by_maxscore, part_of(2, 4));
    check_fixed_cases(by_cohort, part_of(3, 4));
    check_fixed_cases(by_intersect, part_of(4, 4));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// Hits and counts are those of the reference for any division of the documents.
    #[test]
    fn any_division_gives_the_same_hits(
        case in generator::cases(), rates in proptest::array::uniform4(0u8..5), first in 0usize..6,
        count in any::<bool>(),
    ) {
        let kinds = [
            HOST, Kind::Pruned(Pruning::Wand), Kind::Cohort, Kind::Pruned(Pruning::MaxScore),
            Kind::Serving, Kind::Cpu(Some(Algorithm::BlockMaxWand)),
        ];
        let fixture = Fixture::after_each(&case.history(), |number| case.config(number));
        let snapshot = fixture.snapshot();
        let mut plans = plans(&snapshot, &case.searches(16));
        let expected = expected(&snapshot, &plans);
        plans.iter_mut().for_each(|plan| plan.count = count);
        let rates = rates.map(f64::from);
        let chosen: Vec<Kind> = (0..4).map(|i| kinds[(first + i) % kinds.len()]).collect();
        let check = |engine: &ByDocuments, plans: &[Plan], expected: &[Answer]| {
            let answers = answers_in(engine, plans, &Context::new(1)).unwrap();
            for (i, (answer, expected)) in answers.iter().zip(expected).enumerate() {
                prop_assert_eq!(&answer.hits, &expected.hits, "{} by {:?} {:?}", i, chosen, rates);
                if count {
                    prop_assert_eq!(answer.matches, expected.matches, "matches of {}", i);
                }
            }
            Ok(())
        };
        check(&together(&chosen, &snapshot, &rates), &plans, &expected)?;
        // The engine for AND alone.
        let and = |i: &usize| plans[*i].mode == Mode::And;
        let and: Vec<usize> = (0..plans.len()).filter(and).collect();
        let plans: Vec<Plan> = and.iter().map(|&i| plans[i].clone()).collect();
        let expected: Vec<Answer> = and.iter().map(|&i| expected[i].clone()).collect();
        let kinds = [Kind::Intersect, HOST, Kind::Intersect, Kind::Pruned(Pruning::Wand)];
        check(&together(&kinds, &snapshot, &rates), &plans, &expected)?;
    }
}

/// Creates documents of which the best are in the middle.
fn best_in_the_middle() -> (Fixture, Vec<Search>) {
    let text = |i: usize| {
        let best = (1980..2020).contains(&i);
        match i {
            _ if best => "apple pie ".repeat(5),
            _ if i.is_multiple_of(3) => {
                "apple pie ".to_owned() + &"filler ".repeat(12 + i * i % 17)
            }
            _ => "apple ".to_owned() + &"filler ".repeat(12 + i * i % 17),
        }
    };
    let docs: Vec<_> = (0..4000).map(|i| Doc::text(i, text(i))).collect();
    let search = |mode| Search { mode, ..Search::of(&["appl", "pie"]) };
    (Fixture::of(&docs), vec![search(Mode::Or), search(Mode::And)])
}

/// Returns the postings scored and blocks decoded.
fn work(answers: &[Answer]) -> u64 {
    let works = answers.iter().filter_map(|answer| answer.work);
    works.map(|work| work.postings_scored + 128 * work.blocks_decoded).sum()
}

/// A part that searches after another skips what the other's hits have beaten: between the CPU
/// and a GPU, in both directions, and between two GPUs.
#[test]
fn parts_that_share_their_floor_do_less_work() {
    let (fixture, searches) = best_in_the_middle();
    let snapshot = fixture.snapshot();
    let plans = plans(&snapshot, &searches);
    let expected = expected(&snapshot, &plans);
    let batch: Vec<&Plan> = plans.iter().collect();
    let (wand, maxscore) = (Kind::Pruned(Pruning::Wand), Kind::Pruned(Pruning::MaxScore));
    let cohort = Kind::Cpu(Some(Algorithm::Cohort));
    for (first, second) in [
        (HOST, wand),
        (HOST, maxscore),
        (wand, HOST),
        (maxscore, Kind::Cpu(Some(Algorithm::BlockMaxWand))),
        (Kind::Serving, cohort),
        (Kind::Cohort, wand),
        (wand, maxscore),
    ] {
        // The first has the best documents; the second comes before or after it.
        for (best, rest) in [(1900..4000, 0..1900), (0..2100, 2100..4000)] {
            let context = Context::new(1);
            let later = part(second, &snapshot, rest, 2);
            let alone = answers_in(&*later, &plans, &context).unwrap();
            let floors = Arc::new(Floors::new(&batch));
            let shared = context.with_floors(floors.clone());
            let earlier = part(first, &snapshot, best, 1);
            let before = answers_in(&*earlier, &plans, &shared).unwrap();
            assert!(plans.iter().all(|plan| floors.of(plan).unwrap().reached() > 0), "{first:?}");
            let after = answers_in(&*later, &plans, &shared).unwrap();
            let (with, without) = (work(&after), work(&alone));
            assert!(with * 2 < without, "{first:?}, then {second:?}: {with} of {without}");
            for (i, (before, after)) in before.into_iter().zip(after).enumerate() {
                let whole = Answer::merged([before, after], plans[i].k, Coverage::Complete);
                assert_eq!(whole.hits, expected[i].hits, "{first:?}, then {second:?}");
            }
        }
    }
}

/// A document that ties with the k-th hit of a part of later documents is a hit.
#[test]
fn ties_across_parts_are_kept() {
    let docs: Vec<_> = (0..400).map(|i| Doc::text(i, "apple pie")).collect();
    let fixture = Fixture::of(&docs);
    let snapshot = fixture.snapshot();
    let plans = plans(&snapshot, &[Search { k: 3, ..Search::of(&["appl", "pie"]) }]);
    let kinds = [
        HOST,
        Kind::Cpu(Some(Algorithm::Cohort)),
        Kind::Pruned(Pruning::Wand),
        Kind::Pruned(Pruning::MaxScore),
        Kind::Cohort,
        Kind::Serving,
    ];
    for first in kinds {
        for second in kinds {
            let floors = Arc::new(Floors::new(&[&plans[0]]));
            let shared = Context::new(1).with_floors(floors.clone());
            let search = |kind, docs, number| {
                answers_in(&*part(kind, &snapshot, docs, number), &plans, &shared)
                    .unwrap()
                    .remove(0)
            };
            let later = search(first, 200..400, 0);
            assert!(floors.of(&plans[0]).unwrap().reached() > 0);
            let earlier = search(second, 0..200, 1);
            let whole = Answer::merged([later, earlier], 3, Coverage::Complete);
            let docs: Vec<u32> = whole.hits.iter().map(|hit| hit.doc).collect();
            assert_eq!(docs, [0, 1, 2], "{first:?}, then {second:?}");
        }
    }
}

#[test]
#[should_panic(expected = "approximate")]
fn homogeneous_partitions_cannot_have_a_part_of_the_documents() {
    let fixture = Fixture::of(&[Doc::text(0, "apple")]);
    let partitioning = Partitioning::Homogeneous;
    let settings = PartitionSettings { partitioning, ..PartitionSettings::default() };
    let engine = PartitionedEngine::new(fixture.snapshot(), devices().remove(0), settings);
    let _ = engine.unwrap().within(0..1);
}
