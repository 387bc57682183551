//! Block-max MaxScore (Chakrabarti 2011; Mallia 2017): like MaxScore, but a document is looked up
//! in the non-essential lists only if the maxima of the blocks that it would be in let it exceed
//! the threshold.

use std::ops::Range;

use warpseek_exec::{Ticker, Work};
use warpseek_index::ListError;

use crate::collector::Collector;
use crate::cursor::Cursor;
use crate::maxscore::Partition;
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
        if look_up(&lists, query, cursors, doc, &mut sum, collector, work)? {
            query.offer(doc, sum, collector);
        }
    }
    Ok(docs.end)
}

/// Adds the contributions of the other lists, like [`Partition::look_up`], but with the maxima of
/// blocks instead of those of lists.
fn look_up(
    lists: &Partition,
    query: &SegmentQuery<'_>,
    cursors: &mut [Cursor<'_>],
    doc: u32,
    sum: &mut u32,
    collector: &Collector,
    work: &mut Work,
) -> Result<bool, ListError> {
    let threshold = u64::from(collector.threshold());
    let Some(last) = lists.first.checked_sub(1) else { return Ok(true) };
    if u64::from(*sum) + lists.sums[last] <= threshold {
        return Ok(false);
    }
    let mut most = u64::from(*sum) + u64::from(query.static_most);
    for cursor in &mut cursors[..lists.first] {
        most += u64::from(cursor.peek(doc).0);
    }
    for i in (0..lists.first).rev() {
        if most <= threshold {
            return Ok(false);
        }
        let cursor = &mut cursors[i];
        most -= u64::from(cursor.peek(doc).0);
        if cursor.doc() < doc {
            cursor.seek(doc)?;
        }
        if cursor.doc() == doc {
            let share = cursor.score()?;
            work.postings_scored += 1;
            *sum += share;
            most += u64::from(share);
        }
    }
    Ok(true)
}
