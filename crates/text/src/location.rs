//! Where a record came from, for messages.

use std::fmt;

/// The source location of a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Location {
    /// A file that is one record.
    File {
        /// The file as the user would name it; `stdin` for standard input.
        file: String,
    },
    /// A record in a file of many.
    Line {
        /// The file as the user would name it; `stdin` for standard input.
        file: String,
        /// The first line of the record, counted from 1.
        line: u64,
    },
    /// A document that the program handed over itself ([`Reader::of_documents`](crate::Reader::of_documents)).
    Document {
        /// Which one, counted from 1.
        number: u64,
    },
}

impl Location {
    /// The first line of the record, counted from 1; `None` if the record is not one of many in a file.
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
