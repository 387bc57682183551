//! MaxScore (Turtle 1995; Gaioso 2019, algorithm 1): lists are sorted by their maxima. Those
//! whose maxima together do not exceed the threshold are not essential: a document that is in no
//! other list cannot become a hit. Documents come from the essential lists and are looked up in
//! the others.

use std::ops::Range;

use warpseek_core::limits::NO_DOC;
use warpseek_exec::{Ticker, Work};
use warpseek_index::ListError;

use crate::collector::Collector;
use crate::cursor::Cursor;
use crate::segment::SegmentQuery;

pub(crate) fn or(
    query: &SegmentQuery<'_>,
    cursors: &mut [Cursor<'_>],
    docs: Range<u32>,
    ticker: &mut Ticker<'_>,
    collector: &mut Collector,
    work: &mut Work,
) -> Result<u32, ListError> {
    let mut lists = Partition::start(query, cursors, docs.start)?;
    while let Some(doc) = lists.next(cursors, collector).filter(|&doc| doc < docs.end) {
        if ticker.must_stop(cursors.len()) {
            return Ok(doc);
        }
        let mut sum = lists.score_essential(cursors, doc, work)?;
        if lists.look_up(cursors, doc, &mut sum, collector, work)? {
            query.offer(doc, sum, collector);
        }
    }
    Ok(docs.end)
}

/// Cursors in ascending order of maxima, divided into essential ones and others.
pub(crate) struct Partition {
    /// `sums[i]` is the most that the first i + 1 lists and the static score contribute together.
    pub(crate) sums: Vec<u64>,
    /// Index of the first essential list.
    pub(crate) first: usize,
}

impl Partition {
    /// Sorts the cursors and moves them to their first postings from a document on.
    pub(crate) fn start(
        query: &SegmentQuery<'_>,
        cursors: &mut [Cursor<'_>],
        from: u32,
    ) -> Result<Self, ListError> {
        // Among lists with the same maximum, the longest becomes non-essential first.
        cursors.sort_by_key(|c| (c.most, std::cmp::Reverse(c.df())));
        let mut sum = u64::from(query.static_most);
        let sums = cursors.iter().map(|c| {
            sum += u64::from(c.most);
            sum
        });
        let sums = sums.collect();
        for cursor in cursors.iter_mut() {
            cursor.enter(from)?;
        }
        Ok(Partition { sums, first: 0 })
    }

    /// Returns the next document of an essential list.
    pub(crate) fn next(&mut self, cursors: &[Cursor<'_>], collector: &Collector) -> Option<u32> {
        let threshold = u64::from(collector.threshold());
        while self.first < cursors.len() && self.sums[self.first] <= threshold {
            self.first += 1;
        }
        let doc = cursors[self.first..].iter().map(Cursor::doc).min().unwrap_or(NO_DOC);
        (doc < NO_DOC).then_some(doc)
    }

    /// Returns the contribution of the essential lists to the document, and advances their
    /// cursors.
    pub(crate) fn score_essential(
        &self,
        cursors: &mut [Cursor<'_>],
        doc: u32,
        work: &mut Work,
    ) -> Result<u32, ListError> {
        let mut sum = 0;
        for cursor in cursors[self.first..].iter_mut().filter(|c| c.doc() == doc) {
            sum += cursor.score()?;
            work.postings_scored += 1;
            cursor.next()?;
        }
        Ok(sum)
    }

    /// Adds the contributions of the other lists. Returns false as soon as the document cannot
    /// become a hit.
    pub(crate) fn look_up(
        &self,
        cursors: &mut [Cursor<'_>],
        doc: u32,
        sum: &mut u32,
        collector: &Collector,
        work: &mut Work,
    ) -> Result<bool, ListError> {
        for i in (0..self.first).rev() {
            if u64::from(*sum) + self.sums[i] <= u64::from(collector.threshold()) {
                return Ok(false);
            }
            let cursor = &mut cursors[i];
            if cursor.doc() < doc {
                cursor.seek(doc)?;
            }
            if cursor.doc() == doc {
                *sum += cursor.score()?;
                work.postings_scored += 1;
            }
        }
        Ok(true)
    }
}
