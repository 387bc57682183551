//! The GPU engine. It copies the index to the device, chooses between kernels that skip documents
//! and kernels that score every posting, and answers plans in rounds, several of which are in
//! flight.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use warpseek_core::limits::MAX_QUERY_TERMS;
use warpseek_cuda::{Device, DeviceError, Kernel};
use warpseek_exec::{
    ASKED_FOR, Answer, Answers, Candidate, Context, Engine, ExecError, Fault, Formula, Formulas,
    Load, Mode, Plan, Rates, Takes, answer_supported, batch_time, cheapest, fail_all, only_formula,
};
use warpseek_index::{IndexError, Segment, Snapshot, SnapshotId};

use crate::failure::failed;
use crate::image::{
    CacheCounts, IN_FLIGHT, ImageError, Kept, Key, MakeKernels, Masks, Needs, OnDemand,
    PRUNED_TERMS, Policy, Residence, SegmentImage, Target, is_short, least_bytes, table_bytes,
};
use crate::kernels::{
    advance_terms, and_tiles, merge, or_tiles, pruned_batch_any_k, pruned_single,
    pruned_single_two_pass, pruned_tiles,
};
use crate::limits::{FEW_TERMS, check_docs};
use crate::loading::Loading;
use crate::resident::Resident;
use crate::round::{self, Kind};
use crate::workspace::{Pool, Workspace};

/// Settings for the layout of work on the device. Hits do not depend on them.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Binary logarithm of the number of documents in a tile, 5 to 15. Lists can be entered at
    /// the start of each tile.
    pub tile_bits: u32,
    /// Binary logarithm of the number of documents that OR processes at once: at least
    /// `tile_bits` and 8, at most 15 or what fits into shared memory, where each document takes
    /// two bytes.
    pub or_bits: u32,
    /// Binary logarithm of the number of documents that AND processes at once: at least
    /// `tile_bits` and 10, at most 15 or what fits into shared memory, where each document takes
    /// three and a half bits.
    pub and_bits: u32,
    /// Maximum number of queries in one round.
    pub round: usize,
    /// Number of rounds of a batch that are in flight at the same time.
    pub in_flight: usize,
    /// True if documents that cannot become hits are skipped; otherwise every posting is scored.
    pub pruned: bool,
    /// Form of the lists on the device.
    pub form: Form,
    /// Policy that decides which lists stay on the device if they do not all fit.
    pub policy: Policy,
}

/// The form of lists on the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// Tiles if all lists fit as tiles, else compact.
    #[default]
    Auto,
    /// All lists as tiles. An index that does not fit is refused.
    Tiles,
    /// All lists compressed if they fit. Tiles are created when queries need them.
    Compact,
    /// Lists are copied only when a query needs them. Best for few queries.
    OnDemand,
}

/// Names of the forms, in the order of the enumeration.
const FORMS: [(Form, &str); 4] = [
    (Form::Auto, "auto"),
    (Form::Tiles, "tiles"),
    (Form::Compact, "compact"),
    (Form::OnDemand, "on-demand"),
];

impl Form {
    /// Names of all forms.
    pub const NAMES: [&str; 4] = [FORMS[0].1, FORMS[1].1, FORMS[2].1, FORMS[3].1];
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = FORMS.iter().find(|(form, _)| form == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = FORMS.iter().find(|(_, other)| *other == name);
        let unknown = || format!("is not one of {}", Form::NAMES.join(", "));
        found.map(|(form, _)| *form).ok_or_else(unknown)
    }
}

impl Settings {
    /// The usual settings.
    pub const USUAL: Settings = Settings {
        tile_bits: 11,
        or_bits: 12,
        and_bits: 14,
        round: 1 << 11,
        in_flight: 3,
        pruned: true,
        form: Form::Auto,
        policy: Policy::Worth,
    };
}

impl Default for Settings {
    fn default() -> Self {
        Settings::USUAL
    }
}

/// Names of the algorithms that the engine chooses from.
const PRUNED: &str = "pruned tiles";
const EXHAUSTIVE: &str = "tiles";

/// Costs on an H200 with `gov2` (3.74 million postings per query, docs/measurements/gpu.md). The
/// cost per query was measured in batches of thousands, less 2 us, an estimate of the part that
/// does not grow with the postings. The fixed cost of a batch was measured with a single query,
/// the cost of hits with pruned tiles. AND-then-OR counts as OR, although it seldom reaches its
/// second part.
const PRUNED_OR: Rates = Rates::device(57_000.0, 2_000.0, 0.0007, 7.0);
const PRUNED_AND: Rates = Rates::device(46_000.0, 2_000.0, 0.0004, 2.4);
const TILES: Rates = Rates::device(83_000.0, 2_000.0, 0.0028, 7.0);

