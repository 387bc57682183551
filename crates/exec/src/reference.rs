//! The reference engine, which defines in the simplest way what every engine must return.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpseek_core::Hit;
use warpseek_core::limits::BLOCK;
use warpseek_index::{Segment, Snapshot, SnapshotId};

use crate::choice::{ASKED_FOR, Candidate};
use crate::context::Context;
use crate::cost::Rates;
use crate::coverage::Coverage;
use crate::engine::{Answer, Answers, Engine, Work, answer_supported};
use crate::error::ExecError;
use crate::formula::Factors;
use crate::gather;
use crate::limit::Ticker;
use crate::mode::Mode;
use crate::plan::Plan;
use crate::query::{Facts, PlanTree, listed};
use crate::takes::Takes;

/// An engine that reads every list of a query from end to end, adds contributions in a map, and
/// sorts. It checks the clock only between queries.
pub struct Reference {
    snapshot: Arc<Snapshot>,
    /// The documents that the engine answers for.
    over: Coverage,
}

impl Reference {
    /// Creates a reference engine for an index.
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Self::over(snapshot, Coverage::Complete)
    }

    /// Creates a reference engine for some documents of an index, to check answers that cover
    /// only these.
    pub fn over(snapshot: Arc<Snapshot>, over: Coverage) -> Self {
        Reference { snapshot, over }
    }

    fn answer(&self, plan: &Plan) -> Result<Answer, ExecError> {
        let mut work = Work::default();
        if let Some(tree) = &plan.tree {
            return self.answer_tree(plan, tree);
        }
        let (mut any, mut all) = (Vec::new(), Vec::new());
        for (number, segment) in self.snapshot.segments().iter().enumerate() {
            let ordinals = segment.documents().ordinals()?;
            for (position, (score, terms)) in sums(plan, number, segment, &mut work)? {
                if !self.over.contains(segment.base() + position) {
                    continue;
                }
                let ordinal = ordinals.map_or(position, |o| o.get(position));
                let hit = Hit { doc: segment.base() + ordinal, score };
                any.push(hit);
                if terms == plan.terms.len() && !plan.lacks_terms() {
                    all.push(hit);
                }
            }
        }
        let hits = match plan.mode {
            Mode::Or => any,
            Mode::And => all,
            Mode::AndOr if all.len() < plan.k => any,
            Mode::AndOr => all,
        };
        self.finish(plan, hits, work)
    }
}

impl Reference {
    /// Returns the answer with the first k of all matches, in the order of the plan.
    fn finish(&self, plan: &Plan, mut hits: Vec<Hit>, work: Work) -> Result<Answer, ExecError> {
        let (matches, mut gathered) = (Some(hits.len() as u64), None);
        match &plan.gather {
            None => {
                hits.sort_unstable();
                hits.truncate(plan.k);
            }
            Some(gather) => {
                let found = gather::reference::gather(&self.snapshot, plan, gather, &hits)?;
                (hits, gathered) = (found.0, Some(Box::new(found.1)));
            }
        }
        Ok(Answer { hits, matches, coverage: self.over.clone(), work: Some(work), gathered })
    }

    /// Evaluates the tree for one document after another. It ignores the mode and the mask of the
    /// plan.
    fn answer_tree(&self, plan: &Plan, tree: &PlanTree) -> Result<Answer, ExecError> {
        let (mut work, mut hits) = (Work::default(), Vec::new());
        for (number, segment) in self.snapshot.segments().iter().enumerate() {
            let documents = segment.documents();
            let (ordinals, statics) = (documents.ordinals()?, documents.statics()?);
            let mut scores = Vec::new();
            for term in 0..plan.terms.len() {
                scores.push(contributions(plan, term, number, segment, &mut work)?);
            }
            let ticker = &mut Ticker::unlimited();
            let words =
                tree.words.iter().map(|lists| listed(segment, lists[number].as_ref(), ticker));
            let words = words.collect::<Result<Vec<_>, _>>()?;
            let phrases =
                tree.phrases.iter().map(|phrase| phrase.documents(segment, number, ticker));
            let phrases = phrases.collect::<Result<Vec<_>, _>>()?;
            for position in 0..documents.count() {
                let covered = self.over.contains(segment.base() + position);
                if segment.is_deleted(position) || !covered {
                    continue;
                }
                let facts = Facts {
                    term: &|term| scores[term].get(&position).copied(),
                    word: &|word| words[word].contains(position),
                    phrase: &|phrase| phrases[phrase].contains(position),
                    set: &|set| set.segment(number).contains(position),
                };
                if let Some(score) = tree.root.evaluate(&facts) {
                    let ordinal = ordinals.map_or(position, |o| o.get(position));
                    let fixed = statics.map_or(0, |s| plan.static_score(s.get(position)));
                    hits.push(Hit { doc: segment.base() + ordinal, score: score + fixed });
                }
            }
        }
        self.finish(plan, hits, work)
    }
}

/// Returns the contribution of a term to each document of a segment that contains it.
fn contributions(
    plan: &Plan,
    term: usize,
    number: usize,
    segment: &Segment,
    work: &mut Work,
) -> Result<BTreeMap<u32, u32>, ExecError> {
    let term = plan.terms[term].clone();
    let alone = Plan { terms: vec![term], static_weight: 0.0, mask: None, ..plan.clone() };
    let sums = sums(&alone, number, segment, work)?;
    Ok(sums.into_iter().map(|(doc, (score, _))| (doc, score)).collect())
}

/// Returns the score and the number of terms of every live document of the segment that contains
/// any term.
fn sums(
    plan: &Plan,
    number: usize,
    segment: &Segment,
    work: &mut Work,
) -> Result<BTreeMap<u32, (u32, usize)>, ExecError> {
    let statics = segment.documents().statics()?;
    let mut sums = BTreeMap::new();
    for term in &plan.terms {
        let Some(info) = &term.lists[number] else { continue };
        let (list, formula) = (segment.list(info)?, plan.formulas.of(term.field));
        let factors = Factors::new(segment, term.field, formula)?;
        let (mut docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
        for block in 0..list.blocks() {
            let n = list
                .decode_docs(block, &mut docs)
                .and_then(|_| list.decode_freqs(block, &mut freqs))
                .map_err(|what| segment.bad_list(info, what))?;
            work.blocks_decoded += 1;
            for (&doc, &freq) in docs[..n].iter().zip(&freqs[..n]) {
                let masked = plan.mask.as_ref().is_some_and(|m| !m.segment(number).contains(doc));
                if segment.is_deleted(doc) || masked {
                    continue;
                }
                work.postings_scored += 1;
                let start = || (statics.map_or(0, |s| plan.static_score(s.get(doc))), 0);
                let (score, terms) = sums.entry(doc).or_insert_with(start);
                *score += formula.contribution(term.weight, freq, factors.get(doc));
                *terms += 1;
            }
        }
    }
    Ok(sums)
}

impl Engine for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn snapshot(&self) -> SnapshotId {
        self.snapshot.id()
    }

    fn takes(&self) -> Takes {
        Takes::ALL
    }

    fn candidates(&self, _plan: &Plan, _alone: bool, _context: &Context) -> Vec<Candidate> {
        // Each step in a map takes about two hundred nanoseconds.
        let rates = Ok(Rates::thread(5_000.0, 200.0));
        vec![Candidate { algorithm: "reference", rates, why: ASKED_FOR }]
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        answer_supported(self, plans, |plans| {
            context.pool().map(
                plans,
                || (),
                |(), plan| match context.is_over() {
                    true => Ok(Answer::nothing(plan)),
                    false => self.answer(plan),
                },
            )
        })
    }
}
