//! The responses to many queries, as flat arrays.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, Float64Array, Int64Array, LargeStringArray, RecordBatch};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyString};
use warpseek::eval::{EvalError, RunWriter};
use warpseek::{Error, Searcher, Snapshot};

use crate::column::NativeColumn;
use crate::error::{Failure, Result};

/// Hits of many queries over one snapshot. The arrays are created once and shared with Python.
#[pyclass(frozen, module = "warpseek._warpseek")]
pub(crate) struct NativeResults {
    searcher: Searcher,
    snapshot: Arc<Snapshot>,
    /// Offset of the first hit of each query, followed by the number of all hits.
    offsets: ScalarBuffer<i64>,
    docs: ScalarBuffer<u32>,
    scores: ScalarBuffer<f64>,
    matches: ScalarBuffer<i64>,
    /// Ids of the hits, read at the first use.
    ids: OnceLock<LargeStringArray>,
    /// Queries that failed.
    errors: Vec<(usize, PyErr)>,
    /// Queries that ran out of time.
    partial: Vec<usize>,
}

impl NativeResults {
    /// Returns the ids of all hits, which several threads read.
    fn all_ids(&self) -> Result<&LargeStringArray> {
        const PART: usize = 4096;
        if let Some(ids) = self.ids.get() {
            return Ok(ids);
        }
        let parts: Vec<&[u32]> = self.docs.chunks(PART).collect();
        let of_part = |docs: &&[u32]| -> Result<(Vec<usize>, String), Error> {
            let (mut lengths, mut text) = (Vec::with_capacity(docs.len()), String::new());
            for &doc in *docs {
                let id = self.snapshot.external_id(doc)?;
                lengths.push(id.len());
                text.push_str(&id);
            }
            Ok((lengths, text))
        };
        let parts = self.searcher.in_parallel(&parts, of_part);
        let parts = parts.into_iter().collect::<Result<Vec<_>, Error>>()?;
        let mut text = Vec::with_capacity(parts.iter().map(|(_, text)| text.len()).sum());
        let mut lengths = Vec::with_capacity(self.docs.len());
        for (of_ids, part) in parts {
            lengths.extend(of_ids);
            text.extend_from_slice(part.as_bytes());
        }
        let offsets = OffsetBuffer::from_lengths(lengths);
        let ids = LargeStringArray::try_new(offsets, Buffer::from_vec(text), None);
        let ids = ids.map_err(|error| Failure::Argument(error.to_string()))?;
        Ok(self.ids.get_or_init(|| ids))
    }

    /// Returns a table with a row for each hit: the number of its query, its id, its score and
    /// its rank. Scores and ids are not copied.
    fn batch(&self) -> Result<RecordBatch> {
        let (mut queries, mut ranks) =
            (Vec::with_capacity(self.docs.len()), Vec::with_capacity(self.docs.len()));
        for query in 0..self.queries() {
            let hits = self.range(query).len();
            queries.extend(std::iter::repeat_n(query as i64, hits));
            ranks.extend(0..hits as i64);
        }
        let columns: [(&str, ArrayRef); 4] = [
            ("query", Arc::new(Int64Array::from(queries))),
            ("id", Arc::new(self.all_ids()?.clone())),
            ("score", Arc::new(Float64Array::new(self.scores.clone(), None))),
            ("rank", Arc::new(Int64Array::from(ranks))),
        ];
        let batch = RecordBatch::try_from_iter(columns);
        batch.map_err(|error| Failure::Argument(error.to_string()))
    }

    fn check_queries(&self, ids: &[String]) -> Result<()> {
        let queries = self.queries();
        match ids.len() == queries {
            true => Ok(()),
            false => Err(Failure::Argument(format!(
                "there are {} ids of queries for {queries} queries",
                ids.len()
            ))),
        }
    }

