//! The context of a search: its limit, its threads, and the scores that its parts share.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use warpseek_core::Hit;

use crate::floor::{Floor, Floors};
use crate::limit::{Cancel, Limit, Ticker};
use crate::plan::Plan;
use crate::pool::Pool;

/// Everything that an engine needs to know besides the plans.
///
/// When the deadline has passed, or the search is cancelled, engines stop between ranges of
/// documents and return a partial answer ([`crate::Coverage`]).
#[derive(Clone, Debug)]
pub struct Context {
    limit: Limit,
    pool: Arc<Pool>,
    floors: Option<Arc<Floors>>,
}

impl Context {
    /// Creates a context without limits, with a shared pool of this many threads, which live as
    /// long as the process.
    pub fn new(threads: usize) -> Self {
        Self::on(Pool::shared(threads))
    }

    /// Returns a context with one thread and without limits, for operations that need a context
    /// but do not search.
    pub fn single() -> &'static Self {
        static SINGLE: OnceLock<Context> = OnceLock::new();
        SINGLE.get_or_init(|| Context::new(1))
    }

    /// Creates a context without limits, with the threads of a pool.
    pub fn on(pool: Arc<Pool>) -> Self {
        Context { limit: Limit::none(), pool, floors: None }
    }

    /// Sets the deadline.
    pub fn until(self, deadline: Instant) -> Self {
        Context { limit: self.limit.until(deadline), ..self }
    }

    /// Sets the deadline to this long from now.
    pub fn within(self, time: Duration) -> Self {
        Context { limit: self.limit.after(Instant::now(), time), ..self }
    }

    /// Sets the flag that cancels the search.
    pub fn cancelled_by(self, cancel: Cancel) -> Self {
        Context { limit: self.limit.cancelled_by(cancel), ..self }
    }

    /// Returns the same context with another limit.
    pub fn with_limit(&self, limit: Limit) -> Self {
        Context { limit, ..self.clone() }
    }

    /// Returns the same context with the threads of another pool.
    pub fn with_pool(&self, pool: Arc<Pool>) -> Self {
        Context { pool, ..self.clone() }
    }

    /// Returns the same context with scores that the parts of a search share.
    pub fn with_floors(&self, floors: Arc<Floors>) -> Self {
        Context { floors: Some(floors), ..self.clone() }
    }

    /// Returns the score that the parts of a search share for a plan, if they share one.
    pub fn floor(&self, plan: &Plan) -> Option<&Arc<Floor>> {
        self.floors.as_ref()?.of(plan)
    }

    /// Shares the score of the worst hit with the other parts of the search, if there are as many
    /// hits as the plan requests.
    pub fn publish(&self, plan: &Plan, hits: &[Hit]) {
        if let Some(floors) = &self.floors {
            floors.publish(plan, hits);
        }
    }

    /// Returns the limit of the search.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Returns the number of threads that a search may use, at least 1.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Returns the pool of threads.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns true if a search may have to stop early.
    pub fn is_limited(&self) -> bool {
        self.limit.is_limited()
    }

    /// Returns true if a search has to stop now.
    pub fn is_over(&self) -> bool {
        self.limit.is_over()
    }

    /// Returns a ticker for the loops of one thread.
    pub fn ticker(&self) -> Ticker<'_> {
        self.limit.ticker()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_has_the_limit_it_is_given() {
        let context = Context::new(1);
        assert!(!context.is_limited() && !context.is_over());
        assert!(context.clone().within(Duration::ZERO).ticker().must_stop(1));
        assert!(!context.clone().within(Duration::MAX).is_limited());
        let cancel = Cancel::new();
        cancel.set();
        let limit = Limit::none().cancelled_by(cancel);
        assert!(context.with_limit(limit.clone()).is_over() && limit.is_cancelled());
    }
}
