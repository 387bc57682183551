//! The memory for lists on a device, its division among lists that stay and rounds, and copies to
//! it.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use warpseek_cuda::{Buffer, Device, Event, Uploader};
use warpseek_exec::{Formula, Limit};
use warpseek_index::Segment;

use super::best_values::BestValues;
use super::lock;
use super::scratch::Scratch;
use crate::image::cache::{ListCache, Policy, UNIT};
use crate::image::error::ImageError;
use crate::image::key::SegmentKey;
use crate::image::list::ListView;
use crate::image::packed::{BEHIND, PackedList};
use crate::image::segment_tables::SegmentTables;

/// Minimum and maximum number of cells into which the documents of a segment are cut. A cell is
/// the smallest slice; a slice has a power of two of them.
pub(super) const CELLS: RangeInclusive<u32> = 64..=256;

/// Transfers of more bytes than this are divided among threads.
const SHARE: usize = 4 << 20;
/// Maximum number of bytes that are copied between two checks of the limit.
const CHUNK: usize = 1 << 20;
/// Maximum number of threads that copy.
const MOST_COPIERS: usize = 8;

/// Divisors of the free memory: the part that a large round may use for its tiles, and the part
/// that all rounds together may use for queries and hits.
const SCRATCH_PART: u64 = 8;
const ROUNDS_PART: u64 = 16;
/// Minimum number of bytes that any round may use, if there is memory.
const LEAST_SCRATCH: u64 = 1 << 26;
/// Minimum number of bytes of each of these parts, unless it exceeds a quarter of the free
/// memory.
const FEW_BYTES: u64 = 1 << 20;
/// Number of bytes that are enough for each list of a very small index, in addition to four times
/// the size of its tiles.
const ENOUGH: u64 = 1 << 11;
/// Minimum number of free bytes; with less memory, the engine does not try.
const LEAST_FREE: u64 = 1 << 14;

/// Counters since an engine was opened, by the place of lists when a round requested them. A
/// round requests a list once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Number of lists that were tiles on the device, compressed on the device, and in main
    /// memory.
    pub lists: [u64; 3],
    /// Number of postings in these lists.
    pub postings: [u64; 3],
    /// Bytes of lists that were copied to the device.
    pub bytes_moved: u64,
    /// Time that rounds waited for copies, and for each other's copies.
    pub waited: Duration,
    /// Number of rounds.
    pub rounds: u64,
    /// Number of slices of documents in which they were answered.
    pub slices: u64,
    /// Bytes of lists that stay on the device.
    pub held: u64,
    /// Bytes available for lists that stay.
    pub room: u64,
    /// Bytes available to a large round for its tiles.
    pub scratch: u64,
}

/// The bytes that the lists of an index take on the device.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MemoryNeeds {
    /// Bytes of compressed lists.
    pub(crate) packed: u64,
    /// Bytes of all lists as tiles.
    pub(crate) tiles: u64,
    /// Bytes of tiles that may stay in addition to compressed lists.
    pub(crate) kept: u64,
    /// Number of lists.
    pub(crate) lists: u64,
    /// Bytes of tables of documents.
    pub(crate) tables: u64,
    /// Bytes of tiles that a round may use.
    pub(crate) round: u64,
}

/// The memory for lists, which engines for different snapshots share.
pub(crate) struct ListMemory {
    pub(super) device: Device,
    pub(super) arena: Buffer<u8>,
    /// Memory for the tiles of rounds.
    pub(super) scratch: Scratch,
    /// Bytes for the queries and hits of all rounds.
    pub(super) rounds_bytes: u64,
    /// Number of cells into which segments are cut: a round can use every list if the list's
    /// tiles of one cell fit.
    pub(super) cells: u32,
    policy: Policy,
    /// The needs that the memory was allocated for, and whether less memory was available.
    needs: MemoryNeeds,
    is_limited: bool,
    pub(super) cache: Mutex<ListCache<Contents>>,
    segments: Mutex<Vec<Slot>>,
    /// Formulas, by their numbers.
    formulas: Mutex<Vec<Formula>>,
    uploaders: Mutex<Vec<Uploader>>,
    pub(super) lists: [AtomicU64; 3],
    pub(super) postings: [AtomicU64; 3],
    bytes_moved: AtomicU64,
    /// Part of a plan's postings that had to be copied, when it was last determined.
    pub(super) absent_part: AtomicU32,
    pub(super) waited: AtomicU64,
    pub(super) rounds: AtomicU64,
    pub(super) slices: AtomicU64,
}

/// A segment in the cache, with the tables of its documents and the best values of its lists as
/// long as an engine uses them.
struct Slot {
    key: SegmentKey,
    number: u32,
    tables: Weak<SegmentTables>,
    bests: Vec<Weak<BestValues>>,
}

/// A list that stays on the device.
#[derive(Clone, Copy)]
pub(super) enum Contents {
    Packed(PackedList),
    Tiles(ListView),
}

