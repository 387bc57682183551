//! The engine of the CPU: it chooses an algorithm for each plan, runs it on all segments, and
//! spreads the queries of a batch over threads. Memory that searches need is lent from a pool of
//! scratches.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use warpseek_core::Score;
use warpseek_exec::{
    ASKED_FOR, Answer, Answers, Candidate, Context, Coverage, Engine, ExecError, Formulas, Load,
    Mode, Plan, Takes, Ticker, Work, answer_supported, batch_time, cheapest_of,
};
use warpseek_index::{Segment, SegmentEntry, Snapshot, SnapshotId};

use crate::algorithm::{Algorithm, Pruning, Size};
use crate::collector::Collector;
use crate::count::Counter;
use crate::cursor::Cursor;
use crate::factors::FactorCache;
use crate::halt::Halt;
use crate::kept::ValuesCache;
use crate::maxima::MaximaCache;
use crate::phrase_conjunction::PhraseConjunction;
use crate::segment::{SegmentQuery, account};
use crate::stream::Stream;
use crate::tops::TopsCache;
use crate::{
    block_conjunction, block_max_maxscore, block_max_wand, cohort, conjunction, count, daat,
    filtered, gather, kept, maxscore, taat, tree, wand, windowed_maxscore,
};

/// Documents that are counted and searched alternately if matches are counted and the search may
/// have to stop.
const COUNTED_CHUNK: u32 = 1 << 15;

/// An engine that runs an algorithm on all segments of an index and spreads queries over the
/// threads of the context.
pub struct CpuEngine {
    snapshot: Arc<Snapshot>,
    algorithm: Option<Algorithm>,
    tile: Option<u32>,
    /// The positions that the engine answers for, if not all.
    within: Option<Range<u32>>,
    size: Size,
    max_static: f32,
    /// Caches by segment.
    caches: Vec<Caches>,
    /// Scratches that are not in use; there are at most as many as threads so far.
    #[expect(
        clippy::vec_box,
        reason = "each query borrows one, which moves a pointer instead of the whole scratch"
    )]
    scratches: Mutex<Vec<Box<Scratch>>>,
}

/// Values of a segment that are kept from query to query.
#[derive(Default)]
struct Caches {
    maxima: MaximaCache,
    factors: FactorCache,
    tops: TopsCache,
    values: ValuesCache,
}

/// Memory that a thread reuses from query to query.
#[derive(Default)]
pub(crate) struct Scratch {
    sums: Vec<Score>,
    pub(crate) windowed: windowed_maxscore::Scratch,
    kept: kept::Scratch,
    pub(crate) count: count::Scratch,
    and: block_conjunction::Scratch,
    group: filtered::Group,
    pub(crate) tree: tree::Scratch,
}

/// A borrowed scratch, which is returned when it is dropped.
pub(crate) struct Lent<'a> {
    #[expect(clippy::vec_box, reason = "as in the engine")]
    kept: &'a Mutex<Vec<Box<Scratch>>>,
    /// The scratch, or `None` before the first piece of work and after a failure.
    scratch: Option<Box<Scratch>>,
}

impl Lent<'_> {
    /// Runs a piece of work with the scratch. If the work fails, the scratch is dropped, since
    /// sums may be left in it, and the next piece of work creates a new one.
    pub(crate) fn with<T, E>(
        &mut self,
        work: impl FnOnce(&mut Scratch) -> Result<T, E>,
    ) -> Result<T, E> {
        let done = work(self.scratch.get_or_insert_default());
        if done.is_err() {
            self.scratch = None;
        }
        done
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // A panic may have left sums behind.
        if !std::thread::panicking()
            && let Some(scratch) = self.scratch.take()
        {
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        }
    }
}

