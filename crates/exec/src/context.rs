//! The surroundings of a search: its deadline, the flag that cancels it, and its threads.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::pool::Pool;

/// A flag that asks searches to stop. Clones share it.
///
/// A search that is asked to stop returns what it has: answers that are exact over the part of the index they cover.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<State>);

#[derive(Debug, Default)]
struct State {
    set: AtomicBool,
    /// How many more questions are answered with no, if that is limited.
    left: Option<AtomicI64>,
}

impl Cancel {
    /// A flag that is not set.
    pub fn new() -> Self {
        Cancel::default()
    }

    /// A flag that sets itself after this many checks, and that is checked at every opportunity. Tests use it to stop a
    /// search at any point without a clock.
    pub fn after(questions: u32) -> Self {
        let left = Some(AtomicI64::new(i64::from(questions)));
        Cancel(Arc::new(State { set: AtomicBool::new(false), left }))
    }

    /// Asks all searches that hold this flag to stop.
    pub fn set(&self) {
        self.0.set.store(true, Ordering::Relaxed);
    }

    /// Whether this is the same flag as another.
    pub fn is_same(&self, other: &Cancel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        if let Some(left) = &self.0.left
            && left.fetch_sub(1, Ordering::Relaxed) <= 0
        {
            self.set();
        }
        self.0.set.load(Ordering::Relaxed)
    }
}

/// What an engine needs to know besides the plans.
///
/// When the deadline has passed, or the search is cancelled, engines stop between ranges of documents and return what they have
/// ([`crate::Coverage`]).
#[derive(Clone, Debug)]
pub struct Context {
    deadline: Option<Instant>,
    cancel: Option<Cancel>,
    pool: Arc<Pool>,
}

impl Context {
    /// No deadline, and this many threads, which live as long as the process.
    pub fn new(threads: usize) -> Self {
        Self::on(Pool::shared(threads))
    }

    /// One thread and no limits, for what needs a context and does not search.
    pub fn single() -> &'static Self {
        static SINGLE: OnceLock<Context> = OnceLock::new();
        SINGLE.get_or_init(|| Context::new(1))
    }

    /// No deadline, and the threads of a pool.
    pub fn on(pool: Arc<Pool>) -> Self {
        Context { deadline: None, cancel: None, pool }
    }

    /// The same context with a deadline.
    pub fn until(self, deadline: Instant) -> Self {
        Context { deadline: Some(deadline), ..self }
    }

    /// The same context with a deadline this far from now.
    pub fn within(self, time: Duration) -> Self {
        match Instant::now().checked_add(time) {
            Some(deadline) => self.until(deadline),
            // The deadline is beyond what the clock can represent, so there is none.
            None => Context { deadline: None, ..self },
        }
    }

    /// The same context, which `cancel` can cancel.
    pub fn cancelled_by(self, cancel: Cancel) -> Self {
        Context { cancel: Some(cancel), ..self }
    }

    /// The same context with the threads of another pool.
    pub fn with_pool(&self, pool: Arc<Pool>) -> Self {
        Context { pool, ..self.clone() }
    }

    /// When the search must have ended, if there is a deadline.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// How many threads a search may use, at least 1.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// The threads.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Whether a search may have to stop early.
    pub fn is_limited(&self) -> bool {
        self.deadline.is_some() || self.cancel.is_some()
    }

    /// Whether a search has to stop now.
    pub fn is_over(&self) -> bool {
        self.cancel.as_ref().is_some_and(Cancel::is_set)
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// A ticker for the loops of one thread.
    pub fn ticker(&self) -> Ticker<'_> {
        Ticker { context: self.is_limited().then_some(self), left: 0 }
    }
}

/// Postings after which a loop checks the clock: about 5 us of work, many times the cost of the check.
const INTERVAL: u32 = 1 << 11;

/// Ample time for a posting: ten times what reading and scoring it takes.
const AMPLE_NANOS: u64 = 20;

/// Tells a loop over postings, at little cost, when it has to stop.
#[derive(Debug)]
pub struct Ticker<'a> {
    /// `None` if there is no limit.
    context: Option<&'a Context>,
    /// Postings until the next check of the clock.
    left: u32,
}

impl Ticker<'_> {
    /// Whether to stop now, before work that corresponds to reading this many postings. Once it returns true, it always
    /// does.
    #[inline]
    pub fn must_stop(&mut self, postings: usize) -> bool {
        let Some(context) = self.context else { return false };
        let postings = u32::try_from(postings.max(1)).unwrap_or(u32::MAX);
        match self.left.checked_sub(postings) {
            Some(left) => {
                self.left = left;
                false
            }
            None => self.look(context),
        }
    }

    #[cold]
    fn look(&mut self, context: &Context) -> bool {
        let over = context.is_over();
        let asks_always = context.cancel.as_ref().is_some_and(|cancel| cancel.0.left.is_some());
        self.left = if over || asks_always { 0 } else { INTERVAL };
        over
    }

    /// Whether there is a limit at all.
    pub fn is_limited(&self) -> bool {
        self.context.is_some()
    }

    /// Whether the deadline, if there is one, is far enough to read this many postings several times over.
    pub fn has_time_for(&self, postings: u64) -> bool {
        let Some(deadline) = self.context.and_then(Context::deadline) else { return true };
        let needed = Duration::from_nanos(postings.saturating_mul(AMPLE_NANOS));
        deadline.saturating_duration_since(Instant::now()) > needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticker_checks_at_once_and_then_at_intervals() {
        let cancel = Cancel::new();
        let context = Context::new(1).cancelled_by(cancel.clone());
        let mut ticker = context.ticker();
        assert!(!ticker.must_stop(1));
        cancel.set();
        assert!(context.is_over() && context.ticker().must_stop(1), "a new ticker checks at once");
        assert!(!ticker.must_stop(INTERVAL as usize), "no check yet");
        assert!(ticker.must_stop(1));
        assert!(ticker.must_stop(0) && ticker.must_stop(1), "it stays true");
    }

    #[test]
    fn a_search_can_be_stopped_after_a_number_of_checks() {
        let context = Context::new(1).cancelled_by(Cancel::after(2));
        let mut ticker = context.ticker();
        assert!(!ticker.must_stop(1) && !ticker.must_stop(1) && ticker.must_stop(1));
        assert!(context.ticker().must_stop(1));
    }

    #[test]
    fn deadlines_pass_and_without_one_a_search_is_never_over() {
        let context = Context::new(1);
        assert!(!context.is_limited() && !context.is_over());
        assert!(!context.ticker().must_stop(usize::MAX));
        assert!(context.clone().within(Duration::ZERO).ticker().must_stop(1));
        assert!(!context.clone().within(Duration::from_secs(3600)).is_over());
        assert!(!context.within(Duration::MAX).is_limited());
    }
}
