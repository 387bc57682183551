//! Numbered lines of a file with columns, so that every error can name its source location.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::EvalError;

/// A reader of lines, all of which use the same buffer.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    name: String,
    line: u64,
    buffer: Vec<u8>,
}

impl Lines<Box<dyn BufRead>> {
    /// Opens a file, which may be compressed with gzip or zstd; errors refer to it by its path.
    pub(crate) fn open(path: &Path) -> Result<Self, EvalError> {
        let name = path.display().to_string();
        match File::open(path).and_then(decompressed) {
            Ok(reader) => Ok(Lines::new(reader, name)),
            Err(source) => Err(EvalError::Open { name, source }),
        }
    }
}

/// Opens the text of a file. The compression is detected from the first bytes, because file names
/// can be wrong.
fn decompressed(file: File) -> io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::new(file);
    Ok(match file.fill_buf()? {
        [0x1f, 0x8b, ..] => Box::new(BufReader::new(MultiGzDecoder::new(file))),
        // Parallel tools begin with a frame to skip.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            Box::new(BufReader::new(zstd::stream::read::Decoder::with_buffer(file)?))
        }
        _ => Box::new(file),
    })
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R, name: String) -> Self {
        Self { reader, name, line: 0, buffer: Vec::new() }
    }

    /// Returns the next line that is not blank, or `None` at the end.
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

/// A line, split at white space.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    name: &'a str,
    line: u64,
    pub(crate) columns: Vec<&'a str>,
}

impl Row<'_> {
    /// Returns the source location for errors: the name of the input and the line.
    pub(crate) fn location(&self) -> (String, u64) {
        (self.name.to_owned(), self.line)
    }

    /// Returns the error for a line with the wrong number of columns.
    pub(crate) fn columns_error(&self, expected: &'static str) -> EvalError {
        let (name, line) = self.location();
        EvalError::Columns { name, line, found: self.columns.len(), expected }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn compressed_files_are_read_as_plain_ones() {
        let text = b"\xef\xbb\xbfq d 1\n\nq e 2\n";
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(text).unwrap();
        let zstd = zstd::encode_all(&text[..], 1).unwrap();
        let dir = tempfile::tempdir().unwrap();
        for bytes in [text.to_vec(), gzip.finish().unwrap(), zstd] {
            let path = dir.path().join("qrels");
            std::fs::write(&path, bytes).unwrap();
            let mut lines = Lines::open(&path).unwrap();
            let mut rows = Vec::new();
            while let Some(row) = lines.next_row().unwrap() {
                rows.push((row.line, row.columns.join(" ")));
            }
            assert_eq!(rows, [(1, "q d 1".to_owned()), (3, "q e 2".to_owned())]);
        }
    }
}
