//! The engines of a service: the CPU, and a GPU that may fail and come back.

use std::sync::Arc;
use std::time::Duration;

use warpseek_exec::{
    Answers, Candidate, Context, Engine, ExecError, Fault, Formulas, Plan, Takes, fail_all,
};
use warpseek_index::SnapshotId;
use warpseek_sched::calibrate::{Calibration, Usage, calibrate, own_queries};
use warpseek_sched::service::Place;

use crate::error::Result;
use crate::opened::Opened;

/// Requests of a GPU's batch, at most.
const GPU_BATCH: usize = 1 << 13;

/// Batches of a GPU at the same time: some are prepared and handed back while others are answered. On an H200, four got 15% more done than two, and in half
/// the time.
const GPU_SERVERS: usize = 4;

/// The same if lists come on demand: each batch needs memory for those that it brings.
const GPU_SERVERS_ON_DEMAND: usize = 2;

/// How long a GPU's server looks out for requests before it sleeps. To wake a thread takes about as long as a GPU takes for a query.
const GPU_LOOKOUT: Duration = Duration::from_millis(2);

/// Threads that the CPU's servers leave to others if there is a GPU: those that hand requests in, and that prepare batches.
const LEFT_TO_OTHERS: usize = 4;

/// Hits for which queries are timed.
const CALIBRATED_K: usize = 10;

/// Which engines a service has, and how it uses them.
#[derive(Clone, Copy)]
pub(crate) struct Stations {
    /// Threads of the CPU that each answer a request.
    cpu: Option<usize>,
    /// If there is a GPU, how many batches it has at the same time, and how many threads of the CPU prepare each.
    gpu: Option<(usize, usize)>,
}

impl Stations {
    /// Those of a searcher with so many threads, of which the CPU's servers have this many if it was said. A GPU gets its index first,
    /// since it depends on its form how many batches there is memory for.
    pub(crate) fn of(opened: &Opened, threads: usize, servers: Option<usize>) -> Result<Self> {
        let alone = || Stations { cpu: Some(servers.unwrap_or(threads).max(1)), gpu: None };
        if opened.gpu.engine().is_none() {
            return Ok(alone());
        }
        opened.prepare()?;
        // It may have turned out that the GPU has no room for the index.
        if opened.gpu.why_unusable().is_some() {
            return Ok(alone());
        }
        let servers = servers.unwrap_or(threads.saturating_sub(LEFT_TO_OTHERS).max(1));
        let is_whole = opened.gpu_status().residency.iter().all(|of| of.cache.is_none());
        let batches = if is_whole { GPU_SERVERS } else { GPU_SERVERS_ON_DEMAND };
        let cpu = Some(servers).filter(|&servers| servers > 0);
        Ok(Stations { cpu, gpu: Some((batches, threads)) })
    }

    /// Their engines for a snapshot, the CPU's first.
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

    /// Measures each for a part of this time, with queries of the index's own terms. With a log, its error is that on the log.
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

    /// What distinguishes them from others.
    pub(crate) fn name(self, opened: &Arc<Opened>) -> String {
        let devices = self.engines(opened).iter().map(|engine| engine.device()).collect::<Vec<_>>();
        format!("{} cpu {:?} gpu {:?}", devices.join(", "), self.cpu, self.gpu)
    }
}

/// The CPU of a snapshot.
struct OnCpu(Arc<Opened>);

/// The GPU of a snapshot, which may fail and come back.
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

    fn cost(&self, plans: &[&Plan], context: &Context) -> Duration {
        self.0.cpu.cost(plans, context)
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
        self.0.gpu.engine().map_or(Duration::ZERO, |engine| engine.cost(plans, context))
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
