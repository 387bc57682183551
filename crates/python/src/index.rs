//! An index with what searches and changes it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList};
use warpseek::{
    BuildReport, Cancel, Document, Index, IndexOptions, IndexWriter, MergeConfig, NgramSearcher,
    Phase, Progress, Query, QueryInput, Request, Searcher,
};

use crate::documents::{Fields, Rows, feed, id};
use crate::error::{Failure, Result};
use crate::hits::{NativeHits, explained};
use crate::interrupt::interruptible;
use crate::json::to_python;
use crate::options::{Asking, Building, Searching};
use crate::queries::Reading;
use crate::results::NativeResults;

/// The postings that a search can read before it is worth a thread of its own, so that Ctrl-C can end it: some 50 ms of work.
const SHORT: u64 = 1 << 25;

/// Queries that are answered between two looks at whether to stop.
const PART: usize = 1024;

/// A directory with an index, opened for searching and for changes.
#[pyclass(frozen, module = "warpseek._warpseek")]
pub(crate) struct NativeIndex {
    pub(crate) index: Index,
    pub(crate) searching: Searching,
    opened: Mutex<Opened>,
    writer: Mutex<Option<IndexWriter>>,
    notices: Arc<Mutex<Vec<String>>>,
}

/// Searchers of this process. Threads do not survive a fork, so a child makes its own.
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

    /// The searcher of this process.
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
        // Nobody waits for this lock while the interpreter's is given away.
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

    /// The searcher for n-grams, in the same way.
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

    /// Changes that wait are in the writer, which is made when it is first needed. A commit keeps it for long, so nobody may wait for it with the interpreter's lock.
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
        // What is searched is what there is now, and options that cannot be are better known now, too.
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
    ) -> PyResult<NativeResults> {
        let searcher = self.searcher(py)?;
        let queries = Reading::of(&searcher, asking.syntax).queries(queries)?;
        many(py, &searcher, &asking, queries)
    }

    /// The same with the rows of a CSR matrix.
    #[pyo3(signature = (starts, columns, values, tokens, asking))]
    fn search_rows(
        &self,
        py: Python<'_>,
        starts: PyReadonlyArray1<'_, i64>,
        columns: PyReadonlyArray1<'_, i64>,
        values: PyReadonlyArray1<'_, f64>,
        tokens: Option<Vec<String>>,
        asking: Asking,
    ) -> PyResult<NativeResults> {
        let searcher = self.searcher(py)?;
        let rows = rows(&starts, &columns, &values, tokens)?;
        let query = |row| QueryInput::Terms(Query::of(rows.row(row)));
        many(py, &searcher, &asking, (0..rows.len()).map(query).collect())
    }

    /// How the score of a document comes about; none if there is no such document.
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

    /// The stored document with an id; none if there is none, or if the index keeps ids alone.
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

    /// Goes over to the newest commit; false if it has that already.
    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        let is_grams = self.manifest()?.grams.is_some();
        Ok(py.detach(|| -> Result<bool> {
            let opened = lock(&self.opened);
            let (words, grams) = (opened.searcher.clone(), opened.ngrams.clone());
            drop(opened);
            match (is_grams, words, grams) {
                (true, _, Some(searcher)) => Ok(searcher.refresh()?),
                (false, Some(searcher), _) => Ok(searcher.refresh()?),
                // What is not open will see the newest commit anyway.
                _ => Ok(false),
            }
        })?)
    }

    /// Collects documents for the next commit, and says how many.
    fn add(
        &self,
        py: Python<'_>,
        documents: &Bound<'_, PyAny>,
        id_field: String,
        vectors: bool,
    ) -> PyResult<u64> {
        let static_score = "static_score".to_owned();
        let fields = Fields { id: id_field, static_score, vectors };
        // All are read before any is added, so that a bad one adds nothing.
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

    /// How many documents and deletions wait for a commit.
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
        report: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let progress = Progress::default();
        let added = interruptible(
            py,
            || progress.cancel(),
            |py| told(py, report.as_ref(), &progress),
            || self.index.add_files(&paths, &progress),
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

    /// What is wrong with the files, which should be nothing.
    fn verify(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let progress = Progress::default();
        let work = || self.index.verify(&progress);
        let verified = interruptible(py, || progress.cancel(), |_| Ok(()), work)?;
        let problems = verified.map_err(Failure::from)?.problems;
        Ok(problems
            .iter()
            .map(|problem| format!("{}: {}", problem.file.display(), problem.what))
            .collect())
    }

    /// Facts about the snapshot that is searched.
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
            (None, warpseek::Content::Vector) => "vectors",
            (None, _) => "text",
        };
        facts.set_item("content", kind)?;
        facts.set_item("analyzer", manifest.analyzer.to_string())?;
        facts.set_item("codec", manifest.codec.to_string())?;
        facts.set_item("positions", manifest.positions)?;
        facts.set_item("vector_scale", manifest.vector_scale)?;
        let schema = manifest.schema.as_ref().map(|schema| serde_json::to_value(schema.config()));
        let schema = match schema {
            Some(Ok(schema)) => to_python(py, &schema)?,
            _ => py.None().into_bound(py),
        };
        facts.set_item("schema", schema)?;
        Ok(facts)
    }

    /// Which device answers, and what was noticed.
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

    /// Does what the first query would have to wait for.
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
        let asking = crate::ngrams::Asking { k, misses, errors, verify, candidates, deadline };
        crate::ngrams::search(py, &self.ngrams(py)?, queries, &asking, width)
    }
}

