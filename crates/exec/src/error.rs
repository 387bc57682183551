use std::error::Error;
use std::sync::Arc;

use warpseek_core::limits::MAX_QUERY_TERMS;
use warpseek_index::{Content, IndexError};

use crate::ranking::RankingFunction;

/// What can go wrong with a query. It can be cloned, since one cause may fail many queries.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ExecError {
    /// The index could not be read.
    #[error(transparent)]
    Index(Arc<IndexError>),
    /// The ranking function is not made for the index.
    #[error("ranking `{ranking}` is for {}", if *content == Content::Vector { "text, and this is an index of vectors" } else { "indexes of vectors, and this is one of text" })]
    Content {
        /// Name of the ranking function.
        ranking: String,
        /// What the index holds.
        content: Content,
    },
    /// An index of quantized impacts answers one ranking function alone.
    #[error(
        "the index is quantized: it knows bm25 with k1 = {k1} and b = {b} alone, not {}",
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
    /// A query in JSON is malformed.
    #[error("the query is not a JSON object of weights: {0}")]
    Json(String),
    /// The plan was made for another snapshot than the engine.
    #[error("the plan was made for another snapshot of the index; plan the query again")]
    OtherSnapshot,
    /// The engine cannot answer such a query.
    #[error("`{engine}` cannot answer the query: {why}")]
    Unsupported {
        /// Its name.
        engine: &'static str,
        /// What is in the way.
        why: String,
    },
    /// A device failed, or is not there.
    #[error("{source}")]
    Device {
        /// Whose fault it is.
        fault: Fault,
        /// The device layer's error.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// An engine returned fewer answers than it was given plans, which is a defect.
    #[error("the engine returned no answer to the query")]
    NoAnswer,
}

/// Whose fault a failure of a device is, which says what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The query, or its batch, asked for more than there is. Others may be answered.
    Query,
    /// The device or its driver failed. It answers nothing until it is opened anew.
    Device,
    /// There is no device, or it cannot be used as it is set up, or the index does not fit it.
    Setup,
}

impl ExecError {
    /// Whose fault it is, if a device is involved.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            ExecError::Device { fault, .. } => Some(*fault),
            _ => None,
        }
    }
}

impl From<IndexError> for ExecError {
    fn from(error: IndexError) -> Self {
        ExecError::Index(Arc::new(error))
    }
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
