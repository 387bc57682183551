//! The segments of an index, as an engine searches them: the documents that it answers for, the
//! values that are kept from query to query, and the scratches that threads borrow.

use std::ops::Range;
use std::sync::Arc;

use warpseek_exec::{Coverage, Plan, Ticker};
use warpseek_index::{Segment, Snapshot};

use crate::decoded::ValuesCache;
use crate::factors::FactorCache;
use crate::halt::Halt;
use crate::maxima::MaximaCache;
use crate::scratch::{BorrowedScratch, ScratchPool};
use crate::segment::SegmentQuery;
use crate::tops::TopsCache;

/// Values of a segment that are kept from query to query.
#[derive(Default)]
pub(crate) struct Caches {
    pub(crate) maxima: MaximaCache,
    pub(crate) factors: FactorCache,
    pub(crate) tops: TopsCache,
    pub(crate) values: ValuesCache,
}

/// The segments of an index with their caches.
pub(crate) struct SegmentSet {
    snapshot: Arc<Snapshot>,
    /// The positions that the engine answers for, if not all.
    within: Option<Range<u32>>,
    max_static: f32,
    /// Caches by segment.
    caches: Vec<Caches>,
    scratches: ScratchPool,
}

impl SegmentSet {
    /// Creates a set of all segments of an index, with all their documents.
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> Self {
        let caches = snapshot.segments().iter().map(|_| Caches::default()).collect();
        let max_static = snapshot.statistics().max_static;
        let scratches = ScratchPool::default();
        SegmentSet { snapshot, within: None, max_static, caches, scratches }
    }

    /// Restricts the set to a range of documents, by position counted over all segments.
    pub(crate) fn within(self, docs: Range<u32>) -> Self {
        SegmentSet { within: Some(docs), ..self }
    }

    /// Returns true if the engine answers for all documents.
    pub(crate) fn is_whole(&self) -> bool {
        self.within.is_none()
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns the number of segments.
    pub(crate) fn count(&self) -> usize {
        self.snapshot.segments().len()
    }

    pub(crate) fn segment(&self, number: usize) -> &Segment {
        &self.snapshot.segments()[number]
    }

    pub(crate) fn caches(&self, number: usize) -> &Caches {
        &self.caches[number]
    }

    pub(crate) fn maxima(&self, number: usize) -> &MaximaCache {
        &self.caches[number].maxima
    }

    /// Returns the documents of a segment that the engine answers for.
    pub(crate) fn docs(&self, number: usize) -> Range<u32> {
        let segment = self.segment(number);
        self.within.as_ref().map_or(0..segment.documents().count(), |docs| segment.part(docs))
    }

    /// Returns the coverage of a search that stopped at this document of a segment.
    pub(crate) fn up_to(&self, number: usize, end: u32) -> Coverage {
        let start = self.within.as_ref().map_or(0, |docs| docs.start);
        Coverage::of(std::iter::once(start..self.segment(number).base() + end))
    }

    /// Borrows a scratch for a thread, reused or new.
    pub(crate) fn scratch(&self) -> BorrowedScratch<'_> {
        self.scratches.borrow()
    }

    /// Opens a plan on a segment.
    pub(crate) fn query<'a>(
        &'a self,
        plan: &'a Plan,
        number: usize,
        ticker: &mut Ticker<'_>,
    ) -> Result<SegmentQuery<'a>, Halt> {
        let factors = &self.caches[number].factors;
        SegmentQuery::new(plan, number, self.segment(number), factors, self.max_static, ticker)
    }
}
