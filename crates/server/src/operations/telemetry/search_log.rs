//! The record of searches: their times, the load that they cause, and the log of slow queries.

use std::time::Duration;

use warpseek::ngram::{NgramRequest, NgramResponse};
use warpseek::{Request, Response};
use warpseek_front::RemoteSearch;

use super::counters::{CLUSTER, degraded_searches, search_times};
use crate::app::App;
use crate::indexes::open_index::View;
use crate::operations::config::Device;

/// Records a search of the index with this name, and logs it if it was slow.
pub(crate) fn count_search(
    app: &App,
    index: &str,
    view: &View,
    request: &Request,
    response: &Response,
) {
    view.times(index, app.config.device != Device::Cpu).record(response.took());
    if count(app, index, response.took(), response.coverage().is_complete()) {
        let ms = response.took().as_secs_f64() * 1e3;
        tracing::warn!(index, ms, k = request.k, terms = response.plan().terms.len(), query = ?request.query, "slow query");
    }
}

/// Records a search of an n-gram index, which the CPU answers.
pub(crate) fn count_ngram_search(
    app: &App,
    index: &str,
    request: &NgramRequest,
    response: &NgramResponse,
) {
    search_times(index, "cpu").record(response.took());
    if count(app, index, response.took(), response.is_complete()) {
        let ms = response.took().as_secs_f64() * 1e3;
        tracing::warn!(index, ms, k = request.k, query = request.text, "slow query");
    }
}

/// Records a search of a collection on other machines.
pub(crate) fn count_remote_search(app: &App, search: &RemoteSearch, took: Duration) {
    search_times(CLUSTER, "cluster").record(took);
    if count(app, CLUSTER, took, search.is_complete) {
        let ms = took.as_secs_f64() * 1e3;
        tracing::warn!(index = CLUSTER, ms, k = search.k, query = search.query, "slow query");
    }
}

/// Counts a search and returns true if it was slow.
fn count(app: &App, index: &str, took: Duration, is_complete: bool) -> bool {
    app.load.record(took, is_complete);
    if !is_complete {
        degraded_searches(index).increment(1);
    }
    let slow = Duration::from_millis(app.config.slow_query_ms);
    !slow.is_zero() && took >= slow
}
