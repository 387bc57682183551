//! Tests of WAND and MaxScore on compressed lists.

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::sync::Arc;

use support::devices;
use warpseek_exec::{Answer, Engine, Mode, Plan, Query, Ranking, Work};
use warpseek_exec_gpu_papers::compressed::CODECS;
use warpseek_exec_gpu_papers::kernels::merge_lists::{Lists, MergeLists};
use warpseek_exec_gpu_papers::partitioned::{
    Batch, PartitionSettings, PartitionedEngine, Partitioning, Pruning, RuledOut, Threshold,
};
use warpseek_index::Snapshot;
use warpseek_testkit::{Doc, Fixture, Random, Search, answers, conformance, expected, plans};

/// Returns one of all combinations of settings that give the same hits, with partitions so small
/// that small indexes have many.
fn settings(pruning: Pruning, turn: usize) -> PartitionSettings {
    PartitionSettings {
        pruning,
        partition_size: Some([32, 7, 128][turn % 3]),
        per_block: [Some(2), None, Some(1)][turn / 3 % 3],
        threshold: Threshold::ALL[turn / 2 % 3],
        block_maxima: (turn / 2).is_multiple_of(2),
        batch: Batch::ALL[usize::from(turn % 5 == 4)],
        codec: CODECS[(turn + 4) % CODECS.len()],
        streams: 3,
        round: 50,
        ..PartitionSettings::default()
    }
}

fn engine(pruning: Pruning, snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    // One device of the emulator runs everything forwards, the other backwards.
    let mut devices = devices();
    let device = devices.remove(threads / 2 % devices.len());
    // Each case runs with one thread and with three, so with block maxima and without.
    let turn = snapshot.doc_limit() as usize + threads;
    let block_maxima = (snapshot.doc_limit() as usize + threads / 2).is_multiple_of(2);
    let settings = PartitionSettings { block_maxima, ..settings(pruning, turn) };
    Box::new(PartitionedEngine::new(snapshot, device, settings).unwrap())
}

fn wand(snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    engine(Pruning::Wand, snapshot, threads)
}

fn maxscore(snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    engine(Pruning::MaxScore, snapshot, threads)
}

conformance!(gpu_wand, wand, part 1 of 2);

conformance!(gpu_maxscore, maxscore, part 2 of 2);

/// Creates documents of a dozen words, from one that all of them contain to rare ones that occur
/// in clusters, with different lengths.
fn documents(count: usize, random: &mut Random) -> Vec<Doc> {
    let text = |i: usize, random: &mut Random| {
        let mut words = vec!["w0".to_owned()];
        for word in 1..12 {
            // Each word is in fewer documents than the one before; odd words only in every other
            // run of 200 documents.
            let clump = word % 2 == 0 || (i / 200).is_multiple_of(2);
            if clump && random.below(1 << (word * 2 / 3)) == 0 {
                (0..=random.below(4)).for_each(|_| words.push(format!("w{word}")));
            }
        }
        (0..random.below(30)).for_each(|n| words.push(format!("x{n}")));
        words.join(" ")
    };
    (0..count).map(|i| Doc::text(i, text(i, random))).collect()
}

/// Creates queries of one to five words.
fn searches(count: usize, random: &mut Random) -> Vec<Search> {
    let search = |random: &mut Random| {
        let word = |random: &mut Random| match random.below(4) {
            0 => format!("x{}", random.below(31)),
            _ => format!("w{}", random.below(12)),
        };
        let terms = (0..=random.below(5)).map(|_| (word(random), 1.0 + random.below(3) as f64));
        let query = Query::of(terms);
        let mode = [Mode::Or, Mode::Or, Mode::And, Mode::AndOr][random.below(4)];
        let k = [1, 3, 10, 32, 33, 128, 1000][random.below(7)];
        Search { query, mode, k, ranking: Ranking::default() }
    };
    (0..count).map(|_| search(random)).collect()
}

/// Creates an index of some of the documents, adds the rest, and deletes some of them.
fn fixture(count: usize, random: &mut Random) -> Fixture {
    let docs = documents(count, random);
    let (first, second) = docs.split_at(1 + random.below(count - 1));
    let fixture = Fixture::of(first);
    fixture.add(second).unwrap();
    let gone = docs.iter().filter(|_| random.below(8) == 0).map(|doc| doc.id.clone());
    fixture.delete(&gone.collect::<Vec<_>>()).unwrap();
    fixture
}

