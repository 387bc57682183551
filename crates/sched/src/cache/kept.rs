//! The values that a shard of the result cache keeps, bounded in bytes. `quick_cache` decides which
//! ones stay: it prefers values that were found again to those that were only recently added.

use std::sync::Arc;

use quick_cache::unsync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, Weighter};
use warpseek_exec::{Answer, Coverage};
use warpseek_index::SnapshotId;

use super::key::Key;

/// Bytes of a shard for each evicted key that it remembers. A value whose key is remembered is
/// preferred when it comes again.
const BYTES_PER_GHOST: u64 = 8 << 10;

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

/// The values of a shard by their keys.
pub(super) struct Kept<V>(Cache<Key, Entry<V>, EntryBytes>);

struct Entry<V> {
    value: Arc<V>,
    /// Memory of the entry.
    bytes: u64,
}

/// A weighter that weighs an entry by its memory.
struct EntryBytes;

impl<V> Weighter<Key, Entry<V>> for EntryBytes {
    fn weight(&self, _: &Key, entry: &Entry<V>) -> u64 {
        entry.bytes
    }
}

impl<V: HeapBytes> Kept<V> {
    /// Creates an empty shard that takes at most this many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        let ghosts = bytes / BYTES_PER_GHOST;
        let capacity = bytes - (ghosts * slot_bytes::<V>() as u64).min(bytes);
        // The cache remembers half as many evicted keys as it expects entries.
        let expected = 2 * ghosts as usize;
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Kept(Cache::with(expected, capacity, EntryBytes, hasher, lifecycle))
    }

    /// Returns the value of a key, and notes that it was found.
    pub(super) fn get(&self, key: &Key) -> Option<&Arc<V>> {
        self.0.get(key).map(|entry| &entry.value)
    }

    /// Returns true if there is a value for the key.
    pub(super) fn contains(&self, key: &Key) -> bool {
        self.0.contains_key(key)
    }

    /// Adds a value, unless it is too large, and returns the number of values that were evicted
    /// for it. If the key already has a value, it is the same: equal keys have equal values.
    pub(super) fn add(&mut self, key: &Key, value: &Arc<V>) -> u64 {
        if self.contains(key) {
            return 0;
        }
        let (bytes, before) = (entry_bytes(key, &**value), self.0.len());
        self.0.insert(key.clone(), Entry { value: value.clone(), bytes });
        let others = self.0.len() - usize::from(self.contains(key));
        (before - others) as u64
    }

    /// Drops the values of all snapshots for which `is_gone` returns true.
    pub(super) fn forget(&mut self, is_gone: impl Fn(SnapshotId) -> bool) {
        self.0.retain(|key, _| !is_gone(key.snapshot()));
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the memory of all values.
    pub(super) fn bytes(&self) -> u64 {
        self.0.weight()
    }
}

/// Returns the memory of an entry: its allocations, and its part of the tables.
pub(super) fn entry_bytes<V: HeapBytes>(key: &Key, value: &V) -> u64 {
    /// Overhead of the allocator per allocation.
    const ALLOCATION: usize = 16;
    /// Size of the counters of an `Arc`.
    const COUNTERS: usize = 2 * size_of::<usize>();
    let of_mask = key.mask.as_ref().map_or(0, |mask| ALLOCATION + mask.bytes());
    let of_tree = key.tree.as_ref().map_or(0, |tree| ALLOCATION + tree.bytes());
    let of_gather = key.gather.as_ref().map_or(0, |gather| ALLOCATION + gather.bytes());
    let of_key = ALLOCATION + COUNTERS + key.query.len() + of_mask + of_tree + of_gather;
    let of_value = 2 * ALLOCATION + COUNTERS + size_of::<V>() + value.heap_bytes();
    (of_key + of_value + slot_bytes::<V>()) as u64
}

/// Returns the memory that each key takes in the tables of a cache. Tables double when they are
/// full, so up to half of each is empty.
fn slot_bytes<V>() -> usize {
    /// Size of an entry's state, and of its links to others.
    const STATE: usize = 24;
    /// Size of an entry's number in the hash table, with one byte of metadata. One slot in eight
    /// stays empty.
    const NUMBER: usize = size_of::<u32>() + 1;
    2 * (size_of::<(Key, Entry<V>)>() + STATE) + 16 * NUMBER / 7
}