impl ListMemory {
    /// Allocates as much of the device's free memory as lists with these `needs` can use, except
    /// for the memory of rounds.
    pub(crate) fn new(
        device: &Device,
        policy: Policy,
        needs: MemoryNeeds,
    ) -> Result<Self, ImageError> {
        let available = device.require(needs.tables + LEAST_FREE)?;
        let free = available - needs.tables;
        // With little memory, rounds have priority over lists that stay.
        let few = (free / 4).min(FEW_BYTES);
        let rounds = (free / ROUNDS_PART).max(few);
        let part = (free / SCRATCH_PART).max(2 * few);
        let enough = 4 * needs.tiles + ENOUGH * (1 + needs.lists);
        let scratch = part.min(needs.round.max(LEAST_SCRATCH)).min(enough);
        // A small round uses half of it.
        let cells = needs.tiles.saturating_mul(3) / scratch.max(1);
        let cells = cells.clamp((*CELLS.start()).into(), (*CELLS.end()).into()) as u32;
        let is_part = scratch == part;
        let scratch = Scratch::new(device, scratch)?;
        let left = free.saturating_sub(rounds + scratch.bytes(true));
        let cache = ListCache::new(left.min(needs.packed + needs.kept), policy);
        let arena = device.buffer(cache.bytes().1 as usize + BEHIND)?;
        Ok(ListMemory {
            device: device.clone(),
            arena,
            scratch,
            rounds_bytes: rounds,
            cells,
            policy,
            needs,
            is_limited: left < needs.packed + needs.kept || is_part,
            cache: Mutex::new(cache),
            segments: Mutex::default(),
            formulas: Mutex::default(),
            uploaders: Mutex::default(),
            lists: Default::default(),
            postings: Default::default(),
            bytes_moved: AtomicU64::new(0),
            absent_part: AtomicU32::new(0),
            waited: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            slices: AtomicU64::new(0),
        })
    }

    /// Returns true if this memory has a policy and suffices for an index with other needs, or if
    /// no more memory is available.
    pub(crate) fn suffices(&self, policy: Policy, needs: &MemoryNeeds) -> bool {
        self.policy == policy && (self.is_limited || needs.tiles <= 2 * self.needs.tiles)
    }

    pub(crate) fn counts(&self) -> CacheCounts {
        let (held, room) = lock(&self.cache).bytes();
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheCounts {
            lists: [value(&self.lists[0]), value(&self.lists[1]), value(&self.lists[2])],
            postings: [
                value(&self.postings[0]),
                value(&self.postings[1]),
                value(&self.postings[2]),
            ],
            bytes_moved: value(&self.bytes_moved),
            waited: Duration::from_nanos(value(&self.waited)),
            rounds: value(&self.rounds),
            slices: value(&self.slices),
            held,
            room,
            scratch: self.scratch.bytes(true),
        }
    }

    /// Returns the number of a segment in the cache, and the tables of its documents, which are
    /// copied unless an engine has them.
    pub(super) fn segment(
        &self,
        segment: &Segment,
        key: SegmentKey,
    ) -> Result<(u32, Arc<SegmentTables>), ImageError> {
        let mut segments = lock(&self.segments);
        let found = segments.iter().find(|slot| slot.key == key);
        if let Some((slot, tables)) =
            found.and_then(|slot| Some((slot.number, slot.tables.upgrade()?)))
        {
            return Ok((slot, tables));
        }
        let tables = Arc::new(SegmentTables::load(&self.device, segment, key.within())?);
        let mut cache = lock(&self.cache);
        // Segments that no engine uses any more are removed.
        segments.retain(|slot| {
            let alive = slot.tables.strong_count() > 0;
            if !alive {
                cache.remove_segment(slot.number);
            }
            alive
        });
        let number = cache.add_segment(segment.dictionary().terms());
        let (weak, bests) = (Arc::downgrade(&tables), Vec::new());
        segments.push(Slot { key, number, tables: weak, bests });
        Ok((number, tables))
    }

    /// Returns the shared best values of a segment's lists that have the formula and the
    /// deletions of `new`, or adds `new`.
    pub(super) fn bests(&self, slot: u32, new: BestValues) -> Arc<BestValues> {
        let mut segments = lock(&self.segments);
        let Some(slot) = segments.iter_mut().find(|other| other.number == slot) else {
            return Arc::new(new);
        };
        slot.bests.retain(|bests| bests.strong_count() > 0);
        let mut alive = slot.bests.iter().filter_map(Weak::upgrade);
        if let Some(found) = alive.find(|bests| bests.is_like(&new)) {
            return found;
        }
        let new = Arc::new(new);
        slot.bests.push(Arc::downgrade(&new));
        new
    }

