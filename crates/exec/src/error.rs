use warpseek_core::limits::MAX_QUERY_TERMS;
use warpseek_index::{Content, IndexError};

use crate::ranking::RankingFunction;

/// What can go wrong with a query.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The index could not be read.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The ranking function is not made for the index.
    #[error("ranking `{ranking}` is for {}; use {}", if *content == Content::Vector { "text, and this is an index of vectors" } else { "indexes of vectors, and this is one of text" }, if *content == Content::Vector { "`--rank impact`" } else { "`--rank bm25`" })]
    Content {
        /// Name of the ranking function.
        ranking: String,
        /// What the index holds.
        content: Content,
    },
    /// An index of quantized impacts answers one ranking function alone.
    #[error(
        "this index was made with `--quantize`: it knows bm25 with k1 = {k1} and b = {b} alone, not {}; use `--rank bm25` without `--k1` and `--b`, or build the index without `--quantize`",
        described(asked)
    )]
    Quantized {
        /// The one asked for.
        asked: RankingFunction,
        /// Parameter of the index.
        k1: f64,
        /// Parameter of the index.
        b: f64,
    },
    /// A parameter of a ranking function is out of range.
    #[error("{name} = {value} is out of range; it must be {expected}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What is allowed.
        expected: &'static str,
    },
    /// A query's term has a weight that is not positive.
    #[error("term `{term}` has weight {weight}; weights are positive numbers up to 1e9")]
    Weight {
        /// The term.
        term: String,
        /// Its weight.
        weight: f64,
    },
    /// A query has too many terms.
    #[error("the query has {0} different terms; at most {MAX_QUERY_TERMS} are allowed")]
    TooManyTerms(usize),
    /// A device failed, or is not there.
    #[error(transparent)]
    Device(Box<dyn std::error::Error + Send + Sync>),
    /// A query in JSON is malformed.
    #[error("the query is not a JSON object of weights: {0}")]
    Json(String),
}

/// A ranking function with its parameters.
fn described(function: &RankingFunction) -> String {
    match function {
        RankingFunction::Bm25 { k1, b }
        | RankingFunction::Okapi { k1, b }
        | RankingFunction::Wakatsuki { k1, b } => format!("{function} with k1 = {k1} and b = {b}"),
        RankingFunction::Cosine | RankingFunction::Impact => function.to_string(),
    }
}
