//! One round: queries of one mode and formula, from plans to hits, in a fixed small number of
//! launches.

mod kernels;
mod launches;
mod memory;
mod pieces;
mod rough;
mod setup;
mod shared;
mod single;
mod sweep;

use std::ops::Range;
use std::sync::Arc;

use warpseek_core::Hit;
use warpseek_cuda::{Buffer, DeviceError, Kernel, Stream};
use warpseek_exec::{Answer, Context, Coverage, Mode, Plan};

use crate::image::{DeviceMask, ImageError, Item, QueryView, SegmentImage, TermView};
pub use crate::kernels::WARP;
use crate::kernels::batch::{Batch, SHARED_KEYS, key_bytes};
use crate::kernels::merge::{self, BestKeys, Merge};
use crate::kernels::pruned::{self, Windows};
use crate::kernels::{and_tiles, or_tiles, pruned_batch_any_k, pruned_tiles};
use crate::workspace::Workspace;
pub use kernels::Kernels;
use launches::Launch;
use memory::Results;
pub use memory::State;
pub use pieces::Pace;
use rough::least;
pub use rough::{histogram_shift, rough_shift, rough_weight};
pub use setup::RoundSetup;

/// Minimum number of terms for which OR of a single query reads its postings twice: the
/// thresholds that other windows find save more than that costs.
const TWICE_FROM: usize = 4;

/// The tables that were sent for a launch.
struct Tables {
    queries: Buffer<QueryView>,
    terms: Buffer<TermView>,
    items: Buffer<Item>,
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

/// The folder of the kernel that runs over the documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Search {
    Single,
    SingleTwoPass,
    Pruned,
    PrunedAnyK,
    And,
    Or,
}

/// Answers plans that all have this mode, one formula, and a `kind` that suits them. The threads of
/// the context prepare the round. With a `pace`, the round is answered in pieces and stops when
/// time is up; otherwise it is answered as a whole.
pub fn run(
    setup: &RoundSetup,
    image: &[SegmentImage],
    (mode, kind): (Mode, Kind),
    plans: &[&Plan],
    workspace: &mut Workspace,
    context: &Context,
    pace: Option<Pace<'_>>,
) -> Result<Vec<Answer>, ImageError> {
    let docs: u64 = image.iter().map(SegmentImage::docs).sum();
    // Kernels keep at least one hit; a plan may request matches only.
    let ks: Vec<u32> = plans.iter().map(|p| (p.k as u64).clamp(1, docs.max(1)) as u32).collect();
    let stride = ks.iter().copied().max().unwrap_or(1);
    let capacity = key_capacity(stride);
    let round = Round::new(setup, plans, &ks, stride, capacity, kind, workspace)?.sharing(context);
    let mut round = Round { threads: context.threads(), pace, ..round };
    round.masks = round.send_masks()?;
    let coverage = match mode {
        Mode::Or => vec![round.pass(image, Pass::Or, false)?; plans.len()],
        Mode::And => vec![round.pass(image, Pass::And, false)?; plans.len()],
        Mode::AndOr => round.and_then_or(image)?,
    };
    if coverage.iter().all(|coverage| *coverage == Coverage::NOTHING) {
        return Ok(plans.iter().map(|plan| Answer::nothing(plan)).collect());
    }
    let answers = round.answers()?.into_iter().zip(coverage).zip(plans);
    let answer = |((answer, coverage), plan): ((Answer, Coverage), &&Plan)| match coverage {
        coverage if coverage == Coverage::NOTHING => Answer::nothing(plan),
        coverage => Answer { coverage, ..answer },
    };
    Ok(answers.map(answer).collect())
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

/// Queries of one mode and formula while they are answered.
pub struct Round<'a> {
    setup: &'a RoundSetup,
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
    /// The context with the scores that other parts of the search know, if there are any.
    shared: Option<&'a Context>,
    /// The pieces of the round, if it may have to stop.
    pace: Option<Pace<'a>>,
    /// Memory for the results.
    pub results: Results,
}

