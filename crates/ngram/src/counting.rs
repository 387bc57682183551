//! Our own algorithm. A hit lacks at most `misses` n-grams, so of any `misses + t` lists it is in at least `t`. Some of the shortest lists are read and
//! documents counted, without their maps; a document that reaches `t` is a candidate, which is looked up in the other lists until it lacks too many, and only then are maps of segments compared.
//! The more lists are counted, the fewer candidates there are; how many are counted follows from the lengths of the lists. Once there are k hits, a document must be better than the worst of them, so
//! that fewer misses are allowed and fewer lists are read for the documents that follow.

use std::ops::Range;

use warpseek_exec::Ticker;
use warpseek_index::{BIN, LookUp, MapList, Result};

use crate::bins;
use crate::collector::Collector;
use crate::lists::{Cursor, Lists};
use crate::simd;
use crate::tally::Tally;

/// Parts whose counters are kept at the same time: these fit into the fastest cache beside the blocks that are read.
const WINDOW: usize = 1 << 14;

/// Candidates that are looked up together, before their scores raise what the next ones need.
const CHUNK: usize = 32;

/// The most lists whose documents are counted, so that the highest bit of a counter's byte is free.
pub(crate) const MOST_COUNTED: u32 = 127;

/// What reading and looking up cost; only the ratios matter.
pub(crate) struct Costs {
    /// For an entry of a sparse list: to decode and count it.
    pub entry: f64,
    /// For a bin of a dense list.
    pub bin: f64,
    /// For a candidate: to look it up in the other lists.
    pub candidate: f64,
}

/// Nanoseconds on one core.
const ON_CPU: Costs = Costs { entry: 1.0, bin: 5.0, candidate: 1000.0 };

/// Searches a range of parts. Returns where it stopped, which is the end of the range unless time ran out.
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
            // Nearly everything may be missing: there is nothing to gain from counting.
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

/// The candidates of a segment, in ascending order, with the number of counted lists that each is in, and how many lists were counted. There are at least as many lists as a hit needs.
pub(crate) fn gather(lists: &Lists<'_>, least: u32) -> Result<(Vec<(u32, u32)>, u32)> {
    let misses = lists.len() - least;
    let (mut counting, mut candidates, mut start) = (Counting::new(lists), Vec::new(), 0);
    let counted = counting.counted(misses);
    while start < lists.parts() {
        let end = lists.parts().min(start + WINDOW as u32);
        counting.count(&(start..end), misses)?;
        let with_count = |&at: &u32| (start + at, u32::from(counting.counters[at as usize]));
        candidates.extend(counting.found.iter().map(with_count));
        start = end;
    }
    Ok((candidates, counted))
}

/// Scores such candidates.
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
    cursors: Vec<Cursor>,
    counters: Box<[u8; WINDOW]>,
    /// How many lists are counted, by the number of misses; 0 if not known yet.
    counted: Vec<u32>,
    found: Vec<u32>,
    /// For each list, the block that was decoded last to look candidates up.
    look_ups: Vec<LookUp>,
    candidates: Vec<Candidate>,
}

/// A document that may be a hit.
struct Candidate {
    part: u32,
    /// How many lists may have it.
    possible: u32,
    /// How many lists that have it were added to the tally.
    seen: u32,
    tally: Tally,
}

impl<'a, 'b> Counting<'a, 'b> {
    fn new(lists: &'a Lists<'b>) -> Self {
        Counting {
            lists,
            cursors: Vec::new(),
            counters: Box::new([0; WINDOW]),
            counted: Vec::new(),
            found: Vec::new(),
            look_ups: Vec::new(),
            candidates: Vec::new(),
        }
    }

    fn window(&mut self, parts: Range<u32>, misses: u32, collector: &mut Collector) -> Result<()> {
        let counted = self.count(&parts, misses)?;
        let found = std::mem::take(&mut self.found);
        for chunk in found.chunks(CHUNK) {
            let mut candidates = [(0, 0); CHUNK];
            for (candidate, &at) in candidates.iter_mut().zip(chunk) {
                *candidate = (parts.start + at, u32::from(self.counters[at as usize]));
            }
            self.look_up(&candidates[..chunk.len()], counted, collector)?;
        }
        self.found = found;
        Ok(())
    }

