//! One round: queries of one mode and formula, from plans to hits.
#![allow(unsafe_code)]

use warpseek_core::Hit;
use warpseek_exec::{Answer, Mode, Plan, Work};

use crate::device::{Args, Buffer, DeviceError, Grid};
use crate::engine::GpuEngine;
use crate::image::{Item, QueryView, SegmentImage, TermView};

/// Postings that looking at a tile costs as much as.
const TILE_COST: u64 = 512;

/// Blocks of threads that a multiprocessor should get in a round, so that long ones find short ones to fill up.
const BLOCKS_EACH: u64 = 16;

/// Keys that fit shared memory beside sums; with more they go to global memory.
const SHARED_KEYS: u32 = 4096;

/// What runs over one segment.
#[derive(Default)]
struct Launch {
    queries: Vec<QueryView>,
    terms: Vec<TermView>,
    items: Vec<Item>,
    /// Most sparse terms of a query.
    sparse: u32,
}

/// Answers the plans; `mode` and the formula are theirs.
pub(crate) fn run(
    engine: &GpuEngine,
    image: &[SegmentImage],
    mode: Mode,
    plans: &[&Plan],
) -> Result<Vec<Answer>, DeviceError> {
    let docs: u64 = image.iter().map(|segment| u64::from(segment.view().docs)).sum();
    let ks: Vec<u32> = plans.iter().map(|plan| (plan.k as u64).min(docs) as u32).collect();
    let Some(most) = ks.iter().copied().max().filter(|&k| k > 0) else {
        return Ok(vec![Answer::default(); plans.len()]);
    };
    let mut round = Round::new(engine, plans, &ks, most)?;
    if mode != Mode::Or {
        round.pass(image, Pass::And, None)?;
    }
    if mode == Mode::AndOr {
        // Those with enough hits keep them: the counts of the first pass say so on the device.
        let enough = round.counts.clone();
        round.all_matches =
            Some(std::mem::replace(&mut round.matches, engine.device.buffer(plans.len())?));
        round.pass(image, Pass::Or, Some(&enough))?;
    } else if mode == Mode::Or {
        round.pass(image, Pass::Or, None)?;
    }
    round.answers()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    And,
    Or,
}

struct Round<'a> {
    engine: &'a GpuEngine,
    plans: &'a [&'a Plan],
    ks: &'a [u32],
    /// The largest k, and how far apart the hits of queries lie.
    stride: u32,
    capacity: u32,
    keys: Buffer<u64>,
    counts: Buffer<u32>,
    matches: Buffer<u64>,
    /// Of a first pass with AND.
    all_matches: Option<Buffer<u64>>,
}

