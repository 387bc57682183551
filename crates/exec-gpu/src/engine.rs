use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use warpseek_core::limits::MAX_QUERY_TERMS;
use warpseek_exec::{Answer, Choice, Engine, ExecError, Formula, Mode, Plan};
use warpseek_index::{Segment, Snapshot};

use crate::image::{ImageError, Kept, PRUNED_TERMS, SegmentImage, least_bytes};
use crate::kernels::{
    and_tiles, merge, or_tiles, pruned_batch_any_k, pruned_single, pruned_single_two_pass,
    pruned_tiles,
};
use crate::limits::{FEW_TERMS, check_docs};
use crate::loading::Loading;
use crate::round::{self, Kind};
use crate::workspace::{Pool, Workspace};
use warpseek_cuda::{Device, DeviceError, Event, Kernel, Stream};

/// How work is laid out on the device. Hits do not depend on it.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Binary logarithm of documents in a tile, 5 to 15: lists can be entered at each.
    pub tile_bits: u32,
    /// Of documents that OR takes at once, from `tile_bits` and 8 on, to 15 or what fits shared memory: each has two bytes there.
    pub or_bits: u32,
    /// Of documents that AND takes at once, from `tile_bits` and 10 on, to 15 or what fits shared memory: each has three bits and a half there.
    pub and_bits: u32,
    /// Queries in one round at most.
    pub round: usize,
    /// Whether documents without a chance are passed over; else every posting is scored.
    pub pruned: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { tile_bits: 11, or_bits: 12, and_bits: 14, round: 1 << 11, pruned: true }
    }
}

/// Names of what it chooses from.
const PRUNED: &str = "pruned tiles";
const EXHAUSTIVE: &str = "tiles";

/// Rounds of a batch that are on their way at once.
const IN_FLIGHT: usize = 3;

/// Hits that the queries of a round may ask for together, unless it is one query.
const ROUND_HITS: usize = 1 << 24;

/// Answers on a GPU, tile by tile of documents.
pub struct GpuEngine {
    snapshot: Arc<Snapshot>,
    pub(crate) device: Device,
    pub(crate) settings: Settings,
    pub(crate) kernels: Kernels,
    pub(crate) max_static: f32,
    threads: usize,
    /// Places that it answers for, if not for all.
    within: Option<Range<u32>>,
    workspaces: Pool,
    /// The images of all segments, for one formula.
    image: Kept<SegmentImage>,
    loading: Arc<Loading>,
    timed: AtomicBool,
    /// Nanoseconds that kernels ran.
    pub(crate) device_time: AtomicU64,
}

/// The kernels of an engine. Those of one kind take the same arguments.
pub struct Kernels {
    /// `or_tiles`.
    pub or: Kernel,
    /// `or_tiles_many`.
    pub or_many: Kernel,
    /// `and_tiles`.
    pub and: Kernel,
    /// `and_tiles_many`.
    pub and_many: Kernel,
    pub pruned: Kernel,
    pub any_k: Kernel,
    pub single: Kernel,
    pub two_pass: Kernel,
    pub merge: Kernel,
}

impl GpuEngine {
    /// For an index, which is copied to the device when the first query comes or by [`GpuEngine::load`].
    pub fn new(
        snapshot: Arc<Snapshot>,
        device: Device,
        settings: Settings,
        threads: usize,
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
        let (image, loading, device_time, timed) = Default::default();
        Ok(GpuEngine {
            snapshot,
            device,
            settings,
            kernels,
            max_static,
            threads,
            within: None,
            workspaces,
            image,
            loading,
            timed,
            device_time,
        })
    }

    /// The same with other kernels, which must take the same arguments. The image stays.
    pub fn with_kernels(self, kernels: Kernels) -> Self {
        GpuEngine { kernels, ..self }
    }

    /// The device it runs on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How work is laid out.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The largest static score of the index.
    pub fn max_static(&self) -> f32 {
        self.max_static
    }

    /// For a range of documents alone, by place, counted through all segments: its hits are the best of these, its matches theirs. Only they are copied to the
    /// device; others answer for the rest.
    pub fn within(self, docs: Range<u32>) -> Self {
        GpuEngine { within: Some(docs), ..self }
    }

    /// The documents of a segment that it answers for.
    fn docs(&self, segment: &Segment) -> Range<u32> {
        self.within.as_ref().map_or(0..segment.documents().count(), |docs| segment.part(docs))
    }

