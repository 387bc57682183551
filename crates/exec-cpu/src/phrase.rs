//! Phrases: terms at the positions that they have in the query (docs/reference/query-syntax.md).
//!
//! Positions are read only for documents that contain all terms, and only until it is clear that
//! a document does not contain the phrase.

use std::ops::Range;

use warpseek_core::limits::BLOCK;
use warpseek_exec::query::{PlanPhrase, Starts};
use warpseek_exec::{ExecError, Ticker};
use warpseek_index::{List, PositionReader, Segment, TermInfo};

use crate::halt::Halt;
use crate::simd::find_doc;
use crate::stream::find_block;

/// Cost of reading the positions of a posting, in postings.
pub(crate) const POSITIONS_COST: usize = 16;

/// A phrase on one segment. Calls must name documents in ascending order.
pub(crate) struct Phrase<'a> {
    segment: &'a Segment,
    /// The terms of the phrase, those of the fewest documents first.
    terms: Vec<Term<'a>>,
    matcher: Matcher<'a>,
}

/// A matcher that decides whether the positions of terms form a phrase.
pub(crate) struct Matcher<'a> {
    plan: &'a PlanPhrase,
    /// The offsets of the slots of each term, in the order in which positions are read.
    order: Vec<Vec<u32>>,
    /// Positions at which the phrase may begin, without a slop and with one.
    starts: Vec<u32>,
    sloppy: Starts,
    /// Positions of the current term.
    positions: Vec<u32>,
}

impl<'a> Matcher<'a> {
    /// Creates a matcher that reads the terms in this order.
    pub(crate) fn new(plan: &'a PlanPhrase, order: impl IntoIterator<Item = usize>) -> Self {
        let offsets = |term: usize| {
            let own = plan.slots.iter().filter(|slot| slot.0 == term);
            own.map(|slot| slot.1).collect()
        };
        let order = order.into_iter().map(offsets).collect();
        Matcher {
            plan,
            order,
            starts: Vec::new(),
            sloppy: Starts::default(),
            positions: Vec::new(),
        }
    }

