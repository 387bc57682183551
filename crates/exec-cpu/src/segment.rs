//! A query on one segment: its terms with their scorers, and its lists as cursors or streams.

use std::ops::Range;

use warpseek_core::limits::BLOCK;
use warpseek_core::{DocId, Score};
use warpseek_exec::{ExecError, Formula, Plan, PlanTerm, Ticker, Work};
use warpseek_index::{DocSet, Floats, List, ListError, Ordinals, Segment, TermInfo};

use crate::algorithm::Pruning;
use crate::collector::Collector;
use crate::cursor::Cursor;
use crate::factors::FactorCache;
use crate::halt::Halt;
use crate::maxima::{Maxima, MaximaCache};
use crate::scorer::Scorer;
use crate::stream::Stream;

/// Number of postings whose scoring takes as long as opening one list.
pub(crate) const OPENING_COST: usize = 128;

/// A plan on one segment.
pub(crate) struct SegmentQuery<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) segment: &'a Segment,
    /// Scorers by term of the plan.
    scorers: Vec<Scorer>,
    statics: Option<Floats<'a>>,
    /// The ids of documents by position; present in a reordered segment.
    ordinals: Option<Ordinals<'a>>,
    /// The documents that may be hits, if not all live ones.
    pub(crate) mask: Option<&'a DocSet>,
    /// The most that a static score adds.
    pub(crate) static_most: Score,
    number: usize,
}

