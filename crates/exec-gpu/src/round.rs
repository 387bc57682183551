//! One round: queries of one mode and formula, from plans to hits, in a fixed small number of
//! launches.
#![allow(unsafe_code)]

mod memory;
mod rough;
mod shared;
mod single;

use std::ops::Range;
use std::sync::Arc;

use warpseek_core::Hit;
use warpseek_exec::{Answer, Mode, Plan};

use crate::engine::GpuEngine;
use crate::image::{
    DeviceMask, ITEM_HITS, ImageError, Item, QueryView, SegmentImage, TermView, largest_value,
    numbered,
};
use crate::limits::TILE_SUM;
use crate::workspace::Workspace;
pub use memory::State;
use memory::{Best, Results};
use rough::saturating_shift;
pub use rough::{histogram_shift, least, rough_shift, rough_weight};
pub(crate) use shared::fitting;
use shared::{SHARED_KEYS, and_bytes, key_bytes, or_bytes, pruned_bytes};
use warpseek_cuda::{Args, Buffer, DeviceError, Grid, Kernel, Stream};

/// Number of postings that cost as much as processing a tile.
const TILE_COST: u64 = 512;

/// Number of times that a batch fills the device, so that short items fill the gaps that long
/// ones leave.
const WAVES: u64 = 4;

/// Minimum number of terms for which OR of a single query reads its postings twice: the
/// thresholds that other windows find save more than that costs.
const TWICE_FROM: usize = 4;

/// Number of queries that are enough work for a host thread.
const QUERIES_OF_A_THREAD: usize = 512;

/// Threads that work on an item.
pub const WARP: u32 = 32;

/// Threads that merge the hits of a query, and the minimum number of keys in their buffer.
const MERGE_THREADS: u32 = 512;
const MERGE_KEYS: u32 = 1024;

/// Maximum number of an item's hits that wait to be merged, unless it finds more at once, and
/// maximum number of launches that find them.
const UNMERGED_HITS: u32 = 1 << 13;
const MOST_UNMERGED: u32 = 8;

/// Threads of a block that advances terms.
const ADVANCE_THREADS: u32 = 256;

/// The launch for one segment.
#[derive(Default)]
struct Launch {
    queries: Vec<QueryView>,
    terms: Vec<TermView>,
    /// Work items, one per block of threads. If empty, the blocks share the windows of the one
    /// query evenly.
    items: Vec<Item>,
    blocks: u32,
    /// Maximum number of sparse terms in a query.
    sparse: u32,
    /// Maximum number of terms in a query.
    most: u32,
}

/// The work of a query in a launch: the number of the query, the number of the launch, tiles, and
/// their cost.
type Cost = (u32, usize, u32, u64);

/// Addresses of the tables that were sent for a launch; 0 for empty tables.
struct Sent {
    queries: u64,
    terms: u64,
    items: u64,
}

/// The kind of kernels that answer a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Kernels that skip documents that cannot become hits.
    Pruned,
    /// Kernels that read every posting, for at most [`FEW_TERMS`](crate::limits::FEW_TERMS)
    /// terms.
    Tiles,
    /// Kernels that read every posting, for any number of terms.
    ManyTerms,
}

/// Answers plans that all have this mode, one formula, and a `kind` that suits them. `threads`
/// host threads prepare the round.
pub fn run(
    engine: &GpuEngine,
    image: &[SegmentImage],
    mode: Mode,
    kind: Kind,
    plans: &[&Plan],
    workspace: &mut Workspace,
    threads: usize,
) -> Result<Vec<Answer>, ImageError> {
    let docs: u64 = image.iter().map(SegmentImage::docs).sum();
    // Kernels keep at least one hit; a plan may request matches only.
    let ks: Vec<u32> = plans.iter().map(|p| (p.k as u64).clamp(1, docs.max(1)) as u32).collect();
    let stride = ks.iter().copied().max().unwrap_or(1);
    let capacity = key_capacity(stride);
    let round = Round::new(engine, plans, &ks, stride, capacity, kind, workspace)?;
    let masks = round.bring_masks()?;
    let mut round = Round { threads, masks, ..round };
    if mode != Mode::Or {
        round.pass(image, Pass::And, false)?;
    }
    if mode != Mode::And {
        // Queries with enough hits keep them: the kernel reads the counts of the first pass on
        // the device.
        round.pass(image, Pass::Or, mode == Mode::AndOr)?;
    }
    Ok(round.answers()?)
}

