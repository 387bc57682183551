//! An index opened for searching with the ranking and engine asked for.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use warpseek_exec::{
    Answer, Engine, ExecError, Mode, Plan, Planner, Query, Ranking, Reference, in_parallel,
};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_exec_gpu::Loading;
use warpseek_index::Snapshot;
use warpseek_sched::Estimate;

use crate::decision::Decision;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machines::{COSTS, Machines, Maker};
use crate::options::{EngineChoice, Place, Searching, Split};
use crate::progress::Display;
use crate::terminal::{count, note};

/// Queries in a batch for each thread, and for a GPU.
const BATCH_A_THREAD: usize = 64;
const BATCH_A_GPU: usize = 1 << 14;

/// Hits that the queries of a GPU's batch may ask for together: three batches are under way at a time.
const BATCH_HITS: usize = 1 << 22;

pub(crate) struct Searcher {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) ranking: Ranking,
    planner: Planner,
    /// Of the processor, which answers where no GPU does.
    engine: Box<dyn Engine>,
    options: Searching,
    k: usize,
    threads: usize,
    gpu: Mutex<Gpu>,
    /// Queries that the processor answered because it is faster.
    stayed: AtomicU64,
}

/// The GPU's part.
#[derive(Default)]
struct Gpu {
    /// What answers; none if it is not to, or not any more.
    engine: Option<Arc<dyn Engine>>,
    /// Copies of the index to GPUs.
    loadings: Vec<Arc<Loading>>,
    /// Name of the GPU that answers, or did, or of all that do so together.
    name: Option<String>,
    /// The processor's part of the documents, where it takes one or was to.
    host: Option<String>,
    /// Queries that it answered, where it takes some of a batch.
    helped: Option<Arc<AtomicU64>>,
    /// Why none does, though it might.
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
        let (gpus, why_not) = options.device.open()?;
        let mut gpu_part = Gpu { why_not, ..Gpu::default() };
        let pruning = options.gpu_pruning();
        let cohort = options.algorithm == EngineChoice::Cpu(Algorithm::Cohort);
        match options.algorithm {
            EngineChoice::Intersect if options.mode != Mode::And => {
                return Err(Failure::user("`intersect` answers AND alone; add `--mode and`"));
            }
            EngineChoice::Intersect | EngineChoice::Exhaustive if gpus.is_empty() => {
                let name = options.algorithm.name();
                return Err(Failure::user(match &gpu_part.why_not {
                    Some(why) => format!("`{name}` needs a GPU: {why}"),
                    None => format!("`{name}` runs on a GPU; add `--device cuda`"),
                }));
            }
            _ if (cohort || options.algorithm == EngineChoice::Intersect || pruning.is_some())
                && options.device.split == Split::Documents
                && (gpus.len() > 1 || options.device.device == Place::Both) =>
            {
                return Err(Failure::user(
                    "this algorithm takes all documents; add `--split queries`, or name one GPU",
                ));
            }
            EngineChoice::Auto | EngineChoice::Intersect | EngineChoice::Exhaustive => {}
            _ if !gpus.is_empty() && pruning.is_none() && !cohort => {
                let problem = "a GPU has the algorithms auto, exhaustive, wand, maxscore, cohort and intersect; the others need --device cpu";
                return Err(Failure::user(problem));
            }
            _ => {}
        }
        if !options.pruning.is_empty() && (gpus.is_empty() || pruning.is_none()) {
            let problem = "--partition, --partition-size, --partitions-per-block, --threshold, --batch and --gpu-codec \
                           need --device cuda and --algorithm wand or maxscore";
            return Err(Failure::user(problem));
        }
        let cpu = |algorithm| {
            let engine = CpuEngine::new(snapshot.clone(), algorithm, threads);
            Box::new(match options.answering.tile {
                Some(docs) => engine.with_tile(docs),
                None => engine,
            })
        };
        let engine: Box<dyn Engine> = match options.algorithm {
            // Where a GPU fails.
            EngineChoice::Auto | EngineChoice::Intersect | EngineChoice::Exhaustive => cpu(None),
            EngineChoice::Cpu(algorithm) => cpu(Some(algorithm)),
            EngineChoice::Reference => Box::new(Reference::new(snapshot.clone(), threads)),
        };
        if !gpus.is_empty() {
            let maker = Maker { snapshot: &snapshot, planner: &planner, options, k, threads };
            match maker.make(&gpus) {
                Ok(Machines { engine, loadings, name, host, helped }) => {
                    gpu_part.engine = Some(engine);
                    gpu_part.loadings = loadings;
                    gpu_part.name = Some(name);
                    (gpu_part.host, gpu_part.helped) = (host, helped);
                    gpu_part.approximate = pruning.is_some_and(|p| p.is_approximate());
                }
                Err(ExecError::Device(error)) if options.device.device == Place::Auto => {
                    gpu_part.why_not = Some(error.to_string());
                }
                Err(error) => return Err(error.into()),
            }
        }
        let (options, gpu, stayed) = (options.clone(), Mutex::new(gpu_part), AtomicU64::new(0));
        Ok(Searcher { snapshot, ranking, planner, engine, options, k, threads, gpu, stayed })
    }

    /// Copies the index to the GPU, if one answers, and shows it.
    pub(crate) fn load(&self, interrupt: &Interrupt, quiet: bool) -> Result<(), Failure> {
        let gpu = self.gpu();
        let (engine, loadings) = (gpu.engine.clone(), gpu.loadings.clone());
        drop(gpu);
        let Some(engine) = engine.filter(|_| !loadings.is_empty()) else { return Ok(()) };
        let display = Display::loading(&loadings, interrupt, quiet);
        let loaded = engine.prepare(self.planner.formula());
        drop(display);
        match loaded {
            Err(ExecError::Device(error)) if self.options.device.device == Place::Auto => {
                *self.gpu() = Gpu { why_not: Some(error.to_string()), ..Gpu::default() };
                Ok(())
            }
            loaded => Ok(loaded?),
        }
    }

    fn gpu(&self) -> std::sync::MutexGuard<'_, Gpu> {
        self.gpu.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of the ranking, which says so where it is approximate.
    pub(crate) fn ranking_name(&self) -> String {
        self.planner.ranking_name()
    }

    /// What a line for people adds where the ranking or the engine is approximate.
    pub(crate) fn caution(&self) -> String {
        let engine =
            if self.gpu().approximate { "; homogeneous partitions: approximate" } else { "" };
        match self.snapshot.manifest().impacts {
            Some(_) => format!("; ranked by {}{engine}", self.ranking_name()),
            None => engine.to_owned(),
        }
    }

    /// Whether hits are not quite those that the text has.
    pub(crate) fn is_approximate(&self) -> bool {
        self.gpu().approximate || self.snapshot.manifest().impacts.is_some()
    }

    /// What answered the plan, and why where that was our choice.
    pub(crate) fn engine_name(&self, plan: &Plan) -> String {
        let stays = self.stays(std::slice::from_ref(plan));
        let gpu = self.gpu();
        let no_gpu = match (&gpu.engine, &gpu.name, &gpu.why_not) {
            (Some(_), Some(device), _) if stays => format!("; sooner than on {device}"),
            (Some(engine), Some(device), _) => return format!("{} ({device})", engine.name()),
            (_, _, Some(why)) => format!("; no GPU: {why}"),
            _ => String::new(),
        };
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
        match self.gpu().engine {
            Some(_) => BATCH_A_GPU.min(BATCH_HITS / self.k.max(1)).max(1),
            None => BATCH_A_THREAD * self.threads,
        }
    }

    /// One line on where queries are answered, where that was asked for.
    pub(crate) fn place(&self) -> Option<String> {
        let gpu = self.gpu();
        let some = |queries: u64, why: &str| match queries {
            0 => String::new(),
            n => format!(", {} of them on the processor{why},", count(n)),
        };
        match (&gpu.name, &gpu.why_not) {
            (Some(name), None) => {
                let stayed = some(self.stayed.load(Ordering::Relaxed), ", which is sooner done");
                let helped = gpu.helped.as_ref().map_or(0, |helped| helped.load(Ordering::Relaxed));
                let (helped, host) = (some(helped, ""), gpu.host.iter());
                let host: String = host.map(|host| format!(" ({host})")).collect();
                Some(format!("on {name}{stayed}{helped}{host}"))
            }
            (Some(name), Some(_)) => Some(format!("on {name}, then on the processor")),
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

    /// Plans a batch; an error has the place of the query.
    pub(crate) fn plans(&self, texts: &[&str]) -> Result<Vec<Plan>, (usize, ExecError)> {
        let numbered: Vec<_> = texts.iter().copied().enumerate().collect();
        let plan = |(): &mut (), &(i, text): &(usize, &str)| self.plan(text).map_err(|e| (i, e));
        in_parallel(&numbered, self.threads, || (), plan)
    }

    /// Answers a batch. If the GPU fails and we may choose, it is the processor that answers, from this batch on.
    pub(crate) fn search(&self, plans: &[Plan]) -> Result<Vec<Answer>, ExecError> {
        let stays = self.stays(plans);
        if stays {
            self.stayed.fetch_add(plans.len() as u64, Ordering::Relaxed);
        }
        let gpu = self.gpu().engine.clone().filter(|_| !stays);
        match gpu.map(|engine| engine.search(plans)) {
            Some(Err(ExecError::Device(error))) if self.options.device.device == Place::Auto => {
                let mut gpu = self.gpu();
                gpu.engine = None;
                // Once, also if several batches fail.
                if gpu.why_not.is_none() {
                    gpu.why_not = Some(error.to_string());
                    note(format!(
                        "the GPU failed, and the processor answers from here on: {error}"
                    ));
                }
            }
            Some(answered) => return answered,
            None => {}
        }
        self.engine.search(plans)
    }

    /// What a batch takes here and there, and by which algorithm, if there is a GPU and we may choose.
    fn estimate(&self, plans: &[Plan]) -> Option<Estimate> {
        let chooses = self.options.algorithm == EngineChoice::Auto && self.gpu().engine.is_some();
        chooses.then(|| COSTS.estimate(plans, self.threads))
    }

    /// Whether a batch is the processor's though a GPU is there.
    pub(crate) fn stays(&self, plans: &[Plan]) -> bool {
        // Else it need not be known.
        if self.options.device.device != Place::Auto {
            return false;
        }
        self.estimate(plans).is_some_and(|estimate| match self.options.device.gpu_from {
            Some(least) => estimate.load.postings < least,
            None => estimate.processor <= estimate.gpu,
        })
    }

    /// How a batch is answered, and why.
    pub(crate) fn decide(&self, plans: &[Plan]) -> Decision {
        let estimate = self.estimate(plans);
        let stays = self.stays(plans);
        let gpu = self.gpu();
        let (engine, host) = (gpu.engine.clone().filter(|_| !stays), gpu.host.clone());
        drop(gpu);
        let mut choices = match &engine {
            Some(engine) => engine.explain(plans),
            None => self.engine.explain(plans),
        };
        let asked = self.options.device.gpu_from.is_some();
        let reason = match (stays, asked) {
            _ if self.options.device.device != Place::Auto => host,
            _ if estimate.is_none() => None,
            (true, true) => Some("fewer postings than --gpu-from".to_owned()),
            (false, true) => Some("as many postings as --gpu-from, or more".to_owned()),
            (true, false) => Some("sooner done than on a GPU".to_owned()),
            (false, false) => Some("sooner done than on the processor".to_owned()),
        };
        if let Some(reason) = reason {
            choices.iter_mut().for_each(|choice| choice.why = format!("{reason}; {}", choice.why));
        }
        let documents = self.snapshot.statistics().documents;
        Decision { choices, estimate, documents, threads: self.threads }
    }

    /// Plans and answers a batch.
    pub(crate) fn answer(&self, texts: &[&str]) -> Result<Vec<(Plan, Answer)>, ExecError> {
        let plans = self.plans(texts).map_err(|(_, error)| error)?;
        let answers = self.search(&plans)?;
        Ok(plans.into_iter().zip(answers).collect())
    }
}
