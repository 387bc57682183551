use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use warpseek_core::Score;
use warpseek_exec::{Answer, Choice, Engine, ExecError, Mode, Plan, Work, in_parallel};
use warpseek_index::{Segment, Snapshot, Statistics};

use crate::algorithm::{Algorithm, Pruning};
use crate::collector::Collector;
use crate::count::Counter;
use crate::factors::FactorCache;
use crate::maxima::MaximaCache;
use crate::segment::{SegmentQuery, account};
use crate::{
    block_conjunction, block_max_maxscore, block_max_wand, cohort, conjunction, count, daat,
    maxscore, ranges, taat, wand,
};

/// An algorithm on all segments of an index; queries are spread over the threads.
pub struct CpuEngine {
    snapshot: Arc<Snapshot>,
    algorithm: Option<Algorithm>,
    threads: usize,
    tile: Option<u32>,
    /// Places that it answers for, if not for all.
    within: Option<Range<u32>>,
    documents: u64,
    max_static: f32,
    maxima: Vec<MaximaCache>,
    factors: Vec<FactorCache>,
    /// One for each thread there was.
    scratches: Mutex<Vec<Scratch>>,
}

/// What a thread keeps from query to query.
#[derive(Default)]
pub(crate) struct Scratch {
    sums: Vec<Score>,
    pub(crate) ranges: ranges::Scratch,
    pub(crate) count: count::Scratch,
    and: block_conjunction::Scratch,
}

/// A scratch that goes back to where it is kept.
pub(crate) struct Lent<'a> {
    kept: &'a Mutex<Vec<Scratch>>,
    scratch: Scratch,
}

impl Lent<'_> {
    /// Does a piece of work with it; where that fails it is made anew, for sums may have been left behind.
    pub(crate) fn with<T, E>(
        &mut self,
        work: impl FnOnce(&mut Scratch) -> Result<T, E>,
    ) -> Result<T, E> {
        let done = work(&mut self.scratch);
        if done.is_err() {
            self.scratch = Scratch::default();
        }
        done
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // A panic may have left sums behind.
        if !std::thread::panicking() {
            let scratch = std::mem::take(&mut self.scratch);
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        }
    }
}

impl CpuEngine {
    /// For an index; without an algorithm each query gets the one that suits it ([`Algorithm::choose`]).
    pub fn new(snapshot: Arc<Snapshot>, algorithm: Option<Algorithm>, threads: usize) -> Self {
        let maxima = snapshot.segments().iter().map(|_| MaximaCache::default()).collect();
        let factors = snapshot.segments().iter().map(|_| FactorCache::default()).collect();
        let Statistics { max_static, documents, .. } = snapshot.statistics();
        let (tile, within) = (None, None);
        CpuEngine {
            snapshot,
            algorithm,
            threads,
            tile,
            within,
            documents,
            max_static,
            maxima,
            factors,
            scratches: Mutex::default(),
        }
    }

    /// With tiles of so many documents, for [`Algorithm::Cohort`].
    pub fn with_tile(self, docs: u32) -> Self {
        CpuEngine { tile: Some(docs), ..self }
    }

    /// For a range of documents alone, by place, counted through all segments: its hits are the best of these, its matches theirs. Others answer for the rest. What
    /// goes by windows of documents can do that: `ranges`, in whose place other algorithms are not taken, and `cohort`.
    pub fn within(self, docs: Range<u32>) -> Self {
        CpuEngine { within: Some(docs), ..self }
    }

    /// The algorithm that answers a plan with so many threads for itself, and why.
    fn choose(&self, plan: &Plan, threads: usize) -> (Algorithm, &'static str) {
        let (algorithm, why) = match self.algorithm {
            Some(algorithm) => (algorithm, "asked for"),
            None => Algorithm::choose(plan, self.documents, threads),
        };
        match algorithm {
            Algorithm::Ranges | Algorithm::Cohort => (algorithm, why),
            _ if self.within.is_some() => {
                (Algorithm::Ranges, "it can take a part of the documents")
            }
            _ => (algorithm, why),
        }
    }

    /// The same without the reason.
    fn algorithm(&self, plan: &Plan, threads: usize) -> Algorithm {
        self.choose(plan, threads).0
    }

    /// The documents of a segment that it answers for.
    pub(crate) fn docs(&self, number: usize) -> Range<u32> {
        let segment = &self.segments()[number];
        self.within.as_ref().map_or(0..segment.documents().count(), |docs| segment.part(docs))
    }

    pub(crate) fn segments(&self) -> &[Arc<Segment>] {
        self.snapshot.segments()
    }

    pub(crate) fn maxima(&self, number: usize) -> &MaximaCache {
        &self.maxima[number]
    }

