//! An index, with the searchers and the writer that use it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use warpseek::index::MergeConfig;
use warpseek::query::Query;
use warpseek::text::{FieldNames, STATIC_FIELD};
use warpseek::{
    Document, Index, IndexOptions, IndexWriter, NgramSearcher, Progress, QueryInput, Searcher,
};

use crate::build::{built, committed, told};
use crate::documents::{Fields, Rows, id};
use crate::error::{Failure, Result};
use crate::hits::{NativeHits, explained};
use crate::interrupt::interruptible;
use crate::json::to_python;
use crate::options::{Asking, Searching};
use crate::queries::Reading;
use crate::results::NativeResults;
use crate::search::{answer, limited, many};

/// The directory of an index, opened for searching and for changes.
#[pyclass(frozen, module = "warpseek._warpseek")]
pub(crate) struct NativeIndex {
    pub(crate) index: Index,
    pub(crate) searching: Searching,
    opened: Mutex<Opened>,
    writer: Mutex<Option<IndexWriter>>,
    notices: Arc<Mutex<Vec<String>>>,
}

/// Searchers of this process. Threads do not survive a fork, so a child process creates its own.
#[derive(Default)]
struct Opened {
    process: u32,
    searcher: Option<Searcher>,
    ngrams: Option<NgramSearcher>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NativeIndex {
    fn new(index: Index, searching: Searching) -> Self {
        let (opened, writer, notices) = Default::default();
        NativeIndex { index, searching, opened, writer, notices }
    }

    /// Returns the searcher of this process, and opens it at the first call.
    pub(crate) fn searcher(&self, py: Python<'_>) -> Result<Searcher> {
        let process = std::process::id();
        let mut opened = lock(&self.opened);
        if let Some(searcher) = &opened.searcher {
            if opened.process == process {
                return Ok(searcher.clone());
            }
            if searcher.gpu_status().name.is_some() {
                return Err(Failure::Argument(
                    "a GPU cannot be used after a fork; start processes with the method `spawn`, or open the index in the child".to_owned(),
                ));
            }
            let searcher = searcher.with_threads(self.searching.threads());
            *opened = Opened { process, searcher: Some(searcher.clone()), ngrams: None };
            return Ok(searcher);
        }
        // The lock is released before the interpreter's, so that no thread waits for it while
        // holding the interpreter's lock.
        drop(opened);
        let searcher = py.detach(|| -> Result<_> {
            let notices = self.notices.clone();
            let options = self.searching.options(&self.index.manifest()?)?;
            let options = options.on_notice(move |notice| lock(&notices).push(notice.to_string()));
            Ok(self.index.searcher_with(options)?)
        })?;
        let mut opened = lock(&self.opened);
        opened.process = process;
        Ok(opened.searcher.get_or_insert(searcher).clone())
    }

    /// Returns the n-gram searcher of this process, and opens it at the first call.
    pub(crate) fn ngrams(&self, py: Python<'_>) -> Result<NgramSearcher> {
        let process = std::process::id();
        let opened = lock(&self.opened);
        match &opened.ngrams {
            Some(searcher) if opened.process == process => return Ok(searcher.clone()),
            _ => drop(opened),
        }
        let options = crate::ngrams::options(&self.searching)?;
        let searcher = py.detach(|| self.index.ngram_searcher_with(options))?;
        let mut opened = lock(&self.opened);
        if opened.process != process {
            *opened = Opened { process, ..Opened::default() };
        }
        opened.ngrams = Some(searcher.clone());
        Ok(searcher)
    }

    /// Calls a function with the writer, which holds pending changes and is opened at the first
    /// call. A commit holds the writer for long, so this must not be called with the
    /// interpreter's lock.
    fn with_writer<T>(&self, change: impl FnOnce(&mut IndexWriter) -> Result<T>) -> Result<T> {
        let mut writer = lock(&self.writer);
        let writer = match &mut *writer {
            Some(writer) => writer,
            none => none.insert(self.index.writer()?),
        };
        change(writer)
    }
}

#[pymethods]
impl NativeIndex {
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, searching: Searching) -> PyResult<Self> {
        let threads = searching.threads();
        let opened = py.detach(|| -> Result<_> {
            let options = IndexOptions::new().threads(threads);
            Ok(Index::open_with(path, options)?)
        });
        let opened = NativeIndex::new(opened?, searching);
        // Opening the searcher now fixes the snapshot that is searched, and reports invalid
        // options early.
        opened.index_snapshot(py)?;
        Ok(opened)
    }

