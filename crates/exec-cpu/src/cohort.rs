//! Cohorts (Agrawal 2016, sections 3.2 to 3.3.1): documents are divided into tiles, and all cores
//! work on one tile at a time, each on different queries of the batch, so that what they read of
//! the tile stays in their shared cache. A query keeps its best hits from tile to tile. If a
//! batch is too small to keep the cores busy, its queries are answered one after another, with
//! tiles spread over the cores.
//!
//! Inside a tile a query is answered by windowed MaxScore, whose sums are the accumulators and
//! whose bits of nonzero sums are the occupancy array, or by `conjunction`.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use warpseek_exec::{Answer, Answers, Context, Coverage, ExecError, Mode, Plan, Ticker, Work};

use crate::algorithm::Pruning;
use crate::collector::Collector;
use crate::count::Counter;
use crate::cursor::Cursor;
use crate::halt::Halt;
use crate::scratch::Scratch;
use crate::segment::{SegmentQuery, account};
use crate::segment_set::SegmentSet;
use crate::stream::Stream;
use crate::{conjunction, windowed_maxscore};

/// Maximum number of lists that are open at a time, unless one query has more: about 26 MB.
const LISTS: usize = 1 << 14;

/// Documents per tile if several queries share it.
const TILE: u32 = 1 << 17;
/// Minimum number of documents per tile of a single query: a window.
const LEAST: u32 = 1 << 14;

/// A range of documents of a segment.
struct Tile {
    segment: usize,
    docs: Range<u32>,
}

/// Answers a batch, in tiles of `size` documents if a size is given.
pub(crate) fn search(
    segments: &SegmentSet,
    plans: &[&Plan],
    size: Option<u32>,
    context: &Context,
) -> Answers {
    let mut answers = Vec::with_capacity(plans.len());
    let mut left = plans;
    while !left.is_empty() {
        let mut lists = 0;
        let fits = left.iter().take_while(|plan| {
            lists += plan.terms.len();
            lists <= LISTS
        });
        let (cohort, rest) = left.split_at(fits.count().max(1));
        answers.append(&mut by_modes(segments, cohort, size, context));
        left = rest;
    }
    answers
}

/// Answers with AND first; then with OR for OR plans, and for those AND-OR plans whose AND gave
/// too few hits.
fn by_modes(
    segments: &SegmentSet,
    plans: &[&Plan],
    size: Option<u32>,
    context: &Context,
) -> Answers {
    let threads = context.threads();
    let run = |plans: &[&Plan], all: bool| -> Answers {
        if plans.len() < threads {
            let tiles = tiles(segments, size.unwrap_or_else(|| part(segments, threads)));
            plans.iter().map(|plan| spread(segments, plan, all, &tiles, context)).collect()
        } else {
            let tiles = tiles(segments, size.unwrap_or(TILE));
            together(segments, plans, all, &tiles, context)
        }
    };
    let mut answers: Answers = plans.iter().map(|_| Ok(Answer::default())).collect();
    let and: Vec<usize> = (0..plans.len()).filter(|&i| !plans[i].matches_any()).collect();
    let chosen = |which: &[usize]| which.iter().map(|&i| plans[i]).collect::<Vec<_>>();
    for (&i, answer) in and.iter().zip(run(&chosen(&and), true)) {
        answers[i] = answer;
    }
    let too_few = |i: usize| answers[i].as_ref().is_ok_and(|a| a.hits.len() < plans[i].k);
    let either = |i: usize| plans[i].mode == Mode::AndOr && too_few(i);
    let or = (0..plans.len()).filter(|&i| plans[i].matches_any() || either(i));
    let or: Vec<usize> = or.collect();
    for (&i, mut answer) in or.iter().zip(run(&chosen(&or), false)) {
        if !plans[i].matches_any()
            && let (Ok(answer), Ok(before)) = (&mut answer, &answers[i])
        {
            answer.add_work(before.work);
        }
        answers[i] = answer;
    }
    answers
}

/// Returns the number of documents per tile such that each thread gets several tiles, since their
/// costs differ.
fn part(segments: &SegmentSet, threads: usize) -> u32 {
    let docs: u64 = (0..segments.count()).map(|s| segments.docs(s).len() as u64).sum();
    let part = docs / (8 * threads.max(1) as u64);
    u32::try_from(part).map_or(TILE, |part| part.clamp(LEAST, TILE))
}

fn tiles(segments: &SegmentSet, size: u32) -> Vec<Tile> {
    let mut tiles = Vec::new();
    for segment in 0..segments.count() {
        let docs = segments.docs(segment);
        let starts = docs.clone().step_by(size.max(1) as usize);
        tiles.extend(starts.map(|from| {
            let docs = from..docs.end.min(from.saturating_add(size.max(1)));
            Tile { segment, docs }
        }));
    }
    tiles
}

