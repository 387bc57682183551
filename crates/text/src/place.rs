//! Where a record came from, for messages.

use std::fmt;

/// A file and, where the format has lines, the line a record starts on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file as the user would name it; `stdin` for standard input.
    pub file: String,
    /// The first line of the record, counted from 1; `None` where the record is the whole file.
    pub line: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}
