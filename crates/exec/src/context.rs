//! What surrounds a search: until when it may take, whether anybody still wants it, and which threads it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
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
    /// Questions that are still answered with no; negative without such a limit.
    left: Option<AtomicI64>,
}

impl Cancel {
    /// Not set.
    pub fn new() -> Self {
        Cancel::default()
    }

    /// Sets itself when it was asked this many times, and is asked at every occasion. For tests, which can so stop a search anywhere without a clock.
    pub fn after(questions: u32) -> Self {
        let left = Some(AtomicI64::new(i64::from(questions)));
        Cancel(Arc::new(State { set: AtomicBool::new(false), left }))
    }

    /// Asks all searches that know it to stop.
    pub fn set(&self) {
        self.0.set.store(true, Ordering::Relaxed);
    }

    /// Whether it is the same flag as another.
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

/// What an engine must know beside the plans.
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
    /// No deadline, and this many threads, which last as long as the process.
    pub fn new(threads: usize) -> Self {
        Self::on(Pool::shared(threads))
    }

    /// No deadline, and threads of a pool.
    pub fn on(pool: Arc<Pool>) -> Self {
        Context { deadline: None, cancel: None, pool }
    }

    /// The same until a moment.
    pub fn until(self, deadline: Instant) -> Self {
        Context { deadline: Some(deadline), ..self }
    }

    /// The same for some time from now on.
    pub fn within(self, time: Duration) -> Self {
        match Instant::now().checked_add(time) {
            Some(deadline) => self.until(deadline),
            // So far away that it is none.
            None => Context { deadline: None, ..self },
        }
    }

    /// The same, until somebody cancels.
    pub fn cancelled_by(self, cancel: Cancel) -> Self {
        Context { cancel: Some(cancel), ..self }
    }

    /// The same with the threads of another pool.
    pub fn with_pool(&self, pool: Arc<Pool>) -> Self {
        Context { pool, ..self.clone() }
    }

    /// When the search must have ended, if it must.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// How many threads a search may use, at least 1.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Its threads.
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

    /// For the loops of one thread.
    pub fn ticker(&self) -> Ticker<'_> {
        Ticker { context: self.is_limited().then_some(self), left: 0 }
    }
}

/// Postings after which a loop looks at the clock: some 20 us of work, many times what the look costs.
const INTERVAL: u32 = 1 << 13;

/// Tells a loop over postings when it has to stop, at little cost.
#[derive(Debug)]
pub struct Ticker<'a> {
    /// None if there is no limit.
    context: Option<&'a Context>,
    /// Postings until the next look at the clock.
    left: u32,
}

impl Ticker<'_> {
    /// Whether to stop now, before as much more work as reading these postings. Once it said so, it says so for ever.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticker_looks_at_first_and_then_now_and_again() {
        let cancel = Cancel::new();
        let context = Context::new(1).cancelled_by(cancel.clone());
        let mut ticker = context.ticker();
        assert!(!ticker.must_stop(1));
        cancel.set();
        assert!(context.is_over() && context.ticker().must_stop(1), "a new one looks at once");
        assert!(!ticker.must_stop(INTERVAL as usize), "no look yet");
        assert!(ticker.must_stop(1));
        assert!(ticker.must_stop(0) && ticker.must_stop(1), "for ever");
    }

    #[test]
    fn a_search_can_be_stopped_after_some_questions() {
        let context = Context::new(1).cancelled_by(Cancel::after(2));
        let mut ticker = context.ticker();
        assert!(!ticker.must_stop(1) && !ticker.must_stop(1) && ticker.must_stop(1));
        assert!(context.ticker().must_stop(1));
    }

    #[test]
    fn deadlines_pass_and_without_one_there_is_no_end() {
        let context = Context::new(1);
        assert!(!context.is_limited() && !context.is_over());
        assert!(!context.ticker().must_stop(usize::MAX));
        assert!(context.clone().within(Duration::ZERO).ticker().must_stop(1));
        assert!(!context.clone().within(Duration::from_secs(3600)).is_over());
        assert!(!context.within(Duration::MAX).is_limited());
    }
}
