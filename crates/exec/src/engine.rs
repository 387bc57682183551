//! The interface of engines: the plans they accept, what they expect them to cost, and how they
//! answer a batch.

use std::ops::AddAssign;
use std::time::Duration;

use warpseek_core::Hit;
use warpseek_index::SnapshotId;

use crate::choice::{Candidate, Choice, Estimate, cheapest};
use crate::context::Context;
use crate::cost::Load;
use crate::coverage::Coverage;
use crate::error::ExecError;
use crate::foresight::Foresight;
use crate::formula::{Formula, Formulas};
use crate::gather::Gathered;
use crate::plan::Plan;
use crate::takes::{SEVERAL_FIELDS, Takes};

/// The work that an engine did for a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Number of postings whose contribution was computed.
    pub postings_scored: u64,
    /// Number of blocks whose documents were decoded. A block counts once for hits and once for a
    /// count, and again whenever an engine returns to it.
    pub blocks_decoded: u64,
    /// Number of blocks of the query's lists that were not decoded for hits.
    pub blocks_skipped: u64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.postings_scored += other.postings_scored;
        self.blocks_decoded += other.blocks_decoded;
        self.blocks_skipped += other.blocks_skipped;
    }
}

/// The answer to a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The best hits, at most k, best first: by descending score, then by ascending document, or
    /// in the order of [`Plan::gather`]. Scores are in units of the plan.
    pub hits: Vec<Hit>,
    /// Number of live documents that match. It is always set if [`Plan::count`] is set; otherwise
    /// only if the engine knows it.
    pub matches: Option<u64>,
    /// The documents that were searched; hits and matches refer to these.
    pub coverage: Coverage,
    /// The work that the search took, if the engine counts it.
    pub work: Option<Work>,
    /// The results of [`Plan::gather`], if the plan has one.
    pub gathered: Option<Box<Gathered>>,
}

impl Answer {
    /// Returns the answer of an engine that did not start.
    pub fn nothing(plan: &Plan) -> Self {
        let gathered = plan.gather.as_ref().map(|gather| Box::new(Gathered::empty(gather)));
        let matches = (plan.count || gathered.is_some()).then_some(0);
        Answer { matches, gathered, coverage: Coverage::NOTHING, ..Answer::default() }
    }

    /// Merges the answers of several parts to one plan for k hits. The plan must not gather
    /// anything, and the caller states what the parts cover together.
    pub fn merged(parts: impl IntoIterator<Item = Answer>, k: usize, coverage: Coverage) -> Self {
        let mut parts = parts.into_iter();
        let mut whole = parts.next().unwrap_or_default();
        for part in parts {
            whole.hits.extend(part.hits);
            whole.matches = whole.matches.zip(part.matches).map(|(a, b)| a + b);
            whole.add_work(part.work);
        }
        // The hits are sorted runs, so this takes one pass.
        whole.hits.sort();
        whole.hits.truncate(k);
        Answer { coverage, ..whole }
    }

    /// Adds the work done earlier for the same plan. The sum is unknown if either term is.
    pub fn add_work(&mut self, before: Option<Work>) {
        self.work = self.work.zip(before).map(|(mut work, before)| {
            work += before;
            work
        });
    }
}

/// The result for each plan of a batch, in the order of the plans.
pub type Answers = Vec<Result<Answer, ExecError>>;

/// An engine for one snapshot of an index.
///
/// For every plan made for that snapshot, the engine returns the hits that [`crate::Reference`]
/// returns over the same documents: the same documents in the same order with the same scores,
/// whatever else is in the batch. Hits identify documents by [`warpseek_index::Segment::base`]
/// plus ordinal, never by position, and ties are broken by that number, so reordering a segment
/// does not change its results. Deleted documents are never hits. A plan with k = 0 has no hits,
/// and neither has a plan without terms and without a tree.
///
/// Each plan has its own result: a plan that fails does not affect the others. A plan for another
/// snapshot fails with [`ExecError::OtherSnapshot`], and a plan that the engine cannot answer
/// with [`ExecError::Unsupported`].
///
/// When the deadline of the context has passed or the search is cancelled, the engine stops
/// between ranges of documents. [`Answer::coverage`] then says which documents were searched, and
/// the answer is exact over these.
pub trait Engine: Send + Sync {
    /// Returns the engine's name, as given to `--algorithm`.
    fn name(&self) -> &'static str;

    /// Returns `CPU` or the name of a GPU.
    fn device(&self) -> String {
        "CPU".to_owned()
    }

