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
use crate::tally::{SPREAD, Tally};

/// Parts whose counters are kept at the same time: these fit into the fastest cache beside the blocks that are read.
const WINDOW: usize = 1 << 14;

/// The most lists whose documents are counted, so that a counter has one byte.
const MOST_COUNTED: u32 = 255;

// Costs in nanoseconds on one core; only their ratios matter.
/// For an entry of a sparse list: to decode and count it.
const ENTRY_COST: f64 = 1.0;
/// For a bin of a dense list.
const BIN_COST: f64 = 12.0;
/// For a candidate: to look it up in the other lists.
const CANDIDATE_COST: f64 = 400.0;

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

struct Counting<'a, 'b> {
    lists: &'a Lists<'b>,
    cursors: Vec<Cursor>,
    counters: Box<[u8; WINDOW]>,
    /// For looking candidates up: the block that was decoded last for each list.
    looked_up: Vec<LookUp>,
    /// How many lists are counted, by the number of misses; 0 if not known yet.
    counted: Vec<u32>,
    candidates: Vec<u32>,
}

impl<'a, 'b> Counting<'a, 'b> {
    fn new(lists: &'a Lists<'b>) -> Self {
        Counting {
            lists,
            cursors: Vec::new(),
            counters: Box::new([0; WINDOW]),
            looked_up: Vec::new(),
            counted: Vec::new(),
            candidates: Vec::new(),
        }
    }

    fn window(&mut self, parts: Range<u32>, misses: u32, collector: &mut Collector) -> Result<()> {
        let counted = self.counted(misses) as usize;
        if self.cursors.len() < counted {
            self.cursors.resize_with(counted, Cursor::default);
        }
        self.counters.fill(0);
        for i in 0..counted {
            let list = &self.lists.lists[i];
            match list.is_dense() {
                true => self.count_bins(i, list, &parts)?,
                false => self.count_entries(i, list, &parts)?,
            }
        }
        let enough = (counted as u32 - misses) as u8;
        let mut candidates = std::mem::take(&mut self.candidates);
        find(&self.counters[..parts.len()], enough, &mut candidates);
        for &candidate in &candidates {
            let count = u32::from(self.counters[candidate as usize]);
            self.look_up(parts.start + candidate, counted, count, collector)?;
        }
        self.candidates = candidates;
        Ok(())
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

    fn count_bins(&mut self, i: usize, list: &MapList<'_>, parts: &Range<u32>) -> Result<()> {
        let first = parts.start as usize / BIN;
        let counters = self.counters.as_chunks_mut::<BIN>().0;
        for (bin, counters) in (first..(parts.end as usize).div_ceil(BIN)).zip(counters) {
            let Some(bin) = self.lists.check(i, list.bin(bin))? else { continue };
            for (counters, &byte) in counters.as_chunks_mut::<8>().0.iter_mut().zip(bin.bitmap()) {
                let sum = u64::from_le_bytes(*counters) + SPREAD[usize::from(byte)];
                *counters = sum.to_le_bytes();
            }
        }
        Ok(())
    }

    /// Scores a document that is in `count` of the counted lists, unless it lacks too many of the others.
    fn look_up(
        &mut self,
        part: u32,
        counted: usize,
        count: u32,
        collector: &mut Collector,
    ) -> Result<()> {
        let all = self.lists.lists.len();
        if self.looked_up.is_empty() {
            self.looked_up.resize_with(all, LookUp::default);
        }
        let least = collector.least(self.lists.segment, part);
        let mut possible = count + (all - counted) as u32;
        for i in counted..all {
            if possible < least {
                return Ok(());
            }
            let has = self.lists.lists[i].has(part, &mut self.looked_up[i]);
            possible -= u32::from(!self.lists.check(i, has)?);
        }
        if possible < least {
            return Ok(());
        }
        let mut tally = Tally::new(self.lists.window);
        for i in 0..all {
            let map = self.lists.lists[i].map_of(part, &mut self.looked_up[i]);
            tally.add(self.lists.check(i, map)?);
        }
        let score = tally.max();
        if score >= least {
            collector.offer(self.lists.segment, part, score);
        }
        Ok(())
    }

    /// How many lists to count if this many n-grams may be missing: as many as make reading them and looking candidates up cheapest.
    fn counted(&mut self, misses: u32) -> u32 {
        if self.counted.len() <= misses as usize {
            self.counted.resize(misses as usize + 1, 0);
        }
        if self.counted[misses as usize] == 0 {
            self.counted[misses as usize] = self.choose(misses);
        }
        self.counted[misses as usize]
    }

    fn choose(&self, misses: u32) -> u32 {
        let parts = f64::from(self.lists.parts());
        let most = self.lists.len().min(MOST_COUNTED);
        // The chance of a document to be in exactly 0, 1, 2... of the lists so far, as if n-grams were independent.
        let mut chances = vec![1.0];
        let (mut read, mut best) = (0.0, (f64::INFINITY, misses + 1));
        for (list, i) in self.lists.lists.iter().zip(1..=most) {
            let share = f64::from(list.df()) / parts;
            chances.push(0.0);
            for j in (0..chances.len()).rev() {
                let before = if j == 0 { 0.0 } else { chances[j - 1] };
                chances[j] = chances[j] * (1.0 - share) + before * share;
            }
            read += match list.is_dense() {
                true => parts / BIN as f64 * BIN_COST,
                false => f64::from(list.df()) * ENTRY_COST,
            };
            if i > misses {
                let enough: f64 = chances[(i - misses) as usize..].iter().sum();
                let cost = read + enough * parts * CANDIDATE_COST;
                if cost < best.0 {
                    best = (cost, i);
                }
                if read > best.0 {
                    break;
                }
            }
        }
        if let Ok(extra) = std::env::var("EXTRA") {
            return (misses + 1 + extra.parse::<u32>().unwrap()).min(most);
        }
        best.1
    }
}

/// Appends the indexes of counters that are at least `enough`.
fn find(counters: &[u8], enough: u8, found: &mut Vec<u32>) {
    found.clear();
    for (chunk, start) in counters.chunks(64).zip((0..).step_by(64)) {
        if chunk.iter().fold(0, |most, &count| count.max(most)) >= enough {
            let hits = chunk.iter().zip(start..).filter(|&(&count, _)| count >= enough);
            found.extend(hits.map(|(_, i)| i));
        }
    }
}
