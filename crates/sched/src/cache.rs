//! The result cache: answers by query, and one computation for equal queries in flight.
//!
//! A [`Key`] is a plan without the order of its terms. The first lookup of a key makes its caller
//! the leader, which computes the value. Lookups that happen before the value is known leave a
//! waiter. [`ResultCache::fill`] and [`ResultCache::abandon`] return these waiters to the leader.
//! Later lookups find the value if the cache kept it. The cache never waits, computes or calls
//! back, so it serves both threads that block and schedulers that do not.
//!
//! The hash of a key selects one of several shards, so that threads seldom contend. Each shard
//! has a mutex, a map, and the order in which its entries were used; it evicts the least recently
//! used ones to stay within its share of the bytes.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpseek_exec::gather::Gather;
use warpseek_exec::query::PlanTree;
use warpseek_exec::{Answer, Coverage, Formula, Mask, Plan, PlanTerm};
use warpseek_index::SnapshotId;

/// Everything that an answer depends on. Plans with equal keys differ at most in the order of
/// their terms.
///
/// Their answers have the same hits, bit for bit: a posting's contribution is an integer that
/// depends on the formula, the term's weight and the document, engines only add these integers,
/// and hits have a total order. So the order of terms changes neither scores nor ranks.
/// [`Answer::matches`] is the same too if the plan requests it; otherwise the engine decides
/// whether to report it. [`Answer::work`] describes the engine that computed the answer.
///
/// The converse does not hold. With the cosine ranking, or with weights that have to be added,
/// rounding may depend on the order of terms. The same query in another order then has another
/// key, and is computed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Hash of the other fields. It is computed once, and compared first.
    hash: u64,
    /// Snapshot of the plan. It determines documents, deletions and statistics, and thereby each
    /// term's `lists` and `df`.
    snapshot: SnapshotId,
    /// Everything else, encoded unambiguously in one allocation that all copies share. It is
    /// compared as a whole, so that a hash collision never returns a wrong answer.
    query: Arc<[u8]>,
    /// Mask of the documents that may be hits, if there is one; compared as a whole, too.
    mask: Option<Arc<Mask>>,
    /// The query tree, unless the other fields determine it.
    tree: Option<Arc<PlanTree>>,
    /// The sort order of hits, the position after which they start, and the requested counts, if
    /// any.
    gather: Option<Arc<Gather>>,
}

impl Key {
    /// Returns the key of a plan.
    pub fn of(plan: &Plan) -> Self {
        // There is no `..` here, so that a new field of plans forces a decision on whether
        // answers depend on it.
        let Plan {
            snapshot,
            terms,
            missing,
            mode,
            k,
            count,
            mask,
            tree,
            gather,
            formulas,
            static_weight,
            scale,
        } = plan;
        // An additive tree adds nothing to the other fields.
        let tree = tree.as_ref().filter(|tree| !tree.is_additive);
        let mut query = Vec::with_capacity(64 + 40 * terms.len());
        // The matching documents, the number of hits, and whether all matches are counted.
        query.push(*mode as u8);
        query.push(u8::from(*count));
        query.extend((*k as u64).to_le_bytes());
        // Together with the terms' weights, the formulas are all that engines see of the ranking.
        // Numbers are compared by their bits. There is one formula per field of the snapshot.
        for formula in formulas.iter() {
            match formula {
                Formula::Saturation { fixed, by_length } => {
                    query.push(0);
                    query.extend(fixed.to_bits().to_le_bytes());
                    query.extend(by_length.to_bits().to_le_bytes());
                }
                Formula::Cosine => query.push(1),
                Formula::Linear => query.push(2),
                Formula::Quantized => query.push(3),
            }
        }
        query.extend(static_weight.to_bits().to_le_bytes());
        // The unit of scores: equal integers at another scale are other scores.
        query.extend(scale.to_le_bytes());
        let mut sorted: Vec<&PlanTerm> = terms.iter().collect();
        // A tree refers to its terms by number, so their order must stay.
        if tree.is_none() {
            sorted.sort_unstable_by(|a, b| (&a.term, a.field).cmp(&(&b.term, b.field)));
        }
        query.extend((sorted.len() as u32).to_le_bytes());
        for term in sorted {
            // The snapshot and the term determine `df` and `lists`, the formula and the weight
            // determine `most`, and engines do not read `idf`.
            let PlanTerm { field, term, query_weight, df: _, idf: _, weight, most: _, lists: _ } =
                term;
            query.push(*field);
            push_word(&mut query, term);
            // Scores depend on `weight` alone. The requested weight distinguishes queries whose
            // weights round to the same value.
            query.extend(query_weight.to_bits().to_le_bytes());
            query.extend(weight.to_bits().to_le_bytes());
        }
        // Missing terms matter: with one of them, AND has no hits.
        let mut missing: Vec<&(u8, String)> = missing.iter().collect();
        missing.sort_unstable();
        for (field, word) in missing {
            query.push(*field);
            push_word(&mut query, word);
        }
        query.extend(mask.as_ref().map_or(u64::MAX, |mask| mask.documents()).to_le_bytes());
        if let Some(gather) = gather {
            // `gather` is compared as a whole; adding it here gives the pages of a query
            // different hashes.
            query.extend(format!("{gather:?}").bytes());
        }
        let (mask, tree, gather) = (mask.clone(), tree.cloned(), gather.clone());
        Key { mask, tree, gather, ..Key::new(*snapshot, &query) }
    }