    /// Copies the index to the device, with the values of a formula.
    pub fn load(&self, formula: Formula) -> Result<(), ExecError> {
        self.image(formula).map(|_| ())
    }

    /// How far the copy is, for those who show it or end it.
    pub fn loading(&self) -> &Arc<Loading> {
        &self.loading
    }

    /// Refuses an index that cannot fit, and says how many postings the image will have.
    fn fits(&self) -> Result<u64, ImageError> {
        check_docs(self.snapshot.segments().iter().map(|s| self.docs(s).len() as u64).sum())?;
        let (mut needed, mut postings) = (0, 0);
        for segment in self.snapshot.segments() {
            needed += least_bytes(segment, &self.docs(segment), self.settings.tile_bits)?;
            postings += segment.dictionary().postings();
        }
        let available = self.device.available()?;
        if needed > available {
            let memory = self.device.memory();
            let left = memory.budget.map_or(u64::MAX, |b| b.saturating_sub(memory.current));
            let budget = needed > left;
            return Err(DeviceError::TooLarge { needed, available, budget }.into());
        }
        Ok(postings)
    }

    /// Whether the time of kernels is taken from now on. Rounds are then as large as can be and run one after the other.
    pub fn time_kernels(&self, timed: bool) {
        self.timed.store(timed, Ordering::Relaxed);
    }

    /// How long kernels ran since this was last asked.
    pub fn take_device_time(&self) -> Duration {
        Duration::from_nanos(self.device_time.swap(0, Ordering::Relaxed))
    }

    /// Starts taking the time, where that is wanted.
    pub fn timer(&self, stream: &Stream) -> Result<Option<Timer>, DeviceError> {
        if !self.is_timed() {
            return Ok(None);
        }
        let start = self.device.event()?;
        stream.record(&start)?;
        Ok(Some(Timer { start, end: self.device.event()? }))
    }

    fn is_timed(&self) -> bool {
        self.timed.load(Ordering::Relaxed)
    }

    /// What runs in one round: one formula, one mode, kernels of one kind.
    fn group(&self, plan: &Plan) -> (Mode, Formula, Kind) {
        let kind = match self.choose(plan).0 {
            PRUNED => Kind::Pruned,
            _ if plan.terms.len() <= FEW_TERMS => Kind::Tiles,
            _ => Kind::ManyTerms,
        };
        (plan.mode, plan.formula, kind)
    }

