//! A cache that decides which lists stay on the device when memory is too small for all of them.
//! It computes with numbers only and touches no device memory.

use offset_allocator::{Allocation, Allocator};
use rustc_hash::FxHashMap;

/// Memory is allocated in multiples of this many bytes.
pub(crate) const UNIT: u64 = 64;

/// Use counts are halved after this many times as many uses as there are lists in the cache, and
/// after at least `LEAST_AGE` uses.
const AGE: u64 = 16;
const LEAST_AGE: u64 = 1 << 14;

/// Number of rounds after which the least valuable entries are determined again.
const STALE: u64 = 32;

/// Maximum number of bytes that are freed for a list, as a multiple of its size: its memory must
/// be in one piece.
const MOST_FREED: u64 = 4;

/// The policy that decides which lists stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// Lists whose presence saves the most time per byte stay, by how often they were used
    /// recently and by what it costs to load them again. A list that is worth less than those it
    /// would replace is not admitted.
    #[default]
    Worth,
    /// Lists used last stay.
    Recent,
}

/// A list of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListId {
    /// The number of the segment in the cache.
    pub segment: u32,
    /// The ordinal of its term.
    pub ordinal: u32,
}

/// The form of a list on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// Compressed.
    Packed,
    /// Tiles with the values of a formula, by its number.
    Tiles(u32),
}

/// An entry of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(usize);

struct Entry<T> {
    key: (ListId, Level),
    place: Allocation,
    bytes: u64,
    /// Time that a use of it saves, in nanoseconds.
    saves: f32,
    /// Number of rounds that use it now.
    users: u32,
    /// Number of the round that used it last, and number of the entry in the order of arrival.
    used: u64,
    number: u64,
    contents: T,
}

/// An entry that can be removed: its worth when it was found, its position, and its number.
type Victim = (f32, EntryId, u64);

/// A cache of lists in a range of memory, with contents `T` for each.
pub struct ListCache<T> {
    policy: Policy,
    allocator: Allocator,
    bytes: u64,
    held: u64,
    entries: Vec<Option<Entry<T>>>,
    free: Vec<usize>,
    by_key: FxHashMap<(ListId, Level), usize>,
    /// Recent uses of each list, including lists that are not in the cache, by segment and
    /// ordinal.
    uses: Vec<Vec<u8>>,
    /// The formula whose tiles are wanted now; tiles of other formulas are worth nothing.
    formula: u32,
    clock: u64,
    since_halved: u64,
    /// Number of entries added so far.
    came: u64,
    /// Positions of entries that are tiles, and of some that were: there are few of them among
    /// very many compressed lists.
    tiles: Vec<usize>,
    /// Entries that can be removed, tiles and compressed lists, the least valuable last, and the
    /// rounds in which they were found.
    victims: [Vec<Victim>; 2],
    found: [Option<u64>; 2],
}

impl<T> ListCache<T> {
    /// Creates an empty cache over this many bytes, at most 256 GiB.
    pub fn new(bytes: u64, policy: Policy) -> Self {
        let units = (bytes / UNIT).min(u64::from(u32::MAX)) as u32;
        // The allocator does not support an empty range.
        let most = units.clamp(16, 1 << 22);
        ListCache {
            policy,
            allocator: Allocator::with_max_allocs(units.max(1), most),
            bytes: if units == 0 { 0 } else { u64::from(units) * UNIT },
            held: 0,
            entries: Vec::new(),
            free: Vec::new(),
            by_key: FxHashMap::default(),
            uses: Vec::new(),
            formula: 0,
            clock: 0,
            since_halved: 0,
            came: 0,
            tiles: Vec::new(),
            victims: Default::default(),
            found: [None; 2],
        }
    }

    /// Returns the number of bytes that lists take, and the size of the memory.
    pub fn bytes(&self) -> (u64, u64) {
        (self.held, self.bytes)
    }

    /// Adds counters for the uses of a segment's lists and returns the segment's number.
    pub fn add_segment(&mut self, lists: u32) -> u32 {
        self.uses.push(vec![0; lists as usize]);
        (self.uses.len() - 1) as u32
    }

    /// Removes the lists of a segment that no snapshot contains any more.
    pub fn remove_segment(&mut self, segment: u32) {
        let is_gone = |entry: &Entry<T>| entry.key.0.segment == segment && entry.users == 0;
        let gone: Vec<usize> = (0..self.entries.len())
            .filter(|&i| self.entries[i].as_ref().is_some_and(is_gone))
            .collect();
        gone.into_iter().for_each(|i| self.remove(EntryId(i)));
        self.uses[segment as usize] = Vec::new();
    }