    fn new(snapshot: SnapshotId, query: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        (snapshot, query).hash(&mut hasher);
        let (hash, query) = (hasher.finish(), query.into());
        Key { hash, snapshot, query, mask: None, tree: None, gather: None }
    }

    /// Returns the snapshot of the plan.
    pub fn snapshot(&self) -> SnapshotId {
        self.snapshot
    }
}

/// Appends a word with its length, so that its end is unambiguous.
fn push_word(to: &mut Vec<u8>, word: &str) {
    to.extend((word.len() as u64).to_le_bytes());
    to.extend(word.as_bytes());
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The map hashes this again with a random seed, so that an attacker cannot choose queries
        // that share a bucket.
        state.write_u64(self.hash);
    }
}

/// A value that knows how much memory it takes.
pub trait HeapBytes {
    /// Returns the number of bytes that the value has allocated, without its own size.
    fn heap_bytes(&self) -> usize;
}

impl HeapBytes for Answer {
    fn heap_bytes(&self) -> usize {
        fn allocated<T>(vec: &Vec<T>) -> usize {
            vec.capacity() * size_of::<T>()
        }
        let coverage = match &self.coverage {
            Coverage::Complete => 0,
            Coverage::Partial(ranges) => allocated(ranges),
        };
        let gathered = self
            .gathered
            .as_ref()
            .map_or(0, |gathered| size_of_val(&**gathered) + gathered.bytes());
        allocated(&self.hits) + coverage + gathered
    }
}

/// The result of a lookup. It returns the waiter to the caller, unless the caller has to wait.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<V, W> {
    /// The value is in the cache.
    Hit(Arc<V>, W),
    /// No caller is computing the value yet, so this caller must. It then calls
    /// [`ResultCache::fill`] or [`ResultCache::abandon`], whatever happens; until then all other
    /// lookups of the key wait.
    Lead(W),
    /// Another caller is computing the value and will get the waiter.
    Follow,
}

/// Counts of a cache since its creation, and its current size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Lookups that found a value.
    pub hits: u64,
    /// Lookups whose caller had to compute the value.
    pub misses: u64,
    /// Lookups that left a waiter with another caller's computation.
    pub joined: u64,
    /// Entries that were evicted to make space for others.
    pub evicted: u64,
    /// Current number of entries.
    pub entries: u64,
    /// Current size of the entries in bytes.
    pub bytes: u64,
}

impl CacheCounts {
    /// Returns the share of lookups that found a value; 0 without lookups. Lookups that joined a
    /// computation are not hits, since they had to wait.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses + self.joined).max(1) as f64
    }
}