    /// What a thread needs, used before or new.
    pub(crate) fn scratch(&self) -> Lent<'_> {
        let mut kept = self.scratches.lock().unwrap_or_else(PoisonError::into_inner);
        Lent { kept: &self.scratches, scratch: kept.pop().unwrap_or_default() }
    }

    fn answer(&self, scratch: &mut Scratch, plan: &Plan) -> Result<Answer, ExecError> {
        let mut work = Work::default();
        let algorithm = self.algorithm(plan, 1);
        if plan.mode != Mode::Or {
            let answer = self.and(algorithm, scratch, plan, work)?;
            // Pruning may leave matches uncounted, but only once k hits are there.
            if plan.mode == Mode::And || answer.hits.len() >= plan.k {
                return Ok(answer);
            }
            work = answer.work;
        }
        self.or(algorithm, scratch, plan, work)
    }

    pub(crate) fn query<'a>(
        &'a self,
        plan: &'a Plan,
        number: usize,
    ) -> Result<SegmentQuery<'a>, ExecError> {
        let segment = &self.snapshot.segments()[number];
        SegmentQuery::new(plan, number, segment, &self.factors[number], self.max_static)
    }

    fn and(
        &self,
        algorithm: Algorithm,
        scratch: &mut Scratch,
        plan: &Plan,
        mut work: Work,
    ) -> Result<Answer, ExecError> {
        let mut collector = Collector::new(plan.k);
        let pruning = algorithm.pruning();
        for number in (0..self.segments().len()).filter(|&number| plan.all_in(number)) {
            let query = self.query(plan, number)?;
            query.enter(&mut collector);
            if matches!(algorithm, Algorithm::Ranges | Algorithm::Cohort) {
                let mut streams = query.streams(&self.maxima[number])?;
                let scratch = &mut scratch.and;
                let (streams, docs) = (&mut streams, self.docs(number));
                block_conjunction::and(&query, streams, docs, scratch, &mut collector, &mut work)
                    .map_err(|what| query.broken(what))?;
                account(streams.iter().map(|s| (s.decoded, s.blocks())), &mut work);
                continue;
            }
            let docs = self.docs(number);
            let mut cursors = query.cursors(pruning, &self.maxima[number])?;
            conjunction::and(&query, &mut cursors, docs, pruning, &mut collector, &mut work)
                .map_err(|what| query.broken(what))?;
            account(cursors.iter().map(|c| (c.decoded, c.blocks())), &mut work);
        }
        let counted = plan.count || pruning == Pruning::None;
        let matches = counted.then(|| collector.matches());
        Ok(Answer { matches, work, hits: collector.into_hits() })
    }

    fn or(
        &self,
        algorithm: Algorithm,
        scratch: &mut Scratch,
        plan: &Plan,
        mut work: Work,
    ) -> Result<Answer, ExecError> {
        let mut collector = Collector::new(plan.k);
        let exhaustive = algorithm.pruning() == Pruning::None;
        let mut counted = 0;
        for number in 0..self.segments().len() {
            let query = self.query(plan, number)?;
            query.enter(&mut collector);
            let docs = self.docs(number);
            let mut streams = match algorithm {
                Algorithm::Ranges | Algorithm::Cohort => query.streams(&self.maxima[number])?,
                _ => Vec::new(),
            };
            let on_the_way = plan.count && !streams.is_empty() && ranges::counts(&streams);
            if plan.count && !exhaustive && !on_the_way {
                let mut counter = Counter::new(&query, docs.clone())?;
                let count = counter.count(docs.clone(), &mut scratch.count);
                counted += count.map_err(|what| query.broken(what))?;
                work.blocks_decoded += counter.decoded();
            }
            if algorithm == Algorithm::Taat {
                taat::or(&query, &mut scratch.sums, &mut collector, &mut work)?;
                continue;
            }
            if matches!(algorithm, Algorithm::Ranges | Algorithm::Cohort) {
                let scratch = &mut scratch.ranges;
                scratch.counted = 0;
                let (streams, collector) = (&mut streams, &mut collector);
                ranges::or(&query, streams, docs, on_the_way, scratch, collector, &mut work)
                    .map_err(|what| query.broken(what))?;
                account(streams.iter().map(|s| (s.decoded, s.blocks())), &mut work);
                counted += scratch.counted;
                continue;
            }
            let mut cursors = query.cursors(algorithm.pruning(), &self.maxima[number])?;
            let or = match algorithm {
                Algorithm::Daat => daat::or,
                Algorithm::Wand => wand::or,
                Algorithm::MaxScore => maxscore::or,
                Algorithm::BlockMaxWand => block_max_wand::or,
                Algorithm::BlockMaxMaxScore => block_max_maxscore::or,
                Algorithm::Taat | Algorithm::Ranges | Algorithm::Cohort => continue,
            };
            or(&query, &mut cursors, &mut collector, &mut work)
                .map_err(|what| query.broken(what))?;
            account(cursors.iter().map(|c| (c.decoded, c.blocks())), &mut work);
        }
        let matches = if exhaustive { collector.matches() } else { counted };
        let matches = (plan.count || exhaustive).then_some(matches);
        Ok(Answer { matches, work, hits: collector.into_hits() })
    }
}

impl Engine for CpuEngine {
    fn name(&self) -> &'static str {
        self.algorithm.map_or("auto", Algorithm::name)
    }

    fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    fn explain(&self, plans: &[Plan]) -> Vec<Choice> {
        let threads = if plans.len() == 1 { self.threads } else { 1 };
        let choice = |plan| {
            let (algorithm, why) = self.choose(plan, threads);
            Choice::on_processor(algorithm.name(), why)
        };
        plans.iter().map(choice).collect()
    }

    fn search(&self, plans: &[Plan]) -> Result<Vec<Answer>, ExecError> {
        let cohort = match plans {
            [plan] => self.algorithm(plan, self.threads) == Algorithm::Cohort,
            _ => self.algorithm == Some(Algorithm::Cohort),
        };
        if cohort {
            return cohort::search(self, plans, self.tile, self.threads);
        }
        in_parallel(
            plans,
            self.threads,
            || self.scratch(),
            |lent, plan| lent.with(|scratch| self.answer(scratch, plan)),
        )
    }
}
