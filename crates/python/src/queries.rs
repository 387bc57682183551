//! Queries from Python: text, weighted terms, or rows of a sparse matrix.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString};
use warpseek::query::Query;
use warpseek::{QueryInput, Searcher};

use crate::arrow::Texts;
use crate::documents::weights;
use crate::error::{Failure, Result};

/// The way in which text is read.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    syntax: bool,
}

impl Reading {
    /// Chooses the query syntax if it is requested, and by default if the index has a schema or
    /// positions.
    pub(crate) fn of(searcher: &Searcher, syntax: Option<bool>) -> Self {
        let snapshot = searcher.snapshot();
        let manifest = snapshot.manifest();
        let usual = manifest.schema.is_some() || manifest.positions;
        Reading { syntax: syntax.unwrap_or(usual) }
    }

    fn text(self, text: String) -> QueryInput {
        match self.syntax {
            true => QueryInput::Expression(text),
            false => QueryInput::Text(text),
        }
    }

    /// Converts a query: a string, or terms with weights.
    pub(crate) fn query(self, query: &Bound<'_, PyAny>) -> Result<QueryInput> {
        if let Ok(text) = query.cast::<PyString>() {
            return Ok(self.text(text.to_cow()?.into_owned()));
        }
        if let Ok(terms) = query.cast::<PyDict>() {
            return Ok(QueryInput::Terms(Query::of(weights(terms)?)));
        }
        if let Ok(terms) = query.cast::<PyMapping>() {
            let copy = PyDict::new(query.py());
            copy.update(terms)?;
            return Ok(QueryInput::Terms(Query::of(weights(&copy)?)));
        }
        let kind = query.get_type().name()?;
        let what =
            format!("a query is a string or a dict of terms and weights, not of type {kind}");
        Err(PyTypeError::new_err(what).into())
    }

    /// Converts many queries. An Arrow column is read in place, without Python objects for its
    /// strings.
    pub(crate) fn queries(self, queries: &Bound<'_, PyAny>) -> Result<Vec<QueryInput>> {
        let py = queries.py();
        if let Some(texts) = Texts::of(queries)? {
            return py.detach(|| {
                let texts = texts.values()?.into_iter();
                Ok(texts.map(|text| self.text(text.to_owned())).collect())
            });
        }
        let mut read = Vec::new();
        for query in listed(queries)?.try_iter()? {
            let number = read.len();
            read.push(self.query(&query?).map_err(|failure| numbered(py, failure, number))?);
        }
        Ok(read)
    }
}

/// Returns an object that can be iterated over. An Arrow column whose values are not strings
/// becomes a list.
fn listed<'py>(queries: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if queries.hasattr("__arrow_c_stream__")? || queries.hasattr("__arrow_c_array__")? {
        return queries.py().import("warpseek._sources")?.call_method1("queries", (queries,));
    }
    Ok(queries.clone())
}

/// Adds the number of the query to an exception.
pub(crate) fn numbered(py: Python<'_>, failure: Failure, number: usize) -> Failure {
    let Failure::Python(error) = failure else { return failure };
    let told = format!("query {number}: {}", error.value(py));
    match () {
        () if error.is_instance_of::<PyTypeError>(py) => PyTypeError::new_err(told).into(),
        () if error.is_instance_of::<PyValueError>(py) => PyValueError::new_err(told).into(),
        () => error.into(),
    }
}
