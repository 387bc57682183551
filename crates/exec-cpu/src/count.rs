//! How many documents match an OR, without scoring any.
//!
//! How many live documents the longest list has is known, so only those of the other lists that it lacks remain to be counted. The
//! others' documents are marked in a bitmap, those of the longest list unmarked again; where nothing is marked it is not read.

use std::ops::Range;

use warpseek_core::limits::BLOCK;
use warpseek_exec::ExecError;
use warpseek_index::{List, ListError, Segment};

use crate::segment::SegmentQuery;
use crate::stream::find_block;

/// Documents in a window, one bit each: a good half of a first-level cache.
const WINDOW: u32 = 1 << 18;

/// Counts the matches of one query in one segment, in ranges of documents that ascend.
pub(crate) struct Counter<'a> {
    segment: &'a Segment,
    longest: Option<Forward<'a>>,
    others: Vec<Forward<'a>>,
    /// Live documents of the longest list.
    known: u64,
}

impl<'a> Counter<'a> {
    pub(crate) fn new(query: &SegmentQuery<'a>) -> Result<Self, ExecError> {
        let segment = query.segment;
        let mut terms: Vec<_> = query.terms().collect();
        terms.sort_by_key(|info| info.df);
        let longest = terms.pop();
        let known = longest.map_or(0, |info| u64::from(segment.live_df(info)));
        // Nothing is looked up in the longest list if there are no others.
        let longest = longest.filter(|_| !terms.is_empty());
        let forward = |info| segment.list(info).map(Forward::new);
        let longest = longest.map(forward).transpose()?;
        let others = terms.into_iter().map(forward).collect::<Result<_, _>>()?;
        Ok(Counter { segment, longest, others, known })
    }

    /// Matches among `docs`; those of the longest list count where the segment begins, all at once. `marks` is scratch, all 0.
    pub(crate) fn count(
        &mut self,
        docs: Range<u32>,
        marks: &mut Vec<u64>,
    ) -> Result<u64, ListError> {
        let mut count = if docs.start == 0 { self.known } else { 0 };
        marks.resize(WINDOW as usize / 64, 0);
        let mut from = docs.start;
        while from < docs.end {
            let to = docs.end.min((from / WINDOW + 1).saturating_mul(WINDOW));
            count += self.window(from, to, marks)?;
            from = to;
        }
        Ok(count)
    }

    /// Documents from `from` up to, but not including, `to` that the longest list lacks.
    fn window(&mut self, from: u32, to: u32, marks: &mut [u64]) -> Result<u64, ListError> {
        let base = from as usize / 64;
        let word = |doc: u32| doc as usize / 64 - base;
        let mut any = false;
        for list in &mut self.others {
            for block in list.blocks(from, to) {
                for &doc in list.docs(block, from, to)? {
                    marks[word(doc)] |= 1 << (doc % 64);
                    any = true;
                }
            }
        }
        let Some(longest) = self.longest.as_mut().filter(|_| any) else { return Ok(0) };
        for block in longest.blocks(from, to) {
            let (first, last) = longest.span(block);
            // Clamped: a forged skip array must not lead out of the window.
            let marked = word(first.max(from))..word(last.clamp(from, to - 1)) + 1;
            if marks.get(marked).is_some_and(|words| words.iter().any(|&word| word != 0)) {
                for &doc in longest.docs(block, from, to)? {
                    marks[word(doc)] &= !(1 << (doc % 64));
                }
            }
        }
        let words = base..word(to - 1) + base + 1;
        let deleted = self.segment.deletes().map(|d| &d.docs.words()[words.clone()]);
        let mut count = 0;
        for (i, marks) in marks[..words.len()].iter_mut().enumerate() {
            let live = std::mem::take(marks) & !deleted.map_or(0, |words| words[i]);
            count += u64::from(live.count_ones());
        }
        Ok(count)
    }

    /// Blocks that were decoded.
    pub(crate) fn decoded(&self) -> u64 {
        self.longest.iter().chain(&self.others).map(|list| list.decoded).sum()
    }
}

/// A list whose documents are read in windows that ascend.
struct Forward<'a> {
    list: List<'a>,
    /// The first block that may still be needed.
    next: usize,
    decoded: u64,
    docs: [u32; BLOCK],
}

impl<'a> Forward<'a> {
    fn new(list: List<'a>) -> Self {
        Forward { list, next: 0, decoded: 0, docs: [0; BLOCK] }
    }

    /// The blocks that may have documents from `from` up to, but not including, `to`.
    fn blocks(&mut self, from: u32, to: u32) -> Range<usize> {
        self.next = find_block(&self.list, self.next, from);
        let last = find_block(&self.list, self.next, to - 1);
        self.next..self.list.blocks().min(last + 1)
    }

    /// No document of the block lies before the first or behind the second of these.
    fn span(&self, block: usize) -> (u32, u32) {
        let first = if block == 0 { 0 } else { self.list.block_max_doc(block - 1) + 1 };
        (first, self.list.block_max_doc(block))
    }

    /// The documents of a block from `from` up to, but not including, `to`.
    fn docs(&mut self, block: usize, from: u32, to: u32) -> Result<&[u32], ListError> {
        let n = self.list.decode_docs(block, &mut self.docs)?;
        self.decoded += 1;
        let start = self.docs[..n].partition_point(|&doc| doc < from);
        let end = start + self.docs[start..n].partition_point(|&doc| doc < to);
        Ok(&self.docs[start..end])
    }
}
