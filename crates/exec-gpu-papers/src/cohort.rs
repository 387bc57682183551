//! Cohorts (Agrawal 2016, sections 3.2 and 3.3.2): the queries of a batch as a sparse matrix
//! times the documents of a segment. The product is never written to memory: it exists in shared
//! memory, for one microtile of documents and one group of queries at a time, and only the best
//! hits are written.
//!
//! The host cuts a shard (the segment) into tiles, and a tile into subtiles. A subtile and a
//! group of queries make an item, which a warp processes microtile by microtile. All groups
//! process one tile before the next begins, so that what they read of it stays in the cache. For
//! dense lists, the image already says where a list enters a microtile (`starts`); for sparse
//! lists, the device searches once per item and continues from there.
#![allow(unsafe_code)]

mod matrix;

use std::sync::Arc;

use warpseek_exec::{
    ASKED_FOR, Answer, Answers, Candidate, Context, Engine, ExecError, Formula, Formulas, Load,
    Mode, Plan, Rates, answer_supported, cheapest,
};
use warpseek_index::SnapshotId;

use crate::kernels::cohort::{Cohort, Input, Output, shared_bytes};
use matrix::{GROUP_TERMS, Launch, Matrix, groups, order};
use warpseek_cuda::DeviceError;
use warpseek_exec_gpu::GpuEngine;
use warpseek_exec_gpu::image::{Item, SegmentImage, largest_value};
use warpseek_exec_gpu::limits::check_shared;
use warpseek_exec_gpu::round::{Kind, Pass, Round, State, WARP, key_capacity};
use warpseek_exec_gpu::workspace::Workspace;

/// Maximum number of queries in a cohort.
pub const MAX_COHORT: usize = 1024;

/// Minimum and maximum number of documents in a microtile, as binary logarithms: positions and
/// numbers of candidates have 15 bits.
const MICRO_BITS: (u32, u32) = (7, 15);

/// Maximum number of queries in a group: one bit each says whether there are candidates.
const MAX_GROUP: usize = 32;

/// Maximum number of keys that all items keep together, unless each group is one item.
const KEYS: usize = 1 << 26;

/// Costs on an H200 (docs/measurements/gpu.md). A single query was not measured: the line goes
/// through cohorts of 64 and of 1,024.
const RATES: Rates = Rates::device(614_000.0, 2_000.0, 0.0049, 7.0);

/// Number of times that a cohort fills the device.
const WAVES: u64 = 4;

/// The layout of a cohort on the device. Hits do not depend on it.
#[derive(Debug, Clone, Copy)]
pub struct CohortSettings {
    /// Queries in a cohort, 1 to [`MAX_COHORT`].
    pub cohort: usize,
    /// Documents in a tile. Small tiles stay in the device's cache while all queries go over
    /// them; large ones make longer items.
    pub tile: u32,
    /// Binary logarithm of the documents in a microtile: at least that of the image's tiles, and
    /// at most what fits in shared memory, where each document takes two bytes per query.
    pub micro_bits: u32,
    /// Queries in a group, which share what they read: 1 to 32, as far as shared memory permits.
    pub group: usize,
}

impl CohortSettings {
    /// Returns the shared memory that the kernel takes for a group with this many sparse lists.
    fn shared_bytes(&self, sparse: u32) -> u32 {
        shared_bytes(self.group as u32, 1 << self.micro_bits, sparse)
    }
}

impl Default for CohortSettings {
    fn default() -> Self {
        CohortSettings { cohort: MAX_COHORT, tile: 1 << 18, micro_bits: 11, group: 4 }
    }
}

/// An engine that answers batches on a GPU, one cohort after another, from the image of a
/// [`GpuEngine`].
pub struct CohortEngine {
    tiles: Arc<GpuEngine>,
    kernel: Cohort,
    settings: CohortSettings,
}

