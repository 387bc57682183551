//! Our own algorithm. A hit lacks at most `misses` n-grams, so of any `misses + t` lists it is in
//! at least `t`. The algorithm reads some of the shortest lists and counts documents, without
//! their maps. A document that reaches `t` is a candidate, which is looked up in the other lists
//! until it lacks too many, and only then are maps of segments compared. The more lists are
//! counted, the fewer candidates there are; the lengths of the lists determine how many are
//! counted. Once there are k hits, a document must be better than the worst of them, so that
//! fewer misses are allowed and fewer lists are read for the documents that follow.

use std::ops::Range;

use warpseek_exec::Ticker;
use warpseek_index::{BIN, Glimpse, LookUp, MapList, Result};

use crate::bins;
use crate::collector::Collector;
use crate::lists::{Cursor, Lists};
use crate::simd;
use crate::tally::Tally;

/// Number of parts whose counters are kept at the same time: these fit into the fastest cache
/// beside the blocks that are read.
const WINDOW: usize = 1 << 14;

/// Number of candidates that are looked up together, before their scores raise the minimum for
/// the next ones.
const CHUNK: usize = 32;

/// Maximum number of lists whose documents are counted, so that the highest bit of a counter's
/// byte is free.
pub(crate) const MOST_COUNTED: u32 = 127;

/// The costs of reading and looking up; only the ratios matter.
pub(crate) struct Costs {
    /// Cost of decoding and counting an entry of a sparse list.
    pub entry: f64,
    /// Cost of a bin of a dense list.
    pub bin: f64,
    /// Cost of looking a candidate up in the other lists.
    pub candidate: f64,
}

/// Costs in nanoseconds on one core.
const ON_CPU: Costs = Costs { entry: 1.0, bin: 5.0, candidate: 800.0 };

/// Searches a range of parts. Returns the end of what was searched, which is the end of the range
/// unless time ran out.
pub(crate) fn search(
    lists: &Lists<'_>,
    range: Range<u32>,
    collector: &mut Collector,
    ticker: &mut Ticker<'_>,
) -> Result<u32> {
    let mut counting = Counting::new(lists);
    let mut start = range.start;
    while start < range.end {
        let least = collector.least(lists.segment, start);
        let Some(misses) = lists.len().checked_sub(least) else { return Ok(range.end) };
        if misses >= MOST_COUNTED {
            // Nearly all n-grams may be missing, so counting has no benefit.
            return bins::search(lists, start..range.end, collector, ticker);
        }
        let end = range.end.min((start / WINDOW as u32 + 1) * WINDOW as u32);
        if ticker.must_stop(WINDOW) {
            return Ok(start);
        }
        counting.window(start..end, misses, collector)?;
        start = end;
    }
    Ok(range.end)
}

/// Returns the candidates of a segment, in ascending order, with the number of counted lists that
/// each is in, and the number of lists that were counted. There must be at least as many lists as
/// a hit needs.
pub(crate) fn gather(lists: &Lists<'_>, least: u32) -> Result<(Vec<(u32, u32)>, u32)> {
    let misses = lists.len() - least;
    let (mut counting, mut candidates, mut start) = (Counting::new(lists), Vec::new(), 0);
    let counted = counting.counted(misses);
    while start < lists.parts() {
        let end = lists.parts().min(start + WINDOW as u32);
        counting.count(&(start..end), misses)?;
        candidates.extend(counting.found.iter().map(|&part| (part, counting.count_of(part))));
        start = end;
    }
    Ok((candidates, counted))
}

/// Scores candidates that [`gather`] returned.
pub(crate) fn prune(
    lists: &Lists<'_>,
    candidates: &[(u32, u32)],
    counted: u32,
    collector: &mut Collector,
) -> Result<()> {
    let mut counting = Counting::new(lists);
    for chunk in candidates.chunks(CHUNK) {
        counting.look_up(chunk, counted as usize, collector)?;
    }
    Ok(())
}

struct Counting<'a, 'b> {
    lists: &'a Lists<'b>,
    /// Index of the first dense list; the lists behind it are dense too, since they are longer.
    dense: usize,
    cursors: Vec<Cursor>,
    /// Number of counted lists that have a part, for each part of the window by its remainder.
    counters: Box<[u8; WINDOW]>,
    /// Number of lists to count, by the number of misses; 0 if not known yet.
    counted: Vec<u32>,
    /// The parts of the window that are candidates.
    found: Vec<u32>,
    /// The block of each sparse list that was decoded last to look candidates up, and one for
    /// dense lists, which need none.
    look_ups: Vec<LookUp>,
    candidates: Vec<Candidate>,
    /// The candidates that are not ruled out.
    left: Vec<u32>,
    /// Candidates that are to be looked up in the current list.
    looked_up: Vec<u32>,
    /// The results of these look-ups.
    glimpses: Vec<Glimpse>,
    /// Candidates, with lists that have them in several segments.
    several: Vec<(u32, u32)>,
}

