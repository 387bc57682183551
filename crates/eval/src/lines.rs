//! Numbered lines of a file with columns, so that every error can name its source location.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::EvalError;

/// Reads line after line into the same buffer.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    name: String,
    line: u64,
    buffer: Vec<u8>,
}

impl Lines<BufReader<File>> {
    /// Opens a file; errors refer to it by its path.
    pub(crate) fn open(path: &Path) -> Result<Self, EvalError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Ok(Lines::new(BufReader::new(file), name)),
            Err(source) => Err(EvalError::Open { name, source }),
        }
    }
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R, name: String) -> Self {
        Self { reader, name, line: 0, buffer: Vec::new() }
    }

    /// The next line that is not blank, or `None` at the end.
    ///
    /// Blank lines are skipped, as `trec_eval` does in runs.
    pub(crate) fn next_row(&mut self) -> Result<Option<Row<'_>>, EvalError> {
        loop {
            self.buffer.clear();
            self.line += 1;
            match self.reader.read_until(b'\n', &mut self.buffer) {
                Ok(0) => return Ok(None),
                Ok(_) if self.buffer.trim_ascii().is_empty() => {}
                Ok(_) => break,
                Err(source) => {
                    let (name, line) = (self.name.clone(), self.line);
                    return Err(EvalError::Read { name, line, source });
                }
            }
        }
        let Ok(text) = std::str::from_utf8(&self.buffer) else {
            return Err(EvalError::NotUtf8 { name: self.name.clone(), line: self.line });
        };
        // A byte order mark would otherwise become part of the first query id and hide that query.
        let text = if self.line == 1 { text.trim_start_matches('\u{feff}') } else { text };
        let columns = text.split_ascii_whitespace().collect();
        Ok(Some(Row { name: &self.name, line: self.line, columns }))
    }
}

/// One line, split at white space.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    name: &'a str,
    line: u64,
    pub(crate) columns: Vec<&'a str>,
}

impl Row<'_> {
    /// The source location for errors: the name of the input and the line.
    pub(crate) fn location(&self) -> (String, u64) {
        (self.name.to_owned(), self.line)
    }

    /// The error for a line with the wrong number of columns.
    pub(crate) fn columns_error(&self, expected: &'static str) -> EvalError {
        let (name, line) = self.location();
        EvalError::Columns { name, line, found: self.columns.len(), expected }
    }
}