    /// Returns true if a document contains the phrase. `read` sets the vector to the positions of
    /// the i-th term in the order above. It is called for one term after another until it is
    /// clear that the document does not contain the phrase.
    pub(crate) fn is_met(
        &mut self,
        ticker: &mut Ticker<'_>,
        mut read: impl FnMut(usize, &mut Vec<u32>) -> Result<(), Halt>,
    ) -> Result<bool, Halt> {
        let Matcher { plan, order, starts, sloppy, positions } = self;
        sloppy.begin();
        starts.clear();
        for (i, offsets) in order.iter().enumerate() {
            read(i, positions)?;
            if plan.slop > 0 {
                let offsets = offsets.iter().copied();
                if !sloppy.keep(positions, offsets, plan.slop, ticker).ok_or(Halt::Stop)? {
                    return Ok(false);
                }
                continue;
            }
            for (j, &offset) in offsets.iter().enumerate() {
                if i == 0 && j == 0 {
                    starts.extend(positions.iter().filter_map(|p| p.checked_sub(offset)));
                } else if ticker.must_stop((positions.len() + starts.len()) / EXACT_PER_POSTING) {
                    return Err(Halt::Stop);
                } else {
                    keep(starts, positions, offset);
                }
                if starts.is_empty() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// Number of positions that are compared for an exact phrase in the time of a posting.
const EXACT_PER_POSTING: usize = 4;

/// Keeps those starts that have a position at this distance. Both ascend.
fn keep(starts: &mut Vec<u32>, positions: &[u32], offset: u32) {
    let mut at = 0;
    starts.retain(|&start| {
        let Some(wanted) = start.checked_add(offset) else { return false };
        while positions.get(at).is_some_and(|&position| position < wanted) {
            at += 1;
        }
        positions.get(at) == Some(&wanted)
    });
}

impl<'a> Phrase<'a> {
    /// Opens the lists of a phrase, or returns `None` if the segment lacks a term.
    pub(crate) fn open(
        segment: &'a Segment,
        number: usize,
        plan: &'a PlanPhrase,
    ) -> Result<Option<Self>, ExecError> {
        let infos = plan.lists.iter().map(|lists| lists[number].as_ref());
        let Some(infos) = infos.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let mut order: Vec<usize> = (0..infos.len()).collect();
        order.sort_by_key(|&term| infos[term].df);
        let terms = order.iter().map(|&term| Term::open(segment, infos[term]));
        let terms = terms.collect::<Result<Vec<_>, ExecError>>()?;
        Ok(Some(Phrase { segment, terms, matcher: Matcher::new(plan, order) }))
    }

    /// Returns true if a document of a range may contain the phrase, as far as skip arrays tell.
    pub(crate) fn may_be_in(&mut self, docs: &Range<u32>) -> bool {
        self.terms.iter_mut().all(|term| {
            let block = find_block(&term.list, term.next(), docs.start);
            let ends = block == 0 || term.list.block_max_doc(block - 1) < docs.end - 1;
            block < term.list.blocks() && ends
        })
    }

    /// Calls `f` with every document from `from` up to, but not including, `to` that contains the
    /// phrase, if `wanted` holds for the document and for a range that contains it. Returns the
    /// number of documents whose positions were checked.
    pub(crate) fn for_each(
        &mut self,
        from: u32,
        to: u32,
        ticker: &mut Ticker<'_>,
        wanted: impl Fn(u32, u32) -> bool,
        mut f: impl FnMut(u32),
    ) -> Result<u64, Halt> {
        let mut checked = 0;
        let (driver, segment) = (&self.terms[0], self.segment);
        let mut block = find_block(&driver.list, driver.next(), from);
        while block < self.terms[0].list.blocks() {
            let driver = &mut self.terms[0];
            let first = if block == 0 { 0 } else { driver.list.block_max_doc(block - 1) + 1 };
            if first >= to {
                break;
            }
            let last = driver.list.block_max_doc(block).min(to - 1);
            if first.max(from) <= last && wanted(first.max(from), last) {
                driver.load(segment, block)?;
                for i in 0..driver.len {
                    let doc = self.terms[0].docs[i];
                    if (from..to).contains(&doc) && wanted(doc, doc) {
                        checked += 1;
                        if ticker.must_stop(POSITIONS_COST * self.terms.len()) {
                            return Err(Halt::Stop);
                        }
                        if self.has(doc, ticker)? {
                            f(doc);
                        }
                    }
                }
            }
            block += 1;
        }
        Ok(checked)
    }

    /// Returns true if a document contains the phrase. The document must follow those of earlier
    /// calls.
    fn has(&mut self, doc: u32, ticker: &mut Ticker<'_>) -> Result<bool, Halt> {
        for term in &mut self.terms {
            if !term.seek(self.segment, doc)? {
                return Ok(false);
            }
        }
        let (segment, terms) = (self.segment, &mut self.terms);
        self.matcher.is_met(ticker, |i, out| Ok(terms[i].read(segment, out)?))
    }

    /// Returns, for each list, how many blocks were decoded and how many there are.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.terms.iter().map(|term| (term.decoded, term.list.blocks() as u64))
    }
}

/// A list with positions.
struct Term<'a> {
    info: &'a TermInfo,
    list: List<'a>,
    positions: PositionReader<'a>,
    /// The decoded block, or `usize::MAX` before the first.
    block: usize,
    freqs_of: usize,
    at: usize,
    len: usize,
    decoded: u64,
    docs: [u32; BLOCK],
    freqs: [u32; BLOCK],
}

impl<'a> Term<'a> {
    fn open(segment: &'a Segment, info: &'a TermInfo) -> Result<Self, ExecError> {
        Ok(Term {
            info,
            list: segment.list(info)?,
            positions: reader(segment, info)?,
            block: usize::MAX,
            freqs_of: usize::MAX,
            at: 0,
            len: 0,
            decoded: 0,
            docs: [0; BLOCK],
            freqs: [0; BLOCK],
        })
    }

    /// Returns the first block that may still be needed.
    fn next(&self) -> usize {
        if self.block == usize::MAX { 0 } else { self.block }
    }

    fn load(&mut self, segment: &Segment, block: usize) -> Result<(), ExecError> {
        if self.block != block {
            let decoded = self.list.decode_docs(block, &mut self.docs);
            self.len = decoded.map_err(|what| segment.bad_list(self.info, what))?;
            (self.block, self.at) = (block, 0);
            self.decoded += 1;
        }
        Ok(())
    }

    /// Moves to a document; returns false if the list lacks it.
    fn seek(&mut self, segment: &Segment, doc: u32) -> Result<bool, ExecError> {
        let block = find_block(&self.list, self.next(), doc);
        if block == self.list.blocks() {
            return Ok(false);
        }
        self.load(segment, block)?;
        self.at = find_doc(&self.docs[..self.len], self.at, doc);
        Ok(self.at < self.len && self.docs[self.at] == doc)
    }

    /// Reads the positions of the current document.
    fn read(&mut self, segment: &Segment, out: &mut Vec<u32>) -> Result<(), ExecError> {
        if self.freqs_of != self.block {
            let decoded = self.list.decode_freqs(self.block, &mut self.freqs);
            decoded.map_err(|what| segment.bad_list(self.info, what))?;
            self.freqs_of = self.block;
        }
        Ok(self.positions.read(self.block, &self.freqs[..self.len], self.at, out)?)
    }
}

/// Opens a reader for the positions of a term.
pub(crate) fn reader<'a>(
    segment: &'a Segment,
    info: &TermInfo,
) -> Result<PositionReader<'a>, ExecError> {
    match segment.positions(info)? {
        Some(positions) => Ok(PositionReader::new(positions)),
        None => Err(ExecError::NoPositions),
    }
}