impl CpuEngine {
    /// Creates an engine for an index. Without an algorithm, the cheapest one answers each query.
    pub fn new(snapshot: Arc<Snapshot>, algorithm: Option<Algorithm>) -> Self {
        let caches = snapshot.segments().iter().map(|_| Caches::default()).collect();
        let sum =
            |count: fn(&SegmentEntry) -> u64| snapshot.manifest().segments.iter().map(count).sum();
        let size = Size { documents: sum(|s| s.documents), postings: sum(|s| s.postings) };
        let (max_static, tile, within) = (snapshot.statistics().max_static, None, None);
        CpuEngine {
            snapshot,
            algorithm,
            tile,
            within,
            size,
            max_static,
            caches,
            scratches: Mutex::default(),
        }
    }

    /// Sets the number of documents per tile, for [`Algorithm::Cohort`].
    pub fn with_tile(self, docs: u32) -> Self {
        CpuEngine { tile: Some(docs), ..self }
    }

    /// Restricts the engine to a range of documents, by position counted over all segments: hits
    /// and matches are those of these documents. Other engines answer for the rest.
    pub fn within(self, docs: Range<u32>) -> Self {
        CpuEngine { within: Some(docs), ..self }
    }

    /// Chooses the algorithm for a plan that has this many threads to itself.
    fn choose(&self, plan: &Plan, threads: usize) -> Algorithm {
        if let Some(algorithm) = self.algorithm {
            return algorithm;
        }
        let load = Load::of(plan);
        let candidates = Algorithm::candidates(plan, &load, self.size, threads);
        let chosen = cheapest_of(&candidates, |(_, candidate)| candidate, &load);
        chosen.map_or(Algorithm::WindowedMaxScore, |&(algorithm, _)| algorithm)
    }

    /// Returns the documents of a segment that the engine answers for.
    pub(crate) fn docs(&self, number: usize) -> Range<u32> {
        let segment = &self.segments()[number];
        self.within.as_ref().map_or(0..segment.documents().count(), |docs| segment.part(docs))
    }

    /// Returns the coverage of a search that stopped at this document of a segment.
    pub(crate) fn up_to(&self, number: usize, end: u32) -> Coverage {
        let start = self.within.as_ref().map_or(0, |docs| docs.start);
        Coverage::of(std::iter::once(start..self.segments()[number].base() + end))
    }

    pub(crate) fn segments(&self) -> &[Arc<Segment>] {
        self.snapshot.segments()
    }

    pub(crate) fn maxima(&self, number: usize) -> &MaximaCache {
        &self.caches[number].maxima
    }

