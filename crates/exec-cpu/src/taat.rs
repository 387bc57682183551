//! Exhaustive, term at a time, with one accumulator a document: every posting is decoded and scored.
//!
//! A score of 0 means "no match" (contributions are at least 1), so nothing but the sums is needed.

use warpseek_core::Score;
use warpseek_core::limits::BLOCK;
use warpseek_exec::{ExecError, Work};

use crate::collector::Collector;
use crate::segment::SegmentQuery;

/// `sums` is scratch, kept from query to query.
pub(crate) fn or(
    query: &SegmentQuery<'_>,
    sums: &mut Vec<Score>,
    collector: &mut Collector,
    work: &mut Work,
) -> Result<(), ExecError> {
    let segment = query.segment;
    sums.clear();
    sums.resize(segment.documents().count() as usize, 0);
    let (mut docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
    for term in &query.plan.terms {
        let Some(info) = &term.lists[query.number()] else { continue };
        let list = segment.list(info)?;
        for block in 0..list.blocks() {
            let n = list
                .decode_docs(block, &mut docs)
                .and_then(|_| list.decode_freqs(block, &mut freqs))
                .map_err(|what| segment.bad_list(info, what))?;
            for (&doc, &freq) in docs[..n].iter().zip(&freqs[..n]) {
                sums[doc as usize] += query.scorer.contribution(term.weight, freq, doc);
            }
            work.postings_scored += n as u64;
            work.blocks_decoded += 1;
        }
    }
    for (doc, &sum) in sums.iter().enumerate() {
        if sum > 0 {
            query.offer(doc as u32, sum, collector);
        }
    }
    Ok(())
}