/// Returns the capacity of the key buffer of a query with `k` hits. Up to 32 keys are held in the
/// lanes of a warp and need no buffer.
pub fn key_capacity(k: u32) -> u32 {
    match k {
        ..=WARP => 0,
        _ => k.saturating_mul(2).min(1 << 31).next_power_of_two(),
    }
}

/// A pass over all segments; AND-then-OR has two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Documents must contain all terms.
    And,
    /// Documents may contain any of the terms.
    Or,
}

/// Returns the number of launches that find hits before their hits are merged.
fn most_unmerged(k: u32) -> usize {
    (UNMERGED_HITS / k.max(1)).clamp(1, MOST_UNMERGED) as usize
}

/// Queries of one mode and formula while they are answered.
pub struct Round<'a> {
    engine: &'a GpuEngine,
    /// The memory and the stream of this round.
    pub workspace: &'a mut Workspace,
    /// The plans to answer.
    pub plans: &'a [&'a Plan],
    /// Number of hits that each plan requests, at least one.
    pub ks: &'a [u32],
    /// The largest k, which is the distance between the hits of queries.
    pub stride: u32,
    /// Capacity of the key buffer of a block of threads.
    pub capacity: u32,
    kind: Kind,
    /// Host threads that prepare the round.
    threads: usize,
    /// The mask of each plan that has one; empty if no plan has a mask.
    masks: Vec<Option<Arc<DeviceMask>>>,
    /// Memory for the results.
    pub results: Results,
}

