//! Exhaustive search, term at a time, in lists that stay decoded: for small collections, in which
//! most documents of an OR are candidates and there is little to skip.
//!
//! A posting's value, before the weight of its term, does not depend on the query. Each list is
//! therefore decoded once, with the values of its postings, and kept for later queries, which
//! multiply by the weight and add. That takes eight bytes for each posting of the words that were
//! searched for, which is why only small indexes are searched in this way unless the caller
//! requests it.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use warpseek_core::Score;
use warpseek_core::limits::BLOCK;
use warpseek_exec::{Formula, PlanTerm, Ticker, Work};
use warpseek_index::{List, ListError, TermInfo};

use crate::candidates::Candidates;
use crate::collector::Collector;
use crate::formula_cache::FormulaCache;
use crate::halt::Halt;
use crate::scorer::Scorer;
use crate::segment::{OPENING_COST, SegmentQuery};
use crate::simd::units;
use crate::windowed_maxscore::add;

/// Documents per window: their sums stay in a second-level cache.
const WINDOW: usize = 1 << 16;

/// Postings that are multiplied before they are added.
const RUN: usize = 512;

/// A decoded list, with the value of each posting.
#[derive(Default)]
pub(crate) struct Values {
    docs: Vec<u32>,
    values: Vec<f32>,
}

/// The lists kept for one segment, by ordinal of the term.
#[derive(Default)]
pub(crate) struct ValuesCache {
    kept: FormulaCache<u32, Arc<Values>>,
    /// Lists that a query with too little time began to decode; the next query continues.
    begun: Mutex<FxHashMap<u32, (Formula, Values)>>,
}

impl ValuesCache {
    fn get(
        &self,
        query: &SegmentQuery<'_>,
        (info, term, scorer): (&TermInfo, &PlanTerm, &Scorer),
        ticker: &mut Ticker<'_>,
        work: &mut Work,
    ) -> Result<Arc<Values>, Halt> {
        let (formulas, ordinal) = (&query.plan.formulas, info.ordinal);
        if let Some(values) = self.kept.get(formulas, &ordinal) {
            return Ok(values);
        }
        let list = query.segment.list(info)?;
        let formula = formulas.of(term.field);
        // No thread waits for another here: two threads may decode the same list, which is rare
        // and does no harm.
        let mut values = self.take(ordinal, formula);
        let read = values.read(&list, scorer, ticker, work);
        if !read.map_err(|what| query.segment.bad_list(info, what))? {
            self.put_back(ordinal, formula, values);
            return Err(Halt::Stop);
        }
        let values = Arc::new(values);
        self.kept.put(formulas, ordinal, values.clone());
        self.begun().remove(&ordinal);
        Ok(values)
    }

    /// Takes the part of a list that was decoded so far with this formula, which may be empty.
    fn take(&self, ordinal: u32, formula: Formula) -> Values {
        let begun = self.begun().remove(&ordinal);
        begun
            .filter(|(begun_for, _)| *begun_for == formula)
            .map_or_else(Values::default, |(_, values)| values)
    }

    fn put_back(&self, ordinal: u32, formula: Formula, values: Values) {
        let mut begun = self.begun();
        match begun.get(&ordinal) {
            // Another thread may have decoded it at the same time; the longer part stays.
            Some((known, other)) if *known == formula && other.docs.len() >= values.docs.len() => {}
            _ => {
                begun.insert(ordinal, (formula, values));
            }
        }
    }

