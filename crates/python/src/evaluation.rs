//! Evaluation of runs, and reading of runs and judgements.

use std::collections::HashMap;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use warpseek::eval::{self, Measure, Options, Qrels, Run};

use crate::error::{Failure, Result};

type PerQuery = HashMap<String, Vec<f64>>;

/// Computes measures of a run. Returns the measures over all queries, the measures of each query,
/// the number of queries that count, the number of judged queries that are missing from the run,
/// and the number of queries of the run without judgements.
#[pyfunction]
pub(crate) fn evaluate(
    py: Python<'_>,
    qrels: HashMap<String, HashMap<String, i32>>,
    run: HashMap<String, HashMap<String, f64>>,
    measures: Vec<String>,
    complete: bool,
) -> PyResult<(Vec<f64>, PerQuery, usize, usize, usize)> {
    Ok(py.detach(|| -> Result<_> {
        let measures: Vec<Measure> =
            measures.iter().map(|name| name.parse()).collect::<Result<_, eval::EvalError>>()?;
        let (mut judged, mut found) = (Qrels::default(), Run::default());
        for (query, grades) in &qrels {
            for (document, grade) in grades {
                judged.insert(query, document, *grade);
            }
        }
        for (query, scores) in &run {
            for (document, score) in scores {
                if !score.is_finite() {
                    return Err(Failure::Argument(format!(
                        "the score of `{document}` for query `{query}` is not a finite number"
                    )));
                }
                // A dict has each document once.
                let _ = found.insert(query, document, *score);
            }
        }
        let report = eval::evaluate(&judged, &found, &measures, Options { complete });
        let counts = (report.queries, report.missing_in_run, report.unjudged);
        let per_query = report.per_query.into_iter().collect();
        Ok((report.mean, per_query, counts.0, counts.1, counts.2))
    })?)
}

/// Reads a TREC run.
#[pyfunction]
pub(crate) fn read_run<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
    let run = py.detach(|| Run::read(path)).map_err(Failure::from)?;
    let dict = PyDict::new(py);
    for query in run.queries() {
        let hits = PyDict::new(py);
        for (document, score) in run.ranked(query) {
            hits.set_item(document, score)?;
        }
        dict.set_item(query, hits)?;
    }
    Ok(dict)
}

/// Reads judgements.
#[pyfunction]
pub(crate) fn read_qrels<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
    let qrels = py.detach(|| Qrels::read(path)).map_err(Failure::from)?;
    let dict = PyDict::new(py);
    for query in qrels.queries() {
        let grades = PyDict::new(py);
        for (document, grade) in qrels.judged(query) {
            grades.set_item(document, grade)?;
        }
        dict.set_item(query, grades)?;
    }
    Ok(dict)
}
