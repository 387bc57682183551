//! AND, a block of the shortest list at a time.
//!
//! The block's postings are the candidates. They are taken through the other lists, shortest first, and a candidate is dropped when a list lacks it
//! or when its sum so far and the maxima of what is left cannot exceed the threshold. So work is done in tight loops over whole
//! blocks, and a block of a longer list is decoded only if a candidate with a chance falls in it.

use std::ops::Range;

use warpseek_core::Score;
use warpseek_core::limits::BLOCK;
use warpseek_exec::{Ticker, Work};
use warpseek_index::ListError;

use crate::collector::Collector;
use crate::segment::SegmentQuery;
use crate::stream::{Stream, find_doc};

/// Slots of the table of places: documents of a block that spans fewer have a slot each.
const PLACES: usize = 1 << 13;

/// With fewer candidates in a block than this, they are searched for one by one.
const MANY: usize = 24;

/// What is kept from query to query.
pub(crate) struct Scratch {
    docs: [u32; BLOCK],
    sums: [Score; BLOCK],
    /// Places in a block, of the candidates that it has.
    at: [u8; BLOCK],
    shares: [Score; BLOCK],
    /// By document modulo its size: the place in the block looked at, or what was left there by another.
    places: Box<[u8; PLACES]>,
    /// What the lists from the i-th on and a static score give at most.
    most_from: Vec<u64>,
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch {
            docs: [0; BLOCK],
            sums: [0; BLOCK],
            at: [0; BLOCK],
            shares: [0; BLOCK],
            places: Box::new([0; PLACES]),
            most_from: Vec::new(),
        }
    }
}

/// Offers all documents of a range that every list has and that can become hits; where matches are to be counted, all of them. Returns the end of what was searched: that of the
/// range, unless the ticker asked to stop.
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
    let factors = &query.scorer.factors;
    for block in shortest.find(docs.start)..shortest.blocks() as usize {
        let (from, last) = shortest.span(block);
        if from >= docs.end {
            break;
        }
        // Up to here everything is done.
        let done = from.max(docs.start);
        if ticker.must_stop(others.len() + BLOCK) {
            return Ok(done);
        }
        let Some(others_most) = scratch.bounds(query, others, from, last) else { break };
        // Where matches are counted, every one of them is offered.
        let threshold = if query.plan.count { 0 } else { u64::from(collector.threshold()) };
        if u64::from(shortest.block_most(block)) + others_most <= threshold {
            continue;
        }
        shortest.load(block)?;
        let run = shortest.within(&docs);
        let mut n = run.len();
        // While everything is a hit, only what all lists have is worth scoring.
        let early = threshold > 0;
        if early {
            shortest.score(factors)?;
            work.postings_scored += n as u64;
            n = scratch.start(shortest, run, threshold.saturating_sub(others_most));
        } else {
            scratch.docs[..n].copy_from_slice(&shortest.docs()[run]);
            scratch.sums[..n].fill(0);
        }
        for (i, stream) in others.iter_mut().enumerate() {
            if ticker.must_stop(n) {
                return Ok(done);
            }
            // Unscored sums are 0, and so is the threshold then.
            let rest = scratch.most_from[i + 1];
            n = scratch.pass(stream, n, threshold, rest, factors, work)?;
            if n == 0 {
                break;
            }
        }
        if !early && n > 0 {
            n = scratch.pass(shortest, n, 0, 0, factors, work)?;
        }
        for (&doc, &sum) in scratch.docs[..n].iter().zip(&scratch.sums[..n]) {
            query.offer(doc, sum, collector);
        }
    }
    Ok(docs.end)
}

impl Scratch {
    /// What all other lists give at most to documents `from` to `last`; nothing if one of them has ended.
    fn bounds(
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

    /// Those postings of a run in the block that contribute more than `least` become the candidates.
    fn start(&mut self, shortest: &Stream<'_>, run: Range<usize>, least: u64) -> usize {
        let least = least.min(u64::from(Score::MAX)) as Score;
        let (docs, scores) = shortest.postings(run);
        let mut n = 0;
        for (&doc, &score) in docs.iter().zip(scores) {
            (self.docs[n], self.sums[n]) = (doc, score);
            n += usize::from(score > least);
        }
        n
    }

    /// Keeps those of the first `n` candidates that the list has and that may exceed the threshold with at most `rest` from the lists after it, and
    /// adds what the list contributes; returns how many there are.
    fn pass(
        &mut self,
        stream: &mut Stream<'_>,
        n: usize,
        threshold: u64,
        rest: u64,
        factors: &[f32],
        work: &mut Work,
    ) -> Result<usize, ListError> {
        let (mut kept, mut from) = (0, 0);
        while from < n {
            let block = stream.find(self.docs[from]);
            if block == stream.blocks() as usize {
                break;
            }
            let (_, last) = stream.span(block);
            let end = from + self.docs[from..n].iter().take_while(|&&doc| doc <= last).count();
            let most = rest + u64::from(stream.block_most(block));
            let start = kept;
            for i in from..end {
                let (doc, sum) = (self.docs[i], self.sums[i]);
                (self.docs[kept], self.sums[kept]) = (doc, sum);
                kept += usize::from(u64::from(sum) + most > threshold);
            }
            if kept > start {
                stream.load(block)?;
                let len = self.intersect(stream.docs(), start, kept);
                kept = start + len;
                let docs = &self.docs[start..kept];
                stream.contributions(docs, &self.at[..len], factors, &mut self.shares)?;
                work.postings_scored += len as u64;
                for (sum, share) in self.sums[start..kept].iter_mut().zip(&self.shares) {
                    *sum += share;
                }
            }
            from = end;
        }
        Ok(kept)
    }

    /// Moves those of the candidates `start` to `end` that are in `block` to the front, and notes their places; returns how many there are.
    fn intersect(&mut self, block: &[u32], start: usize, end: usize) -> usize {
        let mut kept = start;
        let span = block[block.len() - 1] - block[0];
        if end - start >= MANY && (span as usize) < PLACES {
            for (place, &doc) in block.iter().enumerate() {
                self.places[doc as usize % PLACES] = place as u8;
            }
            for i in start..end {
                let (doc, sum) = (self.docs[i], self.sums[i]);
                let place = self.places[doc as usize % PLACES];
                (self.docs[kept], self.sums[kept], self.at[kept - start]) = (doc, sum, place);
                kept += usize::from(block.get(usize::from(place)) == Some(&doc));
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

// Places in a block fit a byte.
const _: () = assert!(BLOCK <= 256);
