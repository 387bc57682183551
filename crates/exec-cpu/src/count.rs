//! Counts the documents that match an OR without scoring any.
//!
//! The number of live documents in the longest list is known, so only those documents of the
//! other lists that it lacks remain to be counted, one window at a time. If there are many, they
//! are marked, and those of the longest list are then unmarked; if there are few, they are looked
//! up in it.

use std::ops::Range;

use warpseek_core::limits::BLOCK;
use warpseek_exec::{ExecError, Ticker};
use warpseek_index::{DocSet, List, ListError, Segment};

use crate::segment::SegmentQuery;
use crate::stream::find_block;

/// Documents per window, one byte each, since a byte can be marked without reading it first. A
/// window fills just over half of a first-level cache.
const WINDOW: u32 = 1 << 15;
/// Maximum number of blocks in a window for looking up their documents. With so few, scanning all
/// marks would take longer.
const FEW: usize = 8;

/// Memory that is reused from query to query.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Marks, one byte per document of the window; all are 0 between windows.
    marks: Vec<u8>,
    few: Vec<u32>,
}

/// A counter of the matches of one query in one segment, in ascending ranges of documents.
pub(crate) struct Counter<'a> {
    segment: &'a Segment,
    /// The documents that count, if not all live ones.
    mask: Option<&'a DocSet>,
    longest: Option<Forward<'a>>,
    others: Vec<Forward<'a>>,
    /// First document of the first range.
    start: u32,
    known: Known<'a>,
}

impl<'a> Counter<'a> {
    /// Creates a counter for the documents of a range; [`Counter::count`] must be called for the
    /// first of them exactly once. With `parts`, each call of [`Counter::count`] counts its own
    /// documents only.
    pub(crate) fn new(
        query: &SegmentQuery<'a>,
        docs: Range<u32>,
        parts: bool,
    ) -> Result<Self, ExecError> {
        let segment = query.segment;
        let mut terms: Vec<_> = query.terms().map(|(info, ..)| info).collect();
        terms.sort_by_key(|info| info.df);
        let longest = terms.pop();
        let mask = query.mask;
        let whole = !parts && mask.is_none() && docs == (0..segment.documents().count());
        let known = match longest {
            None => Known::All(0),
            Some(info) if whole => Known::All(u64::from(segment.live_df(info))),
            Some(info) => Known::Of(Box::new(Forward::new(segment.list(info)?))),
        };
        // Nothing is looked up in the longest list if there are no others.
        let longest = longest.filter(|_| !terms.is_empty());
        let forward = |info| segment.list(info).map(Forward::new);
        let longest = longest.map(forward).transpose()?;
        let others = terms.into_iter().map(forward).collect::<Result<_, _>>()?;
        Ok(Counter { segment, mask, longest, others, start: docs.start, known })
    }

    /// Counts the matches among `docs`. Those of the longest list all count at the beginning of
    /// the range, unless parts are counted. Returns `None` if the ticker asked to stop.
    pub(crate) fn count(
        &mut self,
        docs: Range<u32>,
        ticker: &mut Ticker<'_>,
        scratch: &mut Scratch,
    ) -> Result<Option<u64>, ListError> {
        let mut count = match &mut self.known {
            Known::Of(list) => list.live(self.segment, self.mask, docs.clone())?,
            Known::All(live) if docs.start == self.start => *live,
            Known::All(_) => 0,
        };
        let Some(mut longest) = self.longest.take() else { return Ok(Some(count)) };
        let mut from = docs.start;
        while from < docs.end {
            if ticker.must_stop(self.others.len()) {
                return Ok(None);
            }
            let to = docs.end.min((from / WINDOW + 1).saturating_mul(WINDOW));
            let found = match self.others.iter_mut().map(|list| list.blocks(from, to).len()).sum() {
                0 => Some(0),
                1..=FEW => Some(self.few(&mut longest, from, to, &mut scratch.few)?),
                _ => self.many(&mut longest, from, to, ticker, &mut scratch.marks)?,
            };
            let Some(found) = found else { return Ok(None) };
            count += found;
            from = to;
        }
        self.longest = Some(longest);
        Ok(Some(count))
    }

    /// Counts, by looking documents up, the live documents from `from` up to, but not including,
    /// `to` that the longest list lacks.
    fn few(
        &mut self,
        longest: &mut Forward<'_>,
        from: u32,
        to: u32,
        few: &mut Vec<u32>,
    ) -> Result<u64, ListError> {
        few.clear();
        for list in &mut self.others {
            for block in list.blocks(from, to) {
                few.extend(list.docs(block, from, to)?);
            }
        }
        few.sort_unstable();
        few.dedup();
        let mut count = 0;
        for &doc in few.iter() {
            count += u64::from(admits(self.segment, self.mask, doc) && !longest.has(doc)?);
        }
        Ok(count)
    }

