//! The contract of all engines: a batch of plans in, hits and a report of the work out.
//!
//! Inside a query a score is an integer. Each posting contributes [`Formula::contribution`], computed there and
//! nowhere else, in units fixed by the [`Plan`]; engines only add. So every engine returns the same hits in
//! the same order with the same score bits, and [`Reference`] says which.

mod engine;
mod error;
mod explain;
mod formula;
mod parallel;
mod plan;
mod query;
mod ranking;
mod reference;
mod shape;

pub use engine::{Answer, Choice, Engine, Work};
pub use error::ExecError;
pub use explain::{Explanation, TermExplanation, explain};
pub use formula::Formula;
pub use parallel::in_parallel;
pub use plan::{Mode, Plan, PlanTerm, Planner};
pub use query::Query;
pub use ranking::{Ranking, RankingFunction};
pub use reference::Reference;
pub use shape::{ShapeClass, shape};