/// Seconds to copy a byte of a list from main memory, and to make tiles of a posting.
const MISSING_BYTE: f64 = 1.0 / 20e9;
const MISSING_POSTING: f64 = 1.0 / 100e9;

/// Factor by which rounds have more queries if their lists must be made first.
const DEMAND_ROUNDS: usize = 8;

/// Maximum number of queries in a batch that leaves memory for other rounds while its lists are
/// made.
const SMALL_BATCH: usize = 256;

/// Approximate number of bytes of a posting in tiles.
const TILE_BYTES: u64 = 11;

/// Bytes that must remain for rounds if an index is to be loaded as tiles. A small index requires
/// less.
const ROOM_FOR_ROUNDS: u64 = 32 << 20;

/// Maximum number of formulas for which images are kept.
const MOST_FORMULAS: usize = 8;

/// Maximum number of hits that the queries of a round request together, unless the round is one
/// query.
const ROUND_HITS: usize = 1 << 24;

/// Lists that are loaded when queries need them, by formula. The formula requested last comes
/// last.
pub(crate) type OnDemands = Vec<(Formula, Arc<OnDemand>)>;

/// Answers queries on a GPU, one tile of documents after another.
pub struct GpuEngine {
    snapshot: Arc<Snapshot>,
    pub(crate) device: Device,
    pub(crate) settings: Settings,
    pub(crate) kernels: Kernels,
    pub(crate) max_static: f32,
    /// Positions that the engine answers for, if not for all.
    within: Option<Range<u32>>,
    workspaces: Pool,
    /// Kernels that make the image.
    make: MakeKernels,
    /// Images of all segments, for the formulas requested last.
    image: Arc<Kept<SegmentImage>>,
    /// Segments on the device, shared with engines for other snapshots.
    residence: Arc<Residence>,
    /// Kernel that advances terms from one slice of documents to the next.
    pub(crate) advance: Kernel,
    /// Lists that are loaded when queries need them, used if the lists do not all fit as tiles.
    on_demand: Arc<Mutex<OnDemands>>,
    /// Lock that is held while lists on demand are set up.
    starting: Arc<Mutex<()>>,
    loading: Arc<Loading>,
    pub(crate) masks: Arc<Masks>,
}

/// The kernels that answer queries. Others with the same arguments can replace them
/// ([`GpuEngine::with_kernels`]).
#[derive(Clone)]
pub struct Kernels {
    /// OR kernel that scores every posting.
    pub or: Kernel,
    /// OR kernel for very many terms that scores every posting.
    pub or_many: Kernel,
    /// AND kernel that reads every posting.
    pub and: Kernel,
    /// AND kernel for very many terms that reads every posting.
    pub and_many: Kernel,
    /// Pruning kernel for batches of queries with at most 32 hits each.
    pub pruned: Kernel,
    /// Pruning kernel for batches of queries with any number of hits.
    pub any_k: Kernel,
    /// Pruning kernel for a single query.
    pub single: Kernel,
    /// Pruning kernel with two passes, for a single query.
    pub two_pass: Kernel,
    /// Kernel that merges the hits of a query's items.
    pub merge: Kernel,
}

impl GpuEngine {
    /// Creates an engine for an index. The first query, or [`GpuEngine::load`], copies the index
    /// to the device.
    pub fn new(
        snapshot: Arc<Snapshot>,
        device: Device,
        settings: Settings,
    ) -> Result<Self, DeviceError> {
        let kernels = Kernels {
            or: device.kernel(&or_tiles::SOURCE, "or_tiles")?,
            or_many: device.kernel(&or_tiles::SOURCE, "or_tiles_many")?,
            and: device.kernel(&and_tiles::SOURCE, "and_tiles")?,
            and_many: device.kernel(&and_tiles::SOURCE, "and_tiles_many")?,
            pruned: device.kernel(&pruned_tiles::SOURCE, "pruned_tiles")?,
            any_k: device.kernel(&pruned_batch_any_k::SOURCE, "pruned_batch_any_k")?,
            single: device.kernel(&pruned_single::SOURCE, "pruned_single")?,
            two_pass: device.kernel(&pruned_single_two_pass::SOURCE, "pruned_single_two_pass")?,
            merge: device.kernel(&merge::SOURCE, "merge")?,
        };
        let settings = round::fitting(settings, &kernels)?;
        let max_static = snapshot.statistics().max_static;
        let workspaces = Pool::new(device.clone());
        let make = MakeKernels::new(&device)?;
        let advance = device.kernel(&advance_terms::SOURCE, "advance_terms")?;
        let image = Arc::new(Kept::up_to(MOST_FORMULAS));
        let (residence, on_demand, starting, loading, masks) = Default::default();
        Ok(GpuEngine {
            snapshot,
            device,
            settings,
            kernels,
            max_static,
            within: None,
            workspaces,
            make,
            image,
            residence,
            advance,
            on_demand,
            starting,
            loading,
            masks,
        })
    }