    /// Why it cannot answer a plan; none if it can.
    pub fn why_not(&self, plan: &Plan) -> Option<&'static str> {
        // Kernels take as many terms as a plan can have.
        let too_many = plan.terms.len() > MAX_QUERY_TERMS;
        too_many.then_some("the query has more terms than a plan can have")
    }

    /// The most sparse lists that a plan has in a segment: those with fewer postings than the segment has tiles. Of a part of the documents it is not known which are, and every
    /// list may be one.
    pub fn sparse_lists(&self, plan: &Plan) -> usize {
        let sparse = |(number, segment): (usize, &Arc<Segment>)| {
            let tiles = segment.documents().count().div_ceil(1 << self.settings.tile_bits);
            let lists = plan.terms.iter().filter_map(|term| term.lists[number].as_ref());
            lists.filter(|list| self.within.is_some() || list.df < tiles).count()
        };
        self.snapshot.segments().iter().enumerate().map(sparse).max().unwrap_or(0)
    }

    /// The algorithm that suits a plan, and why.
    fn choose(&self, plan: &Plan) -> (&'static str, &'static str) {
        match plan {
            _ if !self.settings.pruned => (EXHAUSTIVE, "asked for"),
            plan if plan.count => {
                (EXHAUSTIVE, "all matches are counted only where nothing is passed over")
            }
            plan if plan.terms.len() > PRUNED_TERMS => {
                (EXHAUSTIVE, "so many lists are read faster than documents are looked up in them")
            }
            _ => (PRUNED, "documents without a chance are passed over"),
        }
    }

    pub fn image(&self, formula: Formula) -> Result<Arc<[SegmentImage]>, ExecError> {
        self.image.get(formula, || {
            self.loading.start(self.fits()?);
            let load = |segment: &Arc<Segment>| {
                let (docs, bits) = (self.docs(segment), self.settings.tile_bits);
                let (threads, loading) = (self.threads, &self.loading);
                SegmentImage::load(&self.device, segment, docs, formula, bits, threads, loading)
            };
            self.snapshot.segments().iter().map(load).collect()
        })
    }

    /// Answers plans in rounds of one group each, of so many queries at most; plans of a group have one formula. While one round runs on the device, the next is made
    /// ready and hits of the last are taken out.
    pub fn in_rounds<G: Copy + PartialEq + Sync>(
        &self,
        plans: &[&Plan],
        most: usize,
        group: impl Fn(&Plan) -> G,
        run: impl Fn(G, &[SegmentImage], &[&Plan], &mut Workspace) -> Result<Vec<Answer>, DeviceError>
        + Sync,
    ) -> Result<Vec<Answer>, ExecError> {
        let nothing =
            |plan: &&Plan| Answer { matches: plan.count.then_some(0), ..Answer::default() };
        let mut answers: Vec<Answer> = plans.iter().map(nothing).collect();
        let mut left: Vec<usize> = (0..plans.len()).filter(|&i| asks(plans[i])).collect();
        // Many hits a query leave room for few queries.
        let docs = self.snapshot.doc_limit() as usize;
        let k = left.iter().map(|&i| plans[i].k.min(docs)).max().unwrap_or(0);
        let most = most.min(ROUND_HITS / k.max(1)).max(1);
        let in_flight = if self.is_timed() { 1 } else { IN_FLIGHT };
        while let Some(&first) = left.first() {
            let of = group(plans[first]);
            let (chosen, others): (Vec<usize>, Vec<usize>) =
                left.into_iter().partition(|&i| group(plans[i]) == of);
            left = others;
            let image = self.image(plans[first].formula)?;
            let chosen_plans: Vec<&Plan> = chosen.iter().map(|&i| plans[i]).collect();
            let rounds: Vec<&[&Plan]> = chosen_plans.chunks(most).collect();
            let run =
                |plans: &[&Plan], workspace: &mut Workspace| run(of, &image, plans, workspace);
            let done = self
                .workspaces
                .rounds(&rounds, in_flight, run)
                .map_err(|error| ExecError::Device(Box::new(error)))?;
            for (i, answer) in chosen.into_iter().zip(done) {
                answers[i] = answer;
            }
        }
        Ok(answers)
    }
}

pub struct Timer {
    start: Event,
    end: Event,
}

impl Timer {
    /// Waits, and says how long it was.
    pub fn stop(self, stream: &Stream) -> Result<Duration, DeviceError> {
        stream.record(&self.end)?;
        self.end.synchronize()?;
        self.end.since(&self.start)
    }
}

/// Postings of a plan that are in the image.
fn postings(image: &[SegmentImage], plan: &Plan) -> u64 {
    let lists = plan.terms.iter().flat_map(|term| term.lists.iter().zip(image));
    let of = |(info, image): (&Option<_>, &SegmentImage)| Some(image.postings(info.as_ref()?));
    lists.filter_map(of).map(u64::from).sum()
}

/// Whether there is anything to look for.
fn asks(plan: &Plan) -> bool {
    let hopeless = plan.mode == Mode::And && plan.lacks_terms();
    (plan.k > 0 || plan.count) && !plan.terms.is_empty() && !hopeless
}

impl Engine for GpuEngine {
    fn name(&self) -> &'static str {
        "gpu"
    }

    fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    fn prepare(&self, formula: Formula) -> Result<(), ExecError> {
        self.load(formula)
    }

    fn explain(&self, plans: &[Plan]) -> Vec<Choice> {
        let choice = |plan| {
            let (algorithm, why) = self.choose(plan);
            let place = self.device.info().name.clone();
            Choice { place, algorithm: algorithm.to_owned(), why: why.to_owned() }
        };
        plans.iter().map(choice).collect()
    }

    fn search(&self, plans: &[Plan]) -> Result<Vec<Answer>, ExecError> {
        self.search_some(&plans.iter().collect::<Vec<_>>())
    }

    fn search_some(&self, plans: &[&Plan]) -> Result<Vec<Answer>, ExecError> {
        let most = if self.is_timed() { usize::MAX } else { self.settings.round };
        self.in_rounds(
            plans,
            most,
            |plan| self.group(plan),
            |of, image, plans, workspace| {
                let mut answers = round::run(self, image, of.0, of.2, plans, workspace)?;
                if self.within.is_some() {
                    for (answer, plan) in answers.iter_mut().zip(plans) {
                        if answer.work.postings_scored > 0 {
                            answer.work.postings_scored = postings(image, plan);
                        }
                    }
                }
                Ok(answers)
            },
        )
    }
}