    /// Begins a new round, which wants tiles of this formula.
    pub fn begin(&mut self, formula: u32) {
        self.clock += 1;
        // Finding victims takes longer than a small round, and the worth of a list changes
        // slowly.
        for found in &mut self.found {
            if self.formula != formula || found.is_some_and(|found| self.clock > found + STALE) {
                *found = None;
            }
        }
        self.formula = formula;
    }

    /// Counts a use of a list, in the cache or not.
    pub fn touch(&mut self, list: ListId) {
        if let Some(uses) = self
            .uses
            .get_mut(list.segment as usize)
            .and_then(|uses| uses.get_mut(list.ordinal as usize))
        {
            *uses = uses.saturating_add(1);
        }
        self.since_halved += 1;
        if self.since_halved > AGE * (self.by_key.len() as u64).max(LEAST_AGE / AGE) {
            self.since_halved = 0;
            self.uses.iter_mut().flatten().for_each(|uses| *uses /= 2);
        }
    }

    fn uses(&self, list: ListId) -> u8 {
        let uses = self.uses.get(list.segment as usize);
        uses.and_then(|uses| uses.get(list.ordinal as usize)).copied().unwrap_or(0)
    }

    /// Returns the entry of a list and marks it as in use until [`ListCache::release`].
    pub fn take(&mut self, list: ListId, level: Level) -> Option<(EntryId, &T)> {
        let &at = self.by_key.get(&(list, level))?;
        let entry = self.entries[at].as_mut()?;
        (entry.users, entry.used) = (entry.users + 1, self.clock);
        Some((EntryId(at), &entry.contents))
    }

    /// Returns true if a list is in the cache at this level.
    pub fn has(&self, list: ListId, level: Level) -> bool {
        self.by_key.contains_key(&(list, level))
    }

    /// Ends a round's use of an entry.
    pub fn release(&mut self, id: EntryId) {
        if let Some(entry) = &mut self.entries[id.0] {
            entry.users -= 1;
        }
    }

    /// Adds a list, if it fits and the policy prefers it to the lists that it would replace.
    /// Returns the entry, marked as in use, and the offset of its bytes. `saves` is the time in
    /// nanoseconds that each use of the cached list saves; `contents` is called with the offset.
    /// Lists in use are never removed, and compressed lists are not removed to make space for
    /// tiles, since they can be turned into tiles.
    pub fn admit(
        &mut self,
        list: ListId,
        level: Level,
        bytes: u64,
        saves: f32,
        contents: impl FnOnce(u64) -> T,
    ) -> Option<(EntryId, u64)> {
        let units = bytes.div_ceil(UNIT).max(1);
        if units * UNIT > self.bytes {
            return None;
        }
        let worth = self.worth((list, level), bytes, saves, self.clock);
        let mut freed = 0;
        let place = loop {
            if let Some(place) = self.allocator.allocate(units as u32) {
                break place;
            }
            // The freed memory may not be in one piece.
            if freed > MOST_FREED * bytes {
                return None;
            }
            let victim = self.next_victim(level)?;
            if self.policy == Policy::Worth && victim.0 >= worth {
                // The victim stays; the next list may be worth more.
                self.put_back(victim);
                return None;
            }
            freed += self.entries[victim.1.0].as_ref().map_or(0, |entry| entry.bytes);
            self.remove(victim.1);
        };
        let offset = u64::from(place.offset) * UNIT;
        let bytes = units * UNIT;
        self.held += bytes;
        let entry = Entry {
            key: (list, level),
            place,
            bytes,
            saves,
            users: 1,
            used: self.clock,
            number: self.came,
            contents: contents(offset),
        };
        self.came += 1;
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[at] = Some(entry);
        self.by_key.insert((list, level), at);
        if level != Level::Packed {
            self.tiles.push(at);
        }
        Some((EntryId(at), offset))
    }

    /// Removes an entry even if it is in use, because its data never arrived.
    pub fn forget(&mut self, id: EntryId) {
        self.remove(id);
    }

    fn worth(&self, (list, level): (ListId, Level), bytes: u64, saves: f32, used: u64) -> f32 {
        match (self.policy, level) {
            (_, Level::Tiles(formula)) if formula != self.formula => -1.0,
            (Policy::Worth, _) => f32::from(self.uses(list)) * saves / bytes as f32,
            (Policy::Recent, _) => used as f32,
        }
    }

    /// Returns approximately the least valuable entry that is not in use and may be removed for a
    /// list of this level.
    fn next_victim(&mut self, level: Level) -> Option<Victim> {
        // Tiles may be removed for any list, compressed lists only for compressed lists.
        let kinds = if level == Level::Packed { 2 } else { 1 };
        for kind in 0..kinds {
            if self.found[kind].is_none() {
                self.find_victims(kind);
            }
        }
        if let Some(victim) = self.pop_victim(level) {
            return Some(victim);
        }
        for kind in 0..kinds {
            if self.found[kind] != Some(self.clock) {
                self.find_victims(kind);
            }
        }
        self.pop_victim(level)
    }