    /// Creates a second engine that shares this one's image. It has other settings, except for
    /// `tile_bits`, which the image determines.
    pub fn sharing_image(&self, settings: Settings) -> Self {
        GpuEngine {
            snapshot: self.snapshot.clone(),
            device: self.device.clone(),
            settings: Settings { tile_bits: self.settings.tile_bits, ..settings },
            kernels: self.kernels.clone(),
            max_static: self.max_static,
            within: self.within.clone(),
            workspaces: Pool::new(self.device.clone()),
            make: self.make.clone(),
            image: self.image.clone(),
            residence: self.residence.clone(),
            advance: self.advance.clone(),
            on_demand: self.on_demand.clone(),
            starting: self.starting.clone(),
            loading: self.loading.clone(),
            masks: self.masks.clone(),
        }
    }

    /// Makes the engine share segments on the device with all other engines that have this
    /// residence. They must use the same device.
    pub fn in_residence(self, residence: Arc<Residence>) -> Self {
        GpuEngine { residence, ..self }
    }

    /// Replaces the kernels by others that take the same arguments. The image is kept.
    pub fn with_kernels(self, kernels: Kernels) -> Self {
        GpuEngine { kernels, ..self }
    }

    /// Returns the device that the engine runs on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the largest static score of the index.
    pub fn max_static(&self) -> f32 {
        self.max_static
    }

    /// Restricts the engine to a range of documents, given by positions counted through all
    /// segments. Its hits are the best of these documents, and its matches are counted among
    /// them. Only these documents are copied to the device; other engines answer for the rest.
    pub fn within(self, docs: Range<u32>) -> Self {
        GpuEngine { within: Some(docs), ..self }
    }

    /// Returns the documents of a segment that the engine answers for.
    fn docs(&self, segment: &Segment) -> Range<u32> {
        self.within.as_ref().map_or(0..segment.documents().count(), |docs| segment.part(docs))
    }

    /// Copies the index to the device with this many host threads, with the values of the one
    /// formula in `formulas`. If the lists do not all fit as tiles, they are loaded when queries
    /// need them.
    pub fn load(&self, formulas: &Formulas, threads: usize) -> Result<(), ExecError> {
        self.source(only_formula(self, formulas)?, threads).map(|_| ())
    }

    /// Returns the progress of the copy, which can be displayed or cancelled.
    pub fn loading(&self) -> &Arc<Loading> {
        &self.loading
    }