/// Answers queries with all threads on one tile at a time, each on different queries.
fn together(
    segments: &SegmentSet,
    plans: &[&Plan],
    all: bool,
    tiles: &[Tile],
    context: &Context,
) -> Answers {
    let readings: Vec<_> =
        plans.iter().map(|plan| Mutex::new(Ok(Reading::new(plan, all, context)))).collect();
    for tile in tiles {
        context.pool().map(
            &readings,
            || (segments.scratch(), context.ticker()),
            |(borrowed, ticker), reading| {
                let mut reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
                if let Ok(query) = &mut *reading
                    && let Err(error) =
                        borrowed.with(|scratch| query.tile(segments, tile, scratch, ticker))
                {
                    *reading = Err(error);
                }
            },
        );
    }
    let unlocked = readings.into_iter().map(Mutex::into_inner);
    unlocked.map(|r| r.unwrap_or_else(PoisonError::into_inner).map(Reading::finish)).collect()
}

/// Answers one query with all threads on different tiles.
///
/// Each thread keeps the best hits of its own tiles, which ascend, so a document that only ties
/// with the worst of them comes too late. From the other threads it learns the score of their
/// worst hit, as soon as they have k hits. Those hits may have larger document ids, so a document
/// with the same score can still be a hit; only documents with lower scores cannot.
fn spread(
    segments: &SegmentSet,
    plan: &Plan,
    all: bool,
    tiles: &[Tile],
    context: &Context,
) -> Result<Answer, ExecError> {
    let (next, worst) = (AtomicUsize::new(0), AtomicU32::new(0));
    let workers = vec![(); context.threads().clamp(1, tiles.len().max(1))];
    let parts = context.pool().map(
        &workers,
        || (segments.scratch(), context.ticker()),
        |(borrowed, ticker), ()| {
            let mut reading = Reading::new(plan, all, context);
            while !reading.stopped
                && let Some(tile) = tiles.get(next.fetch_add(1, Ordering::Relaxed))
            {
                borrowed
                    .with(|scratch| reading.shared_tile(segments, tile, &worst, scratch, ticker))?;
            }
            Ok::<_, ExecError>(reading)
        },
    );
    let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
    // Each thread knows its own tiles; together they are complete if no thread stopped.
    let coverage = match parts.iter().any(|reading| reading.stopped) {
        true => Coverage::of(parts.iter().flat_map(|part| part.covered.iter().cloned())),
        false => Coverage::Complete,
    };
    Ok(Answer::merged(parts.into_iter().map(Reading::finish), plan.k, coverage))
}

/// A query being answered, tile by tile.
struct Reading<'a> {
    plan: &'a Plan,
    /// True if documents must contain all terms.
    all: bool,
    open: Option<Open<'a>>,
    collector: Collector,
    counted: u64,
    work: Work,
    /// The documents that were searched, by position counted over all segments.
    covered: Vec<Range<u32>>,
    /// True if the search had to stop; it takes no more tiles then.
    stopped: bool,
}