/// Checks that engines with all settings answer as the reference does.
fn check(fixture: &Fixture, searches: &[Search], turns: std::ops::Range<usize>) {
    let snapshot = fixture.snapshot();
    let plans = plans(&snapshot, searches);
    let expected = expected(&snapshot, &plans);
    for device in devices() {
        for &pruning in Pruning::ALL {
            for turn in turns.clone() {
                let settings = PartitionSettings { round: 1 << 14, ..settings(pruning, turn) };
                let engine = PartitionedEngine::new(snapshot.clone(), device.clone(), settings);
                let answers = answers(&engine.unwrap(), &plans, 2).unwrap();
                for (i, (answer, expected)) in answers.iter().zip(&expected).enumerate() {
                    assert_eq!(answer.hits, expected.hits, "{:?}, {settings:?}", searches[i]);
                }
            }
        }
    }
}

#[test]
fn lists_of_many_blocks() {
    let mut random = Random::new(7);
    let fixture = fixture(1500, &mut random);
    check(&fixture, &searches(24, &mut random), 0..6);
}

/// Tests windows that are too long for sums in shared memory, with few lists and with many.
#[test]
fn lists_of_documents_far_apart() {
    let mut random = Random::new(13);
    let doc = |i, random: &mut Random| {
        let words = (0..20).filter(|_| random.below(50) == 0).map(|word| format!("y{word} "));
        Doc::text(i, words.collect::<String>() + "z")
    };
    let docs: Vec<_> = (0..4000).map(|i| doc(i, &mut random)).collect();
    let words: Vec<String> = (0..20).map(|word| format!("y{word}")).collect();
    let search = |terms: usize, k| {
        let terms: Vec<&str> = words[20 - terms..].iter().map(String::as_str).collect();
        Search { k, ..Search::of(&terms) }
    };
    let searches = [search(3, 10), search(3, 200), search(12, 10), search(20, 100)];
    check(&Fixture::of(&docs), &searches, 0..2);
}

/// Runs a few random queries, or as many as WARPSEEK_SOAK_QUERIES says, as `cargo xtask soak`
/// does; on a GPU: `WARPSEEK_TEST_DEVICE=cuda WARPSEEK_SOAK_QUERIES=1000000 partitioned
/// random_queries`.
#[test]
fn random_queries() {
    let queries: usize = std::env::var("WARPSEEK_SOAK_QUERIES").map_or(240, |n| n.parse().unwrap());
    // Each query goes through both algorithms with three settings, on each device.
    let runs = 2 * 3 * devices().len();
    let (mut random, mut done, mut round) = (Random::new(11), 0, 0);
    while done < queries {
        let docs = 500 + random.below(8000);
        let fixture = fixture(docs, &mut random);
        let batch = (queries - done).div_ceil(runs).min(5000);
        check(&fixture, &searches(batch, &mut random), round..round + 3);
        done += batch * runs;
        round += 3;
        println!("{done} queries, all hits equal");
    }
}

/// Tests that lists that cannot contribute hits are neither scored nor decoded, unless matches
/// are counted.
#[test]
fn blocks_are_skipped() {
    let docs: Vec<_> =
        (0..3000).map(|i| Doc::text(i, if i < 10 { "rare common" } else { "common" })).collect();
    let fixture = Fixture::of(&docs);
    let snapshot = fixture.snapshot();
    let mut plans = plans(&snapshot, &[Search { k: 5, ..Search::of(&["rare", "common"]) }]);
    for device in devices() {
        for &pruning in Pruning::ALL {
            // One partition, so that the search for borders does not count.
            let partition_size = Some(3000);
            let settings =
                PartitionSettings { pruning, partition_size, ..PartitionSettings::default() };
            let engine =
                PartitionedEngine::new(snapshot.clone(), device.clone(), settings).unwrap();
            plans[0].count = false;
            let pruned = answers(&engine, &plans, 1).unwrap().remove(0);
            plans[0].count = true;
            let counted = answers(&engine, &plans, 1).unwrap().remove(0);
            assert_eq!((pruned.hits, pruned.matches), (counted.hits, None));
            assert_eq!(counted.matches, Some(3000));
            let blocks = 3000u64.div_ceil(128) + 1;
            let work = counted.work.unwrap();
            assert_eq!((work.blocks_skipped, work.postings_scored), (0, 3010));
            let Work { postings_scored, blocks_decoded, blocks_skipped } = pruned.work.unwrap();
            assert_eq!(blocks_decoded + blocks_skipped, blocks);
            assert!(blocks_decoded <= 3 && postings_scored <= 2 * 138, "{:?}", pruned.work);
        }
    }
}

