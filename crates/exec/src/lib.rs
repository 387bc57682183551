//! The contract of all engines: a batch of plans and a context in, an answer or an error for each plan out.
//!
//! Inside a query a score is an integer. Each posting contributes [`Formula::contribution`], computed there and
//! nowhere else, in units fixed by the [`Plan`]; engines only add. So every engine returns the same hits in
//! the same order with the same score bits, and [`Reference`] says which.
//!
//! [`Context`] has the deadline, the flag that cancels, and the threads. [`Coverage`] says which documents an answer that came under a deadline covers. Engines say
//! what they can do and what it costs ([`Engine::candidates`]); [`cheapest`] chooses.

mod choice;
mod context;
mod cost;
mod coverage;
mod engine;
mod error;
mod explain;
mod formula;
mod plan;
mod pool;
mod query;
mod ranking;
mod reference;
mod shape;

pub use choice::{Candidate, Choice, Estimate, Offer, cheapest, is_sooner};
pub use context::{Cancel, Context, Ticker};
pub use cost::{Load, Rates, Workers};
pub use coverage::Coverage;
pub use engine::{Answer, Answers, Engine, Work, answer_supported, fail_all};
pub use error::{ExecError, Fault};
pub use explain::{Explanation, TermExplanation, explain};
pub use formula::Formula;
pub use plan::{Mode, Plan, PlanTerm, Planner};
pub use pool::{Pool, at_once};
pub use query::Query;
pub use ranking::{Ranking, RankingFunction};
pub use reference::Reference;
pub use shape::{ShapeClass, shape};
