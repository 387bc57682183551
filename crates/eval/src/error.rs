//! What can go wrong, with the place where it did.

use std::io;

use crate::Measure;

/// Everything this crate can fail with.
///
/// `name` is the path of the file, or what the caller of `parse` said the input is called; `line`
/// counts from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// The file could not be opened or created.
    #[error("cannot open {name}")]
    Open {
        /// The file.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// Reading stopped short of the end.
    #[error("cannot read {name} at line {line}")]
    Read {
        /// The file.
        name: String,
        /// The line that could not be read.
        line: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A run could not be written.
    #[error("cannot write the run")]
    Write {
        /// What the system said.
        source: io::Error,
    },
    /// A line is not text.
    #[error("{name}:{line}: not valid utf-8")]
    NotUtf8 {
        /// The file.
        name: String,
        /// The line.
        line: u64,
    },
    /// A line has too few or too many columns.
    #[error("{name}:{line}: {found} columns, expected {expected}")]
    Columns {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// How many columns the line has.
        found: usize,
        /// The layouts that would have been right.
        expected: &'static str,
    },
    /// A grade is not a whole number.
    #[error("{name}:{line}: grade {text:?} is not a whole number")]
    Grade {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// What stands in the grade column.
        text: String,
    },
    /// A score is not a number, or is the one number without an order.
    #[error("{name}:{line}: score {text:?} is not a number")]
    Score {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// What stands in the score column.
        text: String,
    },
    /// A run names a document twice for one query.
    #[error("{name}:{line}: document {docid:?} was already listed for query {qid:?}")]
    DuplicateHit {
        /// The file.
        name: String,
        /// The line of the second mention.
        line: u64,
        /// The query.
        qid: String,
        /// The document.
        docid: String,
    },
    /// A document was judged twice for one query, and differently.
    #[error(
        "{name}:{line}: document {docid:?} of query {qid:?} has grade {second} here but {first} before"
    )]
    ConflictingGrade {
        /// The file.
        name: String,
        /// The line of the second judgement.
        line: u64,
        /// The query.
        qid: String,
        /// The document.
        docid: String,
        /// The grade already known.
        first: i32,
        /// The grade on this line.
        second: i32,
    },
    /// A field to be written would not survive being read back.
    #[error(
        "{field} {text:?} cannot be a column of a run: it is empty or has white space in it; give it a name without"
    )]
    Field {
        /// Which column.
        field: &'static str,
        /// What was to be written.
        text: String,
    },
    /// A score to be written is NaN or infinite.
    #[error("score {score} of document {docid:?} for query {qid:?} is not finite")]
    NotFinite {
        /// The query.
        qid: String,
        /// The document.
        docid: String,
        /// The score.
        score: f64,
    },
    /// No measure has this name.
    #[error("unknown measure {text:?}, known are {}", Measure::KNOWN.join(", "))]
    UnknownMeasure {
        /// What was asked for.
        text: String,
    },
    /// The measure exists, its cutoff does not.
    #[error("cutoff of measure {text:?} must be a whole number of at least 1")]
    MeasureCutoff {
        /// What was asked for.
        text: String,
    },
}
