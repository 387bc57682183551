//! Lists of an index that does not fit on the device as tiles: each round makes tiles of the
//! lists that it uses.
//!
//! A list is in one of three places: on the device as tiles, on the device compressed, or in main
//! memory. [`ListCache`] decides which lists stay on the device. The other lists that a round
//! uses are copied for it. If they do not fit for all documents, the round processes one *slice*
//! of the documents at a time. In a slice every list is dense, and it has the same address in
//! every slice, so that the queries are sent once.

mod best_values;
mod by_formula;
mod cut;
mod hurry;
mod images;
mod learn;
mod lists;
mod lookup;
mod memory;
mod preparation;
mod round_lists;
mod rounds;
mod scratch;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustc_hash::FxHashSet;
use warpseek_exec::{Formula, Plan};
use warpseek_index::{IndexError, Segment, Snapshot, TermInfo};

use super::cache::{Level, ListCache, ListId};
use super::error::ImageError;
use super::key::SegmentKey;
use super::packed::Pieces;
use super::segment::infos;
use super::send::ranges;
use super::valuer::Valuing;
use crate::kernels::make_tiles::MakeKernels;
use crate::loading::Loading;
use crate::workspace::Workspace;
use best_values::BestValues;
pub(crate) use by_formula::OnDemandByFormula;
pub(crate) use hurry::Hurry;
use lists::SegmentLists;
use lookup::FoundLists;
pub use memory::CacheCounts;
use memory::Contents;
pub(crate) use memory::{ListMemory, MemoryNeeds};
pub(crate) use preparation::SlicePreparation;
use round_lists::RoundLists;
pub(crate) use rounds::{IN_FLIGHT, ITEM_HITS};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lists of a snapshot by one formula, which are loaded when rounds need them.
pub(crate) struct OnDemand {
    memory: Arc<ListMemory>,
    kernels: Arc<MakeKernels>,
    segments: Vec<Arc<SegmentLists>>,
    bits: u32,
    formula: Formula,
    /// The formula's number.
    number: u32,
    /// Largest frequency for which a logarithm was needed.
    largest: AtomicU64,
}

impl OnDemand {
    /// Creates the lists of a snapshot, of which the device answers for the documents `within`
    /// each segment.
    pub(crate) fn new(
        memory: Arc<ListMemory>,
        kernels: Arc<MakeKernels>,
        snapshot: &Snapshot,
        within: impl Fn(&Segment) -> Range<u32>,
        bits: u32,
        formula: Formula,
    ) -> Result<Self, ImageError> {
        let lists = |segment: &Arc<Segment>| {
            let within = within(segment);
            let key = SegmentKey::new(segment, within.clone(), bits);
            let (slot, tables) = memory.segment(segment, key)?;
            let documents = tables.documents.of(&memory.device, segment, within.clone())?;
            let deleted = segment.deletes().map(|deletes| deletes.docs.clone());
            let bests = memory.bests(slot, BestValues::new(formula, deleted));
            let (bits, tables) = ((bits, memory.cells), (slot, tables));
            Ok(Arc::new(SegmentLists::new(segment, within, bits, tables, documents, bests)))
        };
        let segments =
            snapshot.segments().iter().map(lists).collect::<Result<Vec<_>, ImageError>>()?;
        let number = memory.formula(formula);
        let largest = AtomicU64::new(0);
        Ok(OnDemand { memory, kernels, segments, bits, formula, number, largest })
    }

    /// Returns the memory for the lists, which engines share.
    pub(crate) fn memory(&self) -> &Arc<ListMemory> {
        &self.memory
    }

