//! Filtered queries that are led by the mask: its documents are looked up in the lists, where it
//! admits few of them.
//!
//! For OR, [`windowed_maxscore`](crate::windowed_maxscore) decides in each window whether its
//! documents come from the lists or from the mask. Those of the mask are processed in groups.
//! Block maxima first give an upper bound of each document's score; then one list after the other
//! replaces its share of the bound with its contribution, and a document is dropped as soon as
//! its bound does not exceed the threshold. A block is decoded only if a document that can become
//! a hit falls into it.
//!
//! For AND, the mask is one more list of the [`block_conjunction`](crate::block_conjunction), and
//! leads it unless another list is hardly longer.

use std::ops::Range;

use warpseek_core::Score;
use warpseek_core::limits::BLOCK;
use warpseek_exec::{Ticker, Work};
use warpseek_index::ListError;

use crate::block_conjunction;
use crate::collector::Collector;
use crate::segment::SegmentQuery;
use crate::stream::Stream;

/// Documents per group: enough to read blocks in turn, and few, since the threshold rises between
/// groups only.
const GROUP: usize = 128;

/// Number of postings that can be scored in the time that it takes to look up a document in a
/// list.
pub(crate) const LOOK_UP: u64 = 2;

/// Number of postings of a list that can be tested against the mask in the time that it takes to
/// look up a document of the mask in it.
const TESTS: u64 = 8;

/// A group of documents, reused from query to query.
#[derive(Default)]
pub(crate) struct Group {
    docs: Vec<u32>,
    /// The most that each document can score, with a static score.
    most: Vec<u64>,
}

impl Group {
    /// Replaces the documents by the first ones of a range that may be hits. Returns the end of
    /// the part of the range that these documents cover completely.
    pub(crate) fn take(&mut self, query: &SegmentQuery<'_>, docs: Range<u32>) -> u32 {
        query.take_admitted(docs, GROUP, &mut self.docs)
    }

    /// Drops the documents that cannot score more than the threshold, and computes the scores of
    /// the others. `order` has the numbers of the lists that may contain them, in ascending order
    /// of their contributions. Returns false if the ticker asked to stop.
    pub(crate) fn score(
        &mut self,
        query: &SegmentQuery<'_>,
        (streams, order): (&mut [Stream<'_>], &[(Score, usize)]),
        threshold: u64,
        ticker: &mut Ticker<'_>,
        work: &mut Work,
    ) -> Result<bool, ListError> {
        self.most.clear();
        self.most.resize(self.docs.len(), u64::from(query.static_most));
        for &(_, i) in order {
            if ticker.must_stop(self.docs.len()) {
                return Ok(false);
            }
            streams[i].add_bounds(&self.docs, &mut self.most);
        }
        // Lists with large contributions decide early, and lists with small ones are long.
        for &(_, i) in order.iter().rev() {
            if ticker.must_stop(self.docs.len()) {
                return Ok(false);
            }
            self.look_up(&mut streams[i], threshold, work)?;
        }
        Ok(true)
    }

    /// Replaces the share of a list in the bounds with its actual contributions.
    fn look_up(
        &mut self,
        stream: &mut Stream<'_>,
        threshold: u64,
        work: &mut Work,
    ) -> Result<(), ListError> {
        let (docs, most) = (&mut self.docs, &mut self.most);
        let (mut kept, mut at) = (0, 0);
        while at < docs.len() {
            if most[at] <= threshold {
                at += 1;
                continue;
            }
            let block = stream.find(docs[at]);
            let ended = block == stream.blocks() as usize;
            let last = if ended { u32::MAX } else { stream.span(block).1 };
            let start = kept;
            while at < docs.len() && docs[at] <= last {
                (docs[kept], most[kept]) = (docs[at], most[at]);
                kept += usize::from(most[at] > threshold);
                at += 1;
            }
            if ended {
                break;
            }
            let bound = u64::from(stream.block_most(block));
            for (&doc, most) in docs[start..kept].iter().zip(&mut most[start..kept]) {
                let share = stream.look_up(doc)?;
                work.postings_scored += u64::from(share > 0);
                *most = (*most + u64::from(share)).saturating_sub(bound);
            }
        }
        docs.truncate(kept);
        most.truncate(kept);
        Ok(())
    }

    /// Offers the documents that are in a list, with their scores; returns how many there are.
    pub(crate) fn offer(&self, query: &SegmentQuery<'_>, collector: &mut Collector) -> u64 {
        let mut matches = 0;
        for (&doc, &score) in self.docs.iter().zip(&self.most) {
            let sum = score.saturating_sub(u64::from(query.static_most)) as Score;
            if sum > 0 {
                matches += 1;
                query.offer(doc, sum, collector);
            }
        }
        matches
    }
}

/// Returns true if the mask should lead the conjunction instead of the shortest list.
pub(crate) fn leads(query: &SegmentQuery<'_>, streams: &[Stream<'_>]) -> bool {
    let Some(mask) = query.mask else { return false };
    streams.iter().all(|stream| mask.len().saturating_mul(TESTS) <= u64::from(stream.df()))
}

/// Offers all documents of a range that are in every list and can become hits, or all that are in
/// every list if matches are counted. Returns the end of what was searched, which is the end of
/// the range unless the ticker asked to stop.
pub(crate) fn and<'a>(
    query: &SegmentQuery<'a>,
    streams: &mut [Stream<'a>],
    docs: Range<u32>,
    ticker: &mut Ticker<'_>,
    (group, scratch): (&mut Group, &mut block_conjunction::Scratch),
    collector: &mut Collector,
    work: &mut Work,
) -> Result<u32, ListError> {
    streams.sort_by_key(Stream::df);
    let mut from = docs.start;
    while from < docs.end {
        let end = group.take(query, from..docs.end);
        let (Some(&first), Some(&last)) = (group.docs.first(), group.docs.last()) else { break };
        if ticker.must_stop(streams.len() + group.docs.len()) {
            return Ok(from);
        }
        let Some(most) = scratch.bounds(query, streams, first, last) else { break };
        let threshold = if query.plan.count { 0 } else { u64::from(collector.threshold()) };
        if most > threshold {
            let n = scratch.begin(&group.docs);
            let Some(n) = scratch.pass_all(streams, n, threshold, ticker, work)? else {
                return Ok(from);
            };
            scratch.offer(query, n, collector);
        }
        from = end;
    }
    Ok(docs.end)
}

// A group is intersected as if it were a block.
const _: () = assert!(GROUP <= BLOCK);
