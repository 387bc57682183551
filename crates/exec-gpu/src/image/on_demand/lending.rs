//! The memory for lists on a device, and what happens in it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use warpseek_cuda::{Buffer, Device, Event, Uploader};
use warpseek_exec::Formula;
use warpseek_index::Segment;

use super::bests::Bests;
use super::lists::CELLS;
use super::lock;
use super::scratch::Scratch;
use crate::image::cache::{ListCache, Policy, UNIT};
use crate::image::error::ImageError;
use crate::image::packed::{BEHIND, PackedList};
use crate::image::residence::Key;
use crate::image::segment::{Lasting, ListView};

/// Transfers of more bytes than this are shared among threads.
const SHARE: usize = 4 << 20;
/// The most threads that copy.
const MOST_COPIERS: usize = 8;

/// The part of the free memory that a large round may use for its tiles, and that which all rounds together may use for queries and hits.
const SCRATCH_PART: u64 = 8;
const ROUNDS_PART: u64 = 16;
/// Any round may have so many bytes, if there is memory.
const LEAST_SCRATCH: u64 = 1 << 26;
/// Each of these is at least so many bytes, unless that is more than a quarter of all.
const FEW_BYTES: u64 = 1 << 20;
/// Bytes that are enough for each list of a very small index, in addition to four times as many as its tiles take.
const ENOUGH: u64 = 1 << 11;
/// With less memory, there is no use in trying.
const LEAST_FREE: u64 = 1 << 14;

/// What has happened since an engine was opened, by where lists were when a round asked for them. A round asks for a list once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Lists that were tiles on the device, compressed on the device, and in main memory.
    pub lists: [u64; 3],
    /// The same in postings.
    pub postings: [u64; 3],
    /// Bytes of lists that were copied to the device.
    pub bytes_moved: u64,
    /// Time that rounds waited for copies, and for each other's copies.
    pub waited: Duration,
    /// Rounds.
    pub rounds: u64,
    /// Slices of documents in which they were answered.
    pub slices: u64,
    /// Bytes of lists that stay, and room for them.
    pub held: u64,
    /// See `held`.
    pub room: u64,
    /// Bytes that a large round has for the tiles made for it.
    pub scratch: u64,
}

/// How many bytes the lists of an index take on the device.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Needs {
    /// Compressed.
    pub(crate) packed: u64,
    /// As tiles.
    pub(crate) tiles: u64,
    /// Tiles that may stay in addition to compressed lists.
    pub(crate) kept: u64,
    /// Number of lists.
    pub(crate) lists: u64,
    /// Tables of documents.
    pub(crate) tables: u64,
    /// Tiles that a round may have.
    pub(crate) round: u64,
}

/// The memory for lists, which engines for different snapshots share.
pub(crate) struct Lending {
    pub(super) device: Device,
    pub(super) arena: Buffer<u8>,
    /// Memory for the tiles of rounds.
    pub(super) scratch: Scratch,
    /// Bytes of all rounds' queries and hits.
    pub(super) rounds_bytes: u64,
    /// Cells into which segments are cut: a round can use every list if its tiles of a cell have room.
    pub(super) cells: u32,
    /// What it was made for, and whether there was less memory than that.
    needs: Needs,
    is_limited: bool,
    pub(super) cache: Mutex<ListCache<Contents>>,
    segments: Mutex<Vec<Slot>>,
    /// Formulas by their numbers.
    formulas: Mutex<Vec<Formula>>,
    uploaders: Mutex<Vec<Uploader>>,
    pub(super) lists: [AtomicU64; 3],
    pub(super) postings: [AtomicU64; 3],
    bytes_moved: AtomicU64,
    /// The part of a plan's postings that had to be copied, when that was last asked.
    pub(super) absent_part: AtomicU32,
    pub(super) waited: AtomicU64,
    pub(super) rounds: AtomicU64,
    pub(super) slices: AtomicU64,
}

/// A segment in the cache, with what engines know of its documents and lists as long as one of them has it.
struct Slot {
    key: Key,
    number: u32,
    lasting: Weak<Lasting>,
    bests: Vec<Weak<Bests>>,
}

/// A list that stays on the device.
#[derive(Clone, Copy)]
pub(super) enum Contents {
    Packed(PackedList),
    Tiles(ListView),
}

