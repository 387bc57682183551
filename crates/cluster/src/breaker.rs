//! Keeps requests away from a node that fails them all.

use std::time::{Duration, Instant};

/// Failures in a row after which a node is left alone for a while.
const FAILURES: u32 = 3;

/// How long it is left alone at first, and at most: each time twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// Closed as long as searches succeed. After some failures it is open, and nothing is sent; after a pause one search is sent to try the node. Only a search that succeeds closes it: a node may say how it is, and yet
/// answer no search.
#[derive(Default)]
pub(crate) struct Breaker {
    failures: u32,
    open: Option<Open>,
}

#[derive(Clone, Copy)]
struct Open {
    until: Instant,
    pause: Duration,
    /// Whether a search that tries the node is under way.
    is_tried: bool,
}

impl Breaker {
    pub(crate) fn admits(&self, now: Instant) -> bool {
        self.open.is_none_or(|open| now >= open.until && !open.is_tried)
    }

    /// A search is sent now. Returns whether it is the one that tries the node.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        match &mut self.open {
            Some(open) if now >= open.until && !open.is_tried => {
                open.is_tried = true;
                true
            }
            _ => false,
        }
    }

    /// The search that tried the node is over, whatever became of it.
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
        self.open = Some(Open { until: now + pause, pause, is_tried: false });
    }

    /// The node was away and is back, so it need not wait for the end of the pause to be tried. Pauses begin anew: one that has just started is slow at first, and must not be left alone for long because of that.
    pub(crate) fn is_back(&mut self, now: Instant) {
        if let Some(open) = &mut self.open {
            *open = Open { until: open.until.min(now), pause: FIRST_PAUSE / 2, ..*open };
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
            let Open { until, pause, .. } = breaker.open.unwrap();
            assert!(!breaker.admits(until - Duration::from_nanos(1)) && breaker.admits(until));
            // What was sent before fails as well, and changes nothing.
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
        // It was given up, which says nothing of the node.
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
