//! Exhaustive search, document at a time: the smallest document under any cursor is scored, and
//! all cursors on it advance.

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
    for cursor in cursors.iter_mut() {
        cursor.enter(docs.start)?;
    }
    loop {
        let doc = cursors.iter().map(Cursor::doc).min().unwrap_or(NO_DOC);
        if doc >= docs.end {
            return Ok(docs.end);
        }
        if ticker.must_stop(cursors.len()) {
            return Ok(doc);
        }
        let mut sum = 0;
        for cursor in cursors.iter_mut().filter(|c| c.doc() == doc) {
            sum += cursor.score()?;
            work.postings_scored += 1;
            cursor.next()?;
        }
        query.offer(doc, sum, collector);
    }
}
