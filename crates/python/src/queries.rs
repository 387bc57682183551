//! Queries from Python: text, weighted terms, or rows of a sparse matrix.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use warpseek::{Query, QueryInput, Searcher};

use crate::documents::weights;
use crate::error::Result;

/// How text is read.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    syntax: bool,
}

impl Reading {
    /// In the syntax if that is asked for, or if the index has a schema or positions.
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

    /// A string, or terms with weights.
    pub(crate) fn query(self, query: &Bound<'_, PyAny>) -> Result<QueryInput> {
        if let Ok(text) = query.cast::<PyString>() {
            return Ok(self.text(text.to_cow()?.into_owned()));
        }
        if let Ok(terms) = query.cast::<PyDict>() {
            return Ok(QueryInput::Terms(Query::of(weights(terms)?)));
        }
        let kind = query.get_type().name()?;
        let what =
            format!("a query is a string or a dict of terms and weights, not of type {kind}");
        Err(PyTypeError::new_err(what).into())
    }

    /// Several of them.
    pub(crate) fn queries(self, queries: &Bound<'_, PyAny>) -> Result<Vec<QueryInput>> {
        queries.try_iter()?.map(|query| self.query(&query?)).collect()
    }
}
