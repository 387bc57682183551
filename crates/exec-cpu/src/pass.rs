//! One pass of a query over the segments: an algorithm runs on one segment after another, with one
//! collector, so that the threshold carries over.

use std::ops::Range;
use std::sync::Arc;

use warpseek_exec::{Answer, Coverage, ExecError, Floor, Plan, Ticker, Work};

use crate::algorithm::{Algorithm, Pruning};
use crate::collector::Collector;
use crate::count::Counter;
use crate::cursor::Cursor;
use crate::halt::Halt;
use crate::phrase_conjunction::PhraseConjunction;
use crate::scratch::Scratch;
use crate::segment::{SegmentQuery, account};
use crate::segment_set::SegmentSet;
use crate::stream::Stream;
use crate::{
    block_conjunction, block_max_maxscore, block_max_wand, conjunction, daat, decoded, filtered,
    maxscore, taat, tree, wand, windowed_maxscore,
};

/// Documents that are counted and searched alternately if matches are counted and the search may
/// have to stop.
const COUNTED_CHUNK: u32 = 1 << 15;

/// Runs AND (`all`) or OR over all segments, or over as many as time permits. `shared` is what
/// searches of other documents know about the k-th best score.
pub(crate) fn run(
    segments: &SegmentSet,
    algorithm: Algorithm,
    all: bool,
    scratch: &mut Scratch,
    plan: &Plan,
    ticker: &mut Ticker<'_>,
    shared: Option<&Arc<Floor>>,
) -> Result<Answer, ExecError> {
    // A search that has to stop may give up some of its hits again (`without_floor`,
    // `or_and_count`). Others must not rely on those.
    let publishes = !ticker.is_limited() || !(plan.count || segments.is_whole());
    let mut pass = Pass {
        segments,
        algorithm,
        plan,
        collector: Collector::new(plan.k).sharing(shared.cloned(), publishes),
        counted: 0,
        work: Work::default(),
        before_floor: None,
    };
    let mut coverage = Coverage::Complete;
    for number in 0..segments.count() {
        if all && !plan.all_in(number) {
            continue;
        }
        let docs = segments.docs(number);
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
                Some(number) => segments.up_to(number, segments.docs(number).start),
                None => segments.up_to(number, end),
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

/// A query on its way through the segments.
struct Pass<'a> {
    segments: &'a SegmentSet,
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
        let (segments, docs) = (self.segments, self.segments.docs(number));
        let maxima = segments.maxima(number);
        let query = segments.query(self.plan, number, ticker)?;
        query.enter(&mut self.collector);
        let (collector, work) = (&mut self.collector, &mut self.work);
        let filtered = self.algorithm == Algorithm::Filtered;
        let by_blocks = matches!(
            self.algorithm,
            Algorithm::WindowedMaxScore | Algorithm::Cohort | Algorithm::Decoded
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
        let (plan, docs) = (self.plan, self.segments.docs(number));
        let query = self.segments.query(plan, number, ticker)?;
        query.enter(&mut self.collector);
        let maxima = self.segments.maxima(number);
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
        let (segments, docs) = (self.segments, self.segments.docs(number));
        let query = segments.query(self.plan, number, ticker)?;
        query.enter(&mut self.collector);
        if self.algorithm == Algorithm::Decoded {
            let (values, count) = (&segments.caches(number).values, self.plan.count);
            let (scratch, collector, work) =
                (&mut scratch.decoded, &mut self.collector, &mut self.work);
            let (end, counted) =
                decoded::or(&query, values, docs, count, ticker, scratch, collector, work)?;
            self.counted += counted;
            return Ok(end);
        }
        let mut lists = match self.algorithm {
            Algorithm::Taat => Lists::None,
            Algorithm::WindowedMaxScore | Algorithm::Cohort | Algorithm::Filtered => {
                let mut streams = query.streams(segments.maxima(number), ticker)?;
                self.set_floor(&query, &mut streams, number, ticker)?;
                Lists::Streams(streams)
            }
            algorithm => {
                let maxima = segments.maxima(number);
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
        let all = self.segments.is_whole() && query.mask.is_none();
        let postings = streams.iter().map(|stream| u64::from(stream.df())).sum();
        if !all || self.plan.k == 0 || !ticker.has_time_for(postings) {
            return Ok(());
        }
        if ticker.is_limited() && (self.before_floor.is_none() || self.collector.is_exact()) {
            self.before_floor = Some((number, self.collector.clone(), self.counted));
        }
        let tops = &self.segments.caches(number).tops;
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
            | Algorithm::Decoded => daat::or,
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
