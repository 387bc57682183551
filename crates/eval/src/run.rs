//! The results of a system, by query.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use std::path::Path;

use crate::EvalError;
use crate::lines::{Lines, Row};

const COLUMNS: &str = "6 (qid Q0 docid rank score tag)";

/// The hits that a system returned for each query.
///
/// Scores are kept as `f32` because `trec_eval` 9 (and therefore `pytrec_eval`) does so: two scores
/// that differ only beyond that precision tie there, so they have to tie here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    queries: BTreeMap<String, HashMap<String, f32>>,
}

impl Run {
    /// Reads a TREC run, `qid Q0 docid rank score tag`. The rank column is ignored; hits are
    /// ordered by score.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, EvalError> {
        Self::from_lines(Lines::open(path.as_ref())?)
    }

    /// Reads a run like [`read`](Self::read), from any reader; errors refer to it as `name`.
    pub fn parse(reader: impl BufRead, name: &str) -> Result<Self, EvalError> {
        Self::from_lines(Lines::new(reader, name.to_owned()))
    }

    fn from_lines<R: BufRead>(mut lines: Lines<R>) -> Result<Self, EvalError> {
        let mut run = Self::default();
        while let Some(row) = lines.next_row()? {
            run.hit(&row)?;
        }
        Ok(run)
    }

    fn hit(&mut self, row: &Row<'_>) -> Result<(), EvalError> {
        let [qid, _, docid, _, text, _] = row.columns[..] else {
            return Err(row.columns_error(COLUMNS));
        };
        let score = text.parse::<f64>().ok().filter(|score| !score.is_nan());
        let Some(score) = score else {
            let (name, line) = row.location();
            return Err(EvalError::Score { name, line, text: text.to_owned() });
        };
        if self.insert(qid, docid, score) {
            return Ok(());
        }
        let (name, line) = row.location();
        Err(EvalError::DuplicateHit { name, line, qid: qid.to_owned(), docid: docid.to_owned() })
    }

    /// Adds a hit. Returns `false` and changes nothing if the query already has this document or if
    /// the score is NaN.
    #[must_use]
    pub fn insert(&mut self, qid: &str, docid: &str, score: f64) -> bool {
        if score.is_nan() {
            return false;
        }
        let query = match self.queries.get_mut(qid) {
            Some(query) => query,
            None => self.queries.entry(qid.to_owned()).or_default(),
        };
        if query.contains_key(docid) {
            return false;
        }
        query.insert(docid.to_owned(), score as f32);
        true
    }

    /// Returns the number of queries with results.
    pub fn len(&self) -> usize {
        self.queries.len()
    }

    /// Returns true if there are no results at all.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// Returns the queries with results, in byte order.
    pub fn queries(&self) -> impl Iterator<Item = &str> {
        self.queries.keys().map(String::as_str)
    }

    /// Returns the hits of a query as `trec_eval` ranks them: by descending score, and ties by
    /// **descending** bytes of the document id. The order in which the system listed tied hits is
    /// ignored.
    pub fn ranked(&self, qid: &str) -> Vec<(&str, f32)> {
        let hits = self.queries.get(qid).into_iter().flatten();
        let mut hits: Vec<_> = hits.map(|(docid, &score)| (docid.as_str(), score)).collect();
        hits.sort_unstable_by(|a, b| {
            // Not `total_cmp`, because positive and negative zero tie in C. `insert` has refused
            // NaN.
            b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal).then_with(|| b.0.cmp(a.0))
        });
        hits
    }

    pub(crate) fn contains(&self, qid: &str) -> bool {
        self.queries.contains_key(qid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Run, EvalError> {
        Run::parse(text.as_bytes(), "r")
    }

    fn order(text: &str) -> Vec<String> {
        let run = parse(text).unwrap();
        run.ranked("1").into_iter().map(|(docid, _)| docid.to_owned()).collect()
    }

    #[test]
    fn hits_rank_by_score_and_ties_by_descending_id() {
        assert_eq!(order("1 Q0 a 1 1 t\n1 Q0 b 2 2e0 t\n1 Q0 c 3 1.0 t\n"), ["b", "c", "a"]);
        assert_eq!(
            order("1 Q0 d9 1 1 t\n1 Q0 d10 2 1 t\n1 Q0 \u{e9} 3 1 t"),
            ["\u{e9}", "d9", "d10"]
        );
    }

    #[test]
    fn scores_equal_in_single_precision_tie() {
        assert_eq!(order("1 Q0 a 1 1.000000001 t\n1 Q0 b 2 1 t"), ["b", "a"]);
        assert_eq!(order("1 Q0 a 1 1.000001 t\n1 Q0 b 2 1 t"), ["a", "b"]);
        assert_eq!(order("1 Q0 a 1 0.0 t\n1 Q0 b 2 -0.0 t"), ["b", "a"]);
    }

    #[test]
    fn errors_name_the_line() {
        let text = |input: &str| parse(input).unwrap_err().to_string();
        assert_eq!(
            text("1 Q0 a 1 2 t\n\n1 Q0 b 1 2"),
            "r:3: 5 columns, expected 6 (qid Q0 docid rank score tag)"
        );
        assert_eq!(text("1 Q0 a 1 high t"), r#"r:1: score "high" is not a number"#);
        assert_eq!(text("1 Q0 a 1 NaN t"), r#"r:1: score "NaN" is not a number"#);
        assert_eq!(
            text("1 Q0 a 1 2 t\n2 Q0 a 1 2 t\n1 Q0 a 2 1 t"),
            r#"r:3: document "a" was already listed for query "1""#
        );
    }
}