    /// Finds the candidates of a window; returns how many lists were counted.
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
        find(&self.counters[..parts.len()], enough, &mut self.found);
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
            for &doc in &cursor.docs[entries] {
                self.counters[(doc - parts.start) as usize % WINDOW] += 1;
            }
        }
    }

    fn count_bins(&mut self, list: &MapList<'_>, parts: &Range<u32>) {
        let first = parts.start as usize / BIN;
        let bitmaps = &list.bitmaps()[first..(parts.end as usize).div_ceil(BIN)];
        let counters = self.counters.as_chunks_mut::<BIN>().0;
        for (bitmap, counters) in bitmaps.iter().zip(counters) {
            simd::count(bitmap, counters);
        }
    }

    /// Looks candidates (parts, and in how many counted lists they are) up in the lists that were not counted, and scores those that no list rules out. Lists take turns, not candidates: so a block is decoded once, and while one look-up waits for memory
    /// the next ones begin.
    fn look_up(
        &mut self,
        found: &[(u32, u32)],
        counted: usize,
        collector: &mut Collector,
    ) -> Result<()> {
        let Some(&(first, _)) = found.first() else { return Ok(()) };
        let least = collector.least(self.lists.segment, first);
        let others = (self.lists.lists.len() - counted) as u32;
        let candidates = found.iter().map(|&(part, count)| Candidate {
            part,
            possible: count + others,
            seen: 0,
            tally: Tally::new(self.lists.window),
        });
        self.candidates.clear();
        self.candidates.extend(candidates.filter(|candidate| candidate.possible >= least));
        if self.look_ups.is_empty() {
            self.look_ups.resize_with(self.lists.lists.len(), LookUp::default);
        }
        for (i, list) in self.lists.lists.iter().enumerate().skip(counted) {
            if self.candidates.is_empty() {
                return Ok(());
            }
            let (look_up, mut failure) = (&mut self.look_ups[i], Ok(()));
            self.candidates.retain_mut(|candidate| {
                let has = list.has(candidate.part, look_up).unwrap_or_else(|what| {
                    failure = Err(what);
                    false
                });
                candidate.possible -= u32::from(!has);
                candidate.possible >= least
            });
            self.lists.check(i, failure)?;
        }
        // If all segments of a document are within reach of each other, maps say nothing new.
        let (segment, window) = (self.lists.segment, self.lists.window);
        let is_short = |part: u32| u32::from(segment.parts().segments(part)) <= window;
        for (i, list) in self.lists.lists.iter().enumerate() {
            if self.candidates.is_empty() {
                return Ok(());
            }
            let (look_up, mut failure) = (&mut self.look_ups[i], Ok(()));
            self.candidates.retain_mut(|candidate| {
                if is_short(candidate.part) {
                    return true;
                }
                let map = list.map_of(candidate.part, look_up).unwrap_or_else(|what| {
                    failure = Err(what);
                    0
                });
                if map == 0 {
                    return true;
                }
                candidate.tally.add(map);
                candidate.seen += 1;
                // As many of the lists that have the document may have it elsewhere.
                let slack = candidate.possible - least;
                candidate.seen <= slack || candidate.tally.max() + slack >= candidate.seen
            });
            self.lists.check(i, failure)?;
        }
        for candidate in &self.candidates {
            let score = match is_short(candidate.part) {
                true => candidate.possible,
                false => candidate.tally.max(),
            };
            collector.offer(segment, candidate.part, score);
        }
        Ok(())
    }

    /// How many lists to count if this many n-grams may be missing.
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

/// How many lists to count if this many n-grams may be missing, fewer than [`MOST_COUNTED`]: as many as make reading them and looking candidates up cheapest. Of each list, shortest first, its
/// entries and whether it is dense; `parts` is the number of parts of the segment.
pub(crate) fn choose(
    lists: impl Iterator<Item = (u32, bool)>,
    parts: u32,
    misses: u32,
    costs: &Costs,
) -> u32 {
    let parts = f64::from(parts);
    // The chance of a document to be in exactly 0, 1, 2... of the lists so far, as if n-grams were independent.
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

/// Appends the indexes of counters that are at least `enough`. All are below 128, as is `enough`, which is not 0.
fn find(counters: &[u8], enough: u8, found: &mut Vec<u32>) {
    found.clear();
    // The highest bit of a byte becomes that of "at least enough".
    let add = u64::from_le_bytes([128 - enough; 8]);
    let (words, rest) = counters.as_chunks::<8>();
    for (word, start) in words.iter().zip((0..).step_by(8)) {
        let mut high = u64::from_le_bytes(*word).wrapping_add(add) & 0x8080_8080_8080_8080;
        while high != 0 {
            found.push(start + high.trailing_zeros() / 8);
            high &= high - 1;
        }
    }
    let start = (counters.len() - rest.len()) as u32;
    let more = rest.iter().zip(start..).filter(|&(&count, _)| count >= enough);
    found.extend(more.map(|(_, i)| i));
}