    /// Copies all lists to the device, compressed, if they all fit there.
    pub(crate) fn preload(&self, threads: usize, loading: &Loading) -> Result<(), ImageError> {
        let memory = &*self.memory;
        let bodies = self.segments.iter().map(|lists| lists.segment.postings_file().body_len());
        if bodies.sum::<u64>() > lock(&memory.cache).bytes().1 {
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
        let memory = &*self.memory;
        let pieces = infos.iter().map(|info| Pieces::of(&lists.segment, info));
        let pieces = pieces.collect::<Result<Vec<_>, IndexError>>()?;
        let mut cache = lock(&memory.cache);
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
        let copied = memory.copy_to_arena(&copies, threads, None);
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

    /// Returns the number of bytes that would have to be copied for plans by a formula, and the
    /// number of postings of which tiles would have to be made.
    pub(crate) fn missing(&self, plans: &[&Plan], formula: Formula) -> (u64, u64) {
        self.missing_from(&lock(&self.memory.cache), plans, formula)
    }

    /// Returns what [`OnDemand::missing`] does, or `None` instead of waiting for another round.
    pub(crate) fn try_missing(&self, plans: &[&Plan], formula: Formula) -> Option<(u64, u64)> {
        Some(self.missing_from(&*self.memory.cache.try_lock().ok()?, plans, formula))
    }

    fn missing_from(
        &self,
        cache: &ListCache<Contents>,
        plans: &[&Plan],
        formula: Formula,
    ) -> (u64, u64) {
        let infos = self.infos(plans);
        let number = self.memory.known_formula(formula);
        let (mut bytes, mut postings) = (0, 0);
        for (info, is_packed) in self.without_tiles(cache, &infos, number) {
            postings += u64::from(info.df);
            if !is_packed {
                bytes += info.len;
            }
        }
        (bytes, postings)
    }

    /// Returns the lists, by segment, that are not on the device as tiles by the formula with this
    /// number, and whether they are there compressed.
    fn without_tiles<'a>(
        &'a self,
        cache: &'a ListCache<Contents>,
        infos: &'a [Vec<TermInfo>],
        formula: Option<u32>,
    ) -> impl Iterator<Item = (&'a TermInfo, bool)> {
        self.segments.iter().zip(infos).flat_map(move |(lists, infos)| {
            infos.iter().filter_map(move |info| {
                let id = ListId { segment: lists.slot, ordinal: info.ordinal };
                let is_tiles = formula.is_some_and(|number| cache.has(id, Level::Tiles(number)));
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
        let number = self.memory.known_formula(plan.formulas.of(0));
        let Ok(cache) = self.memory.cache.try_lock() else {
            let part = f32::from_bits(self.memory.absent_part.load(Ordering::Relaxed));
            return (all as f64 * f64::from(part)) as u64;
        };
        let away = self.without_tiles(&cache, &infos, number).filter(|(_, is_packed)| !is_packed);
        let absent: u64 = away.map(|(info, _)| u64::from(info.df)).sum();
        drop(cache);
        let part = absent as f32 / all.max(1) as f32;
        self.memory.absent_part.store(part.to_bits(), Ordering::Relaxed);
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
    /// device are copied when the round reaches their slice. A round that may have to stop is in a
    /// `hurry`: it has smaller slices, and fails with [`ImageError::Stopped`] when time is up.
    pub(crate) fn provide(
        self: &Arc<Self>,
        plans: &[&Plan],
        workspace: &mut Workspace,
        threads: usize,
        large: bool,
        hurry: Option<Hurry<'_>>,
    ) -> Result<RoundLists, ImageError> {
        let memory = &*self.memory;
        let infos = self.infos(plans);
        let failed = workspace.failed.take(&memory.device, 1)?;
        workspace.stream.zero(&failed)?;
        let start = Instant::now();
        let mut round = RoundLists {
            images: Vec::new(),
            failed,
            on_demand: self.clone(),
            infos,
            held: Vec::new(),
            scratch: memory.scratch.take(large, hurry)?,
            stream: workspace.stream.clone(),
            ended: false,
        };
        let FoundLists { untiled, kept, unranked } =
            self.look_up(&mut round, workspace, (threads, start), hurry)?;
        // A round that may have to stop does not use best values (`round/pieces.rs`).
        let learns = self.segments.iter().zip(unranked).filter(|_| hurry.is_none());
        for (lists, unranked) in learns {
            self.learn(lists, unranked, &round.scratch.memory, workspace, threads)?;
        }
        let postings = hurry.map_or(u64::MAX, |hurry| hurry.slice_postings());
        let cut = self.cut(&untiled, memory.scratch.bytes(large), postings)?;
        memory.rounds.fetch_add(1, Ordering::Relaxed);
        round.images = self.images(&round, (&untiled, &kept), &cut, workspace, threads, hurry)?;
        let slices: usize = round.images.iter().map(|image| image.slices().len()).sum();
        memory.slices.fetch_add(slices as u64, Ordering::Relaxed);
        Ok(round)
    }

    fn valuing(&self, lists: &SegmentLists) -> Result<Valuing, ImageError> {
        let freq = self.largest.load(Ordering::Relaxed) as u32;
        lists.tables.valuer.of(&self.memory.device, &lists.segment, self.formula, freq)
    }

    /// Records that a posting has a frequency without a logarithm on the device.
    fn needs_logarithm(&self, freq: u32) {
        self.largest.fetch_max(u64::from(freq), Ordering::Relaxed);
    }
}