    fn pop_victim(&mut self, level: Level) -> Option<Victim> {
        loop {
            let [tiles, packed] = &mut self.victims;
            let victims = match (level, tiles.last(), packed.last()) {
                (Level::Packed, Some(tile), Some(list)) if list.0 < tile.0 => packed,
                (Level::Packed, None, _) => packed,
                _ => tiles,
            };
            let (was_worth, id, number) = victims.pop()?;
            let Some(entry) = &self.entries[id.0] else { continue };
            let worth = self.worth(entry.key, entry.bytes, entry.saves, entry.used);
            let is_used_more = match self.policy {
                Policy::Worth => worth > 2.0 * was_worth.max(0.0),
                Policy::Recent => worth > was_worth,
            };
            if entry.number == number && entry.users == 0 && !is_used_more {
                return Some((worth, id, number));
            }
        }
    }

    /// Finds the entries that can be removed among tiles (0) or compressed lists (1).
    fn find_victims(&mut self, kind: usize) {
        let is_of_kind = |entry: &Entry<T>| usize::from(entry.key.1 == Level::Packed) == kind;
        let places = match kind {
            0 => {
                self.tiles.sort_unstable();
                self.tiles.dedup();
                self.tiles.retain(|&at| self.entries[at].as_ref().is_some_and(is_of_kind));
                self.tiles.clone()
            }
            _ => (0..self.entries.len()).collect(),
        };
        let mut victims = Vec::new();
        for at in places {
            let entry = self.entries[at].as_ref().filter(|entry| entry.users == 0);
            let Some(entry) = entry.filter(|entry| is_of_kind(entry)) else { continue };
            let worth = self.worth(entry.key, entry.bytes, entry.saves, entry.used);
            victims.push((worth, EntryId(at), entry.number));
        }
        victims.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
        (self.victims[kind], self.found[kind]) = (victims, Some(self.clock));
    }

    fn put_back(&mut self, victim: Victim) {
        let entry = self.entries[victim.1.0].as_ref();
        let is_packed = entry.is_some_and(|entry| entry.key.1 == Level::Packed);
        self.victims[usize::from(is_packed)].push(victim);
    }