    /// Borrows a scratch for a thread, reused or new.
    pub(crate) fn scratch(&self) -> Lent<'_> {
        let mut kept = self.scratches.lock().unwrap_or_else(PoisonError::into_inner);
        Lent { kept: &self.scratches, scratch: kept.pop() }
    }

    fn answer(
        &self,
        scratch: &mut Scratch,
        plan: &Plan,
        ticker: &mut Ticker<'_>,
    ) -> Result<Answer, ExecError> {
        if let Some(gather) = &plan.gather {
            return gather::answer(self, plan, gather, scratch, ticker);
        }
        let mut before = Some(Work::default());
        let algorithm = self.choose(plan, 1);
        // OR starts with a threshold, so it needs no first pass.
        if !plan.matches_any() {
            let answer = self.pass(algorithm, true, scratch, plan, ticker)?;
            // Pruning may leave matches uncounted, but only after k hits are found.
            if plan.mode == Mode::And || answer.hits.len() >= plan.k {
                return Ok(answer);
            }
            before = answer.work;
        }
        // If the first pass had to stop, this one stops at once: it covers no document that the
        // first did not.
        let mut answer = self.pass(algorithm, false, scratch, plan, ticker)?;
        answer.add_work(before);
        Ok(answer)
    }

    pub(crate) fn query<'a>(
        &'a self,
        plan: &'a Plan,
        number: usize,
        ticker: &mut Ticker<'_>,
    ) -> Result<SegmentQuery<'a>, Halt> {
        let segment = &self.snapshot.segments()[number];
        let factors = &self.caches[number].factors;
        SegmentQuery::new(plan, number, segment, factors, self.max_static, ticker)
    }

    /// Runs AND (`all`) or OR over all segments, or over as many as time permits.
    fn pass(
        &self,
        algorithm: Algorithm,
        all: bool,
        scratch: &mut Scratch,
        plan: &Plan,
        ticker: &mut Ticker<'_>,
    ) -> Result<Answer, ExecError> {
        let mut pass = Pass {
            engine: self,
            algorithm,
            plan,
            collector: Collector::new(plan.k),
            counted: 0,
            work: Work::default(),
            before_floor: None,
        };
        let mut coverage = Coverage::Complete;
        for number in 0..self.segments().len() {
            if all && !plan.all_in(number) {
                continue;
            }
            let docs = self.docs(number);
            if docs.is_empty() {
                continue;
            }
            let end = match if all {
                pass.and(number, scratch, ticker)
            } else {
                pass.or(number, scratch, ticker)
            } {
                Ok(end) => end,
                Err(Halt::Stop) => docs.start,
                Err(Halt::Failed(error)) => return Err(error),
            };
            if end < docs.end {
                coverage = match pass.without_floor() {
                    Some(number) => self.up_to(number, self.docs(number).start),
                    None => self.up_to(number, end),
                };
                break;
            }
        }
        let lift = tree::lift(plan);
        let exhaustive = algorithm.pruning() == Pruning::None;
        let all = all || algorithm == Algorithm::Tree;
        let matches = if all || exhaustive { pass.collector.matches() } else { pass.counted };
        let matches = (plan.count || exhaustive).then_some(matches);
        let mut hits = pass.collector.into_hits();
        hits.iter_mut().for_each(|hit| hit.score -= lift);
        Ok(Answer { matches, coverage, work: Some(pass.work), hits, gathered: None })
    }
}

/// A query on its way through the segments.
struct Pass<'a> {
    engine: &'a CpuEngine,
    algorithm: Algorithm,
    plan: &'a Plan,
    collector: Collector,
    counted: u64,
    work: Work,
    /// The last segment at whose beginning the results so far were exact, with the collector
    /// and the count of that time; recorded in searches that may have to stop.
    before_floor: Option<(usize, Collector, u64)>,
}

