//! Tests of keys, and of the cache against a simple model and with many threads.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;
use warpseek_core::Hit;
use warpseek_exec::{
    Answer, Coverage, Formula, Formulas, Mask, Mode, Plan, Query, Ranking, RankingFunction,
};
use warpseek_exec_cpu::CpuEngine;
use warpseek_index::Snapshot;
use warpseek_testkit::{Doc, Fixture, Search, answers, plans};

use super::kept::entry_bytes;
use super::*;

/// A small index, opened twice.
static SNAPSHOTS: LazyLock<[Arc<Snapshot>; 2]> = LazyLock::new(|| {
    let text = |i: usize| {
        let words = ["fig", "pie", "plum", "tart", "cake", "bun"];
        let word = |(n, word): (usize, &&str)| format!("{word} ").repeat((i * 7 / (n + 1)) % 4);
        words.iter().enumerate().map(word).collect::<String>()
    };
    let docs: Vec<Doc> =
        (0..300).map(|i| Doc::text(i, text(i)).with_static((i % 13) as f32)).collect();
    let fixture = Fixture::of(&docs);
    [fixture.snapshot(), fixture.snapshot()]
});

fn mask(ids: &[&str]) -> Arc<Mask> {
    Arc::new(Mask::of_ids(&SNAPSHOTS[0], ids).unwrap())
}

fn search(terms: &[(&str, f64)], mode: Mode) -> Search {
    let terms = terms.iter().map(|&(term, weight)| (term.to_owned(), weight));
    Search { query: Query::of(terms), mode, ..Search::of(&[]) }
}

fn plan(search: &Search) -> Plan {
    plans(&SNAPSHOTS[0], std::slice::from_ref(search)).remove(0)
}

fn key_of(terms: &[(&str, f64)]) -> Key {
    Key::of(&plan(&search(terms, Mode::And)))
}

#[test]
fn spellings_of_a_query_have_one_key() {
    let key = key_of(&[("fig", 2.0), ("pie", 1.0), ("nosuch", 1.0), ("noneither", 1.0)]);
    let other = [("noneither", 1.0), ("pie", 1.0), ("fig", 1.0), ("nosuch", 1.0), ("fig", 1.0)];
    assert_eq!(key, key_of(&other));
    assert_eq!(key.hash, key_of(&other).hash);
    assert_ne!(key, key_of(&other[..4]));
}

#[test]
fn whatever_changes_an_answer_changes_the_key() {
    let two = plan(&search(&[("fig", 1.0), ("pie", 2.0), ("nosuch", 1.0)], Mode::Or));
    let rankings = ["okapi", "wakatsuki", "cosine"].map(|name| name.parse().unwrap());
    let rankings = rankings.into_iter().chain([
        RankingFunction::Bm25 { k1: 0.9, b: 0.5 },
        RankingFunction::Bm25 { k1: 1.2, b: 0.4 },
    ]);
    let mut others: Vec<Plan> = rankings
        .map(|function| {
            let ranking = Ranking { function, static_weight: 0.0 };
            plan(&Search { ranking, ..search(&[("fig", 1.0), ("pie", 2.0)], Mode::Or) })
        })
        .collect();
    let changes: [fn(&mut Plan); 27] = [
        |_| {},
        |plan| plan.snapshot = SNAPSHOTS[1].id(),
        |plan| plan.mode = Mode::And,
        |plan| plan.mode = Mode::AndOr,
        |plan| plan.mask = Some(mask(&["1"])),
        |plan| plan.mask = Some(mask(&["1", "2"])),
        |plan| plan.mask = Some(mask(&[])),
        |plan| plan.k += 1,
        |plan| plan.k = usize::MAX,
        |plan| plan.count = true,
        |plan| plan.formulas = Formula::Linear.into(),
        |plan| plan.formulas = Formulas::new([plan.formulas.of(0); 2]),
        |plan| plan.formulas = Formula::Quantized.into(),
        |plan| plan.formulas = Formula::Cosine.into(),
        |plan| plan.formulas = Formula::Saturation { fixed: 0.5, by_length: 0.25 }.into(),
        |plan| plan.formulas = Formula::Saturation { fixed: 0.25, by_length: 0.5 }.into(),
        |plan| plan.static_weight = 1.0,
        |plan| plan.scale -= 1,
        |plan| drop(plan.terms.pop()),
        |plan| plan.terms[0].term.push('s'),
        |plan| plan.terms[0].field = 1,
        |plan| plan.terms[1].query_weight += 1.0,
        |plan| plan.terms[1].weight = plan.terms[1].weight.next_up(),
        // Swap weights, move a letter from one word to the next, or move a word to another
        // list.
        |plan| {
            let (first, second) = plan.terms.split_at_mut(1);
            std::mem::swap(&mut first[0].term, &mut second[0].term);
        },
        |plan| drop(plan.missing.pop()),
        |plan| plan.missing[0].0 = 1,
        |plan| plan.missing = vec![(0, "nosuc".to_owned()), (0, "h".to_owned())],
    ];
    others.extend(changes.map(|change| {
        let mut plan = two.clone();
        change(&mut plan);
        plan
    }));
    let keys: HashSet<Key> = others.iter().map(Key::of).collect();
    assert_eq!(keys.len(), others.len());
    let hashes: HashSet<u64> = keys.iter().map(|key| key.hash).collect();
    assert_eq!(hashes.len(), keys.len(), "the hash leaves something out");
}

