//! The engine for WAND and MaxScore in partitions: it loads the image, divides batches into
//! rounds, and chooses the kernel that the settings name.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use warpseek_exec::{
    ASKED_FOR, Answer, Answers, Candidate, Context, Engine, ExecError, Formula, Formulas, Mode,
    Plan, Rates, Work, answer_supported, fail_all, only_formula,
};
use warpseek_index::{Snapshot, SnapshotId};

use super::round::{self, Workspace};
use super::runtime::Runtime;
use super::settings::{PartitionSettings, Partitioning, Pruning};
use crate::SegmentLists;
use crate::kernels::partitioned::shared_bytes;
use warpseek_cuda::{Device, DeviceError};
use warpseek_exec_gpu::failed;
use warpseek_exec_gpu::image::ImageCache;
use warpseek_exec_gpu::limits::check_shared;

/// Maximum number of hits for the queries of a round together, unless the round is one query.
const ROUND_HITS: usize = 1 << 22;

/// Costs on an H200 with 128 hits, in batches of 100 queries (docs/measurements/gpu.md).
const WAND: Rates = Rates::device(160_000.0, 2_000.0, 0.117, 7.0);
const MAXSCORE: Rates = Rates::device(160_000.0, 2_000.0, 0.07, 7.0);

/// The work that the maxima of blocks saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuledOut {
    /// Number of blocks that were passed over without being decoded.
    pub blocks: u64,
    /// Number of documents that were not looked up in a list.
    pub documents: u64,
}

/// An engine that answers queries on a GPU by WAND or MaxScore.
pub struct PartitionedEngine {
    runtime: Runtime,
    snapshot: Arc<Snapshot>,
    /// The documents that the engine answers for, if not all, by position counted over all
    /// segments.
    within: Option<Range<u32>>,
    workspace: Mutex<Workspace>,
    /// The images of all segments, for one formula.
    image: ImageCache<SegmentLists>,
    loaded: AtomicU64,
}

impl PartitionedEngine {
    /// Creates an engine for an index, which is copied to the device with the first query or by
    /// [`PartitionedEngine::load`].
    pub fn new(
        snapshot: Arc<Snapshot>,
        device: Device,
        settings: PartitionSettings,
    ) -> Result<Self, DeviceError> {
        let runtime = Runtime::new(device, settings, snapshot.statistics().max_static)?;
        let (within, workspace, image, loaded) = Default::default();
        Ok(PartitionedEngine { runtime, snapshot, within, workspace, image, loaded })
    }

    /// Restricts the engine to a range of documents, by position counted over all segments. Only
    /// their postings are copied to the device; other engines answer for the rest.
    ///
    /// # Panics
    /// Panics if partitions are homogeneous: hits of parts of the documents are merged, which
    /// requires that those of each part are exact.
    pub fn within(self, docs: Range<u32>) -> Self {
        assert!(!self.runtime.settings.is_approximate(), "homogeneous partitions are approximate");
        PartitionedEngine { within: Some(docs), ..self }
    }

    /// Changes the settings. Lists stay on the device if their codec stays the same.
    pub fn set(&mut self, settings: PartitionSettings) -> Result<(), DeviceError> {
        if settings.codec != self.runtime.settings.codec {
            self.image = ImageCache::default();
        }
        if self.runtime.set(settings)? {
            // The memory of rounds is by stream.
            let workspace = self.workspace.get_mut().unwrap_or_else(PoisonError::into_inner);
            *workspace = Workspace::default();
        }
        Ok(())
    }

    /// Returns the settings.
    pub fn settings(&self) -> &PartitionSettings {
        &self.runtime.settings
    }

