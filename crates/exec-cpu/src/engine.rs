use std::sync::Arc;

use warpseek_core::Score;
use warpseek_exec::{Answer, Engine, ExecError, Mode, Plan, Work, in_parallel};
use warpseek_index::Snapshot;

use crate::algorithm::{Algorithm, Pruning};
use crate::collector::Collector;
use crate::factors::FactorCache;
use crate::maxima::MaximaCache;
use crate::segment::{SegmentQuery, account};
use crate::{
    block_conjunction, block_max_maxscore, block_max_wand, conjunction, daat, maxscore, ranges,
    taat, wand,
};

/// An algorithm on all segments of an index; queries are spread over the threads.
pub struct CpuEngine {
    snapshot: Arc<Snapshot>,
    algorithm: Option<Algorithm>,
    threads: usize,
    max_static: f32,
    maxima: Vec<MaximaCache>,
    factors: Vec<FactorCache>,
}

/// What a thread keeps from query to query.
#[derive(Default)]
struct Scratch {
    sums: Vec<Score>,
    ranges: ranges::Scratch,
    and: block_conjunction::Scratch,
}

impl CpuEngine {
    /// For an index; without an algorithm each query gets the one that suits it ([`Algorithm::choose`]).
    pub fn new(snapshot: Arc<Snapshot>, algorithm: Option<Algorithm>, threads: usize) -> Self {
        let maxima = snapshot.segments().iter().map(|_| MaximaCache::default()).collect();
        let factors = snapshot.segments().iter().map(|_| FactorCache::default()).collect();
        let max_static = snapshot.statistics().max_static;
        CpuEngine { snapshot, algorithm, threads, max_static, maxima, factors }
    }

    fn answer(&self, scratch: &mut Scratch, plan: &Plan) -> Result<Answer, ExecError> {
        let mut work = Work::default();
        let algorithm = self.algorithm.unwrap_or_else(|| Algorithm::choose(plan).0);
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

    fn query<'a>(&'a self, plan: &'a Plan, number: usize) -> Result<SegmentQuery<'a>, ExecError> {
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
        if !plan.lacks_terms() {
            for number in 0..self.snapshot.segments().len() {
                if plan.terms.iter().any(|t| t.lists[number].is_none()) {
                    continue;
                }
                let query = self.query(plan, number)?;
                query.enter(&mut collector);
                if algorithm == Algorithm::Ranges {
                    let mut streams = query.streams(&self.maxima[number])?;
                    let scratch = &mut scratch.and;
                    block_conjunction::and(
                        &query,
                        &mut streams,
                        scratch,
                        &mut collector,
                        &mut work,
                    )
                    .map_err(|what| query.broken(what))?;
                    account(streams.iter().map(|s| (s.decoded, s.blocks())), &mut work);
                    continue;
                }
                let mut cursors = query.cursors(pruning, &self.maxima[number])?;
                conjunction::and(&query, &mut cursors, pruning, &mut collector, &mut work)
                    .map_err(|what| query.broken(what))?;
                account(cursors.iter().map(|c| (c.decoded, c.blocks())), &mut work);
            }
        }
        Ok(finish(algorithm, collector, work))
    }

    fn or(
        &self,
        algorithm: Algorithm,
        scratch: &mut Scratch,
        plan: &Plan,
        mut work: Work,
    ) -> Result<Answer, ExecError> {
        let mut collector = Collector::new(plan.k);
        for number in 0..self.snapshot.segments().len() {
            let query = self.query(plan, number)?;
            query.enter(&mut collector);
            if algorithm == Algorithm::Taat {
                taat::or(&query, &mut scratch.sums, &mut collector, &mut work)?;
                continue;
            }
            if algorithm == Algorithm::Ranges {
                let mut streams = query.streams(&self.maxima[number])?;
                let scratch = &mut scratch.ranges;
                ranges::or(&query, &mut streams, scratch, &mut collector, &mut work)
                    .map_err(|what| query.broken(what))?;
                account(streams.iter().map(|s| (s.decoded, s.blocks())), &mut work);
                continue;
            }
            let mut cursors = query.cursors(algorithm.pruning(), &self.maxima[number])?;
            let or = match algorithm {
                Algorithm::Daat | Algorithm::Taat | Algorithm::Ranges => daat::or,
                Algorithm::Wand => wand::or,
                Algorithm::MaxScore => maxscore::or,
                Algorithm::BlockMaxWand => block_max_wand::or,
                Algorithm::BlockMaxMaxScore => block_max_maxscore::or,
            };
            or(&query, &mut cursors, &mut collector, &mut work)
                .map_err(|what| query.broken(what))?;
            account(cursors.iter().map(|c| (c.decoded, c.blocks())), &mut work);
        }
        Ok(finish(algorithm, collector, work))
    }
}

fn finish(algorithm: Algorithm, collector: Collector, work: Work) -> Answer {
    let counted = algorithm.pruning() == Pruning::None;
    let matches = counted.then(|| collector.matches());
    Answer { matches, work, hits: collector.into_hits() }
}

impl Engine for CpuEngine {
    fn name(&self) -> &'static str {
        self.algorithm.map_or("auto", Algorithm::name)
    }

    fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    fn search(&self, plans: &[Plan]) -> Result<Vec<Answer>, ExecError> {
        in_parallel(plans, self.threads, Scratch::default, |scratch, plan| {
            self.answer(scratch, plan)
        })
    }
}