#[test]
fn keys_with_one_hash_are_told_apart() {
    let cache = ResultCache::<Number, ()>::new(1 << 20);
    let key = |query: &[u8]| Key { hash: 7, ..Key::new(SNAPSHOTS[0].id(), query) };
    assert_eq!(cache.lookup(&key(b"a"), 0, ()), Lookup::Lead(()));
    cache.fill(&key(b"a"), &Arc::new(Number(1, 0)), true);
    assert_eq!(cache.lookup(&key(b"b"), 0, ()), Lookup::Lead(()));
    assert_eq!(cache.lookup(&key(b"a"), 0, ()), Lookup::Hit(Arc::new(Number(1, 0)), ()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Checks the promise of a key with an engine that does depend on the order of terms.
    #[test]
    fn equal_keys_have_equal_answers(
        terms in proptest::collection::vec((0usize..8, prop_oneof![Just(1.0), 0.01f64..9.0]), 1..7),
        order in any::<[u32; 7]>(),
        mode in proptest::sample::select(vec![Mode::Or, Mode::And, Mode::AndOr]),
        ranking in proptest::sample::select(vec!["bm25", "okapi", "cosine"]),
        static_weight in prop_oneof![Just(0.0), Just(0.5)],
        (k, count) in (0usize..40, any::<bool>()),
    ) {
        const WORDS: [&str; 8] = ["fig", "pie", "plum", "tart", "cake", "bun", "zz", "yy"];
        let terms: Vec<(&str, f64)> = terms.iter().map(|&(n, weight)| (WORDS[n], weight)).collect();
        let mut shuffled: Vec<_> = terms.iter().copied().zip(order).collect();
        shuffled.sort_by_key(|term| term.1);
        let shuffled: Vec<_> = shuffled.into_iter().map(|term| term.0).collect();
        let function = ranking.parse().unwrap();
        let plan = |terms: &[(&str, f64)]| {
            let ranking = Ranking { function, static_weight };
            Plan { count, ..plan(&Search { k, ranking, ..search(terms, mode) }) }
        };
        let (one, other) = (plan(&terms), plan(&shuffled));
        let is_distinct = terms.iter().map(|term| term.0).collect::<HashSet<_>>().len() == terms.len();
        if is_distinct && ranking != "cosine" {
            prop_assert_eq!(Key::of(&one), Key::of(&other));
        }
        if Key::of(&one) == Key::of(&other) {
            let engine = CpuEngine::new(SNAPSHOTS[0].clone(), None);
            let found = answers(&engine, &[one, other], 1).unwrap();
            prop_assert_eq!(&found[0].hits, &found[1].hits);
            if count {
                prop_assert_eq!(found[0].matches, found[1].matches);
            }
        }
    }
}

/// A number that claims to have allocated some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number(u64, usize);

impl HeapBytes for Number {
    fn heap_bytes(&self) -> usize {
        self.1
    }
}

/// Returns a key. Even numbers belong to the first snapshot, odd ones to the second.
fn key(number: usize) -> Key {
    Key::new(SNAPSHOTS[number % 2].id(), &number.to_le_bytes())
}

fn size(heap: usize) -> u64 {
    entry_bytes(&key(0), &Number(0, heap))
}

#[test]
fn a_partial_value_goes_to_waiters_and_is_not_kept() {
    let cache = ResultCache::<Number, &str>::new(1 << 20);
    assert_eq!(cache.lookup(&key(0), 0, "leader"), Lookup::Lead("leader"));
    assert_eq!(cache.lookup(&key(0), 1, "first"), Lookup::Follow);
    assert_eq!(cache.lookup(&key(0), 2, "second"), Lookup::Follow);
    assert_eq!(cache.lookup(&key(0), 3, "third"), Lookup::Follow);
    assert_eq!(cache.remove_waiter(&key(0), 2), Some("second"));
    assert_eq!(cache.remove_waiter(&key(0), 2), None);
    assert_eq!(cache.remove_waiter(&key(1), 1), None);
    let value = Arc::new(Number(5, 0));
    assert_eq!(cache.fill(&key(0), &value, false), ["first", "third"]);
    assert_eq!(cache.lookup(&key(0), 4, "leader"), Lookup::Lead("leader"));
    assert!(cache.abandon(&key(0)).is_empty());
    assert_eq!(cache.lookup(&key(0), 5, "leader"), Lookup::Lead("leader"));
    assert!(cache.fill(&key(0), &value, true).is_empty());
    assert_eq!(cache.lookup(&key(0), 6, "late"), Lookup::Hit(value, "late"));
    let counts = cache.counts();
    assert_eq!((counts.hits, counts.misses, counts.joined, counts.entries), (1, 3, 3, 1));
    assert_eq!(counts.hit_rate(), 1.0 / 7.0);
}

#[test]
fn values_that_are_too_large_are_not_kept_and_evict_nothing() {
    // A value may take almost all of its shard.
    for (bytes, fits) in [(0, 0), (SHARDS as u64 * size(120), 100)] {
        let cache = ResultCache::<Number, u64>::new(bytes);
        for number in 0..100 {
            cache.fill(&key(number), &Arc::new(Number(0, fits)), true);
        }
        let before = cache.counts();
        assert!(before.bytes <= bytes);
        // Every shard has space for one entry; a hundred keys reach nearly all shards.
        assert_eq!(before.entries > 12, bytes > 0, "{before:?}");
        for number in 100..200 {
            cache.fill(&key(number), &Arc::new(Number(0, fits + 21)), true);
        }
        assert_eq!(cache.counts(), before);
    }
    assert_eq!(CacheCounts::default().hit_rate(), 0.0);
}

#[test]
fn answers_count_what_they_have_allocated() {
    let mut answer = Answer::default();
    assert_eq!(answer.heap_bytes(), 0);
    answer.hits = Vec::with_capacity(1000);
    answer.hits.push(Hit { doc: 1, score: 1 });
    assert_eq!(answer.heap_bytes(), answer.hits.capacity() * 8);
    answer.coverage = Coverage::of([0..1, 4..5]);
    assert!(answer.heap_bytes() >= 8000 + 16);
}

#[derive(Clone, Debug)]
enum Operation {
    Lookup(usize),
    Fill {
        key: usize,
        heap: usize,
        keep: bool,
    },
    Abandon(usize),
    /// Removes a waiter, by its number among the waiters of the key, if there are that many.
    Remove(usize, usize),
    Forget(usize),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let key = || 0usize..12;
    let fill = (key(), 0usize..600, prop::bool::weighted(0.8));
    let operation = prop_oneof![
        8 => key().prop_map(Operation::Lookup),
        6 => fill.prop_map(|(key, heap, keep)| Operation::Fill { key, heap, keep }),
        1 => key().prop_map(Operation::Abandon),
        2 => (key(), 0usize..3).prop_map(|(key, nth)| Operation::Remove(key, nth)),
        1 => (0usize..2).prop_map(Operation::Forget),
    ];
    proptest::collection::vec(operation, 0..200)
}

/// A model of one shard, implemented in the simplest way. It follows the cache in which values
/// are evicted, and checks that there was a reason.
#[derive(Default)]
struct Model {
    kept: BTreeMap<usize, Number>,
    in_flight: BTreeMap<usize, Vec<u64>>,
    counts: CacheCounts,
}

impl Model {
    fn lookup(&mut self, key: usize, id: u64) -> Lookup<Number, u64> {
        if let Some(kept) = self.kept.get(&key) {
            self.counts.hits += 1;
            return Lookup::Hit(Arc::new(*kept), id);
        }
        if let Some(waiters) = self.in_flight.get_mut(&key) {
            waiters.push(id);
            self.counts.joined += 1;
            return Lookup::Follow;
        }
        self.in_flight.insert(key, Vec::new());
        self.counts.misses += 1;
        Lookup::Lead(id)
    }

    fn fill(&mut self, number: usize, value: Number, bound: u64, cache: &ResultCache<Number, u64>) {
        if self.kept.contains_key(&number) {
            return;
        }
        let before = self.bytes();
        let evicted = self.kept.len();
        let is_kept = |number: usize| cache.shard(&key(number)).kept.contains(&key(number));
        self.kept.retain(|&number, _| is_kept(number));
        self.counts.evicted += (evicted - self.kept.len()) as u64;
        if is_kept(number) {
            self.kept.insert(number, value);
        } else {
            assert!(size(value.1) * 20 > bound * 19, "a value of usual size is kept");
        }
        if before + size(value.1) <= bound {
            assert_eq!(self.counts.evicted, cache.counts().evicted, "there was space");
            assert_eq!(evicted, self.kept.len() - usize::from(is_kept(number)), "there was space");
        }
    }

    fn bytes(&self) -> u64 {
        self.kept.values().map(|kept| size(kept.1)).sum()
    }

    fn counts(&self) -> CacheCounts {
        CacheCounts { entries: self.kept.len() as u64, bytes: self.bytes(), ..self.counts }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Compares values, waiters and counts with the model after every operation.
    #[test]
    fn a_shard_does_what_a_simple_model_does(operations in operations(), bound in 0u64..4000) {
        let (cache, mut model) = (ResultCache::<Number, u64>::with_shards(bound, 1), Model::default());
        for (operation, id) in operations.into_iter().zip(0..) {
            match operation {
                Operation::Lookup(number) => {
                    prop_assert_eq!(cache.lookup(&key(number), id, id), model.lookup(number, id));
                }
                Operation::Fill { key: number, heap, keep } => {
                    let value = Number(id, heap);
                    let waiters = cache.fill(&key(number), &Arc::new(value), keep);
                    if keep {
                        model.fill(number, value, bound, &cache);
                    }
                    prop_assert_eq!(waiters, model.in_flight.remove(&number).unwrap_or_default());
                }
                Operation::Abandon(number) => {
                    let waiters = model.in_flight.remove(&number).unwrap_or_default();
                    prop_assert_eq!(cache.abandon(&key(number)), waiters);
                }
                Operation::Remove(number, nth) => {
                    let waiters = model.in_flight.get_mut(&number).filter(|all| nth < all.len());
                    let waiter = waiters.map(|waiters| waiters.remove(nth));
                    let found = cache.remove_waiter(&key(number), waiter.unwrap_or(u64::MAX));
                    prop_assert_eq!(found, waiter);
                }
                Operation::Forget(snapshot) => {
                    cache.forget(SNAPSHOTS[snapshot].id());
                    model.kept.retain(|number, _| number % 2 != snapshot);
                }
            }
            prop_assert_eq!(cache.counts(), model.counts());
            prop_assert!(cache.counts().bytes <= bound);
        }
    }
}

/// Values that are looked up again and again stay, however many others come once.
#[test]
fn values_in_use_outlast_those_that_are_used_once() {
    let cache = ResultCache::<Number, u64>::with_shards(20 * size(0), 1);
    let used = |number: usize| {
        if let Lookup::Lead(_) = cache.lookup(&key(number), 0, 0) {
            cache.fill(&key(number), &Arc::new(Number(number as u64, 0)), true);
        }
    };
    for round in 0..1000 {
        (0..4).for_each(used);
        used(4 + round);
    }
    let counts = cache.counts();
    assert!(counts.hits >= 3900, "{counts:?}");
    assert!(counts.evicted > 900 && counts.entries > 10, "{counts:?}");
}

/// Threads look up a few keys, lead, give up, leave and forget. Every waiter comes back once,
/// either to the leader or to the thread that removes it, and no key has two leaders.
#[test]
fn one_thread_at_a_time_leads_a_key() {
    const THREADS: u64 = 8;
    const REQUESTS: u64 = 4000;
    const KEYS: u64 = 6;
    // There is space for at most two of the keys, if they share a shard.
    let cache = ResultCache::<Number, u64>::with_shards(4 * size(0), 2);
    let leading: Vec<AtomicBool> = (0..KEYS).map(|_| AtomicBool::new(false)).collect();
    let came_back: Vec<AtomicU32> = (0..THREADS * REQUESTS).map(|_| AtomicU32::new(0)).collect();
    let followed = AtomicU64::new(0);
    let back = |id: u64| {
        came_back[id as usize].fetch_add(1, Ordering::Relaxed);
    };
    let request = |id: u64| {
        // Consecutive ids use the same key.
        let number = id % REQUESTS / 3 % KEYS;
        let (key, leading) = (key(number as usize), &leading[number as usize]);
        match cache.lookup(&key, id, id) {
            Lookup::Hit(value, waiter) => assert_eq!((value.0, waiter), (number, id)),
            Lookup::Lead(waiter) => {
                assert_eq!(waiter, id);
                assert!(!leading.swap(true, Ordering::SeqCst), "two leaders");
                thread::yield_now();
                assert!(leading.swap(false, Ordering::SeqCst));
                let waiters = match id % 5 {
                    0 => cache.abandon(&key),
                    keep => cache.fill(&key, &Arc::new(Number(number, 0)), keep > 2),
                };
                waiters.into_iter().for_each(&back);
            }
            Lookup::Follow => {
                followed.fetch_add(1, Ordering::Relaxed);
                if id.is_multiple_of(3)
                    && let Some(waiter) = cache.remove_waiter(&key, id)
                {
                    assert_eq!(waiter, id);
                    back(id);
                }
            }
        }
        if id % 64 == 63 {
            cache.forget(key.snapshot());
        }
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let request = &request;
            scope.spawn(move || (0..REQUESTS).for_each(|n| request(thread * REQUESTS + n)));
        }
    });
    let times: Vec<u32> = came_back.iter().map(|times| times.load(Ordering::Relaxed)).collect();
    assert!(times.iter().all(|&times| times <= 1));
    let followed = followed.into_inner();
    assert_eq!(times.iter().map(|&times| u64::from(times)).sum::<u64>(), followed);
    let counts = cache.counts();
    assert_eq!(counts.joined, followed);
    assert_eq!(counts.hits + counts.misses + counts.joined, THREADS * REQUESTS);
    assert!(counts.hits > 0 && counts.misses > 0 && counts.bytes <= 4 * size(0), "{counts:?}");
    assert!((0..KEYS as usize).all(|number| cache.abandon(&key(number)).is_empty()));
}
