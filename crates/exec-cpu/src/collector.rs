//! The best hits so far, and the score that the next one must exceed.

use std::sync::Arc;

use warpseek_core::{DocId, Hit, Score, TopK};
use warpseek_exec::Floor;
use warpseek_index::Segment;

/// Number of documents after which a collector looks again at what other parts of the search have
/// found.
const TURN: u64 = 64;

/// A collector of the best hits among documents that arrive segment by segment.
#[derive(Clone)]
pub(crate) struct Collector {
    top: TopK,
    threshold: Score,
    /// A score that k documents of this segment or others are known to exceed.
    floor: Score,
    /// A lower bound on the ids of the documents still to come in this segment, or `DocId::MAX`
    /// if they come after all hits kept.
    least: DocId,
    matches: u64,
    /// The bound on the k-th best score that this search shares with searches of other documents.
    shared: Option<Arc<Floor>>,
    /// True if all hits kept remain hits of this search, even if it has to stop.
    publishes: bool,
}

impl Collector {
    pub(crate) fn new(k: usize) -> Self {
        let top = TopK::new(k);
        let least = DocId::MAX;
        let (shared, publishes) = (None, false);
        let threshold = top.threshold(least);
        Collector { threshold, top, floor: 0, least, matches: 0, shared, publishes }
    }

    /// Makes the collector use the k-th best score that searches of other documents have found,
    /// and, if it `publishes`, share its own. At least one hit must be requested.
    pub(crate) fn sharing(self, shared: Option<Arc<Floor>>, publishes: bool) -> Self {
        Collector { shared, publishes, ..self }
    }

    /// Exchanges thresholds with the other parts of the search. Documents of other parts may have
    /// smaller ids, and so may this part's, so a document that ties with their k-th hit stays.
    pub(crate) fn exchange(&mut self) {
        let Some(shared) = &self.shared else { return };
        if self.publishes {
            shared.raise(self.worst());
        }
        let floor = shared.reached().saturating_sub(1);
        self.raise(floor);
    }

    /// Announces that documents of this segment come next. In ascending order, a document that
    /// only ties with the worst hit kept comes too late, since it ranks below it. In a reordered
    /// segment it may rank above it, unless the worst hit is from an earlier segment.
    pub(crate) fn enter(&mut self, segment: &Segment, reordered: bool) {
        self.least = if reordered { segment.base() } else { DocId::MAX };
        self.threshold = self.top.threshold(self.least).max(self.floor);
        self.exchange();
    }

    /// Sets a floor: at least k documents of any segment score more than `floor`, and all of them
    /// will be offered unless the search has to stop. Documents with lower scores cannot become
    /// hits.
    pub(crate) fn set_floor(&mut self, floor: Score) {
        self.floor = self.floor.max(floor);
        self.raise(self.floor);
    }

    /// Returns the threshold: a document whose score is at most this can no longer become a hit.
    #[inline]
    pub(crate) fn threshold(&self) -> Score {
        self.threshold
    }

    /// Raises the threshold: documents whose score is at most `floor` are no longer needed, since
    /// better ones are known elsewhere.
    pub(crate) fn raise(&mut self, floor: Score) {
        self.threshold = self.threshold.max(floor);
    }

    /// Returns true if the hits kept are those of all documents offered, so the floor has
    /// excluded no hit.
    pub(crate) fn is_exact(&self) -> bool {
        self.floor == 0 || self.worst() > self.floor
    }

    /// Returns the score of the worst of k hits, or 0 while there are fewer.
    pub(crate) fn worst(&self) -> Score {
        self.top.threshold(DocId::MAX)
    }

    /// Counts a match, and adds the document if its score is high enough. Calls `doc` only in
    /// that case.
    #[inline]
    pub(crate) fn offer(&mut self, score: Score, doc: impl FnOnce() -> DocId) {
        self.matches += 1;
        if score > self.threshold {
            self.top.offer(doc(), score);
            self.raise(self.top.threshold(self.least));
            self.exchange();
        } else if self.shared.is_some() && self.matches.is_multiple_of(TURN) {
            self.exchange();
        }
    }

    /// Counts a match without offering it.
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