impl Lending {
    /// Takes as much of the device's free memory as lists of `needs` can use, except for what rounds need.
    pub(crate) fn new(device: &Device, policy: Policy, needs: Needs) -> Result<Self, ImageError> {
        let available = device.require(needs.tables + LEAST_FREE)?;
        let free = available - needs.tables;
        // With little memory, rounds come before lists that stay.
        let few = (free / 4).min(FEW_BYTES);
        let rounds = (free / ROUNDS_PART).max(few);
        let part = (free / SCRATCH_PART).max(2 * few);
        let enough = 4 * needs.tiles + ENOUGH * (1 + needs.lists);
        let scratch = part.min(needs.round.max(LEAST_SCRATCH)).min(enough);
        // A small round has half of it.
        let cells = needs.tiles.saturating_mul(3) / scratch.max(1);
        let cells = cells.clamp((*CELLS.start()).into(), (*CELLS.end()).into()) as u32;
        let is_part = scratch == part;
        let scratch = Scratch::new(device, scratch)?;
        let left = free.saturating_sub(rounds + scratch.bytes(true));
        let cache = ListCache::new(left.min(needs.packed + needs.kept), policy);
        let arena = device.buffer(cache.bytes().1 as usize + BEHIND)?;
        Ok(Lending {
            device: device.clone(),
            arena,
            scratch,
            rounds_bytes: rounds,
            cells,
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

    /// Whether more memory would be of no use, or is not to be had, although it was made for an index with other needs.
    pub(crate) fn suffices(&self, needs: &Needs) -> bool {
        self.is_limited || needs.tiles <= 2 * self.needs.tiles
    }

    pub(crate) fn counts(&self) -> CacheCounts {
        let (held, room) = lock(&self.cache).bytes();
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheCounts {
            lists: [of(&self.lists[0]), of(&self.lists[1]), of(&self.lists[2])],
            postings: [of(&self.postings[0]), of(&self.postings[1]), of(&self.postings[2])],
            bytes_moved: of(&self.bytes_moved),
            waited: Duration::from_nanos(of(&self.waited)),
            rounds: of(&self.rounds),
            slices: of(&self.slices),
            held,
            room,
            scratch: self.scratch.bytes(true),
        }
    }

    /// The number of a segment in the cache, and tables of its documents, copied unless a snapshot has them.
    pub(super) fn segment(
        &self,
        segment: &Segment,
        key: Key,
    ) -> Result<(u32, Arc<Lasting>), ImageError> {
        let mut segments = lock(&self.segments);
        let found = segments.iter().find(|slot| slot.key == key);
        if let Some((slot, lasting)) =
            found.and_then(|slot| Some((slot.number, slot.lasting.upgrade()?)))
        {
            return Ok((slot, lasting));
        }
        let lasting = Arc::new(Lasting::load(&self.device, segment, key.within())?);
        let mut cache = lock(&self.cache);
        // Segments that no snapshot has any more make room.
        segments.retain(|slot| {
            let alive = slot.lasting.strong_count() > 0;
            if !alive {
                cache.remove_segment(slot.number);
            }
            alive
        });
        let number = cache.add_segment(segment.dictionary().terms());
        let (kept, bests) = (Arc::downgrade(&lasting), Vec::new());
        segments.push(Slot { key, number, lasting: kept, bests });
        Ok((number, lasting))
    }

    /// The best values of a segment's lists, for a formula and without some documents.
    pub(super) fn bests(&self, slot: u32, of: Bests) -> Arc<Bests> {
        let mut segments = lock(&self.segments);
        let Some(slot) = segments.iter_mut().find(|other| other.number == slot) else {
            return Arc::new(of);
        };
        slot.bests.retain(|bests| bests.strong_count() > 0);
        let mut alive = slot.bests.iter().filter_map(Weak::upgrade);
        if let Some(found) = alive.find(|bests| bests.is_like(&of)) {
            return found;
        }
        let of = Arc::new(of);
        slot.bests.push(Arc::downgrade(&of));
        of
    }

    pub(super) fn formula(&self, formula: Formula) -> u32 {
        let mut formulas = lock(&self.formulas);
        let at = formulas.iter().position(|of| *of == formula);
        at.unwrap_or_else(|| {
            formulas.push(formula);
            formulas.len() - 1
        }) as u32
    }

    /// Works with uploaders that nobody else uses. After a failure they are not used again.
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

    /// Copies pieces of lists to their places in the arena, in ascending order, and waits.
    pub(super) fn copy_to_arena(
        &self,
        copies: &[(usize, [&[u8]; 4])],
        threads: usize,
    ) -> Result<(), ImageError> {
        self.copy((&self.arena, UNIT as usize), copies, threads, None)
    }

    /// The same to other memory, where places begin at multiples of 16 bytes or follow each other. `after` must have happened on the device
    /// before.
    pub(super) fn copy_to(
        &self,
        scratch: &Buffer<u8>,
        copies: &[(usize, [&[u8]; 4])],
        threads: usize,
        after: Option<&Event>,
    ) -> Result<(), ImageError> {
        self.copy((scratch, 16), copies, threads, after)
    }

    fn copy(
        &self,
        (to, unit): (&Buffer<u8>, usize),
        copies: &[(usize, [&[u8]; 4])],
        threads: usize,
        after: Option<&Event>,
    ) -> Result<(), ImageError> {
        let len = |(_, pieces): &(usize, [&[u8]; 4])| pieces.iter().map(|p| p.len()).sum::<usize>();
        let bytes: usize = copies.iter().map(len).sum();
        if bytes == 0 {
            return Ok(());
        }
        let start = Instant::now();
        let copiers = bytes.div_ceil(SHARE).min(threads.clamp(1, MOST_COPIERS));
        // Neighbours in shares of about the same size.
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
                    pieces.iter().map(move |piece| {
                        at += piece.len();
                        (at - piece.len(), *piece)
                    })
                });
                uploader.scatter(to, unit, placed)?;
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
        self.bytes_moved.fetch_add(bytes as u64, Ordering::Relaxed);
        self.waited.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }
}
