//! Rounds that stop between two pieces, on the emulator or on a GPU (see `support`): wherever a
//! search is stopped, its answers are the reference's over the documents that they cover.

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use support::{devices, devices_within, on_gpu};
use warpseek_exec::{
    Answer, Cancel, Context, Coverage, Engine, Floors, Mask, Mode, Plan, Query, Ranking,
    RankingFunction, Reference,
};
use warpseek_exec_gpu::{GpuEngine, GpuLists, Settings};
use warpseek_index::{BuildConfig, DocSet, Snapshot};
use warpseek_testkit::{
    Doc, Fixture, Random, Search, answers, build_config, conformance, orders, plans,
};

/// Settings with the shortest pieces.
const SMALL: Settings =
    Settings { tile_bits: 5, or_bits: 8, and_bits: 10, piece: Duration::ZERO, ..Settings::USUAL };

fn pruned(snapshot: Arc<Snapshot>, threads: usize) -> Box<dyn Engine> {
    let mut devices = devices();
    let device = devices.remove(threads / 2 % devices.len());
    Box::new(GpuEngine::new(snapshot, device, SMALL).unwrap())
}

conformance!(in_pieces, pruned, cases alone);

/// Returns an index of three segments, each of which is better than the one before, and better at
/// its end: the worst case for thresholds that are known too early. Some of the best documents
/// are deleted.
fn index(config: BuildConfig) -> Fixture {
    index_of(config, [600, 500, 300])
}

fn index_of(config: BuildConfig, sizes: [usize; 3]) -> Fixture {
    let all: usize = sizes.iter().sum();
    let text = |i: usize| {
        let often = |n: usize, times: usize| if i.is_multiple_of(n) { times } else { 0 };
        let best = if i % 500 > 450 { 12 } else { 1 + i / 400 };
        let words = [
            ("w1 ", often(1, best)),
            ("w2 ", often(2, 1 + i % 3)),
            ("w3 ", often(97, 3)),
            ("w4 ", usize::from(i + 250 > all)),
            ("w5 ", usize::from(i < 200)),
        ];
        words.map(|(word, times)| word.repeat(times)).concat()
    };
    let docs: Vec<Doc> =
        (0..all).map(|i| Doc::text(i, text(i)).with_static((i % 11) as f32)).collect();
    let (first, others) = docs.split_at(sizes[0]);
    let (second, third) = others.split_at(sizes[1]);
    let fixture = Fixture::with(first, config);
    fixture.add(second).unwrap();
    fixture.add(third).unwrap();
    let deleted: Vec<String> = (0..all).filter(|i| i % 50 == 49).map(|i| i.to_string()).collect();
    fixture.delete(&deleted).unwrap();
    fixture
}

/// Returns plans of every mode, with few and many hits, some of them with a mask or a count.
fn all_plans(snapshot: &Arc<Snapshot>) -> Vec<Plan> {
    let words: [&[&str]; 6] = [
        &["w1"],
        &["w1", "w2", "w3"],
        &["w3", "w2"],
        &["w4", "w5"],
        &["w2", "w4", "w1", "w5"],
        &["w1", "missing"],
    ];
    let mut searches = Vec::new();
    for mode in [Mode::Or, Mode::And, Mode::AndOr] {
        for (i, words) in words.iter().enumerate() {
            let k = [1, 10, 1000][i % 3];
            let static_weight = if i == 2 { 0.5 } else { 0.0 };
            let ranking = Ranking { static_weight, ..Ranking::default() };
            searches.push(Search { mode, k, ranking, ..Search::of(words) });
            searches.push(Search { mode, k: 10, ..Search::of(words) });
        }
    }
    let sets = snapshot.segments().iter().map(|segment| {
        let docs = segment.documents().count();
        let mut set = DocSet::new(docs);
        for doc in (1..docs).step_by(3) {
            set.insert(doc);
        }
        set
    });
    let mask = Arc::new(Mask::new(snapshot, sets.collect()));
    let mut plans = plans(snapshot, &searches);
    plans.iter_mut().step_by(4).for_each(|plan| plan.mask = Some(mask.clone()));
    plans.iter_mut().step_by(5).for_each(|plan| plan.count = true);
    // Without hits, matches are counted.
    plans.extend([Mode::Or, Mode::And, Mode::AndOr].map(|mode| Plan {
        mode,
        k: 0,
        count: true,
        ..plans[1].clone()
    }));
    plans
}