/// Tests that the maxima of blocks rule out blocks and documents that those of lists do not, and
/// that hits are the same without them.
#[test]
fn block_maxima_rule_out_blocks_and_documents() {
    let mut random = Random::new(17);
    let text = |i: usize, random: &mut Random| {
        // The best documents come first. Elsewhere, words occur once, and most documents are
        // long; a few have both words.
        let times = if i < 60 { 6 } else { 1 };
        let rare = random.below(12) == 0 || i < 60;
        let words = "common ".repeat(times) + &"rare ".repeat(if rare { times } else { 0 });
        words + &"filler ".repeat(if i < 60 { 1 } else { 20 + random.below(9) })
    };
    let docs: Vec<_> = (0..6000).map(|i| Doc::text(i, text(i, &mut random))).collect();
    let fixture = Fixture::of(&docs);
    let snapshot = fixture.snapshot();
    let search = |terms: &[&str], mode| Search { k: 20, mode, ..Search::of(terms) };
    let searches = [
        search(&["common"], Mode::Or),
        search(&["common", "rare"], Mode::Or),
        search(&["common", "rare"], Mode::And),
        search(&["common", "rare", "filler"], Mode::Or),
    ];
    let plans = plans(&snapshot, &searches);
    let expected = expected(&snapshot, &plans);
    for device in devices() {
        for &pruning in Pruning::ALL {
            let settings = |block_maxima| PartitionSettings {
                pruning,
                partition_size: Some(6000),
                block_maxima,
                ..PartitionSettings::default()
            };
            let mut engine =
                PartitionedEngine::new(snapshot.clone(), device.clone(), settings(true)).unwrap();
            let with = answers(&engine, &plans, 1).unwrap();
            let ruled_out = engine.take_ruled_out();
            engine.set(settings(false)).unwrap();
            let without = answers(&engine, &plans, 1).unwrap();
            assert_eq!(engine.take_ruled_out(), RuledOut::default());
            for ((with, without), expected) in with.iter().zip(&without).zip(&expected) {
                assert_eq!((&with.hits, &without.hits), (&expected.hits, &expected.hits));
            }
            let decoded = |answers: &[Answer]| -> u64 {
                answers.iter().filter_map(|answer| Some(answer.work?.blocks_decoded)).sum()
            };
            let (with, without) = (decoded(&with), decoded(&without));
            assert!(ruled_out.blocks > 0, "{pruning}");
            assert!(with * 3 < without, "{pruning}: {with} blocks, {without} without maxima");
        }
    }
}

/// Tests that documents are not looked up in a block whose maximum cannot make hits of them.
#[test]
fn block_maxima_save_look_ups() {
    // All documents are equally long. Those with `rare` are good only at the beginning, where
    // `common` is frequent in them.
    let text = |i: usize| {
        let common = match i {
            _ if !i.is_multiple_of(2) => 0,
            ..384 => 9,
            _ => 1,
        };
        let rare = usize::from(i.is_multiple_of(12));
        "common ".repeat(common) + &"rare ".repeat(rare) + &"filler ".repeat(12 - common - rare)
    };
    let docs: Vec<_> = (0..3000).map(|i| Doc::text(i, text(i))).collect();
    let fixture = Fixture::of(&docs);
    let snapshot = fixture.snapshot();
    let plans = plans(&snapshot, &[Search { k: 5, ..Search::of(&["rare", "common"]) }]);
    let expected = expected(&snapshot, &plans);
    for device in devices() {
        for &pruning in Pruning::ALL {
            let settings = PartitionSettings {
                pruning,
                partition_size: Some(3000),
                ..PartitionSettings::default()
            };
            let engine = PartitionedEngine::new(snapshot.clone(), device.clone(), settings);
            let engine = engine.unwrap();
            assert_eq!(answers(&engine, &plans, 1).unwrap()[0].hits, expected[0].hits);
            let ruled_out = engine.take_ruled_out();
            // WAND moves its pivot past such documents.
            let saved = match pruning {
                Pruning::Wand => ruled_out.blocks,
                Pruning::MaxScore => ruled_out.documents,
            };
            assert!(saved > 0, "{pruning}: {ruled_out:?}");
        }
    }
}

