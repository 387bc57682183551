//! Errors, with the source location they refer to.

use std::io;

/// An error of this crate.
///
/// `name` is the path of the file, or the name that the caller of `parse` gave to the input; `line`
/// counts from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// The file could not be opened or created.
    #[error("cannot open {name}")]
    Open {
        /// The file.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file could not be read to its end.
    #[error("cannot read {name} at line {line}")]
    Read {
        /// The file.
        name: String,
        /// The line that could not be read.
        line: u64,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A run could not be written.
    #[error("cannot write the run")]
    Write {
        /// The error of the operating system.
        source: io::Error,
    },
    /// A line is not valid UTF-8.
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
        /// The number of columns in the line.
        found: usize,
        /// The accepted layouts.
        expected: &'static str,
    },
    /// A grade is not a whole number.
    #[error("{name}:{line}: grade {text:?} is not a whole number")]
    Grade {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// The text in the grade column.
        text: String,
    },
    /// A score is not a number, or is NaN, which has no order.
    #[error("{name}:{line}: score {text:?} is not a number")]
    Score {
        /// The file.
        name: String,
        /// The line.
        line: u64,
        /// The text in the score column.
        text: String,
    },
    /// A run lists a document twice for the same query.
    #[error("{name}:{line}: document {docid:?} was already listed for query {qid:?}")]
    DuplicateHit {
        /// The file.
        name: String,
        /// The line of the second occurrence.
        line: u64,
        /// The query.
        qid: String,
        /// The document.
        docid: String,
    },
    /// A document was judged twice for the same query, with different grades.
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
        /// The grade read earlier.
        first: i32,
        /// The grade on this line.
        second: i32,
    },
    /// A field to be written could not be read back.
    #[error(
        "{field} {text:?} cannot be a column of a run: it must not be empty or contain white space"
    )]
    Field {
        /// The name of the column.
        field: &'static str,
        /// The text to be written.
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
    /// There is no measure with this name.
    #[error("unknown measure {text:?}; the measures are {}", known.join(", "))]
    UnknownMeasure {
        /// The requested name.
        text: String,
        /// Names of all measures.
        known: &'static [&'static str],
    },
    /// The measure exists, but its cutoff is invalid.
    #[error("cutoff of measure {text:?} must be a whole number of at least 1")]
    MeasureCutoff {
        /// The requested name.
        text: String,
    },
}