/// The answers of the reference, which are computed once for each coverage.
struct Expected<'a> {
    snapshot: &'a Arc<Snapshot>,
    plans: &'a [Plan],
    known: HashMap<String, Vec<Answer>>,
}

impl Expected<'_> {
    fn over(&mut self, coverage: &Coverage, i: usize) -> &Answer {
        let (snapshot, plans) = (self.snapshot, self.plans);
        let compute = || {
            let reference = Reference::over(snapshot.clone(), coverage.clone());
            answers(&reference, plans, 1).unwrap()
        };
        &self.known.entry(format!("{coverage:?}")).or_insert_with(compute)[i]
    }
}

fn stop_everywhere(
    engine: &GpuEngine,
    snapshot: &Arc<Snapshot>,
    plans: &[Plan],
    what: &str,
) -> [usize; 3] {
    stop(engine, snapshot, plans, 1, what)
}

/// Stops a batch after 0, `step`, 2 * `step` checks and so on, until it ends before it is stopped.
/// Returns the number of partial answers with hits, for each mode.
fn stop(
    engine: &GpuEngine,
    snapshot: &Arc<Snapshot>,
    plans: &[Plan],
    step: usize,
    what: &str,
) -> [usize; 3] {
    let mut expected = Expected { snapshot, plans, known: HashMap::new() };
    let batch: Vec<&Plan> = plans.iter().collect();
    let mut partial = [0; 3];
    let mut before = vec![0; plans.len()];
    for moment in (0..).step_by(step) {
        assert!(moment < 5000, "{what}: there is no end");
        let context = Context::new(1).cancelled_by(Cancel::after(moment));
        for (i, answer) in engine.search(&batch, &context).into_iter().enumerate() {
            let (plan, answer) = (&plans[i], answer.unwrap());
            let wanted = expected.over(&answer.coverage, i);
            let about = format!("{what}, query {i}, {}, stopped at {moment}", plan.mode);
            assert_eq!(answer.hits, wanted.hits, "{about}, {:?}", answer.coverage);
            if plan.count {
                assert_eq!(answer.matches, wanted.matches, "{about}, {:?}", answer.coverage);
            }
            // The later it stops, the more it covers.
            let covered = answer.coverage.documents(snapshot);
            let first_of_two = plan.mode == Mode::AndOr;
            assert!(first_of_two || covered >= before[i], "{about}: {covered} < {}", before[i]);
            before[i] = covered;
            let is_partial = !answer.coverage.is_complete() && !answer.hits.is_empty();
            partial[plan.mode as usize] += usize::from(is_partial);
        }
        if !context.is_over() {
            break;
        }
    }
    assert_eq!(before, vec![snapshot.statistics().documents; plans.len()], "{what}");
    partial
}

fn engines(snapshot: &Arc<Snapshot>) -> impl Iterator<Item = GpuEngine> + use<'_> {
    devices().into_iter().flat_map(move |device| {
        [true, false].map(|pruned| {
            let settings = Settings { pruned, ..SMALL };
            GpuEngine::new(snapshot.clone(), device.clone(), settings).unwrap()
        })
    })
}

#[test]
fn hits_are_those_of_the_documents_covered() {
    let fixture = index(build_config());
    let snapshot = fixture.snapshot();
    let plans = all_plans(&snapshot);
    for engine in engines(&snapshot) {
        let what = format!("pruned: {}", engine.settings().pruned);
        let partial = stop_everywhere(&engine, &snapshot, &plans, &what);
        assert!(partial.iter().all(|&n| n > 10), "{what}: {partial:?} partial answers");
    }
}

/// Checks a query that is alone, which otherwise has kernels of its own.
#[test]
fn a_single_query_stops_too() {
    let fixture = index(build_config());
    let snapshot = fixture.snapshot();
    let plans = all_plans(&snapshot);
    let engine = engines(&snapshot).next().unwrap();
    let mut partial = [0; 3];
    for plan in plans.iter().filter(|plan| plan.k == 10 && !plan.count) {
        let own = stop_everywhere(&engine, &snapshot, std::slice::from_ref(plan), "alone");
        partial.iter_mut().zip(own).for_each(|(sum, n)| *sum += n);
    }
    assert!(partial.iter().all(|&n| n > 10), "{partial:?} partial answers");
}

