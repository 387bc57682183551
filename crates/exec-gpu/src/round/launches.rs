//! The preparation of plans for kernels: their terms, and the division of their work into items.

use std::ops::Range;

use warpseek_cuda::{DeviceError, Kernel};
use warpseek_exec::Plan;

use super::rough::{histogram_shift, rough_shift, rough_weight, saturating_shift};
use super::{Kind, Pass, Round};
use crate::image::{
    ITEM_HITS, ImageError, Item, QueryView, SegmentImage, TermView, largest_value, numbered,
};
use crate::limits::TILE_SUM;

/// Number of postings that cost as much as processing a tile.
const TILE_COST: u64 = 512;

/// Number of times that a batch fills the device, so that short items fill the gaps that long
/// ones leave.
const WAVES: u64 = 4;

/// Number of queries that are enough work for a host thread.
const QUERIES_OF_A_THREAD: usize = 512;

/// Maximum number of an item's hits that wait to be merged, unless it finds more at once, and
/// maximum number of launches that find them.
const UNMERGED_HITS: u32 = 1 << 13;
const MOST_UNMERGED: u32 = 8;

/// The launch for one segment.
#[derive(Default)]
pub(super) struct Launch {
    pub(super) queries: Vec<QueryView>,
    pub(super) terms: Vec<TermView>,
    /// Work items, one per block of threads. If empty, the blocks share the windows of the one
    /// query evenly.
    pub(super) items: Vec<Item>,
    pub(super) blocks: u32,
    /// Maximum number of sparse terms in a query.
    pub(super) sparse: u32,
    /// Maximum number of terms in a query.
    pub(super) most: u32,
    /// Windows of a slice, the cost of all queries there, and windows of the piece that the items
    /// share, if the round may have to stop.
    pub(super) windows: u32,
    pub(super) cost: u64,
    pub(super) piece: u32,
}

/// The work of a query in a launch: the number of the query, the number of the launch, tiles, and
/// their cost.
pub(super) type Cost = (u32, usize, u32, u64);

/// Returns the number of launches that find hits before their hits are merged.
pub(super) fn most_unmerged(k: u32) -> usize {
    (UNMERGED_HITS / k.max(1)).clamp(1, MOST_UNMERGED) as usize
}

impl Round<'_> {
    /// Prepares the plans for the kernels, with one launch per segment image. Returns the
    /// launches and the number of slots for hits. The items of a query have neighbouring slots.
    pub(super) fn launches(
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
        let view = |i: usize, _: &mut ()| match self.pace {
            Some(pace) if pace.is_over() => Err(ImageError::Stopped),
            _ => self.view(image, pass, kernel, span, chunks[i].clone()),
        };
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
        if let Some(pace) = &self.pace {
            pace.shorten(image, &mut costs, &mut launches);
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
        let most = if self.is_single(image) { u32::MAX } else { self.unmerged() as u32 };
        let slots = all.iter().zip(&widest).map(|(&all, &widest)| {
            // The number of pieces is not known.
            let most = most.saturating_mul(widest);
            if self.pace.is_some() { most } else { most.min(all) }
        });
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
            let (shift, least) = (shift(plan)?, self.least(image, q, pass));
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
                let static_most = plan.static_score(self.setup.max_static);
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