    /// Copies the index to the device as tiles. Returns an error if it cannot fit. Unless it is
    /// `alone`, it must leave memory for rounds: otherwise, images for other formulas would be
    /// kept although no memory is left to answer queries.
    fn load_tiles(
        &self,
        formula: Formula,
        threads: usize,
        alone: bool,
    ) -> Result<Vec<SegmentImage>, ImageError> {
        check_docs(self.snapshot.segments().iter().map(|s| self.docs(s).len() as u64).sum())?;
        let bits = self.settings.tile_bits;
        let (mut needed, mut packed, mut postings) = (0, 0, 0);
        let mut found = Vec::new();
        for segment in self.snapshot.segments() {
            postings += segment.dictionary().postings();
            let key = Key::new(segment, self.docs(segment), bits);
            let parts = self.residence.find(&key);
            match &parts {
                Some(parts) => needed += parts.value_bytes(),
                None => {
                    needed += least_bytes(segment, &self.docs(segment), bits)?;
                    packed += segment.postings_file().body_len();
                }
            }
            found.push((key, parts));
        }
        if !alone {
            needed += needed / 8;
        }
        let available = self.device.require(needed)?;
        let load = |keep_packed: bool| -> Result<Vec<SegmentImage>, ImageError> {
            self.loading.start(postings);
            let mut images = Vec::with_capacity(found.len());
            for (number, (segment, (key, parts))) in
                self.snapshot.segments().iter().zip(&found).enumerate()
            {
                let target = Target {
                    device: &self.device,
                    kernels: &self.make,
                    segment,
                    number,
                    within: self.docs(segment),
                    bits,
                    formula,
                    threads,
                    loading: &self.loading,
                };
                if let Some(parts) = parts {
                    images.push(SegmentImage::valued_anew(&target, parts.clone())?);
                    continue;
                }
                let image = SegmentImage::load(&target, keep_packed)?;
                if let Some(parts) = image.parts() {
                    self.residence.add(key.clone(), parts);
                }
                images.push(image);
            }
            if self.settings.form == Form::Auto {
                // Without memory for rounds, no query would be answered.
                self.device.require((needed / 32).min(ROOM_FOR_ROUNDS))?;
            }
            Ok(images)
        };
        // Compressed lists stay if there is also memory for rounds. This is known only once tiles
        // have their padding.
        let keep_packed = needed + packed + (needed + packed) / 8 <= available;
        match load(keep_packed) {
            Err(error) if keep_packed && packed > 0 && is_short(&error) => load(false),
            images => images,
        }
    }

    /// Returns the properties that the queries of one round share: mode, formula and kind of
    /// kernels.
    fn group(&self, plan: &Plan) -> (Mode, Formula, Kind) {
        let kind = match plan.terms.len() {
            _ if self.is_pruned(plan) => Kind::Pruned,
            ..=FEW_TERMS => Kind::Tiles,
            _ => Kind::ManyTerms,
        };
        (plan.mode, plan.formulas.of(0), kind)
    }