impl Pass<'_> {
    /// Runs AND on a segment. Returns the end of what was searched.
    fn and(
        &mut self,
        number: usize,
        scratch: &mut Scratch,
        ticker: &mut Ticker<'_>,
    ) -> Result<u32, Halt> {
        if self.algorithm == Algorithm::Tree {
            return self.tree(true, number, scratch, ticker);
        }
        let (engine, docs) = (self.engine, self.engine.docs(number));
        let maxima = engine.maxima(number);
        let query = engine.query(self.plan, number, ticker)?;
        query.enter(&mut self.collector);
        let (collector, work) = (&mut self.collector, &mut self.work);
        let filtered = self.algorithm == Algorithm::Filtered;
        let by_blocks = matches!(
            self.algorithm,
            Algorithm::WindowedMaxScore | Algorithm::Cohort | Algorithm::Kept
        );
        if filtered || by_blocks {
            let mut streams = query.streams(maxima, ticker)?;
            let (streams, and) = (&mut streams, &mut scratch.and);
            let end = if filtered || filtered::leads(&query, streams) {
                let scratch = (&mut scratch.group, and);
                filtered::and(&query, streams, docs, ticker, scratch, collector, work)
            } else {
                block_conjunction::and(&query, streams, docs, ticker, and, collector, work)
            };
            let end = end.map_err(|what| query.broken(what))?;
            account(streams.iter().map(|s| (s.decoded, s.blocks())), work);
            return Ok(end);
        }
        let pruning = self.algorithm.pruning();
        let mut cursors = query.cursors(pruning, maxima, ticker)?;
        let end = conjunction::and(&query, &mut cursors, docs, pruning, ticker, collector, work)
            .map_err(|what| query.broken(what))?;
        account(cursors.iter().map(|c| (c.decoded, c.blocks())), work);
        Ok(end)
    }

    /// Evaluates the tree of the plan, or its terms as a tree with AND (`all`) or OR.
    fn tree(
        &mut self,
        all: bool,
        number: usize,
        scratch: &mut Scratch,
        ticker: &mut Ticker<'_>,
    ) -> Result<u32, Halt> {
        let (plan, docs) = (self.plan, self.engine.docs(number));
        let query = self.engine.query(plan, number, ticker)?;
        query.enter(&mut self.collector);
        let maxima = self.engine.maxima(number);
        let (collector, work) = (&mut self.collector, &mut self.work);
        let phrases = plan.needed_tree().and_then(|tree| PhraseConjunction::of(plan, tree));
        if let Some(phrases) = phrases {
            return phrases.search(&query, maxima, docs, ticker, collector, work);
        }
        let flat = tree::flat(plan, all);
        let (root, tree) = tree::root(plan, &flat);
        let mut tree = tree::Tree::open(&query, root, tree, true, maxima, ticker)?;
        let scratch = &mut scratch.tree;
        let end = tree::search(&query, &mut tree, docs, ticker, scratch, collector, work)?;
        account(tree.blocks(), work);
        Ok(end)
    }

    /// Runs OR on a segment. Returns the end of what was searched.
    fn or(
        &mut self,
        number: usize,
        scratch: &mut Scratch,
        ticker: &mut Ticker<'_>,
    ) -> Result<u32, Halt> {
        if self.algorithm == Algorithm::Tree {
            return self.tree(false, number, scratch, ticker);
        }
        let (engine, docs) = (self.engine, self.engine.docs(number));
        let query = engine.query(self.plan, number, ticker)?;
        query.enter(&mut self.collector);
        if self.algorithm == Algorithm::Kept {
            let (values, count) = (&engine.caches[number].values, self.plan.count);
            let (scratch, collector, work) =
                (&mut scratch.kept, &mut self.collector, &mut self.work);
            let (end, counted) =
                kept::or(&query, values, docs, count, ticker, scratch, collector, work)?;
            self.counted += counted;
            return Ok(end);
        }
        let mut lists = match self.algorithm {
            Algorithm::Taat => Lists::None,
            Algorithm::WindowedMaxScore | Algorithm::Cohort | Algorithm::Filtered => {
                let mut streams = query.streams(engine.maxima(number), ticker)?;
                self.set_floor(&query, &mut streams, number, ticker)?;
                Lists::Streams(streams)
            }
            algorithm => {
                let maxima = engine.maxima(number);
                Lists::Cursors(query.cursors(algorithm.pruning(), maxima, ticker)?)
            }
        };
        let exhaustive = self.algorithm.pruning() == Pruning::None;
        let on_the_way = match &lists {
            Lists::Streams(streams) if self.plan.count && !streams.is_empty() => {
                self.algorithm == Algorithm::Filtered || windowed_maxscore::counts(streams)
            }
            _ => false,
        };
        let end = if self.plan.count && !exhaustive && !on_the_way {
            self.or_and_count(&query, &mut lists, docs, scratch, ticker)?
        } else {
            scratch.windowed.counted = 0;
            let end = self.or_over(&query, &mut lists, docs, on_the_way, scratch, ticker)?;
            self.counted += scratch.windowed.counted;
            end
        };
        match &lists {
            Lists::None => {}
            Lists::Streams(lists) => {
                account(lists.iter().map(|s| (s.decoded, s.blocks())), &mut self.work);
            }
            Lists::Cursors(lists) => {
                account(lists.iter().map(|c| (c.decoded, c.blocks())), &mut self.work);
            }
        }
        Ok(end)
    }

    /// Gives the collector a first threshold: a score that k documents reach by one list alone.
    /// That needs all documents: an answer for a part of them has to be complete for that part,
    /// whatever the others reach. A search with little time therefore gets no threshold, and
    /// [`Pass::without_floor`] undoes it for a search that has to stop after all.
    fn set_floor<'q>(
        &mut self,
        query: &SegmentQuery<'q>,
        streams: &mut [Stream<'q>],
        number: usize,
        ticker: &Ticker<'_>,
    ) -> Result<(), ExecError> {
        let all = self.engine.within.is_none() && query.mask.is_none();
        let postings = streams.iter().map(|stream| u64::from(stream.df())).sum();
        if !all || self.plan.k == 0 || !ticker.has_time_for(postings) {
            return Ok(());
        }
        if ticker.is_limited() && (self.before_floor.is_none() || self.collector.is_exact()) {
            self.before_floor = Some((number, self.collector.clone(), self.counted));
        }
        let tops = &self.engine.caches[number].tops;
        for ((info, ..), stream) in query.terms().zip(streams) {
            let value = tops.get(query, info.ordinal, self.plan.k, stream);
            if let Some(value) = value.map_err(|what| query.broken(what))? {
                // Documents that score exactly this value may be hits.
                self.collector.set_floor(stream.contribution_of(value).saturating_sub(1));
            }
        }
        Ok(())
    }

    /// Undoes a first threshold after a search had to stop: if the threshold may have excluded
    /// hits of what was searched, restores the results from before it was set, and returns the
    /// number of the segment of that time.
    fn without_floor(&mut self) -> Option<usize> {
        let (number, collector, counted) = self.before_floor.take()?;
        if self.collector.is_exact() {
            return None;
        }
        (self.collector, self.counted) = (collector, counted);
        Some(number)
    }

    /// Counts matches separately from hits. If the search may have to stop, it proceeds in
    /// chunks, so that both cover the same documents at all times.
    fn or_and_count<'q>(
        &mut self,
        query: &SegmentQuery<'q>,
        lists: &mut Lists<'q>,
        docs: Range<u32>,
        scratch: &mut Scratch,
        ticker: &mut Ticker<'_>,
    ) -> Result<u32, Halt> {
        let limited = ticker.is_limited();
        let chunk = if limited { COUNTED_CHUNK } else { u32::MAX };
        let mut counter = Counter::new(query, docs.clone(), limited)?;
        let mut from = docs.start;
        while from < docs.end {
            let to = docs.end.min(from.saturating_add(chunk));
            let count = counter.count(from..to, ticker, &mut scratch.count);
            let Some(count) = count.map_err(|what| query.broken(what))? else { break };
            let before = limited.then(|| self.collector.clone());
            let end = self.or_over(query, lists, from..to, false, scratch, ticker)?;
            if end < to {
                // The count is for the whole chunk, so its hits are dropped as well.
                if let Some(before) = before {
                    self.collector = before;
                }
                break;
            }
            self.counted += count;
            from = to;
        }
        self.work.blocks_decoded += counter.decoded();
        Ok(from)
    }

    /// Runs OR over a range of documents that follows the earlier ranges; returns the end of what
    /// was searched.
    fn or_over<'q>(
        &mut self,
        query: &SegmentQuery<'q>,
        lists: &mut Lists<'q>,
        docs: Range<u32>,
        count: bool,
        scratch: &mut Scratch,
        ticker: &mut Ticker<'_>,
    ) -> Result<u32, Halt> {
        let (collector, work) = (&mut self.collector, &mut self.work);
        let cursors = match lists {
            Lists::None => {
                return Ok(taat::or(query, docs, ticker, &mut scratch.sums, collector, work)?);
            }
            Lists::Streams(streams) => {
                let (scratch, mask_drives) =
                    (&mut scratch.windowed, self.algorithm == Algorithm::Filtered);
                let how = windowed_maxscore::How { count, mask_drives };
                return windowed_maxscore::or(
                    query, streams, docs, how, ticker, scratch, collector, work,
                )
                .map_err(|what| query.broken(what).into());
            }
            Lists::Cursors(cursors) => cursors,
        };
        let or = match self.algorithm {
            Algorithm::Wand => wand::or,
            Algorithm::MaxScore => maxscore::or,
            Algorithm::BlockMaxWand => block_max_wand::or,
            Algorithm::BlockMaxMaxScore => block_max_maxscore::or,
            Algorithm::Daat
            | Algorithm::Taat
            | Algorithm::WindowedMaxScore
            | Algorithm::Cohort
            | Algorithm::Filtered
            | Algorithm::Tree
            | Algorithm::Kept => daat::or,
        };
        or(query, cursors, docs, ticker, collector, work).map_err(|what| query.broken(what).into())
    }
}

