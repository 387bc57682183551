//! AND: the shortest list drives, one posting at a time, and each of its documents is sought in
//! the others, shortest first (Ding 2009, section 8.1). A block of a longer list is decoded only
//! if a document that is in all shorter lists falls into it. With bounds, blocks whose maxima
//! together cannot exceed the threshold are skipped.

use std::ops::Range;

use warpseek_core::limits::NO_DOC;
use warpseek_exec::{Ticker, Work};
use warpseek_index::ListError;

use crate::algorithm::Pruning;
use crate::collector::Collector;
use crate::cursor::Cursor;
use crate::segment::SegmentQuery;

/// Offers all documents of a range that are in every list or, with pruning, all of those that can
/// become hits; if matches are counted, it offers or counts all of them in any case. The next
/// range must not begin before the end of this one. Returns the end of what was searched, which
/// is the end of the range unless the ticker asked to stop.
pub(crate) fn and(
    query: &SegmentQuery<'_>,
    cursors: &mut [Cursor<'_>],
    docs: Range<u32>,
    pruning: Pruning,
    ticker: &mut Ticker<'_>,
    collector: &mut Collector,
    work: &mut Work,
) -> Result<u32, ListError> {
    cursors.sort_by_key(Cursor::df);
    // Nothing matches after the end of a list, as far as the end is known without decoding. This
    // limit does not depend on which list drives, so that a device, which does not proceed
    // document by document, decodes the same blocks.
    let behind = cursors.iter().map(|c| c.limit() + 1).fold(docs.end, u32::min);
    let Some((shortest, others)) = cursors.split_first_mut() else { return Ok(docs.end) };
    let most: u64 = others.iter().map(|c| u64::from(c.most)).sum::<u64>()
        + u64::from(shortest.most)
        + u64::from(query.static_most);
    let counts = query.plan.count;
    let mut doc = shortest.enter(docs.start)?;
    // `hopeful` says whether documents up to `known` can become hits, according to block maxima.
    let (mut known, mut hopeful) = (None, true);
    'documents: while doc < behind {
        if ticker.must_stop(others.len() + 1) {
            return Ok(doc);
        }
        if pruning >= Pruning::Lists && most <= u64::from(collector.threshold()) {
            if !counts {
                return Ok(docs.end);
            }
            (known, hopeful) = (Some(NO_DOC), false);
        }
        if pruning == Pruning::Blocks && known.is_none_or(|end| doc > end) {
            let (mut sum, mut end) = (u64::from(query.static_most), NO_DOC - 1);
            for cursor in std::iter::once(&mut *shortest).chain(others.iter_mut()) {
                let (most, until) = cursor.peek(doc);
                sum += u64::from(most);
                end = end.min(until);
            }
            hopeful = sum > u64::from(collector.threshold());
            if !hopeful && !counts {
                doc = shortest.seek(end.max(doc) + 1)?;
                continue;
            }
            // The threshold may rise before the end; then a few documents are scored needlessly.
            known = Some(end);
        }
        for cursor in others.iter_mut() {
            let found = cursor.seek(doc)?;
            if found != doc {
                // Without pruning the driver advances one posting at a time, as (Ding 2009,
                // section 8.1) counts blocks; with pruning it may jump.
                doc = match pruning {
                    _ if found == NO_DOC => NO_DOC,
                    Pruning::None => shortest.next()?,
                    _ => shortest.seek(found)?,
                };
                continue 'documents;
            }
        }
        if !hopeful {
            query.count(doc, collector);
            doc = shortest.next()?;
            continue;
        }
        let mut sum = shortest.score()?;
        for cursor in others.iter_mut() {
            sum += cursor.score()?;
        }
        work.postings_scored += 1 + others.len() as u64;
        query.offer(doc, sum, collector);
        doc = shortest.next()?;
    }
    Ok(docs.end)
}