impl<'a> SegmentQuery<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        number: usize,
        segment: &'a Segment,
        factors: &FactorCache,
        max_static: f32,
        ticker: &mut Ticker<'_>,
    ) -> Result<Self, Halt> {
        let documents = segment.documents();
        let mut scorers: Vec<Scorer> = Vec::with_capacity(plan.terms.len());
        // Terms of a field share its scorer; there are few fields.
        let mut by_field: Vec<(u8, Scorer)> = Vec::new();
        for term in &plan.terms {
            let known = by_field.iter().find(|(field, _)| *field == term.field);
            let scorer = match known {
                Some((_, scorer)) => scorer.clone(),
                None => {
                    let formula = plan.formulas.of(term.field);
                    let factors = factors.get(segment, term.field, formula, ticker)?;
                    let scorer = Scorer { formula, factors };
                    by_field.push((term.field, scorer.clone()));
                    scorer
                }
            };
            scorers.push(scorer);
        }
        let statics = documents.statics()?.filter(|_| plan.static_weight > 0.0);
        let static_most = statics.map_or(0, |_| plan.static_score(max_static));
        let ordinals = documents.ordinals()?;
        let mask = plan.mask.as_ref().map(|mask| mask.segment(number));
        Ok(SegmentQuery { plan, segment, scorers, statics, ordinals, mask, static_most, number })
    }

    /// Tells the collector which segment comes next.
    pub(crate) fn enter(&self, collector: &mut Collector) {
        collector.enter(self.segment, self.ordinals.is_some());
    }

    /// Opens a cursor for each term that the segment contains, before its first posting.
    pub(crate) fn cursors(
        &self,
        pruning: Pruning,
        cache: &MaximaCache,
        ticker: &mut Ticker<'_>,
    ) -> Result<Vec<Cursor<'a>>, Halt> {
        self.lists(pruning, cache, ticker, Cursor::new)
    }

    /// Opens a stream for each term that the segment contains. Streams always know block maxima.
    pub(crate) fn streams(
        &self,
        cache: &MaximaCache,
        ticker: &mut Ticker<'_>,
    ) -> Result<Vec<Stream<'a>>, Halt> {
        self.lists(Pruning::Blocks, cache, ticker, Stream::new)
    }

    /// Opens the list of each term that the segment contains, and returns what `make` builds from
    /// it.
    pub(crate) fn lists<T>(
        &self,
        pruning: Pruning,
        cache: &MaximaCache,
        ticker: &mut Ticker<'_>,
        make: impl Fn(List<'a>, f32, Scorer, Score, Maxima) -> T,
    ) -> Result<Vec<T>, Halt> {
        let mut cursors = Vec::with_capacity(self.plan.terms.len());
        for (info, term, scorer) in self.terms() {
            // Opening a list takes as long as scoring about a hundred postings.
            if ticker.must_stop(OPENING_COST) {
                return Err(Halt::Stop);
            }
            let list = self.segment.list(info)?;
            let mut maxima = Maxima::default();
            if pruning == Pruning::Blocks && list.blocks() > 1 {
                maxima = cache
                    .get(info.ordinal, &list, &self.plan.formulas, scorer.formula, ticker)
                    .map_err(|what| self.segment.bad_list(info, what))?
                    .ok_or(Halt::Stop)?;
            }
            let most = match list.bounds() {
                Some(bounds) if pruning != Pruning::None => {
                    Formula::units(term.weight, scorer.formula.most_value(bounds))
                }
                None if pruning != Pruning::None && list.df() > 1 => scorer
                    .most_of(term.weight, &list)
                    .map_err(|what| self.segment.bad_list(info, what))?,
                _ => term.most,
            };
            cursors.push(make(list, term.weight, scorer.clone(), most, maxima));
        }
        Ok(cursors)
    }

    /// Returns the error for a broken list, after finding out which of the query's lists is
    /// broken.
    pub(crate) fn broken(&self, what: ListError) -> ExecError {
        let mut infos = self.terms().map(|(info, ..)| info);
        let first = infos.clone().next();
        match infos.find(|info| !reads(self.segment, info)).or(first) {
            Some(info) => self.segment.bad_list(info, what).into(),
            None => self.segment.postings_file().corrupt(what.to_string()).into(),
        }
    }

    /// Returns true if the document at a position may be a hit: it is in the mask, which contains
    /// no deleted documents, or live if there is no mask.
    #[inline]
    pub(crate) fn admits(&self, position: u32) -> bool {
        match self.mask {
            Some(mask) => mask.contains(position),
            None => !self.segment.is_deleted(position),
        }
    }

    /// Clears the sums of documents that cannot be hits, and their bits in `touched`. The first
    /// sum is that of the document at `from`. Every sum that is not 0 must have its bit set.
    pub(crate) fn clear_refused(&self, from: u32, sums: &mut [Score], touched: &mut [u64]) {
        if self.admits_all() {
            return;
        }
        for (word, bits) in touched.iter_mut().enumerate() {
            let refused = self.refused_at(from + 64 * word as u32);
            let mut left = *bits & refused;
            *bits &= !refused;
            while left != 0 {
                sums[word * 64 + left.trailing_zeros() as usize] = 0;
                left &= left - 1;
            }
        }
    }

    /// Returns the set of those of the 64 documents from a position on that cannot be hits,
    /// because the mask does not admit them or because they are deleted.
    fn refused_at(&self, from: u32) -> u64 {
        match (self.mask, self.segment.deletes()) {
            // A mask admits no deleted document.
            (Some(mask), _) => !mask.word_at(from),
            (None, Some(deletes)) => deletes.docs.word_at(from),
            (None, None) => 0,
        }
    }

    /// Returns true if every document may be a hit.
    pub(crate) fn admits_all(&self) -> bool {
        self.mask.is_none() && self.segment.deletes().is_none()
    }

    /// Sets `out` to the documents of a range that may be hits, one bit each, and the rest of it
    /// to 0. Returns false if there are none.
    pub(crate) fn admitted(&self, docs: Range<u32>, out: &mut [u64]) -> bool {
        let mut any = 0;
        for (i, word) in out.iter_mut().enumerate() {
            let from = docs.start.saturating_add(64 * i as u32);
            let left = docs.end.saturating_sub(from);
            *word = if left == 0 { 0 } else { !self.refused_at(from) };
            if (1..64).contains(&left) {
                *word &= (1 << left) - 1;
            }
            any |= *word;
        }
        any != 0
    }

    /// Sets `out` to the first documents of a range that may be hits, at most `room` of them.
    /// Returns the end of the part of the range that these documents cover completely.
    pub(crate) fn take_admitted(&self, docs: Range<u32>, room: usize, out: &mut Vec<u32>) -> u32 {
        match (self.mask, self.segment.deletes()) {
            (Some(mask), _) => take(docs, room, out, |i| mask.words()[i]),
            (None, Some(deletes)) => take(docs, room, out, |i| !deletes.docs.words()[i]),
            (None, None) => take(docs, room, out, |_| u64::MAX),
        }
    }

    /// Returns true if the mask has fewer documents than `limit` in a range, or in the words that
    /// the range touches.
    pub(crate) fn admits_fewer(&self, docs: Range<u32>, limit: u64) -> bool {
        let Some(mask) = self.mask else { return u64::from(docs.end - docs.start) < limit };
        let words = &mask.words()[docs.start as usize / 64..(docs.end as usize).div_ceil(64)];
        let mut count = 0;
        // For a dense mask, a few words suffice.
        words.chunks(16).all(|words| {
            count += words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
            count < limit
        })
    }

    /// Returns the first document of a range that the mask admits, or the end of the range.
    /// Without a mask, it is the first document of the range.
    pub(crate) fn first_admitted(&self, docs: Range<u32>) -> u32 {
        let Some(mask) = self.mask else { return docs.start };
        let mut from = docs.start;
        while from < docs.end {
            match mask.word_at(from) {
                0 => from = from.saturating_add(64),
                word => return docs.end.min(from + word.trailing_zeros()),
            }
        }
        docs.end
    }

    /// Offers the document at a position with the sum of its terms' contributions, if it may be a
    /// hit.
    #[inline]
    pub(crate) fn offer(&self, position: u32, sum: Score, collector: &mut Collector) {
        if self.admits(position) {
            collector.offer(sum + self.static_score(position), || self.doc(position));
        }
    }

    /// Returns what its static score adds to a document.
    #[inline]
    pub(crate) fn static_score(&self, position: u32) -> Score {
        self.statics.map_or(0, |s| self.plan.static_score(s.get(position)))
    }

    /// Returns the id of the document at a position.
    #[inline]
    pub(crate) fn doc(&self, position: u32) -> DocId {
        self.segment.base() + self.ordinals.map_or(position, |o| o.get(position))
    }

    /// Counts a document that matches but scores too low to become a hit, if the mask admits it.
    pub(crate) fn count(&self, doc: u32, collector: &mut Collector) {
        if self.admits(doc) {
            collector.count();
        }
    }

    /// Returns the plan's terms that the segment contains, with their scorers.
    pub(crate) fn terms(
        &self,
    ) -> impl Iterator<Item = (&'a TermInfo, &'a PlanTerm, &Scorer)> + Clone {
        let terms = self.plan.terms.iter().zip(&self.scorers);
        terms.filter_map(|(term, scorer)| Some((term.lists[self.number].as_ref()?, term, scorer)))
    }

    pub(crate) fn number(&self) -> usize {
        self.number
    }
}

