//! Lists of an index that does not fit on the device as tiles: each round makes tiles of the
//! lists that it uses.
//!
//! A list is in one of three places: on the device as tiles, on the device compressed, or in main
//! memory. [`ListCache`] decides which lists stay on the device. The other lists that a round
//! uses are copied for it. If they do not fit for all documents, the round processes one *slice*
//! of the documents at a time. In a slice every list is dense, and it has the same address in
//! every slice, so that the queries are sent once.

mod bests;
mod lending;
mod lists;
mod places;
mod scratch;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustc_hash::{FxHashMap, FxHashSet};
use warpseek_cuda::{Buffer, DeviceError, Event, Stream};
use warpseek_exec::{Formula, Plan, PlanTerm};
use warpseek_index::{IndexError, Segment, Snapshot, TermInfo};

use super::cache::{EntryId, Level, ListCache, ListId};
use super::error::ImageError;
use super::make::{Fill, Layout, MakeKernels, Tables, Target, units};
use super::packed::{PackedList, Pieces};
use super::part::{filter_words, malformed};
use super::residence::Key;
use super::segment::{ListView, SegmentImage, Slice, infos};
use super::send::{numbered, ranges};
use super::valuer::Valuing;
use crate::loading::Loading;
use crate::workspace::Workspace;
use bests::{Bests, Unknown};
pub use lending::CacheCounts;
use lending::Contents;
pub(crate) use lending::{Lending, Needs};
use lists::{SegmentLists, Wanted};
use places::{Cut, Place};
use scratch::Lent;

/// Costs of loading a list, in nanoseconds: a transfer, per byte; making tiles, per posting; and
/// the fixed cost of each. Only their ratios matter, and only roughly.
const BYTE: f32 = 0.05;
const POSTING: f32 = 0.01;
const TRANSFER: f32 = 5_000.0;
const MAKING: f32 = 500.0;

/// Minimum number of postings per tile of a dense list that stays as tiles: shorter ones are
/// quick to make, and would consist mostly of padding.
const TILES_FROM: u32 = 4;

/// Number of lists in slices that are enough work for a thread.
const LISTS_OF_A_THREAD: usize = 1 << 14;

/// Maximum number of lists that become permanent tiles in one round.
const MOST_KEPT: usize = 256;

/// Approximate number of slots that a query has for each of its hits: it has several items, and
/// several slices are merged at a time.
pub(crate) const ITEM_HITS: u64 = 24;

/// Approximate bytes of tables for each list in each slice, if its blocks are elsewhere each time
/// and if not.
const TABLE_BYTES: u64 = 104;
const UNIT_BYTES: u64 = 24;

/// Number of small rounds that are in flight at the same time: one waits for lists while the
/// other is answered.
pub(crate) const IN_FLIGHT: usize = 2;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lists of a snapshot by one formula, which are loaded when rounds need them.
pub(crate) struct OnDemand {
    lending: Arc<Lending>,
    kernels: MakeKernels,
    segments: Vec<SegmentLists>,
    bits: u32,
    formula: Formula,
    /// The formula's number.
    number: u32,
    /// Largest frequency for which a logarithm was needed.
    largest: AtomicU64,
}

/// The lists of a round, by segment.
#[derive(Default)]
struct Found<'a> {
    /// Lists that are not on the device as tiles.
    wanted: Vec<Vec<Wanted<'a>>>,
    /// Lists that are on the device as tiles, by ordinal.
    kept: Vec<FxHashMap<u32, ListView>>,
    /// Lists of either kind whose best values are not known.
    unknown: Vec<Vec<Unknown<'a>>>,
}

/// The lists that a round uses, until it has ended.
pub(crate) struct Brought {
    images: Vec<SegmentImage>,
    /// Failure word: set if a list is malformed, or if a frequency has no logarithm.
    failed: Buffer<u32>,
    on_demand: Arc<OnDemand>,
    infos: Vec<Vec<TermInfo>>,
    /// Entries of the cache that the round uses.
    held: Vec<EntryId>,
    /// Memory of the tiles made for the round.
    scratch: Lent,
    stream: Stream,
    ended: bool,
}

impl Brought {
    /// Returns the segments as kernels see them.
    pub(crate) fn images(&self) -> &[SegmentImage] {
        &self.images
    }

