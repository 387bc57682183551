//! Files of queries: lines of text, JSON lines, and TREC topics.
//!
//! A line is `id<TAB>text`, text alone, whose id is then the number of the line, or an object of
//! JSON as in BEIR. A file that begins with `<top>` or `<topics>` has topics (`topics`).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde_json::{Map, Value};

use super::chunk::{Limits, without_terminator};
use super::config::ReaderConfig;
use super::file_query::FileQuery;
use super::format::{Format, without_compression};
use super::input::Input;
use super::source::{Source, list};
use super::topics::{self, TopicPart};
use crate::{RecordError, RecordErrorKind, TextError};

/// Names of fields with query ids, in order of preference.
const IDS: [&str; 6] = ["_id", "id", "qid", "query_id", "queryid", "topic"];

/// Names of fields with query texts, in order of preference.
const TEXTS: [&str; 4] = ["text", "query", "question", "title"];

/// A reader of query files. It recognises compression (gzip, zstd) by content, and skips a UTF-8
/// byte order mark.
pub struct QueryReader {
    input: Input,
    /// True if the file name says that lines are JSON.
    is_json: bool,
    topics: Option<std::vec::IntoIter<Result<FileQuery, RecordError>>>,
    parts: Vec<TopicPart>,
    /// True if the caller named the parts; otherwise they default to the title.
    names_parts: bool,
    /// True if a line that is not blank has been read.
    begun: bool,
    notice: Option<String>,
    line: Vec<u8>,
}

impl QueryReader {
    /// Opens a file, or standard input for `-`. The query of a topic consists of these parts, or
    /// of the title if none are given.
    pub fn open(path: &Path, parts: &[TopicPart]) -> Result<Self, TextError> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let of_name = Format::of_name(Path::new(without_compression(name)));
        if of_name == Some(Format::Csv) {
            let reason = "queries cannot be read from CSV; write id<TAB>text, or JSON lines with \"id\" and \"text\"";
            return Err(TextError::BadTable { path: path.to_owned(), reason: reason.to_owned() });
        }
        let found = list(&[path.to_owned()], Some(Format::Words), None, &mut Vec::new())?;
        let directory = || TextError::BadTable {
            path: path.to_owned(),
            reason: "it is a directory; name a file of queries".to_owned(),
        };
        let source: Source = match path.is_dir() {
            true => return Err(directory()),
            false => found.into_iter().next().ok_or_else(directory)?,
        };
        let limits = Limits::of(&ReaderConfig::default());
        let input = Input::open(Arc::new(source), limits, &Arc::new(AtomicU64::new(0)))?;
        if let Some(what) = input.foreign {
            return Err(TextError::NotText { path: path.to_owned(), what });
        }
        let names_parts = !parts.is_empty();
        let parts = if parts.is_empty() { vec![TopicPart::Title] } else { parts.to_vec() };
        Ok(QueryReader {
            input,
            is_json: of_name == Some(Format::Jsonl),
            topics: None,
            parts,
            names_parts,
            begun: false,
            notice: None,
            line: Vec::new(),
        })
    }

    /// Takes the message to the user about how the file is read, if there is one.
    pub fn take_notice(&mut self) -> Option<String> {
        self.notice.take()
    }

    /// Returns the next query; `None` at the end of the file. After a line that is not a query,
    /// reading can continue.
    pub fn next_query(&mut self) -> Result<Option<Result<FileQuery, RecordError>>, TextError> {
        loop {
            if let Some(topics) = &mut self.topics {
                return Ok(topics.next());
            }
            let number = self.input.line + 1;
            self.line.clear();
            if !self.input.read_line(&mut self.line, 0, number)? {
                return Ok(None);
            }
            let bytes = without_terminator(&self.line);
            if bytes.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let first = !std::mem::replace(&mut self.begun, true);
            let Ok(text) = str::from_utf8(bytes) else {
                let reason = "the query is not UTF-8; convert the file".to_owned();
                return Ok(Some(Err(self.fault(number, reason))));
            };
            if first
                && text.trim_start().get(..5).is_some_and(|tag| tag.eq_ignore_ascii_case("<doc>"))
            {
                let reason = "the file begins like a TREC collection; expected queries or topics";
                return Ok(Some(Err(self.fault(number, reason.to_owned()))));
            }
            if first && topics::begin(text) {
                let mut all = std::mem::take(&mut self.line);
                self.input.read_all(&mut all)?;
                let source = &self.input.source;
                let topics = topics::parse(&all, number, &self.parts, |line, reason| RecordError {
                    location: source.location(Some(line)),
                    kind: RecordErrorKind::BadQuery { reason },
                });
                self.topics = Some(topics.into_iter());
                continue;
            }
            if first && self.names_parts {
                let name = &self.input.source.name;
                self.notice =
                    Some(format!("{name}: the file has no topics, so topic fields have no effect"));
            }
            if first && is_header(text) {
                let columns = text.replace('\t', "`, `");
                let name = &self.input.source.name;
                let notice = format!(
                    "{name}: the first line names the columns `{columns}` and is not a query"
                );
                self.notice = Some(match self.notice.take() {
                    Some(before) => format!("{before}\n{notice}"),
                    None => notice,
                });
                continue;
            }
            let query = parse(text, number, self.is_json);
            return Ok(Some(query.map_err(|reason| self.fault(number, reason))));
        }
    }

    fn fault(&self, line: u64, reason: String) -> RecordError {
        let location = self.input.source.location(Some(line));
        RecordError { location, kind: RecordErrorKind::BadQuery { reason } }
    }
}