    fn remove(&mut self, id: EntryId) {
        if let Some(entry) = self.entries[id.0].take() {
            self.allocator.free(entry.place);
            self.held -= entry.bytes;
            self.by_key.remove(&entry.key);
            self.free.push(id.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(ordinal: u32) -> ListId {
        ListId { segment: 0, ordinal }
    }

    fn cache(bytes: u64, policy: Policy) -> ListCache<u64> {
        let mut cache = ListCache::new(bytes, policy);
        cache.add_segment(1000);
        cache
    }

    /// Uses a list in a separate round. Returns true if the list was in the cache.
    fn ask(cache: &mut ListCache<u64>, ordinal: u32, bytes: u64) -> bool {
        cache.begin(0);
        cache.touch(list(ordinal));
        if let Some((id, _)) = cache.take(list(ordinal), Level::Packed) {
            cache.release(id);
            return true;
        }
        if let Some((id, _)) =
            cache.admit(list(ordinal), Level::Packed, bytes, bytes as f32, |at| at)
        {
            cache.release(id);
        }
        false
    }

    #[test]
    fn a_list_used_often_is_not_replaced_by_those_used_once() {
        for (policy, stays) in [(Policy::Worth, true), (Policy::Recent, false)] {
            let mut cache = cache(4 * UNIT, policy);
            for _ in 0..3 {
                ask(&mut cache, 0, 2 * UNIT);
            }
            for other in 1..20 {
                ask(&mut cache, other, 2 * UNIT);
            }
            assert_eq!(ask(&mut cache, 0, 2 * UNIT), stays, "{policy:?}");
        }
    }

    #[test]
    fn lists_in_use_stay() {
        for policy in [Policy::Worth, Policy::Recent] {
            let mut cache = cache(2 * UNIT, policy);
            cache.begin(0);
            cache.touch(list(0));
            let (id, _) = cache.admit(list(0), Level::Packed, 2 * UNIT, 1.0, |at| at).unwrap();
            for _ in 0..9 {
                cache.begin(0);
                cache.touch(list(1));
                assert!(cache.admit(list(1), Level::Packed, UNIT, 1e9, |at| at).is_none());
            }
            cache.release(id);
            cache.begin(0);
            assert!(cache.admit(list(1), Level::Packed, UNIT, 1e9, |at| at).is_some());
            assert!(!cache.has(list(0), Level::Packed));
        }
    }

    #[test]
    fn tiles_of_another_formula_go_first() {
        let mut cache = cache(2 * UNIT, Policy::Worth);
        cache.begin(1);
        for _ in 0..100 {
            cache.touch(list(0));
        }
        let (id, _) = cache.admit(list(0), Level::Tiles(1), 2 * UNIT, 1e9, |at| at).unwrap();
        cache.release(id);
        cache.begin(2);
        cache.touch(list(1));
        assert!(cache.admit(list(1), Level::Packed, UNIT, 1.0, |at| at).is_some());
    }

    #[test]
    fn tiles_take_room_that_is_left_or_that_of_tiles() {
        for policy in [Policy::Worth, Policy::Recent] {
            let mut cache = cache(4 * UNIT, policy);
            cache.begin(0);
            let admit = |cache: &mut ListCache<u64>, ordinal, level, units, saves| {
                cache.touch(list(ordinal));
                let found = cache.admit(list(ordinal), level, units * UNIT, saves, |at| at);
                found.map(|(id, _)| cache.release(id)).is_some()
            };
            assert!(admit(&mut cache, 0, Level::Packed, 2, 1.0));
            assert!(!admit(&mut cache, 1, Level::Tiles(0), 3, 1e9), "{policy:?}");
            assert!(admit(&mut cache, 1, Level::Tiles(0), 2, 1.0), "{policy:?}");
            cache.begin(0);
            assert!(admit(&mut cache, 2, Level::Tiles(0), 2, 1e9), "{policy:?}");
            assert!(!cache.has(list(1), Level::Tiles(0)) && cache.has(list(0), Level::Packed));
            cache.begin(0);
            assert!(admit(&mut cache, 3, Level::Packed, 2, 1e10), "{policy:?}");
            assert!(cache.has(list(3), Level::Packed));
        }
    }

    /// Requires that a list that cannot fit does not evict everything else: its memory must be in
    /// one piece.
    #[test]
    fn a_large_list_does_not_empty_the_cache() {
        let mut cache = cache(100 * UNIT, Policy::Worth);
        cache.begin(0);
        let mut in_use = Vec::new();
        for ordinal in 0..98 {
            let (id, _) = cache.admit(list(ordinal), Level::Packed, UNIT, 1.0, |at| at).unwrap();
            // Every ninth stays in use, so that no free piece is larger than eight units.
            if ordinal % 9 == 0 { in_use.push(id) } else { cache.release(id) }
        }
        cache.touch(list(200));
        assert!(cache.admit(list(200), Level::Packed, 10 * UNIT, 1e9, |at| at).is_none());
        assert!(cache.bytes().0 > 50 * UNIT, "{:?}", cache.bytes());
    }

    #[test]
    fn nothing_fits_into_nothing() {
        let mut cache = cache(UNIT - 1, Policy::Worth);
        cache.begin(0);
        assert!(cache.admit(list(0), Level::Packed, 1, 1.0, |at| at).is_none());
        assert_eq!(cache.bytes(), (0, 0));
    }

    proptest! {
        #[test]
        fn places_never_overlap(
            asked in proptest::collection::vec((0u32..60, 1u64..3000, any::<bool>()), 1..300),
            bytes in 1000u64..20_000,
            recent: bool,
        ) {
            let mut cache = cache(bytes, if recent { Policy::Recent } else { Policy::Worth });
            let mut in_use = Vec::new();
            for (ordinal, len, keep) in asked {
                // A list has one length.
                let len = len * u64::from(ordinal + 1) % 3000 + 1;
                cache.begin(0);
                cache.touch(list(ordinal));
                let found = match cache.take(list(ordinal), Level::Packed) {
                    Some((id, _)) => Some(id),
                    None => cache.admit(list(ordinal), Level::Packed, len, 1.0, |at| at).map(|a| a.0),
                };
                match found {
                    Some(id) if keep => in_use.push((id, ordinal)),
                    Some(id) => cache.release(id),
                    None => {}
                }
                if in_use.len() > 5 {
                    let (id, ordinal) = in_use.remove(0);
                    prop_assert!(cache.has(list(ordinal), Level::Packed));
                    cache.release(id);
                }
                let mut places: Vec<(u64, u64)> =
                    cache.entries.iter().flatten().map(|e| (e.contents, e.bytes)).collect();
                places.sort_unstable();
                prop_assert!(places.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
                prop_assert!(places.last().is_none_or(|last| last.0 + last.1 <= bytes));
                prop_assert_eq!(places.iter().map(|p| p.1).sum::<u64>(), cache.bytes().0);
            }
        }
    }
}
