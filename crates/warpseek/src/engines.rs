//! The engines that the options require: that of the CPU, those of one or several GPUs, or all of
//! them together.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use warpseek_exec::{Context, Engine, ExecError, Load, Mode, Plan, Planner, Rates, Reference};
use warpseek_exec_cpu::{Algorithm as CpuAlgorithm, CpuEngine};
use warpseek_exec_gpu::{GpuEngine, GpuLists, Resident, Settings, failed};
use warpseek_exec_gpu_papers::partitioned::PartitionedEngine;
use warpseek_exec_gpu_papers::{CohortEngine, CohortSettings, IntersectEngine};
use warpseek_index::Snapshot;
use warpseek_sched::measure::{self, Line};
use warpseek_sched::{ByDocuments, ByQueries, Speed, WithThreads, split};

use crate::calibration::Known;
use crate::error::OptionsError;
use crate::gpu::open::OpenGpu;
use crate::options::{Algorithm, DeviceChoice, SearcherOptions, Split};

/// A GPU's speed is measured on one in this many documents.
const SAMPLE: u32 = 16;

/// Maximum number of queries in a batch for measuring a GPU, which is fast with many.
const PROBES_OF_A_GPU: usize = 1 << 12;
/// Maximum number of queries in a batch for measuring the CPU.
const PROBES_OF_A_HOST: usize = 1 << 8;

/// Number of threads that the CPU, when it works together with GPUs, leaves for planning, for
/// results and for the GPUs.
const OTHER_THREADS: usize = 3;

/// Number of hits of the queries with which speeds are measured.
const PROBE_K: usize = 10;

/// An engine that uses GPUs.
pub(crate) struct GpuEngines {
    pub(crate) engine: Arc<dyn Engine>,
    /// The GPUs.
    pub(crate) gpus: Vec<OpenGpu>,
    /// The part of the index that each GPU holds.
    pub(crate) residents: Vec<Resident>,
    /// The names of the devices that answer.
    pub(crate) name: String,
    /// The CPU's share of the documents and the reason for it, if the CPU and GPUs divide them.
    pub(crate) host: Option<String>,
    /// Number of queries that the CPU answered, if it helps the GPUs.
    pub(crate) helped: Option<Arc<AtomicU64>>,
}

/// A factory of engines for a snapshot.
pub(crate) struct Maker<'a> {
    pub(crate) snapshot: &'a Arc<Snapshot>,
    pub(crate) planner: &'a Planner,
    pub(crate) options: &'a SearcherOptions,
    pub(crate) context: &'a Context,
    /// The calibration of this machine.
    pub(crate) known: Option<&'a Known>,
}

