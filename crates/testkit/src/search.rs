//! Searches, their plans, and the answers of engines to them.

use std::sync::Arc;

use warpseek_core::Hit;
use warpseek_exec::{
    Answer, Context, Engine, ExecError, Mode, Plan, Planner, Query, Ranking, Reference,
};
use warpseek_index::Snapshot;

/// A query with all its parameters.
#[derive(Clone, Debug)]
pub struct Search {
    /// Analyzed terms and their weights.
    pub query: Query,
    /// Which documents match.
    pub mode: Mode,
    /// The number of hits.
    pub k: usize,
    /// How they are ranked.
    pub ranking: Ranking,
}

impl Search {
    /// Terms of weight 1 in OR mode, with ten hits and the default ranking.
    pub fn of(terms: &[&str]) -> Self {
        let terms = terms.iter().map(|&term| (term.to_owned(), 1.0));
        Search { query: Query::of(terms), mode: Mode::Or, k: 10, ranking: Ranking::default() }
    }
}

/// The plans of the given searches.
pub fn plans(snapshot: &Arc<Snapshot>, searches: &[Search]) -> Vec<Plan> {
    let plan = |search: &Search| {
        let planner = Planner::new(snapshot.clone(), search.ranking).unwrap();
        planner.plan(&search.query, search.mode, search.k).unwrap()
    };
    searches.iter().map(plan).collect()
}

/// An engine's answers to a batch, with the given number of threads, or the first error.
pub fn answers(
    engine: &(impl Engine + ?Sized),
    plans: &[Plan],
    threads: usize,
) -> Result<Vec<Answer>, ExecError> {
    answers_in(engine, plans, &Context::new(threads))
}

/// An engine's answers to a batch in the given context, or the first error.
pub fn answers_in(
    engine: &(impl Engine + ?Sized),
    plans: &[Plan],
    context: &Context,
) -> Result<Vec<Answer>, ExecError> {
    engine.search(&plans.iter().collect::<Vec<_>>(), context).into_iter().collect()
}

/// The answers that every engine must give.
pub fn expected(snapshot: &Arc<Snapshot>, plans: &[Plan]) -> Vec<Answer> {
    answers(&Reference::new(snapshot.clone()), plans, 1).unwrap()
}

/// A hit without internal ids: external id, score in units, and scale. Two indexes with the same
/// live documents in the same order return equal external hits.
pub type ExternalHit = (String, u32, i32);

/// The hits of an answer without internal ids.
pub fn external_hits(snapshot: &Snapshot, plan: &Plan, answer: &Answer) -> Vec<ExternalHit> {
    let external = |hit: &Hit| (snapshot.external_id(hit.doc).unwrap(), hit.score, plan.scale);
    answer.hits.iter().map(external).collect()
}
