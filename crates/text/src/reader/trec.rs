//! TREC collections: documents between `<DOC>` and `</DOC>`, with SGML-like elements inside.
//!
//! Tags are matched regardless of case. The id is the `<DOCNO>`, the title the first `<TITLE>`,
//! `<HEADLINE>` or `<HEAD>`. Elements that only manage the collection ([`HEADERS`]) are dropped;
//! everything else is text, with blanks in place of the tags.

use super::batch::{RawBatch, Record};
use super::input::Input;
use crate::{Document, RecordErrorKind, TextError};

/// Elements that are dropped with their content; the first one holds the id.
const HEADERS: [&str; 5] = ["docno", "docid", "docoldno", "dochdr", "fileid"];
const TITLES: [&str; 3] = ["title", "headline", "head"];
const CLOSE: &[u8] = b"</doc>";

/// The state of cutting documents from lines. A line may end one document and begin the next.
#[derive(Default)]
pub(super) struct Cutter {
    /// The current line.
    line: Vec<u8>,
    /// Position in the current line.
    at: usize,
    /// True if the current text outside any document has been reported.
    stray: bool,
}

impl Cutter {
    /// Appends the next document, or reports text outside documents, once per stretch.
    pub(super) fn cut(
        &mut self,
        input: &mut Input,
        batch: &mut RawBatch,
    ) -> Result<bool, TextError> {
        loop {
            self.at += self.rest().iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            if opens(self.rest()) {
                self.stray = false;
                return self.cut_document(input, batch).map(|()| true);
            }
            let blank = self.rest().is_empty();
            self.at = self.line.len();
            if !blank && !self.stray {
                self.stray = true;
                batch.push_fault(input, Some(input.line), RecordErrorKind::OutsideDoc);
                return Ok(true);
            }
            let next = input.line + 1;
            if !self.next_line(input, 0, next)? {
                return Ok(false);
            }
        }
    }

    /// Appends the document that opens here. If it is not closed before the next one opens, or
    /// before the file ends, it is a bad record.
    fn cut_document(&mut self, input: &mut Input, batch: &mut RawBatch) -> Result<(), TextError> {
        let first = input.line;
        let start = batch.bytes.len();
        loop {
            let rest = self.rest();
            if let Some(len) = find_tag(rest, CLOSE) {
                batch.bytes.extend_from_slice(&rest[..len]);
                self.at += len + CLOSE.len();
                let end = batch.bytes.len();
                batch.push(input, start, end, Some(first));
                return Ok(());
            }
            batch.bytes.extend_from_slice(rest);
            let used = batch.bytes.len() - start;
            if !self.next_line(input, used, first)? || opens(&self.line) {
                batch.bytes.truncate(start);
                batch.push_fault(input, Some(first), RecordErrorKind::UnclosedDoc);
                return Ok(());
            }
        }
    }

    fn rest(&self) -> &[u8] {
        &self.line[self.at..]
    }

    fn next_line(&mut self, input: &mut Input, used: usize, first: u64) -> Result<bool, TextError> {
        self.line.clear();
        self.at = 0;
        input.read_line(&mut self.line, used, first)
    }
}

/// Returns true if a document opens here: `<DOC>`, or `<DOC` and attributes.
fn opens(line: &[u8]) -> bool {
    line.get(..4).is_some_and(|tag| tag.eq_ignore_ascii_case(b"<doc"))
        && line.get(4).is_some_and(|&next| next == b'>' || next.is_ascii_whitespace())
}

/// Returns the position of the first occurrence of the lower-case `tag` in `bytes`, in any case.
fn find_tag(bytes: &[u8], tag: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes[at..].iter().position(|&byte| byte == b'<')?;
        if bytes[at..].get(..tag.len()).is_some_and(|found| found.eq_ignore_ascii_case(tag)) {
            return Some(at);
        }
        at += 1;
    }
}

