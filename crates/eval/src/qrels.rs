//! Relevance judgements.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use std::path::Path;

use crate::EvalError;
use crate::lines::{Lines, Row};

/// The words that the last column of a header line may contain. Any other text that is not a number
/// is an error, so that a damaged first judgement is never taken for a header.
const HEADERS: [&str; 5] = ["score", "grade", "rel", "relevance", "label"];

/// The grades that assessors gave to documents, by query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Qrels {
    queries: BTreeMap<String, HashMap<String, i32>>,
}

impl Qrels {
    /// Reads a file of judgements, which may be compressed with gzip or zstd.
    ///
    /// Four columns are TREC's `qid iteration docid grade`, three are `qid docid grade`; the first
    /// line determines the layout of the whole file. A first line such as `query-id corpus-id
    /// score` is a header and is skipped.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, EvalError> {
        Self::from_lines(Lines::open(path.as_ref())?)
    }

    /// Reads judgements like [`read`](Self::read), from any reader; errors refer to it as `name`.
    pub fn parse(reader: impl BufRead, name: &str) -> Result<Self, EvalError> {
        Self::from_lines(Lines::new(reader, name.to_owned()))
    }

    fn from_lines<R: BufRead>(mut lines: Lines<R>) -> Result<Self, EvalError> {
        let mut qrels = Self::default();
        let mut width = None;
        while let Some(row) = lines.next_row()? {
            let (qid, docid, text) = match row.columns[..] {
                [qid, docid, text] if width.is_none_or(|width| width == 3) => (qid, docid, text),
                [qid, _, docid, text] if width.is_none_or(|width| width == 4) => (qid, docid, text),
                _ => return Err(row.columns_error(expected(width))),
            };
            let first = width.replace(row.columns.len()).is_none();
            if first && HEADERS.iter().any(|header| text.eq_ignore_ascii_case(header)) {
                continue;
            }
            qrels.judge(&row, qid, docid, text)?;
        }
        Ok(qrels)
    }

    fn judge(
        &mut self,
        row: &Row<'_>,
        qid: &str,
        docid: &str,
        text: &str,
    ) -> Result<(), EvalError> {
        let Ok(grade) = text.parse() else {
            let (name, line) = row.location();
            return Err(EvalError::Grade { name, line, text: text.to_owned() });
        };
        match self.insert(qid, docid, grade) {
            Some(first) if first != grade => {
                let (name, line) = row.location();
                let (qid, docid) = (qid.to_owned(), docid.to_owned());
                Err(EvalError::ConflictingGrade { name, line, qid, docid, first, second: grade })
            }
            _ => Ok(()),
        }
    }

    /// Adds a judgement. If the document was already judged, returns its grade, which remains
    /// valid.
    pub fn insert(&mut self, qid: &str, docid: &str, grade: i32) -> Option<i32> {
        let judged = match self.queries.get_mut(qid) {
            Some(judged) => judged,
            None => self.queries.entry(qid.to_owned()).or_default(),
        };
        if let Some(&first) = judged.get(docid) {
            return Some(first);
        }
        judged.insert(docid.to_owned(), grade);
        None
    }

    /// Returns the number of queries with judgements.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Returns true if there are no judgements at all.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// Returns the judged queries, in byte order.
    pub fn queries(&self) -> impl Iterator<Item = &str> {
        self.queries.keys().map(String::as_str)
    }

    /// Returns the judged documents of a query with their grades, in no particular order.
    pub fn judged(&self, qid: &str) -> impl Iterator<Item = (&str, i32)> {
        let judged = self.queries.get(qid).into_iter().flatten();
        judged.map(|(docid, &grade)| (docid.as_str(), grade))
    }

    /// Returns the grade of one document for one query, if it was judged.
    pub fn grade(&self, qid: &str, docid: &str) -> Option<i32> {
        self.queries.get(qid)?.get(docid).copied()
    }

    pub(crate) fn contains(&self, qid: &str) -> bool {
        self.queries.contains_key(qid)
    }
}

fn expected(width: Option<usize>) -> &'static str {
    match width {
        None => "4 (qid iteration docid grade) or 3 (qid docid grade)",
        Some(3) => "3 (qid docid grade) as in the first line",
        Some(_) => "4 (qid iteration docid grade) as in the first line",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Qrels, EvalError> {
        Qrels::parse(text.as_bytes(), "q")
    }

    #[test]
    fn both_layouts_are_read_with_or_without_a_header() {
        let trec = parse("1 0 a 2\n1 0 b -1\n\n2\t0\ta\t0").unwrap();
        let tsv = parse("\u{feff}query-id\tcorpus-id\tscore\r\n1\ta\t2\r\n1\tb\t-1\r\n2\ta\t0\r\n");
        assert_eq!(trec, tsv.unwrap());
        assert_eq!(trec.len(), 2);
        assert_eq!(trec.grade("1", "b"), Some(-1));
        assert_eq!(trec.grade("2", "b"), None);
    }

    #[test]
    fn errors_name_the_line() {
        let text = |input: &str| parse(input).unwrap_err().to_string();
        assert_eq!(text("1 0 a x"), r#"q:1: grade "x" is not a whole number"#);
        assert_eq!(
            text("1 0 a 1\n1 a 1"),
            "q:2: 3 columns, expected 4 (qid iteration docid grade) as in the first line"
        );
        assert_eq!(
            text("1 0"),
            "q:1: 2 columns, expected 4 (qid iteration docid grade) or 3 (qid docid grade)"
        );
        // Only the first line may be a header.
        assert_eq!(text("1 a 1\n\nq d score"), r#"q:3: grade "score" is not a whole number"#);
        assert!(matches!(
            Qrels::parse(&b"1 a 1\n1 \xff 1\n"[..], "q"),
            Err(EvalError::NotUtf8 { line: 2, .. })
        ));
    }

    #[test]
    fn a_repeated_judgement_must_not_contradict_the_first() {
        assert!(parse("1 0 a 1\n1 0 a 1").is_ok());
        assert_eq!(
            parse("1 0 a 1\n1 0 a 2").unwrap_err().to_string(),
            r#"q:2: document "a" of query "1" has grade 2 here but 1 before"#
        );
    }
}