/// Checks that coverage counts positions, and hits do not, if documents were reordered.
#[test]
fn documents_in_another_order() {
    let fixture = index(orders()[2].clone());
    let snapshot = fixture.snapshot();
    let plans = all_plans(&snapshot);
    let engine = engines(&snapshot).next().unwrap();
    let partial = stop_everywhere(&engine, &snapshot, &plans, "reordered");
    assert!(partial.iter().all(|&n| n > 10), "{partial:?} partial answers");
}

/// Checks an engine that answers for some of the documents: only these are covered.
#[test]
fn a_range_of_documents() {
    [build_config(), orders()[2].clone()].into_iter().for_each(check_range);
}

fn check_range(config: BuildConfig) {
    let fixture = index(config);
    let snapshot = fixture.snapshot();
    let plans: Vec<Plan> =
        all_plans(&snapshot).into_iter().filter(|plan| plan.mode != Mode::AndOr).collect();
    let batch: Vec<&Plan> = plans.iter().collect();
    let (range, mut partial) = (320..1250, 0);
    for engine in engines(&snapshot) {
        let engine = engine.within(range.clone());
        for moment in 0.. {
            let context = Context::new(1).cancelled_by(Cancel::after(moment));
            for (i, answer) in engine.search(&batch, &context).into_iter().enumerate() {
                let answer = answer.unwrap();
                let ranges = answer.coverage.ranges(range.clone());
                let inside = |part: &std::ops::Range<u32>| {
                    part.start >= range.start && part.end <= range.end
                };
                assert!(ranges.iter().all(inside), "{ranges:?}");
                partial += usize::from(!answer.coverage.is_complete() && !ranges.is_empty());
                let reference = Reference::over(snapshot.clone(), Coverage::of(ranges));
                let wanted = reference.search(&[batch[i]], Context::single()).remove(0).unwrap();
                assert_eq!(answer.hits, wanted.hits, "query {i}, stopped at {moment}");
            }
            if !context.is_over() {
                break;
            }
        }
    }
    assert!(partial > 10, "{partial} partial answers");
}

/// Checks lists that are loaded when queries need them, in slices, with memory for few lists and
/// for all.
#[test]
fn lists_on_demand() {
    let fixture = index_of(orders()[2].clone(), [2500, 300, 1200]);
    let snapshot = fixture.snapshot();
    let plans: Vec<Plan> = all_plans(&snapshot).into_iter().step_by(3).collect();
    let mut partial = [0; 3];
    for (lists, budget) in [(GpuLists::OnDemand, 350_000), (GpuLists::Compact, 3_000_000)] {
        let budget = if on_gpu() { 30_000_000 } else { budget };
        for (device, pruned) in devices_within(Some(budget)).into_iter().zip([true, false]) {
            let settings = Settings { lists, pruned, round: 1, ..SMALL };
            let what = format!("{lists} within {budget} bytes, pruned: {pruned}");
            let engine = GpuEngine::new(snapshot.clone(), device.unwrap(), settings).unwrap();
            let own = stop(&engine, &snapshot, &plans, if pruned { 13 } else { 5 }, &what);
            partial.iter_mut().zip(own).for_each(|(sum, n)| *sum += n);
            let counts = engine.cache_counts().unwrap();
            assert!(counts.slices > 3 * counts.rounds, "{what}: {counts:?}");
            let copied = counts.lists[2] > 0 && counts.lists[..2] != [0; 2];
            assert!(lists == GpuLists::Compact || copied, "{what}: {counts:?}");
        }
    }
    assert!(partial.iter().all(|&n| n > 5), "{partial:?} partial answers");
}

