//! An index opened for searching with the ranking and engine asked for.

use std::path::Path;
use std::sync::Arc;

use warpseek_exec::{Answer, Engine, ExecError, Plan, Planner, Query, Reference, in_parallel};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_index::Snapshot;

use crate::failure::Failure;
use crate::options::{EngineChoice, Searching};

/// What went wrong in a batch; where that is one query, with its place in the batch.
pub(crate) type BatchError = (Option<usize>, ExecError);

pub(crate) struct Searcher {
    pub(crate) snapshot: Arc<Snapshot>,
    planner: Planner,
    engine: Box<dyn Engine>,
    options: Searching,
    k: usize,
    threads: usize,
}

impl Searcher {
    pub(crate) fn open(
        dir: &Path,
        options: &Searching,
        k: usize,
        threads: usize,
    ) -> Result<Self, Failure> {
        let snapshot = Arc::new(Snapshot::open(dir)?);
        let planner = Planner::new(snapshot.clone(), options.ranking(snapshot.manifest())?)?;
        let cpu = |algorithm| {
            let engine = CpuEngine::new(snapshot.clone(), algorithm, threads);
            Box::new(match options.tile {
                Some(docs) => engine.with_tile(docs),
                None => engine,
            })
        };
        let engine: Box<dyn Engine> = match options.algorithm {
            EngineChoice::Auto => cpu(None),
            EngineChoice::Cpu(algorithm) => cpu(Some(algorithm)),
            EngineChoice::Reference => Box::new(Reference::new(snapshot.clone(), threads)),
        };
        Ok(Searcher { snapshot, planner, engine, options: options.clone(), k, threads })
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
        match self.options.algorithm {
            EngineChoice::Auto => {
                let documents = self.snapshot.statistics().documents;
                let (algorithm, why) = Algorithm::choose(plan, documents, self.threads);
                format!("{algorithm} ({why})")
            }
            _ => self.engine.name().to_owned(),
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
        Ok(Plan { count: self.options.count, ..plan })
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