    /// Returns true if the hits of the round that has run can be trusted, and false if the round
    /// must be repeated.
    pub(crate) fn check(&mut self) -> Result<bool, ImageError> {
        let failed = self.stream.download(&self.failed)?[0];
        self.ended = true;
        match failed {
            0 => Ok(true),
            1 => {
                let segments = self.on_demand.segments.iter().zip(&self.infos);
                let errors = segments.map(|(lists, infos)| malformed(&lists.segment, infos));
                // Prefer an error of the index, which is more specific than one of the device.
                let mut errors: Vec<ImageError> = errors.collect();
                let at = errors.iter().position(|error| matches!(error, ImageError::Index(_)));
                Err(errors.swap_remove(at.unwrap_or(0)))
            }
            freq => {
                self.on_demand.needs_logarithm(freq);
                Ok(false)
            }
        }
    }
}

impl Drop for Brought {
    fn drop(&mut self) {
        if !self.ended {
            // Kernels may still read lists. After a failure of the device they do not, so the
            // error is ignored.
            let _ = self.stream.synchronize();
        }
        let lending = &self.on_demand.lending;
        lending.scratch.give_back(&self.scratch);
        let mut cache = lock(&lending.cache);
        self.held.iter().for_each(|&id| cache.release(id));
    }
}

impl OnDemand {
    /// Creates the lists of a snapshot, of which the device answers for the documents `within`
    /// each segment.
    pub(crate) fn new(
        lending: Arc<Lending>,
        kernels: MakeKernels,
        snapshot: &Snapshot,
        within: impl Fn(&Segment) -> Range<u32>,
        bits: u32,
        formula: Formula,
    ) -> Result<Self, ImageError> {
        let lists = |segment: &Arc<Segment>| {
            let within = within(segment);
            let key = Key::new(segment, within.clone(), bits);
            let (slot, lasting) = lending.segment(segment, key)?;
            let documents = lasting.tables.of(&lending.device, segment, within.clone())?;
            let deleted = segment.deletes().map(|deletes| deletes.docs.clone());
            let bests = lending.bests(slot, Bests::new(formula, deleted));
            let lasting = (slot, lasting);
            Ok(SegmentLists::new(segment, within, (bits, lending.cells), lasting, documents, bests))
        };
        let segments =
            snapshot.segments().iter().map(lists).collect::<Result<Vec<_>, ImageError>>()?;
        let number = lending.formula(formula);
        let largest = AtomicU64::new(0);
        Ok(OnDemand { lending, kernels, segments, bits, formula, number, largest })
    }

    pub(crate) fn lending(&self) -> &Arc<Lending> {
        &self.lending
    }