/// A document that may be a hit.
struct Candidate {
    part: u32,
    /// Number of lists that may have it.
    possible: u32,
    /// Number of counted lists that have it, less those that were already identified.
    counted: u32,
    /// Number of lists that have it and were added to the tally.
    seen: u32,
    /// True if all its segments are within reach of each other, so that maps say nothing new.
    is_short: bool,
    /// True if it cannot be a hit.
    is_out: bool,
    tally: Tally,
}

impl Candidate {
    /// Adds the map of a list that has it.
    #[inline]
    fn add(&mut self, map: u32) {
        self.tally.add(map);
        self.seen += 1;
    }

    /// Returns true if the candidate may score this much.
    #[inline]
    fn may_score(&self, least: u32) -> bool {
        // Up to this many of the lists that have the candidate may have it elsewhere.
        let Some(slack) = self.possible.checked_sub(least) else { return false };
        self.seen <= slack || self.tally.max() + slack >= self.seen
    }
}

impl<'a, 'b> Counting<'a, 'b> {
    fn new(lists: &'a Lists<'b>) -> Self {
        Counting {
            lists,
            dense: lists.lists.partition_point(|list| !list.is_dense()),
            cursors: Vec::new(),
            counters: Box::new([0; WINDOW]),
            counted: Vec::new(),
            found: Vec::new(),
            look_ups: Vec::new(),
            candidates: Vec::new(),
            left: Vec::new(),
            looked_up: Vec::new(),
            glimpses: Vec::with_capacity(CHUNK),
            several: Vec::new(),
        }
    }

    fn window(&mut self, parts: Range<u32>, misses: u32, collector: &mut Collector) -> Result<()> {
        let counted = self.count(&parts, misses)?;
        let found = std::mem::take(&mut self.found);
        for chunk in found.chunks(CHUNK) {
            let mut candidates = [(0, 0); CHUNK];
            for (candidate, &part) in candidates.iter_mut().zip(chunk) {
                *candidate = (part, self.count_of(part));
            }
            self.look_up(&candidates[..chunk.len()], counted, collector)?;
        }
        self.found = found;
        Ok(())
    }

    /// Returns the number of counted lists that have a part of the current window.
    fn count_of(&self, part: u32) -> u32 {
        u32::from(self.counters[part as usize % WINDOW])
    }

    /// Finds the candidates of a window; returns the number of lists that were counted.
    fn count(&mut self, parts: &Range<u32>, misses: u32) -> Result<usize> {
        let counted = self.counted(misses) as usize;
        if self.cursors.len() < counted {
            self.cursors.resize_with(counted, Cursor::default);
        }
        self.counters.fill(0);
        for i in 0..counted {
            let list = &self.lists.lists[i];
            match list.is_dense() {
                true => self.count_bins(list, parts),
                false => self.count_entries(i, list, parts)?,
            }
        }
        let enough = (counted as u32 - misses) as u8;
        let first = parts.start as usize % WINDOW;
        find(&self.counters[first..first + parts.len()], enough, parts.start, &mut self.found);
        Ok(counted)
    }

    fn count_entries(&mut self, i: usize, list: &MapList<'_>, parts: &Range<u32>) -> Result<()> {
        let cursor = &mut self.cursors[i];
        cursor.seek(list, parts.start);
        loop {
            let entries = cursor.entries::<false>(list, parts.start, parts.end);
            let entries = self.lists.check(i, entries)?;
            if entries.is_empty() {
                return Ok(());
            }
            let (fours, rest) = cursor.docs[entries].as_chunks::<4>();
            for four in fours {
                four.iter().for_each(|&doc| self.counters[doc as usize % WINDOW] += 1);
            }
            rest.iter().for_each(|&doc| self.counters[doc as usize % WINDOW] += 1);
        }
    }

