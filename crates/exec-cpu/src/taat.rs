//! Exhaustive search, term at a time, with one accumulator per document: every posting is decoded
//! and scored.
//!
//! A score of 0 means "no match" (contributions are at least 1), so only the sums are needed.

use std::ops::Range;

use warpseek_core::Score;
use warpseek_core::limits::BLOCK;
use warpseek_exec::{ExecError, Ticker, Work};

use crate::collector::Collector;
use crate::segment::SegmentQuery;
use crate::stream::find_block;

/// Documents per chunk if the search may have to stop: small enough that little work is lost.
const CHUNK: u32 = 1 << 16;

/// Searches a range of documents, and returns the end of what was searched, which is the end of
/// the range unless the ticker asked to stop. `sums` is scratch memory, reused from query to
/// query.
pub(crate) fn or(
    query: &SegmentQuery<'_>,
    docs: Range<u32>,
    ticker: &mut Ticker<'_>,
    sums: &mut Vec<Score>,
    collector: &mut Collector,
    work: &mut Work,
) -> Result<u32, ExecError> {
    let chunk = if ticker.is_limited() { CHUNK } else { u32::MAX };
    let mut from = docs.start;
    while from < docs.end {
        let to = docs.end.min(from.saturating_add(chunk));
        sums.clear();
        sums.resize((to - from) as usize, 0);
        if !add_up(query, from..to, ticker, sums, work)? {
            return Ok(from);
        }
        for (doc, &sum) in (from..to).zip(sums.iter()) {
            if sum > 0 {
                query.offer(doc, sum, collector);
            }
        }
        from = to;
    }
    Ok(docs.end)
}

/// Adds the contributions of all terms to the documents of a range; returns false if the ticker
/// asked to stop.
fn add_up(
    query: &SegmentQuery<'_>,
    range: Range<u32>,
    ticker: &mut Ticker<'_>,
    sums: &mut [Score],
    work: &mut Work,
) -> Result<bool, ExecError> {
    let segment = query.segment;
    let (mut docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
    for (info, term, scorer) in query.terms() {
        let list = segment.list(info)?;
        for block in find_block(&list, 0, range.start)..list.blocks() {
            if ticker.must_stop(BLOCK) {
                return Ok(false);
            }
            let n = list
                .decode_docs(block, &mut docs)
                .and_then(|_| list.decode_freqs(block, &mut freqs))
                .map_err(|what| segment.bad_list(info, what))?;
            let start = docs[..n].partition_point(|&doc| doc < range.start);
            let end = start + docs[start..n].partition_point(|&doc| doc < range.end);
            for (&doc, &freq) in docs[start..end].iter().zip(&freqs[start..end]) {
                let contribution = scorer.contribution(term.weight, freq, doc);
                sums[(doc - range.start) as usize] += contribution;
            }
            work.postings_scored += (end - start) as u64;
            work.blocks_decoded += 1;
            if end < n {
                break;
            }
        }
    }
    Ok(true)
}