    /// Copies all lists to the device, compressed, if they all fit there.
    pub(crate) fn preload(&self, threads: usize, loading: &Loading) -> Result<(), ImageError> {
        let lending = &*self.lending;
        let bodies = self.segments.iter().map(|lists| lists.segment.postings_file().body_len());
        if bodies.sum::<u64>() > lock(&lending.cache).bytes().1 {
            return Ok(());
        }
        let postings = self.segments.iter().map(|lists| lists.segment.dictionary().postings());
        loading.start(postings.sum());
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
        let pieces = infos.iter().map(|info| Pieces::of(&lists.segment, info));
        let pieces = pieces.collect::<Result<Vec<_>, IndexError>>()?;
        let mut cache = lock(&lending.cache);
        let mut came = Vec::new();
        for (info, pieces) in infos.iter().zip(&pieces) {
            let id = ListId { segment: lists.slot, ordinal: info.ordinal };
            if pieces.len() == 0 || cache.has(id, Level::Packed) {
                continue;
            }
            if let Some((entry, at)) = self.admit_packed(&mut cache, id, pieces) {
                came.push((entry, at as usize, pieces));
            }
        }
        let mut copies: Vec<_> =
            came.iter().map(|(_, at, pieces)| (*at, pieces.slices())).collect();
        copies.sort_unstable_by_key(|&(at, _)| at);
        let moved: usize = came.iter().map(|(.., pieces)| pieces.len()).sum();
        let copied = lending.copy_to_arena(&copies, threads);
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

    /// Admits a compressed list to the cache, if that pays. The caller then copies its bytes to
    /// the returned offset in the arena.
    fn admit_packed(
        &self,
        cache: &mut ListCache<Contents>,
        id: ListId,
        pieces: &Pieces<'_>,
    ) -> Option<(EntryId, u64)> {
        let (address, bytes) = (self.lending.arena.address(), pieces.len() as u64);
        let saves = TRANSFER + BYTE * bytes as f32;
        let contents = |at: u64| Contents::Packed(pieces.at(address + at));
        cache.admit(id, Level::Packed, bytes, saves, contents)
    }

    /// Cuts plans into `large` or small rounds of at most `most` queries whose lists probably
    /// fit, a cell of documents at a time.
    pub(crate) fn rounds<'p, 'a>(
        &self,
        plans: &'p [&'a Plan],
        most: usize,
        large: bool,
    ) -> Vec<&'p [&'a Plan]> {
        let room = self.lending.scratch.bytes(large) * 3 / 4;
        let at_once = if large { 1 } else { IN_FLIGHT as u64 };
        let room_for_tables = self.lending.rounds_bytes / 3 / at_once;
        let cache = lock(&self.lending.cache);
        // Bytes of a list's tiles in a cell, and of its tables in all cells.
        let bytes = |number: usize, info: &TermInfo| {
            let lists = &self.segments[number];
            let (cells, tiles) = (u64::from(lists.cells()), u64::from(lists.cell >> self.bits));
            let postings = u64::from(info.df) / cells + 1;
            let id = ListId { segment: lists.slot, ordinal: info.ordinal };
            let table = if cache.has(id, Level::Packed) { UNIT_BYTES } else { TABLE_BYTES };
            (8 * (postings + 3 * postings.min(tiles)) + 12 * tiles, table * cells)
        };
        let (mut rounds, mut from) = (Vec::new(), 0);
        let (mut seen, mut sum) = (FxHashSet::default(), (0, 0));
        for (i, plan) in plans.iter().enumerate() {
            let lists = || {
                let indexed = |term: &'a PlanTerm| term.lists.iter().enumerate();
                let lists = plan.terms.iter().flat_map(indexed);
                lists.filter_map(|(number, info)| Some((number, (*info)?)))
            };
            let more = lists().filter(|(number, info)| !seen.contains(&(*number, info.ordinal)));
            let more: u64 = more.map(|(number, info)| bytes(number, &info).0).sum();
            let full = sum.0 + more > room || sum.1 > room_for_tables || i - from >= most;
            if i > from && full {
                rounds.push(&plans[from..i]);
                from = i;
                seen.clear();
                sum = (0, 0);
            }
            for (number, info) in lists() {
                if seen.insert((number, info.ordinal)) {
                    let (tiles, tables) = bytes(number, &info);
                    sum = (sum.0 + tiles, sum.1 + tables);
                }
            }
        }
        rounds.push(&plans[from..]);
        rounds
    }

    /// Returns the order in which plans are best answered: plans with the same long lists are
    /// neighbours, so that rounds share the lists.
    pub(crate) fn order(&self, plans: &[&Plan]) -> Vec<usize> {
        // The longest lists matter most. They are compared by their postings in all segments, and
        // by one of their ordinals.
        let key = |plan: &Plan| {
            let mut longest = [(0, 0); 3];
            for term in &plan.terms {
                let lists = term.lists.iter().flatten();
                let ordinal = lists.clone().next().map_or(0, |info| info.ordinal);
                let mut list = (lists.map(|info| u64::from(info.df)).sum::<u64>(), ordinal);
                for other in &mut longest {
                    if list > *other {
                        std::mem::swap(&mut list, other);
                    }
                }
            }
            longest
        };
        let mut order: Vec<_> = plans.iter().enumerate().map(|(i, plan)| (key(plan), i)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, i)| i).collect()
    }

    /// Returns the maximum number of queries of a round that request this many hits.
    pub(crate) fn most_queries(&self, hits: usize) -> usize {
        // Slots for a query's items and for merging, in each round in flight.
        let of_query = 8 * hits.max(1) as u64 * ITEM_HITS * IN_FLIGHT as u64;
        (self.lending.rounds_bytes / 2 / of_query).max(1) as usize
    }

    /// Returns the number of bytes that would have to be copied for plans, and the number of
    /// postings of which tiles would have to be made.
    pub(crate) fn missing(&self, plans: &[&Plan]) -> (u64, u64) {
        let infos = self.infos(plans);
        let cache = lock(&self.lending.cache);
        let (mut bytes, mut postings) = (0, 0);
        for (info, is_packed) in self.without_tiles(&cache, &infos) {
            postings += u64::from(info.df);
            if !is_packed {
                bytes += info.len;
            }
        }
        (bytes, postings)
    }

    /// Returns the lists, by segment, that are not on the device as tiles, and whether they are
    /// there compressed.
    fn without_tiles<'a>(
        &'a self,
        cache: &'a ListCache<Contents>,
        infos: &'a [Vec<TermInfo>],
    ) -> impl Iterator<Item = (&'a TermInfo, bool)> {
        self.segments.iter().zip(infos).flat_map(move |(lists, infos)| {
            infos.iter().filter_map(move |info| {
                let id = ListId { segment: lists.slot, ordinal: info.ordinal };
                let is_tiles = cache.has(id, Level::Tiles(self.number));
                (!is_tiles).then(|| (info, cache.has(id, Level::Packed)))
            })
        })
    }

    /// Returns the number of postings of a plan's lists that would have to be copied. While
    /// another round holds the cache, the result is an estimate: the same part of the postings as
    /// last time.
    pub(crate) fn absent(&self, plan: &Plan) -> u64 {
        let infos = self.infos(&[plan]);
        let sum = |infos: &Vec<TermInfo>| infos.iter().map(|info| u64::from(info.df)).sum::<u64>();
        let all: u64 = infos.iter().map(sum).sum();
        let Ok(cache) = self.lending.cache.try_lock() else {
            let part = f32::from_bits(self.lending.absent_part.load(Ordering::Relaxed));
            return (all as f64 * f64::from(part)) as u64;
        };
        let away = self.without_tiles(&cache, &infos).filter(|(_, is_packed)| !is_packed);
        let absent: u64 = away.map(|(info, _)| u64::from(info.df)).sum();
        drop(cache);
        let part = absent as f32 / all.max(1) as f32;
        self.lending.absent_part.store(part.to_bits(), Ordering::Relaxed);
        absent
    }

    /// Returns the distinct lists of plans, by segment.
    fn infos(&self, plans: &[&Plan]) -> Vec<Vec<TermInfo>> {
        let mut seen = FxHashSet::default();
        let distinct = |number: usize| {
            let terms = plans.iter().flat_map(|plan| &plan.terms);
            // Segments without documents have no lists to find. Plans of other snapshots, which
            // are refused, may have fewer segments.
            let has_documents = !self.segments[number].within.is_empty();
            let lists = terms.filter_map(|term| term.lists.get(number).copied().flatten());
            let lists = lists.filter(|info| has_documents && seen.insert((number, info.ordinal)));
            let mut infos: Vec<TermInfo> = lists.collect();
            infos.sort_unstable_by_key(|info| info.ordinal);
            infos
        };
        (0..self.segments.len()).map(distinct).collect()
    }

    /// Provides lists as tiles for a round, which is `large` or small. Lists that are not on the
    /// device are copied when the round reaches their slice.
    pub(crate) fn bring(
        self: &Arc<Self>,
        plans: &[&Plan],
        workspace: &mut Workspace,
        threads: usize,
        large: bool,
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
            scratch: lending.scratch.take(large),
            stream: workspace.stream.clone(),
            ended: false,
        };
        let Found { wanted, kept, unknown } =
            self.look_up(&mut brought, workspace, threads, start)?;
        for (lists, unknown) in self.segments.iter().zip(unknown) {
            self.learn(lists, unknown, &brought.scratch.memory, workspace, threads)?;
        }
        let cut = self.cut(&wanted, lending.scratch.bytes(large))?;
        lending.rounds.fetch_add(1, Ordering::Relaxed);
        brought.images = self.images(&brought, &wanted, &kept, &cut, workspace, threads)?;
        let slices: usize = brought.images.iter().map(|image| image.slices().len()).sum();
        lending.slices.fetch_add(slices as u64, Ordering::Relaxed);
        Ok(brought)
    }

    /// Finds the lists of a round, and admits those to the cache that are to stay.
    fn look_up<'a>(
        &'a self,
        brought: &mut Brought,
        workspace: &mut Workspace,
        threads: usize,
        start: Instant,
    ) -> Result<Found<'a>, ImageError> {
        let lending = &*self.lending;
        let mut pieces = Vec::with_capacity(self.segments.len());
        for (lists, infos) in self.segments.iter().zip(&brought.infos) {
            // All errors of a list are found before it is admitted.
            let pieces_and_cuts = |info: &TermInfo| -> Result<_, ImageError> {
                let pieces = lists.pieces(info)?;
                let cuts = lists.cuts(info, &pieces)?;
                Ok((pieces, cuts))
            };
            pieces.push(infos.iter().map(pieces_and_cuts).collect::<Result<Vec<_>, ImageError>>()?);
        }
        // The lock is held while lists that are to stay are copied, so that no other round uses
        // them too early.
        let mut cache = lock(&lending.cache);
        lending.waited.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        cache.begin(self.number);
        let mut found = Found::default();
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
            let (mut some, mut whole, mut unknown) = (Vec::new(), FxHashMap::default(), Vec::new());
            for (info, (pieces, cuts)) in brought.infos[number].iter().zip(&pieces[number]) {
                let id = ListId { segment: lists.slot, ordinal: info.ordinal };
                if let Some((entry, Contents::Tiles(view))) =
                    cache.take(id, Level::Tiles(self.number))
                {
                    count(0, info);
                    whole.insert(info.ordinal, *view);
                    brought.held.push(entry);
                    if let Some(mut list) = Unknown::of(lists, info, pieces, None) {
                        if let Some((entry, Contents::Packed(packed))) =
                            cache.take(id, Level::Packed)
                        {
                            list.packed = Some(*packed);
                            brought.held.push(entry);
                        }
                        unknown.push(list);
                    }
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
                    if let Some((entry, at)) = self.admit_packed(&mut cache, id, pieces) {
                        packed = Some(pieces.at(lending.arena.address() + at));
                        came.push((entry, at as usize, some.len()));
                        brought.held.push(entry);
                    }
                }
                unknown.extend(Unknown::of(lists, info, pieces, packed));
                let shift = lists.filter_shift(info);
                let (info, pieces, cuts) = (*info, pieces.clone(), cuts.clone());
                some.push(Wanted { info, pieces, packed, cuts, filter_shift: shift });
            }
            let mut copies: Vec<_> =
                came.iter().map(|&(_, at, i)| (at, some[i].pieces.slices())).collect();
            copies.sort_unstable_by_key(|&(at, _)| at);
            let copied = lending.copy_to_arena(&copies, threads);
            if let Err(error) = copied {
                // The lists never arrived, and no other round has seen them.
                for (entry, ..) in came {
                    brought.held.retain(|held| *held != entry);
                    cache.forget(entry);
                }
                return Err(error);
            }
            came.clear();
            found.wanted.push(some);
            found.kept.push(whole);
            found.unknown.push(unknown);
        }
        self.keep_tiles(&mut cache, brought, &mut found, workspace)?;
        Ok(found)
    }

    /// Makes tiles that stay, of lists that fit into the cache.
    fn keep_tiles(
        &self,
        cache: &mut ListCache<Contents>,
        brought: &mut Brought,
        found: &mut Found<'_>,
        workspace: &mut Workspace,
    ) -> Result<(), ImageError> {
        let lending = &*self.lending;
        let Found { wanted, kept, .. } = found;
        let mut left = MOST_KEPT;
        for (number, lists) in self.segments.iter().enumerate() {
            let docs = lists.within.len() as u32;
            let tiles = docs.div_ceil(1 << self.bits);
            if !lists.can_keep_tiles() {
                continue;
            }
            let (mut temporary, mut made) = (Layout::default(), Vec::new());
            let (failed, totals) = (temporary.add(4), temporary.add(4 * MOST_KEPT as u64));
            for (i, list) in wanted[number].iter().enumerate() {
                let df = list.info.df;
                let raws = 4 * (u64::from(tiles) + 1) + 64;
                let fits = temporary.bytes() + raws <= brought.scratch.memory.len() as u64;
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
            let (words, scratch) = ((failed, totals), &brought.scratch.memory);
            let done = self.make_tiles(lists, &made, words, scratch, workspace);
            if let Err(error) = done {
                // After this, nothing writes to their places any more. After a failure of the
                // device nothing does, so the error is ignored.
                let _ = workspace.stream.synchronize();
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
                    self.needs_logarithm(freq);
                    stream.zero(&failed)?;
                }
            }
        }
    }

    fn valuing(&self, lists: &SegmentLists) -> Result<Valuing, ImageError> {
        let freq = self.largest.load(Ordering::Relaxed) as u32;
        lists.lasting.valuer.of(&self.lending.device, &lists.segment, self.formula, freq)
    }

    /// Cuts the documents into as few slices as memory allows.
    fn cut(&self, wanted: &[Vec<Wanted<'_>>], available: u64) -> Result<Cut, ImageError> {
        Cut::fitting(&self.segments, wanted, self.bits, available).map_err(|asked| {
            let memory = self.lending.device.memory();
            let (used, budget) = (memory.current, memory.budget.is_some());
            DeviceError::OutOfMemory { asked, used, available, budget }.into()
        })
    }

    /// Records that a posting has a frequency without a logarithm on the device.
    fn needs_logarithm(&self, freq: u32) {
        self.largest.fetch_max(u64::from(freq), Ordering::Relaxed);
    }

    /// Returns the segments as kernels see them: slices of one size, and a shorter rest as a
    /// separate image.
    fn images(
        self: &Arc<Self>,
        brought: &Brought,
        wanted: &[Vec<Wanted<'_>>],
        kept: &[FxHashMap<u32, ListView>],
        cut: &Cut,
        workspace: &mut Workspace,
        threads: usize,
    ) -> Result<Vec<SegmentImage>, ImageError> {
        let device = &self.lending.device;
        let scratch = &brought.scratch.memory;
        let (filters, rest) = (scratch.address(), scratch.address() + cut.before);
        let input = workspace.make_input.start();
        let slices = self.segments.iter().enumerate().flat_map(|(number, lists)| {
            lists.slices(1 << cut.level).map(move |cells| (number, cells))
        });
        let slices: Vec<(usize, Range<u32>)> = slices.collect();
        let all: usize = slices.iter().map(|(number, _)| wanted[*number].len()).sum();
        let threads_for = (all / LISTS_OF_A_THREAD).clamp(1, threads.max(1));
        let plans = numbered(
            slices.len(),
            threads_for,
            || Ok(()),
            |i, ()| {
                let (number, cells) = &slices[i];
                let at = (filters, cut.filters as usize);
                self.segments[*number].plan(&wanted[*number], cells, at)
            },
        )?;
        let (mut planned, mut first) = (Vec::with_capacity(slices.len()), None);
        for ((number, cells), plan) in slices.into_iter().zip(plans) {
            let lists = &self.segments[number];
            let docs = lists.docs(&cells);
            let frame = lists.frame(&docs, self.bits);
            // The targets of lists are the same for all slices.
            let tables = match &first {
                Some((owner, first)) if *owner == number => {
                    let elsewhere = (!plan.packed.is_empty()).then_some(&plan.packed[..]);
                    Tables::also(first, input, frame, elsewhere, &plan.units)
                }
                _ => {
                    let target = |(list, place): (&Wanted<'_>, &Place)| {
                        place.target(filters, rest, list.filter_shift)
                    };
                    let targets: Vec<Target> =
                        wanted[number].iter().zip(&cut.places[number]).map(target).collect();
                    Tables::add(input, frame, &plan.packed, &targets, &plan.units)
                }
            };
            if cells.start == 0 {
                first = Some((number, tables.clone()));
            }
            planned.push((number, docs, tables, plan.copies));
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
            for (&ordinal, view) in &mut views {
                view.best = lists.bests.of(ordinal);
            }
            for (list, place) in wanted[number].iter().zip(&cut.places[number]) {
                let view = place.view_in(filters, rest, list.filter_shift);
                let (ordinal, df) = (list.info.ordinal, list.info.df);
                let best = lists.bests.of(ordinal);
                views.insert(ordinal, ListView { count: df, postings: df, best, ..view });
            }
            images.push(SegmentImage::sliced(number, tiles, views, slice));
        }
        Ok(images)
    }
}

/// The work that must be done before kernels can read a slice.
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
    /// Blocks that are copied from main memory, and their offsets in the scratch memory.
    copies: Vec<(usize, TermInfo, Range<u32>)>,
    threads: usize,
    /// Event that is recorded when tiles have been made, so that the memory of compressed blocks
    /// is free.
    made: Arc<Event>,
}

impl Bring {
    /// Copies the blocks that are in main memory, and makes tiles.
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
            // The copy may run while queries read the previous slice.
            lending.copy_to(&self.scratch, &copies, self.threads, Some(&self.made))?;
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
