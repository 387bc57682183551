//! An engine with a dedicated thread pool, independent of the context of a search.

use std::sync::Arc;

use warpseek_exec::{
    Answers, Candidate, Choice, Context, Engine, Estimate, ExecError, Formulas, Plan, Pool, Takes,
};
use warpseek_index::SnapshotId;

/// An engine that answers with a given number of threads. Next to GPUs, the CPU must leave some
/// threads to those that keep the GPUs busy.
pub struct WithThreads<E> {
    engine: E,
    pool: Arc<Pool>,
}

impl<E: Engine> WithThreads<E> {
    /// Wraps an engine so that it uses this many threads.
    pub fn new(engine: E, threads: usize) -> Self {
        WithThreads { engine, pool: Pool::shared(threads) }
    }

    fn context(&self, caller: &Context) -> Context {
        caller.with_pool(self.pool.clone())
    }
}

impl<E: Engine> Engine for WithThreads<E> {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn device(&self) -> String {
        self.engine.device()
    }

    fn snapshot(&self) -> SnapshotId {
        self.engine.snapshot()
    }

    fn candidates(&self, plan: &Plan, alone: bool, context: &Context) -> Vec<Candidate> {
        self.engine.candidates(plan, alone, &self.context(context))
    }

    fn takes(&self) -> Takes {
        self.engine.takes()
    }

    fn supports(&self, plan: &Plan) -> Result<(), &'static str> {
        self.engine.supports(plan)
    }

    fn estimate(&self, plans: &[&Plan], context: &Context) -> Estimate {
        self.engine.estimate(plans, &self.context(context))
    }

    fn explain(&self, plans: &[&Plan], context: &Context) -> Vec<Choice> {
        self.engine.explain(plans, &self.context(context))
    }

    fn prepare(&self, formulas: &Formulas, context: &Context) -> Result<(), ExecError> {
        self.engine.prepare(formulas, &self.context(context))
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        self.engine.search(plans, &self.context(context))
    }
}