/// Sets `out` to the first documents of a range whose bits are set, at most `room` of them.
/// Returns the end of the part of the range that these documents cover completely.
fn take(docs: Range<u32>, room: usize, out: &mut Vec<u32>, word: impl Fn(usize) -> u64) -> u32 {
    out.clear();
    let mut before = !0 << (docs.start % 64);
    for i in docs.start / 64..docs.end.div_ceil(64) {
        let mut left = word(i as usize) & std::mem::replace(&mut before, !0);
        while left != 0 {
            let doc = 64 * i + left.trailing_zeros();
            if doc >= docs.end || out.len() == room {
                return doc.min(docs.end);
            }
            out.push(doc);
            left &= left - 1;
        }
    }
    docs.end
}

/// Adds the numbers of decoded and skipped blocks to the work.
pub(crate) fn account(blocks: impl Iterator<Item = (u64, u64)>, work: &mut Work) {
    for (decoded, all) in blocks {
        work.blocks_decoded += decoded;
        work.blocks_skipped += all.saturating_sub(decoded);
    }
}

fn reads(segment: &Segment, info: &TermInfo) -> bool {
    let Ok(list) = segment.list(info) else { return false };
    let mut out = [0; BLOCK];
    (0..list.blocks()).all(|block| {
        list.decode_docs(block, &mut out).and_then(|_| list.decode_freqs(block, &mut out)).is_ok()
    }) && list.block_bounds().all(|bounds| bounds.is_ok())
}