impl<'a> Round<'a> {
    /// Creates a round with space for `stride` hits per query, the largest of `ks`, and for
    /// `capacity` keys per block of threads.
    pub fn new(
        setup: &'a RoundSetup,
        plans: &'a [&'a Plan],
        ks: &'a [u32],
        stride: u32,
        capacity: u32,
        kind: Kind,
        workspace: &'a mut Workspace,
    ) -> Result<Self, DeviceError> {
        // AND-then-OR reads the counts of hits on the device.
        let counts = plans.iter().any(|plan| plan.count || plan.mode == Mode::AndOr);
        let results = Results::new(&setup.device, workspace, plans.len(), stride, counts)?;
        let (threads, masks, shared, pace) = (1, Vec::new(), None, None);
        Ok(Round {
            setup,
            workspace,
            plans,
            ks,
            stride,
            capacity,
            kind,
            threads,
            masks,
            shared,
            pace,
            results,
        })
    }

    /// Makes queries begin with the scores that other parts of the search have found.
    pub fn sharing(self, context: &'a Context) -> Self {
        Round { shared: Some(context), ..self }
    }

    /// Runs with AND, and then with OR for the queries that lack hits, and returns what was
    /// searched for each query. A query whose documents were not all searched with AND has an
    /// answer only if it has enough hits: with OR, nothing was searched.
    fn and_then_or(&mut self, image: &[SegmentImage]) -> Result<Vec<Coverage>, ImageError> {
        let first = self.pass(image, Pass::And, false)?;
        let mut coverage = vec![first.clone(); self.plans.len()];
        let enough = match self.pace {
            // Nothing was counted.
            _ if first == Coverage::NOTHING => return Ok(coverage),
            Some(_) => {
                let found = self.results.found(&self.workspace.stream)?;
                let wanted = self.plans.iter().zip(self.ks).zip(found);
                wanted.map(|((plan, &k), found)| plan.k == 0 || found >= k).collect()
            }
            None => Vec::new(),
        };
        let mut set_others = |to: Coverage| {
            coverage
                .iter_mut()
                .zip(&enough)
                .filter(|(_, enough)| !**enough)
                .for_each(|(coverage, _)| coverage.clone_from(&to));
        };
        match first {
            // Queries with enough hits keep them: the kernel reads the counts of the first pass on
            // the device.
            Coverage::Complete => set_others(self.pass(image, Pass::Or, true)?),
            Coverage::Partial(_) => set_others(Coverage::NOTHING),
        }
        Ok(coverage)
    }

    /// Returns a key that all hits of a query exceed.
    pub fn least(&self, image: &[SegmentImage], query: usize, pass: Pass) -> u64 {
        let plan = self.plans[query];
        let shared = self.shared.and_then(|context| context.floor(plan));
        let shared = shared.map_or(0, |floor| floor.least_key());
        match self.pace {
            // The round may stop before the documents that the lists are known to have.
            Some(_) => shared,
            None => least(image, plan, self.ks[query], pass).max(shared),
        }
    }

    /// Copies the masks of the plans to the device, where they stay until the round has ended.
    fn send_masks(&self) -> Result<Vec<Option<Arc<DeviceMask>>>, ImageError> {
        if self.plans.iter().all(|plan| plan.mask.is_none()) {
            return Ok(Vec::new());
        }
        let setup = self.setup;
        let send = |plan: &&Plan| -> Result<Option<Arc<DeviceMask>>, ImageError> {
            // A mask may be large, so that many of them take long.
            if self.pace.is_some_and(|pace| pace.is_over()) {
                return Err(ImageError::Stopped);
            }
            let Some(mask) = plan.mask.as_ref() else { return Ok(None) };
            Ok(Some(setup.masks.get(&setup.device, &self.workspace.stream, mask)?))
        };
        self.plans.iter().map(send).collect()
    }

    /// Returns the folder of the kernel that suits the queries.
    fn search(&self, image: &[SegmentImage], pass: Pass) -> Search {
        match pass {
            Pass::Or if self.is_single(image) && self.plans[0].terms.len() >= TWICE_FROM => {
                Search::SingleTwoPass
            }
            _ if self.is_single(image) => Search::Single,
            _ if self.is_pruned() && self.stride <= WARP => Search::Pruned,
            _ if self.is_pruned() => Search::PrunedAnyK,
            Pass::And => Search::And,
            Pass::Or => Search::Or,
        }
    }

    fn kernel(&self, search: Search) -> &'a Kernel {
        let kernels = &self.setup.kernels;
        match search {
            Search::SingleTwoPass => &kernels.two_pass,
            Search::Single => &kernels.single,
            Search::Pruned => &kernels.pruned,
            Search::PrunedAnyK => &kernels.any_k,
            Search::And if self.kind == Kind::ManyTerms => &kernels.and_many,
            Search::Or if self.kind == Kind::ManyTerms => &kernels.or_many,
            Search::And => &kernels.and,
            Search::Or => &kernels.or,
        }
    }

    /// Launches a kernel over a slice. Kernels with pruning search windows of `span` tiles, for
    /// queries of at most `most_terms` terms; the others process `span` tiles at once.
    fn launch(
        &self,
        stream: &Stream,
        search: Search,
        batch: &Batch<'_>,
        state: &State,
        (span, most_terms): (u32, u32),
    ) -> Result<(), DeviceError> {
        let kernel = self.kernel(search);
        let histograms = &state.histograms();
        let windows = Windows { span, most_terms, histograms };
        match search {
            // A single query is not a batch, unless it has no work.
            Search::Single | Search::SingleTwoPass => Ok(()),
            Search::Pruned => pruned_tiles::launch(stream, kernel, batch, &windows),
            Search::PrunedAnyK => pruned_batch_any_k::launch(stream, kernel, batch, &windows),
            Search::And => and_tiles::launch(stream, kernel, batch, span.ilog2()),
            Search::Or => or_tiles::launch(stream, kernel, batch, span.ilog2()),
        }
    }

    /// Sends everything that kernels read in one copy. Returns the tables of each launch.
    fn send(&mut self, launches: &[Launch]) -> Result<(State, Vec<Tables>), DeviceError> {
        let queries = self.plans.len();
        let input = self.workspace.input.start();
        let mut parts = Vec::with_capacity(launches.len());
        for launch in launches {
            let terms = input.add(&launch.terms);
            parts.push((input.add(&launch.queries), terms, input.add(&launch.items)));
        }
        let state = input.zeros(8 * State::words(queries));
        let input = input.send(&self.setup.device, &self.workspace.stream)?;
        let tables = |(queries, terms, items): (Range<usize>, Range<usize>, Range<usize>)| Tables {
            queries: input.slice(queries).cast(),
            terms: input.slice(terms).cast(),
            items: input.slice(items).cast(),
        };
        let words = input.slice(state).cast();
        Ok((State { queries, words }, parts.into_iter().map(tables).collect()))
    }

    /// Merges the hits of each query's items. `enough` is the address of the number of hits that
    /// each query has, or 0; queries with enough hits keep them.
    pub fn merge(
        &mut self,
        stream: &Stream,
        queries: &Buffer<QueryView>,
        state: &State,
        enough: u64,
        slot_keys: &Buffer<u64>,
    ) -> Result<(), DeviceError> {
        self.merge_to(stream, queries, state, enough, slot_keys, None, self.results.best())
    }

    /// Merges the hits of each query's items with its best hits `before` and writes the result to
    /// `best`, which may be the same memory.
    #[allow(clippy::too_many_arguments)]
    fn merge_to(
        &mut self,
        stream: &Stream,
        queries: &Buffer<QueryView>,
        state: &State,
        enough: u64,
        slot_keys: &Buffer<u64>,
        before: Option<BestKeys>,
        best: BestKeys,
    ) -> Result<(), DeviceError> {
        let capacity = self.capacity.max(merge::SHARED_KEYS);
        let keys = match capacity {
            ..=merge::SHARED_KEYS => None,
            _ => self.key_room(queries.len() as u32, capacity)?,
        };
        let merge = Merge {
            queries,
            thresholds: &state.thresholds(),
            enough,
            slot_keys,
            found: &state.found(),
            stride: self.stride,
            before,
            best,
            block_keys: keys.as_ref(),
            capacity,
        };
        merge::launch(stream, &self.setup.kernels.merge, &merge)
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
            _ if self.is_pruned() => pruned::shared_bytes(launch.most, launch.sparse),
            Pass::Or => or_tiles::shared_bytes(docs, self.cursors(launch)),
            Pass::And => and_tiles::shared_bytes(docs, self.cursors(launch)),
        };
        bytes + key_bytes(self.capacity)
    }

    /// Returns the number of blocks that the device runs at once, each with this much shared
    /// memory.
    fn resident(&self, kernel: &Kernel, shared: u32) -> Result<u64, DeviceError> {
        let each = kernel.blocks_per_multiprocessor(WARP, shared)?.max(1);
        Ok(u64::from(each) * u64::from(self.setup.device.info().multiprocessors))
    }

    /// Returns the number of tiles that a warp processes at once.
    fn span(
        &self,
        image: &[SegmentImage],
        pass: Pass,
        kernel: &Kernel,
    ) -> Result<u32, DeviceError> {
        let settings = &self.setup.settings;
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
        Ok(Some(self.workspace.block_keys.take(&self.setup.device, room)?))
    }

    /// Waits for the results and returns the answers, in the order of the plans.
    pub fn answers(self) -> Result<Vec<Answer>, DeviceError> {
        let n = self.plans.len();
        let words = self.results.receive(&self.setup.device, self.workspace)?;
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
