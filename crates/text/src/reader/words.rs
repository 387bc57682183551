//! Tokenised text: one word per line, with a blank line after each document.
//!
//! Several blank lines count as one. The words stay separated by newlines, which all analyzers
//! treat as white space, so that a document's text borrows from the batch.

use std::borrow::Cow;

use super::batch::{RawBatch, Record};
use super::chunk::without_terminator;
use super::input::Input;
use crate::{Document, RecordErrorKind, TextError};

/// Appends the lines up to the next blank one.
pub(super) fn cut(input: &mut Input, batch: &mut RawBatch) -> Result<bool, TextError> {
    let start = batch.bytes.len();
    let mut first = input.line + 1;
    let mut end = start;
    loop {
        let line_start = batch.bytes.len();
        if !input.read_line(&mut batch.bytes, line_start - start, first)? {
            break;
        }
        let line = without_terminator(&batch.bytes[line_start..]);
        if !line.iter().all(u8::is_ascii_whitespace) {
            end = line_start + line.len();
            continue;
        }
        batch.bytes.truncate(line_start);
        if end > start {
            break;
        }
        first = input.line + 1;
    }
    if end == start {
        return Ok(false);
    }
    batch.push(input, start, end, Some(first));
    Ok(true)
}

/// Parses one document. Its id consists of the file's stem and the ordinal of the document in the
/// file.
pub(super) fn parse<'a>(record: &Record<'a>) -> Result<Document<'a>, RecordErrorKind> {
    let stem = record.source.stem().ok_or(RecordErrorKind::PathNotUtf8)?;
    let text = record.utf8()?;
    let text = match text.contains("\r\n") {
        true => Cow::Owned(text.replace("\r\n", "\n")),
        false => Cow::Borrowed(text),
    };
    Ok(Document::new(format!("{stem}:{}", record.ordinal), "", text))
}

#[cfg(test)]
mod tests {
    use crate::Format;
    use crate::reader::testing::read;

    #[test]
    fn blank_lines_end_documents() {
        let read = read(Format::Words, b"\n\na\nb\r\nc\r\n\r\n \n\nd\n\ne");
        let documents: Vec<_> = read.iter().map(|document| document.clone().unwrap()).collect();
        let found: Vec<_> = documents.iter().map(|d| (d.id.as_ref(), d.text.as_ref())).collect();
        assert_eq!(found, [("input:0", "a\nb\nc"), ("input:1", "d"), ("input:2", "e")]);
    }

    #[test]
    fn no_words_no_documents() {
        assert!(read(Format::Words, b"").is_empty());
        assert!(read(Format::Words, b"\n \r\n\n").is_empty());
    }
}