/// Tests homogeneous partitions: every document is a hit at most once, and its score is at most
/// the real one; a single partition is exact.
#[test]
fn homogeneous_partitions_are_approximate() {
    let mut random = Random::new(3);
    let fixture = Fixture::of(&documents(1500, &mut random));
    let snapshot = fixture.snapshot();
    let searches = searches(16, &mut random);
    let or = |search: &Search| Search { mode: Mode::Or, ..search.clone() };
    let plans = plans(&snapshot, &searches.iter().map(or).collect::<Vec<_>>());
    let exact = expected(&snapshot, &plans);
    let all: Vec<Plan> = plans.iter().map(|plan| Plan { k: 1500, ..plan.clone() }).collect();
    let all = expected(&snapshot, &all);
    for device in devices() {
        for &pruning in Pruning::ALL {
            let mut settings = PartitionSettings {
                pruning,
                partitioning: Partitioning::Homogeneous,
                partition_size: Some(64),
                per_block: Some(3),
                ..PartitionSettings::default()
            };
            let mut engine =
                PartitionedEngine::new(snapshot.clone(), device.clone(), settings).unwrap();
            assert!(engine.name().ends_with("approximate"));
            let mut found = 0;
            for (answer, all) in answers(&engine, &plans, 1).unwrap().iter().zip(&all) {
                let scores: HashMap<_, _> = all.hits.iter().map(|h| (h.doc, h.score)).collect();
                let mut hits: Vec<_> = answer.hits.iter().map(|hit| hit.doc).collect();
                assert!(answer.hits.iter().all(|hit| hit.score <= scores[&hit.doc]));
                hits.sort_unstable();
                hits.dedup();
                assert_eq!(hits.len(), answer.hits.len());
                found += hits.len();
            }
            assert!(found > 0);
            settings.partition_size = Some(1500);
            engine.set(settings).unwrap();
            for (answer, exact) in answers(&engine, &plans, 1).unwrap().iter().zip(&exact) {
                assert_eq!(answer.hits, exact.hits);
            }
        }
    }
}

#[test]
fn sorted_lists_are_merged() {
    let mut random = Random::new(5);
    for device in devices() {
        let stream = device.stream().unwrap();
        let merge = MergeLists::new(&device).unwrap();
        for (queries, lists, stride) in [(1, 1, 1), (3, 32, 5), (2, 33, 70), (2, 70, 32)] {
            let (mut keys, mut counts) = (Vec::new(), Vec::new());
            let mut next = 0;
            let mut expected = vec![Vec::new(); queries * MergeLists::left(lists) as usize];
            for query in 0..queries {
                for list in 0..lists as usize {
                    let count = random.below(stride as usize + 1);
                    let mut some: Vec<u64> = (0..count)
                        .map(|_| {
                            next += 1;
                            (1 + random.below(5) as u64) << 32 | next
                        })
                        .collect();
                    some.sort_unstable_by(|a, b| b.cmp(a));
                    let part = query * MergeLists::left(lists) as usize + list / 32;
                    expected[part].extend_from_slice(&some);
                    some.resize(stride as usize, u64::MAX);
                    keys.extend(some);
                    counts.push(count as u32);
                }
            }
            let kept: Vec<u32> = (0..queries as u32).map(|q| stride - q.min(stride - 1)).collect();
            for (part, keys) in expected.iter_mut().enumerate() {
                keys.sort_unstable_by(|a, b| b.cmp(a));
                keys.truncate(kept[part / MergeLists::left(lists) as usize] as usize);
            }
            let upload = |keys: &[u64], counts: &[u32]| Lists {
                keys: device.upload(&stream, keys).unwrap(),
                counts: device.upload(&stream, counts).unwrap(),
                stride,
            };
            let to = upload(&vec![7; expected.len() * stride as usize], &vec![7; expected.len()]);
            let kept = device.upload(&stream, &kept).unwrap();
            merge.launch(&stream, &kept, lists, &upload(&keys, &counts), &to).unwrap();
            let (keys, counts) =
                (stream.download(&to.keys).unwrap(), stream.download(&to.counts).unwrap());
            for (i, expected) in expected.iter().enumerate() {
                assert_eq!(&keys[i * stride as usize..][..counts[i] as usize], expected);
            }
        }
    }
}
