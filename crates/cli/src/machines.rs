//! The engine that a choice of devices asks for: one GPU, several, or GPUs and the processor.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use warpseek_cuda::{Device, DeviceError};
use warpseek_exec::{Engine, ExecError, Plan, Planner};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_exec_gpu::{GpuEngine, Loading, PRUNED_TERMS, Settings};
use warpseek_exec_gpu_papers::partitioned::PartitionedEngine;
use warpseek_exec_gpu_papers::{CohortEngine, CohortSettings, IntersectEngine};
use warpseek_index::Snapshot;
use warpseek_sched::measure::{self, Line};
use warpseek_sched::{ByDocuments, ByQueries, Cost, Costs, Method, Speed, split};

use crate::options::{EngineChoice, Place, Searching, Split};

/// What everything is thought to cost.
pub(crate) const COSTS: Costs = Costs::new(PRUNED_TERMS);

/// The part of the documents on which a GPU is measured: one in so many.
const SAMPLE: u32 = 16;

/// Queries of a batch that is measured, at most: of a GPU, which is fast with many, and of the processor.
const PROBES_A_GPU: usize = 1 << 12;
const PROBES_A_HOST: usize = 1 << 8;

/// Threads that a processor which answers together with GPUs leaves to planning, to results, and to the GPUs.
const OTHER_THREADS: usize = 3;

/// An engine with GPUs in it.
pub(crate) struct Machines {
    pub(crate) engine: Arc<dyn Engine>,
    /// Copies of the index to come.
    pub(crate) loadings: Vec<Arc<Loading>>,
    /// What answers.
    pub(crate) name: String,
    /// The processor's part of the documents, where it was asked to take one.
    pub(crate) host: Option<String>,
    /// Queries that it answered, where it helps with these.
    pub(crate) helped: Option<Arc<AtomicU64>>,
}

pub(crate) struct Maker<'a> {
    pub(crate) snapshot: &'a Arc<Snapshot>,
    pub(crate) planner: &'a Planner,
    pub(crate) options: &'a Searching,
    pub(crate) k: usize,
    pub(crate) threads: usize,
}

