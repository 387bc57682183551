//! The stations of a service: the CPU, and a GPU that may fail and come back.

use std::sync::Arc;
use std::time::Duration;

use warpseek_exec::{
    Answers, Candidate, Context, Engine, ExecError, Fault, Foresight, Formulas, Plan, Takes,
    fail_all,
};
use warpseek_index::SnapshotId;
use warpseek_sched::calibrate::{Calibration, Usage, calibrate, own_queries};
use warpseek_sched::service::Place;

use crate::error::Result;
use crate::opened::Opened;

/// Maximum number of requests in a batch for a GPU.
const GPU_BATCH: usize = 1 << 13;

/// Number of batches that a GPU's station processes at a time: some are prepared or completed
/// while the GPU answers others. On an H200, four did 15% more work than two, in half the time.
const GPU_SERVERS: usize = 4;

/// Number of batches at a time if lists are copied on demand, since each batch needs memory for
/// its lists.
const GPU_SERVERS_ON_DEMAND: usize = 2;

/// Time for which a GPU's server polls for requests before it sleeps. Waking a thread takes about
/// as long as a GPU takes for a query.
const GPU_LOOKOUT: Duration = Duration::from_millis(2);

/// Number of threads that the CPU's servers leave to others if there is a GPU: to threads that
/// submit requests and to threads that prepare batches.
const LEFT_TO_OTHERS: usize = 4;

/// Number of hits of the queries that are timed.
const CALIBRATED_K: usize = 10;

/// The stations of a service, and the resources of each.
#[derive(Clone, Copy)]
pub(crate) struct Stations {
    /// Number of CPU threads that each answer a request.
    cpu: Option<usize>,
    /// Number of batches that the GPU processes at a time, and of CPU threads that prepare each
    /// of them, if there is a GPU.
    gpu: Option<(usize, usize)>,
}

impl Stations {
    /// Creates the stations for a searcher with `threads` threads, with `servers` of them for the
    /// CPU's station if given. The index is copied to the GPU first, because its layout there
    /// decides for how many batches there is memory.
    pub(crate) fn of(opened: &Opened, threads: usize, servers: Option<usize>) -> Result<Self> {
        let alone = || Stations { cpu: Some(servers.unwrap_or(threads).max(1)), gpu: None };
        if opened.gpu.engine().is_none() {
            return Ok(alone());
        }
        opened.prepare()?;
        // The attempt may have shown that the GPU lacks memory for the index.
        if opened.gpu.why_unusable().is_some() {
            return Ok(alone());
        }
        let servers = servers.unwrap_or(threads.saturating_sub(LEFT_TO_OTHERS).max(1));
        let is_whole = opened.gpu_status().residency.iter().all(|gpu| gpu.cache.is_none());
        let batches = if is_whole { GPU_SERVERS } else { GPU_SERVERS_ON_DEMAND };
        let cpu = Some(servers).filter(|&servers| servers > 0);
        Ok(Stations { cpu, gpu: Some((batches, threads)) })
    }

    /// Returns the engines of the stations for a snapshot, the CPU's first.
    pub(crate) fn engines(self, opened: &Arc<Opened>) -> Vec<Arc<dyn Engine>> {
        let cpu = self.cpu.map(|_| Arc::new(OnCpu(opened.clone())) as Arc<dyn Engine>);
        let gpu = self.gpu.map(|_| Arc::new(OnGpu(opened.clone())) as Arc<dyn Engine>);
        cpu.into_iter().chain(gpu).collect()
    }

    pub(crate) fn places(self, opened: &Arc<Opened>) -> Vec<Place> {
        let place = |engine: Arc<dyn Engine>| match (engine.name(), self.gpu) {
            ("gpu", Some((batches, threads))) => Place {
                threads,
                batch: GPU_BATCH,
                lookout: GPU_LOOKOUT,
                ..Place::cpu(engine, batches)
            },
            _ => Place::cpu(engine, self.cpu.unwrap_or(1)),
        };
        self.engines(opened).into_iter().map(place).collect()
    }