    /// Returns the reason why the engine cannot answer a plan, or `None` if it can.
    pub fn why_not(&self, plan: &Plan) -> Option<&'static str> {
        // Kernels take as many terms as a plan can have.
        let too_many = plan.terms.len() > MAX_QUERY_TERMS;
        too_many.then_some("the query has more terms than a plan can have")
    }

    /// Returns the largest number of sparse lists that a plan has in any segment. A list is
    /// sparse if it has fewer postings than the segment has tiles. If the engine answers for only
    /// a part of the documents, it cannot tell which lists are sparse, so every list counts.
    pub fn sparse_lists(&self, plan: &Plan) -> usize {
        let sparse = |(number, segment): (usize, &Arc<Segment>)| {
            let tiles = segment.documents().count().div_ceil(1 << self.settings.tile_bits);
            let lists = plan.terms.iter().filter_map(|term| term.lists[number].as_ref());
            lists.filter(|list| self.within.is_some() || list.df < tiles).count()
        };
        self.snapshot.segments().iter().enumerate().map(sparse).max().unwrap_or(0)
    }

    fn is_pruned(&self, plan: &Plan) -> bool {
        let chosen = cheapest(&self.offers(plan), &Load::of(plan)).copied();
        chosen.is_some_and(|candidate| candidate.algorithm == PRUNED)
    }

    /// Returns the algorithms, with the cost of a plan for each.
    fn offers(&self, plan: &Plan) -> [Candidate; 2] {
        let rates = if plan.mode == Mode::And { PRUNED_AND } else { PRUNED_OR };
        let pruned = match plan {
            _ if !self.settings.pruned => Err("pruning is disabled"),
            plan if plan.count => Err("matches are counted"),
            plan if plan.terms.len() > PRUNED_TERMS => Err("too many terms"),
            _ => Ok(rates),
        };
        let why = match pruned {
            Ok(_) => "it would take longer",
            Err(_) if !self.settings.pruned => ASKED_FOR,
            Err(_) if plan.count => "all matches are counted only if nothing is skipped",
            Err(_) => {
                "with this many lists, reading them is faster than looking documents up in them"
            }
        };
        [
            Candidate {
                algorithm: PRUNED,
                rates: pruned,
                why: "it skips documents that cannot become hits",
            },
            Candidate {
                algorithm: EXHAUSTIVE,
                rates: self.why_not(plan).map_or(Ok(TILES), Err),
                why,
            },
        ]
    }

    /// Returns the images of all segments for a formula. If they do not exist, this many threads
    /// build them.
    pub fn image(
        &self,
        formula: Formula,
        threads: usize,
    ) -> Result<Arc<[SegmentImage]>, ExecError> {
        let make = |alone| self.load_tiles(formula, threads, alone);
        let image = self.image.get(formula, make);
        image.map_err(as_setup).inspect_err(|error| self.forget_cancellation(error))
    }

    /// Clears a cancellation that has ended a copy, so that it does not end the next one.
    fn forget_cancellation(&self, error: &ExecError) {
        if let ExecError::Index(error) = error
            && matches!(**error, IndexError::Cancelled)
        {
            self.loading.clear();
        }
    }

    /// Returns the lists that answer queries by a formula, and loads them if necessary.
    fn source(&self, formula: Formula, threads: usize) -> Result<Source, ExecError> {
        let mut on_demand = lock(&self.on_demand);
        if let Some(at) = on_demand.iter().position(|(known, _)| *known == formula) {
            let found = on_demand.remove(at);
            on_demand.push(found.clone());
            return Ok(Source::OnDemand(found.1));
        }
        let must =
            !on_demand.is_empty() || matches!(self.settings.form, Form::Compact | Form::OnDemand);
        drop(on_demand);
        if !must {
            match self.image(formula, threads) {
                Err(error) if self.settings.form == Form::Auto && is_too_large(&error) => {}
                image => return Ok(Source::Tiles(image?)),
            }
        }
        self.start_on_demand(formula, threads)
            .map(Source::OnDemand)
            .map_err(|error| as_setup(error.into()))
            .inspect_err(|error| self.forget_cancellation(error))
    }

    fn start_on_demand(
        &self,
        formula: Formula,
        threads: usize,
    ) -> Result<Arc<OnDemand>, ImageError> {
        // Lists of a formula are set up only once. Readers of `on_demand` do not wait for this.
        let _starting = lock(&self.starting);
        let there = lock(&self.on_demand).iter().find(|(known, _)| *known == formula).cloned();
        if let Some((_, lists)) = there {
            return Ok(lists);
        }
        check_docs(self.snapshot.segments().iter().map(|s| self.docs(s).len() as u64).sum())?;
        let mut needs = Needs::default();
        for segment in self.snapshot.segments() {
            // Each list begins at a multiple of 64 bytes.
            let lists = u64::from(segment.dictionary().terms());
            needs.lists += lists;
            needs.packed += segment.postings_file().body_len() + 64 * lists;
            needs.tiles += TILE_BYTES * segment.dictionary().postings();
            needs.tables += table_bytes(segment)?;
        }
        // Forms that are chosen to save memory have small rounds as well.
        needs.round = needs.tiles / 64;
        if self.settings.form == Form::Auto {
            (needs.kept, needs.round) = (2 * needs.tiles, needs.tiles / 8);
        }
        let lending = self.residence.lending(&self.device, self.settings.policy, needs)?;
        let (make, bits) = (self.make.clone(), self.settings.tile_bits);
        let docs = |segment: &Segment| self.docs(segment);
        let lists = OnDemand::new(lending, make, &self.snapshot, docs, bits, formula)?;
        if self.settings.form != Form::OnDemand {
            lists.preload(threads, &self.loading)?;
        }
        let lists = Arc::new(lists);
        let mut on_demand = lock(&self.on_demand);
        let surplus = (on_demand.len() + 1).saturating_sub(MOST_FORMULAS);
        on_demand.drain(..surplus);
        on_demand.push((formula, lists.clone()));
        Ok(lists)
    }

    /// Returns the counters of the list cache, or `None` if all lists are on the device as tiles.
    pub fn cache_counts(&self) -> Option<CacheCounts> {
        self.resident().now().cache
    }

    /// Returns a handle that reports the engine's data on the device at any time.
    pub fn resident(&self) -> Resident {
        let (device, loading) = (self.device.clone(), self.loading.clone());
        let (image, on_demand) = (self.image.clone(), self.on_demand.clone());
        Resident { device, image, on_demand, loading }
    }

    /// Answers plans in rounds of at most `most` queries, each from one group; the plans of a
    /// group have the same formula. While one round runs on the device, the next is prepared and
    /// the hits of the last are read. If a round fails, its queries fail. No round begins once
    /// time is up. All lists must fit on the device as tiles.
    pub fn in_rounds<G: Copy + PartialEq + Sync>(
        &self,
        plans: &[&Plan],
        most: usize,
        context: &Context,
        group: impl Fn(&Plan) -> G,
        run: impl Fn(G, &[SegmentImage], &[&Plan], &mut Workspace) -> Result<Vec<Answer>, DeviceError>
        + Sync,
    ) -> Answers {
        self.in_groups(plans, context, group, |shared, plans| {
            let image = match self.image(plans[0].formulas.of(0), context.threads()) {
                Ok(image) => image,
                Err(error) => return fail_all(plans, &error),
            };
            let run = |plans: &[&Plan], workspace: &mut Workspace| {
                run(shared, &image, plans, workspace).map_err(failed)
            };
            self.rounds(plans, most, self.settings.in_flight, context, run)
        })
    }

    /// Answers the plans of each group.
    fn in_groups<G: Copy + PartialEq>(
        &self,
        plans: &[&Plan],
        context: &Context,
        group: impl Fn(&Plan) -> G,
        answer: impl Fn(G, &[&Plan]) -> Answers,
    ) -> Answers {
        let nothing =
            |plan: &&Plan| Ok(Answer { matches: plan.count.then_some(0), ..Answer::default() });
        let mut answers: Answers = plans.iter().map(nothing).collect();
        let mut left: Vec<usize> = (0..plans.len()).filter(|&i| asks(plans[i])).collect();
        let groups: Vec<G> = plans.iter().map(|plan| group(plan)).collect();
        while let Some(&first) = left.first() {
            let shared = groups[first];
            let (chosen, others): (Vec<usize>, Vec<usize>) =
                left.into_iter().partition(|&i| groups[i] == shared);
            left = others;
            let chosen_plans: Vec<&Plan> = chosen.iter().map(|&i| plans[i]).collect();
            let done = match context.is_over() {
                true => chosen_plans.iter().map(|plan| Ok(Answer::nothing(plan))).collect(),
                false => answer(shared, &chosen_plans),
            };
            for (i, answer) in chosen.into_iter().zip(done) {
                answers[i] = answer;
            }
        }
        answers
    }

    /// Answers the plans of a group with lists that are on the device or loaded on demand.
    fn answer(
        &self,
        (mode, formula, kind): (Mode, Formula, Kind),
        plans: &[&Plan],
        context: &Context,
    ) -> Answers {
        let settings = &self.settings;
        match self.source(formula, context.threads()) {
            Err(error) => fail_all(plans, &error),
            Ok(Source::Tiles(image)) => {
                let run = |plans: &[&Plan], workspace: &mut Workspace| {
                    Ok(round::run(self, &image, mode, kind, plans, workspace, 1)?)
                };
                self.rounds(plans, settings.round, settings.in_flight, context, run)
            }
            Ok(Source::OnDemand(lists)) => {
                let (threads, large) = (context.threads(), plans.len() > SMALL_BATCH);
                let run = |plans: &[&Plan], workspace: &mut Workspace| loop {
                    let mut brought = lists.bring(plans, workspace, threads, large)?;
                    let images = brought.images();
                    let answers = round::run(self, images, mode, kind, plans, workspace, threads)?;
                    if brought.check()? {
                        return Ok(answers);
                    }
                };
                let docs = self.snapshot.doc_limit() as usize;
                let k = plans.iter().map(|plan| plan.k.min(docs)).max().unwrap_or(0);
                let most = (settings.round * DEMAND_ROUNDS).min(lists.most_queries(k));
                let most = most.min(ROUND_HITS / k.max(1)).max(1);
                let most = most.min(Masks::most_queries(&self.device, plans));
                let mut order: Vec<usize> = (0..plans.len()).collect();
                let mut rounds = lists.rounds(plans, most, large);
                let ordered: Vec<&Plan>;
                if rounds.len() > 1 {
                    // Neighbours share lists.
                    order = lists.order(plans);
                    ordered = order.iter().map(|&i| plans[i]).collect();
                    rounds = lists.rounds(&ordered, most, large);
                }
                let in_flight = settings.in_flight.min(IN_FLIGHT);
                let answers = self.run_rounds(&rounds, in_flight, context, run);
                let mut answers: Vec<_> = order.into_iter().zip(answers).collect();
                answers.sort_unstable_by_key(|&(i, _)| i);
                answers.into_iter().map(|(_, answer)| answer).collect()
            }
        }
    }

    fn rounds(
        &self,
        plans: &[&Plan],
        most: usize,
        in_flight: usize,
        context: &Context,
        run: impl Fn(&[&Plan], &mut Workspace) -> Result<Vec<Answer>, ExecError> + Sync,
    ) -> Answers {
        // If queries request many hits, few queries fit into a round.
        let docs = self.snapshot.doc_limit() as usize;
        let k = plans.iter().map(|plan| plan.k.min(docs)).max().unwrap_or(0);
        let most = most.min(ROUND_HITS / k.max(1)).max(1);
        let most = most.min(Masks::most_queries(&self.device, plans));
        let rounds: Vec<&[&Plan]> = plans.chunks(most).collect();
        self.run_rounds(&rounds, in_flight, context, run)
    }

    fn run_rounds(
        &self,
        rounds: &[&[&Plan]],
        in_flight: usize,
        context: &Context,
        run: impl Fn(&[&Plan], &mut Workspace) -> Result<Vec<Answer>, ExecError> + Sync,
    ) -> Answers {
        let mut answers = Vec::with_capacity(rounds.iter().map(|round| round.len()).sum());
        for (round, done) in
            rounds.iter().zip(self.workspaces.rounds(rounds, in_flight, context, run))
        {
            match done {
                Some(done) => answers.extend(done),
                None => answers.extend(round.iter().map(|plan| Ok(Answer::nothing(plan)))),
            }
        }
        answers
    }
}

