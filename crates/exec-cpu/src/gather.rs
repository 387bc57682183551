//! All matches of a query in another order than by score, and counts of them: [`Gather`].
//!
//! Windows of the query tree return every match once. Within a segment, documents are compared by
//! codes, which are numbers that compare as the values of their columns do (`sorter`); between
//! segments they are compared by the values themselves. Scores are computed for all matches only
//! if the order depends on them; otherwise they are computed for the hits alone, at the end.
//! Counts are kept by ordinal or number (`facets`).

mod facets;
mod sorter;

use warpseek_core::Hit;
use warpseek_exec::gather::{Gather, Gathered, SortValue, compare};
use warpseek_exec::{Answer, Coverage, ExecError, Mode, Plan, Ticker, Work};

use crate::halt::Halt;
use crate::scratch::Scratch;
use crate::segment::account;
use crate::segment_set::SegmentSet;
use crate::tree::{self, Tree, WINDOW, WORDS, for_each};
use facets::Facets;
use sorter::Sorter;

/// A hit so far, with its sort values.
struct Listed {
    values: Vec<SortValue>,
    hit: Hit,
    segment: usize,
    position: u32,
}

/// Answers a plan with a [`Gather`].
pub(crate) fn answer(
    segments: &SegmentSet,
    plan: &Plan,
    gather: &Gather,
    scratch: &mut Scratch,
    ticker: &mut Ticker<'_>,
) -> Result<Answer, ExecError> {
    let mut gathering = Gathering {
        segments,
        plan,
        gather,
        listed: Vec::new(),
        facets: Facets::new(&gather.facets),
        matches: 0,
        work: Work::default(),
    };
    let mut coverage = Coverage::Complete;
    for number in 0..segments.count() {
        let docs = segments.docs(number);
        if docs.is_empty() || plan.mode == Mode::And && !plan.all_in(number) {
            continue;
        }
        let end = match gathering.segment(number, scratch, ticker) {
            Ok(end) => end,
            Err(Halt::Stop) => docs.start,
            Err(Halt::Failed(error)) => return Err(error),
        };
        if end < docs.end {
            coverage = segments.up_to(number, end);
            break;
        }
    }
    if !is_scored_at_once(plan, gather) {
        gathering.score(scratch)?;
    }
    let Gathering { listed, facets, matches, work, .. } = gathering;
    let hits = listed.iter().map(|listed| listed.hit).collect();
    let values = listed.into_iter().map(|listed| listed.values).collect();
    let gathered = Some(Box::new(Gathered { values, facets: facets.finish()? }));
    Ok(Answer { hits, matches: Some(matches), coverage, work: Some(work), gathered })
}

/// Returns true if all matches are scored during the search. If the order does not need scores,
/// those of the hits are computed at the end, except with phrases, which may take any time and
/// are not searched for twice.
fn is_scored_at_once(plan: &Plan, gather: &Gather) -> bool {
    gather.by_score() || plan.needed_tree().is_some_and(|tree| !tree.phrases.is_empty())
}

struct Gathering<'a> {
    segments: &'a SegmentSet,
    plan: &'a Plan,
    gather: &'a Gather,
    /// The first k matches so far, in order.
    listed: Vec<Listed>,
    facets: Facets<'a>,
    matches: u64,
    work: Work,
}

