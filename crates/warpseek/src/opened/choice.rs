//! The choice between devices, by the times that they are expected to take.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warpseek_exec::{Choice, Context, Engine, Load, Plan, is_not_slower};

use super::Opened;
use crate::costs::Side;
use crate::gpu::Notice;
use crate::options::{Algorithm, CalibrationChoice, SearcherOptions};
use crate::plan::Decision;
use crate::repeats::Repeats;

impl Opened {
    /// Returns true if expected times decide which device answers.
    pub(super) fn compares_times(&self) -> bool {
        let SearcherOptions { algorithm, gpu_from, .. } = &*self.options;
        self.may_choose() && *algorithm == Algorithm::Auto && gpu_from.is_none()
    }

    /// Measures the devices briefly, unless there is a calibration or the options forbid it. As
    /// long as a GPU cannot be measured, because the index is not on it, the CPU is not measured
    /// either: times of this machine are not compared with estimates of another.
    pub(crate) fn measure(&self) {
        let engine = self.gpu.engine();
        let is_cold = engine.is_some() && !self.warm.load(Ordering::Acquire);
        if self.options.calibration == CalibrationChoice::Off || is_cold {
            return;
        }
        let index = (&*self.snapshot, &self.planner);
        let measure =
            |side, engine: &dyn Engine| self.costs.measure(side, engine, index, &self.context);
        let on_gpu = engine.map_or(Ok(()), |engine| measure(Side::Gpu, &*engine));
        if let Err(error) = on_gpu.and_then(|()| measure(Side::Cpu, &*self.cpu)) {
            (self.options.listener)(&Notice::NotMeasured { why: error.to_string() });
        }
    }

    /// Returns the expected time of a batch on the CPU.
    pub(crate) fn time_on_cpu(&self, plans: &[&Plan], context: &Context) -> Duration {
        self.costs.time(Side::Cpu, &*self.cpu, plans, context)
    }

    /// Returns the expected time of a batch on the GPU.
    pub(crate) fn time_on_gpu(
        &self,
        gpu: &Arc<dyn Engine>,
        plans: &[&Plan],
        context: &Context,
    ) -> Duration {
        self.costs.time(Side::Gpu, &**gpu, plans, context)
    }

    /// Describes where expected times come from.
    pub(super) fn source(&self) -> String {
        match self.options.calibration {
            CalibrationChoice::Off => "estimates for other hardware, as requested".to_owned(),
            _ => self.costs.source(),
        }
    }

    /// Returns true if the CPU is to answer a batch although there is a GPU. This is the only place
    /// that chooses between devices.
    pub(super) fn stays(&self, gpu: &Arc<dyn Engine>, plans: &[&Plan], context: &Context) -> bool {
        if !self.may_choose() {
            return false;
        }
        // A GPU that supports none of the plans would only return them.
        if refusal(gpu, plans).is_some() {
            return true;
        }
        if self.options.algorithm != Algorithm::Auto {
            return false;
        }
        match self.options.gpu_from {
            Some(least) => Load::sum(plans.iter().copied()).postings < least,
            None => {
                // A search with little time does not wait for measurements.
                if !context.is_limited() {
                    self.measure();
                }
                let on_gpu = self.time_on_gpu(gpu, plans, context);
                is_not_slower(self.time_on_cpu(plans, context), on_gpu)
            }
        }
    }

    pub(crate) fn decide(&self, plans: &[&Plan], context: &Context) -> Decision {
        let repeats = Repeats::of(plans);
        let plans = &repeats.distinct[..];
        let engines = self.gpu.engines();
        let chooses = self.options.algorithm == Algorithm::Auto && engines.is_some();
        let stays =
            engines.as_ref().is_some_and(|engines| self.stays(&engines.engine, plans, context));
        // After the choice, which may have measured the devices.
        let estimate =
            |side, engine: &dyn Engine| self.costs.estimate(side, engine, plans, context);
        let cpu = chooses.then(|| estimate(Side::Cpu, &*self.cpu));
        let gpu = engines.as_ref().filter(|_| chooses);
        let gpu = gpu.map(|engines| estimate(Side::Gpu, &*engines.engine));
        let calibration = (chooses && self.may_choose()).then(|| self.source());
        let mut choices: Vec<Choice> = match &engines {
            Some(engines) if !stays => engines.engine.explain(plans, context),
            _ => self.cpu.explain(plans, context),
        };
        let refused = engines.as_ref().and_then(|engines| refusal(&engines.engine, plans));
        let reason = match (stays, self.options.gpu_from.is_some()) {
            _ if !self.may_choose() => engines.and_then(|engines| engines.host.clone()),
            _ if !chooses => None,
            (true, _) if refused.is_some() => refused.map(|why| format!("the GPU refuses: {why}")),
            (true, true) => Some("fewer postings than the GPU's threshold".to_owned()),
            (false, true) => Some("at least as many postings as the GPU's threshold".to_owned()),
            (true, false) => Some("faster than on the GPU".to_owned()),
            (false, false) => Some("faster than on the CPU".to_owned()),
        };
        if let Some(reason) = reason {
            choices.iter_mut().for_each(|choice| choice.why = format!("{reason}; {}", choice.why));
        }
        let documents = self.snapshot.statistics().documents;
        let choices = repeats
            .places()
            .map(|place| choices.get(place).cloned().unwrap_or_else(Decision::no_choice))
            .collect();
        Decision { choices, cpu, gpu, calibration, documents, threads: context.threads() }
    }
}

/// Returns the reason why a GPU supports none of the plans, or `None` if it supports some.
fn refusal(gpu: &Arc<dyn Engine>, plans: &[&Plan]) -> Option<&'static str> {
    let mut refused = plans.iter().map(|plan| gpu.can_answer(plan).err());
    let first = refused.next()??;
    refused.all(|why| why.is_some()).then_some(first)
}
