//! The GPU engine. It copies the index to the device, chooses between kernels that skip documents
//! and kernels that score every posting, and answers plans in rounds, several of which are in
//! flight.

mod choice;
mod forecast;
mod pieces;
mod source;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use warpseek_cuda::{Device, DeviceError};
use warpseek_exec::{
    Answer, Answers, Candidate, Context, Engine, ExecError, Formula, Formulas, Mode, Plan, Takes,
    answer_supported, fail_all, only_formula,
};
use warpseek_index::{Segment, Snapshot, SnapshotId};

use crate::failure::failed;
use crate::image::{
    CacheCounts, IN_FLIGHT, ImageCache, Masks, OnDemandByFormula, Residence, SegmentImage,
};
use crate::kernels::make_tiles::MakeKernels;
use crate::loading::Loading;
use crate::resident::Resident;
use crate::round::{self, Kernels, Kind, RoundSetup};
use crate::settings::Settings;
use crate::workspace::{Pool, Workspace};
use forecast::Slowness;
use pieces::{hurry, or_nothing};
use source::Source;

/// Factor by which rounds have more queries if their lists must be made first.
const DEMAND_ROUNDS: usize = 8;

/// Maximum number of queries in a batch that leaves memory for other rounds while its lists are
/// made.
const SMALL_BATCH: usize = 256;

/// Maximum number of formulas for which images are kept.
const MOST_FORMULAS: usize = 8;

/// Maximum number of hits that the queries of a round request together, unless the round is one
/// query.
const ROUND_HITS: usize = 1 << 24;

/// An engine that answers queries on a GPU, one tile of documents after another.
pub struct GpuEngine {
    snapshot: Arc<Snapshot>,
    setup: RoundSetup,
    /// Positions that the engine answers for, if not for all.
    within: Option<Range<u32>>,
    workspaces: Pool,
    /// Kernels that make the image.
    make: Arc<MakeKernels>,
    /// Images of all segments, for the formulas requested last.
    image: Arc<ImageCache<SegmentImage>>,
    /// Segments on the device, shared with engines for other snapshots.
    residence: Arc<Residence>,
    /// Lists that are loaded when queries need them, used if the lists do not all fit as tiles.
    on_demand: Arc<OnDemandByFormula>,
    loading: Arc<Loading>,
    /// The factor by which batches take longer than the cost model predicts.
    slowness: Arc<Slowness>,
}

impl GpuEngine {
    /// Creates an engine for an index. The first query, or [`GpuEngine::load`], copies the index
    /// to the device.
    pub fn new(
        snapshot: Arc<Snapshot>,
        device: Device,
        settings: Settings,
    ) -> Result<Self, DeviceError> {
        let max_static = snapshot.statistics().max_static;
        let setup = RoundSetup::new(device.clone(), settings, max_static)?;
        let make = Arc::new(MakeKernels::new(&device)?);
        let workspaces = Pool::new(device);
        let image = Arc::new(ImageCache::up_to(MOST_FORMULAS));
        let (residence, on_demand, loading, slowness) = Default::default();
        Ok(GpuEngine {
            snapshot,
            setup,
            within: None,
            workspaces,
            make,
            image,
            residence,
            on_demand,
            loading,
            slowness,
        })
    }

    /// Creates a second engine that shares this one's image. It has other settings, except for
    /// `tile_bits` and `policy`, which the image determines.
    pub fn sharing_image(&self, settings: Settings) -> Self {
        let Settings { tile_bits, policy, .. } = self.setup.settings;
        let settings = Settings { tile_bits, policy, ..settings };
        GpuEngine {
            snapshot: self.snapshot.clone(),
            setup: RoundSetup { settings, ..self.setup.clone() },
            within: self.within.clone(),
            workspaces: Pool::new(self.setup.device.clone()),
            make: self.make.clone(),
            image: self.image.clone(),
            residence: self.residence.clone(),
            on_demand: self.on_demand.clone(),
            loading: self.loading.clone(),
            slowness: self.slowness.clone(),
        }
    }

    /// Makes the engine share segments on the device with all other engines that have this
    /// residence. They must use the same device.
    pub fn in_residence(self, residence: Arc<Residence>) -> Self {
        GpuEngine { residence, ..self }
    }

    /// Replaces the kernels by others that take the same arguments. The image is kept.
    pub fn with_kernels(self, kernels: Kernels) -> Self {
        let setup = RoundSetup { kernels, ..self.setup };
        GpuEngine { setup, ..self }
    }

    /// Returns the device that the engine runs on.
    pub fn device(&self) -> &Device {
        &self.setup.device
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.setup.settings
    }

