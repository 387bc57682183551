//! Errors of planning and answering queries.

use std::error::Error;
use std::sync::Arc;

use warpseek_core::limits::MAX_QUERY_TERMS;
use warpseek_index::{Content, IndexError};

use crate::mode::Mode;
use crate::query::{MAX_BOOST_RATIO, MAX_WEIGHT, SyntaxError};
use crate::ranking::{RankingFunction, RankingParameters};

/// An error of a query. It can be cloned, because one cause may fail many queries.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ExecError {
    /// The index could not be read.
    #[error(transparent)]
    Index(Arc<IndexError>),
    /// The ranking function does not suit the contents of the index.
    #[error("ranking `{ranking}` is for {}", if *content == Content::Vector { "text, but this is an index of vectors" } else { "indexes of vectors, but this is one of text" })]
    Content {
        /// Name of the ranking function.
        ranking: String,
        /// The content of the index.
        content: Content,
    },
    /// The index is an n-gram index, which has no ranking function.
    #[error("this is an n-gram index for approximate search, not an index of words")]
    Grams,
    /// An index of quantized impacts supports only the ranking function it was built with.
    #[error(
        "the index is quantized: it supports only bm25 with k1 = {k1} and b = {b}, not {}",
        described(asked)
    )]
    Quantized {
        /// The requested ranking function.
        asked: RankingFunction,
        /// The index's k1.
        k1: f64,
        /// The index's b.
        b: f64,
    },
    /// The ranking needs norms, which an index with a schema does not have.
    #[error(
        "ranking `cosine` needs the norms of documents, which an index with a schema does not have; use bm25, okapi or wakatsuki"
    )]
    NoNorms,
    /// The ranking takes its parameters from a schema, but the index has none.
    #[error(
        "ranking `bm25-by-field` takes k1 and b from the schema, but the index has none; use bm25"
    )]
    NoSchema,
    /// A query has a term of a text field that the index does not have.
    #[error(
        "term `{term}` is for text field {field}, but the last text field of the index is {last}"
    )]
    Field {
        /// The term.
        term: String,
        /// The number of its field.
        field: u8,
        /// The number of the last text field.
        last: usize,
    },
    /// Words without a field were given in a mode that requires all of them.
    #[error(
        "mode `{0}` would require every word in every text field of the index; use mode `or`, or terms with their fields"
    )]
    WordsOfFields(Mode),
    /// A parameter of a ranking function is out of range.
    #[error("{name} = {value} is out of range; it must be {expected}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// The given value.
        value: f64,
        /// The allowed values.
        expected: String,
    },
    /// A term of a query has a weight that is not positive or too large.
    #[error("term `{term}` has weight {weight}; weights are positive numbers up to {MAX_WEIGHT:e}")]
    Weight {
        /// The term.
        term: String,
        /// Weight of the term.
        weight: f64,
    },
    /// The boosts of a query's parts differ too much.
    #[error(
        "the boosts of the query's parts range from {smallest} to {largest}, a factor of {:.0}; at most {MAX_BOOST_RATIO} is allowed, because scores would lose precision; lower the largest boost or raise the smallest",
        largest / smallest
    )]
    Boosts {
        /// The smallest boost, multiplied by those of the enclosing parts and of the field.
        smallest: f64,
        /// The largest boost, computed in the same way.
        largest: f64,
    },
    /// A query has too many terms.
    #[error("the query has {0} different terms; at most {MAX_QUERY_TERMS} are allowed")]
    TooManyTerms(usize),
    /// A query tree is too large.
    #[error("the query is too large: {0}")]
    Tree(String),
    /// A mode was given for a query that is not a bag of words.
    #[error(
        "mode `{0}` is for words without a syntax; in the query syntax, write `+` before required parts; a query tree has its own operators"
    )]
    ModeOfTree(Mode),
    /// The schema has no such field.
    #[error("there is no field `{name}`{}", near.as_ref().map_or_else(String::new, |near| format!("; did you mean `{near}`?")))]
    UnknownField {
        /// The name.
        name: String,
        /// A similar name in the schema, if there is one.
        near: Option<String>,
    },
    /// A query searches an attribute for words.
    #[error("`{name}` is an attribute and has no words; use a filter for it")]
    NotText {
        /// The name.
        name: String,
    },
    /// A query filters, sorts or counts by a text field.
    #[error(
        "`{name}` is a text field and has no values to filter, sort or count by; search for its words"
    )]
    NotAttribute {
        /// The name.
        name: String,
    },
    /// A query has a phrase, but the index has no positions.
    #[error(
        "the index has no positions to find phrases with; rebuild it with `--positions`, or search for the words"
    )]
    NoPositions,
    /// A query has a phrase in a field without positions.
    #[error(
        "`{name}` has no positions to find phrases with; rebuild the index with `--positions`, or with `\"positions\": true` in its schema"
    )]
    NoPositionsOf {
        /// The field.
        name: String,
    },
    /// A query filters an attribute that does not hold keywords by a prefix.
    #[error("prefixes are for keyword attributes, and `{name}` is not one")]
    Prefix {
        /// The name.
        name: String,
    },
    /// A value does not have the attribute's type.
    #[error("`{value}` cannot be a value of `{name}`; it must be {expected}")]
    Value {
        /// The attribute.
        name: String,
        /// The given value.
        value: String,
        /// Description of a valid value.
        expected: &'static str,
    },
    /// Hits cannot be sorted in the requested order.
    #[error("hits cannot be sorted: {0}")]
    Sort(String),
    /// The requested facets cannot be counted.
    #[error("facets cannot be counted: {0}")]
    Facet(String),
    /// The matches of this mode depend on the number of hits.
    #[error(
        "mode `and-or` depends on how many hits are wanted, so its matches cannot be sorted, continued or counted by attributes; use `or` or `and`"
    )]
    GatherMode,
    /// The text of a query is malformed.
    #[error(transparent)]
    Syntax(Box<SyntaxError>),
    /// A query in JSON is malformed.
    #[error("the query is not a JSON object of weights: {0}")]
    Json(String),
    /// The plan was made for a different snapshot than the engine.
    #[error("the plan was made for another snapshot of the index; plan the query again")]
    OtherSnapshot,
    /// The statistics of the collection do not fit an index that is meant to be a part of it.
    #[error("the statistics of the collection cannot be used: {0}")]
    Collection(String),
    /// The engine does not support the query.
    #[error("`{engine}` cannot answer the query: {why}")]
    Unsupported {
        /// The engine's name.
        engine: &'static str,
        /// The reason.
        why: String,
    },
    /// A device failed or is missing.
    #[error("{source}")]
    Device {
        /// The cause of the failure.
        fault: Fault,
        /// The device layer's error.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The request was stopped before there was a partial answer.
    #[error("the request timed out or was cancelled before the query was planned")]
    Stopped,
    /// An engine returned fewer answers than plans, which is a bug.
    #[error("the engine returned no answer to the query")]
    NoAnswer,
}

/// The cause of a device failure, which determines how to proceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The query, or its batch, needs more than the device has. Other queries may still be
    /// answered.
    Query,
    /// The device or its driver failed. The device answers nothing until it is opened again.
    Device,
    /// There is no device, its configuration does not allow its use, or the index does not fit
    /// it.
    Setup,
}

impl ExecError {
    /// Returns the cause if the error is a device failure.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            ExecError::Device { fault, .. } => Some(*fault),
            _ => None,
        }
    }

    /// Returns true if the device will fail other queries too.
    pub fn is_final(&self) -> bool {
        matches!(self.fault(), Some(Fault::Device | Fault::Setup))
    }
}

impl From<IndexError> for ExecError {
    fn from(error: IndexError) -> Self {
        ExecError::Index(Arc::new(error))
    }
}

impl From<SyntaxError> for ExecError {
    fn from(error: SyntaxError) -> Self {
        ExecError::Syntax(Box::new(error))
    }
}

/// Describes a ranking function with its parameters.
fn described(function: &RankingFunction) -> String {
    match function.parameters() {
        RankingParameters::Saturation { k1, b } => format!("{function} with k1 = {k1} and b = {b}"),
        RankingParameters::None => function.to_string(),
    }
}
