//! A cache of the documents that filters admit, bounded by size.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::files::deletes::DocSet;

/// Approximate size of an entry besides its set and its key, in bytes: the entries of the maps.
const OVERHEAD: usize = 128;

/// A cache of sets of documents by segment and filter, shared by threads. If it is full, a new
/// set replaces the least recently used ones.
pub struct FilterCache {
    most_bytes: usize,
    state: Mutex<State>,
}

/// Contents and usage of a [`FilterCache`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterCacheUsage {
    /// Number of sets.
    pub sets: usize,
    /// Size of the sets in bytes.
    pub bytes: usize,
    /// Number of lookups that found a set.
    pub hits: u64,
    /// Number of lookups after which a set had to be computed.
    pub misses: u64,
}

type Key = (u64, Arc<[u8]>);

#[derive(Default)]
struct State {
    /// Sets with the time of their last use.
    sets: HashMap<Key, (Arc<DocSet>, u64)>,
    /// Keys by time of last use.
    order: BTreeMap<u64, Key>,
    now: u64,
    usage: FilterCacheUsage,
}

impl FilterCache {
    /// Creates an empty cache that takes at most `most_bytes`.
    pub fn new(most_bytes: usize) -> Self {
        FilterCache { most_bytes, state: Mutex::default() }
    }

    /// Returns the set of a filter in a segment. If it is not cached, `make` computes it.
    ///
    /// `segment` must distinguish all segments that share the cache; the seal of the file of
    /// attributes does, if there is one. `filter` is the key of the filter
    /// ([`Filter::key`](super::Filter::key)). Other threads do not wait while a set is computed.
    /// If two threads miss the same set, both compute it and the later duplicate is discarded.
    pub fn get<E>(
        &self,
        segment: u64,
        filter: &Arc<[u8]>,
        make: impl FnOnce() -> Result<DocSet, E>,
    ) -> Result<Arc<DocSet>, E> {
        let key = (segment, filter.clone());
        if let Some(set) = self.state().find(&key) {
            return Ok(set);
        }
        let set = Arc::new(make()?);
        Ok(self.state().keep(key, set, self.most_bytes))
    }

    /// Returns contents and usage.
    pub fn usage(&self) -> FilterCacheUsage {
        self.state().usage
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while the lock is held, except if memory runs out.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes_of(key: &Key, set: &DocSet) -> usize {
    8 * set.words().len() + key.1.len() + OVERHEAD
}

impl State {
    fn find(&mut self, key: &Key) -> Option<Arc<DocSet>> {
        let found = self.touch(key);
        match found {
            Some(_) => self.usage.hits += 1,
            None => self.usage.misses += 1,
        }
        found
    }

    /// Returns the set of a key and marks it as most recently used.
    fn touch(&mut self, key: &Key) -> Option<Arc<DocSet>> {
        let (set, used) = self.sets.get_mut(key)?;
        if let Some(key) = self.order.remove(used) {
            self.order.insert(self.now, key);
        }
        *used = self.now;
        self.now += 1;
        Some(set.clone())
    }

    /// Adds a set, if it is not too large, and returns it, or the one that another thread has
    /// added since.
    fn keep(&mut self, key: Key, set: Arc<DocSet>, most_bytes: usize) -> Arc<DocSet> {
        if let Some(first) = self.touch(&key) {
            return first;
        }
        let bytes = bytes_of(&key, &set);
        if bytes > most_bytes {
            return set;
        }
        while self.usage.bytes + bytes > most_bytes {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            if let Some((set, _)) = self.sets.remove(&oldest) {
                self.usage.bytes -= bytes_of(&oldest, &set);
            }
        }
        self.order.insert(self.now, key.clone());
        self.sets.insert(key, (set.clone(), self.now));
        self.now += 1;
        self.usage.bytes += bytes;
        self.usage.sets = self.sets.len();
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn set(docs: u32, doc: u32) -> DocSet {
        let mut set = DocSet::new(docs);
        set.insert(doc);
        set
    }

    proptest! {
        /// Compares the cache with a list of keys in order of their last use.
        #[test]
        fn the_oldest_are_dropped(uses in vec((0u64..3, 0u8..4), 0..120), room in 0usize..6) {
            let most = room * (OVERHEAD + 1 + 16);
            let cache = FilterCache::new(most);
            let mut model: Vec<(u64, u8, usize)> = Vec::new();
            for (segment, filter) in uses {
                // The size depends on the segment only, like that of real sets.
                let docs = 64 * (segment as u32 + 1);
                let bytes = OVERHEAD + 1 + docs as usize / 8;
                let key: Arc<[u8]> = Arc::new([filter]);
                let mut made = false;
                let found = cache.get(segment, &key, || {
                    made = true;
                    Ok::<_, Infallible>(set(docs, u32::from(filter)))
                }).unwrap();
                prop_assert_eq!(&*found, &set(docs, u32::from(filter)));
                let at = model.iter().position(|entry| (entry.0, entry.1) == (segment, filter));
                prop_assert_eq!(made, at.is_none());
                match at {
                    Some(at) => {
                        let entry = model.remove(at);
                        model.push(entry);
                    }
                    None if bytes <= most => {
                        while model.iter().map(|entry| entry.2).sum::<usize>() + bytes > most {
                            model.remove(0);
                        }
                        model.push((segment, filter, bytes));
                    }
                    None => {}
                }
                let usage = cache.usage();
                let expected = (model.len(), model.iter().map(|entry| entry.2).sum::<usize>());
                prop_assert_eq!((usage.sets, usage.bytes), expected);
            }
        }
    }

    #[test]
    fn a_failure_is_not_kept() {
        let (cache, key): (_, Arc<[u8]>) = (FilterCache::new(1 << 20), Arc::new([1]));
        assert_eq!(cache.get(1, &key, || Err("no")).unwrap_err(), "no");
        assert!(cache.get(1, &key, || Ok::<_, ()>(set(64, 1))).unwrap().contains(1));
        let usage = cache.usage();
        assert_eq!((usage.sets, usage.hits, usage.misses), (1, 0, 2));
    }

    #[test]
    fn threads_share_it() {
        let (cache, made) = (FilterCache::new(20 * (OVERHEAD + 1 + 8)), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let (cache, made) = (&cache, &made);
                scope.spawn(move || {
                    for i in 0..2000u32 {
                        let filter = (i * (thread + 1)) % 16;
                        let key: Arc<[u8]> = Arc::new([filter as u8]);
                        let found = cache.get(7, &key, || {
                            made.fetch_add(1, Ordering::Relaxed);
                            Ok::<_, Infallible>(set(64, filter))
                        });
                        assert_eq!(*found.unwrap(), set(64, filter));
                    }
                });
            }
        });
        let usage = cache.usage();
        assert_eq!(usage.sets, 16);
        assert_eq!((usage.hits + usage.misses, usage.misses), (8000, made.into_inner() as u64));
        assert!(usage.misses <= 4 * 16, "each thread misses each set once at most");
    }
}
