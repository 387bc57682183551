//! The engine of the CPU: it chooses an algorithm for each plan, runs it on all segments, and
//! spreads the queries of a batch over threads.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use warpseek_exec::{
    ASKED_FOR, Answer, Answers, Candidate, Context, Engine, ExecError, Foresight, Formulas, Load,
    Mode, Plan, Takes, Ticker, Work, answer_supported, batch_time, cheapest_of,
};
use warpseek_index::{SegmentEntry, Snapshot, SnapshotId};

use crate::algorithm::{Algorithm, Size};
use crate::halt::Halt;
use crate::scratch::Scratch;
use crate::segment_set::SegmentSet;
use crate::{cohort, foresight, gather, pass};

/// An engine that runs an algorithm on all segments of an index and spreads queries over the
/// threads of the context.
pub struct CpuEngine {
    pub(crate) segments: SegmentSet,
    algorithm: Option<Algorithm>,
    tile: Option<u32>,
    size: Size,
}

impl CpuEngine {
    /// Creates an engine for an index. Without an algorithm, the cheapest one answers each query.
    pub fn new(snapshot: Arc<Snapshot>, algorithm: Option<Algorithm>) -> Self {
        let sum =
            |count: fn(&SegmentEntry) -> u64| snapshot.manifest().segments.iter().map(count).sum();
        let size = Size { documents: sum(|s| s.documents), postings: sum(|s| s.postings) };
        CpuEngine { segments: SegmentSet::new(snapshot), algorithm, tile: None, size }
    }

    /// Sets the number of documents per tile, for [`Algorithm::Cohort`].
    pub fn with_tile(self, docs: u32) -> Self {
        CpuEngine { tile: Some(docs), ..self }
    }

    /// Restricts the engine to a range of documents, by position counted over all segments: hits
    /// and matches are those of these documents. Other engines answer for the rest.
    pub fn within(self, docs: Range<u32>) -> Self {
        CpuEngine { segments: self.segments.within(docs), ..self }
    }

    /// Chooses the algorithm for a plan that has this many threads to itself.
    fn choose(&self, plan: &Plan, threads: usize) -> Algorithm {
        if let Some(algorithm) = self.algorithm {
            return algorithm;
        }
        let load = Load::of(plan);
        let candidates = Algorithm::candidates(plan, &load, self.size, threads);
        let chosen = cheapest_of(&candidates, |(_, candidate)| candidate, &load);
        chosen.map_or(Algorithm::WindowedMaxScore, |&(algorithm, _)| algorithm)
    }

    fn answer(
        &self,
        scratch: &mut Scratch,
        plan: &Plan,
        ticker: &mut Ticker<'_>,
    ) -> Result<Answer, ExecError> {
        if let Some(gather) = &plan.gather {
            return gather::answer(&self.segments, plan, gather, scratch, ticker);
        }
        let mut before = Some(Work::default());
        let algorithm = self.choose(plan, 1);
        // OR starts with a threshold, so it needs no first pass.
        if !plan.matches_any() {
            let answer = pass::run(&self.segments, algorithm, true, scratch, plan, ticker)?;
            // Pruning may leave matches uncounted, but only after k hits are found.
            if plan.mode == Mode::And || answer.hits.len() >= plan.k {
                return Ok(answer);
            }
            before = answer.work;
        }
        // If the first pass had to stop, this one stops at once: it covers no document that the
        // first did not.
        let mut answer = pass::run(&self.segments, algorithm, false, scratch, plan, ticker)?;
        answer.add_work(before);
        Ok(answer)
    }
}

impl Engine for CpuEngine {
    fn name(&self) -> &'static str {
        self.algorithm.map_or("auto", Algorithm::name)
    }

    fn snapshot(&self) -> SnapshotId {
        self.segments.snapshot().id()
    }

    fn candidates(&self, plan: &Plan, alone: bool, context: &Context) -> Vec<Candidate> {
        if let Some(algorithm) = self.algorithm {
            let (rates, why) = (Ok(algorithm.rates()), ASKED_FOR);
            return vec![Candidate { algorithm: algorithm.name(), rates, why }];
        }
        let threads = if alone { context.threads() } else { 1 };
        let all = Algorithm::candidates(plan, &Load::of(plan), self.size, threads);
        all.map(|(_, candidate)| candidate).to_vec()
    }

    fn cost(&self, plans: &[&Plan], context: &Context) -> Duration {
        let threads = if plans.len() == 1 { context.threads() } else { 1 };
        batch_time(plans.iter().copied(), context.threads(), |plan, load| match self.algorithm {
            Some(algorithm) => Some(algorithm.rates()),
            None => {
                let all = Algorithm::candidates(plan, load, self.size, threads);
                cheapest_of(&all, |(_, candidate)| candidate, load)?.1.rates.ok()
            }
        })
    }

    fn foresee(&self, plan: &Plan) -> Option<Foresight> {
        foresight::foresee(&self.segments, plan)
    }

    fn takes(&self) -> Takes {
        let trees = matches!(self.algorithm, None | Some(Algorithm::Tree));
        Takes { trees, gathers: trees, ..Takes::ALL }
    }

    fn supports(&self, _plan: &Plan) -> Result<(), &'static str> {
        Ok(())
    }

    fn prepare(&self, formulas: &Formulas, context: &Context) -> Result<(), ExecError> {
        let mut ticker = context.ticker();
        for number in 0..self.segments.count() {
            let (segment, factors) =
                (self.segments.segment(number), &self.segments.caches(number).factors);
            for (field, formula) in (0..).zip(formulas.iter()) {
                match factors.get(segment, field, formula, &mut ticker) {
                    Ok(_) | Err(Halt::Stop) => {}
                    Err(Halt::Failed(error)) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        answer_supported(self, plans, |plans| {
            let cohort = match plans {
                // With one thread there is nothing to spread.
                [plan] if context.threads() > 1 => {
                    self.choose(plan, context.threads()) == Algorithm::Cohort
                }
                _ => self.algorithm == Some(Algorithm::Cohort),
            };
            if cohort {
                return cohort::search(&self.segments, plans, self.tile, context);
            }
            context.pool().map(
                plans,
                || self.segments.scratch(),
                |borrowed, plan| {
                    borrowed.with(|scratch| self.answer(scratch, plan, &mut context.ticker()))
                },
            )
        })
    }
}