/// The lists that answer a round.
enum Source {
    /// All lists on the device, as tiles.
    Tiles(Arc<[SegmentImage]>),
    /// Lists that are loaded when queries need them.
    OnDemand(Arc<OnDemand>),
}

/// Turns a failure to load an index into a setup fault: it is not the fault of one query, because
/// every query would fail.
fn as_setup(error: ExecError) -> ExecError {
    match error {
        ExecError::Device { fault: Fault::Query, source } => {
            ExecError::Device { fault: Fault::Setup, source }
        }
        error => error,
    }
}

/// Returns true if an index does not fit on the device as tiles.
fn is_too_large(error: &ExecError) -> bool {
    let ExecError::Device { source, .. } = error else { return false };
    source.downcast_ref().is_some_and(DeviceError::is_short)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if the plan requests hits or a count and can have matches.
fn asks(plan: &Plan) -> bool {
    let hopeless = plan.mode == Mode::And && plan.lacks_terms();
    (plan.k > 0 || plan.count) && !plan.terms.is_empty() && !hopeless
}

impl Engine for GpuEngine {
    fn name(&self) -> &'static str {
        "gpu"
    }

    fn device(&self) -> String {
        self.device.info().name.clone()
    }

    fn snapshot(&self) -> SnapshotId {
        self.snapshot.id()
    }

    fn candidates(&self, plan: &Plan, _alone: bool, _context: &Context) -> Vec<Candidate> {
        self.offers(plan).to_vec()
    }

    fn takes(&self) -> Takes {
        Takes { masks: true, ..Takes::default() }
    }

    fn supports(&self, plan: &Plan) -> Result<(), &'static str> {
        self.why_not(plan).map_or(Ok(()), Err)
    }

    fn cost(&self, plans: &[&Plan], context: &Context) -> Duration {
        let answered = batch_time(plans.iter().copied(), context.threads(), |plan, load| {
            cheapest(&self.offers(plan), load)?.rates.ok()
        });
        // Lists that are not on the device as tiles must be copied or made first.
        let on_demand = lock(&self.on_demand).last().map(|(_, lists)| lists.clone());
        let (bytes, postings) = on_demand.map_or((0, 0), |lists| lists.missing(plans));
        answered
            + Duration::from_secs_f64(
                bytes as f64 * MISSING_BYTE + postings as f64 * MISSING_POSTING,
            )
    }

    fn absent(&self, plan: &Plan) -> u64 {
        let Ok(on_demand) = self.on_demand.try_lock() else { return 0 };
        let lists = on_demand.last().map(|(_, lists)| lists.clone());
        drop(on_demand);
        lists.map_or(0, |lists| lists.absent(plan))
    }

    fn prepare(&self, formulas: &Formulas, context: &Context) -> Result<(), ExecError> {
        self.load(formulas, context.threads())
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        answer_supported(self, plans, |plans| {
            let answer = |shared, plans: &[&Plan]| self.answer(shared, plans, context);
            self.in_groups(plans, context, |plan| self.group(plan), answer)
        })
    }
}
