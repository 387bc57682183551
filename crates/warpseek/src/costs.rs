//! The expected times of batches on the devices of this machine, from which a device is chosen.
//!
//! The best source is a calibration. Without one, a few queries of the index's terms are timed
//! briefly on each device, and the engines' own estimates, which were made on other hardware, are
//! multiplied by the ratio. Until that is done, the estimates are used as they are.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warpseek_exec::{Context, Engine, Estimate, ExecError, Plan, Planner};
use warpseek_index::Snapshot;
use warpseek_sched::measure;

use crate::calibration::{CPU, Known};

/// Number of hits of the queries that are timed.
const TIMED_K: usize = 10;

/// Maximum time for a brief measurement of the CPU, after which no other query begins.
const BRIEF: Duration = Duration::from_millis(10);

/// Number of times that a query or batch is timed in a brief measurement; the shortest counts.
const TIMES: usize = 3;

/// Minimum and maximum ratio of measured times to estimates.
const RATIOS: (f64, f64) = (1.0 / 1024.0, 1024.0);

/// A device that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Cpu,
    Gpu,
}

/// Ratio of measured times to an engine's estimates.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ratio {
    /// For a single query.
    single: f64,
    /// For a batch.
    batch: f64,
}

/// What is known about times.
#[derive(Default)]
struct Knowledge {
    calibration: Option<Arc<Known>>,
    /// Ratios by side, once measured.
    ratios: [Option<Ratio>; 2],
    /// True for a side whose measurement has begun. It is not repeated if it fails.
    begun: [bool; 2],
}

/// The expected times of batches on the devices of a searcher.
#[derive(Default)]
pub(crate) struct Costs {
    knowledge: Mutex<Knowledge>,
}

impl Costs {
    /// Creates costs that a calibration predicts, if there is one.
    pub(crate) fn new(calibration: Option<Known>) -> Self {
        let costs = Costs::default();
        costs.knowledge().calibration = calibration.map(Arc::new);
        costs
    }

    /// Replaces what is known by a new calibration.
    pub(crate) fn calibrated(&self, calibration: Known) {
        self.knowledge().calibration = Some(Arc::new(calibration));
    }

    /// Returns the calibration in use.
    pub(crate) fn calibration(&self) -> Option<Arc<Known>> {
        self.knowledge().calibration.clone()
    }

    fn knowledge(&self) -> MutexGuard<'_, Knowledge> {
        self.knowledge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the expected time of a batch on a device.
    pub(crate) fn time(
        &self,
        side: Side,
        engine: &dyn Engine,
        plans: &[&Plan],
        context: &Context,
    ) -> Duration {
        let (calibration, ratio) = {
            let knowledge = self.knowledge();
            (knowledge.calibration.clone(), knowledge.ratios[side as usize])
        };
        let device = || if side == Side::Cpu { CPU.to_owned() } else { engine.device() };
        if let Some(known) = &calibration
            && let Some(found) = known.of(&device())
        {
            return found.time(engine, plans, context);
        }
        let estimate = engine.cost(plans, context);
        match ratio {
            None => estimate,
            Some(ratio) if plans.len() == 1 => estimate.mul_f64(ratio.single),
            Some(ratio) => estimate.mul_f64(ratio.batch),
        }
    }

    /// Returns an engine's estimate of a batch, with the expected time in place of the engine's.
    /// The times of its algorithms change by the same factor.
    pub(crate) fn estimate(
        &self,
        side: Side,
        engine: &dyn Engine,
        plans: &[&Plan],
        context: &Context,
    ) -> Estimate {
        let mut estimate = engine.estimate(plans, context);
        let time = self.time(side, engine, plans, context);
        let ratio = time.as_secs_f64() / engine.cost(plans, context).as_secs_f64().max(1e-12);
        for offer in &mut estimate.offers {
            offer.time = offer.time.map(|time| time.mul_f64(ratio));
        }
        Estimate { time, ..estimate }
    }