/// A cache of values by [`Key`], bounded in bytes. In practice `V` is [`Answer`], and `W`
/// identifies a request.
///
/// The caller decides which values the cache keeps. They must be complete answers over all
/// documents: a key does not contain deadlines, nor the documents of an engine that answers for a
/// part of the index.
///
/// The bound applies to values that are kept. Waiters are not counted; admission limits their
/// number.
pub struct ResultCache<V, W> {
    shards: Vec<Mutex<Shard<V, W>>>,
}

/// Number of shards: enough that 64 threads seldom contend. More would reduce the largest value
/// that can be kept.
const SHARDS: usize = 16;

impl<V: HeapBytes, W> ResultCache<V, W> {
    /// Creates a cache whose entries take at most this many bytes. Each of its 16 shards has an
    /// equal share, and larger values than that are not kept. With 0 bytes the cache only joins
    /// equal queries.
    pub fn new(bytes: u64) -> Self {
        Self::with_shards(bytes, SHARDS)
    }

    fn with_shards(bytes: u64, shards: usize) -> Self {
        let bound = bytes / shards as u64;
        ResultCache { shards: (0..shards).map(|_| Mutex::new(Shard::new(bound))).collect() }
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard<V, W>> {
        locked(&self.shards[key.hash as usize % self.shards.len()])
    }

    /// Looks up a value. If another caller is computing it, the waiter stays in the cache; `id`,
    /// which must be unique among the waiters of a key, is for [`ResultCache::remove_waiter`].
    pub fn lookup(&self, key: &Key, id: u64, waiter: W) -> Lookup<V, W> {
        let shard = &mut *self.shard(key);
        match shard.states.get_mut(key) {
            Some(State::Kept(kept)) => {
                shard.order.touch(kept.place);
                shard.counts.hits += 1;
                Lookup::Hit(kept.value.clone(), waiter)
            }
            Some(State::InFlight(waiters)) => {
                waiters.push((id, waiter));
                shard.counts.joined += 1;
                Lookup::Follow
            }
            None => {
                shard.states.insert(key.clone(), State::InFlight(Vec::new()));
                shard.counts.misses += 1;
                Lookup::Lead(waiter)
            }
        }
    }

    /// Ends a computation and returns its waiters, the earliest first. The cache keeps the value
    /// if `keep` is set and the value fits; it must be a complete answer then. Each waiter may
    /// accept a value that is not kept, or look up the key again, which makes one of them the
    /// leader.
    pub fn fill(&self, key: &Key, value: &Arc<V>, keep: bool) -> Vec<W> {
        let bytes = entry_bytes::<V, W>(key, value);
        let shard = &mut *self.shard(key);
        let waiters = shard.land(key);
        if keep {
            shard.keep(key, value, bytes);
        }
        waiters
    }

    /// Ends a computation that has no value, and returns its waiters, the earliest first. They
    /// must look up the key again, which makes one of them the leader.
    pub fn abandon(&self, key: &Key) -> Vec<W> {
        self.shard(key).land(key)
    }

    /// Removes a waiter that was cancelled or is late. Returns `None` if the leader has it
    /// already.
    pub fn remove_waiter(&self, key: &Key, id: u64) -> Option<W> {
        match self.shard(key).states.get_mut(key) {
            Some(State::InFlight(waiters)) => {
                let at = waiters.iter().position(|waiter| waiter.0 == id)?;
                Some(waiters.remove(at).1)
            }
            _ => None,
        }
    }

    /// Drops the entries of a snapshot that is no longer searched. Computations in flight
    /// continue; the values that they add are evicted when they are the least recently used.
    pub fn forget(&self, snapshot: SnapshotId) {
        for shard in &self.shards {
            let shard = &mut *locked(shard);
            let (order, bytes) = (&mut shard.order, &mut shard.bytes);
            shard.states.retain(|key, state| match state {
                State::Kept(kept) if key.snapshot == snapshot => {
                    order.remove(kept.place);
                    *bytes -= kept.bytes;
                    false
                }
                _ => true,
            });
        }
    }

    /// Returns the counts so far and the current size.
    pub fn counts(&self) -> CacheCounts {
        let mut sum = CacheCounts::default();
        for shard in &self.shards {
            let shard = locked(shard);
            sum.hits += shard.counts.hits;
            sum.misses += shard.counts.misses;
            sum.joined += shard.counts.joined;
            sum.evicted += shard.counts.evicted;
            sum.entries += shard.order.len() as u64;
            sum.bytes += shard.bytes;
        }
        sum
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the memory of an entry: its allocations, and its part of the tables.
fn entry_bytes<V: HeapBytes, W>(key: &Key, value: &V) -> u64 {
    /// Overhead of the allocator per allocation.
    const ALLOCATION: usize = 16;
    /// Size of the counters of an `Arc`.
    const COUNTERS: usize = 2 * size_of::<usize>();
    let of_mask = key.mask.as_ref().map_or(0, |mask| ALLOCATION + mask.bytes());
    let of_tree = key.tree.as_ref().map_or(0, |tree| ALLOCATION + tree.bytes());
    let of_gather = key.gather.as_ref().map_or(0, |gather| ALLOCATION + gather.bytes());
    let of_key = ALLOCATION + COUNTERS + key.query.len() + of_mask + of_tree + of_gather;
    let of_value = 2 * ALLOCATION + COUNTERS + size_of::<V>() + value.heap_bytes();
    // Tables double when they are full, so up to half of each is empty. A map has one byte of
    // metadata per slot, and leaves one slot in eight empty.
    let of_map = 16 * (size_of::<(Key, State<V, W>)>() + 1) / 7;
    let of_order = 2 * size_of::<Node>();
    (of_key + of_value + of_map + of_order) as u64
}

/// The keys of one shard.
struct Shard<V, W> {
    states: HashMap<Key, State<V, W>>,
    /// Order in which the keys with values were last used.
    order: Order,
    bytes: u64,
    bound: u64,
    /// Counts of lookups and evictions. The numbers of entries and bytes are kept elsewhere.
    counts: CacheCounts,
}

/// State of a key. Unknown keys have none.
enum State<V, W> {
    /// A leader is computing the value, and these waiters wait for it.
    InFlight(Vec<(u64, W)>),
    Kept(Kept<V>),
}

struct Kept<V> {
    value: Arc<V>,
    bytes: u64,
    place: usize,
}

impl<V, W> Shard<V, W> {
    fn new(bound: u64) -> Self {
        let (states, order) = (HashMap::new(), Order::new());
        Shard { states, order, bytes: 0, bound, counts: CacheCounts::default() }
    }

    /// Ends a computation and returns its waiters.
    fn land(&mut self, key: &Key) -> Vec<W> {
        let Some(State::InFlight(waiters)) = self.states.get_mut(key) else { return Vec::new() };
        let waiters = std::mem::take(waiters);
        self.states.remove(key);
        waiters.into_iter().map(|(_, waiter)| waiter).collect()
    }

    /// Keeps the value of a key that is not in flight, and evicts others for it first.
    fn keep(&mut self, key: &Key, value: &Arc<V>, bytes: u64) {
        // If the key already has a value, it is the same: equal keys have equal values.
        if bytes > self.bound || self.states.contains_key(key) {
            return;
        }
        while self.bytes + bytes > self.bound
            && let Some(oldest) = self.order.oldest()
        {
            if let Some(key) = self.order.remove(oldest)
                && let Some(State::Kept(kept)) = self.states.remove(&key)
            {
                self.bytes -= kept.bytes;
                self.counts.evicted += 1;
            }
        }
        let place = self.order.add(key.clone());
        self.bytes += bytes;
        self.states.insert(key.clone(), State::Kept(Kept { value: value.clone(), bytes, place }));
    }
}

/// Keys in the order of their last use, as a ring of nodes. The first node has no key and links
/// the newest to the oldest.
struct Order {
    nodes: Vec<Node>,
    free: Vec<usize>,
}

struct Node {
    newer: usize,
    older: usize,
    key: Option<Key>,
}

impl Order {
    fn new() -> Self {
        Order { nodes: vec![Node { newer: 0, older: 0, key: None }], free: Vec::new() }
    }

    fn len(&self) -> usize {
        self.nodes.len() - 1 - self.free.len()
    }

    fn oldest(&self) -> Option<usize> {
        Some(self.nodes[0].newer).filter(|&place| place != 0)
    }

    /// Adds a key as the newest and returns its position.
    fn add(&mut self, key: Key) -> usize {
        let node = Node { newer: 0, older: 0, key: Some(key) };
        let place = match self.free.pop() {
            Some(place) => {
                self.nodes[place] = node;
                place
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        };
        self.link(place);
        place
    }

    /// Makes the key at this position the newest.
    fn touch(&mut self, place: usize) {
        self.unlink(place);
        self.link(place);
    }

    fn remove(&mut self, place: usize) -> Option<Key> {
        self.unlink(place);
        self.free.push(place);
        self.nodes[place].key.take()
    }

    fn link(&mut self, place: usize) {
        let newest = self.nodes[0].older;
        (self.nodes[place].newer, self.nodes[place].older) = (0, newest);
        self.nodes[newest].newer = place;
        self.nodes[0].older = place;
    }

    fn unlink(&mut self, place: usize) {
        let Node { newer, older, .. } = self.nodes[place];
        self.nodes[newer].older = older;
        self.nodes[older].newer = newer;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::{BTreeMap, HashSet};
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
    use std::thread;

    use proptest::prelude::*;
    use warpseek_core::Hit;
    use warpseek_exec::{Formulas, Mode, Query, Ranking, RankingFunction};
    use warpseek_exec_cpu::CpuEngine;
    use warpseek_index::Snapshot;
    use warpseek_testkit::{Doc, Fixture, Search, answers, plans};

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
        entry_bytes::<Number, u64>(&key(0), &Number(0, heap))
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
        for (bytes, fits) in [(0, 0), (SHARDS as u64 * size(100), 100)] {
            let cache = ResultCache::<Number, u64>::new(bytes);
            for number in 0..100 {
                cache.fill(&key(number), &Arc::new(Number(0, fits)), true);
            }
            let before = cache.counts();
            assert!(before.bytes <= bytes);
            // Every shard has space for one entry; a hundred keys reach nearly all shards.
            assert_eq!(before.entries > 12, bytes > 0, "{before:?}");
            for number in 100..200 {
                cache.fill(&key(number), &Arc::new(Number(0, fits + 1)), true);
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

    /// A model of one shard, implemented in the simplest way.
    #[derive(Default)]
    struct Model {
        /// Keys and values, the least recently used first.
        kept: Vec<(usize, Number)>,
        in_flight: BTreeMap<usize, Vec<u64>>,
        counts: CacheCounts,
    }

    impl Model {
        fn lookup(&mut self, key: usize, id: u64) -> Lookup<Number, u64> {
            if let Some(at) = self.kept.iter().position(|kept| kept.0 == key) {
                let kept = self.kept.remove(at);
                self.kept.push(kept);
                self.counts.hits += 1;
                return Lookup::Hit(Arc::new(kept.1), id);
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

        fn fill(&mut self, key: usize, value: Number, keep: bool, bound: u64) -> Vec<u64> {
            let is_kept = self.kept.iter().any(|kept| kept.0 == key);
            if keep && !is_kept && size(value.1) <= bound {
                while self.bytes() + size(value.1) > bound {
                    self.kept.remove(0);
                    self.counts.evicted += 1;
                }
                self.kept.push((key, value));
            }
            self.in_flight.remove(&key).unwrap_or_default()
        }

        fn bytes(&self) -> u64 {
            self.kept.iter().map(|kept| size(kept.1.1)).sum()
        }

        fn counts(&self) -> CacheCounts {
            CacheCounts { entries: self.kept.len() as u64, bytes: self.bytes(), ..self.counts }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// Compares values, waiters, counts and the order of evictions with the model after every
        /// operation.
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
                        prop_assert_eq!(waiters, model.fill(number, value, keep, bound));
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
                        model.kept.retain(|kept| kept.0 % 2 != snapshot);
                    }
                }
                prop_assert_eq!(cache.counts(), model.counts());
                prop_assert!(cache.counts().bytes <= bound);
            }
        }
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
        let came_back: Vec<AtomicU32> =
            (0..THREADS * REQUESTS).map(|_| AtomicU32::new(0)).collect();
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
}
