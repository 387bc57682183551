//! Writing a TREC run.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::EvalError;

/// A buffered writer of lines of the form `qid Q0 docid rank score tag`.
///
/// A query without hits leaves no line behind, so a run does not distinguish it from a query that
/// was never asked. Evaluate with [`Options::complete`](crate::Options::complete) where that
/// matters.
///
/// Call [`finish`](Self::finish) at the end: dropping the writer ignores an error of the last
/// write.
#[derive(Debug)]
pub struct RunWriter<W: Write> {
    out: BufWriter<W>,
}

impl RunWriter<File> {
    /// Creates the file, or truncates it.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, EvalError> {
        let path = path.as_ref();
        match File::create(path) {
            Ok(file) => Ok(Self::new(file)),
            Err(source) => Err(EvalError::Open { name: path.display().to_string(), source }),
        }
    }
}

impl<W: Write> RunWriter<W> {
    /// Writes to `out`, which does not need to be buffered.
    pub fn new(out: W) -> Self {
        Self { out: BufWriter::new(out) }
    }

    /// Writes one hit. The score is written so that it reads back as the same number.
    ///
    /// Ids and tags that are empty or contain white space are refused, since they would shift the
    /// columns. Scores that are not finite are refused as well, since not all tools can read them.
    pub fn write(
        &mut self,
        qid: &str,
        docid: &str,
        rank: usize,
        score: f64,
        tag: &str,
    ) -> Result<(), EvalError> {
        for (field, text) in [("query id", qid), ("document id", docid), ("tag", tag)] {
            if text.is_empty() || text.contains(char::is_whitespace) {
                return Err(EvalError::Field { field, text: text.to_owned() });
            }
        }
        if !score.is_finite() {
            let (qid, docid) = (qid.to_owned(), docid.to_owned());
            return Err(EvalError::NotFinite { qid, docid, score });
        }
        // `{:?}` rather than `{}`, which would spell out 1e300 with 300 zeros.
        writeln!(self.out, "{qid} Q0 {docid} {rank} {score:?} {tag}")
            .map_err(|source| EvalError::Write { source })
    }

    /// Flushes the buffer and returns the underlying writer.
    pub fn finish(self) -> Result<W, EvalError> {
        self.out.into_inner().map_err(|error| EvalError::Write { source: error.into_error() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_six_columns() {
        let mut writer = RunWriter::new(Vec::new());
        writer.write("q1", "d1", 1, 12.5, "bm25").unwrap();
        writer.write("q1", "d2", 2, 1e-300, "bm25").unwrap();
        let bytes = writer.finish().unwrap();
        assert_eq!(bytes, b"q1 Q0 d1 1 12.5 bm25\nq1 Q0 d2 2 1e-300 bm25\n");
    }

    #[test]
    fn fields_that_could_not_be_read_back_are_refused() {
        let mut writer = RunWriter::new(Vec::new());
        assert_eq!(
            writer.write("q1", "d 1", 1, 1.0, "t").unwrap_err().to_string(),
            r#"document id "d 1" cannot be a column of a run: it must not be empty or contain white space"#
        );
        assert!(matches!(
            writer.write("q1", "d1", 1, 1.0, ""),
            Err(EvalError::Field { field: "tag", .. })
        ));
        assert!(matches!(
            writer.write("q1", "d1", 1, f64::NAN, "t"),
            Err(EvalError::NotFinite { .. })
        ));
        assert!(writer.finish().unwrap().is_empty());
    }
}