/// Parses one document.
pub(super) fn parse<'a>(record: &Record<'a>) -> Result<Document<'a>, RecordErrorKind> {
    let mut scan = Scan { rest: record.utf8()?, unclosed: Vec::new() };
    let (mut id, mut title, mut text) = (None, None, String::new());
    while let Some(piece) = scan.next() {
        match piece {
            Piece::Text(piece) => decode(piece, &mut text),
            Piece::Tag(tag) => {
                blank(&mut text);
                if let Some(name) = HEADERS.into_iter().find(|name| name.eq_ignore_ascii_case(tag))
                {
                    let content = scan.element(name);
                    if name == HEADERS[0] && id.is_none() {
                        id = content.map(|content| plain(content).trim().to_owned());
                    }
                } else if title.is_none()
                    && let Some(name) =
                        TITLES.into_iter().find(|name| name.eq_ignore_ascii_case(tag))
                {
                    title = scan.element(name).map(|content| fold(&plain(content)));
                }
            }
        }
    }
    let id = id.ok_or_else(|| RecordErrorKind::MissingId { seen: String::new() })?;
    Ok(Document::new(id, title.unwrap_or_default(), text.trim().to_owned()))
}

enum Piece<'a> {
    Text(&'a str),
    /// The name of an opening tag; empty for closing tags, comments and declarations.
    Tag(&'a str),
}

/// An iterator over the text and the tags of markup. It remembers failed searches for a closing
/// mark, so that many unclosed marks do not each cost a scan of the rest.
struct Scan<'a> {
    rest: &'a str,
    unclosed: Vec<&'static str>,
}

impl<'a> Scan<'a> {
    fn next(&mut self) -> Option<Piece<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        if let Some(len) = self.tag_len() {
            let tag = self.take(len);
            let name = tag[1..].split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("");
            return Some(Piece::Tag(name));
        }
        // The first character is text even if it is a `<`.
        let from = self.rest.chars().next().map_or(0, char::len_utf8);
        let len = self.rest[from..].find('<').map_or(self.rest.len(), |at| from + at);
        Some(Piece::Text(self.take(len)))
    }

    /// Returns the length of the tag at this position; a `<` that begins no tag is text.
    fn tag_len(&mut self) -> Option<usize> {
        if self.rest.starts_with("<!--") {
            return self.find("-->").map(|at| at + 3);
        }
        match self.rest.as_bytes() {
            [b'<', next, ..] if next.is_ascii_alphabetic() || b"/!?".contains(next) => {
                self.find(">").map(|at| at + 1)
            }
            _ => None,
        }
    }

    fn find(&mut self, mark: &'static str) -> Option<usize> {
        self.find_by(mark, |rest| rest.find(mark))
    }

    fn find_by(
        &mut self,
        mark: &'static str,
        find: impl FnOnce(&str) -> Option<usize>,
    ) -> Option<usize> {
        if self.unclosed.contains(&mark) {
            return None;
        }
        let found = find(self.rest);
        if found.is_none() {
            self.unclosed.push(mark);
        }
        found
    }

    /// Returns the content of the element `name` that has just been opened; its closing tag is
    /// the next piece. An element without an end has no content, and what follows it is text.
    fn element(&mut self, name: &'static str) -> Option<&'a str> {
        let close = format!("</{name}");
        let len = self.find_by(name, |rest| find_tag(rest.as_bytes(), close.as_bytes()))?;
        Some(self.take(len))
    }

    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }
}

/// Returns markup without its tags.
fn plain(markup: &str) -> String {
    let mut scan = Scan { rest: markup, unclosed: Vec::new() };
    let mut out = String::new();
    while let Some(piece) = scan.next() {
        match piece {
            Piece::Text(text) => decode(text, &mut out),
            Piece::Tag(_) => blank(&mut out),
        }
    }
    out
}

fn blank(out: &mut String) {
    if !out.is_empty() && !out.ends_with(char::is_whitespace) {
        out.push(' ');
    }
}