    fn begun(&self) -> std::sync::MutexGuard<'_, FxHashMap<u32, (Formula, Values)>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Values {
    /// Decodes the rest of a list; returns false if the ticker asked to stop.
    fn read(
        &mut self,
        list: &List<'_>,
        scorer: &Scorer,
        ticker: &mut Ticker<'_>,
        work: &mut Work,
    ) -> Result<bool, ListError> {
        let (mut docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
        let left = list.df() as usize - self.docs.len();
        self.docs.reserve_exact(left);
        self.values.reserve_exact(left);
        for block in self.docs.len() / BLOCK..list.blocks() {
            if ticker.must_stop(BLOCK) {
                return Ok(false);
            }
            let n = list.decode_docs(block, &mut docs)?;
            work.blocks_decoded += 1;
            list.decode_freqs(block, &mut freqs)?;
            self.docs.extend_from_slice(&docs[..n]);
            let postings = docs[..n].iter().zip(&freqs);
            self.values.extend(postings.map(|(&doc, &freq)| scorer.value(freq, doc)));
        }
        Ok(true)
    }

    /// Returns the index of the first posting at or after a document.
    fn find(&self, doc: u32) -> usize {
        match self.docs.last() {
            Some(&last) if last >= doc => self.docs.partition_point(|&d| d < doc),
            _ => self.docs.len(),
        }
    }
}

/// The sums of a window, reused from query to query.
#[derive(Default)]
pub(crate) struct Scratch {
    sums: Vec<Score>,
    /// Bits of the sums that are not 0; bits of other sums may be set, too.
    touched: Vec<u64>,
    candidates: Candidates,
}

/// A list of a query, and how far it was read.
struct Reader {
    list: Arc<Values>,
    weight: f32,
    at: usize,
}

/// Searches a range of documents. Returns the end of what was searched, which is the end of the
/// range unless the ticker asked to stop, and the number of matches there if they are counted.
#[expect(clippy::too_many_arguments, reason = "the state of a search, as its siblings take it")]
pub(crate) fn or(
    query: &SegmentQuery<'_>,
    cache: &ValuesCache,
    docs: Range<u32>,
    count: bool,
    ticker: &mut Ticker<'_>,
    scratch: &mut Scratch,
    collector: &mut Collector,
    work: &mut Work,
) -> Result<(u32, u64), Halt> {
    let mut readers = Vec::with_capacity(query.plan.terms.len());
    for scored @ (_, term, _) in query.terms() {
        if ticker.must_stop(OPENING_COST) {
            return Err(Halt::Stop);
        }
        let list = cache.get(query, scored, ticker, work)?;
        let at = if docs.start == 0 { 0 } else { list.find(docs.start) };
        readers.push(Reader { list, weight: term.weight, at });
    }
    scratch.sums.resize(WINDOW, 0);
    scratch.touched.resize(WINDOW / 64, 0);
    let (mut from, mut counted) = (docs.start, 0);
    while from < docs.end {
        if ticker.must_stop(readers.len()) {
            return Ok((from, counted));
        }
        let to = docs.end.min(from.saturating_add(WINDOW as u32));
        if !add_up(&mut readers, from..to, ticker, scratch, work) {
            scratch.sums.fill(0);
            scratch.touched.fill(0);
            return Ok((from, counted));
        }
        let words = (to - from).div_ceil(64) as usize;
        query.clear_refused(from, &mut scratch.sums, &mut scratch.touched[..words]);
        if count {
            let sums = &scratch.sums[..(to - from) as usize];
            counted += sums.iter().map(|&sum| u64::from(sum > 0)).sum::<u64>();
        }
        offer(query, from..to, scratch, collector);
        from = to;
    }
    Ok((docs.end, counted))
}

/// Adds the contributions of all lists to the sums of a window; returns false if the ticker asked
/// to stop.
fn add_up(
    readers: &mut [Reader],
    window: Range<u32>,
    ticker: &mut Ticker<'_>,
    Scratch { sums, touched, .. }: &mut Scratch,
    work: &mut Work,
) -> bool {
    let mut scores = [0; RUN];
    for Reader { list, weight, at } in readers {
        let end = list.find(window.end);
        let (docs, values) = (&list.docs[*at..end], &list.values[*at..end]);
        for (docs, values) in docs.chunks(RUN).zip(values.chunks(RUN)) {
            if ticker.must_stop(docs.len()) {
                return false;
            }
            let scores = &mut scores[..docs.len()];
            units(*weight, values, scores);
            add(docs, scores, window.start, sums, touched);
            work.postings_scored += docs.len() as u64;
        }
        *at = end;
    }
    true
}

/// Offers the documents of a window whose sums are high enough, and clears the sums. In the first
/// window the threshold is low at first, so the chunks start small, and the threshold is read
/// again before each of them.
fn offer(
    query: &SegmentQuery<'_>,
    window: Range<u32>,
    scratch: &mut Scratch,
    collector: &mut Collector,
) {
    let Scratch { sums, touched, candidates } = scratch;
    let (mut from, mut words) = (0, 1);
    let end = (window.end - window.start).div_ceil(64) as usize;
    while from < end {
        let to = end.min(from + words);
        let least = u64::from(collector.threshold()).saturating_sub(u64::from(query.static_most));
        let least = least.min(u64::from(Score::MAX)) as Score;
        let base = window.start + 64 * from as u32;
        candidates.sweep(&mut sums[64 * from..64 * to], &mut touched[from..to], base, least);
        candidates.offer(query, collector);
        (from, words) = (to, 2 * words);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use warpseek_exec::{
        Cancel, Context, Engine, Mask, Mode, Plan, Planner, Query, Ranking, RankingFunction,
    };
    use warpseek_index::DocSet;
    use warpseek_testkit::{Doc, Fixture};

    use super::WINDOW;
    use crate::{Algorithm, CpuEngine};

    fn query(words: &[&str]) -> Query {
        Query::of(words.iter().map(|&word| (word.to_owned(), 1.0)))
    }

    /// Tests lists that go on from window to window, begin in a later one, or end before the
    /// last, and ranges that begin and end in the middle of a window, with documents that are
    /// refused.
    #[test]
    fn windows_follow_each_other() {
        let last = WINDOW + WINDOW / 2;
        let text = |i: usize| match i {
            _ if i.is_multiple_of(3) => "pear ".repeat(1 + i % 7),
            _ if i > WINDOW && i % 50 == 1 => "fig pear pear".to_owned(),
            _ if i < 1000 || i + 1 == last => "plum".to_owned(),
            _ => "none".to_owned(),
        };
        let documents: Vec<Doc> = (0..last).map(|i| Doc::text(i, text(i))).collect();
        let snapshot = Fixture::of(&documents).snapshot();
        let planner = Planner::suited(snapshot.clone()).unwrap();
        let mut set = DocSet::new(last as u32);
        (0..last as u32).filter(|doc| doc % 7 < 3).for_each(|doc| assert!(set.insert(doc)));
        let masks = [None, Some(Arc::new(Mask::new(&snapshot, vec![set])))];
        let words = ["pear", "fig", "plum", "none"];
        let middle = WINDOW as u32;
        for docs in [0..last as u32, 5..middle + 3, middle - 1..last as u32 - 1, middle..middle + 1]
        {
            for (chosen, mask) in
                [&words[..3], &words, &words[1..3]].iter().zip(masks.iter().cycle())
            {
                let mut plan = planner.plan(&query(chosen), Mode::Or, 20).unwrap();
                (plan.count, plan.mask) = (true, mask.clone());
                let answer = |algorithm| {
                    let engine =
                        CpuEngine::new(snapshot.clone(), Some(algorithm)).within(docs.clone());
                    let answer = engine.search(&[&plan], &Context::new(1)).remove(0).unwrap();
                    (answer.hits, answer.matches)
                };
                assert_eq!(
                    answer(Algorithm::Decoded),
                    answer(Algorithm::Taat),
                    "{chosen:?} in {docs:?}"
                );
            }
        }
    }

    /// Searches with too little time decode a list together, each block once; searches with
    /// another ranking start over.
    #[test]
    fn a_list_that_was_begun_is_continued() {
        let text = |i: usize| "pear ".repeat(1 + i % 5);
        let documents: Vec<Doc> = (0..5000).map(|i| Doc::text(i, text(i))).collect();
        let snapshot = Fixture::of(&documents).snapshot();
        let function = RankingFunction::Okapi { k1: 1.2, b: 0.4 };
        let other = Planner::new(snapshot.clone(), Ranking { function, static_weight: 0.0 });
        let planners = [Planner::suited(snapshot.clone()).unwrap(), other.unwrap()];
        let plans = planners.map(|p| p.plan(&query(&["pear"]), Mode::Or, 10).unwrap());
        let engine = CpuEngine::new(snapshot.clone(), Some(Algorithm::Decoded));
        let search = |plan: &Plan| {
            let context = Context::new(1).cancelled_by(Cancel::after(20));
            engine.search(&[plan], &context).remove(0).unwrap()
        };
        assert!(!search(&plans[0]).coverage.is_complete());
        for plan in &plans {
            let mut blocks = 0;
            let answer = loop {
                let answer = search(plan);
                blocks += answer.work.as_ref().unwrap().blocks_decoded;
                if answer.coverage.is_complete() {
                    break answer;
                }
            };
            // For the first ranking, some blocks were decoded before.
            assert!(if plan == &plans[0] { (1..40).contains(&blocks) } else { blocks == 40 });
            let taat = CpuEngine::new(snapshot.clone(), Some(Algorithm::Taat));
            let expected = taat.search(&[plan], &Context::new(1)).remove(0).unwrap();
            assert_eq!(answer.hits, expected.hits);
        }
    }
}
