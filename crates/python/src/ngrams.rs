//! Approximate search by n-grams.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use warpseek::NgramSearcher;
use warpseek::ngram::{Misses, NgramAlgorithm, NgramOptions, NgramRequest};
use warpseek::query::Cancel;

use crate::error::{Failure, Result};
use crate::hits::in_characters;
use crate::interrupt::interruptible;
use crate::options::{Searching, choice, deadline, named};

/// Number of queries between two checks for cancellation.
const PART: usize = 256;

/// Returns those options of an opened index that concern n-grams.
pub(crate) fn options(searching: &Searching) -> Result<NgramOptions> {
    let mut options = NgramOptions::new().threads(searching.threads()).mmap(searching.mmap);
    if searching.algorithm != "auto" {
        options = options.algorithm(named::<NgramAlgorithm>(&searching.algorithm)?);
    }
    let gpu = searching.gpus.as_ref().and_then(|gpus| gpus.first()).copied().unwrap_or(0);
    if choice(&searching.device, "device of n-grams", [("cpu", false), ("cuda", true)])? {
        options = options.gpu(gpu);
    }
    Ok(match searching.gpu_memory {
        Some(bytes) => options.gpu_memory(bytes),
        None => options,
    })
}

/// Options that all queries of a call share.
pub(crate) struct Asking {
    pub(crate) k: usize,
    pub(crate) misses: Option<String>,
    pub(crate) errors: Option<u32>,
    pub(crate) verify: bool,
    pub(crate) candidates: usize,
    pub(crate) deadline: Option<f64>,
    pub(crate) on_gpu: bool,
}

/// Returns a list of hits for each query, each hit as a dict. With `width`, hits have the part of
/// the text that matches.
pub(crate) fn search<'py>(
    py: Python<'py>,
    searcher: &NgramSearcher,
    queries: Vec<String>,
    asking: &Asking,
    width: Option<usize>,
) -> PyResult<Bound<'py, PyList>> {
    let most = searcher.snapshot().doc_limit() as usize + 1;
    let misses = asking.misses.as_deref().map(named::<Misses>).transpose()?;
    let deadline = deadline(asking.deadline)?;
    let request = |text: String| NgramRequest {
        misses,
        errors: asking.errors,
        k: asking.k.min(most),
        verify: asking.verify,
        candidates: asking.candidates.min(most),
        deadline,
        ..NgramRequest::new(text)
    };
    let mut requests: Vec<NgramRequest> = queries.into_iter().map(request).collect();
    let cancel = Cancel::new();
    // Queries that can be cancelled are not answered on a GPU or in batches, so only a single
    // query can be cancelled.
    if let ([alone], false) = (&mut requests[..], asking.on_gpu) {
        alone.cancel = Some(cancel.clone());
    }
    let work = || {
        let parts = requests.chunks(PART).take_while(|_| !cancel.is_set());
        parts.flat_map(|part| searcher.search_many(part)).collect::<Vec<_>>()
    };
    let responses = interruptible(py, || cancel.set(), |_| Ok(()), work)?;
    let all = PyList::empty(py);
    for response in responses {
        let response = response.map_err(Failure::from)?;
        let hits = PyList::empty(py);
        for (rank, hit) in response.hits().iter().enumerate() {
            let entry = PyDict::new(py);
            entry.set_item("id", response.id(rank).map_err(Failure::from)?)?;
            entry.set_item("score", hit.score)?;
            entry.set_item("distance", hit.distance)?;
            if let Some(width) = width {
                let snippet = response.snippet(rank, width).map_err(Failure::from)?;
                entry.set_item("snippet", in_characters(&snippet))?;
            }
            hits.append(entry)?;
        }
        all.append((hits, response.ngrams(), response.is_complete()))?;
    }
    Ok(all)
}