impl<'a> Round<'a> {
    fn new(
        engine: &'a GpuEngine,
        plans: &'a [&'a Plan],
        ks: &'a [u32],
        stride: u32,
    ) -> Result<Self, DeviceError> {
        let device = &engine.device;
        let capacity = stride.saturating_mul(2).next_power_of_two().max(engine.settings.buffer);
        let (keys, counts) =
            (device.buffer(plans.len() * stride as usize)?, device.buffer(plans.len())?);
        let matches = device.buffer(plans.len())?;
        engine.stream.zero(&counts)?;
        Ok(Round { engine, plans, ks, stride, capacity, keys, counts, matches, all_matches: None })
    }

    /// Runs over all segments, and merges.
    fn pass(
        &mut self,
        image: &[SegmentImage],
        pass: Pass,
        enough: Option<&Buffer<u32>>,
    ) -> Result<(), DeviceError> {
        let (device, stream) = (&self.engine.device, &self.engine.stream);
        let launches = self.launches(image, pass);
        let slots: usize = launches.iter().map(|launch| launch.items.len()).sum();
        let slot_keys = device.buffer::<u64>((slots * self.stride as usize).max(1))?;
        let slot_counts = device.buffer::<u32>(slots.max(1))?;
        let thresholds = device.buffer::<u64>(self.plans.len())?;
        stream.zero(&thresholds)?;
        stream.zero(&self.matches)?;
        let out = Out { keys: &slot_keys, counts: &slot_counts, thresholds: &thresholds };
        for (segment, launch) in image.iter().zip(&launches) {
            self.launch(segment, launch, pass, enough, &out)?;
        }
        self.merge(&slots_of(&launches, self.ks), enough, &out)
    }

    /// Plans as kernels want them, a launch a segment. Items of a query stand in neighbouring slots.
    fn launches(&self, image: &[SegmentImage], pass: Pass) -> Vec<Launch> {
        let mut launches: Vec<Launch> = image.iter().map(|_| Launch::default()).collect();
        let mut costs = Vec::new();
        for (q, (plan, &k)) in self.plans.iter().zip(self.ks).enumerate() {
            for (number, (segment, launch)) in image.iter().zip(&mut launches).enumerate() {
                let first_term = launch.terms.len();
                let lists = plan.terms.iter().filter_map(|term| {
                    let info = term.lists[number].as_ref()?;
                    Some(segment.term(info, term.weight))
                });
                launch.terms.extend(lists);
                let terms = &mut launch.terms[first_term..];
                // Sparse ones first, and so the shortest first, as AND wants them.
                terms.sort_by_key(|term| (term.starts != 0, term.count));
                let lacks =
                    pass == Pass::And && (terms.len() < plan.terms.len() || plan.lacks_terms());
                let sparse = terms.iter().filter(|term| term.starts == 0).count() as u32;
                let (first_term, count) = (first_term as u32, terms.len() as u32);
                let postings: u64 = terms.iter().map(|term| u64::from(term.count)).sum();
                let static_weight = plan.static_weight;
                let view = QueryView {
                    first_term,
                    sparse,
                    terms: count,
                    k,
                    least: 0,
                    static_weight,
                    first_slot: 0,
                };
                launch.sparse = launch.sparse.max(sparse);
                launch.queries.push(view);
                if !lacks && count > 0 {
                    let cost = postings + u64::from(segment.tiles()) * TILE_COST;
                    costs.push((q as u32, number, segment.tiles(), cost));
                }
            }
        }
        let total: u64 = costs.iter().map(|&(.., cost)| cost).sum();
        let blocks = u64::from(self.engine.device.info().multiprocessors) * BLOCKS_EACH;
        let share = (total / blocks).max(1);
        let mut slot = 0;
        for (query, number, tiles, cost) in costs {
            let parts = cost.div_ceil(share).clamp(1, u64::from(tiles)) as u32;
            for part in 0..parts {
                let edge =
                    |part: u32| (u64::from(tiles) * u64::from(part) / u64::from(parts)) as u32;
                let (begin, end) = (edge(part), edge(part + 1));
                launches[number].items.push(Item { query, begin, end, slot });
                slot += 1;
            }
        }
        launches
    }

    fn launch(
        &self,
        segment: &SegmentImage,
        launch: &Launch,
        pass: Pass,
        enough: Option<&Buffer<u32>>,
        out: &Out<'_>,
    ) -> Result<(), DeviceError> {
        if launch.items.is_empty() {
            return Ok(());
        }
        let (device, stream) = (&self.engine.device, &self.engine.stream);
        let queries = device.upload(stream, &launch.queries)?;
        let terms = device.upload(stream, &launch.terms)?;
        let items = device.upload(stream, &launch.items)?;
        let blocks = launch.items.len() as u32;
        let (keys, key_bytes) = self.key_room(blocks)?;
        let tile = 1u32 << segment.view().bits;
        let args = Args::new().value(segment.view()).buffer(&queries).buffer(&terms).buffer(&items);
        let threads = self.engine.settings.threads;
        match pass {
            Pass::Or => {
                let cursors = launch.sparse.next_multiple_of(4);
                let args = args
                    .value([self.matches.address(), out.thresholds.address()])
                    .value(enough.map_or(0, Buffer::address))
                    .buffer(out.keys)
                    .buffer(out.counts)
                    .value(self.stride)
                    .value(keys.as_ref().map_or(0, Buffer::address))
                    .value(self.capacity)
                    .value(cursors);
                let shared = 4 * (tile + 4 + cursors) + key_bytes;
                let grid = Grid::new(blocks, threads).shared(shared);
                // SAFETY: the arguments are the kernel's; items name queries, queries terms, terms lists of this image, whose addresses it keeps;
                // there are as many slots as items.
                unsafe { stream.launch(&self.engine.kernels.or, grid, &args) }?;
            }
            Pass::And => {
                let cursors = device.buffer::<u32>((blocks * launch.sparse).max(1) as usize)?;
                let args = args
                    .buffer(&self.matches)
                    .buffer(out.thresholds)
                    .buffer(out.keys)
                    .buffer(out.counts)
                    .value(self.stride)
                    .value(keys.as_ref().map_or(0, Buffer::address))
                    .value(self.capacity)
                    .buffer(&cursors)
                    .value(launch.sparse);
                let words = (3 * tile.div_ceil(32)).next_multiple_of(2);
                let grid = Grid::new(blocks, threads).shared(4 * (tile + words) + key_bytes);
                // SAFETY: as above; every block has as many cursors as a query has sparse terms at most.
                unsafe { stream.launch(&self.engine.kernels.and, grid, &args) }?;
            }
        }
        // What the launch uses must not go before it has ended.
        stream.synchronize()
    }

    /// Room for the keys of so many blocks: in global memory, or the bytes of shared memory that each needs.
    fn key_room(&self, blocks: u32) -> Result<(Option<Buffer<u64>>, u32), DeviceError> {
        if self.capacity <= SHARED_KEYS {
            return Ok((None, 8 * self.capacity));
        }
        let keys = self.engine.device.buffer(blocks as usize * self.capacity as usize)?;
        Ok((Some(keys), 0))
    }

    fn merge(
        &self,
        queries: &[QueryView],
        enough: Option<&Buffer<u32>>,
        out: &Out<'_>,
    ) -> Result<(), DeviceError> {
        let stream = &self.engine.stream;
        let blocks = self.plans.len() as u32;
        let queries = self.engine.device.upload(stream, queries)?;
        let (keys, key_bytes) = self.key_room(blocks)?;
        let args = Args::new()
            .buffer(&queries)
            .buffer(out.thresholds)
            .value(enough.map_or(0, Buffer::address))
            .buffer(out.keys)
            .buffer(out.counts)
            .value(self.stride)
            .buffer(&self.keys)
            .buffer(&self.counts)
            .value(keys.as_ref().map_or(0, Buffer::address))
            .value(self.capacity);
        let grid = Grid::new(blocks, self.engine.settings.threads).shared(key_bytes);
        // SAFETY: the arguments are the kernel's; queries name slots that there are.
        unsafe { stream.launch(&self.engine.kernels.merge, grid, &args) }?;
        stream.synchronize()
    }

    fn answers(&self) -> Result<Vec<Answer>, DeviceError> {
        let stream = &self.engine.stream;
        let (keys, counts) = (stream.download(&self.keys)?, stream.download(&self.counts)?);
        let mut matches = stream.download(&self.matches)?;
        if let Some(all) = &self.all_matches {
            let all = stream.download(all)?.into_iter().zip(self.ks);
            for (matches, (all, &k)) in matches.iter_mut().zip(all) {
                if all >= u64::from(k) {
                    *matches = all;
                }
            }
        }
        let answer = |(i, &count): (usize, &u32)| {
            let from = i * self.stride as usize;
            let keys = &keys[from..from + count as usize];
            let hits = keys.iter().map(|&key| Hit::from_key(key)).collect();
            Answer { hits, matches: Some(matches[i]), work: Work::default() }
        };
        Ok(counts.iter().enumerate().map(answer).collect())
    }
}

/// Where items leave what they find.
struct Out<'a> {
    keys: &'a Buffer<u64>,
    counts: &'a Buffer<u32>,
    thresholds: &'a Buffer<u64>,
}

/// For each query its first slot and k, and one more for the end.
fn slots_of(launches: &[Launch], ks: &[u32]) -> Vec<QueryView> {
    let mut slots = vec![0u32; ks.len() + 1];
    for item in launches.iter().flat_map(|launch| &launch.items) {
        slots[item.query as usize + 1] += 1;
    }
    let mut first_slot = 0;
    let ks = ks.iter().copied().chain([0]);
    slots
        .iter()
        .zip(ks)
        .map(|(&before, k)| {
            first_slot += before;
            QueryView { k, first_slot, ..QueryView::default() }
        })
        .collect()
}