    /// Returns the state that all rounds of the engine share, for rounds with other kernels.
    pub fn setup(&self) -> &RoundSetup {
        &self.setup
    }

    /// Returns the largest static score of the index.
    pub fn max_static(&self) -> f32 {
        self.setup.max_static
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

    /// Copies the index to the device with this many host threads, and computes the values of the
    /// one formula in `formulas`. If the lists do not all fit as tiles, they are loaded when
    /// queries need them.
    pub fn load(&self, formulas: &Formulas, threads: usize) -> Result<(), ExecError> {
        self.source(only_formula(self, formulas)?, threads).map(|_| ())
    }

    /// Returns the progress of the copy, which can be displayed or cancelled.
    pub fn loading(&self) -> &Arc<Loading> {
        &self.loading
    }

    /// Returns the counters of the list cache, or `None` if all lists are on the device as tiles.
    pub fn cache_counts(&self) -> Option<CacheCounts> {
        self.resident().now().cache
    }

    /// Returns a handle that reports the engine's data on the device at any time.
    pub fn resident(&self) -> Resident {
        let (device, loading) = (self.setup.device.clone(), self.loading.clone());
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
            self.rounds(plans, most, self.settings().in_flight, context, run)
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
        let settings = self.settings();
        match self.source(formula, context.threads()) {
            Err(error) => fail_all(plans, &error),
            Ok(Source::Tiles(image)) => {
                let context = &context.with_pool(warpseek_exec::Pool::shared(1));
                let forecast = self.forecast(plans, formula, None, context);
                let piece = forecast.piece;
                let run = |plans: &[&Plan], workspace: &mut Workspace| {
                    let pace = self.pace(piece, plans, context);
                    let group = (mode, kind);
                    let done =
                        round::run(&self.setup, &image, group, plans, workspace, context, pace);
                    or_nothing(done, plans)
                };
                let in_flight = self.in_flight(piece, settings.in_flight);
                let answers = self.rounds(plans, settings.round, in_flight, context, run);
                forecast.learn(&self.slowness, &answers);
                answers
            }
            Ok(Source::OnDemand(lists)) => {
                let (threads, large) = (context.threads(), plans.len() > SMALL_BATCH);
                let forecast = self.forecast(plans, formula, Some(&lists), context);
                let piece = forecast.piece;
                let answer = |plans: &[&Plan], workspace: &mut Workspace| loop {
                    let (group, pace) = ((mode, kind), self.pace(piece, plans, context));
                    let hurry = hurry(&pace);
                    let mut found = lists.provide(plans, workspace, threads, large, hurry)?;
                    let images = found.images();
                    let answers =
                        round::run(&self.setup, images, group, plans, workspace, context, pace)?;
                    if found.check()? {
                        return Ok(answers);
                    }
                };
                let run = |plans: &[&Plan], workspace: &mut Workspace| {
                    or_nothing(answer(plans, workspace), plans)
                };
                let docs = self.snapshot.doc_limit() as usize;
                let k = plans.iter().map(|plan| plan.k.min(docs)).max().unwrap_or(0);
                let most = (settings.round * DEMAND_ROUNDS).min(lists.most_queries(k));
                let most = most.min(ROUND_HITS / k.max(1)).max(1);
                let most = most.min(Masks::most_queries(&self.setup.device, plans));
                let mut order: Vec<usize> = (0..plans.len()).collect();
                let mut rounds = lists.rounds(plans, most, large);
                let ordered: Vec<&Plan>;
                if rounds.len() > 1 {
                    // Neighbours share lists.
                    order = lists.order(plans);
                    ordered = order.iter().map(|&i| plans[i]).collect();
                    rounds = lists.rounds(&ordered, most, large);
                }
                let in_flight = self.in_flight(piece, settings.in_flight.min(IN_FLIGHT));
                let answers = self.run_rounds(&rounds, in_flight, context, run);
                forecast.learn(&self.slowness, &answers);
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
        let most = most.min(Masks::most_queries(&self.setup.device, plans));
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
        let run = |plans: &[&Plan], workspace: &mut Workspace| {
            let answers = run(plans, workspace)?;
            for (plan, answer) in plans.iter().zip(&answers) {
                context.publish(plan, &answer.hits);
            }
            Ok(answers)
        };
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
        self.setup.device.info().name.clone()
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
        self.estimate(plans, context)
    }

    fn absent(&self, plan: &Plan) -> u64 {
        let lists = self.on_demand.try_like(plan.formulas.of(0));
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
