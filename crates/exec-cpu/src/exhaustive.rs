//! Exhaustive term-at-a-time search with one accumulator a document: every posting is decoded and scored.
//!
//! A score of 0 means "no match" (contributions are at least 1), so an OR needs nothing but the sums; an AND
//! counts terms as well.

use std::sync::Arc;

use warpseek_core::limits::BLOCK;
use warpseek_core::{Score, TopK};
use warpseek_exec::{Answer, Engine, ExecError, Mode, Plan, Work, in_parallel};
use warpseek_index::{Segment, Snapshot};

/// See the module head.
pub struct Exhaustive {
    snapshot: Arc<Snapshot>,
    threads: usize,
}

/// What a thread keeps from query to query.
#[derive(Default)]
struct Accumulators {
    scores: Vec<Score>,
    terms: Vec<u32>,
}

impl Exhaustive {
    /// For an index; queries are spread over the threads.
    pub fn new(snapshot: Arc<Snapshot>, threads: usize) -> Self {
        Exhaustive { snapshot, threads }
    }

    fn answer(&self, sums: &mut Accumulators, plan: &Plan) -> Result<Answer, ExecError> {
        let mut work = Work::default();
        if plan.mode != Mode::Or {
            let answer = self.pass(sums, plan, plan.terms.len() as u32, work)?;
            if plan.mode == Mode::And || answer.matches >= Some(plan.k as u64) {
                return Ok(answer);
            }
            work = answer.work;
        }
        self.pass(sums, plan, 0, work)
    }

    /// Documents with at least `needed` of the terms and at least one.
    fn pass(
        &self,
        sums: &mut Accumulators,
        plan: &Plan,
        needed: u32,
        work: Work,
    ) -> Result<Answer, ExecError> {
        let (mut top, mut matches, mut work) = (TopK::new(plan.k), 0, work);
        if needed > 0 && plan.lacks_terms() {
            return Ok(Answer { matches: Some(0), work, ..Answer::default() });
        }
        for (number, segment) in self.snapshot.segments().iter().enumerate() {
            sums.scores.clear();
            sums.scores.resize(segment.documents().count() as usize, 0);
            sums.terms.clear();
            sums.terms.resize(if needed > 0 { sums.scores.len() } else { 0 }, 0);
            accumulate(plan, number, segment, sums, &mut work)?;
            let statics = segment.documents().statics()?;
            for (doc, &score) in sums.scores.iter().enumerate() {
                let doc = doc as u32;
                if score == 0
                    || (needed > 0 && sums.terms[doc as usize] < needed)
                    || segment.is_deleted(doc)
                {
                    continue;
                }
                matches += 1;
                let fixed = statics.map_or(0, |s| plan.static_score(s.get(doc)));
                top.offer(segment.base() + doc, score + fixed);
            }
        }
        Ok(Answer { hits: top.into_hits(), matches: Some(matches), work })
    }
}

fn accumulate(
    plan: &Plan,
    number: usize,
    segment: &Segment,
    sums: &mut Accumulators,
    work: &mut Work,
) -> Result<(), ExecError> {
    let (lengths, norms) = (segment.documents().lengths()?, segment.documents().norms()?);
    for term in &plan.terms {
        let Some(info) = &term.lists[number] else { continue };
        let list = segment.list(info)?;
        let (mut docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
        for block in 0..list.blocks() {
            let n = list
                .decode_docs(block, &mut docs)
                .and_then(|_| list.decode_freqs(block, &mut freqs))
                .map_err(|what| segment.bad_list(info, what))?;
            for (&doc, &freq) in docs[..n].iter().zip(&freqs[..n]) {
                let factor = plan.formula.factor(lengths.get(doc), norms.get(doc));
                let share = plan.formula.contribution(term.weight, freq, factor);
                sums.scores[doc as usize] += share;
            }
            if !sums.terms.is_empty() {
                docs[..n].iter().for_each(|&doc| sums.terms[doc as usize] += 1);
            }
            work.postings_scored += n as u64;
            work.blocks_decoded += 1;
        }
    }
    Ok(())
}

impl Engine for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn search(&self, plans: &[Plan]) -> Result<Vec<Answer>, ExecError> {
        in_parallel(plans, self.threads, Accumulators::default, |sums, plan| {
            self.answer(sums, plan)
        })
    }
}
