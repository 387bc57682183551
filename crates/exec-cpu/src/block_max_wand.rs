//! Block-max WAND (Ding and Suel 2011): a WAND pivot is scored only if the sum of the maxima of
//! the blocks that contain it exceeds the threshold; if not, all documents up to the nearest end
//! of those blocks are skipped.

use std::ops::Range;

use warpseek_core::limits::NO_DOC;
use warpseek_exec::{Ticker, Work};
use warpseek_index::ListError;

use crate::collector::Collector;
use crate::cursor::Cursor;
use crate::segment::SegmentQuery;
use crate::wand::ByDocument;

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
        let (mut sum, mut end) = (u64::from(query.static_most), NO_DOC - 1);
        for i in 0..=pivot {
            let (most, until) = order.get(cursors, i).peek(doc);
            sum += u64::from(most);
            end = end.min(until);
        }
        if sum > u64::from(collector.threshold()) {
            if order.first_doc(cursors) == doc {
                order.score_pivot(query, cursors, doc, collector, work)?;
            } else {
                let behind = (0..pivot).rev().find(|&i| order.doc(cursors, i) < doc).unwrap_or(0);
                order.advance(cursors, behind, doc)?;
            }
            continue;
        }
        // Up to the end of the nearest block, or up to the next list's document, the same sum is
        // an upper bound.
        let mut target = end + 1;
        if pivot + 1 < cursors.len() {
            target = target.min(order.doc(cursors, pivot + 1));
        }
        let target = target.max(doc + 1);
        let longest = (0..=pivot).max_by_key(|&i| order.get(cursors, i).most).unwrap_or(0);
        order.advance(cursors, longest, target)?;
    }
    Ok(docs.end)
}
