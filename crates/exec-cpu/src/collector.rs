//! The hits so far, and the score that the next one must exceed.

use warpseek_core::{Hit, Score, TopK};

/// Documents are offered in ascending order, so one that only ties with the worst hit kept is too late: it ranks behind it.
pub(crate) struct Collector {
    top: TopK,
    threshold: Score,
    matches: u64,
}

impl Collector {
    pub(crate) fn new(k: usize) -> Self {
        // With no place to fill, nothing can exceed the threshold.
        let threshold = if k == 0 { Score::MAX } else { 0 };
        Collector { top: TopK::new(k), threshold, matches: 0 }
    }

    /// A document whose score is at most this cannot become a hit any more.
    #[inline]
    pub(crate) fn threshold(&self) -> Score {
        self.threshold
    }

    /// From now on documents whose score is at most `floor` are not wanted: others are known to be better.
    pub(crate) fn raise(&mut self, floor: Score) {
        self.threshold = self.threshold.max(floor);
    }

    /// The score of the worst of k hits, 0 while there are fewer.
    pub(crate) fn worst(&self) -> Score {
        self.top.threshold()
    }

    #[inline]
    pub(crate) fn offer(&mut self, doc: u32, score: Score) {
        self.matches += 1;
        if score > self.threshold {
            self.top.offer(doc, score);
            self.raise(self.top.threshold());
        }
    }

    /// Counts a match that is not offered.
    pub(crate) fn count(&mut self) {
        self.matches += 1;
    }

    pub(crate) fn matches(&self) -> u64 {
        self.matches
    }

    pub(crate) fn into_hits(self) -> Vec<Hit> {
        self.top.into_hits()
    }
}