    fn count_bins(&mut self, list: &MapList<'_>, parts: &Range<u32>) {
        let first = parts.start as usize / BIN;
        let bitmaps = &list.bitmaps()[first..(parts.end as usize).div_ceil(BIN)];
        let counters = &mut self.counters.as_chunks_mut::<BIN>().0[first % (WINDOW / BIN)..];
        for (bitmap, counters) in bitmaps.iter().zip(counters) {
            simd::count(bitmap, counters);
        }
    }

    /// Scores candidates (parts, with the number of counted lists that they are in) unless a list
    /// rules them out. Cheap checks come first: the bitmaps of dense lists that were not counted;
    /// then maps that are known from their heads, of dense lists, of sparse ones that were not
    /// counted, and of those that were; the other maps last.
    fn look_up(
        &mut self,
        found: &[(u32, u32)],
        counted: usize,
        collector: &mut Collector,
    ) -> Result<()> {
        let Some(&(first, _)) = found.first() else { return Ok(()) };
        let (lists, segment) = (self.lists, self.lists.segment);
        let least = collector.least(segment, first);
        let (all, dense) = (lists.lists.len(), self.dense);
        let others = (all - counted) as u32;
        let candidates = found.iter().filter(|&&(_, count)| count + others >= least);
        self.candidates.clear();
        self.candidates.extend(candidates.map(|&(part, count)| Candidate {
            part,
            possible: count + others,
            counted: count,
            seen: 0,
            is_short: u32::from(segment.parts().segments(part)) <= lists.window,
            is_out: false,
            tally: Tally::new(lists.window),
        }));
        self.left.clear();
        self.left.extend(0..self.candidates.len() as u32);
        self.several.clear();
        if self.look_ups.is_empty() {
            self.look_ups.resize_with(dense + 1, LookUp::default);
        }
        for i in dense.max(counted)..all {
            self.rule_out(i, least);
        }
        if self.left.is_empty() {
            return Ok(());
        }
        for i in (dense..all).chain(counted..dense).chain(0..counted.min(dense)) {
            self.glimpse(i, counted, least)?;
        }
        self.add_several(least)?;
        for candidate in self.candidates.iter().filter(|candidate| !candidate.is_out) {
            let score = match candidate.is_short {
                true => candidate.possible,
                false => candidate.tally.max(),
            };
            collector.offer(segment, candidate.part, score);
        }
        Ok(())
    }

    /// Looks candidates up in the bitmaps of a dense list. The outer loop goes over lists, not
    /// candidates, so that a block of a sparse list is decoded once, and while one look-up waits
    /// for memory the next ones begin.
    fn rule_out(&mut self, i: usize, least: u32) {
        let (bitmaps, mut left) = (self.lists.lists[i].bitmaps(), 0);
        for j in 0..self.left.len() {
            let at = self.left[j];
            let candidate = &mut self.candidates[at as usize];
            candidate.possible -= u32::from(!is_set(bitmaps, candidate.part));
            candidate.is_out = candidate.possible < least;
            // There are no branches here, as none could be predicted.
            self.left[left] = at;
            left += usize::from(!candidate.is_out);
        }
        self.left.truncate(left);
    }

    /// Adds the maps that a list returns at little cost, and records where there are others.
    fn glimpse(&mut self, i: usize, counted: usize, least: u32) -> Result<()> {
        let list = &self.lists.lists[i];
        let (bitmaps, was_counted) = (list.bitmaps(), i < counted);
        // A sparse list that was not counted also rules out documents that it does not have.
        let is_new = !was_counted && !list.is_dense();
        self.looked_up.clear();
        self.looked_up.resize(self.left.len(), 0);
        let mut n = 0;
        for &at in &self.left {
            let candidate = &self.candidates[at as usize];
            let has = !list.is_dense() || is_set(bitmaps, candidate.part);
            let is_open = !candidate.is_short & !(was_counted & (candidate.counted == 0));
            self.looked_up[n] = at;
            n += usize::from(is_new | (has & is_open));
        }
        let look_up = &mut self.look_ups[i.min(self.dense)];
        // There are two steps, so that look-ups do not wait for branches that depend on others.
        self.glimpses.clear();
        for &at in &self.looked_up[..n] {
            let glimpse = list.glimpse(self.candidates[at as usize].part, look_up);
            self.glimpses.push(self.lists.check(i, glimpse)?);
        }
        for (&at, &glimpse) in self.looked_up.iter().zip(&self.glimpses) {
            let candidate = &mut self.candidates[at as usize];
            match glimpse {
                Glimpse::Absent => candidate.possible -= u32::from(is_new),
                _ => candidate.counted -= u32::from(was_counted),
            }
            match glimpse {
                Glimpse::Map(map) if !candidate.is_short => candidate.add(map),
                Glimpse::Several if !candidate.is_short => self.several.push((at, i as u32)),
                _ => {}
            }
            candidate.is_out = !candidate.may_score(least);
        }
        self.left.retain(|&at| !self.candidates[at as usize].is_out);
        Ok(())
    }