fn fold(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Appends `text` with the common entities decoded; others stay unchanged.
pub(super) fn decode(mut text: &str, out: &mut String) {
    const ENTITIES: [(&str, char); 6] = [
        ("&amp;", '&'),
        ("&lt;", '<'),
        ("&gt;", '>'),
        ("&quot;", '"'),
        ("&#39;", '\''),
        ("&apos;", '\''),
    ];
    while let Some(at) = text.find('&') {
        out.push_str(&text[..at]);
        text = &text[at..];
        let known = ENTITIES.into_iter().find(|(entity, _)| text.starts_with(entity));
        let (entity, decoded) = known.unwrap_or(("&", '&'));
        out.push(decoded);
        text = &text[entity.len()..];
    }
    out.push_str(text);
}

#[cfg(test)]
mod tests {
    use crate::reader::testing::{errors, ids, read};
    use crate::{Document, Format, RecordErrorKind};

    #[test]
    fn a_document() {
        let read = read(
            Format::Trec,
            b"<DOC>\n<DOCNO> AP88-1 </DOCNO>\n<FILEID>junk</FILEID>\r\n<HEAD>A  &amp;\n<b>Title</b></HEAD>\n\
              <HEAD>Second</HEAD>\n<TEXT>\nOne &lt;two&gt; &quot;x&quot; &#39;y&apos; &nbsp; 1 < 2<p>z\n\
              <!-- no > text -->end\n</TEXT>\n</DOC>\n",
        );
        let text = "Second \n\nOne <two> \"x\" 'y' &nbsp; 1 < 2 z\nend";
        assert_eq!(read, [Ok(Document::new("AP88-1", "A & Title", text))]);
    }

    #[test]
    fn case_attributes_and_several_on_a_line() {
        let read = read(
            Format::Trec,
            b"<doc id=1><docno>a</docno>x</doc> <DOC><DOCNO>b</DOCNO><title>t</title>y</DOC>\n\
              <DOC>\n<DOCNO>c</DOCNO>\n<DOCHDR>http://</DOCHDR>\n<dochdr>open</DOC>",
        );
        let documents: Vec<_> = read.into_iter().map(Result::unwrap).collect();
        let expected = [
            Document::new("a", "", "x"),
            Document::new("b", "t", "y"),
            Document::new("c", "", "open"),
        ];
        assert_eq!(documents, expected);
    }

    #[test]
    fn bad_documents_leave_the_rest() {
        let read = read(
            Format::Trec,
            b"\n junk\nmore junk\n<DOC>\n<DOCNO>1</DOCNO>\n</DOC>\njunk\n<DOC>\nlost\n\
              <DOC>\n<DOCNO>2</DOCNO></DOC>\n<DOC>\nno id</DOC>\n<DOC>\n<DOCNO> </DOCNO></DOC>\n<DOC>\n",
        );
        assert_eq!(ids(&read), ["1", "2"]);
        assert_eq!(
            errors(&read),
            [
                (2, RecordErrorKind::OutsideDoc),
                (7, RecordErrorKind::OutsideDoc),
                (8, RecordErrorKind::UnclosedDoc),
                (12, RecordErrorKind::MissingId { seen: String::new() }),
                (14, RecordErrorKind::EmptyId),
                (16, RecordErrorKind::UnclosedDoc),
            ]
        );
    }

    #[test]
    fn unclosed_marks_cost_no_quadratic_time() {
        let mut bytes = b"<DOC><DOCNO>1</DOCNO>".to_vec();
        bytes.extend(b"<dochdr> <title> <!-- <a ".repeat(200_000));
        bytes.extend(b"</DOC>");
        assert_eq!(ids(&read(Format::Trec, &bytes)), ["1"]);
        assert_eq!(read(Format::Trec, &b"<DOC></DOC>".repeat(100_000)).len(), 100_000);
    }
}
