//! Effectiveness of a ranking, measured as `trec_eval` measures it.
//!
//! Judgements ([`Qrels`]) and results ([`Run`]) are read from the files the TREC evaluations use,
//! and [`evaluate`] joins them into a [`Report`]. Published figures come from `trec_eval` (or from
//! `pytrec_eval`, which wraps it), so its order of hits, its relevance threshold and its averaging
//! are followed to the last digit; the golden tests hold this crate against it.
//!
//! Reading stands apart from measuring: `lines` numbers the lines, [`Qrels`] and [`Run`] hold what
//! was read, `ranking` orders one query's hits and looks up their grades, `formula` computes one
//! measure of one ranking, `report` averages.

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
