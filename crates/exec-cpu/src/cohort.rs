//! Cohorts (Agrawal et al. §3.2-3.3.1): documents are cut in tiles, and all cores work on one tile at a time, each on other queries of the
//! batch, so that what they read of it stays in the cache they share. A query keeps its best hits from tile to tile.
//! A batch too small to keep the cores busy goes query by query, its tiles spread over the cores.
//!
//! Inside a tile a query is answered by `ranges`, whose sums are the accumulators and whose bits of sums that are not 0 are the occupancy
//! array, or by `conjunction`.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use warpseek_exec::{Answer, ExecError, Mode, Plan, Work, in_parallel};

use crate::algorithm::Pruning;
use crate::collector::Collector;
use crate::count::Counter;
use crate::cursor::Cursor;
use crate::engine::{CpuEngine, Scratch};
use crate::segment::{SegmentQuery, account};
use crate::stream::Stream;
use crate::{conjunction, ranges};

/// Lists that are open at a time, unless one query has more: some 26 MB.
const LISTS: usize = 1 << 14;

/// Documents in a tile on which several queries work.
const TILE: u32 = 1 << 17;
/// And the fewest in a tile of one query: several windows.
const LEAST: u32 = 1 << 14;

/// A range of documents of a segment.
struct Tile {
    segment: usize,
    docs: Range<u32>,
}

/// Answers a batch, in tiles of `size` documents if that is given.
pub(crate) fn search(
    engine: &CpuEngine,
    plans: &[Plan],
    size: Option<u32>,
    threads: usize,
) -> Result<Vec<Answer>, ExecError> {
    let mut answers = Vec::with_capacity(plans.len());
    let mut left = plans;
    while !left.is_empty() {
        let mut lists = 0;
        let fits = left.iter().take_while(|plan| {
            lists += plan.terms.len();
            lists <= LISTS
        });
        let (cohort, rest) = left.split_at(fits.count().max(1));
        let all: Vec<&Plan> = cohort.iter().collect();
        answers.append(&mut by_modes(engine, &all, size, threads)?);
        left = rest;
    }
    Ok(answers)
}

/// AND first; then OR for the plans that ask for it, and for those whose AND gave too few.
fn by_modes(
    engine: &CpuEngine,
    plans: &[&Plan],
    size: Option<u32>,
    threads: usize,
) -> Result<Vec<Answer>, ExecError> {
    let run = |plans: &[&Plan], all: bool| {
        if plans.len() < threads {
            let tiles = tiles(engine, size.unwrap_or_else(|| part(engine, threads)));
            plans.iter().map(|plan| spread(engine, plan, all, &tiles, threads)).collect()
        } else {
            let tiles = tiles(engine, size.unwrap_or(TILE));
            together(engine, plans, all, &tiles, threads)
        }
    };
    let mut answers = vec![Answer::default(); plans.len()];
    let and: Vec<usize> = (0..plans.len()).filter(|&i| plans[i].mode != Mode::Or).collect();
    let of = |places: &[usize]| places.iter().map(|&i| plans[i]).collect::<Vec<_>>();
    for (&i, answer) in and.iter().zip(run(&of(&and), true)?) {
        answers[i] = answer;
    }
    let too_few = |i: usize| answers[i].hits.len() < plans[i].k;
    let or = (0..plans.len()).filter(|&i| match plans[i].mode {
        Mode::Or => true,
        Mode::And => false,
        Mode::AndOr => too_few(i),
    });
    let or: Vec<usize> = or.collect();
    for (&i, answer) in or.iter().zip(run(&of(&or), false)?) {
        let work = answers[i].work;
        answers[i] = answer;
        answers[i].work += work;
    }
    Ok(answers)
}

/// Documents in a tile such that each thread gets several: they differ in what they take.
fn part(engine: &CpuEngine, threads: usize) -> u32 {
    let docs: u64 = (0..engine.segments().len()).map(|s| engine.docs(s).len() as u64).sum();
    let part = docs / (8 * threads.max(1) as u64);
    u32::try_from(part).map_or(TILE, |part| part.clamp(LEAST, TILE))
}

