//! The engine that a choice of devices asks for: one GPU, several, or GPUs and the processor.

use std::sync::Arc;

use warpseek_exec::{Engine, ExecError, Planner};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_exec_gpu::device::{Device, DeviceError};
use warpseek_exec_gpu::partitioned::PartitionedEngine;
use warpseek_exec_gpu::{
    CohortEngine, CohortSettings, GpuEngine, IntersectEngine, Loading, Settings,
};
use warpseek_index::Snapshot;
use warpseek_sched::{ByDocuments, ByQueries, measure, split};

use crate::options::{EngineChoice, Place, Searching, Split};

/// The part of the documents on which rates are measured.
const SAMPLE: u32 = 8;

/// An engine with GPUs in it.
pub(crate) struct Machines {
    pub(crate) engine: Arc<dyn Engine>,
    /// Copies of the index to come.
    pub(crate) loadings: Vec<Arc<Loading>>,
    /// What answers.
    pub(crate) name: String,
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
        let mut loadings = Vec::new();
        let alone = gpus.len() == 1 && !with_host;
        let by_queries = alone || self.options.device.split == Split::Queries;
        let mut engines: Vec<Box<dyn Engine>> = Vec::new();
        if by_queries {
            for gpu in gpus {
                engines.push(self.whole(gpu, &mut loadings)?);
            }
            if with_host {
                engines.push(Box::new(self.host()));
            }
        } else {
            let mut ranges = split(self.snapshot.doc_limit(), &self.shares(gpus)?).into_iter();
            if with_host {
                let docs = ranges.next().unwrap_or_default();
                engines.push(Box::new(self.host().within(docs)));
            }
            for (gpu, docs) in gpus.iter().zip(ranges) {
                let engine = self.gpu(gpu)?.within(docs);
                loadings.push(engine.loading().clone());
                engines.push(Box::new(engine));
            }
        }
        let mut names: Vec<&str> = gpus.iter().map(|gpu| gpu.info().name.as_str()).collect();
        if with_host {
            names.insert(0, "the processor");
        }
        let name = names.join(" and ");
        let engine: Arc<dyn Engine> = match engines.pop() {
            Some(engine) if engines.is_empty() => engine.into(),
            last => {
                engines.extend(last);
                match by_queries {
                    true => Arc::new(ByQueries::new(engines)),
                    false => Arc::new(ByDocuments::new(engines)),
                }
            }
        };
        Ok(Machines { engine, loadings, name })
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
        CpuEngine::new(self.snapshot.clone(), None, self.threads)
    }

    /// What each gets of the documents: GPUs the same, and the processor, which comes first where it takes part, as much as it is faster or slower.
    fn shares(&self, gpus: &[Device]) -> Result<Vec<f64>, ExecError> {
        let mut shares = vec![1.0; gpus.len()];
        if self.options.device.device == Place::Both {
            let host = match self.options.device.host_share {
                Some(share) => share,
                None => self.measured(gpus)?,
            };
            shares = vec![(1.0 - host) / gpus.len() as f64; gpus.len()];
            shares.insert(0, host);
        }
        Ok(shares)
    }

    /// The processor's share, from the rates of it and of a GPU on the same small part of the documents.
    fn measured(&self, gpus: &[Device]) -> Result<f64, ExecError> {
        let Some(gpu) = gpus.first() else { return Ok(1.0) };
        let plans = measure::probes(self.snapshot, self.planner, self.options.mode, self.k)?;
        let docs = 0..self.snapshot.doc_limit().div_ceil(SAMPLE);
        let host = measure::rate(&self.host().within(docs.clone()), &plans)?;
        let device = measure::rate(&self.gpu(gpu)?.within(docs), &plans)?;
        let all = host + device * gpus.len() as f64;
        Ok(if all > 0.0 { host / all } else { 0.0 })
    }
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
