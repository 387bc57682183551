//! The answers to many queries, as flat arrays.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use warpseek::eval::{EvalError, RunWriter};
use warpseek::{Error, Searcher, Snapshot};

use crate::error::{Failure, Result};

/// An array of NumPy.
type Array<'py, T> = Bound<'py, PyArray1<T>>;

/// Hits of many queries over one snapshot.
#[pyclass(frozen, module = "warpseek._warpseek")]
pub(crate) struct NativeResults {
    pub(crate) searcher: Searcher,
    pub(crate) snapshot: Arc<Snapshot>,
    /// Where the hits of each query begin, and at the end how many there are.
    pub(crate) offsets: Vec<i64>,
    pub(crate) docs: Vec<u32>,
    pub(crate) scores: Vec<f64>,
    pub(crate) matches: Vec<i64>,
    /// Queries that could not be answered.
    pub(crate) errors: Vec<(usize, PyErr)>,
    /// Queries whose time was up.
    pub(crate) partial: Vec<usize>,
    pub(crate) approximate: bool,
}

impl NativeResults {
    /// The ids of all hits, which threads share out.
    fn all_ids(&self) -> Result<Vec<String>> {
        const PART: usize = 4096;
        let parts: Vec<&[u32]> = self.docs.chunks(PART).collect();
        let ids = |docs: &&[u32]| -> Result<Vec<String>, Error> {
            docs.iter().map(|&doc| Ok(self.snapshot.external_id(doc)?)).collect()
        };
        let mut all = Vec::with_capacity(self.docs.len());
        for part in self.searcher.in_parallel(&parts, ids) {
            all.append(&mut part?);
        }
        Ok(all)
    }

    fn check_queries(&self, ids: &[String]) -> Result<()> {
        let queries = self.__len__();
        match ids.len() == queries {
            true => Ok(()),
            false => Err(Failure::Argument(format!(
                "there are {} ids of queries for {queries} queries",
                ids.len()
            ))),
        }
    }

    fn range(&self, query: usize) -> std::ops::Range<usize> {
        self.offsets[query] as usize..self.offsets[query + 1] as usize
    }
}

#[pymethods]
impl NativeResults {
    /// The number of queries.
    fn __len__(&self) -> usize {
        self.offsets.len() - 1
    }

    fn offsets<'py>(&self, py: Python<'py>) -> Array<'py, i64> {
        self.offsets.clone().into_pyarray(py)
    }

    fn numbers<'py>(&self, py: Python<'py>) -> Array<'py, u32> {
        self.docs.clone().into_pyarray(py)
    }

    fn scores<'py>(&self, py: Python<'py>) -> Array<'py, f64> {
        self.scores.clone().into_pyarray(py)
    }

    fn matches<'py>(&self, py: Python<'py>) -> Array<'py, i64> {
        self.matches.clone().into_pyarray(py)
    }

    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let ids = py.detach(|| self.all_ids())?;
        PyList::new(py, ids.iter().map(|id| PyString::new(py, id)))
    }

    /// The ids as Arrow keeps strings: where each begins, and their bytes.
    fn id_buffers<'py>(&self, py: Python<'py>) -> PyResult<(Array<'py, i64>, Array<'py, u8>)> {
        let (offsets, bytes) = py.detach(|| -> Result<_> {
            let ids = self.all_ids()?;
            let mut offsets = Vec::with_capacity(ids.len() + 1);
            let mut bytes = Vec::with_capacity(ids.iter().map(String::len).sum());
            offsets.push(0);
            for id in ids {
                bytes.extend_from_slice(id.as_bytes());
                offsets.push(bytes.len() as i64);
            }
            Ok((offsets, bytes))
        })?;
        Ok((offsets.into_pyarray(py), bytes.into_pyarray(py)))
    }

    /// Hits by the id of the query, then by their own.
    fn run<'py>(&self, py: Python<'py>, queries: Vec<String>) -> PyResult<Bound<'py, PyDict>> {
        self.check_queries(&queries)?;
        let ids = py.detach(|| self.all_ids())?;
        let run = PyDict::new(py);
        for (query, name) in queries.iter().enumerate() {
            let hits = PyDict::new(py);
            for i in self.range(query) {
                hits.set_item(&ids[i], self.scores[i])?;
            }
            run.set_item(name, hits)?;
        }
        Ok(run)
    }

    /// Writes a TREC run.
    fn write(
        &self,
        py: Python<'_>,
        path: PathBuf,
        queries: Vec<String>,
        tag: Option<String>,
    ) -> PyResult<()> {
        self.check_queries(&queries)?;
        let usual = if self.approximate { "warpseek-approximate" } else { "warpseek" };
        let tag = tag.as_deref().unwrap_or(usual);
        Ok(py.detach(|| -> Result<()> {
            let ids = self.all_ids()?;
            let name = path.display().to_string();
            let open = |source| EvalError::Open { name, source };
            let mut writer = RunWriter::new(File::create(&path).map_err(open)?);
            for (query, name) in queries.iter().enumerate() {
                for (rank, i) in self.range(query).enumerate() {
                    writer.write(name, &ids[i], rank + 1, self.scores[i], tag)?;
                }
            }
            writer.finish()?;
            Ok(())
        })?)
    }

    fn errors<'py>(&self, py: Python<'py>) -> Vec<(usize, Bound<'py, PyAny>)> {
        let value = |(query, error): &(usize, PyErr)| (*query, error.value(py).clone().into_any());
        self.errors.iter().map(value).collect()
    }

    fn partial(&self) -> Vec<usize> {
        self.partial.clone()
    }

    fn generation(&self) -> u64 {
        self.snapshot.generation()
    }
}

impl NativeResults {
    /// Adds the hits of the next query.
    pub(crate) fn push(&mut self, response: warpseek::Result<warpseek::Response>) {
        let query = self.offsets.len() - 1;
        let mut matches = -1;
        match response {
            Ok(response) => {
                self.docs.extend(response.hits().iter().map(|hit| hit.doc));
                self.scores.extend((0..response.hits().len()).map(|rank| response.score(rank)));
                matches = response.matches().map_or(-1, |matches| matches as i64);
                if !response.coverage().is_complete() {
                    self.partial.push(query);
                }
            }
            Err(error) => self.errors.push((query, Failure::from(error).into())),
        }
        self.matches.push(matches);
        self.offsets.push(self.docs.len() as i64);
    }
}