fn tiles(engine: &CpuEngine, size: u32) -> Vec<Tile> {
    let mut tiles = Vec::new();
    for segment in 0..engine.segments().len() {
        let docs = engine.docs(segment);
        let starts = docs.clone().step_by(size.max(1) as usize);
        tiles.extend(starts.map(|from| {
            let docs = from..docs.end.min(from.saturating_add(size.max(1)));
            Tile { segment, docs }
        }));
    }
    tiles
}

/// All threads on one tile, each on other queries.
fn together(
    engine: &CpuEngine,
    plans: &[&Plan],
    all: bool,
    tiles: &[Tile],
    threads: usize,
) -> Result<Vec<Answer>, ExecError> {
    let readings: Vec<_> = plans.iter().map(|plan| Mutex::new(Reading::new(plan, all))).collect();
    for tile in tiles {
        in_parallel(
            &readings,
            threads,
            || engine.scratch(),
            |lent, reading| {
                let mut reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
                lent.with(|scratch| reading.tile(engine, tile, scratch))
            },
        )?;
    }
    let unlocked = readings.into_iter().map(Mutex::into_inner);
    Ok(unlocked.map(|r| r.unwrap_or_else(PoisonError::into_inner).finish()).collect())
}

/// One query, all threads on different tiles.
///
/// Each thread keeps the best hits of its own tiles, which ascend, so what only ties with the worst of them is too late. From the others it
/// learns the score of their worst, as soon as they have k hits: those may lie behind, so a tie with that is still a hit, and only what is below it is not.
fn spread(
    engine: &CpuEngine,
    plan: &Plan,
    all: bool,
    tiles: &[Tile],
    threads: usize,
) -> Result<Answer, ExecError> {
    let (next, worst) = (AtomicUsize::new(0), AtomicU32::new(0));
    let workers = vec![(); threads.clamp(1, tiles.len().max(1))];
    let parts = in_parallel(
        &workers,
        threads,
        || engine.scratch(),
        |lent, ()| {
            let mut reading = Reading::new(plan, all);
            while let Some(tile) = tiles.get(next.fetch_add(1, Ordering::Relaxed)) {
                lent.with(|scratch| reading.shared_tile(engine, tile, &worst, scratch))?;
            }
            Ok::<_, ExecError>(reading.finish())
        },
    )?;
    Ok(merge(parts, plan.k))
}

fn merge(parts: Vec<Answer>, k: usize) -> Answer {
    let mut parts = parts.into_iter();
    let mut whole = parts.next().unwrap_or_default();
    for part in parts {
        whole.hits.extend(part.hits);
        whole.matches = whole.matches.zip(part.matches).map(|(a, b)| a + b);
        whole.work += part.work;
    }
    whole.hits.sort_unstable();
    whole.hits.truncate(k);
    whole
}

/// A query being answered, tile by tile.
struct Reading<'a> {
    plan: &'a Plan,
    /// Whether documents must have all terms.
    all: bool,
    open: Option<Open<'a>>,
    collector: Collector,
    counted: u64,
    work: Work,
}

/// Its lists in the segment of the last tile.
struct Open<'a> {
    query: SegmentQuery<'a>,
    lists: Lists<'a>,
    counter: Option<Counter<'a>>,
}

