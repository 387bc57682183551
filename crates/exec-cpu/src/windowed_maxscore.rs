//! Windowed MaxScore, designed for vector units: the collection is divided into windows of
//! documents whose sums fit in the second-level cache.
//!
//! In each window the block maxima determine which lists are essential there, and whether the
//! window can contain a hit at all. Essential lists are decoded and scored block by block into
//! accumulators, without a branch per posting; the few documents whose sums are high enough are
//! then looked up in the other lists. Other lists with few postings are read like essential ones.
//! If a long list is the weakest essential one and the others are short, it is searched
//! separately, without accumulators. If a mask admits so few documents of a window that looking
//! them up in all lists is less work than scoring the essential ones, its documents are looked up
//! instead ([`filtered`](crate::filtered)).

use std::ops::Range;

use warpseek_core::Score;
use warpseek_core::limits::BLOCK;
use warpseek_exec::{Ticker, Work};
use warpseek_index::ListError;

use crate::candidates::Candidates;
use crate::collector::Collector;
use crate::filtered::{Group, LOOK_UP};
use crate::segment::SegmentQuery;
use crate::stream::Stream;

/// Documents per window. Sums take four bytes each, so that they stay in a second-level cache
/// beside the lists. If postings are sparse, windows are larger, up to `LARGEST`, so that each
/// has `ENOUGH` of them.
const WINDOW: u32 = 1 << 14;
const LARGEST: u32 = 1 << 17;
const ENOUGH: u64 = 256;
/// Minimum number of documents that a mask should admit in a window; windows are larger
/// otherwise.
const ENOUGH_ADMITTED: u64 = 64;

/// Maximum number of documents per posting of a run whose documents count as close together. Runs
/// of fewer than `FEW` postings never do.
const DENSE: usize = 16;
const FEW: usize = 8;

/// Minimum number of candidates for a joint lookup. Finding several documents in one block is
/// faster than searching for each.
const TOGETHER: usize = 256;

/// Maximum ratio of the postings of a list to those of all lists that are read anyway for which
/// the list is read, too.
const READ: u64 = 2;

/// Number of postings that can be scored without sums in the time that it takes to add one to a
/// sum; `LOOKED_UP` is that number for looking up a document.
const ADDED: u64 = 2;
const LOOKED_UP: u64 = 8;

/// The way windows are searched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    /// True if all matches are counted in the scratch.
    pub(crate) count: bool,
    /// True if documents come from the mask in all windows, or from all live documents if there
    /// is no mask. Otherwise the mask drives where that is less work.
    pub(crate) mask_drives: bool,
}

/// Accumulators and lists of a window, reused from query to query.
#[derive(Default)]
pub(crate) struct Scratch {
    sums: Vec<Score>,
    /// Bits of the sums that are not 0 and of the matches that are only counted. If matches are
    /// not counted, bits of other sums may be set, too.
    touched: Vec<u64>,
    candidates: Candidates,
    /// Candidates from the stronger lists if the weakest essential list is searched separately;
    /// `stronger` has a bit for each document of these lists.
    found: Candidates,
    stronger: Vec<u64>,
    order: Vec<(Score, usize)>,
    most_below: Vec<u64>,
    group: Group,
    /// Number of matches so far, if they are counted.
    pub(crate) counted: u64,
}

/// Returns the number of documents per window for these lists.
fn window(query: &SegmentQuery<'_>, streams: &[Stream<'_>]) -> u32 {
    let postings: u64 = streams.iter().map(|stream| u64::from(stream.df())).sum();
    let all = u64::from(query.segment.documents().count());
    let mut docs = all * ENOUGH / postings.max(1);
    if let Some(mask) = query.mask {
        docs = docs.max(all * ENOUGH_ADMITTED / mask.len().max(1));
    }
    docs.clamp(u64::from(WINDOW), u64::from(LARGEST)).next_power_of_two() as u32
}

