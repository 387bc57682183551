//! AND, a block of the shortest list at a time.
//!
//! The postings of the block are the candidates. They are intersected with the other lists,
//! shortest first. A candidate is dropped when a list lacks it, or when its sum so far plus the
//! maxima of the remaining lists cannot exceed the threshold. The work is therefore done in tight
//! loops over whole blocks, and a block of a longer list is decoded only if a candidate that can
//! become a hit falls into it.

use std::ops::Range;

use warpseek_core::Score;
use warpseek_core::limits::BLOCK;
use warpseek_exec::{Ticker, Work};
use warpseek_index::ListError;

use crate::candidates::keep_hopeful;
use crate::collector::Collector;
use crate::segment::SegmentQuery;
use crate::simd::{find_doc, keep_above, rank};
use crate::stream::Stream;

/// Number of slots of the table of indexes. If a block spans fewer documents, each document has a
/// slot to itself.
const SLOTS: usize = 1 << 13;

/// Minimum number of candidates in a block for the table of indexes; fewer are searched for
/// individually.
const MANY: usize = 24;

/// A mask is selective if it has less than one in this many documents.
const SELECTIVE: u64 = 4;

/// Memory that is reused from query to query.
pub(crate) struct Scratch {
    docs: [u32; BLOCK],
    sums: [Score; BLOCK],
    /// Indexes of the candidates within the block that contains them.
    at: [u8; BLOCK],
    shares: [Score; BLOCK],
    /// Index in the current block, by document modulo the table's size. Slots may hold leftovers
    /// of another block.
    table: Box<[u8; SLOTS]>,
    /// The most that the lists from the i-th on, together with a static score, contribute.
    most_from: Vec<u64>,
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch {
            docs: [0; BLOCK],
            sums: [0; BLOCK],
            at: [0; BLOCK],
            shares: [0; BLOCK],
            table: Box::new([0; SLOTS]),
            most_from: Vec::new(),
        }
    }
}

/// Offers all documents of a range that are in every list and can become hits, or all that are in
/// every list if matches are counted. Returns the end of what was searched, which is the end of
/// the range unless the ticker asked to stop.
pub(crate) fn and<'a>(
    query: &SegmentQuery<'a>,
    streams: &mut [Stream<'a>],
    docs: Range<u32>,
    ticker: &mut Ticker<'_>,
    scratch: &mut Scratch,
    collector: &mut Collector,
    work: &mut Work,
) -> Result<u32, ListError> {
    streams.sort_by_key(Stream::df);
    let Some((shortest, others)) = streams.split_first_mut() else { return Ok(docs.end) };
    let all = u64::from(query.segment.documents().count());
    let selective = query.mask.is_some_and(|mask| mask.len() * SELECTIVE < all);
    for block in shortest.find(docs.start)..shortest.blocks() as usize {
        let (from, last) = shortest.span(block);
        if from >= docs.end {
            break;
        }
        // Everything before this is done.
        let done = from.max(docs.start);
        if ticker.must_stop(others.len() + BLOCK) {
            return Ok(done);
        }
        if query.first_admitted(from..last.saturating_add(1)) > last {
            continue;
        }
        let Some(others_most) = scratch.bounds(query, others, from, last) else { break };
        // If matches are counted, every match is offered.
        let threshold = if query.plan.count { 0 } else { u64::from(collector.threshold()) };
        if u64::from(shortest.block_most(block)) + others_most <= threshold {
            continue;
        }
        shortest.load(block)?;
        let run = shortest.within(&docs);
        let mut n = run.len();
        // As long as every match is a hit, only documents that are in all lists are worth scoring.
        let early = threshold > 0;
        if selective {
            // Most postings are not in the mask, so they are tested before they are scored.
            n = scratch.begin(&shortest.docs()[run]);
            n = scratch.retain(n, |doc| query.admits(doc));
            if early && n > 0 {
                n = scratch.pass(shortest, n, threshold, others_most, work)?;
            }
        } else if early {
            shortest.score()?;
            work.postings_scored += n as u64;
            n = scratch.start(shortest, run, threshold.saturating_sub(others_most));
        } else {
            n = scratch.begin(&shortest.docs()[run]);
        }
        if query.mask.is_some() && !selective {
            n = scratch.retain(n, |doc| query.admits(doc));
        }
        if n == 0 {
            continue;
        }
        // Unscored sums are 0, and in that case so is the threshold.
        let Some(mut n) = scratch.pass_all(others, n, threshold, ticker, work)? else {
            return Ok(done);
        };
        if !early && n > 0 {
            n = scratch.pass(shortest, n, 0, 0, work)?;
        }
        scratch.offer(query, n, collector);
    }
    Ok(docs.end)
}

