//! Measures the effectiveness of rankings in the same way as `trec_eval`.
//!
//! Judgements ([`Qrels`]) and results ([`Run`]) are read from the file formats of TREC, and
//! [`evaluate`] combines them into a [`Report`]. Published figures come from `trec_eval` (or from
//! `pytrec_eval`, which wraps it), so this crate follows its order of hits, its relevance threshold
//! and its averaging to the last digit. The golden tests compare the two.
//!
//! Reading is separate from measuring: `lines` numbers the lines, [`Qrels`] and [`Run`] hold what
//! was read, `ranking` orders the hits of one query and looks up their grades, `formula` computes
//! one measure of one ranking, and `report` averages.

#![forbid(unsafe_code)]

mod error;
mod formula;
mod lines;
mod measure;
mod qrels;
mod ranking;
mod report;
mod run;
mod run_writer;

pub use error::EvalError;
pub use measure::{Cutoff, Measure};
pub use qrels::Qrels;
pub use report::{Options, Report, evaluate};
pub use run::Run;
pub use run_writer::RunWriter;
