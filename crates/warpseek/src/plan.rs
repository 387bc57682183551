//! Planning and answering of requests: plans, the choice of device and algorithm with its
//! estimates, and the work that an answer took.

mod decision;
mod traced;

pub use decision::Decision;
pub use traced::Traced;
pub use warpseek_exec::{
    Answer, Answers, Choice, CollectionStatistics, Context, Estimate, ExecError, Fault, Offer,
    Plan, PlanTerm, Pool, Rule, Work, frequencies,
};