/// The lists of a query in one segment, in the form that the algorithm reads.
enum Lists<'a> {
    /// No lists, since the algorithm opens them itself.
    None,
    Streams(Vec<Stream<'a>>),
    Cursors(Vec<Cursor<'a>>),
}

impl Engine for CpuEngine {
    fn name(&self) -> &'static str {
        self.algorithm.map_or("auto", Algorithm::name)
    }

    fn snapshot(&self) -> SnapshotId {
        self.snapshot.id()
    }

    fn candidates(&self, plan: &Plan, alone: bool, context: &Context) -> Vec<Candidate> {
        if let Some(algorithm) = self.algorithm {
            let (rates, why) = (Ok(algorithm.rates()), ASKED_FOR);
            return vec![Candidate { algorithm: algorithm.name(), rates, why }];
        }
        let threads = if alone { context.threads() } else { 1 };
        let all = Algorithm::candidates(plan, &Load::of(plan), self.size, threads);
        all.map(|(_, candidate)| candidate).to_vec()
    }

    fn cost(&self, plans: &[&Plan], context: &Context) -> Duration {
        let threads = if plans.len() == 1 { context.threads() } else { 1 };
        batch_time(plans.iter().copied(), context.threads(), |plan, load| match self.algorithm {
            Some(algorithm) => Some(algorithm.rates()),
            None => {
                let all = Algorithm::candidates(plan, load, self.size, threads);
                cheapest_of(&all, |(_, candidate)| candidate, load)?.1.rates.ok()
            }
        })
    }

    fn takes(&self) -> Takes {
        let trees = matches!(self.algorithm, None | Some(Algorithm::Tree));
        Takes { trees, gathers: trees, ..Takes::ALL }
    }

    fn supports(&self, _plan: &Plan) -> Result<(), &'static str> {
        Ok(())
    }

    fn prepare(&self, formulas: &Formulas, context: &Context) -> Result<(), ExecError> {
        let mut ticker = context.ticker();
        for (segment, Caches { factors, .. }) in self.segments().iter().zip(&self.caches) {
            for (field, formula) in (0..).zip(formulas.iter()) {
                match factors.get(segment, field, formula, &mut ticker) {
                    Ok(_) | Err(Halt::Stop) => {}
                    Err(Halt::Failed(error)) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        answer_supported(self, plans, |plans| {
            let cohort = match plans {
                // With one thread there is nothing to spread.
                [plan] if context.threads() > 1 => {
                    self.choose(plan, context.threads()) == Algorithm::Cohort
                }
                _ => self.algorithm == Some(Algorithm::Cohort),
            };
            if cohort {
                return cohort::search(self, plans, self.tile, context);
            }
            context.pool().map(
                plans,
                || self.scratch(),
                |lent, plan| lent.with(|scratch| self.answer(scratch, plan, &mut context.ticker())),
            )
        })
    }
}