impl CohortEngine {
    /// Creates an engine that shares the image and the memory of another.
    pub fn new(tiles: Arc<GpuEngine>, settings: CohortSettings) -> Result<Self, DeviceError> {
        let kernel = Cohort::new(tiles.device())?;
        let least = MICRO_BITS.0.max(tiles.settings().tile_bits);
        let mut settings = CohortSettings {
            cohort: settings.cohort.clamp(1, MAX_COHORT),
            tile: settings.tile.max(1),
            micro_bits: settings.micro_bits.clamp(least, MICRO_BITS.1),
            group: settings.group.clamp(1, MAX_GROUP),
        };
        let room = |settings: &CohortSettings| {
            check_shared(kernel.kernel(), settings.shared_bytes(GROUP_TERMS as u32))
        };
        while room(&settings).is_err() && settings.micro_bits > least {
            settings.micro_bits -= 1;
        }
        while room(&settings).is_err() && settings.group > 1 {
            settings.group -= 1;
        }
        room(&settings)?;
        Ok(CohortEngine { tiles, kernel, settings })
    }

    /// Returns the reason why the engine cannot answer a plan, or `None` if it can. The engine
    /// whose image it uses has no such limits.
    pub fn why_not(&self, plan: &Plan) -> Option<&'static str> {
        let fits = |pass| matrix::shift(plan, largest_value(plan.formulas.of(0)), pass).is_some();
        if plan.mode != Mode::Or && !fits(Pass::And) || plan.mode != Mode::And && !fits(Pass::Or) {
            return Some("sums of 15 bits cannot hold so many terms");
        }
        let sparse = || self.tiles.sparse_lists(plan) as u32;
        let room = plan.terms.len() <= GROUP_TERMS
            || check_shared(self.kernel.kernel(), self.settings.shared_bytes(sparse())).is_ok();
        (!room).then_some("shared memory is too small for the cursors of so many short lists")
    }

    /// Returns the engine whose image this one uses.
    pub fn tiles(&self) -> &Arc<GpuEngine> {
        &self.tiles
    }

    /// Returns the settings, reduced to what is possible on the device.
    pub fn settings(&self) -> CohortSettings {
        self.settings
    }

    fn run(
        &self,
        image: &[SegmentImage],
        mode: Mode,
        plans: &[&Plan],
        workspace: &mut Workspace,
        context: &Context,
    ) -> Result<Vec<Answer>, DeviceError> {
        let order = order(plans);
        let ordered: Vec<&Plan> = order.iter().map(|&i| plans[i]).collect();
        let docs: u64 = image.iter().map(|segment| u64::from(segment.view().docs)).sum();
        // Kernels keep at least one hit, even if a plan needs only the number of matches.
        let wanted = |plan: &&Plan| (plan.k as u64).clamp(1, docs.max(1)) as u32;
        let ks: Vec<u32> = ordered.iter().map(wanted).collect();
        let stride = ks.iter().copied().max().unwrap_or(1);
        let capacity = key_capacity(stride);
        let mut round = Round::new(
            self.tiles.setup(),
            &ordered,
            &ks,
            stride,
            capacity,
            Kind::Tiles,
            workspace,
        )?
        .sharing(context);
        if mode != Mode::Or {
            self.pass(&mut round, image, Pass::And, false)?;
        }
        if mode != Mode::And {
            self.pass(&mut round, image, Pass::Or, mode == Mode::AndOr)?;
        }
        let mut answers = vec![Answer::default(); plans.len()];
        for (i, answer) in order.into_iter().zip(round.answers()?) {
            answers[i] = answer;
        }
        Ok(answers)
    }

    /// Runs over all segments and merges the hits; with `enough`, only for queries that lack
    /// hits.
    fn pass(
        &self,
        round: &mut Round<'_>,
        image: &[SegmentImage],
        pass: Pass,
        enough: bool,
    ) -> Result<(), DeviceError> {
        let (device, stream) = (self.tiles.device(), round.workspace.stream.clone());
        let (launches, slots) = self.launches(round, image, pass)?;
        let input = round.workspace.input.start();
        let parts: Vec<_> = launches
            .iter()
            .map(|l| {
                let lists = [input.add(&l.groups), input.add(&l.lists), input.add(&l.entries)];
                (lists, input.add(&l.queries), [input.add(&l.members), input.add(&l.items)])
            })
            .collect();
        let queries = round.plans.len();
        let state_at = input.zeros(8 * State::words(queries));
        let input = input.send(device, &stream)?;
        let state = State { queries, words: input.slice(state_at).cast() };
        let slot_keys =
            round.workspace.slot_keys.take(device, (slots * round.stride as usize).max(1))?;
        let enough = if enough { round.results.counts() } else { 0 };
        let most = self.settings.group as u32;
        // Segments differ in lists; the positions of a query's hits are the same.
        let queries_at = parts.first().map_or(0..0, |part| part.1.clone());
        for ((segment, launch), (lists, queries, items)) in image.iter().zip(&launches).zip(parts) {
            let blocks = launch.items.len() as u32;
            if blocks == 0 {
                continue;
            }
            let room = blocks as usize * most as usize * round.capacity as usize;
            let keys = match room {
                0 => None,
                room => Some(round.workspace.block_keys.take(device, room)?),
            };
            let [groups, group_lists, entries] = lists;
            let [members, items] = items;
            let of_segment = Input {
                segment: segment.view(),
                groups: &input.slice(groups).cast(),
                lists: &input.slice(group_lists).cast(),
                entries: &input.slice(entries).cast(),
                queries: &input.slice(queries).cast(),
                members: &input.slice(members).cast(),
                items: &input.slice(items).cast(),
                micro_bits: self.settings.micro_bits,
                most_queries: most,
                sparse: launch.sparse,
            };
            let output = Output {
                matches: round.results.matches(pass),
                thresholds: &state.thresholds(),
                histograms: &state.histograms(),
                enough,
                slot_keys: &slot_keys,
                found: &state.found(),
                stride: round.stride,
                keys: keys.as_ref(),
                capacity: round.capacity,
            };
            // SAFETY: items name groups, groups name queries and lists, queries name members, and
            // lists name entries, all of this launch. Lists belong to this image, which keeps the
            // memory that their addresses point to. Slots hold the hits of all items.
            unsafe { self.kernel.launch(&stream, &of_segment, &output) }?;
        }
        round.merge(&stream, &input.slice(queries_at).cast(), &state, enough, &slot_keys)
    }

    /// Creates the groups of queries and the items, one launch per segment, and counts the slots
    /// for the hits of all items, one per query of an item.
    fn launches(
        &self,
        round: &Round<'_>,
        image: &[SegmentImage],
        pass: Pass,
    ) -> Result<(Vec<Launch>, usize), DeviceError> {
        let groups = groups(round.plans, self.settings.group);
        let matrix = Matrix::new(round, image, pass, self.tiles.max_static())?;
        let mut launches: Vec<Launch> = image
            .iter()
            .enumerate()
            .map(|(number, segment)| {
                let mut launch = Launch::default();
                for group in &groups {
                    matrix.group(number, segment, group.clone(), &mut launch);
                }
                launch
            })
            .collect();

        let sparse = launches.iter().map(|launch| launch.sparse).max().unwrap_or(0);
        let shared = self.settings.shared_bytes(sparse);
        let resident =
            u64::from(self.kernel.kernel().blocks_per_multiprocessor(WARP, shared)?.max(1))
                * u64::from(self.tiles.device().info().multiprocessors);
        let micro_docs = 1u32 << self.settings.micro_bits;
        let tile = self.settings.tile.div_ceil(micro_docs);
        let all: u64 = image.iter().map(|s| u64::from(s.view().docs.div_ceil(micro_docs))).sum();
        // Subtiles are short enough that items fill the device a few times over, and long enough
        // that the keys of all items fit in memory.
        let share = all * groups.len() as u64 / (resident * WAVES);
        let keys = round.plans.len() * round.stride.max(round.capacity) as usize;
        let most_items = (KEYS / keys).max(1) as u64;
        let tile = u64::from(tile).max(all.div_ceil(most_items));
        let subtile = share.max(all.div_ceil(most_items)).clamp(1, tile) as u32;
        let tile = (tile as u32).next_multiple_of(subtile);

        let mut of_group = vec![0; groups.len()];
        for (segment, launch) in image.iter().zip(&mut launches) {
            let micros = segment.view().docs.div_ceil(micro_docs);
            for tile_begin in (0..micros).step_by(tile as usize) {
                let tile_end = micros.min(tile_begin.saturating_add(tile));
                for (group, slots) in of_group.iter_mut().enumerate() {
                    if launch.groups[group].lists == 0 {
                        continue;
                    }
                    for begin in (tile_begin..tile_end).step_by(subtile as usize) {
                        let end = tile_end.min(begin + subtile);
                        launch.items.push(Item { query: group as u32, begin, end, unused: 0 });
                        *slots += 1;
                    }
                }
            }
        }
        let mut first_slot = 0;
        for (group, slots) in groups.iter().zip(&of_group) {
            for query in group.clone() {
                for launch in &mut launches {
                    launch.queries[query].first_slot = first_slot;
                }
                first_slot += slots;
            }
        }
        Ok((launches, first_slot as usize))
    }
}

