//! Limits of work: a deadline, and a flag that cancels it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// A flag that cancels searches. Its clones share one state.
///
/// A cancelled search returns a partial answer, which is exact over the part of the index that it
/// covers.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<State>);

#[derive(Debug, Default)]
struct State {
    set: AtomicBool,
    /// Number of checks until the flag sets itself, if it does.
    left: Option<AtomicI64>,
    /// A flag that sets this one too.
    above: Option<Cancel>,
}

impl Cancel {
    /// Creates a flag that is not set.
    pub fn new() -> Self {
        Cancel::default()
    }

    /// Creates a flag that sets itself after this many checks, and that searches check at every
    /// opportunity. Tests use it to stop a search at any point without a clock.
    pub fn after(questions: u32) -> Self {
        let left = Some(AtomicI64::new(i64::from(questions)));
        Cancel(Arc::new(State { left, ..State::default() }))
    }

    /// Creates a flag that is set when this one is, and that can be set without setting this one.
    pub fn part(&self) -> Self {
        Cancel(Arc::new(State { above: Some(self.clone()), ..State::default() }))
    }

    /// Cancels all searches that hold this flag.
    pub fn set(&self) {
        self.0.set.store(true, Ordering::Relaxed);
    }

    /// Returns true if both are the same flag.
    pub fn is_same(&self, other: &Cancel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns true if the flag is set.
    pub fn is_set(&self) -> bool {
        if let Some(left) = &self.0.left
            && left.fetch_sub(1, Ordering::Relaxed) <= 0
        {
            self.set();
        }
        self.0.set.load(Ordering::Relaxed) || self.0.above.as_ref().is_some_and(Cancel::is_set)
    }
}

/// The limit of the work for a request: a deadline, a cancellation, both or none. It is passed
/// down to everything that is done for the request, and every loop checks it once for each block
/// of its work.
#[derive(Clone, Debug, Default)]
pub struct Limit {
    deadline: Option<Instant>,
    cancel: Option<Cancel>,
}

impl Limit {
    /// Returns no limit.
    pub fn none() -> Self {
        Limit::default()
    }

    /// Sets the deadline.
    pub fn until(self, deadline: Instant) -> Self {
        Limit { deadline: Some(deadline), ..self }
    }

    /// Sets the deadline to this long after `start`, or removes it if the clock cannot represent
    /// that time.
    pub fn after(self, start: Instant, time: Duration) -> Self {
        Limit { deadline: start.checked_add(time), ..self }
    }

    /// Sets the flag that cancels the work.
    pub fn cancelled_by(self, cancel: Cancel) -> Self {
        Limit { cancel: Some(cancel), ..self }
    }

    /// Returns the deadline, if there is one.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the flag that cancels the work, if there is one.
    pub fn cancel(&self) -> Option<&Cancel> {
        self.cancel.as_ref()
    }

    /// Returns the time left until the deadline, if there is one.
    pub fn left(&self) -> Option<Duration> {
        Some(self.deadline?.saturating_duration_since(Instant::now()))
    }

    /// Returns true if the work may have to stop early.
    pub fn is_limited(&self) -> bool {
        self.deadline.is_some() || self.cancel.is_some()
    }

    /// Returns true if the work was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(Cancel::is_set)
    }

    /// Returns true if the work has to stop now.
    pub fn is_over(&self) -> bool {
        self.is_cancelled() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns a ticker for the loops of one thread.
    pub fn ticker(&self) -> Ticker<'_> {
        Ticker { limit: self.is_limited().then_some(self), left: 0 }
    }
}

/// Number of postings after which a loop checks the clock: about 5 us of work, many times the
/// cost of the check.
const INTERVAL: u32 = 1 << 11;

/// Ample time for a posting: ten times the time to read and score it.
const AMPLE_NANOS: u64 = 20;

/// Cost of looking up a word in a dictionary, or an id, in postings.
pub(crate) const LOOKUP_COST: usize = 256;

/// A ticker that tells a loop, at little cost, when to stop. Work is measured in postings:
/// anything that takes as long as reading and scoring one posting counts as one.
#[derive(Debug)]
pub struct Ticker<'a> {
    /// The limit; `None` if the work is unlimited.
    limit: Option<&'a Limit>,
    /// Number of postings until the next check of the clock.
    left: u32,
}

impl Ticker<'_> {
    /// Creates a ticker for unlimited work.
    pub fn unlimited() -> Self {
        Ticker { limit: None, left: 0 }
    }

    /// Returns true if the loop has to stop before work that corresponds to reading this many
    /// postings. Once it has returned true, it always does.
    #[inline]
    pub fn must_stop(&mut self, postings: usize) -> bool {
        let Some(limit) = self.limit else { return false };
        let postings = u32::try_from(postings.max(1)).unwrap_or(u32::MAX);
        match self.left.checked_sub(postings) {
            Some(left) => {
                self.left = left;
                false
            }
            None => self.look(limit),
        }
    }

    #[cold]
    fn look(&mut self, limit: &Limit) -> bool {
        let over = limit.is_over();
        let asks_always = limit.cancel.as_ref().is_some_and(|cancel| cancel.0.left.is_some());
        self.left = if over || asks_always { 0 } else { INTERVAL };
        over
    }

    /// Returns true if there is a limit.
    pub fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Returns true if the deadline, if any, is far enough away to read this many postings
    /// several times over.
    pub fn has_time_for(&self, postings: u64) -> bool {
        let Some(deadline) = self.limit.and_then(Limit::deadline) else { return true };
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
        let limit = Limit::none().cancelled_by(cancel.clone());
        let mut ticker = limit.ticker();
        assert!(!ticker.must_stop(1));
        cancel.set();
        assert!(limit.is_over() && limit.ticker().must_stop(1), "a new ticker checks at once");
        assert!(!ticker.must_stop(INTERVAL as usize), "no check yet");
        assert!(ticker.must_stop(1));
        assert!(ticker.must_stop(0) && ticker.must_stop(1), "it stays true");
    }

    #[test]
    fn a_search_can_be_stopped_after_a_number_of_checks() {
        let limit = Limit::none().cancelled_by(Cancel::after(2));
        let mut ticker = limit.ticker();
        assert!(!ticker.must_stop(1) && !ticker.must_stop(1) && ticker.must_stop(1));
        assert!(limit.ticker().must_stop(1));
    }

    #[test]
    fn a_part_is_set_with_the_whole_and_not_the_other_way_round() {
        let whole = Cancel::new();
        let parts = [whole.part(), whole.part()];
        parts[0].set();
        assert!(parts[0].is_set() && !parts[1].is_set() && !whole.is_set());
        whole.set();
        assert!(parts[1].is_set() && parts[1].part().is_set());
    }

    #[test]
    fn deadlines_pass_and_without_one_nothing_is_over() {
        let (none, now) = (Limit::none(), Instant::now());
        assert!(!none.is_limited() && !none.is_over() && !none.is_cancelled());
        assert!(!none.ticker().must_stop(usize::MAX));
        assert!(!Ticker::unlimited().must_stop(usize::MAX));
        assert!(none.clone().after(now, Duration::ZERO).ticker().must_stop(1));
        assert!(!none.clone().after(now, Duration::from_secs(3600)).is_over());
        assert!(!none.after(now, Duration::MAX).is_limited());
    }
}
