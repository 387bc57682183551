//! The response to one query.

use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::json;
use warpseek::Response;
use warpseek::plan::Plan;
use warpseek::query::{Facet, FacetCounts, value_as_json};
use warpseek::response::{Explanation, ScorePart};
use warpseek::schema::AttributeValue;
use warpseek::text::Snippet;

use crate::error::Result;
use crate::json::to_python;

/// A text with the ranges of highlighted words, in characters.
pub(crate) type Marked = (String, Vec<(usize, usize)>);

/// A response of the library.
#[pyclass(frozen, module = "warpseek._warpseek")]
pub(crate) struct NativeHits {
    pub(crate) response: Response,
    pub(crate) facets: Vec<Facet>,
}

impl NativeHits {
    fn check(&self, rank: usize) -> PyResult<()> {
        let hits = self.response.hits().len();
        match rank < hits {
            true => Ok(()),
            false => Err(PyIndexError::new_err(format!(
                "there are {hits} hits, but none at rank {rank}"
            ))),
        }
    }
}

#[pymethods]
impl NativeHits {
    fn __len__(&self) -> usize {
        self.response.hits().len()
    }

    fn id(&self, rank: usize) -> PyResult<String> {
        self.check(rank)?;
        Ok(got(self.response.id(rank))?)
    }

    fn score(&self, rank: usize) -> PyResult<f64> {
        self.check(rank)?;
        Ok(self.response.score(rank))
    }

    fn number(&self, rank: usize) -> PyResult<u32> {
        self.check(rank)?;
        Ok(self.response.hits()[rank].doc)
    }

    fn scores<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let scores: Vec<f64> = (0..self.__len__()).map(|rank| self.response.score(rank)).collect();
        scores.into_pyarray(py)
    }

    fn ids(&self) -> PyResult<Vec<String>> {
        (0..self.__len__()).map(|rank| self.id(rank)).collect()
    }

    fn document<'py>(&self, py: Python<'py>, rank: usize) -> PyResult<Bound<'py, PyAny>> {
        self.check(rank)?;
        match got(self.response.document(rank))? {
            Some(document) => to_python(py, &document),
            None => Ok(py.None().into_bound(py)),
        }
    }

    fn explain<'py>(&self, py: Python<'py>, rank: usize) -> PyResult<Bound<'py, PyDict>> {
        self.check(rank)?;
        let explanation = got(self.response.explain(rank))?;
        explained(py, self.response.plan(), &explanation)
    }

    /// Returns the part of a hit's text with the most words of the query, and the ranges of these
    /// words in characters, or `None` if the index stores only ids.
    fn snippet(&self, rank: usize, width: usize) -> PyResult<Option<Marked>> {
        self.check(rank)?;
        if let Some(of_field) = got(self.response.snippets(rank, width))?.into_iter().max_by_key(
            // Of several fields with as many words, the first.
            |part| (part.snippet.highlights.len(), std::cmp::Reverse(part.field.clone())),
        ) {
            return Ok(Some(in_characters(&of_field.snippet)));
        }
        let Some(document) = got(self.response.document(rank))? else { return Ok(None) };
        let part = |name: &str| document.get(name).and_then(|value| value.as_str());
        // If there is no text, readers use the contents.
        let text = part("text").or_else(|| part("contents"));
        let text = [part("title"), text].map(Option::unwrap_or_default).join(" ");
        Ok(Some(in_characters(&self.response.snippet(text.trim(), width))))
    }

    fn matches(&self) -> Option<u64> {
        self.response.matches()
    }

    fn is_complete(&self) -> bool {
        self.response.coverage().is_complete()
    }

    fn searched(&self) -> (u64, u64) {
        self.response.documents_searched()
    }

    fn took(&self) -> f64 {
        self.response.took().as_secs_f64()
    }

    fn generation(&self) -> u64 {
        self.response.generation()
    }

    /// Returns the position of a hit in the order, for the next page.
    fn after(&self, rank: usize) -> PyResult<String> {
        self.check(rank)?;
        Ok(serde_json::Value::from(self.response.sort_values(rank).to_json()).to_string())
    }

    fn facets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for (facet, counts) in self.facets.iter().zip(self.response.facets()) {
            let field = match facet {
                Facet::Values { field, .. } | Facet::Ranges { field, .. } => field,
            };
            let json = match counts {
                FacetCounts::Values { values, other, distinct, missing } => {
                    let value = |(value, count): &(AttributeValue<'_>, u64)| json!({ "value": value_as_json(value), "count": count });
                    let values: Vec<_> = values.iter().map(value).collect();
                    json!({ "field": field, "values": values, "other": other, "distinct": distinct, "missing": missing })
                }
                FacetCounts::Ranges { counts, missing } => {
                    json!({ "field": field, "counts": counts, "missing": missing })
                }
            };
            list.append(to_python(py, &json)?)?;
        }
        Ok(list)
    }
}

/// Converts an error of the library, so that it becomes an exception.
fn got<T>(result: warpseek::Result<T>) -> Result<T> {
    Ok(result?)
}

/// Returns the explanation of a score as a dict. Scores are in the unit of hits.
pub(crate) fn explained<'py>(
    py: Python<'py>,
    plan: &Plan,
    explanation: &Explanation,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("score", plan.real(explanation.score))?;
    dict.set_item("static_score", plan.real(explanation.static_score))?;
    let terms = PyList::empty(py);
    for term in &explanation.terms {
        let entry = PyDict::new(py);
        let field = explanation.fields.iter().find(|field| field.field == term.field);
        entry.set_item("term", &term.term)?;
        entry.set_item("field", field.and_then(|field| field.name.clone()))?;
        entry.set_item("weight", term.query_weight)?;
        entry.set_item("documents", term.df)?;
        entry.set_item("idf", term.idf)?;
        entry.set_item("frequency", term.freq)?;
        entry.set_item("score", plan.real(term.score))?;
        terms.append(entry)?;
    }
    dict.set_item("terms", terms)?;
    let made_of = explanation.made_of.as_ref();
    dict.set_item(
        "made_of",
        made_of.map(|part| made_of_parts(py, plan, explanation, part)).transpose()?,
    )?;
    let fields = PyList::empty(py);
    for field in &explanation.fields {
        let entry = PyDict::new(py);
        entry.set_item("name", field.name.clone())?;
        entry.set_item("length", field.length)?;
        entry.set_item("mean_length", field.mean_length)?;
        fields.append(entry)?;
    }
    dict.set_item("fields", fields)?;
    Ok(dict)
}

/// Returns a part of a score as a dict, with the parts that it consists of.
fn made_of_parts<'py>(
    py: Python<'py>,
    plan: &Plan,
    explanation: &Explanation,
    part: &ScorePart,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("score", plan.real(part.score))?;
    dict.set_item("description", explanation.describe(part))?;
    let parts = part.parts.iter().map(|part| made_of_parts(py, plan, explanation, part));
    dict.set_item("parts", parts.collect::<PyResult<Vec<_>>>()?)?;
    Ok(dict)
}

/// Returns a snippet with the ranges of its words in characters, as Python counts.
pub(crate) fn in_characters(snippet: &Snippet) -> Marked {
    let at = |byte: usize| snippet.text[..byte].chars().count();
    let highlights = snippet.highlights.iter().map(|range| (at(range.start), at(range.end)));
    (snippet.text.clone(), highlights.collect())
}
