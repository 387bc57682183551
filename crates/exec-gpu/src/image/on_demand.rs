//! Lists of an index that has no room on the device as tiles: each round gets tiles of the lists that it uses.
//!
//! A list is in one of three places: on the device as tiles, on the device compressed, or in main memory. [`ListCache`] decides which lists stay on
//! the device. What a round uses of the others is brought for it: a *slice* of the documents at a time, if there is no room for all of them. In a
//! slice every list is dense, and it has the same address in every slice, so that the queries are sent once.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use warpseek_cuda::{Buffer, Device, DeviceError, Event, Stream, Uploader};
use warpseek_exec::{Formula, Plan, PlanTerm};
use warpseek_index::{IndexError, Segment, Snapshot, TermInfo};

use super::cache::{EntryId, Level, ListCache, ListId, Policy};
use super::documents::DocumentTables;
use super::error::ImageError;
use super::layout::SegmentView;
use super::make::{Fill, Frame, Layout, MakeKernels, Tables, Target, units};
use super::packed::{BEHIND, PackedList, Pieces, SomeBlocks};
use super::part::{filter_words, malformed};
use super::residence::Key;
use super::segment::{Lasting, ListView, SegmentImage, Slice, filter_shift, infos};
use super::send::ranges;
use super::valuer::Valuing;
use crate::loading::Loading;
use crate::workspace::Workspace;

/// Cells into which the documents of a segment are cut: the smallest slices.
const CELLS: u32 = 128;
/// Tiles of a cell are a multiple of this, so that slices are whole windows of every kernel.
const CELL_TILES: u32 = 32;
/// Documents of which a position has all bits: slices that begin at multiples of them can use lists that stay as tiles.
const POSITIONS: u32 = 1 << 15;

/// What bringing a list costs, in nanoseconds: a transfer, per byte; making tiles, per posting; and either of them at all. Only their ratios
/// matter, and only roughly.
const BYTE: f32 = 0.05;
const POSTING: f32 = 0.01;
const TRANSFER: f32 = 5_000.0;
const MAKING: f32 = 500.0;

/// A dense list stays as tiles only if it has this many postings per tile: shorter ones are quickly made, and padding would be most of them.
const TILES_FROM: u32 = 4;

/// The most lists that become tiles that stay, in one round.
const MOST_KEPT: usize = 256;

/// Transfers of more bytes than this are shared among threads.
const SHARE: usize = 4 << 20;
/// The most threads that copy.
const MOST_COPIERS: usize = 8;

/// The part of the free memory that a round may use for its tiles, and that which all rounds together may use for queries and hits.
const SCRATCH_PART: u64 = 16;
const ROUNDS_PART: u64 = 8;
/// More than this part of all tiles is not needed for a round, but at least this many bytes.
const SCRATCH_OF_TILES: u64 = 8;
const LEAST_SCRATCH: u64 = 1 << 26;

/// About the bytes that tiles take for each posting, for planning.
const BYTES_PER_POSTING: u64 = 10;

/// Rounds that are in flight at the same time: one waits for lists while the other is answered.
pub(crate) const IN_FLIGHT: usize = 2;

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
    /// Bytes that a round has for the tiles made for it.
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
    /// Tables of documents.
    pub(crate) tables: u64,
}

/// The memory for lists, which engines for different snapshots share.
pub(crate) struct Lending {
    device: Device,
    arena: Buffer<u8>,
    /// Bytes of a round's tiles, and those of all rounds' queries and hits.
    scratch: u64,
    rounds_bytes: u64,
    /// Memory for tiles that no round uses. Rounds wait for it.
    idle: Mutex<Vec<Buffer<u8>>>,
    returned: Condvar,
    cache: Mutex<ListCache<Contents>>,
    /// The segments in the cache, with what kernels need to know of their documents.
    segments: Mutex<Vec<(Key, u32, Weak<Lasting>)>>,
    /// Formulas by their numbers.
    formulas: Mutex<Vec<Formula>>,
    uploaders: Mutex<Vec<Uploader>>,
    lists: [AtomicU64; 3],
    postings: [AtomicU64; 3],
    bytes_moved: AtomicU64,
    waited: AtomicU64,
    rounds: AtomicU64,
    slices: AtomicU64,
}

/// A list that stays on the device.
#[derive(Clone, Copy)]
enum Contents {
    Packed(PackedList),
    Tiles(ListView),
}

/// The lists of a snapshot, by one formula, made when rounds need them.
pub(crate) struct OnDemand {
    lending: Arc<Lending>,
    kernels: MakeKernels,
    segments: Vec<SegmentLists>,
    bits: u32,
    formula: Formula,
    /// The formula's number.
    number: u32,
    /// The largest frequency for which logarithms were needed.
    largest: AtomicU64,
}

