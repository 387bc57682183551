//! A query from a file, whatever its format.

/// A query from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileQuery {
    /// Number of the first line of the query, counted from 1.
    pub line: u64,
    /// Id of the query, or the number of its line.
    pub id: String,
    /// Text of the query; if it is a vector, tokens and weights as a JSON object.
    pub text: String,
}
