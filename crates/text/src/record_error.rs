//! Errors in a single record. The records after it can still be read.

use warpseek_core::limits::MAX_ID_BYTES;

use crate::Location;

/// An error in a record, and the location of the record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {kind}")]
pub struct RecordError {
    /// Location of the start of the record.
    pub location: Location,
    /// Description of the error.
    pub kind: RecordErrorKind,
}

/// The kinds of errors in records. Each message describes the problem and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordErrorKind {
    /// The bytes are not UTF-8.
    #[error("the record is not valid UTF-8 from byte {offset} on; convert the input to UTF-8")]
    InvalidUtf8 {
        /// Offset of the first invalid byte from the start of the record.
        offset: usize,
    },
    /// The file contains a NUL byte, so it is not text.
    #[error("the file has a NUL byte at offset {offset}, so it is not text; exclude it")]
    NulByte {
        /// Offset of the first NUL byte.
        offset: usize,
    },
    /// The path of the file cannot be an id.
    #[error("the path is not valid UTF-8 and cannot serve as an id; rename the file")]
    PathNotUtf8,
    /// The line is not one JSON object.
    #[error("not a JSON object on one line: {0}")]
    Json(String),
    /// There is no id.
    #[error("no id{}", without_id(seen))]
    MissingId {
        /// Names of the fields of the record; empty if it has none.
        seen: String,
    },
    /// The id is the empty string.
    #[error("the id is empty; give each record an id of at least one character")]
    EmptyId,
    /// The id is longer than [`MAX_ID_BYTES`].
    #[error("the id has {len} bytes, the limit is {MAX_ID_BYTES}; shorten it")]
    IdTooLong {
        /// Length of the id in bytes.
        len: usize,
    },
    /// A field has the wrong type.
    #[error("field \"{field}\": {reason}")]
    BadField {
        /// Name of the field.
        field: String,
        /// Description of what was found and what was expected.
        reason: String,
    },
    /// The static score is not a number, not finite, or negative.
    #[error("static score \"{field}\": {reason}; it must be a finite number, zero or more")]
    BadStaticScore {
        /// Name of the field that holds the score.
        field: String,
        /// Description of what was found.
        reason: String,
    },
    /// The learned sparse vector is not an object of tokens and weights.
    #[error("vector: {reason}; it must map each token to one number of at least 0")]
    BadVector {
        /// Description of what was found.
        reason: String,
    },
    /// A file has no readable text.
    #[error("the file is {what}, or exclude it")]
    NotText {
        /// Description of the file, and what to do with it.
        what: &'static str,
    },
    /// A row of a table has more or fewer cells than there are columns.
    #[error(
        "the row has {found} cells, but there are {expected} columns; quote cells that contain separators or quotes"
    )]
    Cells {
        /// Number of cells in the row.
        found: usize,
        /// Number of columns that the first line names.
        expected: usize,
    },
    /// A quote in a table is not closed before the file ends.
    #[error(
        "a quote in this row is not closed before the end of the file; close it, or double quotes inside cells"
    )]
    UnclosedQuote,
    /// A line is not a query.
    #[error("{reason}")]
    BadQuery {
        /// Description of the problem and how to fix it.
        reason: String,
    },
    /// A TSV line has no tab.
    #[error("the line has no tab; write id<TAB>text or id<TAB>title<TAB>text")]
    NoTab,
    /// A `<DOC>` has no `</DOC>`.
    #[error("<DOC> without </DOC>; close it before the next <DOC> and before the end of the file")]
    UnclosedDoc,
    /// A TREC file has text outside its documents.
    #[error("text outside <DOC> and </DOC>; put it inside a document or remove it")]
    OutsideDoc,
}

/// Returns the rest of the message about a record without an id.
fn without_id(seen: &str) -> String {
    match seen {
        "" => "; give each record an \"id\" (a <DOCNO> in TREC files)".to_owned(),
        seen => format!(
            "; fields seen: {seen}; give each record an \"id\", or name the field that has it (--id-field, in Python id_field)"
        ),
    }
}