    /// Counts the same documents as `few`, by marking them; returns `None` if the ticker asked to
    /// stop.
    fn many(
        &mut self,
        longest: &mut Forward<'_>,
        from: u32,
        to: u32,
        ticker: &mut Ticker<'_>,
        marks: &mut Vec<u8>,
    ) -> Result<Option<u64>, ListError> {
        marks.resize(WINDOW as usize, 0);
        // The remainder proves to the compiler that the index is in bounds.
        let index = |doc: u32| (doc - from) as usize % WINDOW as usize;
        for list in &mut self.others {
            for block in list.blocks(from, to) {
                if ticker.must_stop(BLOCK) {
                    marks.fill(0);
                    return Ok(None);
                }
                list.docs(block, from, to)?.iter().for_each(|&doc| marks[index(doc)] = 1);
            }
        }
        for block in longest.blocks(from, to) {
            let (first, last) = longest.span(block, from, to);
            if marks[index(first)..=index(last)].iter().fold(0, |any, mark| any | mark) != 0 {
                longest.docs(block, from, to)?.iter().for_each(|&doc| marks[index(doc)] = 0);
            }
        }
        match (self.mask, self.segment.deletes()) {
            (Some(mask), _) => {
                (from..to).filter(|&doc| !mask.contains(doc)).for_each(|doc| marks[index(doc)] = 0);
            }
            (None, Some(deletes)) => {
                deletes.docs.within(from, to).for_each(|doc| marks[index(doc)] = 0);
            }
            (None, None) => {}
        }
        let window = &mut marks[..(to - from) as usize];
        // The sum of at most 255 marks fits in a byte.
        let count = window.chunks(255).map(|marks| u64::from(marks.iter().sum::<u8>())).sum();
        window.fill(0);
        Ok(Some(count))
    }

    /// Returns the number of blocks decoded.
    pub(crate) fn decoded(&self) -> u64 {
        self.longest.iter().chain(&self.others).map(|list| list.decoded).sum()
    }
}

fn admits(segment: &Segment, mask: Option<&DocSet>, doc: u32) -> bool {
    mask.map_or_else(|| !segment.is_deleted(doc), |mask| mask.contains(doc))
}

/// The live documents of the longest list.
enum Known<'a> {
    /// The number of documents, if the whole segment is counted.
    All(u64),
    /// The list, whose documents are still to be counted.
    Of(Box<Forward<'a>>),
}

/// A list whose documents are read forward.
struct Forward<'a> {
    list: List<'a>,
    /// The first block that may still be needed.
    next: usize,
    /// The decoded block, or `usize::MAX` before the first.
    block: usize,
    len: usize,
    decoded: u64,
    docs: [u32; BLOCK],
}

impl<'a> Forward<'a> {
    fn new(list: List<'a>) -> Self {
        Forward { list, next: 0, block: usize::MAX, len: 0, decoded: 0, docs: [0; BLOCK] }
    }

    /// Returns the blocks that may have documents from `from` up to, but not including, `to`.
    fn blocks(&mut self, from: u32, to: u32) -> Range<usize> {
        self.next = find_block(&self.list, self.next, from);
        let end = find_block(&self.list, self.next, to);
        // The block that extends past the end may begin before it.
        let reaches_in = end < self.list.blocks() && (end == 0 || self.last(end - 1) + 1 < to);
        self.next..end + usize::from(reaches_in)
    }

    /// Counts the admitted documents of a range.
    fn live(
        &mut self,
        segment: &Segment,
        mask: Option<&DocSet>,
        docs: Range<u32>,
    ) -> Result<u64, ListError> {
        let mut live = 0;
        if docs.is_empty() {
            return Ok(live);
        }
        for block in self.blocks(docs.start, docs.end) {
            let found = self.docs(block, docs.start, docs.end)?;
            live += found.iter().filter(|&&doc| admits(segment, mask, doc)).count() as u64;
        }
        Ok(live)
    }

    fn last(&self, block: usize) -> u32 {
        self.list.block_max_doc(block)
    }

    /// Returns bounds within the window on the documents of one of its blocks: none is before the
    /// first or after the second. Both are in the window, whatever a forged skip array says.
    fn span(&self, block: usize, from: u32, to: u32) -> (u32, u32) {
        let first = if block == 0 { 0 } else { self.last(block - 1) + 1 };
        let first = first.clamp(from, to - 1);
        (first, self.last(block).clamp(first, to - 1))
    }

    /// Returns the documents of a block from `from` up to, but not including, `to`.
    fn docs(&mut self, block: usize, from: u32, to: u32) -> Result<&[u32], ListError> {
        self.load(block)?;
        let docs = &self.docs[..self.len];
        let start = docs.partition_point(|&doc| doc < from);
        let end = start + docs[start..].partition_point(|&doc| doc < to);
        Ok(&docs[start..end])
    }

    /// Returns true if the list contains a document, which must follow the documents of earlier
    /// calls.
    fn has(&mut self, doc: u32) -> Result<bool, ListError> {
        self.next = find_block(&self.list, self.next, doc);
        if self.next == self.list.blocks() {
            return Ok(false);
        }
        self.load(self.next)?;
        Ok(self.docs[..self.len].binary_search(&doc).is_ok())
    }

    fn load(&mut self, block: usize) -> Result<(), ListError> {
        if self.block != block {
            self.len = self.list.decode_docs(block, &mut self.docs)?;
            self.block = block;
            self.decoded += 1;
        }
        Ok(())
    }
}