    /// Returns the snapshot whose plans the engine answers.
    fn snapshot(&self) -> SnapshotId;

    /// Returns the engine's algorithms, each with its cost for this plan or the reason why it
    /// cannot answer it. The algorithms and their order are the same for all plans. `alone` is
    /// set if the plan is the only one in its batch and may use all threads.
    fn candidates(&self, plan: &Plan, alone: bool, context: &Context) -> Vec<Candidate>;

    /// Returns the features of plans that the engine supports. By default an engine supports
    /// none, so that it cannot ignore one by mistake.
    fn takes(&self) -> Takes {
        Takes::default()
    }

    /// Checks if the engine can answer a plan; if not, the error gives the reason. Engines
    /// implement [`Engine::takes`] and [`Engine::supports`] rather than this method.
    fn can_answer(&self, plan: &Plan) -> Result<(), &'static str> {
        match plan.beyond(self.takes()) {
            Some(why) => Err(why),
            None => self.supports(plan),
        }
    }

    /// Checks if any of the engine's algorithms can answer a plan, without regard to the features
    /// in [`Engine::takes`]. If not, the error gives the reason.
    fn supports(&self, plan: &Plan) -> Result<(), &'static str> {
        let candidates = self.candidates(plan, false, Context::single());
        if candidates.iter().any(|candidate| candidate.rates.is_ok()) {
            return Ok(());
        }
        Err(candidates.iter().find_map(|c| c.rates.err()).unwrap_or("it has no algorithm"))
    }

    /// Returns the expected time of a batch and of each algorithm.
    fn estimate(&self, plans: &[&Plan], context: &Context) -> Estimate {
        let alone = plans.len() == 1;
        let candidates = |plan: &Plan| self.candidates(plan, alone, context);
        Estimate::new(plans.iter().copied(), context.threads(), candidates)
    }

    /// Returns the expected time of a batch.
    fn cost(&self, plans: &[&Plan], context: &Context) -> Duration {
        self.estimate(plans, context).time
    }

    /// Returns the number of postings of a plan's lists that would first have to be transferred
    /// to the engine's device, as far as this is known without waiting.
    fn absent(&self, _plan: &Plan) -> u64 {
        0
    }

    /// Returns the work that the engine foresees for a plan, or `None` if it knows no more than
    /// the plan says. It must be found without reading lists.
    fn foresee(&self, _plan: &Plan) -> Option<Foresight> {
        None
    }

    /// Explains how the engine would answer each plan of a batch.
    fn explain(&self, plans: &[&Plan], context: &Context) -> Vec<Choice> {
        let explain = |plan: &&Plan| {
            let candidates = self.candidates(plan, plans.len() == 1, context);
            let chosen = cheapest(&candidates, &Load::of(plan));
            let (algorithm, why) =
                chosen.map_or(("none", "it cannot answer the query"), |c| (c.algorithm, c.why));
            let (algorithm, why) = (algorithm.to_owned(), why.to_owned());
            Choice { device: self.device(), algorithm, why }
        };
        plans.iter().map(explain).collect()
    }

    /// Prepares for queries with these formulas, for example by copying the index to a device, so
    /// that the first query does not have to wait for it.
    fn prepare(&self, _formulas: &Formulas, _context: &Context) -> Result<(), ExecError> {
        Ok(())
    }

    /// Answers a batch. The plans are borrowed separately, so that a caller can give part of a
    /// batch to one engine and the rest to another.
    fn search(&self, plans: &[&Plan], context: &Context) -> Answers;
}

/// Rejects the plans that the engine cannot answer, and passes the others to `search`, which
/// returns one result for each of them. Every engine's `search` begins with this function.
pub fn answer_supported(
    engine: &(impl Engine + ?Sized),
    plans: &[&Plan],
    search: impl FnOnce(&[&Plan]) -> Answers,
) -> Answers {
    let refusal = |plan: &Plan| -> Option<ExecError> {
        let masked = plan.mask.as_ref().map_or(plan.snapshot, |mask| mask.snapshot());
        if [plan.snapshot, masked] != [engine.snapshot(); 2] {
            return Some(ExecError::OtherSnapshot);
        }
        let why = engine.can_answer(plan).err()?.to_owned();
        Some(ExecError::Unsupported { engine: engine.name(), why })
    };
    if plans.iter().all(|plan| refusal(plan).is_none()) {
        return search(plans);
    }
    let refused: Vec<Option<ExecError>> = plans.iter().map(|plan| refusal(plan)).collect();
    let taken: Vec<&Plan> =
        plans.iter().zip(&refused).filter(|(_, no)| no.is_none()).map(|(&plan, _)| plan).collect();
    let mut answers = search(&taken).into_iter();
    let mut put = |refused: Option<ExecError>| match refused {
        Some(error) => Err(error),
        None => answers.next().unwrap_or(Err(ExecError::NoAnswer)),
    };
    refused.into_iter().map(&mut put).collect()
}