    /// Returns the reason why the engine cannot answer a plan, or `None` if it can.
    pub fn why_not(&self, plan: &Plan) -> Option<&'static str> {
        let most = u64::from(self.snapshot.doc_limit()).max(1);
        let k = (plan.k as u64).clamp(1, most) as u32;
        let room =
            check_shared(self.runtime.kernel.kernel(), shared_bytes(k, plan.terms.len())).is_ok();
        (!room).then_some("shared memory is too small for the best keys and the lists' cursors")
    }

    /// Copies the index to the device, for a formula.
    pub fn load(&self, formulas: &Formulas, threads: usize) -> Result<(), ExecError> {
        self.image(only_formula(self, formulas)?, threads).map(|_| ())
    }

    /// Returns the number of postings copied so far, for progress displays.
    pub fn loaded(&self) -> &AtomicU64 {
        &self.loaded
    }

    /// Switches the timing of kernels on or off. Timing waits for kernels, which takes time
    /// itself.
    pub fn time_kernels(&self, timed: bool) {
        self.runtime.timed.store(timed, Ordering::Relaxed);
    }

    /// Returns the time for which kernels ran since the last call.
    pub fn take_device_time(&self) -> Duration {
        Duration::from_nanos(self.runtime.device_time.swap(0, Ordering::Relaxed))
    }

    /// Returns the work that block maxima saved since the last call, and resets it.
    pub fn take_ruled_out(&self) -> RuledOut {
        let [blocks, documents] = &self.runtime.ruled_out;
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        RuledOut { blocks: take(blocks), documents: take(documents) }
    }

    fn image(&self, formula: Formula, threads: usize) -> Result<Arc<[SegmentLists]>, ExecError> {
        let (device, codec) = (&self.runtime.device, self.runtime.settings.codec);
        self.image.get(formula, |_| {
            let (snapshot, loaded) = (&self.snapshot, &self.loaded);
            let within = self.within.as_ref();
            SegmentLists::load_all(device, snapshot, within, formula, codec, threads, loaded)
        })
    }

    /// Answers some of the plans in one mode, in rounds; no round begins once time is up.
    fn pass(
        &self,
        plans: &[&Plan],
        mode: Mode,
        mut left: Vec<usize>,
        context: &Context,
        answers: &mut Answers,
    ) {
        let docs = self.snapshot.doc_limit() as usize;
        let k = left.iter().map(|&i| plans[i].k.min(docs)).max().unwrap_or(0);
        // If queries need many hits, only few of them fit in a round.
        let most = self.runtime.settings.round.min(ROUND_HITS / k.max(1)).max(1);
        while let Some(&first) = left.first() {
            let formula = plans[first].formulas.of(0);
            let mut chosen: Vec<usize> = Vec::new();
            left.retain(|&i| {
                let take = chosen.len() < most && plans[i].formulas.of(0) == formula;
                if take {
                    chosen.push(i);
                }
                !take
            });
            let chosen_plans: Vec<&Plan> = chosen.iter().map(|&i| plans[i]).collect();
            let round = match context.is_over() {
                true => chosen_plans.iter().map(|plan| Ok(Answer::nothing(plan))).collect(),
                false => match self.round(formula, mode, &chosen_plans, context) {
                    Ok(done) => done.into_iter().map(Ok).collect(),
                    Err(error) => fail_all(&chosen_plans, &error),
                },
            };
            for (i, mut answer) in chosen.into_iter().zip(round) {
                // The work of a first pass counts, too.
                if let (Ok(answer), Ok(before)) = (&mut answer, &answers[i]) {
                    answer.add_work(before.work);
                }
                answers[i] = answer;
            }
        }
    }

    fn round(
        &self,
        formula: Formula,
        mode: Mode,
        plans: &[&Plan],
        context: &Context,
    ) -> Result<Vec<Answer>, ExecError> {
        let image = self.image(formula, context.threads())?;
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = round::run(&self.runtime, &image, mode, plans, context, &mut workspace)
            .map_err(failed)?;
        if !self.runtime.settings.is_approximate() {
            for (plan, answer) in plans.iter().zip(&answers) {
                context.publish(plan, &answer.hits);
            }
        }
        Ok(answers)
    }
}

impl Engine for PartitionedEngine {
    fn name(&self) -> &'static str {
        match (self.runtime.settings.pruning, self.runtime.settings.partitioning) {
            (Pruning::Wand, Partitioning::Heterogeneous) => "gpu-wand",
            (Pruning::MaxScore, Partitioning::Heterogeneous) => "gpu-maxscore",
            (Pruning::Wand, Partitioning::Homogeneous) => "gpu-wand-approximate",
            (Pruning::MaxScore, Partitioning::Homogeneous) => "gpu-maxscore-approximate",
        }
    }

    fn device(&self) -> String {
        self.runtime.device.info().name.clone()
    }

    fn snapshot(&self) -> SnapshotId {
        self.snapshot.id()
    }

    fn candidates(&self, plan: &Plan, _alone: bool, _context: &Context) -> Vec<Candidate> {
        let rates = match self.runtime.settings.pruning {
            Pruning::Wand => WAND,
            Pruning::MaxScore => MAXSCORE,
        };
        let rates = self.why_not(plan).map_or(Ok(rates), Err);
        vec![Candidate { algorithm: self.name(), rates, why: ASKED_FOR }]
    }

    fn prepare(&self, formulas: &Formulas, context: &Context) -> Result<(), ExecError> {
        self.load(formulas, context.threads())
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        answer_supported(self, plans, |plans| {
            let nothing = |plan: &&Plan| {
                let (matches, work) = (plan.count.then_some(0), Some(Work::default()));
                Ok(Answer { matches, work, ..Answer::default() })
            };
            let mut answers: Answers = plans.iter().map(nothing).collect();
            let asks = |plan: &Plan| (plan.k > 0 || plan.count) && !plan.terms.is_empty();
            let select = |wanted: &dyn Fn(usize) -> bool| -> Vec<usize> {
                (0..plans.len()).filter(|&i| asks(plans[i]) && wanted(i)).collect()
            };
            let and = select(&|i| plans[i].mode != Mode::Or && !plans[i].lacks_terms());
            self.pass(plans, Mode::And, and, context, &mut answers);
            let short = |i: usize| {
                let few = answers[i].as_ref().is_ok_and(|answer| answer.hits.len() < plans[i].k);
                plans[i].mode == Mode::AndOr && few
            };
            let or = select(&|i| plans[i].mode == Mode::Or || short(i));
            self.pass(plans, Mode::Or, or, context, &mut answers);
            answers
        })
    }
}