    /// Returns the number of queries.
    pub(crate) fn queries(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns the document numbers and scores of the hits of a query.
    pub(crate) fn hits(&self, query: usize) -> impl Iterator<Item = (u32, f64)> {
        self.range(query).map(|i| (self.docs[i], self.scores[i]))
    }

    /// Returns the first error of a query, if there is one.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.errors.first().map_or(Ok(()), |(_, error)| Err(error.clone_ref(py)))
    }

    fn range(&self, query: usize) -> std::ops::Range<usize> {
        self.offsets[query] as usize..self.offsets[query + 1] as usize
    }
}

#[pymethods]
impl NativeResults {
    /// Returns the number of queries.
    fn __len__(&self) -> usize {
        self.queries()
    }

    fn offsets(&self) -> NativeColumn {
        NativeColumn::of(&self.offsets)
    }

    fn numbers(&self) -> NativeColumn {
        NativeColumn::of(&self.docs)
    }

    fn scores(&self) -> NativeColumn {
        NativeColumn::of(&self.scores)
    }

    fn matches(&self) -> NativeColumn {
        NativeColumn::of(&self.matches)
    }

    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let ids = py.detach(|| self.all_ids())?;
        PyList::new(py, (0..self.docs.len()).map(|i| PyString::new(py, ids.value(i))))
    }

    /// Returns a table of all hits, as an Arrow stream in a capsule.
    fn stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        crate::arrow::stream(py, py.detach(|| self.batch())?)
    }

    /// Returns the scores of hits by the id of the query and the id of the document.
    fn run<'py>(&self, py: Python<'py>, queries: Vec<String>) -> PyResult<Bound<'py, PyDict>> {
        self.check_queries(&queries)?;
        let ids = py.detach(|| self.all_ids())?;
        let run = PyDict::new(py);
        for (query, name) in queries.iter().enumerate() {
            let hits = PyDict::new(py);
            for i in self.range(query) {
                hits.set_item(ids.value(i), self.scores[i])?;
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
        let usual =
            if self.searcher.is_approximate() { "warpseek-approximate" } else { "warpseek" };
        let tag = tag.as_deref().unwrap_or(usual);
        Ok(py.detach(|| -> Result<()> {
            let ids = self.all_ids()?;
            let name = path.display().to_string();
            let open = |source| EvalError::Open { name, source };
            let mut writer = RunWriter::new(File::create(&path).map_err(open)?);
            for (query, name) in queries.iter().enumerate() {
                for (rank, i) in self.range(query).enumerate() {
                    writer.write(name, ids.value(i), rank + 1, self.scores[i], tag)?;
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

/// Hits that are being collected.
pub(crate) struct Gathered {
    offsets: Vec<i64>,
    docs: Vec<u32>,
    scores: Vec<f64>,
    matches: Vec<i64>,
    errors: Vec<(usize, PyErr)>,
    partial: Vec<usize>,
}

impl Gathered {
    /// Reserves memory for the hits of this many queries, as far as it is likely to be needed.
    pub(crate) fn new(queries: usize, k: usize) -> Self {
        const MOST: usize = 1 << 20;
        let hits = queries.saturating_mul(k).min(MOST);
        let mut offsets = Vec::with_capacity(queries + 1);
        offsets.push(0);
        Gathered {
            offsets,
            docs: Vec::with_capacity(hits),
            scores: Vec::with_capacity(hits),
            matches: Vec::with_capacity(queries),
            errors: Vec::new(),
            partial: Vec::new(),
        }
    }

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

    /// Returns the results, with the snapshot that this searcher keeps.
    pub(crate) fn finish(self, searcher: Searcher) -> NativeResults {
        NativeResults {
            snapshot: searcher.snapshot(),
            searcher,
            offsets: self.offsets.into(),
            docs: self.docs.into(),
            scores: self.scores.into(),
            matches: self.matches.into(),
            ids: OnceLock::new(),
            errors: self.errors,
            partial: self.partial,
        }
    }
}