impl<'a> Round<'a> {
    /// Creates a round with space for `stride` hits per query, the largest of `ks`, and for
    /// `capacity` keys per block of threads.
    pub fn new(
        engine: &'a GpuEngine,
        plans: &'a [&'a Plan],
        ks: &'a [u32],
        stride: u32,
        capacity: u32,
        kind: Kind,
        workspace: &'a mut Workspace,
    ) -> Result<Self, DeviceError> {
        // AND-then-OR reads the counts of hits on the device.
        let counts = plans.iter().any(|plan| plan.count || plan.mode == Mode::AndOr);
        let results = Results::new(engine, workspace, plans.len(), stride, counts)?;
        let (threads, masks) = (1, Vec::new());
        Ok(Round { engine, workspace, plans, ks, stride, capacity, kind, threads, masks, results })
    }

    /// Copies the masks of the plans to the device, where they stay until the round has ended.
    fn bring_masks(&self) -> Result<Vec<Option<Arc<DeviceMask>>>, DeviceError> {
        if self.plans.iter().all(|plan| plan.mask.is_none()) {
            return Ok(Vec::new());
        }
        let engine = self.engine;
        let bring = |plan: &&Plan| {
            let mask = plan.mask.as_ref();
            mask.map(|mask| engine.masks.get(&engine.device, &self.workspace.stream, mask))
                .transpose()
        };
        self.plans.iter().map(bring).collect()
    }

    /// Runs over all segments and merges the hits. With `enough`, it does so only for queries
    /// that lack hits.
    fn pass(&mut self, image: &[SegmentImage], pass: Pass, enough: bool) -> Result<(), ImageError> {
        let (device, stream) = (&self.engine.device, self.workspace.stream.clone());
        let stream = &stream;
        let kernels = &self.engine.kernels;
        let kernel = match pass {
            Pass::Or if self.is_single(image) && self.plans[0].terms.len() >= TWICE_FROM => {
                &kernels.two_pass
            }
            _ if self.is_single(image) => &kernels.single,
            _ if self.is_pruned() && self.stride <= WARP => &kernels.pruned,
            _ if self.is_pruned() => &kernels.any_k,
            Pass::And if self.kind == Kind::ManyTerms => &kernels.and_many,
            Pass::Or if self.kind == Kind::ManyTerms => &kernels.or_many,
            Pass::And => &kernels.and,
            Pass::Or => &kernels.or,
        };
        let span = self.span(image, pass, kernel)?;
        let (launches, slots) = self.launches(image, pass, kernel, span)?;
        let slot_keys =
            self.workspace.slot_keys.take(device, (slots * self.stride as usize).max(1))?;
        let enough = if enough { self.results.counts() } else { 0 };
        if self.is_single(image) && slots > 0 {
            return self.single(image, kernel, span, &launches, enough, &slot_keys);
        }
        let (state, sent) = self.send(&launches)?;
        // Segments differ in terms; the positions of hits are the same.
        let queries = sent.first().map_or(0, |sent| sent.queries);
        let (mut unmerged, mut merged, mut before) = (0, 0, None);
        for ((segment, launch), sent) in image.iter().zip(&launches).zip(&sent) {
            if launch.blocks == 0 {
                continue;
            }
            let keys = self.key_room(launch.blocks, self.capacity)?;
            let shared = self.shared_bytes(segment, pass, launch, span);
            let stays = launch.terms.iter().any(|term| term.stays != 0);
            let mut tile = 0;
            for slice in segment.slices() {
                if let Some(bring) = &slice.bring {
                    bring.run(stream)?;
                }
                if stays && slice.first_tile > tile {
                    self.advance(stream, sent.terms, launch, slice.first_tile - tile)?;
                    tile = slice.first_tile;
                }
                // The first merges come early: each gives all items of a query the threshold of
                // its best hits.
                if unmerged > 0 && unmerged == most_unmerged(self.stride).min(merged.max(1)) {
                    // The best hits so far are not kept with the answers, because those of the
                    // first pass are still needed.
                    let best = Best::room(self.workspace, device, self.plans.len(), self.stride)?;
                    self.merge_to(stream, queries, &state, enough, &slot_keys, before, best)?;
                    stream.zero(&state.found())?;
                    (unmerged, merged, before) = (0, merged + unmerged, Some(best));
                }
                let args = Args::new()
                    .value(slice.view)
                    .value(sent.queries)
                    .value(sent.terms)
                    .value(sent.items)
                    .value(self.results.matches(pass))
                    .buffer(&state.thresholds())
                    .value(enough)
                    .buffer(&slot_keys)
                    .buffer(&state.found())
                    .value(self.stride)
                    .value(keys.as_ref().map_or(0, Buffer::address))
                    .value(self.capacity)
                    .value(self.cursors(launch));
                let args = match self.is_pruned() {
                    true => args.value(span).value(launch.most).buffer(&state.histograms()),
                    false => args.value(span.ilog2()),
                };
                let grid = Grid::new(launch.blocks, WARP).shared(shared);
                // SAFETY: the arguments match the kernel's parameters. Items name queries,
                // queries name terms, and terms name lists of this image, which keeps the memory
                // that their addresses point to alive. Everything that was sent is in one
                // allocation with the state. The buffers are large enough for the hits of all
                // items, and as large for keys and cursors as the arguments say.
                unsafe { stream.launch(kernel, grid, &args) }?;
                unmerged += 1;
            }
        }
        let answers = self.results.best();
        Ok(self.merge_to(stream, queries, &state, enough, &slot_keys, before, answers)?)
    }

    /// Sends everything that kernels read in one copy and returns its addresses for each launch.
    fn send(&mut self, launches: &[Launch]) -> Result<(State, Vec<Sent>), DeviceError> {
        let queries = self.plans.len();
        let input = self.workspace.input.start();
        let mut parts = Vec::with_capacity(launches.len());
        for launch in launches {
            let terms = input.add(&launch.terms);
            parts.push((input.add(&launch.queries), terms, input.add(&launch.items)));
        }
        let state = input.zeros(8 * State::words(queries));
        let input = input.send(&self.engine.device, &self.workspace.stream)?;
        let address = |part: Range<usize>| match part.is_empty() {
            true => 0,
            false => input.slice(part).address(),
        };
        let sent = |(queries, terms, items): (Range<usize>, Range<usize>, Range<usize>)| Sent {
            queries: address(queries),
            terms: address(terms),
            items: address(items),
        };
        let words = input.slice(state).cast();
        Ok((State { queries, words }, parts.into_iter().map(sent).collect()))
    }

    /// Advances the terms to a slice that begins this many tiles later.
    fn advance(
        &self,
        stream: &Stream,
        terms: u64,
        launch: &Launch,
        tiles: u32,
    ) -> Result<(), DeviceError> {
        let count = launch.terms.len() as u32;
        let args = Args::new().value(terms).value(count).value(tiles);
        let args = args.value(self.engine.settings.tile_bits);
        let grid = Grid::new(count.div_ceil(ADVANCE_THREADS), ADVANCE_THREADS);
        // SAFETY: the arguments match the kernel's parameters, and `count` terms were sent.
        unsafe { stream.launch(&self.engine.advance, grid, &args) }
    }

    /// Merges the hits of each query's items. `queries` is the address of the queries, in one
    /// allocation with the state; `enough` is as in the kernels.
    pub fn merge(
        &mut self,
        stream: &Stream,
        queries: u64,
        state: &State,
        enough: u64,
        slot_keys: &Buffer<u64>,
    ) -> Result<(), DeviceError> {
        self.merge_to(stream, queries, state, enough, slot_keys, None, self.results.best())
    }

    /// Merges the hits of each query's items with its best hits `before` and writes the result to
    /// `to`, which may be the same memory.
    #[allow(clippy::too_many_arguments)]
    fn merge_to(
        &mut self,
        stream: &Stream,
        queries: u64,
        state: &State,
        enough: u64,
        slot_keys: &Buffer<u64>,
        before: Option<Best>,
        to: Best,
    ) -> Result<(), DeviceError> {
        let before = before.unwrap_or(Best { keys: 0, counts: 0 });
        let blocks = self.plans.len() as u32;
        let capacity = self.capacity.max(MERGE_KEYS);
        let keys = if capacity <= MERGE_KEYS { None } else { self.key_room(blocks, capacity)? };
        let args = Args::new()
            .value(queries)
            .buffer(&state.thresholds())
            .value(enough)
            .buffer(slot_keys)
            .buffer(&state.found())
            .value(self.stride)
            .value(before.keys)
            .value(before.counts)
            .value(to.keys)
            .value(to.counts)
            .value(keys.as_ref().map_or(0, Buffer::address))
            .value(capacity);
        let shared = if keys.is_none() { 8 * capacity } else { 0 };
        let grid = Grid::new(blocks, MERGE_THREADS).shared(shared);
        // SAFETY: the arguments match the kernel's parameters, and queries say where their hits
        // are.
        unsafe { stream.launch(&self.engine.kernels.merge, grid, &args) }
    }

    /// Prepares the plans for the kernels, with one launch per segment image. Returns the
    /// launches and the number of slots for hits. The items of a query have neighbouring slots.
    fn launches(
        &self,
        image: &[SegmentImage],
        pass: Pass,
        kernel: &Kernel,
        span: u32,
    ) -> Result<(Vec<Launch>, usize), ImageError> {
        // Threads share the queries of a large round.
        let chunks: Vec<Range<usize>> = (0..self.plans.len())
            .step_by(QUERIES_OF_A_THREAD)
            .map(|from| from..(from + QUERIES_OF_A_THREAD).min(self.plans.len()))
            .collect();
        let view = |i: usize, _: &mut ()| self.view(image, pass, kernel, span, chunks[i].clone());
        let views = numbered(chunks.len(), self.threads, || Ok(()), view)?;
        let mut launches: Vec<Launch> = image.iter().map(|_| Launch::default()).collect();
        let mut costs = Vec::with_capacity(self.plans.len() * image.len());
        for (parts, some) in views {
            for (launch, more) in launches.iter_mut().zip(parts) {
                let before = launch.terms.len() as u32;
                launch.terms.extend(more.terms);
                let moved =
                    |query: QueryView| QueryView { first_term: query.first_term + before, ..query };
                launch.queries.extend(more.queries.into_iter().map(moved));
                launch.sparse = launch.sparse.max(more.sparse);
                launch.most = launch.most.max(more.most);
            }
            costs.extend(some);
        }
        let shared = launches.iter().zip(image).map(|(l, s)| self.shared_bytes(s, pass, l, span));
        let resident = self.resident(kernel, shared.max().unwrap_or(0))?;
        let waves = if self.plans.len() == 1 { 1 } else { WAVES };
        // Launches run one after another, so the longest must fill the device. The launches of a
        // single query fill it together.
        let mut totals = vec![0; image.len()];
        costs.iter().for_each(|&(_, number, _, cost)| totals[number] += cost);
        let total = match self.is_single(image) {
            true => totals.iter().sum(),
            false => totals.iter().copied().max().unwrap_or(0),
        };
        let parts_of = |share: u64, tiles: u32, cost: u64| {
            cost.div_ceil(share).clamp(1, u64::from(tiles)) as u32
        };
        let parts_by = |share: u64| -> u64 {
            costs.iter().map(|&(.., tiles, cost)| u64::from(parts_of(share, tiles, cost))).sum()
        };
        let mut share = (total / (resident * waves)).max(1);
        // If lists are loaded on demand, memory for hits was reserved for this many items of a
        // query.
        let on_demand = image.iter().any(|segment| segment.slices().len() > 1);
        let most_parts = ITEM_HITS / u64::from(MOST_UNMERGED) * costs.len() as u64;
        while on_demand && parts_by(share) > most_parts {
            share += share.div_ceil(4);
        }
        // For each query: the parts in all launches, and the most parts in one launch.
        let (mut all, mut widest) = (vec![0; self.plans.len()], vec![0; self.plans.len()]);
        for &(query, number, tiles, cost) in &costs {
            let parts = parts_of(share, tiles, cost);
            all[query as usize] += parts * image[number].slices().len() as u32;
            widest[query as usize] = parts.max(widest[query as usize]);
            launches[number].blocks += parts;
            if self.is_single(image) {
                continue;
            }
            for part in 0..parts {
                let edge =
                    |part: u32| (u64::from(tiles) * u64::from(part) / u64::from(parts)) as u32;
                let (begin, end) = (edge(part), edge(part + 1));
                launches[number].items.push(Item { query, begin, end, unused: 0 });
            }
        }
        // Hits are merged before there are too many, except for those of a single query.
        let most = if self.is_single(image) { u32::MAX } else { most_unmerged(self.stride) as u32 };
        let slots =
            all.iter().zip(&widest).map(|(&all, &widest)| most.saturating_mul(widest).min(all));
        let slots: Vec<u32> = slots.collect();
        for launch in &mut launches {
            let mut first_slot = 0;
            for (query, slots) in launch.queries.iter_mut().zip(&slots) {
                query.first_slot = first_slot;
                first_slot += slots;
            }
        }
        if self.plans.len() > 1 {
            for (number, launch) in launches.iter_mut().enumerate() {
                // The longest items first.
                let mut costs_per_tile = vec![0; self.plans.len()];
                for &(query, at, tiles, cost) in &costs {
                    if at == number {
                        costs_per_tile[query as usize] = cost / u64::from(tiles);
                    }
                }
                let cost = |i: &Item| costs_per_tile[i.query as usize] * u64::from(i.end - i.begin);
                launch.items.sort_by_cached_key(|item| std::cmp::Reverse(cost(item)));
            }
        }
        Ok((launches, slots.into_iter().map(|slots| slots as usize).sum()))
    }

    /// Prepares some queries for the kernels. Returns them by launch, with the costs of those
    /// that have work there.
    fn view(
        &self,
        image: &[SegmentImage],
        pass: Pass,
        kernel: &Kernel,
        span: u32,
        queries: Range<usize>,
    ) -> Result<(Vec<Launch>, Vec<Cost>), ImageError> {
        let mut launches: Vec<Launch> = image.iter().map(|_| Launch::default()).collect();
        let mut costs = Vec::new();
        let most_value = self.plans.first().map_or(1.0, |plan| largest_value(plan.formulas.of(0)));
        let shift = |plan: &&Plan| match self.kind {
            // These kernels use bounds in whole units.
            Kind::Pruned => Ok(0),
            Kind::ManyTerms => Ok(saturating_shift(TILE_SUM)),
            Kind::Tiles => rough_shift(plan, most_value, TILE_SUM).ok_or_else(|| too_many(kernel)),
        };
        let all_tiles: Vec<u64> = image.iter().map(|segment| all_tiles(image, segment)).collect();
        for q in queries {
            let (plan, k) = (&self.plans[q], self.ks[q]);
            let (shift, least) = (shift(plan)?, least(image, plan, k, pass));
            let mask = self.masks.get(q).and_then(Option::as_ref);
            for (number, (segment, launch)) in image.iter().zip(&mut launches).enumerate() {
                let first_term = launch.terms.len();
                let lists = plan.terms.iter().filter_map(|term| {
                    let info = term.lists[segment.number()].as_ref()?;
                    Some(TermView { most: term.most, ..segment.term(info, term.weight)? })
                });
                launch.terms.extend(lists);
                let terms = &mut launch.terms[first_term..];
                for term in terms.iter_mut() {
                    term.rough_weight = rough_weight(term.weight, most_value, shift);
                    term.whole_weight = rough_weight(term.weight, most_value, 0);
                    term.rough_per_unit = 65536.0 / term.whole_weight as f32 * (1.0 - 1e-6);
                }
                // Sparse lists first, and the shortest first, as AND requires.
                terms.sort_by_key(|term| (term.starts != 0, term.count));
                let lacks =
                    pass == Pass::And && (terms.len() < plan.terms.len() || plan.lacks_terms());
                let sparse = terms.iter().filter(|term| term.starts == 0).count() as u32;
                let postings: u64 = terms.iter().map(|term| u64::from(term.count)).sum();
                let (first_term, terms) = (first_term as u32, terms.len() as u32);
                let static_weight = plan.static_weight;
                let tiles = segment.tiles().div_ceil(span);
                let static_most = plan.static_score(self.engine.max_static);
                let low = (least >> 32) as u32;
                launch.sparse = launch.sparse.max(sparse);
                launch.most = launch.most.max(terms);
                launch.queries.push(QueryView {
                    first_term,
                    sparse,
                    terms,
                    k,
                    least,
                    static_weight,
                    static_most,
                    first_slot: 0,
                    count: u32::from(plan.count),
                    rough_shift: shift,
                    all: u32::from(pass == Pass::And),
                    low,
                    low_shift: histogram_shift(plan, low, static_most),
                    mask: mask.map_or(0, |mask| mask.address(segment.number())),
                });
                // A segment may contain none of the engine's documents.
                if !lacks && terms > 0 && tiles > 0 {
                    // The lists are those of the whole segment, but the launch covers only a
                    // slice of its documents.
                    let here = postings * u64::from(segment.tiles()) / all_tiles[number];
                    let cost = here + u64::from(tiles) * TILE_COST;
                    costs.push((q as u32, number, tiles, cost));
                }
            }
        }
        Ok((launches, costs))
    }

    fn is_pruned(&self) -> bool {
        self.kind == Kind::Pruned
    }

    /// Returns the number of sparse terms that have cursors in shared memory.
    fn cursors(&self, launch: &Launch) -> u32 {
        if self.kind == Kind::ManyTerms { 0 } else { launch.sparse }
    }

    fn shared_bytes(&self, segment: &SegmentImage, pass: Pass, launch: &Launch, span: u32) -> u32 {
        let docs = span << segment.view().bits;
        let bytes = match pass {
            _ if self.is_pruned() => pruned_bytes(launch.most, launch.sparse),
            Pass::Or => or_bytes(docs, self.cursors(launch)),
            Pass::And => and_bytes(docs, self.cursors(launch)),
        };
        bytes + key_bytes(self.capacity)
    }

    /// Returns the number of blocks that the device runs at once, each with this much shared
    /// memory.
    fn resident(&self, kernel: &Kernel, shared: u32) -> Result<u64, DeviceError> {
        let each = kernel.blocks_per_multiprocessor(WARP, shared)?.max(1);
        Ok(u64::from(each) * u64::from(self.engine.device.info().multiprocessors))
    }

    /// Returns the number of tiles that a warp processes at once.
    fn span(
        &self,
        image: &[SegmentImage],
        pass: Pass,
        kernel: &Kernel,
    ) -> Result<u32, DeviceError> {
        let settings = &self.engine.settings;
        let (Some(segment), true) = (image.first(), self.is_pruned()) else {
            let bits = if pass == Pass::Or { settings.or_bits } else { settings.and_bits };
            return Ok(1 << bits.saturating_sub(settings.tile_bits));
        };
        // At most as many as 15 bits can number. With few queries, there must be enough windows
        // for all the warps that the device can run.
        let tiles: u64 = image.iter().map(|segment| u64::from(segment.tiles())).sum();
        let most = self.plans.iter().map(|plan| plan.terms.len()).max().unwrap_or(0) as u32;
        let all = Launch { most, sparse: most, ..Launch::default() };
        let resident = self.resident(kernel, self.shared_bytes(segment, pass, &all, 1))?;
        let even = (tiles * self.plans.len() as u64).div_ceil(resident);
        Ok(even.clamp(1, u64::from(WARP.min(1 << (15 - settings.tile_bits)))) as u32)
    }

    /// Returns a buffer for the keys of this many blocks, or `None` if the keys are in shared
    /// memory.
    fn key_room(&mut self, blocks: u32, capacity: u32) -> Result<Option<Buffer<u64>>, DeviceError> {
        if capacity <= SHARED_KEYS {
            return Ok(None);
        }
        let room = blocks as usize * capacity as usize;
        Ok(Some(self.workspace.block_keys.take(&self.engine.device, room)?))
    }

    /// Waits for the results and returns the answers, in the order of the plans.
    pub fn answers(self) -> Result<Vec<Answer>, DeviceError> {
        let n = self.plans.len();
        let words = self.results.receive(&self.engine.device, self.workspace)?;
        let (or, words) = words.split_at(n);
        let (and, words) = words.split_at(n);
        let (counts, keys) = words.split_at(n.div_ceil(2));
        let counts: &[u32] = bytemuck::cast_slice(counts);
        let answer = |i: usize| {
            let from = i * self.stride as usize;
            let keys = &keys[from..from + counts[i] as usize];
            let hits = keys.iter().map(|&key| Hit::from_key(key)).take(self.plans[i].k).collect();
            // If the first pass, with AND, found enough hits, there was no second.
            let all = self.plans[i].mode == Mode::And
                || self.plans[i].mode == Mode::AndOr
                    && (and[i] >= u64::from(self.ks[i]) || self.plans[i].k == 0);
            let matches = self.plans[i].count.then_some(if all { and[i] } else { or[i] });
            Answer { hits, matches, ..Answer::default() }
        };
        Ok((0..n).map(answer).collect())
    }
}

/// Returns the number of tiles of a segment in all slices, at least one. A shorter slice at the
/// end is a separate image.
fn all_tiles(image: &[SegmentImage], segment: &SegmentImage) -> u64 {
    let images = image.iter().filter(|other| other.number() == segment.number());
    let tiles = images.map(|other| u64::from(other.tiles()) * other.slices().len() as u64);
    tiles.sum::<u64>().max(1)
}

/// Returns an error that cannot occur: queries with so many terms use other kernels.
fn too_many(kernel: &Kernel) -> DeviceError {
    let problem = "its 16-bit sums overflow with this many terms".to_owned();
    DeviceError::Launch { kernel: kernel.name().to_owned(), problem }
}
