//! Plain text files: one file is one document.
//!
//! The id is the path below the given directory, the title is the file name.

use super::batch::{RawBatch, Record};
use super::input::Input;
use crate::{Document, RecordErrorKind, TextError};

/// Appends the whole file as one record, even if it is empty.
pub(super) fn cut(input: &mut Input, batch: &mut RawBatch) -> Result<bool, TextError> {
    if input.records > 0 {
        return Ok(false);
    }
    if let Some(what) = input.foreign {
        batch.push_fault(input, None, RecordErrorKind::NotText { what });
        return Ok(true);
    }
    let start = batch.bytes.len();
    input.read_all(&mut batch.bytes)?;
    let end = batch.bytes.len();
    batch.push(input, start, end, None);
    Ok(true)
}

/// Parses one file.
pub(super) fn parse<'a>(record: &Record<'a>) -> Result<Document<'a>, RecordErrorKind> {
    let id = record.source.relative.as_deref().ok_or(RecordErrorKind::PathNotUtf8)?;
    let text = record.utf8()?;
    if let Some(offset) = record.bytes.iter().position(|&byte| byte == 0) {
        return Err(RecordErrorKind::NulByte { offset });
    }
    let title = id.rsplit('/').next().unwrap_or(id);
    Ok(Document::new(id, title, text))
}