/// Returns true if matches are best counted during the search, which then reads all documents of
/// all lists. This is the case if they are so few that going over them twice takes longer.
pub(crate) fn counts(streams: &[Stream<'_>]) -> bool {
    streams.iter().map(|stream| u64::from(stream.df())).sum::<u64>() <= 1 << 15
}

/// Searches a range of documents; the next range must not begin before the end of this one.
/// Returns the end of what was searched, which is the end of the range unless the ticker asked to
/// stop.
#[expect(clippy::too_many_arguments, reason = "the state of a search, as its siblings take it")]
pub(crate) fn or<'a>(
    query: &SegmentQuery<'a>,
    streams: &mut [Stream<'a>],
    docs: Range<u32>,
    how: How,
    ticker: &mut Ticker<'_>,
    scratch: &mut Scratch,
    collector: &mut Collector,
    work: &mut Work,
) -> Result<u32, ListError> {
    scratch.sums.resize(LARGEST as usize, 0);
    scratch.touched.resize(LARGEST as usize / 64, 0);
    let window = window(query, streams);
    let mut from = docs.start;
    loop {
        // Windows without documents that may be hits are skipped.
        from = query.first_admitted(from..docs.end);
        if from >= docs.end {
            return Ok(docs.end);
        }
        let to = docs.end.min((from / window + 1).saturating_mul(window));
        if ticker.must_stop(streams.len()) {
            return Ok(from);
        }
        let mut here = Window { query, streams, scratch, ticker, from, to, how };
        let next = here.bounds()?;
        if next >= to {
            // The window is empty; continue with the window of the next posting.
            from = next;
            continue;
        }
        let end = here.search(collector, work)?;
        if end < to {
            return Ok(end);
        }
        from = to;
    }
}

/// Returns the score that a sum must exceed to become a hit, if other lists contribute at most
/// `others`.
#[inline]
fn needed(collector: &Collector, others: u64) -> Score {
    u64::from(collector.threshold()).saturating_sub(others).min(u64::from(Score::MAX)) as Score
}

/// Adds contributions to the sums of documents from `base` on, and sets exactly their bits.
fn add_exactly(docs: &[u32], scores: &[Score], base: u32, sums: &mut [Score], touched: &mut [u64]) {
    for (&doc, &score) in docs.iter().zip(scores) {
        // The remainder proves to the compiler that the index is in bounds.
        let at = (doc - base) as usize % LARGEST as usize;
        sums[at] += score;
        touched[at / 64] |= 1 << (at % 64);
    }
}

/// Adds contributions like [`add_exactly`]; for documents that are close together it sets all
/// bits between them, too: setting them individually would make each operation wait for the one
/// before.
pub(crate) fn add(
    docs: &[u32],
    scores: &[Score],
    base: u32,
    sums: &mut [Score],
    touched: &mut [u64],
) {
    let (Some(&first), Some(&last)) = (docs.first(), docs.last()) else { return };
    let (first, last) = ((first - base) as usize, (last - base) as usize);
    if docs.len() < FEW || last - first >= DENSE * docs.len() {
        return add_exactly(docs, scores, base, sums, touched);
    }
    touched[first / 64..=last / 64].fill(u64::MAX);
    for (&doc, &score) in docs.iter().zip(scores) {
        sums[(doc - base) as usize % LARGEST as usize] += score;
    }
}

struct Window<'w, 'a, 't> {
    query: &'w SegmentQuery<'a>,
    streams: &'w mut [Stream<'a>],
    scratch: &'w mut Scratch,
    ticker: &'w mut Ticker<'t>,
    from: u32,
    to: u32,
    how: How,
}

