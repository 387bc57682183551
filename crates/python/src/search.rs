//! Answering one query or many, so that Ctrl-C can end the search.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use warpseek::query::Cancel;
use warpseek::{QueryInput, Request, Response, Searcher};

use crate::error::Result;
use crate::interrupt::interruptible;
use crate::options::Asking;
use crate::results::{Gathered, NativeResults};

/// Maximum number of postings of a search that runs in the calling thread, some 50 ms of work.
/// Others get a separate thread, so that Ctrl-C can end them.
const SHORT: u64 = 1 << 25;

/// Minimum number of queries between two checks for cancellation.
const PART: usize = 1024;

/// Limits the number of hits to the number of documents, since memory is reserved for them.
pub(crate) fn limited(request: Request, searcher: &Searcher) -> Request {
    let most = searcher.snapshot().doc_limit() as usize + 1;
    Request { k: request.k.min(most), ..request }
}

/// Answers one request. One that may take long is answered in another thread, so that Ctrl-C can
/// end it.
pub(crate) fn answer(
    py: Python<'_>,
    searcher: &Searcher,
    mut request: Request,
) -> Result<Response> {
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

/// Answers many queries over one snapshot. `report` is called with the number of answered
/// queries.
pub(crate) fn many(
    py: Python<'_>,
    searcher: &Searcher,
    asking: &Asking,
    queries: Vec<QueryInput>,
    report: Option<&Py<PyAny>>,
) -> PyResult<NativeResults> {
    let searcher = asking.searcher(searcher)?.frozen();
    let mut base = limited(asking.request(&searcher)?, &searcher);
    let (cancel, done) = (Cancel::new(), AtomicU64::new(0));
    // A GPU that does not hold a copy of the index would leave queries that can be cancelled to
    // the CPU. Batches on a GPU are short anyway.
    if searcher.gpu_status().name.is_none() {
        base.cancel = Some(cancel.clone());
    }
    let tell = |py: Python<'_>| match report {
        Some(report) => report.call1(py, ("searching", done.load(Ordering::Relaxed))).map(drop),
        None => Ok(()),
    };
    let work = || {
        let mut gathered = Gathered::new(queries.len(), base.k);
        let mut queries = queries.into_iter();
        let size = searcher.batch_size(base.k).max(PART);
        while !cancel.is_set() {
            let part = queries.by_ref().take(size);
            let requests: Vec<Request> =
                part.map(|query| Request { query, ..base.clone() }).collect();
            if requests.is_empty() {
                break;
            }
            searcher.search_batch(&requests).into_iter().for_each(|found| gathered.push(found));
            done.fetch_add(requests.len() as u64, Ordering::Relaxed);
        }
        gathered
    };
    let gathered = interruptible(py, || cancel.set(), tell, work)?;
    tell(py)?;
    Ok(gathered.finish(searcher))
}