    fn path(&self) -> PathBuf {
        self.index.path().to_owned()
    }

    fn search(
        &self,
        py: Python<'_>,
        query: &Bound<'_, PyAny>,
        asking: Asking,
    ) -> PyResult<NativeHits> {
        let searcher = self.searcher(py)?;
        let mut request = limited(asking.request(&searcher)?, &searcher);
        request.query = Reading::of(&searcher, asking.syntax).query(query)?;
        let facets = request.facets.clone();
        let response = answer(py, &searcher, request)?;
        Ok(NativeHits { response, facets })
    }

    fn search_many(
        &self,
        py: Python<'_>,
        queries: &Bound<'_, PyAny>,
        asking: Asking,
        report: Option<Py<PyAny>>,
    ) -> PyResult<NativeResults> {
        let searcher = self.searcher(py)?;
        let queries = Reading::of(&searcher, asking.syntax).queries(queries)?;
        many(py, &searcher, &asking, queries, report.as_ref())
    }

    /// Answers the rows of a CSR matrix as queries.
    #[expect(clippy::too_many_arguments, reason = "a matrix has several arrays")]
    fn search_rows(
        &self,
        py: Python<'_>,
        starts: PyReadonlyArray1<'_, i64>,
        columns: PyReadonlyArray1<'_, i64>,
        values: PyReadonlyArray1<'_, f64>,
        tokens: Option<Vec<String>>,
        asking: Asking,
        report: Option<Py<PyAny>>,
    ) -> PyResult<NativeResults> {
        let searcher = self.searcher(py)?;
        let rows = Rows::read(&starts, &columns, &values, tokens)?;
        let query = |row| QueryInput::Terms(Query::of(rows.row(row)));
        let queries = (0..rows.len()).map(query).collect();
        many(py, &searcher, &asking, queries, report.as_ref())
    }

