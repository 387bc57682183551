//! The location of a record, for messages.

use std::fmt;

/// The location of a record in the input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Location {
    /// A file that is one record.
    File {
        /// Name of the file as the user would write it; `stdin` for standard input.
        file: String,
    },
    /// A record in a file with several records.
    Line {
        /// Name of the file as the user would write it; `stdin` for standard input.
        file: String,
        /// First line of the record, counted from 1.
        line: u64,
    },
    /// A document that the program passed to
    /// [`Reader::of_documents`](crate::Reader::of_documents).
    Document {
        /// Number of the document, counted from 1.
        number: u64,
    },
}

impl Location {
    /// Returns the first line of the record, counted from 1; `None` if the record is a whole file
    /// or comes from memory.
    pub fn line(&self) -> Option<u64> {
        match self {
            Location::Line { line, .. } => Some(*line),
            Location::File { .. } | Location::Document { .. } => None,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::File { file } => f.write_str(file),
            Location::Line { file, line } => write!(f, "{file}:{line}"),
            Location::Document { number } => write!(f, "document {number}"),
        }
    }
}
