//! The result cache: answers by query, and one computation for equal queries in flight.
//!
//! A [`Key`] is a plan without the order of its terms. The first lookup of a key makes its caller
//! the leader, which computes the value. Lookups that happen before the value is known leave a
//! waiter. [`ResultCache::fill`] and [`ResultCache::abandon`] return these waiters to the leader.
//! Later lookups find the value if the cache kept it. The cache never waits, computes or calls
//! back, so it serves both threads that block and schedulers that do not.
//!
//! The hash of a key selects one of several shards, so that threads seldom contend. Each shard
//! has a mutex, the keys in flight with their waiters, and the kept values (`kept.rs`). Values
//! are in a `quick_cache`, which evicts some to stay within the shard's part of the bytes. Its
//! own way to join computations would block the threads that wait, and a waiter could not be
//! removed when its request is cancelled or expires. So the keys in flight are in a map of ours.

mod kept;
mod key;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpseek_index::SnapshotId;

pub use kept::HeapBytes;
use kept::Kept;
pub use key::Key;

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

/// A cache of values by [`Key`], bounded in bytes. In practice `V` is
/// [`Answer`](warpseek_exec::Answer), and `W` identifies a request.
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
    /// equal share, and values that take almost all of that share or more are not kept. With 0
    /// bytes the cache only joins equal queries.
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
        if let Some(value) = shard.kept.get(key) {
            shard.counts.hits += 1;
            return Lookup::Hit(value.clone(), waiter);
        }
        if let Some(waiters) = shard.in_flight.get_mut(key) {
            waiters.push((id, waiter));
            shard.counts.joined += 1;
            return Lookup::Follow;
        }
        shard.in_flight.insert(key.clone(), Vec::new());
        shard.counts.misses += 1;
        Lookup::Lead(waiter)
    }

    /// Returns the value of a key if the cache has it, for callers that neither lead nor follow:
    /// they compute a missing value themselves, even if others are computing it already, and
    /// [`add`](ResultCache::add) it.
    pub fn get(&self, key: &Key) -> Option<Arc<V>> {
        let shard = &mut *self.shard(key);
        let value = shard.kept.get(key).cloned();
        match value {
            Some(_) => shard.counts.hits += 1,
            None => shard.counts.misses += 1,
        }
        value
    }

    /// Returns the value of a key if the cache has it. Only this is counted: a caller that does not
    /// find the value looks it up again later.
    pub fn peek(&self, key: &Key) -> Option<Arc<V>> {
        let shard = &mut *self.shard(key);
        let value = shard.kept.get(key).cloned();
        shard.counts.hits += u64::from(value.is_some());
        value
    }

    /// Keeps the value of a key if it fits. It must be a complete answer.
    pub fn add(&self, key: &Key, value: &Arc<V>) {
        let shard = &mut *self.shard(key);
        shard.counts.evicted += shard.kept.add(key, value);
    }

    /// Ends a computation and returns its waiters, the earliest first. The cache keeps the value
    /// if `keep` is set and the value fits; it must be a complete answer then. Each waiter may
    /// accept a value that is not kept, or look up the key again, which makes one of them the
    /// leader.
    pub fn fill(&self, key: &Key, value: &Arc<V>, keep: bool) -> Vec<W> {
        let shard = &mut *self.shard(key);
        if keep {
            shard.counts.evicted += shard.kept.add(key, value);
        }
        shard.land(key)
    }

    /// Ends a computation that has no value, and returns its waiters, the earliest first. They
    /// must look up the key again, which makes one of them the leader.
    pub fn abandon(&self, key: &Key) -> Vec<W> {
        self.shard(key).land(key)
    }

    /// Removes a waiter that was cancelled or is late. Returns `None` if the leader has it
    /// already.
    pub fn remove_waiter(&self, key: &Key, id: u64) -> Option<W> {
        let shard = &mut *self.shard(key);
        let waiters = shard.in_flight.get_mut(key)?;
        let at = waiters.iter().position(|waiter| waiter.0 == id)?;
        Some(waiters.remove(at).1)
    }

    /// Drops the entries of a snapshot that is no longer searched. Computations in flight
    /// continue; the values that they add are evicted in time, since no lookup finds them.
    pub fn forget(&self, snapshot: SnapshotId) {
        self.forget_all(|other| other == snapshot);
    }

    /// Drops the entries of all snapshots for which `is_gone` returns true, like
    /// [`forget`](ResultCache::forget).
    pub fn forget_all(&self, is_gone: impl Fn(SnapshotId) -> bool) {
        for shard in &self.shards {
            locked(shard).kept.forget(&is_gone);
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
            sum.entries += shard.kept.len() as u64;
            sum.bytes += shard.kept.bytes();
        }
        sum
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The keys of one shard.
struct Shard<V, W> {
    /// Keys whose value a leader is computing, with the waiters and their ids.
    in_flight: HashMap<Key, Vec<(u64, W)>>,
    kept: Kept<V>,
    /// Counts of lookups and evictions. The numbers of entries and bytes are kept elsewhere.
    counts: CacheCounts,
}

impl<V: HeapBytes, W> Shard<V, W> {
    fn new(bytes: u64) -> Self {
        let (in_flight, kept) = (HashMap::new(), Kept::new(bytes));
        Shard { in_flight, kept, counts: CacheCounts::default() }
    }

    /// Ends a computation and returns its waiters.
    fn land(&mut self, key: &Key) -> Vec<W> {
        let waiters = self.in_flight.remove(key).unwrap_or_default();
        waiters.into_iter().map(|(_, waiter)| waiter).collect()
    }
}

#[cfg(test)]
mod tests;