struct SegmentLists {
    segment: Arc<Segment>,
    within: Range<u32>,
    slot: u32,
    lasting: Arc<Lasting>,
    documents: DocumentTables,
    /// Documents of a cell.
    cell: u32,
    /// The first block of each cell, by list.
    cuts: Mutex<HashMap<u32, Arc<[u32]>>>,
    /// Lists of other codecs in the form that the device reads.
    coded: Mutex<HashMap<u32, Arc<Pieces<'static>>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lending {
    /// Takes as much of the device's free memory as lists of `needs` can use, except for what rounds need.
    pub(crate) fn new(device: &Device, policy: Policy, needs: Needs) -> Result<Self, ImageError> {
        let free = device.available()?.saturating_sub(needs.tables);
        let rounds = free / ROUNDS_PART;
        let scratch =
            (free / SCRATCH_PART).min((needs.tiles / SCRATCH_OF_TILES).max(LEAST_SCRATCH));
        let left = free - rounds - IN_FLIGHT as u64 * scratch;
        let idle = (0..IN_FLIGHT).map(|_| device.buffer(scratch as usize));
        let idle = idle.collect::<Result<Vec<_>, DeviceError>>()?;
        let cache = ListCache::new(left.min(needs.packed + needs.kept), policy);
        let arena = device.buffer(cache.bytes().1 as usize + BEHIND)?;
        Ok(Lending {
            device: device.clone(),
            arena,
            scratch,
            rounds_bytes: rounds,
            idle: Mutex::new(idle),
            returned: Condvar::new(),
            cache: Mutex::new(cache),
            segments: Mutex::default(),
            formulas: Mutex::default(),
            uploaders: Mutex::default(),
            lists: Default::default(),
            postings: Default::default(),
            bytes_moved: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            slices: AtomicU64::new(0),
        })
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
            scratch: self.scratch,
        }
    }

    /// The number of a segment in the cache, and tables of its documents, copied unless a snapshot has them.
    fn segment(&self, segment: &Segment, key: Key) -> Result<(u32, Arc<Lasting>), ImageError> {
        let mut segments = lock(&self.segments);
        let found = segments.iter().find(|(of, ..)| *of == key);
        if let Some((slot, lasting)) =
            found.and_then(|(_, slot, lasting)| Some((*slot, lasting.upgrade()?)))
        {
            return Ok((slot, lasting));
        }
        let lasting = Arc::new(Lasting::load(&self.device, segment, key.within())?);
        let mut cache = lock(&self.cache);
        // Segments that no snapshot has any more make room.
        segments.retain(|(_, slot, lasting)| {
            let alive = lasting.strong_count() > 0;
            if !alive {
                cache.remove_segment(*slot);
            }
            alive
        });
        let slot = cache.add_segment(segment.dictionary().terms());
        segments.push((key, slot, Arc::downgrade(&lasting)));
        Ok((slot, lasting))
    }

    fn formula(&self, formula: Formula) -> u32 {
        let mut formulas = lock(&self.formulas);
        let at = formulas.iter().position(|of| *of == formula);
        at.unwrap_or_else(|| {
            formulas.push(formula);
            formulas.len() - 1
        }) as u32
    }

    /// Memory for the tiles of a round, once another round returns it.
    fn take_scratch(&self) -> Buffer<u8> {
        let mut idle = lock(&self.idle);
        loop {
            if let Some(scratch) = idle.pop() {
                return scratch;
            }
            idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn return_scratch(&self, scratch: Buffer<u8>) {
        lock(&self.idle).push(scratch);
        self.returned.notify_one();
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

    /// Copies pieces of lists to their places in a buffer, in ascending order, and waits. `after` must have happened on the device before.
    fn copy(
        &self,
        to: &Buffer<u8>,
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
                uploader.scatter(to, placed)?;
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

/// The lists that a round uses, until it has ended.
pub(crate) struct Brought {
    images: Vec<SegmentImage>,
    /// Set if a list is malformed.
    failed: Buffer<u32>,
    on_demand: Arc<OnDemand>,
    infos: Vec<Vec<TermInfo>>,
    /// Entries in use.
    held: Vec<EntryId>,
    /// The memory of the tiles made for it.
    scratch: Buffer<u8>,
    stream: Stream,
    ended: bool,
}

impl Brought {
    /// The segments, as kernels see them.
    pub(crate) fn images(&self) -> &[SegmentImage] {
        &self.images
    }

    /// After the round: whether its hits can be trusted. If not, but it can be repeated, the result is false.
    pub(crate) fn check(&mut self) -> Result<bool, ImageError> {
        let failed = self.stream.download(&self.failed)?[0];
        self.ended = true;
        match failed {
            0 => Ok(true),
            1 => {
                let segments = self.on_demand.segments.iter().zip(&self.infos);
                let errors = segments.map(|(lists, infos)| malformed(&lists.segment, infos));
                // An error of the index says more than one of the device.
                let mut errors: Vec<ImageError> = errors.collect();
                let at = errors.iter().position(|error| matches!(error, ImageError::Index(_)));
                Err(errors.swap_remove(at.unwrap_or(0)))
            }
            freq => {
                self.on_demand.largest.fetch_max(u64::from(freq), Ordering::Relaxed);
                Ok(false)
            }
        }
    }
}

impl Drop for Brought {
    fn drop(&mut self) {
        if !self.ended {
            // Kernels may still read lists; after a failure of the device nothing does.
            let _ = self.stream.synchronize();
        }
        let lending = &self.on_demand.lending;
        lending.return_scratch(self.scratch.clone());
        let mut cache = lock(&lending.cache);
        self.held.iter().for_each(|&id| cache.release(id));
    }
}

/// A list that a round uses and that is not there as tiles.
struct Wanted<'a> {
    info: TermInfo,
    pieces: Arc<Pieces<'a>>,
    /// On the device, if it is there.
    packed: Option<PackedList>,
    cuts: Arc<[u32]>,
    filter_shift: u32,
}

impl Wanted<'_> {
    /// The blocks of some cells, at least one.
    fn blocks(&self, cells: &Range<u32>) -> Range<u32> {
        let last = self.pieces.blocks() - 1;
        let of = |cell: u32| self.cuts[cell as usize].min(last);
        of(cells.start)..of(cells.end) + 1
    }

    /// The most postings of a slice, with padding.
    fn room(&self, cells: &Range<u32>, docs: u32, tiles: u32) -> u32 {
        let blocks = self.blocks(cells);
        let postings = ((blocks.end - blocks.start) * 128).min(self.info.df).min(docs);
        (postings + 3 * postings.min(tiles)).next_multiple_of(4)
    }
}

/// Where the arrays of a list are in the scratch memory, the same for all slices.
#[derive(Clone, Copy, Default)]
struct Place {
    filter: u64,
    starts: u64,
    raws: u64,
    docs: u64,
    values: u64,
    roughs: u64,
    peaks: u64,
    room: u32,
}

/// How the documents of all segments are cut for a round.
struct Cut {
    /// Cells of a slice, by segment.
    cells: Vec<u32>,
    places: Vec<Vec<Place>>,
    /// Bytes of filters, which come first.
    filters: u64,
    /// Bytes of filters and of compressed blocks, which come next.
    before: u64,
    /// Bytes of everything.
    bytes: u64,
}

impl OnDemand {
    /// For a snapshot, whose documents `within` it the device answers for.
    pub(crate) fn new(
        lending: Arc<Lending>,
        kernels: MakeKernels,
        snapshot: &Snapshot,
        within: impl Fn(&Segment) -> Range<u32>,
        bits: u32,
        formula: Formula,
    ) -> Result<Self, ImageError> {
        let of = |segment: &Arc<Segment>| {
            let within = within(segment);
            let key = Key::new(segment, within.clone(), bits);
            let (slot, lasting) = lending.segment(segment, key)?;
            let documents = lasting.tables.of(&lending.device, segment, within.clone())?;
            let tiles = (within.len() as u32).div_ceil(1 << bits);
            let whole = POSITIONS >> bits;
            // Small segments have smaller cells, which lists that stay as tiles cannot use.
            let step = if tiles / CELLS >= whole { whole.max(CELL_TILES) } else { CELL_TILES };
            let cell = tiles.div_ceil(CELLS).next_multiple_of(step).max(step) << bits;
            Ok(SegmentLists {
                segment: segment.clone(),
                within,
                slot,
                lasting,
                documents,
                cell,
                cuts: Mutex::default(),
                coded: Mutex::default(),
            })
        };
        let segments =
            snapshot.segments().iter().map(of).collect::<Result<Vec<_>, ImageError>>()?;
        let number = lending.formula(formula);
        let largest = AtomicU64::new(0);
        Ok(OnDemand { lending, kernels, segments, bits, formula, number, largest })
    }

    pub(crate) fn lending(&self) -> &Arc<Lending> {
        &self.lending
    }

    /// Brings all lists to the device, compressed, if they all have room there.
    pub(crate) fn preload(&self, threads: usize, loading: &Loading) -> Result<(), ImageError> {
        let lending = &*self.lending;
        let bodies = self.segments.iter().map(|lists| lists.segment.postings_file().body_len());
        let postings = self.segments.iter().map(|lists| lists.segment.dictionary().postings());
        loading.start(postings.sum());
        if bodies.sum::<u64>() > lock(&lending.cache).bytes().1 {
            return Ok(());
        }
        for lists in &self.segments {
            for range in ranges(&lists.segment)? {
                self.preload_some(lists, &infos(&lists.segment, range)?, threads, loading)?;
            }
        }
        Ok(())
    }

    fn preload_some(
        &self,
        lists: &SegmentLists,
        infos: &[TermInfo],
        threads: usize,
        loading: &Loading,
    ) -> Result<(), ImageError> {
        let lending = &*self.lending;
        let address = lending.arena.address();
        let pieces = infos.iter().map(|info| lists.pieces(info));
        let pieces = pieces.collect::<Result<Vec<_>, IndexError>>()?;
        let mut cache = lock(&lending.cache);
        let mut came = Vec::new();
        for (info, pieces) in infos.iter().zip(&pieces) {
            let id = ListId { segment: lists.slot, ordinal: info.ordinal };
            if pieces.len() == 0 || cache.has(id, Level::Packed) {
                continue;
            }
            let bytes = pieces.len() as u64;
            let saves = TRANSFER + BYTE * bytes as f32;
            let contents = |at: u64| Contents::Packed(pieces.at(address + at));
            if let Some((entry, at)) = cache.admit(id, Level::Packed, bytes, saves, contents) {
                came.push((entry, at as usize, pieces));
            }
        }
        let mut copies: Vec<_> =
            came.iter().map(|(_, at, pieces)| (*at, pieces.slices())).collect();
        copies.sort_unstable_by_key(|&(at, _)| at);
        let moved: usize = came.iter().map(|(.., pieces)| pieces.len()).sum();
        let copied = lending.copy(&lending.arena, &copies, threads, None);
        for (entry, ..) in came {
            match copied {
                Ok(()) => cache.release(entry),
                Err(_) => cache.forget(entry),
            }
        }
        copied?;
        let postings = infos.iter().map(|info| u64::from(info.df)).sum();
        Ok(loading.advance(postings, moved as u64)?)
    }

    /// Cuts plans into rounds of at most `most` queries whose lists probably have room, a cell of documents at a time.
    pub(crate) fn rounds<'p, 'a>(&self, plans: &'p [&'a Plan], most: usize) -> Vec<&'p [&'a Plan]> {
        let cells = self.segments.iter().map(SegmentLists::cells).max().unwrap_or(1);
        let room = self.lending.scratch * u64::from(cells) / BYTES_PER_POSTING * 3 / 4;
        let (mut rounds, mut from) = (Vec::new(), 0);
        let (mut seen, mut postings) = (HashSet::new(), 0);
        for (i, plan) in plans.iter().enumerate() {
            let lists = || {
                let of = |term: &'a PlanTerm| term.lists.iter().enumerate();
                let lists = plan.terms.iter().flat_map(of);
                lists.filter_map(|(number, info)| Some((number, (*info)?)))
            };
            let is_new =
                |&(number, info): &(usize, TermInfo)| !seen.contains(&(number, info.ordinal));
            let more: u64 = lists().filter(is_new).map(|(_, info)| u64::from(info.df)).sum();
            if i > from && (postings + more > room || i - from >= most) {
                rounds.push(&plans[from..i]);
                from = i;
                seen.clear();
                postings = 0;
            }
            for (number, info) in lists() {
                if seen.insert((number, info.ordinal)) {
                    postings += u64::from(info.df);
                }
            }
        }
        rounds.push(&plans[from..]);
        rounds
    }

    /// The most queries of a round that ask for this many hits.
    pub(crate) fn most_queries(&self, hits: usize) -> usize {
        // Each slice has hits of its own for every query, and so has each round in flight.
        let of_query = 8 * hits.max(1) as u64 * 16 * IN_FLIGHT as u64;
        (self.lending.rounds_bytes / of_query).max(1) as usize
    }

    /// Bytes that would have to be copied, and postings of which tiles would have to be made, for plans.
    pub(crate) fn missing(&self, plans: &[&Plan]) -> (u64, u64) {
        let infos = self.infos(plans);
        let cache = lock(&self.lending.cache);
        let (mut bytes, mut postings) = (0, 0);
        for (lists, infos) in self.segments.iter().zip(&infos) {
            for info in infos {
                let id = ListId { segment: lists.slot, ordinal: info.ordinal };
                if cache.has(id, Level::Tiles(self.number)) {
                    continue;
                }
                postings += u64::from(info.df);
                if !cache.has(id, Level::Packed) {
                    bytes += info.len;
                }
            }
        }
        (bytes, postings)
    }

    /// The distinct lists of plans, by segment.
    fn infos(&self, plans: &[&Plan]) -> Vec<Vec<TermInfo>> {
        let of = |number: usize| {
            let terms = plans.iter().flat_map(|plan| &plan.terms);
            let mut infos: Vec<TermInfo> = terms.filter_map(|term| term.lists[number]).collect();
            infos.sort_unstable_by_key(|info| info.ordinal);
            infos.dedup_by_key(|info| info.ordinal);
            infos
        };
        (0..self.segments.len()).map(of).collect()
    }

    /// Lists as tiles for a round. What is not on the device is brought when the round comes to it.
    pub(crate) fn bring(
        self: &Arc<Self>,
        plans: &[&Plan],
        workspace: &mut Workspace,
        threads: usize,
    ) -> Result<Brought, ImageError> {
        let lending = &*self.lending;
        let infos = self.infos(plans);
        let failed = workspace.failed.take(&lending.device, 1)?;
        workspace.stream.zero(&failed)?;
        let start = Instant::now();
        let mut brought = Brought {
            images: Vec::new(),
            failed,
            on_demand: self.clone(),
            infos,
            held: Vec::new(),
            scratch: lending.take_scratch(),
            stream: workspace.stream.clone(),
            ended: false,
        };
        let (wanted, kept) = self.look_up(&mut brought, workspace, threads, start)?;
        let cut = self.cut(&wanted)?;
        lending.rounds.fetch_add(1, Ordering::Relaxed);
        brought.images = self.images(&brought, &wanted, &kept, &cut, workspace, threads)?;
        let slices: usize = brought.images.iter().map(|image| image.slices().len()).sum();
        lending.slices.fetch_add(slices as u64, Ordering::Relaxed);
        Ok(brought)
    }

    /// Finds the lists of a round, lets those in that are to stay, and returns those that are not tiles, and those that are.
    #[allow(clippy::type_complexity)]
    fn look_up<'a>(
        &'a self,
        brought: &mut Brought,
        workspace: &mut Workspace,
        threads: usize,
        start: Instant,
    ) -> Result<(Vec<Vec<Wanted<'a>>>, Vec<HashMap<u32, ListView>>), ImageError> {
        let lending = &*self.lending;
        let mut pieces = Vec::with_capacity(self.segments.len());
        for (lists, infos) in self.segments.iter().zip(&brought.infos) {
            let of = |info: &TermInfo| lists.pieces(info);
            pieces.push(infos.iter().map(of).collect::<Result<Vec<_>, IndexError>>()?);
        }
        // Held while lists come that are to stay, so that no other round takes them before they are there.
        let mut cache = lock(&lending.cache);
        lending.waited.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        cache.begin(self.number);
        let mut wanted: Vec<Vec<Wanted<'a>>> = Vec::new();
        let mut kept: Vec<HashMap<u32, ListView>> = Vec::new();
        let mut came: Vec<(EntryId, usize, usize)> = Vec::new();
        let count = |place: usize, info: &TermInfo| {
            lending.lists[place].fetch_add(1, Ordering::Relaxed);
            lending.postings[place].fetch_add(info.df.into(), Ordering::Relaxed);
        };
        for (lists, infos) in self.segments.iter().zip(&brought.infos) {
            for info in infos {
                cache.touch(ListId { segment: lists.slot, ordinal: info.ordinal });
            }
        }
        for (number, lists) in self.segments.iter().enumerate() {
            let (mut some, mut whole) = (Vec::new(), HashMap::new());
            for (info, pieces) in brought.infos[number].iter().zip(&pieces[number]) {
                let id = ListId { segment: lists.slot, ordinal: info.ordinal };
                if let Some((entry, Contents::Tiles(view))) =
                    cache.take(id, Level::Tiles(self.number))
                {
                    count(0, info);
                    whole.insert(info.ordinal, *view);
                    brought.held.push(entry);
                    continue;
                }
                let mut packed = None;
                if pieces.len() == 0 {
                    // A list of one posting is sent with the round's tables.
                    count(1, info);
                    packed = Some(pieces.at(0));
                } else if let Some((entry, Contents::Packed(list))) = cache.take(id, Level::Packed)
                {
                    count(1, info);
                    packed = Some(*list);
                    brought.held.push(entry);
                } else {
                    count(2, info);
                    let bytes = pieces.len() as u64;
                    let saves = TRANSFER + BYTE * bytes as f32;
                    let address = lending.arena.address();
                    let contents = |at: u64| Contents::Packed(pieces.at(address + at));
                    if let Some((entry, at)) =
                        cache.admit(id, Level::Packed, bytes, saves, contents)
                    {
                        packed = Some(pieces.at(address + at));
                        came.push((entry, at as usize, some.len()));
                        brought.held.push(entry);
                    }
                }
                let (cuts, shift) = (lists.cuts(info, pieces), lists.filter_shift(info));
                let (info, pieces) = (*info, pieces.clone());
                some.push(Wanted { info, pieces, packed, cuts, filter_shift: shift });
            }
            let mut copies: Vec<_> =
                came.iter().map(|&(_, at, i)| (at, some[i].pieces.slices())).collect();
            copies.sort_unstable_by_key(|&(at, _)| at);
            let copied = lending.copy(&lending.arena, &copies, threads, None);
            if let Err(error) = copied {
                // They never came, and nobody else has seen them.
                for (entry, ..) in came {
                    brought.held.retain(|held| *held != entry);
                    cache.forget(entry);
                }
                return Err(error);
            }
            came.clear();
            wanted.push(some);
            kept.push(whole);
        }
        self.keep_tiles(&mut cache, brought, &mut wanted, &mut kept, workspace)?;
        Ok((wanted, kept))
    }

    /// Makes tiles that stay, of lists for which there is room.
    fn keep_tiles(
        &self,
        cache: &mut ListCache<Contents>,
        brought: &mut Brought,
        wanted: &mut [Vec<Wanted<'_>>],
        kept: &mut [HashMap<u32, ListView>],
        workspace: &mut Workspace,
    ) -> Result<(), ImageError> {
        let lending = &*self.lending;
        let mut left = MOST_KEPT;
        for (number, lists) in self.segments.iter().enumerate() {
            let docs = lists.within.len() as u32;
            let tiles = docs.div_ceil(1 << self.bits);
            if !lists.can_keep_tiles() {
                continue;
            }
            let (mut temporary, mut made) = (Layout::default(), Vec::new());
            let failed = temporary.add(4);
            for (i, list) in wanted[number].iter().enumerate() {
                let df = list.info.df;
                let raws = 4 * (u64::from(tiles) + 1) + 64;
                let fits = temporary.bytes() + raws <= lending.scratch;
                if left == 0 || !fits || df < TILES_FROM * tiles.max(1) {
                    continue;
                }
                let Some(packed) = list.packed else { continue };
                let room = (df + 3 * tiles.min(df)).next_multiple_of(4);
                let mut layout = Layout::default();
                let place = Place::whole(&mut layout, room, tiles, docs.into(), list.filter_shift);
                let saves = MAKING + POSTING * df as f32;
                let id = ListId { segment: lists.slot, ordinal: list.info.ordinal };
                let view = |at: u64| ListView {
                    count: room,
                    postings: df,
                    stays: true,
                    ..place.view(lending.arena.address() + at, list.filter_shift)
                };
                let contents = |at: u64| Contents::Tiles(view(at));
                let level = Level::Tiles(self.number);
                let Some((entry, at)) = cache.admit(id, level, layout.bytes(), saves, contents)
                else {
                    continue;
                };
                left -= 1;
                let view = view(at);
                let raws = temporary.add(4 * (u64::from(tiles) + 1));
                made.push((i, entry, packed, view, raws));
            }
            if made.is_empty() {
                continue;
            }
            let totals = temporary.add(4 * made.len() as u64);
            let (words, scratch) = ((failed, totals), &brought.scratch);
            let done = self.make_tiles(lists, &made, words, scratch, workspace);
            if let Err(error) = done {
                made.iter().for_each(|&(_, entry, ..)| cache.forget(entry));
                return Err(error);
            }
            for &(i, entry, _, view, _) in made.iter().rev() {
                let list = wanted[number].swap_remove(i);
                kept[number].insert(list.info.ordinal, view);
                brought.held.push(entry);
            }
        }
        Ok(())
    }

    /// Fills tiles in the arena and waits for them.
    fn make_tiles(
        &self,
        lists: &SegmentLists,
        made: &[(usize, EntryId, PackedList, ListView, u64)],
        (failed, totals): (u64, u64),
        scratch: &Buffer<u8>,
        workspace: &mut Workspace,
    ) -> Result<(), ImageError> {
        let lending = &*self.lending;
        let packed: Vec<PackedList> = made.iter().map(|one| one.2).collect();
        let targets: Vec<Target> = made
            .iter()
            .map(|(.., view, raws)| Target {
                docs: view.docs,
                values: view.values,
                roughs: view.roughs,
                starts: view.starts,
                peaks: view.peaks,
                filter: view.filter,
                raws: scratch.address() + raws,
                room: view.count,
                filter_shift: view.filter_shift,
            })
            .collect();
        let work = units(packed.iter().map(|list| (0, list.blocks())));
        let frame = lists.frame(&lists.within, self.bits);
        let tables = Tables::add(workspace.make_input.start(), frame, &packed, &targets, &work);
        let (stream, device) = (&workspace.stream, &lending.device);
        let sent = workspace.make_input.send(device, stream)?;
        let failed = scratch.slice(failed as usize..failed as usize + 4).cast::<u32>();
        stream.zero(&failed)?;
        let words = |docs: u64, shift: u32| 4 * filter_words(docs, shift) as usize;
        for (.., view, _) in made {
            let at = (view.filter - lending.arena.address()) as usize;
            let bytes = words(lists.within.len() as u64, view.filter_shift);
            stream.zero(&lending.arena.slice(at..at + bytes))?;
        }
        loop {
            let valuing = self.valuing(lists)?;
            let job = tables.job(&self.kernels, stream, &sent, failed.address());
            job.mark()?;
            job.start(scratch.address() + totals)?;
            job.fill(valuing.view, Fill::All)?;
            match stream.download(&failed)?[0] {
                0 => return Ok(()),
                1 => return Err(malformed(&lists.segment, &[])),
                freq => {
                    self.largest.fetch_max(u64::from(freq), Ordering::Relaxed);
                    stream.zero(&failed)?;
                }
            }
        }
    }

    fn valuing(&self, lists: &SegmentLists) -> Result<Valuing, ImageError> {
        let freq = self.largest.load(Ordering::Relaxed) as u32;
        lists.lasting.valuer.of(&self.lending.device, &lists.segment, self.formula, freq)
    }

    /// Cuts the documents into as few slices as there is room for.
    fn cut(&self, wanted: &[Vec<Wanted<'_>>]) -> Result<Cut, ImageError> {
        let most = self.segments.iter().map(SegmentLists::cells).max().unwrap_or(1);
        let mut slices = 1;
        loop {
            let cut = self.cut_in(wanted, slices)?;
            if cut.bytes <= self.lending.scratch {
                return Ok(cut);
            }
            if slices >= most {
                let memory = self.lending.device.memory();
                return Err(DeviceError::OutOfMemory {
                    asked: cut.bytes,
                    used: memory.current,
                    available: self.lending.scratch,
                    budget: memory.budget.is_some(),
                }
                .into());
            }
            slices = (2 * slices).min(most);
        }
    }

    fn cut_in(&self, wanted: &[Vec<Wanted<'_>>], slices: u32) -> Result<Cut, ImageError> {
        let (mut cells, mut places) = (Vec::new(), Vec::new());
        // What comes from main memory has its own part of the memory, since it is copied while queries read the tiles made before.
        let (mut filters, mut copied, mut layout) =
            (Layout::default(), Layout::default(), Layout::default());
        for (lists, wanted) in self.segments.iter().zip(wanted) {
            let each = lists.cells().div_ceil(slices).max(1);
            cells.push(each);
            // Segments come one after another, and use the same memory.
            let (mut own_filters, mut own) = (Layout::default(), Layout::default());
            let mut from_memory = vec![0; lists.slices(each).count()];
            let mut of_segment = Vec::with_capacity(wanted.len());
            // Totals come first.
            own.add(4 * wanted.len() as u64);
            for list in wanted {
                let docs = (each * lists.cell).min(lists.within.len() as u32);
                let tiles = docs.div_ceil(1 << self.bits);
                let mut room = 0;
                for (number, slice) in lists.slices(each).enumerate() {
                    room = room.max(list.room(&slice, docs, tiles));
                    if list.packed.is_none() {
                        let some = lists.some(&list.info, &list.pieces, &list.blocks(&slice))?;
                        from_memory[number] += some.len() as u64;
                    }
                }
                let words = filter_words(docs.into(), list.filter_shift);
                let filter = own_filters.add(4 * words);
                let place = Place { filter, ..Place::of(&mut own, room, tiles) };
                let raws = own.add(4 * (u64::from(tiles) + 1));
                of_segment.push(Place { raws, ..place });
            }
            filters.reserve(own_filters.bytes());
            copied.reserve(from_memory.into_iter().max().unwrap_or(0) + BEHIND as u64);
            layout.reserve(own.bytes());
            places.push(of_segment);
        }
        let filters = filters.bytes().next_multiple_of(16);
        let before = filters + copied.bytes().next_multiple_of(16);
        Ok(Cut { cells, places, filters, before, bytes: before + layout.bytes() })
    }

    /// The segments as kernels see them: slices of one size, and the rest, which is shorter.
    fn images(
        self: &Arc<Self>,
        brought: &Brought,
        wanted: &[Vec<Wanted<'_>>],
        kept: &[HashMap<u32, ListView>],
        cut: &Cut,
        workspace: &mut Workspace,
        threads: usize,
    ) -> Result<Vec<SegmentImage>, ImageError> {
        let device = &self.lending.device;
        let scratch = &brought.scratch;
        let (filters, rest) = (scratch.address(), scratch.address() + cut.before);
        let input = workspace.make_input.start();
        let mut planned = Vec::new();
        for (number, (lists, wanted)) in self.segments.iter().zip(wanted).enumerate() {
            let places = &cut.places[number];
            let target = |(list, place): (&Wanted<'_>, &Place)| {
                place.target(filters, rest, list.filter_shift)
            };
            let targets: Vec<Target> = wanted.iter().zip(places).map(target).collect();
            let all_there = wanted.iter().all(|list| list.packed.is_some());
            let mut first: Option<Tables> = None;
            for slice in lists.slices(cut.cells[number]) {
                let docs = lists.docs(&slice);
                let (mut packed, mut copies) = (Vec::with_capacity(wanted.len()), Vec::new());
                let mut at = cut.filters as usize;
                for list in wanted {
                    if let Some(there) = list.packed {
                        packed.push(there);
                        continue;
                    }
                    let blocks = list.blocks(&slice);
                    let some = lists.some(&list.info, &list.pieces, &blocks)?;
                    packed.push(some.at(filters + at as u64));
                    copies.push((at, list.info, blocks));
                    at += some.len();
                }
                let work = wanted.iter().map(|list| {
                    let blocks = list.blocks(&slice);
                    (blocks.start, blocks.end - blocks.start)
                });
                let (units, frame) = (units(work), lists.frame(&docs, self.bits));
                // Where lists go is the same for all slices.
                let tables = match &first {
                    None => Tables::add(input, frame, &packed, &targets, &units),
                    Some(first) => {
                        first.also(input, frame, (!all_there).then_some(&packed), &units)
                    }
                };
                first.get_or_insert_with(|| tables.clone());
                planned.push((number, docs, tables, copies));
            }
        }
        let sent = workspace.make_input.send(device, &workspace.stream)?;
        let made = Arc::new(device.event()?);
        let valuings = self.segments.iter().map(|lists| Ok(Arc::new(self.valuing(lists)?)));
        let valuings = valuings.collect::<Result<Vec<_>, ImageError>>()?;
        let mut images: Vec<SegmentImage> = Vec::new();
        for (number, docs, tables, copies) in planned {
            let lists = &self.segments[number];
            let view = lists.view(&docs, self.bits);
            let first_tile = (docs.start - lists.within.start) >> self.bits;
            let bring = Bring {
                on_demand: self.clone(),
                number,
                tables,
                sent: sent.clone(),
                valuing: valuings[number].clone(),
                failed: brought.failed.clone(),
                filters: scratch.slice(..cut.filters as usize),
                totals: rest,
                scratch: scratch.clone(),
                copies,
                threads,
                made: made.clone(),
            };
            let bring = (!wanted[number].is_empty()).then_some(bring);
            let slice = Slice { view, first_tile, bring };
            let tiles = view.docs.div_ceil(1 << self.bits);
            if let Some(image) = images.last_mut()
                && (image.number(), image.tiles()) == (number, tiles)
            {
                image.push(slice);
                continue;
            }
            let mut views = kept[number].clone();
            for (list, place) in wanted[number].iter().zip(&cut.places[number]) {
                let view = place.view_in(filters, rest, list.filter_shift);
                let df = list.info.df;
                views.insert(list.info.ordinal, ListView { count: df, postings: df, ..view });
            }
            images.push(SegmentImage::sliced(number, tiles, views, slice));
        }
        Ok(images)
    }
}

impl SegmentLists {
    fn pieces(&self, info: &TermInfo) -> Result<Arc<Pieces<'_>>, IndexError> {
        if self.segment.codec() == warpseek_codec::CodecId::BitPack {
            return Ok(Arc::new(Pieces::of(&self.segment, info)?));
        }
        if let Some(pieces) = lock(&self.coded).get(&info.ordinal) {
            return Ok(pieces.clone());
        }
        let pieces = Arc::new(Pieces::of(&self.segment, info)?.into_owned());
        lock(&self.coded).insert(info.ordinal, pieces.clone());
        Ok(pieces)
    }

    /// Some blocks of a list.
    fn some<'a>(
        &self,
        info: &TermInfo,
        pieces: &'a Pieces<'_>,
        blocks: &Range<u32>,
    ) -> Result<SomeBlocks<'a>, ImageError> {
        pieces.some(blocks.clone()).ok_or_else(|| malformed(&self.segment, &[*info]))
    }

    /// Number of cells, at least one.
    fn cells(&self) -> u32 {
        (self.within.len() as u32).div_ceil(self.cell).max(1)
    }

    /// Whether slices begin where lists that stay as tiles can be entered.
    fn can_keep_tiles(&self) -> bool {
        self.cells() == 1 || self.cell.is_multiple_of(POSITIONS)
    }

    /// The first block of each cell, and of what follows the last.
    fn cuts(&self, info: &TermInfo, pieces: &Pieces<'_>) -> Arc<[u32]> {
        if let Some(cuts) = lock(&self.cuts).get(&info.ordinal) {
            return cuts.clone();
        }
        let first = |cell: u32| {
            let doc = u64::from(self.within.start) + u64::from(cell) * u64::from(self.cell);
            pieces.block_for(doc.min(self.within.end.into()) as u32)
        };
        let cuts: Arc<[u32]> = (0..=self.cells()).map(first).collect();
        lock(&self.cuts).insert(info.ordinal, cuts.clone());
        cuts
    }

    fn filter_shift(&self, info: &TermInfo) -> u32 {
        filter_shift(self.within.len() as u64, info.df.into())
    }

    /// Ranges of cells.
    fn slices(&self, each: u32) -> impl Iterator<Item = Range<u32>> + use<> {
        let cells = self.cells();
        (0..cells).step_by(each as usize).map(move |from| from..(from + each).min(cells))
    }

    /// The documents of some cells, by position in the segment.
    fn docs(&self, cells: &Range<u32>) -> Range<u32> {
        let at = |cell: u32| {
            let doc = u64::from(self.within.start) + u64::from(cell) * u64::from(self.cell);
            doc.min(self.within.end.into()) as u32
        };
        at(cells.start)..at(cells.end)
    }

    fn frame(&self, docs: &Range<u32>, bits: u32) -> Frame {
        Frame {
            docs: self.segment.documents().count(),
            origin: docs.start,
            limit: docs.end,
            bits,
            first_tile: 0,
            end_tile: (docs.len() as u32).div_ceil(1 << bits),
        }
    }

    /// What kernels see of some documents: numbers count from the first of them.
    fn view(&self, docs: &Range<u32>, bits: u32) -> SegmentView {
        let all = self.documents.view();
        let by = docs.start - self.within.start;
        let moved = |address: u64, bytes: u64| if address == 0 { 0 } else { address + bytes };
        SegmentView {
            statics: moved(all.statics, 4 * u64::from(by)),
            deleted: moved(all.deleted, u64::from(by / 8)),
            ordinals: moved(all.ordinals, 4 * u64::from(by)),
            docs: docs.len() as u32,
            base: if all.ordinals == 0 { all.base + by } else { all.base },
            bits,
            unused: 0,
        }
    }
}

