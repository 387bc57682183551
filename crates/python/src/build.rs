//! Building an index from files, from an iterator, or from a matrix.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator};
use warpseek::index::{BuildReport, Phase};
use warpseek::text::STATIC_FIELD;
use warpseek::{Document, Index, Progress};

use crate::documents::{Fields, Rows, feed};
use crate::error::Failure;
use crate::interrupt::interruptible;
use crate::options::Building;

/// Calls the function that reports progress, if there is one.
pub(crate) fn told(
    py: Python<'_>,
    report: Option<&Py<PyAny>>,
    progress: &Progress,
) -> PyResult<()> {
    let Some(report) = report else { return Ok(()) };
    let phase = match progress.phase() {
        Phase::Reading | Phase::Generating => "reading",
        Phase::Ordering => "ordering",
        Phase::Merging => "merging",
        Phase::Committing => "committing",
    };
    report.call1(py, (phase, progress.documents()))?;
    Ok(())
}

/// Builds an index from files.
#[pyfunction]
pub(crate) fn build_files<'py>(
    py: Python<'py>,
    path: PathBuf,
    inputs: Vec<PathBuf>,
    building: Building,
    report: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = building.options()?;
    let progress = Progress::default();
    let outcome = interruptible(
        py,
        || progress.cancel(),
        |py| told(py, report.as_ref(), &progress),
        || Index::build(path, &inputs, &options, &progress),
    )?;
    built(py, &outcome.map_err(Failure::from)?.1)
}

/// Builds an index from the items of an iterator.
#[pyfunction]
pub(crate) fn build_documents<'py>(
    py: Python<'py>,
    path: PathBuf,
    documents: &Bound<'py, PyIterator>,
    building: Building,
    id_field: String,
    vectors: bool,
    report: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = building.options()?;
    let static_score = building.static_field.unwrap_or_else(|| STATIC_FIELD.to_owned());
    let fields = Fields { id: id_field, static_score, vectors };
    let progress = Arc::new(Progress::default());
    let tell = |py: Python<'_>| told(py, report.as_ref(), &progress);
    let outcome = feed(documents, &fields, &progress, &tell, |feed| {
        Ok(Index::build_from_documents(path, feed, &options, &progress)?.1)
    })?;
    built(py, &outcome)
}

/// Builds an index from the rows of a CSR matrix.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "a matrix has several arrays")]
pub(crate) fn build_rows<'py>(
    py: Python<'py>,
    path: PathBuf,
    starts: PyReadonlyArray1<'py, i64>,
    columns: PyReadonlyArray1<'py, i64>,
    values: PyReadonlyArray1<'py, f64>,
    tokens: Option<Vec<String>>,
    ids: Option<Vec<String>>,
    building: Building,
) -> PyResult<Bound<'py, PyDict>> {
    let options = building.options()?;
    let rows = Rows::read(&starts, &columns, &values, tokens)?;
    if let Some(ids) = ids.as_ref().filter(|ids| ids.len() != rows.len()) {
        let (ids, rows) = (ids.len(), rows.len());
        return Err(Failure::Argument(format!("there are {ids} ids for {rows} rows")).into());
    }
    let progress = Progress::default();
    let document = move |row: usize| Document {
        id: ids.as_ref().map_or_else(|| row.to_string(), |ids| ids[row].clone()),
        vector: Some(rows.row(row)),
        ..Document::default()
    };
    let count = starts.len().unwrap_or(1).saturating_sub(1);
    let outcome = interruptible(
        py,
        || progress.cancel(),
        |_| Ok(()),
        || {
            let documents = (0..count).map(document);
            Index::build_from_documents(path, documents, &options, &progress)
        },
    )?;
    built(py, &outcome.map_err(Failure::from)?.1)
}

pub(crate) fn built<'py>(py: Python<'py>, report: &BuildReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("documents", report.documents)?;
    dict.set_item("replaced", report.replaced)?;
    dict.set_item("tokens", report.tokens)?;
    dict.set_item("terms", report.terms)?;
    dict.set_item("postings", report.postings)?;
    dict.set_item("skipped", report.skipped)?;
    dict.set_item("reasons", report.reasons.clone())?;
    dict.set_item("notices", report.notices.clone())?;
    Ok(dict)
}

pub(crate) fn committed<'py>(
    py: Python<'py>,
    added: &BuildReport,
    deleted: u64,
    missing: &[String],
    generation: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = built(py, added)?;
    dict.set_item("deleted", deleted)?;
    dict.set_item("missing", missing.to_vec())?;
    dict.set_item("generation", generation)?;
    Ok(dict)
}