    /// Times a few queries on an engine, unless there is a calibration or the device was measured
    /// before. Other threads do not wait for it.
    pub(crate) fn measure(
        &self,
        side: Side,
        engine: &dyn Engine,
        (snapshot, planner): (&Snapshot, &Planner),
        context: &Context,
    ) -> Result<(), ExecError> {
        {
            let mut knowledge = self.knowledge();
            let begun = &mut knowledge.begun[side as usize];
            if std::mem::replace(begun, true) || knowledge.calibration.is_some() {
                return Ok(());
            }
        }
        let plans = measure::few_probes(snapshot, planner, TIMED_K)?;
        let ratio = match side {
            Side::Cpu => of_cpu(engine, &plans)?,
            Side::Gpu => of_gpu(engine, &plans, context)?,
        };
        // An index without documents needs no measurement, and has nothing to measure.
        if let Some(ratio) = ratio {
            self.knowledge().ratios[side as usize] = Some(ratio);
        }
        Ok(())
    }

    /// Describes where expected times come from.
    pub(crate) fn source(&self) -> String {
        let knowledge = self.knowledge();
        if let Some(known) = &knowledge.calibration {
            let queries: usize = known.stations.iter().map(|(_, found)| found.queries).sum();
            return match &known.file {
                Some(file) => format!("calibration of {queries} queries in {}", file.display()),
                None => format!("calibration of {queries} queries"),
            };
        }
        let part = |name: &str, side: Side| {
            let Ratio { single, batch } = knowledge.ratios[side as usize]?;
            Some(format!("on the {name} {single:.2} (one query) and {batch:.2} (a batch)"))
        };
        let parts = [part("CPU", Side::Cpu), part("GPU", Side::Gpu)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            return "estimates for other hardware, since no query was timed here yet".to_owned();
        }
        format!(
            "estimates for other hardware times what a few queries took here: {}",
            parts.join(", ")
        )
    }
}

/// Returns the shortest time of several runs of a batch.
fn shortest(
    engine: &dyn Engine,
    plans: &[&Plan],
    context: &Context,
) -> Result<Duration, ExecError> {
    let mut least = Duration::MAX;
    for _ in 0..TIMES {
        let start = Instant::now();
        let answers = engine.search(plans, context);
        least = least.min(start.elapsed());
        answers.into_iter().try_for_each(|answer| answer.map(|_| ()))?;
    }
    Ok(least)
}

fn ratio(took: f64, estimate: f64) -> f64 {
    if estimate > 0.0 { (took / estimate).clamp(RATIOS.0, RATIOS.1) } else { 1.0 }
}

/// Measures the CPU with one query after another on one thread. The engine's estimates say how
/// threads share the work.
fn of_cpu(engine: &dyn Engine, plans: &[Plan]) -> Result<Option<Ratio>, ExecError> {
    let (start, context) = (Instant::now(), Context::single());
    let (mut took, mut estimate) = (0.0, 0.0);
    for plan in plans {
        took += shortest(engine, &[plan], context)?.as_secs_f64();
        estimate += engine.cost(&[plan], context).as_secs_f64();
        if start.elapsed() > BRIEF {
            break;
        }
    }
    let ratio = ratio(took, estimate);
    Ok((!plans.is_empty()).then_some(Ratio { single: ratio, batch: ratio }))
}

/// Measures a GPU with a single query and with a batch.
fn of_gpu(
    engine: &dyn Engine,
    plans: &[Plan],
    context: &Context,
) -> Result<Option<Ratio>, ExecError> {
    let plans: Vec<&Plan> = plans.iter().filter(|plan| engine.can_answer(plan).is_ok()).collect();
    let Some(one) = plans.get(..1) else { return Ok(None) };
    let of = |plans: &[&Plan]| {
        let took = shortest(engine, plans, context)?;
        Ok::<_, ExecError>(ratio(took.as_secs_f64(), engine.cost(plans, context).as_secs_f64()))
    };
    Ok(Some(Ratio { single: of(one)?, batch: of(&plans)? }))
}
