//! What is wrong with one record; the records after it can still be read.

use warpseek_core::limits::MAX_ID_BYTES;

use crate::Location;

/// A bad record and where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {kind}")]
pub struct RecordError {
    /// Where the record starts.
    pub location: Location,
    /// What is wrong.
    pub kind: RecordErrorKind,
}

/// The ways a record can be bad. Each message says what is wrong and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordErrorKind {
    /// The bytes are not UTF-8.
    #[error("not valid UTF-8 from byte {offset} of the record on; convert the input to UTF-8")]
    InvalidUtf8 {
        /// The first bad byte, counted from the start of the record.
        offset: usize,
    },
    /// The file holds a NUL byte, so it is not text.
    #[error("a NUL byte at {offset}, so this is not a text file; leave it out of the tree")]
    NulByte {
        /// The first NUL byte.
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
        /// The fields that the record has, if it has any.
        seen: String,
    },
    /// The id is the empty string.
    #[error("the id is empty; give each record an id of at least one character")]
    EmptyId,
    /// The id is longer than [`MAX_ID_BYTES`].
    #[error("the id has {len} bytes, the limit is {MAX_ID_BYTES}; shorten it")]
    IdTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// A field has the wrong type.
    #[error("field \"{field}\": {reason}")]
    BadField {
        /// The field.
        field: String,
        /// What was found and what is wanted.
        reason: String,
    },
    /// The static score is no number, not finite, or negative.
    #[error("static score \"{field}\": {reason}; it must be a finite number, zero or more")]
    BadStaticScore {
        /// The field that holds it.
        field: String,
        /// What was found.
        reason: String,
    },
    /// The learned sparse vector is not an object of tokens and weights.
    #[error("vector: {reason}; it must map each token, once, to a number of zero or more")]
    BadVector {
        /// What was found.
        reason: String,
    },
    /// A file is of a kind that has no text to read.
    #[error("this is {what}, or leave it out")]
    NotText {
        /// What it is, and what to do with it.
        what: &'static str,
    },
    /// A row of a table has more or fewer cells than there are columns.
    #[error(
        "a row of {found} cells under {expected} columns; quote cells that have separators or quotes in them"
    )]
    Cells {
        /// The cells of the row.
        found: usize,
        /// The columns that the first line names.
        expected: usize,
    },
    /// A quote in a table is not closed before the file ends.
    #[error(
        "a quote opens in this row and is not closed before the end of the file; close it, or double quotes inside of cells"
    )]
    UnclosedQuote,
    /// A line is no query.
    #[error("{reason}")]
    BadQuery {
        /// Why not, and what to do.
        reason: String,
    },
    /// A TSV line has no tab.
    #[error("no tab in the line; write id, tab, text or id, tab, title, tab, text")]
    NoTab,
    /// A `<DOC>` has no `</DOC>`.
    #[error("<DOC> without </DOC>; close it before the next <DOC> and before the end of the file")]
    UnclosedDoc,
    /// A TREC file has text outside its documents.
    #[error("text outside <DOC> and </DOC>; put it inside a document or remove it")]
    OutsideDoc,
}

/// The rest of the message about a record without id.
fn without_id(seen: &str) -> String {
    match seen {
        "" => "; give each record an \"id\" (a <DOCNO> in TREC files)".to_owned(),
        seen => format!(
            "; fields seen: {seen}; give each record an \"id\", or name the field that has it (--id-field, in Python id_field)"
        ),
    }
}