/// Checks slices that enter lists which stay as tiles in the middle.
#[test]
fn tiles_that_stay() {
    let mut random = Random::new(5);
    let mut text = |i: usize| {
        let bits = random.bits();
        let words = (0..20).filter(|n| bits >> n & 1 == 1).map(|n| format!("w{n} "));
        words.collect::<String>().repeat(1 + i / 20_000)
    };
    let docs: Vec<Doc> = (0..70_000).map(|i| Doc::text(i, text(i))).collect();
    let fixture = Fixture::of(&docs);
    let snapshot = fixture.snapshot();
    let words: [&[&str]; 4] = [&["w0"], &["w1", "w2"], &["w0", "w11"], &["w12", "w13"]];
    let plans = plans(&snapshot, &words.map(Search::of));
    let settings = Settings { tile_bits: 10, or_bits: 10, ..SMALL };
    let budget = if on_gpu() { 30_000_000 } else { 4_600_000 };
    let device = devices_within(Some(budget)).remove(0).unwrap();
    let engine = GpuEngine::new(snapshot.clone(), device, settings).unwrap();
    for _ in 0..3 {
        engine.search(&plans.iter().collect::<Vec<_>>(), &Context::new(1));
    }
    let [partial, ..] = stop(&engine, &snapshot, &plans, 5, "tiles that stay");
    let counts = engine.cache_counts().unwrap();
    let used = counts.lists[0] > 0 && counts.slices > counts.rounds;
    assert!(partial > 10 && (on_gpu() || used), "{partial} partial answers, {counts:?}");
}

/// Checks the kernels for very many terms.
#[test]
fn many_terms() {
    const WORDS: usize = 4200;
    let words: Vec<String> = (0..WORDS).map(|i| format!("w{i}")).collect();
    let doc = |i: usize| {
        let own = (0..12).map(|j| (&*words[(i * 31 + j * j * 7) % WORDS], 1.0 + (i % 9) as f64));
        let mut weights: Vec<(&str, f64)> = own.collect();
        weights.sort_unstable_by_key(|&(word, _)| word);
        weights.dedup_by_key(|&mut (word, _)| word);
        Doc::vector(i, &weights)
    };
    let fixture = Fixture::of(&(0..1200).map(doc).collect::<Vec<_>>());
    let snapshot = fixture.snapshot();
    let ranking = Ranking { function: RankingFunction::Impact, static_weight: 0.0 };
    let search = |mode: Mode| {
        let query = Query::of(words.iter().map(|word| (word.clone(), 1.0)));
        Search { query, mode, k: 20, ranking }
    };
    let plans = plans(&snapshot, &[search(Mode::Or), search(Mode::AndOr)]);
    let engine = engines(&snapshot).next().unwrap();
    let partial = stop_everywhere(&engine, &snapshot, &plans, "many terms");
    assert!(partial[Mode::Or as usize] > 2, "{partial:?} partial answers");
}

/// Checks that a part publishes a score that only its own documents have reached, and begins with
/// one that others have published.
#[test]
fn scores_are_shared_with_other_parts() {
    let fixture = index(build_config());
    let snapshot = fixture.snapshot();
    let plans: Vec<Plan> = all_plans(&snapshot)
        .into_iter()
        .filter(|plan| plan.k > 0 && plan.mode == Mode::Or && plan.mask.is_none())
        .collect();
    let batch: Vec<&Plan> = plans.iter().collect();
    let engine = engines(&snapshot).next().unwrap();
    let mut published = 0;
    for moment in 0..60 {
        let floors = Arc::new(Floors::new(&batch));
        let cancel = Cancel::after(moment);
        let context = Context::new(1).with_floors(floors).cancelled_by(cancel);
        for (i, answer) in engine.search(&batch, &context).into_iter().enumerate() {
            let answer = answer.unwrap();
            let reached = context.floor(batch[i]).unwrap().reached();
            let full = answer.hits.len() >= batch[i].k;
            let worst = answer.hits.last().map_or(0, |hit| hit.score);
            assert_eq!(reached, if full { worst } else { 0 }, "query {i}, stopped at {moment}");
            published += usize::from(full && !answer.coverage.is_complete());
        }
    }
    assert!(published > 10, "{published} published scores");
}

/// Checks that a search without a limit, or whose deadline is far away, is answered as a whole.
#[test]
fn without_need_there_are_no_pieces() {
    let fixture = index(build_config());
    let snapshot = fixture.snapshot();
    let plans = all_plans(&snapshot);
    let batch: Vec<&Plan> = plans.iter().collect();
    let device = devices().remove(0);
    let settings = Settings { piece: Settings::USUAL.piece, ..SMALL };
    let engine = GpuEngine::new(snapshot.clone(), device, settings).unwrap();
    for checks in 1..12 {
        let context = Context::new(1).cancelled_by(Cancel::after(checks));
        for (i, answer) in engine.search(&batch, &context).into_iter().enumerate() {
            let coverage = answer.unwrap().coverage;
            assert!(
                coverage.is_complete() || coverage == Coverage::NOTHING,
                "query {i}, {coverage:?}"
            );
        }
    }
}
