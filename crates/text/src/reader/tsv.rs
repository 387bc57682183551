//! Tab-separated lines: `id<TAB>text` or `id<TAB>title<TAB>text`.
//!
//! Tabs after the second one belong to the text and stay in it.

use super::batch::Record;
use crate::{Document, RecordErrorKind};

/// Parses one line.
pub(super) fn parse<'a>(record: &Record<'a>) -> Result<Document<'a>, RecordErrorKind> {
    let (id, rest) = record.utf8()?.split_once('\t').ok_or(RecordErrorKind::NoTab)?;
    let (title, text) = rest.split_once('\t').unwrap_or(("", rest));
    Ok(Document::new(id, title, text))
}

#[cfg(test)]
mod tests {
    use crate::reader::testing::{errors, ids, read};
    use crate::{Format, RecordErrorKind};

    #[test]
    fn two_and_three_columns() {
        let read = read(Format::Tsv, b"1\tsome text\r\n\n2\tTitle\tmore\ttabs\n3\t");
        let documents: Vec<_> = read.iter().map(|document| document.clone().unwrap()).collect();
        let fields: Vec<_> =
            documents.iter().map(|d| (d.id.as_ref(), d.title.as_ref(), d.text.as_ref())).collect();
        assert_eq!(fields, [("1", "", "some text"), ("2", "Title", "more\ttabs"), ("3", "", "")]);
    }

    #[test]
    fn bad_lines_are_located_and_leave_the_rest() {
        let read = read(Format::Tsv, b"1\ta\nno tab\n\tno id\n\xff\tx\n4\tb\n");
        assert_eq!(ids(&read), ["1", "4"]);
        assert_eq!(
            errors(&read),
            [
                (2, RecordErrorKind::NoTab),
                (3, RecordErrorKind::EmptyId),
                (4, RecordErrorKind::InvalidUtf8 { offset: 0 })
            ]
        );
    }
}
