//! An index opened for searching with the ranking and engine asked for.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use warpseek_exec::{
    Answer, Engine, ExecError, Mode, Plan, Planner, Query, Ranking, Reference, in_parallel,
};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_exec_gpu::{CohortEngine, CohortSettings, GpuEngine, IntersectEngine, Settings};
use warpseek_index::Snapshot;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::{EngineChoice, Place, Searching};
use crate::progress::Display;
use crate::terminal::note;

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
}

/// What the options say of cohorts on a GPU.
fn cohort_settings(options: &Searching) -> CohortSettings {
    let default = CohortSettings::default();
    CohortSettings {
        cohort: options.cohort.map_or(default.cohort, usize::from),
        tile: options.answering.tile.unwrap_or(default.tile),
        ..default
    }
}

/// The GPU's part.
#[derive(Default)]
struct Gpu {
    /// What answers; none if it is not to, or not any more.
    engine: Option<Arc<dyn Engine>>,
    /// The same, if it loads the index as tiles.
    tiles: Option<Arc<GpuEngine>>,
    /// Name of the GPU that answers, or did.
    name: Option<String>,
    /// Why none does, though it might.
    why_not: Option<String>,
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
        let mut gpu_part = Gpu { why_not, ..Gpu::default() };
        match options.algorithm {
            EngineChoice::Intersect if options.mode != Mode::And => {
                return Err(Failure::user("`intersect` answers AND alone; add `--mode and`"));
            }
            EngineChoice::Intersect if gpu.is_none() => {
                return Err(Failure::user(match &gpu_part.why_not {
                    Some(why) => format!("`intersect` needs a GPU: {why}"),
                    None => "`intersect` runs on a GPU; add `--device cuda`".to_owned(),
                }));
            }
            EngineChoice::Auto | EngineChoice::Intersect | EngineChoice::Cpu(Algorithm::Cohort) => {
            }
            _ if gpu.is_some() => {
                let text = "this algorithm is the processor's; a GPU takes `cohort`, `intersect` or `auto`";
                return Err(Failure::user(text));
            }
            _ => {}
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
            EngineChoice::Auto | EngineChoice::Intersect => cpu(None),
            EngineChoice::Cpu(algorithm) => cpu(Some(algorithm)),
            EngineChoice::Reference => Box::new(Reference::new(snapshot.clone(), threads)),
        };
        if let Some(gpu) = gpu {
            let name = gpu.info().name.clone();
            let made = match options.algorithm {
                EngineChoice::Intersect => {
                    IntersectEngine::new(snapshot.clone(), gpu, None, threads)
                        .map(|engine| gpu_part.engine = Some(Arc::new(engine)))
                }
                algorithm => GpuEngine::new(snapshot.clone(), gpu, Settings::default(), threads)
                    .and_then(|engine| {
                        let tiles = Arc::new(engine);
                        gpu_part.tiles = Some(tiles.clone());
                        gpu_part.engine = Some(match algorithm {
                            EngineChoice::Auto => tiles,
                            _ => Arc::new(CohortEngine::new(tiles, cohort_settings(options))?),
                        });
                        Ok(())
                    }),
            };
            match made {
                Ok(()) => gpu_part.name = Some(name),
                Err(error) if options.device.device == Place::Auto => {
                    gpu_part.why_not = Some(error.to_string());
                }
                Err(error) => return Err(error.into()),
            }
        }
        let (options, gpu) = (options.clone(), Mutex::new(gpu_part));
        Ok(Searcher { snapshot, ranking, planner, engine, options, k, threads, gpu })
    }

    /// Copies the index to the GPU, if one answers, and shows it.
    pub(crate) fn load(&self, interrupt: &Interrupt, quiet: bool) -> Result<(), Failure> {
        let Some(engine) = self.gpu().tiles.clone() else { return Ok(()) };
        let display = Display::loading(engine.loading(), interrupt, quiet);
        let loaded = engine.load(self.planner.formula());
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

    /// What a line for people adds where the ranking is approximate.
    pub(crate) fn caution(&self) -> String {
        match self.snapshot.manifest().impacts {
            Some(_) => format!("; ranked by {}", self.ranking_name()),
            None => String::new(),
        }
    }

    /// What answered the plan, and why where that was our choice.
    pub(crate) fn engine_name(&self, plan: &Plan) -> String {
        let gpu = self.gpu();
        if let (Some(engine), Some(device)) = (&gpu.engine, &gpu.name) {
            return format!("{} ({device})", engine.name());
        }
        let no_gpu = |why: &String| format!("; no GPU: {why}");
        let no_gpu = gpu.why_not.as_ref().map_or(String::new(), no_gpu);
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
        match (&gpu.name, &gpu.why_not) {
            (Some(name), None) => Some(format!("on {name}")),
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
        let gpu = self.gpu().engine.clone();
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

    /// Plans and answers a batch.
    pub(crate) fn answer(&self, texts: &[&str]) -> Result<Vec<(Plan, Answer)>, ExecError> {
        let plans = self.plans(texts).map_err(|(_, error)| error)?;
        let answers = self.search(&plans)?;
        Ok(plans.into_iter().zip(answers).collect())
    }
}
