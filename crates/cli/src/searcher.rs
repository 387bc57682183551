//! An index opened for searching with the ranking and engine asked for.

use std::path::Path;
use std::sync::Arc;

use warpseek_exec::{
    Answer, Engine, ExecError, Plan, Planner, Query, Ranking, Reference, in_parallel,
};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_exec_gpu::pruned::{PrunedEngine, Pruning};
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_index::Snapshot;

use crate::failure::Failure;
use crate::options::{EngineChoice, Searching};

/// Queries in a batch for each thread, and for a GPU.
const BATCH_A_THREAD: usize = 64;
const BATCH_A_GPU: usize = 1 << 14;

/// What went wrong in a batch; where that is one query, with its place in the batch.
pub(crate) type BatchError = (Option<usize>, ExecError);

pub(crate) struct Searcher {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) ranking: Ranking,
    planner: Planner,
    engine: Box<dyn Engine>,
    options: Searching,
    k: usize,
    threads: usize,
    /// Name of the GPU that answers.
    device: Option<String>,
    /// Why no GPU does, though it might.
    why_not: Option<String>,
    /// Whether hits may differ from those of other engines.
    approximate: bool,
}

impl Searcher {
    pub(crate) fn open(
        dir: &Path,
        options: &Searching,
        k: usize,
        threads: usize,
    ) -> Result<Self, Failure> {
        let snapshot = Arc::new(Snapshot::open(dir)?);
        let ranking = options.answering.ranking.get(snapshot.manifest())?;
        let planner = Planner::new(snapshot.clone(), ranking)?;
        let (gpu, why_not) = options.device.open()?;
        let device = gpu.as_ref().map(|gpu| gpu.info().name.clone());
        let pruning = match options.algorithm {
            EngineChoice::Cpu(Algorithm::Wand) => Some(Pruning::Wand),
            EngineChoice::Cpu(Algorithm::MaxScore) => Some(Pruning::MaxScore),
            _ => None,
        };
        if gpu.is_some() && pruning.is_none() && options.algorithm != EngineChoice::Auto {
            let problem =
                "a GPU has the algorithms auto, wand and maxscore; the others need --device cpu";
            return Err(Failure::user(problem));
        }
        if !options.pruning.is_empty() && (gpu.is_none() || pruning.is_none()) {
            let problem = "--partition, --partition-size, --partitions-per-block, --threshold, --batch and --gpu-codec \
                           need --device cuda and --algorithm wand or maxscore";
            return Err(Failure::user(problem));
        }
        let settings = pruning.map(|pruning| options.pruning.settings(pruning));
        let approximate =
            gpu.is_some() && settings.is_some_and(|settings| settings.is_approximate());
        let cpu = |algorithm| {
            let engine = CpuEngine::new(snapshot.clone(), algorithm, threads);
            Box::new(match options.answering.tile {
                Some(docs) => engine.with_tile(docs),
                None => engine,
            })
        };
        let engine: Box<dyn Engine> = match options.algorithm {
            EngineChoice::Auto if let Some(gpu) = gpu.clone() => {
                let settings = Settings::default();
                let engine = GpuEngine::new(snapshot.clone(), gpu, settings, threads);
                Box::new(engine.map_err(Failure::user)?)
            }
            EngineChoice::Cpu(_) if let (Some(gpu), Some(settings)) = (&gpu, settings) => {
                let engine = PrunedEngine::new(snapshot.clone(), gpu.clone(), settings, threads);
                Box::new(engine.map_err(Failure::user)?)
            }
            EngineChoice::Auto => cpu(None),
            EngineChoice::Cpu(algorithm) => cpu(Some(algorithm)),
            EngineChoice::Reference => Box::new(Reference::new(snapshot.clone(), threads)),
        };
        let options = options.clone();
        Ok(Searcher {
            snapshot,
            ranking,
            planner,
            engine,
            options,
            k,
            threads,
            device,
            why_not,
            approximate,
        })
    }

    /// The name of the ranking, which says so where it is approximate.
    pub(crate) fn ranking_name(&self) -> String {
        self.planner.ranking_name()
    }

    /// What a line for people adds where the ranking or the engine is approximate.
    pub(crate) fn caution(&self) -> String {
        let engine = if self.approximate { "; homogeneous partitions: approximate" } else { "" };
        match self.snapshot.manifest().impacts {
            Some(_) => format!("; ranked by {}{engine}", self.ranking_name()),
            None => engine.to_owned(),
        }
    }

    /// Whether hits are not quite those that the text has.
    pub(crate) fn is_approximate(&self) -> bool {
        self.approximate || self.snapshot.manifest().impacts.is_some()
    }

    /// What answered the plan, and why where that was our choice.
    pub(crate) fn engine_name(&self, plan: &Plan) -> String {
        if let Some(device) = &self.device {
            return format!("{} ({device})", self.engine.name());
        }
        let no_gpu = |why: &String| format!("; no GPU: {why}");
        let no_gpu = self.why_not.as_ref().map_or(String::new(), no_gpu);
        match self.options.algorithm {
            EngineChoice::Auto => {
                let documents = self.snapshot.statistics().documents;
                let (algorithm, why) = Algorithm::choose(plan, documents, self.threads);
                format!("{algorithm} ({why}{no_gpu})")
            }
            _ => self.engine.name().to_owned(),
        }
    }

    /// Queries that are best answered at once.
    pub(crate) fn batch(&self) -> usize {
        if self.device.is_some() { BATCH_A_GPU } else { BATCH_A_THREAD * self.threads }
    }

    /// One line on where queries are answered, where that was asked for.
    pub(crate) fn place(&self) -> Option<String> {
        match (&self.device, &self.why_not) {
            (Some(device), _) => Some(format!("on {device}")),
            (None, Some(why)) => Some(format!("on the processor: {why}")),
            (None, None) => None,
        }
    }

    pub(crate) fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
        self.engine.set_threads(threads);
    }

    pub(crate) fn plan(&self, text: &str) -> Result<Plan, ExecError> {
        let manifest = self.snapshot.manifest();
        let query = Query::parse(text, manifest.analyzer, manifest.content)?;
        let plan = self.planner.plan(&query, self.options.mode, self.k)?;
        Ok(Plan { count: self.options.answering.count, ..plan })
    }

    /// Plans and answers a batch.
    pub(crate) fn answer(&self, texts: &[&str]) -> Result<Vec<(Plan, Answer)>, BatchError> {
        let numbered: Vec<_> = texts.iter().copied().enumerate().collect();
        let plan =
            |(): &mut (), &(i, text): &(usize, &str)| self.plan(text).map_err(|e| (Some(i), e));
        let plans = in_parallel(&numbered, self.threads, || (), plan)?;
        let answers = self.engine.search(&plans).map_err(|e| (None, e))?;
        Ok(plans.into_iter().zip(answers).collect())
    }
}