enum Lists<'a> {
    Any(Vec<Stream<'a>>),
    All(Vec<Cursor<'a>>),
}

impl<'a> Reading<'a> {
    fn new(plan: &'a Plan, all: bool) -> Self {
        let collector = Collector::new(plan.k);
        Reading { plan, all, open: None, collector, counted: 0, work: Work::default() }
    }

    /// Goes on with a tile, which must lie behind those before.
    fn tile(
        &mut self,
        engine: &'a CpuEngine,
        tile: &Tile,
        scratch: &mut Scratch,
    ) -> Result<(), ExecError> {
        if self.all && !self.plan.all_in(tile.segment) {
            return Ok(());
        }
        if self.open.as_ref().is_none_or(|open| open.query.number() != tile.segment) {
            self.close();
            let open = Open::new(engine, self.plan, self.all, tile.segment)?;
            open.query.enter(&mut self.collector);
            self.open = Some(open);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let (collector, work) = (&mut self.collector, &mut self.work);
        let (query, docs) = (&open.query, tile.docs.clone());
        match &mut open.lists {
            Lists::Any(streams) => ranges::or(
                query,
                streams,
                docs.clone(),
                false,
                &mut scratch.ranges,
                collector,
                work,
            ),
            Lists::All(cursors) => {
                conjunction::and(query, cursors, docs.clone(), Pruning::Blocks, collector, work)
            }
        }
        .map_err(|what| query.broken(what))?;
        if let Some(counter) = &mut open.counter {
            let count = counter.count(docs, &mut scratch.count);
            self.counted += count.map_err(|what| query.broken(what))?;
        }
        Ok(())
    }

    /// The same, where others work on tiles before and behind; `worst` is the best of what they know of the k-th hit's score.
    fn shared_tile(
        &mut self,
        engine: &'a CpuEngine,
        tile: &Tile,
        worst: &AtomicU32,
        scratch: &mut Scratch,
    ) -> Result<(), ExecError> {
        self.collector.raise(worst.load(Ordering::Relaxed).saturating_sub(1));
        self.tile(engine, tile, scratch)?;
        worst.fetch_max(self.collector.worst(), Ordering::Relaxed);
        Ok(())
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        match open.lists {
            Lists::Any(lists) => {
                account(lists.iter().map(|l| (l.decoded, l.blocks())), &mut self.work);
            }
            Lists::All(lists) => {
                account(lists.iter().map(|l| (l.decoded, l.blocks())), &mut self.work);
            }
        }
        self.work.blocks_decoded += open.counter.map_or(0, |counter| counter.decoded());
    }

    fn finish(mut self) -> Answer {
        self.close();
        let matches = if self.all { self.collector.matches() } else { self.counted };
        let matches = self.plan.count.then_some(matches);
        Answer { hits: self.collector.into_hits(), matches, work: self.work }
    }
}

impl<'a> Open<'a> {
    fn new(
        engine: &'a CpuEngine,
        plan: &'a Plan,
        all: bool,
        number: usize,
    ) -> Result<Self, ExecError> {
        let query = engine.query(plan, number)?;
        let maxima = engine.maxima(number);
        let lists = if all {
            Lists::All(query.cursors(Pruning::Blocks, maxima)?)
        } else {
            Lists::Any(query.streams(maxima)?)
        };
        let docs = engine.docs(number);
        let counter = (plan.count && !all).then(|| Counter::new(&query, docs)).transpose()?;
        Ok(Open { query, lists, counter })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use warpseek_testkit::{Doc, Fixture, Search, plans};

    use super::*;

    #[test]
    fn a_tie_with_a_hit_of_a_tile_behind_is_a_hit() {
        let docs: Vec<_> = (0..40).map(|i| Doc::text(i, "apple")).collect();
        let fixture = Fixture::of(&docs);
        let engine = CpuEngine::new(fixture.snapshot(), None, 1);
        let plans = plans(&fixture.snapshot(), &[Search { k: 3, ..Search::of(&["appl"]) }]);
        let (tiles, worst) = (tiles(&engine, 20), AtomicU32::new(0));
        let mut scratch = Scratch::default();
        let mut parts = Vec::new();
        for tile in tiles.iter().rev() {
            let mut reading = Reading::new(&plans[0], false);
            reading.shared_tile(&engine, tile, &worst, &mut scratch).unwrap();
            parts.push(reading.finish());
        }
        assert!(worst.into_inner() > 0, "the tiles told each other nothing");
        let docs: Vec<u32> = merge(parts, 3).hits.iter().map(|hit| hit.doc).collect();
        assert_eq!(docs, [0, 1, 2]);
    }
}