    /// Adds the maps that were recorded.
    fn add_several(&mut self, least: u32) -> Result<()> {
        for &(at, i) in &self.several {
            let candidate = &mut self.candidates[at as usize];
            if candidate.is_out {
                continue;
            }
            let i = i as usize;
            let look_up = &mut self.look_ups[i.min(self.dense)];
            let map = self.lists.lists[i].map_of(candidate.part, look_up);
            match self.lists.check(i, map)? {
                0 => {}
                map => candidate.add(map),
            }
            candidate.is_out = !candidate.may_score(least);
        }
        Ok(())
    }

    /// Returns the number of lists to count if this many n-grams may be missing.
    fn counted(&mut self, misses: u32) -> u32 {
        if self.counted.len() <= misses as usize {
            self.counted.resize(misses as usize + 1, 0);
        }
        if self.counted[misses as usize] == 0 {
            let lists = self.lists.lists.iter().map(|list| (list.df(), list.is_dense()));
            self.counted[misses as usize] = choose(lists, self.lists.parts(), misses, &ON_CPU);
        }
        self.counted[misses as usize]
    }
}

/// Chooses how many lists to count if this many n-grams may be missing, fewer than
/// [`MOST_COUNTED`]: the number that makes reading them and looking candidates up cheapest.
/// `lists` has the number of entries of each list, shortest first, and true if it is dense;
/// `parts` is the number of parts of the segment.
pub(crate) fn choose(
    lists: impl Iterator<Item = (u32, bool)>,
    parts: u32,
    misses: u32,
    costs: &Costs,
) -> u32 {
    let parts = f64::from(parts);
    // The probability that a document is in exactly 0, 1, 2... of the lists so far, as if n-grams
    // were independent.
    let mut chances = vec![1.0];
    let (mut read, mut best) = (0.0, (f64::INFINITY, misses + 1));
    for ((df, dense), i) in lists.zip(1..=MOST_COUNTED) {
        let share = f64::from(df) / parts;
        chances.push(0.0);
        for j in (0..chances.len()).rev() {
            let before = if j == 0 { 0.0 } else { chances[j - 1] };
            chances[j] = chances[j] * (1.0 - share) + before * share;
        }
        read += if dense { parts / BIN as f64 * costs.bin } else { f64::from(df) * costs.entry };
        if i > misses {
            let enough: f64 = chances[(i - misses) as usize..].iter().sum();
            let cost = read + enough * parts * costs.candidate;
            if cost < best.0 {
                best = (cost, i);
            }
            if read > best.0 {
                break;
            }
        }
    }
    best.1
}

/// Returns true if the bitmaps of a dense list contain a part.
#[inline]
fn is_set(bitmaps: &[[u8; BIN / 8]], part: u32) -> bool {
    bitmaps.as_flattened()[part as usize / 8] >> (part % 8) & 1 == 1
}

/// Replaces `found` by the parts whose counters are at least `enough`. `first` is the part of the
/// first counter. Counters are below 128, as is `enough`, which is not 0.
fn find(counters: &[u8], enough: u8, first: u32, found: &mut Vec<u32>) {
    found.clear();
    // After the addition, the highest bit of a byte is set if the counter is at least `enough`.
    let add = 128 - enough;
    let (chunks, rest) = counters.as_chunks::<64>();
    for (chunk, start) in chunks.iter().zip((first..).step_by(64)) {
        // Compilers vectorise this, and most chunks have no such counter.
        if chunk.iter().fold(0, |any, &count| any | count.wrapping_add(add)) < 128 {
            continue;
        }
        for (word, start) in chunk.as_chunks::<8>().0.iter().zip((start..).step_by(8)) {
            let word = u64::from_le_bytes(*word).wrapping_add(u64::from_le_bytes([add; 8]));
            let mut high = word & 0x8080_8080_8080_8080;
            while high != 0 {
                found.push(start + high.trailing_zeros() / 8);
                high &= high - 1;
            }
        }
    }
    let start = first + (counters.len() - rest.len()) as u32;
    let more = rest.iter().zip(start..).filter(|&(&count, _)| count >= enough);
    found.extend(more.map(|(_, i)| i));
}