/// The query's lists in the segment of the last tile.
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
    fn new(plan: &'a Plan, all: bool, context: &Context) -> Self {
        // A search that has to stop gives up the hits of a tile whose count is not finished.
        let publishes = !(plan.count && context.is_limited());
        let shared = context.floor(plan).cloned();
        let collector = Collector::new(plan.k).sharing(shared, publishes);
        Reading {
            plan,
            all,
            open: None,
            collector,
            counted: 0,
            work: Work::default(),
            covered: Vec::new(),
            stopped: false,
        }
    }

    /// Continues with a tile, which must follow the earlier ones, as far as time permits.
    fn tile(
        &mut self,
        segments: &'a SegmentSet,
        tile: &Tile,
        scratch: &mut Scratch,
        ticker: &mut Ticker<'_>,
    ) -> Result<(), ExecError> {
        if self.stopped {
            return Ok(());
        }
        let end = match self.search(segments, tile, scratch, ticker) {
            Ok(end) => end,
            Err(Halt::Stop) => tile.docs.start,
            Err(Halt::Failed(error)) => return Err(error),
        };
        self.stopped = end < tile.docs.end;
        let base = segments.segment(tile.segment).base();
        self.covered.push(base + tile.docs.start..base + end);
        Ok(())
    }

    /// Searches a tile. Returns the end of what was searched.
    fn search(
        &mut self,
        segments: &'a SegmentSet,
        tile: &Tile,
        scratch: &mut Scratch,
        ticker: &mut Ticker<'_>,
    ) -> Result<u32, Halt> {
        if self.all && !self.plan.all_in(tile.segment) {
            return Ok(tile.docs.end);
        }
        if self.open.as_ref().is_none_or(|open| open.query.number() != tile.segment) {
            self.close();
            let open = Open::new(segments, self.plan, self.all, tile.segment, ticker)?;
            open.query.enter(&mut self.collector);
            self.open = Some(open);
        }
        let Some(open) = &mut self.open else { return Ok(tile.docs.end) };
        let (query, docs) = (&open.query, tile.docs.clone());
        // The count is for the whole tile: if the search does not finish the tile, its hits are
        // dropped too.
        let mut count = 0;
        if let Some(counter) = &mut open.counter {
            let counted = counter.count(docs.clone(), ticker, &mut scratch.count);
            count = counted.map_err(|what| query.broken(what))?.ok_or(Halt::Stop)?;
        }
        let before =
            (open.counter.is_some() && ticker.is_limited()).then(|| self.collector.clone());
        let (collector, work) = (&mut self.collector, &mut self.work);
        let end = match &mut open.lists {
            Lists::Any(streams) => windowed_maxscore::or(
                query,
                streams,
                docs.clone(),
                windowed_maxscore::How::default(),
                ticker,
                &mut scratch.windowed,
                collector,
                work,
            ),
            Lists::All(cursors) => conjunction::and(
                query,
                cursors,
                docs.clone(),
                Pruning::Blocks,
                ticker,
                collector,
                work,
            ),
        }
        .map_err(|what| query.broken(what))?;
        if end < docs.end
            && let Some(before) = before
        {
            self.collector = before;
            return Err(Halt::Stop);
        }
        self.counted += count;
        Ok(end)
    }

    /// Searches a tile while other threads work on tiles before and after this one. `worst` is
    /// the best lower bound on the k-th hit's score that any thread knows.
    fn shared_tile(
        &mut self,
        segments: &'a SegmentSet,
        tile: &Tile,
        worst: &AtomicU32,
        scratch: &mut Scratch,
        ticker: &mut Ticker<'_>,
    ) -> Result<(), ExecError> {
        self.collector.raise(worst.load(Ordering::Relaxed).saturating_sub(1));
        self.tile(segments, tile, scratch, ticker)?;
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
        let coverage = if self.stopped { Coverage::of(self.covered) } else { Coverage::Complete };
        let (hits, work) = (self.collector.into_hits(), Some(self.work));
        Answer { hits, matches, coverage, work, gathered: None }
    }
}

impl<'a> Open<'a> {
    fn new(
        segments: &'a SegmentSet,
        plan: &'a Plan,
        all: bool,
        number: usize,
        ticker: &mut Ticker<'_>,
    ) -> Result<Self, Halt> {
        let query = segments.query(plan, number, ticker)?;
        let maxima = segments.maxima(number);
        let lists = if all {
            Lists::All(query.cursors(Pruning::Blocks, maxima, ticker)?)
        } else {
            Lists::Any(query.streams(maxima, ticker)?)
        };
        let docs = segments.docs(number);
        let counter = match plan.count && !all {
            true => Some(Counter::new(&query, docs, ticker.is_limited())?),
            false => None,
        };
        Ok(Open { query, lists, counter })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use warpseek_testkit::{Doc, Fixture, Search, plans};

    use super::*;

    #[test]
    fn a_tie_with_a_hit_of_a_later_tile_is_a_hit() {
        let docs: Vec<_> = (0..40).map(|i| Doc::text(i, "apple")).collect();
        let fixture = Fixture::of(&docs);
        let snapshot = fixture.snapshot();
        let segments = SegmentSet::new(snapshot.clone());
        let context = Context::new(1);
        let plans = plans(&snapshot, &[Search { k: 3, ..Search::of(&["appl"]) }]);
        let (tiles, worst) = (tiles(&segments, 20), AtomicU32::new(0));
        let mut scratch = Scratch::default();
        let mut parts = Vec::new();
        for tile in tiles.iter().rev() {
            let mut reading = Reading::new(&plans[0], false, &context);
            let ticker = &mut context.ticker();
            reading.shared_tile(&segments, tile, &worst, &mut scratch, ticker).unwrap();
            parts.push(reading.finish());
        }
        assert!(worst.into_inner() > 0, "the threads shared no score");
        let docs: Vec<u32> =
            Answer::merged(parts, 3, Coverage::Complete).hits.iter().map(|hit| hit.doc).collect();
        assert_eq!(docs, [0, 1, 2]);
    }
}
