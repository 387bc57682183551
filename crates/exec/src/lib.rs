//! The contract of all engines: a batch of plans and a context go in, and an answer or an error
//! for each plan comes out.
//!
//! Within a query, a score is an integer. Each posting contributes [`Formula::contribution`], in
//! units that the [`Plan`] fixes, and engines only add contributions. Every engine therefore
//! returns the same hits in the same order with the same score bits; [`Reference`] defines them.
//!
//! [`Context`] holds the deadline, the flag that cancels a search, and the threads. [`Coverage`]
//! says which documents an answer covers if the search had to stop at the deadline. Engines
//! report which plans they can answer and at what cost ([`Engine::candidates`]), and [`cheapest`]
//! chooses.

mod choice;
mod collection;
mod context;
mod cost;
mod coverage;
mod engine;
mod error;
mod explain;
mod foresight;
mod formula;
pub mod gather;
mod known;
mod limit;
mod mask;
mod mode;
mod plan;
mod pool;
pub mod query;
mod ranking;
mod reference;
mod shape;
mod takes;

pub use choice::{
    ASKED_FOR, Candidate, Choice, Estimate, Offer, batch_time, cheapest, cheapest_of, is_not_slower,
};
pub use collection::{CollectionStatistics, frequencies};
pub use context::Context;
pub use cost::{Load, Rates, Workers};
pub use coverage::Coverage;
pub use engine::{Answer, Answers, Engine, Work, answer_supported, fail_all, only_formula};
pub use error::{ExecError, Fault};
pub use explain::{Explanation, FieldExplanation, Rule, ScorePart, TermExplanation, explain};
pub use foresight::Foresight;
pub use formula::{Factors, Formula, Formulas};
pub use limit::{Cancel, Limit, Ticker};
pub use mask::Mask;
pub use mode::Mode;
pub use plan::{Plan, PlanTerm, Planner};
pub use pool::{Pool, at_once};
pub use query::{Query, QueryTerm};
pub use ranking::{Ranking, RankingFunction, RankingParameters};
pub use reference::Reference;
pub use shape::{ShapeClass, shape};
pub use takes::Takes;