impl Maker<'_> {
    /// The engine on these GPUs, and on the processor where both are asked for.
    pub(crate) fn make(&self, gpus: &[Device]) -> Result<Machines, ExecError> {
        let with_host = self.options.device.device == Place::Both;
        let by_queries = self.options.device.split == Split::Queries;
        if by_queries || (gpus.len() == 1 && !with_host) {
            return self.by_queries(gpus, with_host);
        }
        let mut host = None;
        if with_host {
            let asked = self.options.device.host_share;
            let share = asked.map_or_else(|| self.measured(gpus), Ok)?;
            let how = match asked {
                Some(_) => "as asked for",
                None if share > 0.0 => "as measured",
                None => "as measured: it would be no help",
            };
            host = Some((share, how));
        }
        self.by_documents(gpus, host)
    }

    /// Each answers some queries; one GPU all of them.
    fn by_queries(&self, gpus: &[Device], with_host: bool) -> Result<Machines, ExecError> {
        let (mut loadings, mut engines) = (Vec::new(), Vec::new());
        for gpu in gpus {
            engines.push((self.whole(gpu, &mut loadings)?, Speed::gpu(self.cost())));
        }
        let name = names(gpus, with_host);
        if !with_host && engines.len() == 1 {
            let (engine, _) = engines.remove(0);
            let engine = engine.into();
            return Ok(Machines { engine, loadings, name, host: None, helped: None });
        }
        let (mut both, mut helped) = (ByQueries::new(engines), None);
        if with_host {
            let speed = Speed::threads(COSTS.processor, self.host_threads());
            both = both.helped_by(Arc::new(self.host()), speed).measured_by(self.probes()?);
            helped = Some(both.helped());
        }
        let engine = Arc::new(both);
        Ok(Machines { engine, loadings, name, host: None, helped })
    }

    /// Each has some documents: the GPUs the same, and the processor, where it takes part, a part of all and why that.
    fn by_documents(
        &self,
        gpus: &[Device],
        host: Option<(f64, &str)>,
    ) -> Result<Machines, ExecError> {
        let share = host.map_or(0.0, |(share, _)| share);
        let shares = gpus.iter().map(|_| (1.0 - share) / gpus.len() as f64);
        let shares: Vec<f64> = std::iter::once(share).chain(shares).collect();
        let mut ranges = split(self.snapshot.doc_limit(), &shares).into_iter();
        let docs = ranges.next().unwrap_or_default();
        let mut engines: Vec<Box<dyn Engine>> = Vec::new();
        let with_host = share > 0.0;
        if with_host {
            engines.push(Box::new(self.host().within(docs)));
        }
        let mut loadings = Vec::new();
        for (gpu, docs) in gpus.iter().zip(ranges) {
            let engine = self.gpu(gpu)?;
            // Alone it is to be as it always is.
            let engine = if with_host || gpus.len() > 1 { engine.within(docs) } else { engine };
            loadings.push(engine.loading().clone());
            engines.push(Box::new(engine));
        }
        let host = host.map(|(_, how)| match with_host {
            true => format!("the processor's part of the documents is {share:.3}, {how}"),
            false => format!("the processor's part of the documents is 0, {how}"),
        });
        let engine: Arc<dyn Engine> = match engines.pop() {
            Some(engine) if engines.is_empty() => engine.into(),
            last => Arc::new(ByDocuments::new(engines.into_iter().chain(last).collect())),
        };
        Ok(Machines { engine, loadings, name: names(gpus, with_host), host, helped: None })
    }

    /// For all documents, by the algorithm asked for.
    fn whole(
        &self,
        gpu: &Device,
        loadings: &mut Vec<Arc<Loading>>,
    ) -> Result<Box<dyn Engine>, ExecError> {
        if self.options.algorithm == EngineChoice::Intersect {
            let engine =
                IntersectEngine::new(self.snapshot.clone(), gpu.clone(), None, self.threads);
            return Ok(Box::new(engine.map_err(failed)?));
        }
        if let Some(settings) = self.options.gpu_pruning() {
            let engine =
                PartitionedEngine::new(self.snapshot.clone(), gpu.clone(), settings, self.threads);
            return Ok(Box::new(engine.map_err(failed)?));
        }
        let engine = self.gpu(gpu)?;
        loadings.push(engine.loading().clone());
        if self.options.algorithm == EngineChoice::Cpu(Algorithm::Cohort) {
            let engine = CohortEngine::new(Arc::new(engine), cohort_settings(self.options));
            return Ok(Box::new(engine.map_err(failed)?));
        }
        Ok(Box::new(engine))
    }

    fn gpu(&self, gpu: &Device) -> Result<GpuEngine, ExecError> {
        let pruned = self.options.algorithm != EngineChoice::Exhaustive;
        let settings = Settings { pruned, ..Settings::default() };
        GpuEngine::new(self.snapshot.clone(), gpu.clone(), settings, self.threads).map_err(failed)
    }

    fn host(&self) -> CpuEngine {
        CpuEngine::new(self.snapshot.clone(), None, self.host_threads())
    }

    fn host_threads(&self) -> usize {
        let usual = self.threads.saturating_sub(OTHER_THREADS).max(1);
        self.options.device.host_threads.map_or(usual, usize::from)
    }

    /// What the algorithm asked for costs on a GPU.
    fn cost(&self) -> Cost {
        let method = match self.options.algorithm {
            EngineChoice::Auto => Method::PrunedTiles,
            EngineChoice::Intersect => Method::Intersect,
            EngineChoice::Cpu(Algorithm::Cohort) => Method::Cohort,
            EngineChoice::Cpu(Algorithm::Wand) => Method::Wand,
            EngineChoice::Cpu(Algorithm::MaxScore) => Method::MaxScore,
            _ => Method::Tiles,
        };
        COSTS.of(method, self.options.mode)
    }

    /// Queries that stand for those to come.
    fn probes(&self) -> Result<Vec<Plan>, ExecError> {
        measure::probes(self.snapshot, self.planner, self.options.mode, self.k)
    }

    /// The processor's part of the documents: a GPU is measured on a small part of them, and the processor on its own.
    fn measured(&self, gpus: &[Device]) -> Result<f64, ExecError> {
        let Some(gpu) = gpus.first() else { return Ok(1.0) };
        let probes = self.probes()?;
        let docs = self.snapshot.doc_limit();
        if docs < SAMPLE || probes.is_empty() {
            return Ok(0.0);
        }
        let sample = self.gpu(gpu)?.within(0..docs / SAMPLE);
        let time = measure::time(&sample, &probes, PROBES_A_GPU)?;
        let line = Line::scaled(&self.cost(), &probes, 1.0 / f64::from(SAMPLE), time);
        // Each GPU answers every query, for its part of the documents.
        let line = Line { whole: line.whole / gpus.len() as f64, ..line };
        // What it has measured on is given back before the rest is copied.
        drop(sample);
        measure::host_share(line, |part| {
            let some = (f64::from(docs) * part) as u32;
            measure::time(&self.host().within(0..some.max(1)), &probes, PROBES_A_HOST)
        })
    }
}

/// What answers, for people.
fn names(gpus: &[Device], with_host: bool) -> String {
    let host = with_host.then_some("the processor");
    let names = host.into_iter().chain(gpus.iter().map(|gpu| gpu.info().name.as_str()));
    names.collect::<Vec<_>>().join(" and ")
}

fn failed(error: DeviceError) -> ExecError {
    ExecError::Device(Box::new(error))
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