    /// Explains the score of a document, or returns `None` if it does not exist.
    fn explain<'py>(
        &self,
        py: Python<'py>,
        query: &Bound<'py, PyAny>,
        document: &str,
        asking: Asking,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let searcher = self.searcher(py)?.frozen();
        let mut request = limited(asking.request(&searcher)?, &searcher).k(1);
        request.query = Reading::of(&searcher, asking.syntax).query(query)?;
        let explanation = py.detach(|| -> Result<_> {
            let Some(doc) = searcher.snapshot().find_id(document)? else { return Ok(None) };
            let response = searcher.search(&request)?;
            let explanation = response.explain_document(doc)?;
            Ok(Some((response, explanation)))
        })?;
        let explained = |(response, explanation): (warpseek::Response, _)| {
            explained(py, response.plan(), &explanation)
        };
        explanation.map(explained).transpose()
    }

    /// Returns the stored document with an id, or `None` if it does not exist or the index stores
    /// only ids.
    fn document<'py>(&self, py: Python<'py>, id: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = |id: &str| -> Result<_> {
            let snapshot = self.index_snapshot(py)?;
            let Some(doc) = snapshot.find_id(id)? else { return Ok(None) };
            Ok(snapshot.document(doc)?)
        };
        let Some(json) = found(id)? else { return Ok(None) };
        let value: serde_json::Value = serde_json::from_slice(&json).map_err(|error| {
            Failure::from(warpseek::Error::LiveDocument {
                id: id.to_owned(),
                problem: error.to_string(),
            })
        })?;
        to_python(py, &value).map(Some)
    }

    fn has(&self, py: Python<'_>, id: &str) -> PyResult<bool> {
        let snapshot = self.index_snapshot(py)?;
        Ok(snapshot.find_id(id).map_err(Failure::from)?.is_some())
    }

    /// Switches to the newest commit. Returns false if the index is up to date already.
    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        let is_grams = self.manifest()?.grams.is_some();
        Ok(py.detach(|| -> Result<bool> {
            let opened = lock(&self.opened);
            let (words, grams) = (opened.searcher.clone(), opened.ngrams.clone());
            drop(opened);
            match (is_grams, words, grams) {
                (true, _, Some(searcher)) => Ok(searcher.refresh()?),
                (false, Some(searcher), _) => Ok(searcher.refresh()?),
                // A searcher that is not open yet will open the newest commit.
                _ => Ok(false),
            }
        })?)
    }

    /// Queues documents for the next commit, and returns their number.
    fn add(
        &self,
        py: Python<'_>,
        documents: &Bound<'_, PyAny>,
        id_field: String,
        vectors: bool,
    ) -> PyResult<u64> {
        let static_field = self.manifest()?.static_field;
        let static_score = static_field.unwrap_or_else(|| STATIC_FIELD.to_owned());
        let fields = Fields { id: id_field, static_score, vectors };
        // All documents are read before any is added, so that an invalid one adds nothing.
        let mut read: Vec<Document> = Vec::new();
        for item in documents.try_iter()? {
            read.push(fields.document(&item?, read.len() as u64)?);
        }
        let added = read.len() as u64;
        let add = |writer: &mut IndexWriter| {
            read.into_iter().try_for_each(|document| Ok(writer.add(document)?))
        };
        py.detach(|| self.with_writer(add))?;
        Ok(added)
    }

    fn delete(&self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<u64> {
        let ids: Vec<String> = ids.try_iter()?.map(|one| id(&one?)).collect::<PyResult<_>>()?;
        let deleted = ids.len() as u64;
        let delete = |writer: &mut IndexWriter| {
            ids.into_iter().for_each(|id| writer.delete(id));
            Ok(())
        };
        py.detach(|| self.with_writer(delete))?;
        Ok(deleted)
    }

    /// Returns the numbers of documents and deletions that wait for a commit.
    fn pending(&self, py: Python<'_>) -> (usize, usize) {
        py.detach(|| lock(&self.writer).as_ref().map_or((0, 0), IndexWriter::pending))
    }

    fn rollback(&self, py: Python<'_>) {
        py.detach(|| {
            if let Some(writer) = &mut *lock(&self.writer) {
                writer.rollback();
            }
        });
    }

    fn commit<'py>(
        &self,
        py: Python<'py>,
        report: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let progress = Progress::default();
        let ended = interruptible(
            py,
            || progress.cancel(),
            |py| told(py, report.as_ref(), &progress),
            || self.with_writer(|writer| Ok(writer.commit_with(&progress)?)),
        )?;
        let commit = ended?;
        let deleted = &commit.deleted;
        committed(py, &commit.added, deleted.deleted, &deleted.missing, commit.generation)
    }

    fn add_files<'py>(
        &self,
        py: Python<'py>,
        paths: Vec<PathBuf>,
        fields: (Option<String>, Option<String>, Vec<String>),
        report: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let progress = Progress::default();
        let (id, title, text) = fields;
        let options = IndexOptions::new().fields(FieldNames { id, title, text });
        let index = Index::at_with(self.index.path(), options);
        let added = interruptible(
            py,
            || progress.cancel(),
            |py| told(py, report.as_ref(), &progress),
            || index.add_files(&paths, &progress),
        )?;
        built(py, &added.map_err(Failure::from)?)
    }

    fn merge(&self, py: Python<'_>) -> PyResult<()> {
        let progress = Progress::default();
        let work = || self.index.merge(&MergeConfig::default(), &progress);
        let merged = interruptible(py, || progress.cancel(), |_| Ok(()), work)?;
        merged.map_err(Failure::from)?;
        Ok(())
    }

    /// Returns the problems of the files, if there are any.
    fn verify(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let progress = Progress::default();
        let work = || self.index.verify(&progress);
        let verified = interruptible(py, || progress.cancel(), |_| Ok(()), work)?;
        let found = verified.map_err(Failure::from)?;
        let more = found.problems_found - found.problems.len() as u64;
        let listed = found.problems.iter();
        let listed = listed.map(|problem| format!("{}: {}", problem.file.display(), problem.what));
        Ok(listed.chain((more > 0).then(|| format!("and {more} more"))).collect())
    }

    /// Returns facts about the snapshot that is searched.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let snapshot = self.index_snapshot(py)?;
        let (manifest, statistics) = (snapshot.manifest(), snapshot.statistics());
        let facts = PyDict::new(py);
        facts.set_item("documents", statistics.documents)?;
        facts.set_item("tokens", statistics.tokens)?;
        facts.set_item("generation", snapshot.generation())?;
        facts.set_item("segments", snapshot.segments().len())?;
        let kind = match (&manifest.grams, manifest.content) {
            (Some(_), _) => "ngrams",
            (None, warpseek::inspect::Content::Vector) => "vectors",
            (None, _) => "text",
        };
        facts.set_item("content", kind)?;
        facts.set_item("analyzer", manifest.analyzer.to_string())?;
        facts.set_item("codec", manifest.codec.to_string())?;
        facts.set_item("positions", manifest.positions)?;
        facts.set_item("norms", manifest.norms)?;
        facts.set_item("vector_scale", manifest.vector_scale)?;
        let schema = manifest.schema.as_ref().map(|schema| serde_json::to_value(schema.config()));
        let schema = match schema {
            Some(Ok(schema)) => to_python(py, &schema)?,
            _ => py.None().into_bound(py),
        };
        facts.set_item("schema", schema)?;
        Ok(facts)
    }

    /// Returns which device answers, and notices.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let searcher = self.searcher(py)?;
        let gpu = searcher.gpu_status();
        let status = PyDict::new(py);
        status.set_item("gpu", gpu.name)?;
        status.set_item("why_not", gpu.why_not)?;
        status.set_item("answered_by_cpu", gpu.stayed + gpu.helped + gpu.fallen_back)?;
        status.set_item("fallen_back", gpu.fallen_back)?;
        status.set_item("ranking", searcher.ranking_name())?;
        status.set_item("approximate", searcher.is_approximate())?;
        status.set_item("notices", lock(&self.notices).clone())?;
        Ok(status)
    }

    /// Does the work that the first query would have to wait for.
    fn prepare(&self, py: Python<'_>) -> PyResult<()> {
        let searcher = self.searcher(py)?;
        Ok(py.detach(|| -> Result<()> { Ok(searcher.prepare()?) })?)
    }

    #[pyo3(signature = (queries, k, misses, errors, verify, candidates, deadline, width))]
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of the call")]
    fn ngram_search<'py>(
        &self,
        py: Python<'py>,
        queries: Vec<String>,
        k: usize,
        misses: Option<String>,
        errors: Option<u32>,
        verify: bool,
        candidates: usize,
        deadline: Option<f64>,
        width: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let on_gpu = self.searching.device == "cuda";
        let asking =
            crate::ngrams::Asking { k, misses, errors, verify, candidates, deadline, on_gpu };
        crate::ngrams::search(py, &self.ngrams(py)?, queries, &asking, width)
    }
}

impl NativeIndex {
    fn manifest(&self) -> Result<warpseek::index::Manifest> {
        Ok(self.index.manifest()?)
    }

    /// Returns the snapshot that is searched.
    fn index_snapshot(&self, py: Python<'_>) -> Result<Arc<warpseek::Snapshot>> {
        match self.manifest()?.grams {
            Some(_) => Ok(self.ngrams(py)?.snapshot()),
            None => Ok(self.searcher(py)?.snapshot()),
        }
    }
}