impl NativeIndex {
    fn manifest(&self) -> Result<warpseek::Manifest> {
        Ok(self.index.manifest()?)
    }

    /// The snapshot that is searched.
    fn index_snapshot(&self, py: Python<'_>) -> Result<Arc<warpseek::Snapshot>> {
        match self.manifest()?.grams {
            Some(_) => Ok(self.ngrams(py)?.snapshot()),
            None => Ok(self.searcher(py)?.snapshot()),
        }
    }
}

/// The request with no more hits than there can be, since room is made for them.
fn limited(request: Request, searcher: &Searcher) -> Request {
    let most = searcher.snapshot().doc_limit() as usize + 1;
    Request { k: request.k.min(most), ..request }
}

/// Answers one request. One that may take long is answered in another thread, so that Ctrl-C can end it.
fn answer(py: Python<'_>, searcher: &Searcher, mut request: Request) -> Result<warpseek::Response> {
    let words = match &request.query {
        QueryInput::Text(text) | QueryInput::Expression(text) => 1 + text.len() as u64 / 4,
        QueryInput::Terms(query) => 1 + query.terms.len() as u64,
        QueryInput::Tree(_) => u64::from(u32::MAX),
    };
    let documents = u64::from(searcher.snapshot().doc_limit());
    if words.saturating_mul(documents) <= SHORT {
        return Ok(py.detach(|| searcher.search(&request))?);
    }
    let cancel = Cancel::new();
    request.cancel = Some(cancel.clone());
    Ok(interruptible(py, || cancel.set(), |_| Ok(()), || searcher.search(&request))??)
}

/// Answers many queries over one snapshot.
fn many(
    py: Python<'_>,
    searcher: &Searcher,
    asking: &Asking,
    queries: Vec<QueryInput>,
) -> PyResult<NativeResults> {
    let searcher = searcher.frozen();
    let base = limited(asking.request(&searcher)?, &searcher);
    let stop = AtomicBool::new(false);
    let work = || {
        let request = |query| Request { query, ..base.clone() };
        let requests: Vec<Request> = queries.into_iter().map(request).collect();
        let mut results = NativeResults {
            snapshot: searcher.snapshot(),
            approximate: searcher.is_approximate(),
            searcher: searcher.clone(),
            offsets: vec![0],
            docs: Vec::new(),
            scores: Vec::new(),
            matches: Vec::new(),
            errors: Vec::new(),
            partial: Vec::new(),
        };
        for part in requests.chunks(searcher.batch_size(base.k).max(PART)) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            for response in searcher.search_batch(part) {
                results.push(response);
            }
        }
        results
    };
    interruptible(py, || stop.store(true, Ordering::Relaxed), |_| Ok(()), work)
}

fn rows(
    starts: &PyReadonlyArray1<'_, i64>,
    columns: &PyReadonlyArray1<'_, i64>,
    values: &PyReadonlyArray1<'_, f64>,
    tokens: Option<Vec<String>>,
) -> Result<Rows> {
    let rows = Rows {
        starts: starts.as_array().to_vec(),
        columns: columns.as_array().to_vec(),
        values: values.as_array().to_vec(),
        tokens,
    };
    rows.checked()
}

/// Calls what reports progress, if anything does.
fn told(py: Python<'_>, report: Option<&Py<PyAny>>, progress: &Progress) -> PyResult<()> {
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

/// Builds an index of files.
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

/// Builds an index of what an iterator gives.
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
    let static_score = building.static_field.unwrap_or_else(|| "static_score".to_owned());
    let fields = Fields { id: id_field, static_score, vectors };
    let progress = Arc::new(Progress::default());
    let tell = |py: Python<'_>| told(py, report.as_ref(), &progress);
    let outcome = feed(documents, &fields, &progress, &tell, |feed| {
        Ok(Index::build_from_documents(path, feed, &options, &progress)?.1)
    })?;
    built(py, &outcome)
}

/// Builds an index of the rows of a CSR matrix.
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
    let rows = rows(&starts, &columns, &values, tokens)?;
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

fn built<'py>(py: Python<'py>, report: &BuildReport) -> PyResult<Bound<'py, PyDict>> {
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

fn committed<'py>(
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