impl Place {
    /// Room for arrays of a list, without filter, raws and compressed blocks.
    fn of(layout: &mut Layout, room: u32, tiles: u32) -> Self {
        let (postings, tiles) = (u64::from(room), u64::from(tiles));
        Place {
            starts: layout.add(4 * (tiles + 1)),
            docs: layout.add(2 * postings),
            values: layout.add(4 * postings),
            roughs: layout.add(2 * postings),
            peaks: layout.add(2 * tiles),
            room,
            ..Place::default()
        }
    }

    /// The same with the filter.
    fn whole(layout: &mut Layout, room: u32, tiles: u32, docs: u64, shift: u32) -> Self {
        let filter = layout.add(4 * filter_words(docs, shift));
        Place { filter, ..Self::of(layout, room, tiles) }
    }

    /// The list if everything is behind an address.
    fn view(&self, at: u64, filter_shift: u32) -> ListView {
        self.view_in(at, at, filter_shift)
    }

    /// The list if filters are behind one address, and everything else is behind another.
    fn view_in(&self, filters: u64, at: u64, filter_shift: u32) -> ListView {
        ListView {
            docs: at + self.docs,
            values: at + self.values,
            roughs: at + self.roughs,
            starts: at + self.starts,
            peaks: at + self.peaks,
            filter: filters + self.filter,
            filter_shift,
            ..ListView::default()
        }
    }