impl<'a> Gathering<'a> {
    /// Processes the matches of a segment; returns the end of what was searched.
    fn segment(
        &mut self,
        number: usize,
        scratch: &mut Scratch,
        ticker: &mut Ticker<'_>,
    ) -> Result<u32, Halt> {
        let (segments, plan, docs) = (self.segments, self.plan, self.segments.docs(number));
        let query = segments.query(plan, number, ticker)?;
        let flat = tree::flat(plan, plan.mode == Mode::And);
        let (root, plan_tree) = tree::root(plan, &flat);
        let scored = is_scored_at_once(plan, self.gather) && plan.k > 0;
        let mut tree =
            Tree::open(&query, root, plan_tree, scored, segments.maxima(number), ticker)?;
        let segment = segments.segment(number);
        let mut facets = self.facets.enter(segment)?;
        let mut sorter = match plan.k {
            0 => None,
            k => {
                let worst = self.listed.last().filter(|_| self.listed.len() >= k);
                let worst = worst.map(|worst| (&worst.values[..], worst.hit.doc));
                Some(Sorter::new(plan, self.gather, segment, worst)?)
            }
        };
        let (mut from, mut live, mut postings) = (docs.start, Box::new([0; WORDS]), WORDS);
        while from < docs.end && !ticker.must_stop(postings) {
            let to = docs.end.min(from.saturating_add(WINDOW));
            postings = WORDS;
            if query.admitted(from..to, &mut live[..]) {
                let (scratch, work) = (&mut scratch.tree, &mut self.work);
                let found =
                    match tree::matches(&query, &mut tree, from, &live, scratch, work, ticker) {
                        Ok(found) => found,
                        // Everything before the window is done.
                        Err(Halt::Stop) => break,
                        Err(failed) => return Err(failed),
                    };
                let matches =
                    found.bits.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
                self.matches += matches;
                // A match takes about as long as a posting for the order, and for each facet.
                postings += matches as usize * (1 + facets.len());
                facets.add(from, &found.bits)?;
                if let Some(sorter) = &mut sorter {
                    for_each(&found.bits, |at| {
                        let position = from + at as u32;
                        let score = || found.scores[at] + query.static_score(position);
                        let score = if scored { score() } else { 0 };
                        sorter.offer(position, Hit { doc: query.doc(position), score });
                    });
                }
                scratch.give_back(found);
            }
            from = to;
        }
        account(tree.blocks(), &mut self.work);
        facets.leave(&mut self.facets)?;
        if let Some(sorter) = sorter {
            for (values, hit, position) in sorter.finish()? {
                self.listed.push(Listed { values, hit, segment: number, position });
            }
            let order = &self.gather.order;
            self.listed.sort_by(|a, b| {
                compare(order, &a.values, &b.values).then(a.hit.doc.cmp(&b.hit.doc))
            });
            self.listed.truncate(plan.k);
        }
        Ok(from)
    }

    /// Computes the scores of the hits. There is no time limit, since the hits are already
    /// chosen. It takes no longer than the search did: it reads only blocks that have hits, which
    /// the search read as well.
    fn score(&mut self, scratch: &mut Scratch) -> Result<(), ExecError> {
        let mut order: Vec<usize> = (0..self.listed.len()).collect();
        order.sort_unstable_by_key(|&i| (self.listed[i].segment, self.listed[i].position));
        let mut ticker = Ticker::unlimited();
        let segment = |i: usize| self.listed[i].segment;
        let segments: Vec<&[usize]> = order.chunk_by(|&a, &b| segment(a) == segment(b)).collect();
        for of_segment in segments {
            let number = self.listed[of_segment[0]].segment;
            let scored = self.score_segment(number, of_segment, scratch, &mut ticker);
            match scored {
                // There is no limit that could stop it.
                Ok(()) | Err(Halt::Stop) => {}
                Err(Halt::Failed(error)) => return Err(error),
            }
        }
        Ok(())
    }

    fn score_segment(
        &mut self,
        number: usize,
        hits: &[usize],
        scratch: &mut Scratch,
        ticker: &mut Ticker<'_>,
    ) -> Result<(), Halt> {
        let (segments, plan) = (self.segments, self.plan);
        let query = segments.query(plan, number, ticker)?;
        let flat = tree::flat(plan, plan.mode == Mode::And);
        let (root, plan_tree) = tree::root(plan, &flat);
        let mut tree = Tree::open(&query, root, plan_tree, true, segments.maxima(number), ticker)?;
        let window = |i: usize| self.listed[i].position / WINDOW;
        let windows: Vec<&[usize]> = hits.chunk_by(|&a, &b| window(a) == window(b)).collect();
        for of_window in windows {
            let from = self.listed[of_window[0]].position / WINDOW * WINDOW;
            let mut live = [0; WORDS];
            for &i in of_window {
                let at = (self.listed[i].position - from) as usize;
                live[at / 64] |= 1 << (at % 64);
            }
            let (scratch, work) = (&mut scratch.tree, &mut self.work);
            let found = tree::matches(&query, &mut tree, from, &live, scratch, work, ticker)?;
            for &i in of_window {
                let position = self.listed[i].position;
                let sum = found.scores[(position - from) as usize];
                self.listed[i].hit.score = sum + query.static_score(position);
            }
            scratch.give_back(found);
        }
        account(tree.blocks(), &mut self.work);
        Ok(())
    }
}