/// Returns the formula of the only text field, for engines that do not support several; fails
/// with [`ExecError::Unsupported`] if there are several.
pub fn only_formula(
    engine: &(impl Engine + ?Sized),
    formulas: &Formulas,
) -> Result<Formula, ExecError> {
    let refusal =
        || ExecError::Unsupported { engine: engine.name(), why: SEVERAL_FIELDS.to_owned() };
    formulas.single().ok_or_else(refusal)
}

/// Returns the same error for every plan of a batch.
pub fn fail_all(plans: &[&Plan], error: &ExecError) -> Answers {
    plans.iter().map(|_| Err(error.clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use warpseek_index::FilterCache;
    use warpseek_testkit::Fixture;

    use super::*;
    use crate::gather::SortKey;
    use crate::mask::Mask;
    use crate::mode::Mode;
    use crate::plan::Planner;
    use crate::query::{Node, Query};
    use crate::ranking::Ranking;

    /// An engine that supports the given features and finds nothing.
    struct Fake(SnapshotId, Takes);

    impl Engine for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }

        fn snapshot(&self) -> SnapshotId {
            self.0
        }

        fn candidates(&self, _: &Plan, _: bool, _: &Context) -> Vec<Candidate> {
            Vec::new()
        }

        fn takes(&self) -> Takes {
            self.1
        }

        fn supports(&self, _: &Plan) -> Result<(), &'static str> {
            Ok(())
        }

        fn search(&self, plans: &[&Plan], _: &Context) -> Answers {
            let nothing = |plan: &&Plan| Ok(Answer::nothing(plan));
            answer_supported(self, plans, |plans| plans.iter().map(nothing).collect())
        }
    }

    #[test]
    fn what_an_engine_does_not_take_it_refuses() {
        let snapshot = Fixture::of(&[]).snapshot();
        let planner = Planner::new(snapshot.clone(), Ranking::default()).unwrap();
        let plain = planner.plan(&Query::default(), Mode::Or, 1).unwrap();
        let mask = Some(Arc::new(Mask::new(&snapshot, Vec::new())));
        let masked = Plan { mask, ..plain.clone() };
        let several = Formulas::new([plain.formulas.of(0); 2]);
        let fields = Plan { formulas: several.clone(), ..plain.clone() };
        let cache = FilterCache::new(0);
        let tree = planner.plan_tree(&Node::All, None, None, 1, &cache).unwrap();
        let gather = planner.gather(&[SortKey::document()], None, &[]).unwrap();
        let sorted = Plan { gather: gather.map(Arc::new), ..plain.clone() };
        let plans = [&plain, &masked, &fields, &tree, &sorted];
        let answered = |takes| {
            let answers = Fake(snapshot.id(), takes).search(&plans, Context::single());
            let refused = |error| matches!(error, ExecError::Unsupported { engine: "fake", .. });
            answers
                .into_iter()
                .map(|answer| answer.is_ok() || !refused(answer.unwrap_err()))
                .collect::<Vec<_>>()
        };
        let (none, all) = (Takes::default(), Takes::ALL);
        let masks = Takes { masks: true, ..none };
        assert_eq!(answered(none), [true, false, false, false, false]);
        assert_eq!(answered(masks), [true, true, false, false, false]);
        assert_eq!(answered(Takes { fields: true, ..none }), [true, false, true, false, false]);
        assert_eq!(answered(Takes { trees: true, ..none }), [true, false, false, true, false]);
        let gathers = Takes { gathers: true, ..none };
        assert_eq!(answered(gathers), [true, false, false, false, true]);
        assert_eq!(answered(all), [true; 5]);
        assert_eq!((masks.and(all), all.and(all)), (masks, all));
        let fake = Fake(snapshot.id(), Takes::default());
        assert_eq!(only_formula(&fake, &plain.formulas).unwrap(), plain.formulas.of(0));
        assert!(matches!(only_formula(&fake, &several), Err(ExecError::Unsupported { .. })));
    }
}
