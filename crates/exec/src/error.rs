use std::error::Error;
use std::sync::Arc;

use warpseek_core::limits::MAX_QUERY_TERMS;
use warpseek_index::{Content, IndexError};

use crate::plan::Mode;
use crate::query::{MAX_BOOST_RATIO, SyntaxError};
use crate::ranking::RankingFunction;

/// An error of a query. It can be cloned, since one cause may fail many queries.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ExecError {
    /// The index could not be read.
    #[error(transparent)]
    Index(Arc<IndexError>),
    /// The ranking function does not suit the contents of the index.
    #[error("ranking `{ranking}` is for {}", if *content == Content::Vector { "text, and this is an index of vectors" } else { "indexes of vectors, and this is one of text" })]
    Content {
        /// Name of the ranking function.
        ranking: String,
        /// What the index holds.
        content: Content,
    },
    /// The index is one of n-grams, which have no ranking function.
    #[error("this is an index of n-grams for approximate search, and not one of words")]
    Grams,
    /// An index of quantized impacts supports only one ranking function.
    #[error(
        "the index is quantized: it supports only bm25 with k1 = {k1} and b = {b}, not {}",
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
    /// The ranking needs norms, which an index with a schema does not have.
    #[error(
        "ranking `cosine` needs the norms of documents, and an index with a schema has none; use bm25, okapi or wakatsuki"
    )]
    NoNorms,
    /// The ranking takes its parameters from a schema, and there is none.
    #[error(
        "ranking `bm25-by-field` takes k1 and b from the schema, and the index has none; use bm25"
    )]
    NoSchema,
    /// A query has a term of a field that the index does not have.
    #[error("term `{term}` is for text field {field}, and the last field of the index is {last}")]
    Field {
        /// The term.
        term: String,
        /// The number of its field.
        field: u8,
        /// The number of the last text field.
        last: usize,
    },
    /// Words without a field were asked for in a mode that wants all of them.
    #[error(
        "mode `{0}` would want every word in every text field of the index; use mode `or`, or terms with their fields"
    )]
    WordsOfFields(Mode),
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
    /// The boosts of a query's parts are too different.
    #[error(
        "the boosts of the query's parts reach from {smallest} to {largest}, by a factor of {:.0}; at most {MAX_BOOST_RATIO} is allowed, since scores would lose their order beyond; lower the largest or raise the smallest",
        largest / smallest
    )]
    Boosts {
        /// The smallest, with those of the parts around it and of its field.
        smallest: f64,
        /// The largest.
        largest: f64,
    },
    /// A query has too many terms.
    #[error("the query has {0} different terms; at most {MAX_QUERY_TERMS} are allowed")]
    TooManyTerms(usize),
    /// A query tree is too large.
    #[error("the query is too large: {0}")]
    Tree(String),
    /// The mode is for queries of words.
    #[error(
        "mode `{0}` is for words without a syntax; in the syntax, `+` is before what a document must have, and a tree says so itself"
    )]
    ModeOfTree(Mode),
    /// The schema has no such field.
    #[error("there is no field `{name}`{}", near.as_ref().map_or_else(String::new, |near| format!("; did you mean `{near}`?")))]
    UnknownField {
        /// The name.
        name: String,
        /// A name like it.
        near: Option<String>,
    },
    /// Words of an attribute.
    #[error("`{name}` is an attribute and has no words; use a filter for it")]
    NotText {
        /// The name.
        name: String,
    },
    /// A filter of a text field.
    #[error(
        "`{name}` is a text field and has no values to filter, sort or count by; search for its words"
    )]
    NotAttribute {
        /// The name.
        name: String,
    },
    /// A phrase in an index without positions.
    #[error(
        "the index has no positions to find phrases with; build it anew with `--positions`, or search for the words"
    )]
    NoPositions,
    /// A phrase in a field without positions.
    #[error(
        "`{name}` has no positions to find phrases with; build the index anew with `--positions`, or with `\"positions\": true` in its schema"
    )]
    NoPositionsOf {
        /// The field.
        name: String,
    },
    /// A prefix of something else than keywords.
    #[error("`{name}` has no prefixes, since it is no attribute of keywords")]
    Prefix {
        /// The name.
        name: String,
    },
    /// A value is not of the attribute's type.
    #[error("`{value}` cannot be a value of `{name}`; it must be {expected}")]
    Value {
        /// The attribute.
        name: String,
        /// The value.
        value: String,
        /// What a value must be.
        expected: &'static str,
    },
    /// Hits cannot be sorted as asked.
    #[error("hits cannot be sorted: {0}")]
    Sort(String),
    /// Matches cannot be counted by attributes as asked.
    #[error("facets cannot be counted: {0}")]
    Facet(String),
    /// What matches depends on the number of hits.
    #[error(
        "mode `and-or` depends on how many hits are wanted, so its hits cannot be sorted, continued or counted by attributes; use `or` or `and`"
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
    /// Statistics of a collection do not suit the index, which is to be a part of it.
    #[error("the statistics of the collection cannot be used: {0}")]
    Collection(String),
    /// The engine cannot answer such a query.
    #[error("`{engine}` cannot answer the query: {why}")]
    Unsupported {
        /// The engine's name.
        engine: &'static str,
        /// Why it cannot answer.
        why: String,
    },
    /// A device failed or is missing.
    #[error("{source}")]
    Device {
        /// What is to blame.
        fault: Fault,
        /// The device layer's error.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The work had to stop before there was anything to answer with.
    #[error("the time was up, or the request was cancelled, before the query was planned")]
    Stopped,
    /// An engine returned fewer answers than it was given plans, which is a bug.
    #[error("the engine returned no answer to the query")]
    NoAnswer,
}

/// What is to blame for a failure of a device, which determines what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The query, or its batch, asked for more than the device has. Other queries may be answered.
    Query,
    /// The device or its driver failed. The device answers nothing until it is opened again.
    Device,
    /// There is no device, or it is not usable as it is set up, or the index does not fit it.
    Setup,
}

impl ExecError {
    /// What is to blame, if a device is involved.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            ExecError::Device { fault, .. } => Some(*fault),
            _ => None,
        }
    }

    /// Whether a device will fail other queries too.
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

/// A ranking function with its parameters.
fn described(function: &RankingFunction) -> String {
    match function {
        RankingFunction::Bm25 { k1, b }
        | RankingFunction::Okapi { k1, b }
        | RankingFunction::Wakatsuki { k1, b } => format!("{function} with k1 = {k1} and b = {b}"),
        RankingFunction::Cosine | RankingFunction::Impact | RankingFunction::Bm25ByField => {
            function.to_string()
        }
    }
}