    fn target(&self, filters: u64, at: u64, filter_shift: u32) -> Target {
        let ListView { docs, values, roughs, starts, peaks, filter, .. } =
            self.view_in(filters, at, filter_shift);
        let (raws, room) = (at + self.raws, self.room);
        Target { docs, values, roughs, starts, peaks, filter, raws, room, filter_shift }
    }
}

/// What must happen before kernels can look at a slice.
pub(crate) struct Bring {
    on_demand: Arc<OnDemand>,
    /// The number of the segment.
    number: usize,
    tables: Tables,
    sent: Buffer<u8>,
    valuing: Arc<Valuing>,
    failed: Buffer<u32>,
    filters: Buffer<u8>,
    /// Address of one word per list.
    totals: u64,
    scratch: Buffer<u8>,
    /// Blocks that come from main memory, and where in the scratch memory they go.
    copies: Vec<(usize, TermInfo, Range<u32>)>,
    threads: usize,
    /// Recorded when tiles have been made, so that the memory of compressed blocks is free.
    made: Arc<Event>,
}

impl Bring {
    /// Copies what is in main memory, and makes tiles.
    pub(crate) fn run(&self, stream: &Stream) -> Result<(), ImageError> {
        let lending = &*self.on_demand.lending;
        if !self.copies.is_empty() {
            let lists = &self.on_demand.segments[self.number];
            let pieces = self.copies.iter().map(|(_, info, _)| lists.pieces(info));
            let pieces = pieces.collect::<Result<Vec<_>, IndexError>>()?;
            let copies = self.copies.iter().zip(&pieces).map(|((to, info, blocks), pieces)| {
                Ok((*to, lists.some(info, pieces, blocks)?.slices()))
            });
            let copies = copies.collect::<Result<Vec<_>, ImageError>>()?;
            // Queries of the slice before may still run meanwhile.
            lending.copy(&self.scratch, &copies, self.threads, Some(&self.made))?;
        }
        stream.zero(&self.filters)?;
        let failed = self.failed.address();
        let job = self.tables.job(&self.on_demand.kernels, stream, &self.sent, failed);
        job.mark()?;
        job.start(self.totals)?;
        job.fill(self.valuing.view, Fill::All)?;
        Ok(stream.record(&self.made)?)
    }
}
