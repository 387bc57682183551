//! A circuit breaker that keeps requests away from a node that fails all of them.

use std::time::{Duration, Instant};

/// Number of consecutive failures after which a node is left alone for a while.
const FAILURES: u32 = 3;

/// First pause and longest pause. Each pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// A circuit breaker for one node. It is closed while searches succeed. After several failures it
/// opens, and no requests are sent; after a pause, one search is sent to probe the node. Only a
/// successful search closes it, since a node may describe itself and still fail all searches.
#[derive(Default)]
pub(crate) struct Breaker {
    failures: u32,
    open: Option<OpenState>,
}

#[derive(Clone, Copy)]
struct OpenState {
    until: Instant,
    pause: Duration,
    /// True if a search that probes the node is in progress.
    is_tried: bool,
}

impl Breaker {
    pub(crate) fn admits(&self, now: Instant) -> bool {
        self.open.is_none_or(|open| now >= open.until && !open.is_tried)
    }

    /// Records that a search is sent now. Returns true if it is the one that probes the node.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        match &mut self.open {
            Some(open) if now >= open.until && !open.is_tried => {
                open.is_tried = true;
                true
            }
            _ => false,
        }
    }

    /// Records that the search that probed the node has ended, whatever its result.
    pub(crate) fn tried(&mut self) {
        if let Some(open) = &mut self.open {
            open.is_tried = false;
        }
    }

    pub(crate) fn succeed(&mut self) {
        *self = Breaker::default();
    }

    pub(crate) fn fail(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        let is_early = self.open.is_some_and(|open| now < open.until);
        if self.failures < FAILURES || is_early {
            return;
        }
        let pause = self.open.map_or(FIRST_PAUSE, |open| (2 * open.pause).min(LONGEST_PAUSE));
        self.open = Some(OpenState { until: now + pause, pause, is_tried: false });
    }

    /// Records that the node was away and has returned. It can be probed immediately, without
    /// waiting for the end of the pause. Pauses start short again: a node that has just started
    /// is slow at first and must not be left alone for long because of that.
    pub(crate) fn is_back(&mut self, now: Instant) {
        if let Some(open) = &mut self.open {
            *open = OpenState { until: open.until.min(now), pause: FIRST_PAUSE / 2, ..*open };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(start: Instant) -> Breaker {
        let mut breaker = Breaker::default();
        (0..FAILURES).for_each(|_| breaker.fail(start));
        breaker
    }

    #[test]
    fn a_node_that_fails_is_left_alone_for_longer_and_longer() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for _ in 0..FAILURES - 1 {
            breaker.fail(start);
            assert!(breaker.admits(start));
        }
        let (mut now, mut pauses) = (start, Vec::new());
        for _ in 0..7 {
            breaker.fail(now);
            let OpenState { until, pause, .. } = breaker.open.unwrap();
            assert!(!breaker.admits(until - Duration::from_nanos(1)) && breaker.admits(until));
            // Searches sent before that fail now change nothing.
            breaker.fail(now);
            assert_eq!(breaker.open.unwrap().until, until);
            pauses.push(pause.as_millis());
            now = until;
        }
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 4000, 4000]);
    }

    #[test]
    fn after_a_pause_one_search_tries_the_node() {
        let start = Instant::now();
        let mut breaker = opened(start);
        assert!(!breaker.begin(start));
        let later = start + FIRST_PAUSE;
        assert!(breaker.begin(later));
        assert!(!breaker.admits(later) && !breaker.begin(later));
        // The search was cancelled, which says nothing about the node.
        breaker.tried();
        assert!(breaker.begin(later));
        breaker.fail(later);
        assert!(!breaker.admits(later + FIRST_PAUSE) && breaker.admits(later + 2 * FIRST_PAUSE));
        breaker.succeed();
        assert!(breaker.admits(start) && !breaker.begin(start));
    }

    #[test]
    fn a_node_that_is_back_is_tried_at_once_and_by_one_search() {
        let start = Instant::now();
        let mut breaker = opened(start);
        breaker.is_back(start);
        assert!(breaker.begin(start) && !breaker.admits(start));
        breaker.fail(start);
        assert_eq!(breaker.open.unwrap().until, start + FIRST_PAUSE);
    }
}