impl Engine for CohortEngine {
    fn name(&self) -> &'static str {
        "cohort"
    }

    fn device(&self) -> String {
        self.tiles.device().info().name.clone()
    }

    fn snapshot(&self) -> SnapshotId {
        self.tiles.snapshot()
    }

    fn candidates(&self, plan: &Plan, alone: bool, context: &Context) -> Vec<Candidate> {
        let limit = self.why_not(plan);
        let cohort = Candidate {
            algorithm: self.name(),
            rates: limit.map_or(Ok(RATES), Err),
            why: ASKED_FOR,
        };
        // Plans beyond the limits go to the engine whose image this one uses.
        let other =
            cheapest(&self.tiles.candidates(plan, alone, context), &Load::of(plan)).copied();
        let other = other.map(|other| match limit {
            Some(why) => Candidate { why, ..other },
            None => Candidate { rates: Err("cohort was requested"), ..other },
        });
        std::iter::once(cohort).chain(other).collect()
    }

    fn prepare(&self, formulas: &Formulas, context: &Context) -> Result<(), ExecError> {
        self.tiles.prepare(formulas, context)
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        let group = |plan: &Plan| (plan.mode, plan.formulas.of(0));
        let run = |key: (Mode, Formula),
                   image: &[SegmentImage],
                   plans: &[&Plan],
                   workspace: &mut Workspace| {
            self.run(image, key.0, plans, workspace, context)
        };
        answer_supported(self, plans, |plans| {
            let fits: Vec<bool> = plans.iter().map(|plan| self.why_not(plan).is_none()).collect();
            let select = |wanted: bool| -> Vec<&Plan> {
                let some = plans.iter().zip(&fits).filter(|(_, fits)| **fits == wanted);
                some.map(|(&plan, _)| plan).collect()
            };
            let (own, others) = (select(true), select(false));
            let mut own =
                self.tiles.in_rounds(&own, self.settings.cohort, context, group, run).into_iter();
            let mut others = match others.is_empty() {
                true => Vec::new().into_iter(),
                false => self.tiles.search(&others, context).into_iter(),
            };
            let next = |fits: &bool| if *fits { own.next() } else { others.next() };
            fits.iter().map(next).map(|one| one.unwrap_or(Err(ExecError::NoAnswer))).collect()
        })
    }
}