impl Scratch {
    /// Computes the most that all other lists together contribute to documents `from` to `last`.
    /// Returns `None` if one of the lists has ended.
    pub(crate) fn bounds(
        &mut self,
        query: &SegmentQuery<'_>,
        others: &mut [Stream<'_>],
        from: u32,
        last: u32,
    ) -> Option<u64> {
        let most_from = &mut self.most_from;
        most_from.clear();
        most_from.resize(others.len() + 1, u64::from(query.static_most));
        for (i, stream) in others.iter_mut().enumerate().rev() {
            most_from[i] = most_from[i + 1] + u64::from(stream.most_over(from, last)?);
        }
        most_from.first().copied()
    }

    /// Starts with these documents, at most [`BLOCK`], as candidates with sums of 0. Returns
    /// their number.
    pub(crate) fn begin(&mut self, docs: &[u32]) -> usize {
        let n = docs.len();
        self.docs[..n].copy_from_slice(docs);
        self.sums[..n].fill(0);
        n
    }

    /// Intersects the first `n` candidates with the lists that [`Scratch::bounds`] was called
    /// for. Returns how many remain, or `None` if the ticker asked to stop.
    pub(crate) fn pass_all(
        &mut self,
        streams: &mut [Stream<'_>],
        mut n: usize,
        threshold: u64,
        ticker: &mut Ticker<'_>,
        work: &mut Work,
    ) -> Result<Option<usize>, ListError> {
        for (i, stream) in streams.iter_mut().enumerate() {
            if ticker.must_stop(n) {
                return Ok(None);
            }
            let rest = self.most_from[i + 1];
            n = self.pass(stream, n, threshold, rest, work)?;
            if n == 0 {
                break;
            }
        }
        Ok(Some(n))
    }

    /// Offers the first `n` candidates.
    pub(crate) fn offer(&self, query: &SegmentQuery<'_>, n: usize, collector: &mut Collector) {
        for (&doc, &sum) in self.docs[..n].iter().zip(&self.sums[..n]) {
            query.offer(doc, sum, collector);
        }
    }

    /// Turns those postings of a run in the block that contribute more than `least` into
    /// candidates.
    fn start(&mut self, shortest: &Stream<'_>, run: Range<usize>, least: u64) -> usize {
        let least = least.min(u64::from(Score::MAX)) as Score;
        let (docs, scores) = shortest.postings(run);
        let n = docs.len();
        self.docs[..n].copy_from_slice(docs);
        self.sums[..n].copy_from_slice(scores);
        keep_above(&mut self.docs, &mut self.sums, 0..n, 0, least)
    }

    /// Keeps those of the first `n` candidates for which `admits` holds; returns how many remain.
    fn retain(&mut self, n: usize, admits: impl Fn(u32) -> bool) -> usize {
        let mut kept = 0;
        for i in 0..n {
            let (doc, sum) = (self.docs[i], self.sums[i]);
            (self.docs[kept], self.sums[kept]) = (doc, sum);
            kept += usize::from(admits(doc));
        }
        kept
    }

    /// Keeps those of the first `n` candidates that are in the list and may exceed the threshold
    /// if the later lists contribute at most `rest`. Adds the contributions of the list, and
    /// returns how many remain.
    fn pass(
        &mut self,
        stream: &mut Stream<'_>,
        n: usize,
        threshold: u64,
        rest: u64,
        work: &mut Work,
    ) -> Result<usize, ListError> {
        let (mut kept, mut from, blocks) = (0, 0, stream.blocks() as usize);
        let mut block = stream.find(self.docs[from]);
        while from < n && block < blocks {
            let (_, last) = stream.span(block);
            let end = find_doc(&self.docs[..n], from, last.saturating_add(1));
            let most = rest + u64::from(stream.block_most(block));
            // The memory of the next block is fetched while this one is decoded.
            let next = if end < n { stream.find_ahead(block, self.docs[end]) } else { blocks };
            let start = kept;
            let (docs, sums) = (&mut self.docs, &mut self.sums);
            kept = keep_hopeful(docs, sums, from..end, start, threshold, most);
            if kept > start {
                stream.load(block)?;
                let len = self.intersect(stream.docs(), start, kept);
                kept = start + len;
                let docs = &self.docs[start..kept];
                stream.contributions(docs, &self.at[..len], &mut self.shares)?;
                work.postings_scored += len as u64;
                for (sum, share) in self.sums[start..kept].iter_mut().zip(&self.shares) {
                    *sum += share;
                }
            }
            (from, block) = (end, next);
        }
        Ok(kept)
    }

    /// Moves those of the candidates `start` to `end` that are in `block` to the front, and
    /// records their indexes in the block. Returns how many there are.
    fn intersect(&mut self, block: &[u32], start: usize, end: usize) -> usize {
        let mut kept = start;
        let span = block[block.len() - 1] - block[0];
        if end - start >= MANY && (span as usize) < SLOTS {
            for (index, &doc) in block.iter().enumerate() {
                self.table[doc as usize % SLOTS] = index as u8;
            }
            for i in start..end {
                let (doc, sum) = (self.docs[i], self.sums[i]);
                let index = self.table[doc as usize % SLOTS];
                (self.docs[kept], self.sums[kept], self.at[kept - start]) = (doc, sum, index);
                kept += usize::from(block.get(usize::from(index)) == Some(&doc));
            }
        } else if let Ok(block) = <&[u32; BLOCK]>::try_from(block) {
            let mut at = 0;
            for i in start..end {
                let (doc, sum) = (self.docs[i], self.sums[i]);
                at = rank(block, at, doc);
                (self.docs[kept], self.sums[kept]) = (doc, sum);
                self.at[kept - start] = at as u8;
                kept += usize::from(block.get(at) == Some(&doc));
            }
        } else {
            let mut from = 0;
            for i in start..end {
                let (doc, sum) = (self.docs[i], self.sums[i]);
                from = find_doc(block, from, doc);
                if from == block.len() {
                    break;
                }
                (self.docs[kept], self.sums[kept]) = (doc, sum);
                self.at[kept - start] = from as u8;
                kept += usize::from(block[from] == doc);
            }
        }
        kept - start
    }
}

// Indexes in a block fit in a byte.
const _: () = assert!(BLOCK <= 256);