impl Window<'_, '_, '_> {
    /// Sorts the lists that have postings here by the most that these can contribute. Returns a
    /// lower bound on the documents of their postings.
    fn bounds(&mut self) -> Result<u32, ListError> {
        let (order, most_below) = (&mut self.scratch.order, &mut self.scratch.most_below);
        order.clear();
        let mut next = u32::MAX;
        for (i, stream) in self.streams.iter_mut().enumerate() {
            let (most, first) = stream.window(self.from, self.to)?;
            next = next.min(first);
            if most > 0 {
                order.push((most, i));
            }
        }
        order.sort_unstable();
        let mut sum = u64::from(self.query.static_most);
        most_below.clear();
        most_below.push(sum);
        most_below.extend(order.iter().map(|&(most, _)| {
            sum += u64::from(most);
            sum
        }));
        Ok(next)
    }

    /// Searches the window. Returns the end of what was searched, which is the end of the window
    /// unless the ticker asked to stop.
    fn search(&mut self, collector: &mut Collector, work: &mut Work) -> Result<u32, ListError> {
        // `most_below[i]` is the most that the first i lists and a static score contribute. The
        // first list that raises it above the threshold is essential.
        collector.exchange();
        let threshold = u64::from(collector.threshold());
        let lists = self.scratch.order.len();
        let first = (0..lists).find(|&i| self.scratch.most_below[i + 1] > threshold);
        // To count matches, the search must see every document.
        let Some(first) = first.or(self.how.count.then_some(lists)) else {
            return Ok(self.to);
        };
        if self.mask_drives(first, collector) {
            return self.search_admitted(collector, work);
        }
        let first = if self.how.count { first } else { self.first_read(first) };
        if first + 1 == lists && !self.how.count {
            return self.search_one(first, &[], collector, work);
        }
        if !self.how.count && self.weakest_apart(first, collector) {
            return self.search_apart(first, collector, work);
        }
        let counted = if self.how.count { first } else { 0 };
        for &(_, i) in &self.scratch.order[..counted] {
            let marked = self.streams[i].mark(self.from, self.to, &mut self.scratch.touched)?;
            if self.ticker.must_stop(marked) {
                return Ok(self.abandon());
            }
        }
        // With a mask, bits that were set needlessly have to be cleared again.
        let exactly = self.how.count || self.query.mask.is_some();
        if !self.add_up(first, exactly, work)? {
            return Ok(self.abandon());
        }
        self.collect(first, collector, work)
    }

    /// Returns the first list of which all postings are read: the first essential one, or one
    /// before it. If a short list has few more postings than those after it, reading it is faster
    /// than looking up candidates in it, and leaves fewer candidates.
    fn first_read(&self, essential: usize) -> usize {
        let stream = |at: usize| &self.streams[self.scratch.order[at].1];
        let is_short = |at: usize| stream(at).df() <= WINDOW;
        let postings = |at: usize| stream(at).postings_within(self.from, self.to, 0);
        let (mut first, lists) = (essential, self.scratch.order.len());
        // Blocks of a single long list may be skipped.
        let is_one = first + 1 == lists && !is_short(first);
        if first == 0 || is_one || !is_short(first - 1) {
            return first;
        }
        let mut read: u64 = (first..lists).map(postings).sum();
        while first > 0 && is_short(first - 1) {
            let more = postings(first - 1);
            if more > READ * read {
                break;
            }
            (first, read) = (first - 1, read + more);
        }
        first
    }

    /// Adds up the contributions of the lists from `first` on. Returns false if the ticker asked
    /// to stop.
    fn add_up(&mut self, first: usize, exactly: bool, work: &mut Work) -> Result<bool, ListError> {
        let (sums, touched) = (&mut self.scratch.sums, &mut self.scratch.touched);
        for &(_, i) in &self.scratch.order[first..] {
            let mut from = self.from;
            while let Some((run, next)) = self.streams[i].run(from, self.to, 0)? {
                let (docs, scores) = self.streams[i].postings(run);
                if exactly {
                    add_exactly(docs, scores, self.from, sums, touched);
                } else {
                    add(docs, scores, self.from, sums, touched);
                }
                work.postings_scored += docs.len() as u64;
                from = next;
                if self.ticker.must_stop(docs.len()) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Returns true if it is less work to search the weakest essential list separately, since it
    /// has many more postings than the stronger ones.
    fn weakest_apart(&self, first: usize, collector: &Collector) -> bool {
        let Scratch { order, most_below, .. } = &*self.scratch;
        let weakest = &self.streams[order[first].1];
        let stronger = || order[first + 1..].iter().map(|&(_, i)| &self.streams[i]);
        let all: u64 = stronger().map(|stream| u64::from(stream.df())).sum();
        if LOOKED_UP * all > ADDED * u64::from(weakest.df()) {
            return false;
        }
        let here: u64 = stronger().map(|s| s.postings_within(self.from, self.to, 0)).sum();
        let least = needed(collector, most_below[first]);
        let (above, all) = weakest.blocks_above(self.from, self.to, least);
        LOOKED_UP * here + (above * BLOCK) as u64 <= ADDED * (all * BLOCK) as u64
    }

    /// Searches the weakest essential list and the stronger ones one after the other. Documents
    /// of the stronger lists are looked up in it; the rest of it is searched like a single
    /// essential list, without sums, and without the blocks that cannot contain a hit.
    fn search_apart(
        &mut self,
        first: usize,
        collector: &mut Collector,
        work: &mut Work,
    ) -> Result<u32, ListError> {
        if !self.add_up(first + 1, true, work)? {
            return Ok(self.abandon());
        }
        let words = (self.to - self.from).div_ceil(64) as usize;
        let mut stronger = std::mem::take(&mut self.scratch.stronger);
        stronger.clear();
        stronger.extend_from_slice(&self.scratch.touched[..words]);
        self.sweep(first + 1, collector);
        let mut end = self.from;
        if self.look_up(first + 1, collector, work)? {
            let Scratch { candidates, found, order, .. } = &mut *self.scratch;
            std::mem::swap(candidates, found);
            for &(_, i) in &order[..=first] {
                self.streams[i].rewind();
            }
            end = self.search_one(first, &stronger, collector, work)?;
            self.scratch.found.clear();
        }
        self.scratch.stronger = stronger;
        Ok(end)
    }

    /// Returns true if the documents that are looked up come from the mask instead of the
    /// essential lists.
    fn mask_drives(&self, first: usize, collector: &Collector) -> bool {
        let (true, false) = (self.query.mask.is_some(), self.how.mask_drives) else {
            return self.how.mask_drives;
        };
        let Scratch { order, most_below, .. } = &*self.scratch;
        // Blocks of a single essential list may be skipped.
        let alone = first + 1 == order.len() && !self.how.count;
        let least = if alone { needed(collector, most_below[first]) } else { 0 };
        // To count matches, all lists are read.
        let read = order[if self.how.count { 0 } else { first }..].iter();
        let postings: u64 =
            read.map(|&(_, i)| self.streams[i].postings_within(self.from, self.to, least)).sum();
        self.query.admits_fewer(self.from..self.to, postings / (LOOK_UP * order.len() as u64))
    }

    /// Looks up the documents of the mask in all lists.
    fn search_admitted(
        &mut self,
        collector: &mut Collector,
        work: &mut Work,
    ) -> Result<u32, ListError> {
        let Scratch { order, group, counted, .. } = &mut *self.scratch;
        let mut from = self.from;
        while from < self.to {
            let end = group.take(self.query, from..self.to);
            let threshold = if self.how.count { 0 } else { u64::from(collector.threshold()) };
            if !group.score(self.query, (self.streams, order), threshold, self.ticker, work)? {
                return Ok(from);
            }
            *counted += group.offer(self.query, collector);
            from = end;
        }
        Ok(self.to)
    }

    /// Searches with one essential list, or with the weakest one separately. Its blocks need no
    /// sums, and blocks that cannot contain a hit are not decoded. Documents of stronger lists
    /// are left out, and the candidates from these are offered along with the others, because
    /// hits have to be offered in ascending order.
    fn search_one(
        &mut self,
        first: usize,
        stronger: &[u64],
        collector: &mut Collector,
        work: &mut Work,
    ) -> Result<u32, ListError> {
        let others = self.scratch.most_below[first];
        let (i, mut from) = (self.scratch.order[first].1, self.from);
        let mut least = needed(collector, others);
        // Documents before this are done: candidates from stronger lists were offered, and
        // documents that are in neither cannot become hits.
        let mut done = from;
        while done < self.to {
            let run = self.streams[i].run(from, self.to, least)?;
            from = run.as_ref().map_or(self.to, |&(_, next)| next);
            if let Some((run, _)) = run {
                work.postings_scored += run.len() as u64;
                if self.ticker.must_stop(run.len()) {
                    self.scratch.candidates.clear();
                    return Ok(done);
                }
                let (docs, scores) = self.streams[i].postings(run);
                let candidates = &mut self.scratch.candidates;
                let all = self.query.admits_all() && stronger.is_empty();
                let admits = (!all).then_some(|doc: u32| {
                    let at = (doc - self.from) as usize;
                    let word = stronger.get(at / 64).copied().unwrap_or(0);
                    word >> (at % 64) & 1 == 0 && self.query.admits(doc)
                });
                candidates.extend(docs, scores, least, admits);
                if first > 0 && candidates.len() < TOGETHER {
                    continue;
                }
            }
            if !self.look_up(first, collector, work)? {
                return Ok(done);
            }
            let Scratch { candidates, found, .. } = &mut *self.scratch;
            candidates.offer_with(found, from, self.query, collector);
            least = needed(collector, others);
            done = from;
        }
        Ok(self.to)
    }

    /// Clears the sums, as if nothing had been done in the window; returns the start of the
    /// window.
    fn abandon(&mut self) -> u32 {
        let words = (self.to - self.from).div_ceil(64) as usize;
        self.scratch.sums[..64 * words].fill(0);
        self.scratch.touched[..words].fill(0);
        self.scratch.candidates.clear();
        self.from
    }

    /// Collects the documents that may become hits, and clears the sums.
    fn collect(
        &mut self,
        first: usize,
        collector: &mut Collector,
        work: &mut Work,
    ) -> Result<u32, ListError> {
        let before = self.scratch.counted;
        self.sweep(first, collector);
        if self.look_up(first, collector, work)? {
            self.scratch.candidates.offer(self.query, collector);
            return Ok(self.to);
        }
        self.scratch.counted = before;
        Ok(self.from)
    }

    /// Turns the documents whose sums are high enough into candidates, given that the lists
    /// before `first` will be looked up, and clears the sums.
    fn sweep(&mut self, first: usize, collector: &Collector) {
        let least = needed(collector, self.scratch.most_below[first]);
        let Scratch { sums, touched, candidates, counted, .. } = &mut *self.scratch;
        let words = (self.to - self.from).div_ceil(64) as usize;
        let touched = &mut touched[..words];
        self.query.clear_refused(self.from, sums, touched);
        if self.how.count {
            *counted += touched.iter().map(|bits| u64::from(bits.count_ones())).sum::<u64>();
        }
        candidates.sweep(sums, touched, self.from, least);
    }

    /// Adds the contributions of the first lists to the candidates, and drops those that cannot
    /// become hits. It proceeds list by list: the candidates ascend, so each list is read forward
    /// once. Returns false if the ticker asked to stop; then there are no candidates.
    fn look_up(
        &mut self,
        lists: usize,
        collector: &Collector,
        work: &mut Work,
    ) -> Result<bool, ListError> {
        let Scratch { sums, order, most_below, candidates, .. } = &mut *self.scratch;
        let threshold = u64::from(collector.threshold());
        for at in (0..lists).rev() {
            if self.ticker.must_stop(candidates.len()) {
                candidates.clear();
                return Ok(false);
            }
            let (most, i) = order[at];
            let (stream, below) = (&mut self.streams[i], most_below[at]);
            candidates.look_up(stream, threshold, most, below, sums, self.from, work)?;
        }
        Ok(true)
    }
}
