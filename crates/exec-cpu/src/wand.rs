//! WAND (Broder 2003; Gaioso 2019, algorithm 2): cursors are sorted by their documents; the first
//! one at which the sum of list maxima exceeds the threshold is the pivot. No document before the
//! pivot's document can become a hit.

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
    let mut order = ByDocument::start(cursors, docs.start)?;
    while let Some((pivot, doc)) = order.pivot(cursors, query.static_most, collector.threshold()) {
        if doc >= docs.end {
            break;
        }
        if ticker.must_stop(pivot + 1) {
            return Ok(doc);
        }
        if order.first_doc(cursors) == doc {
            order.score_pivot(query, cursors, doc, collector, work)?;
        } else {
            // Any cursor before the pivot may move; the one just before it in the order has
            // advanced furthest.
            let behind = (0..pivot).rev().find(|&i| order.doc(cursors, i) < doc).unwrap_or(0);
            order.advance(cursors, behind, doc)?;
        }
    }
    Ok(docs.end)
}

/// Indexes of cursors in the order of their documents.
pub(crate) struct ByDocument(Vec<u32>);

impl ByDocument {
    /// Moves all cursors to their first posting from a document on.
    pub(crate) fn start(cursors: &mut [Cursor<'_>], from: u32) -> Result<Self, ListError> {
        for cursor in cursors.iter_mut() {
            cursor.enter(from)?;
        }
        let mut order: Vec<u32> = (0..cursors.len() as u32).collect();
        order.sort_by_key(|&i| cursors[i as usize].doc());
        Ok(ByDocument(order))
    }

    pub(crate) fn get<'c, 'a>(
        &self,
        cursors: &'c mut [Cursor<'a>],
        i: usize,
    ) -> &'c mut Cursor<'a> {
        &mut cursors[self.0[i] as usize]
    }

    pub(crate) fn doc(&self, cursors: &[Cursor<'_>], i: usize) -> u32 {
        cursors[self.0[i] as usize].doc()
    }

    pub(crate) fn first_doc(&self, cursors: &[Cursor<'_>]) -> u32 {
        self.doc(cursors, 0)
    }

    /// Returns the last cursor in this order that is on the pivot document, and that document, or
    /// `None` when no document can become a hit.
    pub(crate) fn pivot(
        &self,
        cursors: &[Cursor<'_>],
        static_most: u32,
        threshold: u32,
    ) -> Option<(usize, u32)> {
        let mut sum = u64::from(static_most);
        for (i, &c) in self.0.iter().enumerate() {
            let cursor = &cursors[c as usize];
            let doc = cursor.doc();
            if doc == NO_DOC {
                return None;
            }
            sum += u64::from(cursor.most);
            if sum > u64::from(threshold) {
                let more =
                    self.0[i + 1..].iter().take_while(|&&c| cursors[c as usize].doc() == doc);
                return Some((i + more.count(), doc));
            }
        }
        None
    }

    /// Scores and offers the document that the first cursors are on, and advances those cursors.
    pub(crate) fn score_pivot(
        &mut self,
        query: &SegmentQuery<'_>,
        cursors: &mut [Cursor<'_>],
        doc: u32,
        collector: &mut Collector,
        work: &mut Work,
    ) -> Result<(), ListError> {
        let (mut sum, mut on) = (0, 0);
        while on < self.0.len() && self.doc(cursors, on) == doc {
            sum += self.get(cursors, on).score()?;
            on += 1;
        }
        work.postings_scored += on as u64;
        query.offer(doc, sum, collector);
        for i in (0..on).rev() {
            self.get(cursors, i).next()?;
            self.sink(cursors, i);
        }
        Ok(())
    }

    /// Moves the `i`-th cursor to `target` or beyond, and restores the order.
    pub(crate) fn advance(
        &mut self,
        cursors: &mut [Cursor<'_>],
        i: usize,
        target: u32,
    ) -> Result<(), ListError> {
        self.get(cursors, i).seek(target)?;
        self.sink(cursors, i);
        Ok(())
    }

    /// Restores the order after the `i`-th cursor moved forward.
    fn sink(&mut self, cursors: &[Cursor<'_>], mut i: usize) {
        let (moved, doc) = (self.0[i], self.doc(cursors, i));
        while i + 1 < self.0.len() && self.doc(cursors, i + 1) < doc {
            self.0[i] = self.0[i + 1];
            i += 1;
        }
        self.0[i] = moved;
    }
}
