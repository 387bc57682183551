//! Answers in the form of bm25s: the same number of documents for each query, some of which may
//! not match.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString};
use warpseek::QueryInput;
use warpseek::query::Query;

use crate::index::NativeIndex;
use crate::options::Asking;
use crate::queries::numbered;
use crate::results::NativeResults;
use crate::search::many;

/// Numbers and scores of documents, query by query.
type Rows<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<f64>>);

/// Returns the best `k` documents of each list of tokens, with scores multiplied by `unit`. If
/// fewer match, others follow with a score of 0, in ascending order. With a mask, the score of
/// each document is multiplied by its entry. Numbers among the tokens are looked up in `words`,
/// if it is given.
#[pyfunction]
#[pyo3(signature = (index, queries, words, k, asking, unit, mask, report))]
#[expect(clippy::too_many_arguments, reason = "they are the keywords of the call")]
pub(crate) fn retrieve_tokens<'py>(
    py: Python<'py>,
    index: &NativeIndex,
    queries: &Bound<'py, PyAny>,
    words: Option<&Bound<'py, PyDict>>,
    k: usize,
    mut asking: Asking,
    unit: f64,
    mask: Option<PyReadonlyArray1<'py, f64>>,
    report: Option<Py<PyAny>>,
) -> PyResult<Rows<'py>> {
    let searcher = index.searcher(py)?;
    let documents = searcher.snapshot().doc_limit() as usize;
    let mask = mask.map(|mask| mask.as_array().to_vec());
    // With a mask, any match may be among the best.
    asking.k = if mask.is_some() { documents } else { k };
    let mut read = Vec::new();
    for tokens in queries.try_iter()? {
        let query = tokens.and_then(|tokens| query(&tokens, words));
        read.push(query.map_err(|error| PyErr::from(numbered(py, error.into(), read.len())))?);
    }
    let found = many(py, &searcher, &asking, read, report.as_ref())?;
    found.check(py)?;
    let (docs, scores) = py.detach(|| Filled::of(&found, k, documents, unit, mask.as_deref()));
    Ok((docs.into_pyarray(py), scores.into_pyarray(py)))
}

/// Converts the tokens of a query. A token counts as often as it occurs.
fn query(tokens: &Bound<'_, PyAny>, words: Option<&Bound<'_, PyDict>>) -> PyResult<QueryInput> {
    let mut terms = Vec::new();
    for token in tokens.try_iter()? {
        let token = token?;
        if let Ok(text) = token.cast::<PyString>() {
            terms.push(text.to_cow()?.into_owned());
        } else if token.is_instance_of::<PyInt>() || token.hasattr("__index__")? {
            terms.push(word(&token, words)?);
        } else {
            let kind = token.get_type().name()?;
            let what = format!("a token must be a string or its number, not of type {kind}");
            return Err(PyTypeError::new_err(what));
        }
    }
    // The empty token represents a text without tokens.
    let terms = terms.into_iter().filter(|term| !term.is_empty()).map(|term| (term, 1.0));
    Ok(QueryInput::Terms(Query::of(terms)))
}

/// Returns the token that a number represents.
fn word(number: &Bound<'_, PyAny>, words: Option<&Bound<'_, PyDict>>) -> PyResult<String> {
    let Some(words) = words else { return number.str()?.extract() };
    match words.get_item(number)? {
        Some(word) => word.extract(),
        None => Err(PyValueError::new_err(format!(
            "there is no token for the number {number}; the vocabulary has {} tokens",
            words.len()
        ))),
    }
}

/// The rows of an answer under construction.
struct Filled {
    docs: Vec<i64>,
    scores: Vec<f64>,
}

impl Filled {
    fn of(
        found: &NativeResults,
        k: usize,
        documents: usize,
        unit: f64,
        mask: Option<&[f64]>,
    ) -> (Vec<i64>, Vec<f64>) {
        let room = found.queries() * k;
        let mut filled =
            Filled { docs: Vec::with_capacity(room), scores: Vec::with_capacity(room) };
        let mut taken = Vec::new();
        for query in 0..found.queries() {
            let hits = found.hits(query).map(|(doc, score)| (doc as usize, score * unit));
            match mask {
                None => filled.extend(hits),
                Some(mask) => {
                    let mut hits: Vec<_> =
                        hits.map(|(doc, score)| (doc, score * mask[doc])).collect();
                    // NaN comes last.
                    hits.sort_by(|a, b| {
                        let order = b.1.partial_cmp(&a.1);
                        order.unwrap_or_else(|| a.1.is_nan().cmp(&b.1.is_nan()))
                    });
                    filled.extend(hits.into_iter().take(k));
                }
            }
            filled.pad(query * k, (query + 1) * k, documents, &mut taken);
        }
        (filled.docs, filled.scores)
    }

    fn extend(&mut self, hits: impl Iterator<Item = (usize, f64)>) {
        for (doc, score) in hits {
            self.docs.push(doc as i64);
            self.scores.push(score);
        }
    }

    /// Pads a row with the first documents that are not in it.
    fn pad(&mut self, start: usize, end: usize, documents: usize, taken: &mut Vec<bool>) {
        let missing = end - self.docs.len();
        if missing == 0 {
            return;
        }
        // Among as many documents as the row has and lacks together, enough are not in it.
        let first = documents.min(end - start + (end - start - missing));
        taken.clear();
        taken.resize(first, false);
        for &doc in &self.docs[start..] {
            if let Some(taken) = taken.get_mut(doc as usize) {
                *taken = true;
            }
        }
        let others = taken.iter().enumerate().filter(|(_, taken)| !**taken);
        self.docs.extend(others.take(missing).map(|(doc, _)| doc as i64));
        self.scores.resize(end, 0.0);
    }
}