/// Returns true if a line of TSV names its columns.
fn is_header(line: &str) -> bool {
    let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
    let is_one_of = |known: &[&str], cell: &str| known.iter().any(|k| k.eq_ignore_ascii_case(cell));
    matches!(&cells[..], [id, text, ..] if is_one_of(&IDS, id) && is_one_of(&TEXTS, text))
}

/// Parses a line that is not blank.
fn parse(text: &str, line: u64, is_json: bool) -> Result<FileQuery, String> {
    let query = |id: Option<String>, text: &str| {
        let id = id.unwrap_or_else(|| line.to_string());
        FileQuery { line, id, text: text.to_owned() }
    };
    if is_json || text.trim_start().starts_with('{') {
        match serde_json::from_str::<Map<String, Value>>(text) {
            Ok(fields) => return of_json(&fields, text).map(|(id, text)| query(id, &text)),
            Err(error) if is_json => {
                let full = error.to_string();
                let reason =
                    full.rsplit_once(" at line ").map_or(full.as_str(), |(reason, _)| reason);
                return Err(format!("not a JSON object on one line: {reason}"));
            }
            // A plain text query may begin with any character.
            Err(_) => {}
        }
    }
    Ok(match text.split_once('\t') {
        Some((id, text)) => query(Some(id.trim().to_owned()), text),
        None => query(None, text),
    })
}

