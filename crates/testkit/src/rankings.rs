//! The ranking functions that tests of indexes of text use.

use warpseek_exec::{Ranking, RankingFunction};

/// Rankings for indexes of text without a schema: every function that suits them, with default
/// parameters.
pub fn text_rankings() -> Vec<Ranking> {
    let suits_text = |function: &RankingFunction| match function {
        RankingFunction::Bm25 { .. }
        | RankingFunction::Okapi { .. }
        | RankingFunction::Wakatsuki { .. }
        | RankingFunction::Cosine => true,
        RankingFunction::Impact | RankingFunction::Bm25ByField => false,
    };
    let functions = RankingFunction::ALL.into_iter().filter(suits_text);
    functions.map(|function| Ranking { function, static_weight: 0.0 }).collect()
}