    /// Returns the number of a formula, if it has one.
    pub(super) fn known_formula(&self, formula: Formula) -> Option<u32> {
        let at = lock(&self.formulas).iter().position(|known| *known == formula)?;
        Some(at as u32)
    }

    /// Returns the number of a formula, which gets one if it has none.
    pub(super) fn formula(&self, formula: Formula) -> u32 {
        let mut formulas = lock(&self.formulas);
        let at = formulas.iter().position(|known| *known == formula);
        at.unwrap_or_else(|| {
            formulas.push(formula);
            formulas.len() - 1
        }) as u32
    }

    /// Calls `work` with exclusive use of some uploaders, which are discarded after a failure.
    fn with_uploaders<T>(
        &self,
        count: usize,
        work: impl FnOnce(&mut [Uploader]) -> Result<T, ImageError>,
    ) -> Result<T, ImageError> {
        let mut own: Vec<Uploader> = {
            let mut idle = lock(&self.uploaders);
            let keep = idle.len().saturating_sub(count);
            idle.drain(keep..).collect()
        };
        while own.len() < count {
            own.push(Uploader::new(&self.device)?);
        }
        let done = work(&mut own)?;
        lock(&self.uploaders).append(&mut own);
        Ok(done)
    }

    /// Copies pieces of lists to their places in the arena, in ascending order, and waits. Fails
    /// with [`ImageError::Stopped`] if the limit ends the copy.
    pub(super) fn copy_to_arena(
        &self,
        copies: &[(usize, [&[u8]; 4])],
        threads: usize,
        limit: Option<&Limit>,
    ) -> Result<(), ImageError> {
        self.copy((&self.arena, UNIT as usize), copies, threads, (None, limit))
    }

    /// Copies pieces of lists to other memory, where places begin at multiples of 16 bytes or
    /// follow each other, and waits. The copy begins after the event, and fails with
    /// [`ImageError::Stopped`] if the limit ends it.
    pub(super) fn copy_to(
        &self,
        scratch: &Buffer<u8>,
        copies: &[(usize, [&[u8]; 4])],
        threads: usize,
        when: (Option<&Event>, Option<&Limit>),
    ) -> Result<(), ImageError> {
        self.copy((scratch, 16), copies, threads, when)
    }

    fn copy(
        &self,
        (to, unit): (&Buffer<u8>, usize),
        copies: &[(usize, [&[u8]; 4])],
        threads: usize,
        (after, limit): (Option<&Event>, Option<&Limit>),
    ) -> Result<(), ImageError> {
        let stopped = AtomicBool::new(false);
        // The limit is checked before each chunk.
        let goes_on = || {
            let is_over = limit.is_some_and(Limit::is_over);
            // Threads share the flag, so that it is written only if time is up.
            if is_over {
                stopped.store(true, Ordering::Relaxed);
            }
            !is_over
        };
        let len = |(_, pieces): &(usize, [&[u8]; 4])| pieces.iter().map(|p| p.len()).sum::<usize>();
        let bytes: usize = copies.iter().map(len).sum();
        if bytes == 0 {
            return Ok(());
        }
        let start = Instant::now();
        let copiers = bytes.div_ceil(SHARE).min(threads.clamp(1, MOST_COPIERS));
        // Shares are runs of neighbours, of about the same size.
        let (mut shares, mut from, mut sum) = (Vec::with_capacity(copiers), 0, 0);
        for (i, copy) in copies.iter().enumerate() {
            sum += len(copy);
            if sum * copiers >= bytes * (shares.len() + 1) || i + 1 == copies.len() {
                shares.push(&copies[from..=i]);
                from = i + 1;
            }
        }
        self.with_uploaders(shares.len(), |uploaders| {
            let copy = |uploader: &mut Uploader, share: &[(usize, [&[u8]; 4])]| {
                if let Some(after) = after {
                    uploader.stream().wait(after)?;
                }
                let placed = share.iter().flat_map(|(at, pieces)| {
                    let mut at = *at;
                    pieces.iter().flat_map(|piece| piece.chunks(CHUNK)).map(move |chunk| {
                        at += chunk.len();
                        (at - chunk.len(), chunk)
                    })
                });
                uploader.scatter(to, unit, placed.take_while(|_| goes_on()))?;
                uploader.finish()
            };
            let mut work = uploaders.iter_mut().zip(&shares);
            let Some((own, share)) = work.next() else { return Ok(()) };
            std::thread::scope(|scope| {
                let others: Vec<_> =
                    work.map(|(uploader, share)| scope.spawn(|| copy(uploader, share))).collect();
                let done = copy(own, share);
                let joined = others.into_iter().map(|other| {
                    other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                });
                joined.fold(done, Result::and)
            })?;
            Ok(())
        })?;
        if stopped.into_inner() {
            return Err(ImageError::Stopped);
        }
        self.bytes_moved.fetch_add(bytes as u64, Ordering::Relaxed);
        self.waited.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }
}
