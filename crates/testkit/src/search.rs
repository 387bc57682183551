use std::sync::Arc;

use warpseek_core::Hit;
use warpseek_exec::{Answer, Mode, Plan, Planner, Query, Ranking};
use warpseek_index::Snapshot;

/// A query with all that goes with it.
#[derive(Clone, Debug)]
pub struct Search {
    /// Terms as the index spells them, and weights.
    pub query: Query,
    /// Which documents match.
    pub mode: Mode,
    /// How many hits are wanted.
    pub k: usize,
    /// How they are ranked.
    pub ranking: Ranking,
}

impl Search {
    /// Terms of weight 1, any of them, ten hits, default ranking.
    pub fn of(terms: &[&str]) -> Self {
        let terms = terms.iter().map(|&term| (term.to_owned(), 1.0)).collect();
        Search { query: Query { terms }, mode: Mode::Or, k: 10, ranking: Ranking::default() }
    }
}

/// The plans of some searches.
pub fn plans(snapshot: &Arc<Snapshot>, searches: &[Search]) -> Vec<Plan> {
    let plan = |search: &Search| {
        let planner = Planner::new(snapshot.clone(), search.ranking).unwrap();
        planner.plan(&search.query, search.mode, search.k).unwrap()
    };
    searches.iter().map(plan).collect()
}

/// A hit as it looks from outside: external id, score in units, scale. Two indexes with the same live documents in
/// the same order give equal ones.
pub type ExternalHit = (String, u32, i32);

/// The hits of an answer, as they look from outside.
pub fn external_hits(snapshot: &Snapshot, plan: &Plan, answer: &Answer) -> Vec<ExternalHit> {
    let outside = |hit: &Hit| (snapshot.external_id(hit.doc).unwrap(), hit.score, plan.scale);
    answer.hits.iter().map(outside).collect()
}
