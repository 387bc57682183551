//! The best hits so far, and the score that a document needs to become one.

use warpseek_core::{Hit, Score, TopK};
use warpseek_index::Segment;

/// A collector that receives scores of parts, in ascending order within a segment, and keeps the
/// best documents.
pub(crate) struct Collector {
    top: TopK,
    /// Minimum score of a hit, even if there are few.
    least: Score,
    /// The last document offered and the best score of its parts so far.
    pending: Option<(u32, Score)>,
}

impl Collector {
    pub(crate) fn new(k: usize, least: Score) -> Self {
        Collector { top: TopK::new(k), least, pending: None }
    }

    /// Returns the lowest score at which a part can make a difference, if it comes after all
    /// parts offered.
    #[inline]
    pub(crate) fn least(&self, segment: &Segment, part: u32) -> Score {
        let doc = segment.base() + segment.parts().document(part);
        self.least.max(self.top.threshold(doc).saturating_add(1))
    }

    /// Offers a part.
    pub(crate) fn offer(&mut self, segment: &Segment, part: u32, score: Score) {
        let document = segment.parts().document(part);
        if score < self.least || segment.is_deleted(document) {
            return;
        }
        let doc = segment.base() + document;
        match &mut self.pending {
            Some((pending, best)) if *pending == doc => *best = score.max(*best),
            _ => {
                self.settle();
                self.pending = Some((doc, score));
            }
        }
        if segment.parts().are_documents() {
            self.settle();
        }
    }

    fn settle(&mut self) {
        if let Some((doc, score)) = self.pending.take() {
            self.top.offer(doc, score);
        }
    }

    /// Reports that all parts of documents below `end` were offered.
    pub(crate) fn settle_before(&mut self, end: u32) {
        if self.pending.is_some_and(|(doc, _)| doc < end) {
            self.settle();
        }
    }

    /// Returns the hits, best first. Unless all parts were offered, the last document may lack
    /// some and is left out.
    pub(crate) fn into_hits(mut self, complete: bool) -> Vec<Hit> {
        if complete {
            self.settle();
        }
        self.top.into_hits()
    }
}