    /// Measures each station for an equal part of `time`, with queries of the index's terms. If
    /// there is a log, the reported error is that on its queries.
    pub(crate) fn calibrate(
        self,
        opened: &Arc<Opened>,
        log: Option<&[Plan]>,
        time: Duration,
    ) -> Result<Vec<(String, Calibration)>> {
        let plans = own_queries(&opened.snapshot, &opened.planner, CALIBRATED_K, time)?;
        let places = self.places(opened);
        let time = time / places.len().max(1) as u32;
        let mut found = Vec::new();
        for place in &places {
            let Place { servers, threads, .. } = *place;
            let usage = Usage { servers, threads, batches: place.batch > 1, time };
            found.push((place.engine.device(), calibrate(&*place.engine, &plans, log, usage)?));
        }
        Ok(found)
    }

    /// Returns the names of the devices of the stations.
    pub(crate) fn devices(self, opened: &Arc<Opened>) -> Vec<String> {
        self.engines(opened).iter().map(|engine| engine.device()).collect()
    }
}

/// The CPU's engine for a snapshot.
struct OnCpu(Arc<Opened>);

/// The GPU's engine for a snapshot. It may fail and come back.
struct OnGpu(Arc<Opened>);

impl Engine for OnCpu {
    fn name(&self) -> &'static str {
        self.0.cpu.name()
    }

    fn snapshot(&self) -> SnapshotId {
        self.0.cpu.snapshot()
    }

    fn candidates(&self, plan: &Plan, alone: bool, context: &Context) -> Vec<Candidate> {
        self.0.cpu.candidates(plan, alone, context)
    }

    fn takes(&self) -> Takes {
        self.0.cpu.takes()
    }

    fn supports(&self, plan: &Plan) -> std::result::Result<(), &'static str> {
        self.0.cpu.supports(plan)
    }

    fn foresee(&self, plan: &Plan) -> Option<Foresight> {
        self.0.cpu.foresee(plan)
    }

    fn cost(&self, plans: &[&Plan], context: &Context) -> Duration {
        self.0.time_on_cpu(plans, context)
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        self.0.cpu.search(plans, context)
    }
}

impl Engine for OnGpu {
    fn name(&self) -> &'static str {
        "gpu"
    }

    fn device(&self) -> String {
        self.0.gpu.engine().map_or_else(|| "GPU".to_owned(), |engine| engine.device())
    }

    fn snapshot(&self) -> SnapshotId {
        self.0.snapshot.id()
    }

    fn candidates(&self, plan: &Plan, alone: bool, context: &Context) -> Vec<Candidate> {
        self.0.gpu.engine().map_or(Vec::new(), |engine| engine.candidates(plan, alone, context))
    }

    fn takes(&self) -> Takes {
        self.0.gpu.engine().map_or(Takes::default(), |engine| engine.takes())
    }

    fn supports(&self, plan: &Plan) -> std::result::Result<(), &'static str> {
        self.0.gpu.engine().map_or(Ok(()), |engine| engine.supports(plan))
    }

    fn cost(&self, plans: &[&Plan], context: &Context) -> Duration {
        let engine = self.0.gpu.engine();
        engine.map_or(Duration::ZERO, |engine| self.0.time_on_gpu(&engine, plans, context))
    }

    fn absent(&self, plan: &Plan) -> u64 {
        self.0.gpu.engine().map_or(0, |engine| engine.absent(plan))
    }

    fn prepare(&self, _: &Formulas, _: &Context) -> std::result::Result<(), ExecError> {
        self.0.prepare()
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        self.0.answer_on_gpu(plans, context).unwrap_or_else(|| {
            let source = Arc::new(std::io::Error::other("no GPU answers"));
            fail_all(plans, &ExecError::Device { fault: Fault::Device, source })
        })
    }
}