/// Returns the id and text of a query in JSON.
fn of_json(fields: &Map<String, Value>, line: &str) -> Result<(Option<String>, String), String> {
    let id = IDS.iter().find_map(|name| match fields.get(*name)? {
        Value::String(id) => Some(Ok(id.clone())),
        Value::Number(id) if id.is_i64() || id.is_u64() => Some(Ok(id.to_string())),
        Value::Null => None,
        other => {
            Some(Err(format!("the id of the query is {other}, but must be a string or an integer")))
        }
    });
    let text = TEXTS.iter().find_map(|name| fields.get(*name)?.as_str().map(str::to_owned));
    let vector = || fields.get("vector").filter(|vector| vector.is_object()).map(Value::to_string);
    if let Some(text) = text.or_else(vector) {
        return Ok((id.transpose()?, text));
    }
    // An object of tokens and weights alone is a query as a whole, whatever the tokens are
    // called.
    if fields.values().all(Value::is_number) {
        return Ok((None, line.to_owned()));
    }
    let seen: Vec<&str> = fields.keys().map(String::as_str).collect();
    Err(format!("the query has no \"text\" or \"query\"; fields seen: {}", seen.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    type Found = Vec<Result<(u64, String, String), String>>;

    fn read_as(name: &str, bytes: &[u8], parts: &[TopicPart]) -> (Found, Option<String>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let mut reader = QueryReader::open(&path, parts).unwrap();
        let mut found = Vec::new();
        while let Some(query) = reader.next_query().unwrap() {
            found.push(match query {
                Ok(FileQuery { line, id, text }) => Ok((line, id, text)),
                Err(error) => Err(error.to_string().rsplit_once('/').unwrap().1.to_owned()),
            });
        }
        (found, reader.take_notice())
    }

    fn read(name: &str, bytes: &[u8]) -> Found {
        read_as(name, bytes, &[]).0
    }

    fn own(line: u64, id: &str, text: &str) -> Result<(u64, String, String), String> {
        Ok((line, id.to_owned(), text.to_owned()))
    }

    #[test]
    fn lines_of_text() {
        let bytes = b"\xef\xbb\xbfq1\tapple pie\r\n\n {x y\nid\ttext\n7\ta\tb\n\xff\nlast";
        let found = read("q.tsv", bytes);
        let wanted = [
            own(1, "q1", "apple pie"),
            own(3, "3", " {x y"),
            own(4, "id", "text"),
            own(5, "7", "a\tb"),
            Err("q.tsv:6: the query is not UTF-8; convert the file".to_owned()),
            own(7, "7", "last"),
        ];
        assert_eq!(found, wanted);
        let (found, notice) = read_as("q.tsv", b"\nquery_id\tText\n1\ta\n", &[]);
        assert_eq!(found, [own(3, "1", "a")]);
        assert!(
            notice.unwrap().ends_with("names the columns `query_id`, `Text` and is not a query")
        );
    }

    #[test]
    fn compressed_files() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"q\ta b\n").unwrap();
        assert_eq!(read("q.tsv.gz", &gzip.finish().unwrap()), [own(1, "q", "a b")]);
        let zstd = zstd::encode_all(&b"{\"_id\":\"q\",\"text\":\"a\"}"[..], 1).unwrap();
        assert_eq!(read("q.jsonl.zst", &zstd), [own(1, "q", "a")]);
    }

    #[test]
    fn lines_of_json() {
        let bytes = br#"{"_id": "PLAIN-1", "text": "why \"so\"", "metadata": {"url": "x"}}
{"query_id": 7, "query": "b"}
{"text": "c"}
{"id": 8, "vector": {"slow": 1.5}}
{"text": 0.5, "id": 2}
{"id": "9", "question_text": "d"}
{"id": 1.5, "text": "e"}
"#;
        let found = read("queries", bytes);
        let wanted = [
            own(1, "PLAIN-1", "why \"so\""),
            own(2, "7", "b"),
            own(3, "3", "c"),
            own(4, "8", "{\"slow\":1.5}"),
            own(5, "5", "{\"text\": 0.5, \"id\": 2}"),
        ];
        assert_eq!(found[..5], wanted);
        let error = found[5].clone().unwrap_err();
        assert!(
            error.starts_with("queries:6: ") && error.ends_with("fields seen: id, question_text"),
            "{error}"
        );
        assert!(found[6].is_err());
        assert!(read("q.jsonl", b"plain\n")[0].is_err());
    }

    #[test]
    fn what_is_no_file_of_queries_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = |path: &Path| QueryReader::open(path, &[]).err().unwrap().to_string();
        for (name, bytes, says) in [
            ("q.csv", &b"id,text\n"[..], "CSV"),
            ("q.pdf", b"%PDF-1.7 ...", "a PDF file"),
            ("q.txt", b"\xff\xfeq\0", "UTF-16"),
        ] {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            assert!(open(&path).contains(says), "{name}");
        }
        assert!(
            open(dir.path()).contains("directory")
                && open(Path::new("/no/q")).contains("no such file")
        );
    }

    #[test]
    fn topics() {
        let bytes = b"<top>\n<num> Number: 051\n<title> Airbus &amp; Boeing\n\n<desc> Description:\nWho pays\nwhat?\n\
            <narr> Narrative: Long.\n</top>\n<top>\n<num> Number: 52\n<title>Topic: Sanctions</title>\n</top>\n\
            <top><title>x</top>";
        let (found, _) = read_as("topics.txt", bytes, &[]);
        assert_eq!(found[..2], [own(1, "51", "Airbus & Boeing"), own(10, "52", "Sanctions")]);
        assert!(found[2].as_ref().unwrap_err().contains("<num>"), "{found:?}");
        let (found, _) = read_as("topics.txt", bytes, &[TopicPart::Title, TopicPart::Desc]);
        assert_eq!(found[0], own(1, "51", "Airbus & Boeing Who pays what?"));
        let error = found[1].clone().unwrap_err();
        assert!(error.starts_with("topics.txt:10: topic 52 has no desc"), "{error}");
        let (lines, notice) = read_as("q.tsv", b"1\tapple\n", &[TopicPart::Desc]);
        assert_eq!(lines, [own(1, "1", "apple")]);
        assert!(notice.unwrap().contains("no topics"));
        let xml = b"<?xml version=\"1.0\"?>\n<topics task=\"x\">\n <topic number=\"1\" type=\"faceted\">\n\
            <query>covid</query>\n<question>why?</question></topic>\n<topic number='a-2'>plain text</topic></topics>";
        assert_eq!(read("t.xml", xml), [own(3, "1", "covid"), own(6, "a-2", "plain text")]);
        assert!(read("t.xml", b"<topics>\n</topics>")[0].is_err());
    }
}