impl Maker<'_> {
    /// Refuses options that contradict each other. `why` is the reason why there is no GPU
    /// although one was requested.
    pub(crate) fn check(&self, gpus: &[OpenGpu], why: Option<&str>) -> Result<(), OptionsError> {
        let options = self.options;
        let algorithm = options.algorithm.name();
        let partitions = options.partitions();
        let cohort = options.algorithm == Algorithm::Named(CpuAlgorithm::Cohort);
        let on_gpu_alone =
            matches!(options.algorithm, Algorithm::Intersect | Algorithm::Exhaustive);
        if on_gpu_alone && gpus.is_empty() {
            return Err(OptionsError::NeedsGpu { algorithm, why: why.map(str::to_owned) });
        }
        let takes_all = cohort || options.algorithm == Algorithm::Intersect || partitions.is_some();
        let several = gpus.len() > 1 || options.device == DeviceChoice::Both;
        if takes_all && several && options.split == Split::Documents {
            return Err(OptionsError::TakesAllDocuments { algorithm });
        }
        let has_gpu_form = takes_all || on_gpu_alone || options.algorithm == Algorithm::Auto;
        if !gpus.is_empty() && !has_gpu_form {
            return Err(OptionsError::NotOnGpu { algorithm });
        }
        if takes_all && options.tuning.gpu_lists != GpuLists::Auto {
            return Err(OptionsError::NoEffect {
                option: OptionsError::GPU_LISTS,
                when: "with an algorithm that prescribes their form",
            });
        }
        if options.tuning.partitions.is_some() && (gpus.is_empty() || partitions.is_none()) {
            return Err(OptionsError::NoPartitions { algorithm });
        }
        if options.device != DeviceChoice::Both {
            let when = "unless the CPU and GPUs answer together";
            if options.host_share.is_some() {
                return Err(OptionsError::NoEffect { option: "the CPU's share", when });
            }
            if options.host_threads.is_some() {
                return Err(OptionsError::NoEffect {
                    option: "the number of the CPU's threads",
                    when,
                });
            }
        }
        Ok(())
    }

    /// Creates the CPU's engine, which answers if no GPU does.
    pub(crate) fn cpu(&self) -> Box<dyn Engine> {
        let cpu = |algorithm| {
            let engine = CpuEngine::new(self.snapshot.clone(), algorithm);
            Box::new(match self.options.tuning.tile {
                Some(docs) => engine.with_tile(docs),
                None => engine,
            })
        };
        match self.options.algorithm {
            Algorithm::Auto | Algorithm::Intersect | Algorithm::Exhaustive => cpu(None),
            Algorithm::Named(algorithm) => cpu(Some(algorithm)),
            Algorithm::Reference => Box::new(Reference::new(self.snapshot.clone())),
        }
    }

    /// Creates an engine for these GPUs, and for the CPU if the options request both.
    pub(crate) fn gpus(&self, gpus: &[OpenGpu]) -> Result<GpuEngines, ExecError> {
        let with_host = self.options.device == DeviceChoice::Both;
        let by_queries = self.options.split == Split::Queries;
        if by_queries || (gpus.len() == 1 && !with_host) {
            return self.by_queries(gpus, with_host);
        }
        let mut host = None;
        if with_host {
            let asked = self.options.host_share;
            let share = asked.map_or_else(|| self.measured(gpus), Ok)?;
            let how = match asked {
                Some(_) => "as requested",
                None if share > 0.0 => "as measured",
                None => "as measured: it would not help",
            };
            host = Some((share, how));
        }
        self.by_documents(gpus, host)
    }

    /// Creates engines that each answer some of the queries. A single GPU answers all of them.
    fn by_queries(&self, gpus: &[OpenGpu], with_host: bool) -> Result<GpuEngines, ExecError> {
        let (mut residents, mut engines) = (Vec::new(), Vec::new());
        for gpu in gpus {
            engines.push(self.whole(gpu, &mut residents)?);
        }
        let (gpus, name) = (gpus.to_vec(), names(gpus, with_host));
        if !with_host && engines.len() == 1 {
            let engine = engines.remove(0).into();
            return Ok(GpuEngines { engine, gpus, residents, name, host: None, helped: None });
        }
        let probes = self.probes()?;
        let with_speed = |engine: Box<dyn Engine>| {
            let speed = self.speed(&*engine, &probes, 1);
            (engine, speed)
        };
        let engines = engines.into_iter().map(with_speed).collect();
        let (mut both, mut helped) = (ByQueries::new(engines), None);
        if with_host {
            let host = self.host();
            let speed = self.speed(&host, &probes, self.host_threads());
            both = both.helped_by(Arc::new(host), speed).measured_by(probes);
            helped = Some(both.helped());
        }
        let engine = Arc::new(both);
        Ok(GpuEngines { engine, gpus, residents, name, host: None, helped })
    }

    /// Creates engines that each hold some of the documents. All GPUs get the same number; `host`
    /// is the share of the CPU, if it takes part, and the reason for this share.
    fn by_documents(
        &self,
        gpus: &[OpenGpu],
        host: Option<(f64, &str)>,
    ) -> Result<GpuEngines, ExecError> {
        let share = host.map_or(0.0, |(share, _)| share);
        let shares = gpus.iter().map(|_| (1.0 - share) / gpus.len() as f64);
        let shares: Vec<f64> = std::iter::once(share).chain(shares).collect();
        let mut ranges = split(self.snapshot.doc_limit(), &shares).into_iter();
        let docs = ranges.next().unwrap_or_default();
        let mut engines: Vec<(Range<u32>, Box<dyn Engine>)> = Vec::new();
        let with_host = share > 0.0;
        if with_host {
            let host = WithThreads::new(self.host().within(docs.clone()), self.host_threads());
            engines.push((docs, Box::new(host)));
        }
        let mut residents = Vec::new();
        for (gpu, docs) in gpus.iter().zip(ranges) {
            let engine = self.gpu(gpu)?;
            // A single GPU without the CPU needs no restriction to a range of documents.
            let alone = !with_host && gpus.len() == 1;
            let engine = if alone { engine } else { engine.within(docs.clone()) };
            residents.push(engine.resident());
            engines.push((docs, Box::new(engine)));
        }
        let host = host.map(|(_, how)| match with_host {
            true => format!("the CPU's part of the documents is {share:.3}, {how}"),
            false => format!("the CPU's part of the documents is 0, {how}"),
        });
        let engine: Arc<dyn Engine> = match engines.pop() {
            Some((_, engine)) if engines.is_empty() => engine.into(),
            last => Arc::new(ByDocuments::new(engines.into_iter().chain(last).collect())),
        };
        let (gpus, name) = (gpus.to_vec(), names(gpus, with_host));
        Ok(GpuEngines { engine, gpus, residents, name, host, helped: None })
    }

    /// Creates an engine of a GPU for all documents, with the algorithm of the options.
    fn whole(
        &self,
        gpu: &OpenGpu,
        residents: &mut Vec<Resident>,
    ) -> Result<Box<dyn Engine>, ExecError> {
        if self.options.algorithm == Algorithm::Intersect {
            let engine = IntersectEngine::new(self.snapshot.clone(), gpu.device.clone(), None);
            return Ok(Box::new(engine.map_err(failed)?));
        }
        if let Some(settings) = self.options.partitions() {
            let engine =
                PartitionedEngine::new(self.snapshot.clone(), gpu.device.clone(), settings);
            return Ok(Box::new(engine.map_err(failed)?));
        }
        let engine = self.gpu(gpu)?;
        residents.push(engine.resident());
        if self.options.algorithm == Algorithm::Named(CpuAlgorithm::Cohort) {
            let engine = CohortEngine::new(Arc::new(engine), self.cohort());
            return Ok(Box::new(engine.map_err(failed)?));
        }
        Ok(Box::new(engine))
    }

    fn gpu(&self, gpu: &OpenGpu) -> Result<GpuEngine, ExecError> {
        let pruned = self.options.algorithm != Algorithm::Exhaustive;
        let form = self.options.tuning.gpu_lists;
        // Cohorts work on tiles.
        let cohort = self.options.algorithm == Algorithm::Named(CpuAlgorithm::Cohort);
        let form = if cohort { GpuLists::Tiles } else { form };
        let settings = Settings { pruned, lists: form, ..Settings::default() };
        let engine = GpuEngine::new(self.snapshot.clone(), gpu.device.clone(), settings);
        Ok(engine.map_err(failed)?.in_residence(gpu.residence.clone()))
    }

    fn cohort(&self) -> CohortSettings {
        let (default, tuning) = (CohortSettings::default(), &self.options.tuning);
        CohortSettings {
            cohort: tuning.cohort.unwrap_or(default.cohort),
            tile: tuning.tile.unwrap_or(default.tile),
            ..default
        }
    }

    fn host(&self) -> CpuEngine {
        CpuEngine::new(self.snapshot.clone(), None)
    }

    fn host_threads(&self) -> usize {
        let usual = self.context.threads().saturating_sub(OTHER_THREADS).max(1);
        self.options.host_threads.unwrap_or(usual)
    }

    /// Returns the speed of an engine: as calibrated on this machine, or as the engine estimates.
    fn speed(&self, engine: &dyn Engine, probes: &[Plan], threads: usize) -> Speed {
        let speed = Speed::new(self.rates(engine, probes), threads);
        match self.known.and_then(|known| known.of(&engine.device())) {
            Some(found) => {
                let plans: Vec<&Plan> = probes.iter().collect();
                let took = found.time(engine, &plans, &Context::new(threads));
                speed.expecting(&Load::sum(probes), took)
            }
            None => speed,
        }
    }

    /// Returns an engine's estimate of the cost of typical queries.
    fn rates(&self, engine: &dyn Engine, probes: &[Plan]) -> Rates {
        let candidates = |plan| engine.candidates(plan, false, self.context).into_iter();
        let first = probes.first().and_then(|plan| candidates(plan).find_map(|c| c.rates.ok()));
        // Without documents there are no queries to measure.
        first.unwrap_or(Rates::device(0.0, 1.0, 0.0, 0.0))
    }

    /// Returns queries that are typical of those to come.
    fn probes(&self) -> Result<Vec<Plan>, ExecError> {
        let mode =
            if self.options.algorithm == Algorithm::Intersect { Mode::And } else { Mode::Or };
        measure::probes(self.snapshot, self.planner, mode, PROBE_K)
    }

    /// Measures the speed of a GPU on a small part of the documents, and of the CPU, and returns
    /// the best share of the documents for the CPU.
    fn measured(&self, gpus: &[OpenGpu]) -> Result<f64, ExecError> {
        let Some(gpu) = gpus.first() else { return Ok(1.0) };
        let probes = self.probes()?;
        let docs = self.snapshot.doc_limit();
        if docs < SAMPLE || probes.is_empty() {
            return Ok(0.0);
        }
        let sample = self.gpu(gpu)?.within(0..docs / SAMPLE);
        let rates = self.rates(&sample, &probes);
        let time = measure::time(&sample, &probes, PROBES_OF_A_GPU, self.context)?;
        let line = Line::scaled(&rates, &probes, 1.0 / f64::from(SAMPLE), time);
        // Each GPU answers every query for its part of the documents.
        let line = Line { whole: line.whole / gpus.len() as f64, ..line };
        // Free the memory of the sample before the rest is copied.
        drop(sample);
        let context = Context::new(self.host_threads());
        measure::host_share(line, |part| {
            let some = (f64::from(docs) * part) as u32;
            let host = self.host().within(0..some.max(1));
            measure::time(&host, &probes, PROBES_OF_A_HOST, &context)
        })
    }
}

/// Returns the names of the devices, for display.
fn names(gpus: &[OpenGpu], with_host: bool) -> String {
    let host = with_host.then_some("the CPU");
    let names = host.into_iter().chain(gpus.iter().map(|gpu| gpu.device.info().name.as_str()));
    names.collect::<Vec<_>>().join(" and ")
}
