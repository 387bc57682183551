//! Metrics for Prometheus and the log of slow queries.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use axum::http::Method;
use metrics::{Counter, Histogram, counter, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use warpseek::{NgramRequest, NgramResponse, Request, Response};
use warpseek_front::RemoteSearch;

use crate::app::App;
use crate::indexes::catalogue::Catalogue;
use crate::indexes::open_index::View;
use crate::indexes::open_index::bytes_of;
use crate::operations::config::Device;

/// Bucket bounds of the histograms in seconds.
const SECONDS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Installs the recorder of metrics. All servers of a process share one recorder.
pub(crate) fn recorder() -> Result<PrometheusHandle, String> {
    static RECORDER: std::sync::OnceLock<Result<PrometheusHandle, String>> =
        std::sync::OnceLock::new();
    let start = || {
        let builder = PrometheusBuilder::new();
        let builder =
            builder.set_buckets_for_metric(Matcher::Suffix("_duration_seconds".into()), &SECONDS);
        builder.map_err(|e| e.to_string())?.install_recorder().map_err(|e| e.to_string())
    };
    RECORDER.get_or_init(start).clone()
}

/// Counters of a route, by method and status. Each thread caches them, because looking them up by
/// labels costs more than counting.
type OfRoute = Vec<((&'static str, u16), Counter, Histogram)>;

thread_local! {
    static ROUTES: RefCell<HashMap<String, OfRoute>> = RefCell::default();
}

pub(crate) fn count_request(method: &Method, route: &str, status: u16, took: Duration) {
    // Clients may send any word as a method, and every label takes memory permanently.
    let method = match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    };
    let make = || {
        let labels = [
            ("method", method.to_owned()),
            ("route", route.to_owned()),
            ("status", status.to_string()),
        ];
        let requests = counter!("warpseek_http_requests_total", &labels);
        let times = histogram!("warpseek_http_request_duration_seconds", &labels[..2]);
        ((method, status), requests, times)
    };
    ROUTES.with_borrow_mut(|routes| {
        if !routes.contains_key(route) {
            routes.insert(route.to_owned(), Vec::new());
        }
        let Some(known) = routes.get_mut(route) else { return };
        let at = known.iter().position(|(key, ..)| *key == (method, status)).unwrap_or_else(|| {
            known.push(make());
            known.len() - 1
        });
        let (_, requests, times) = &known[at];
        requests.increment(1);
        times.record(took);
    });
}

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

/// Name of a collection on other machines, which no index can have.
const CLUSTER: &str = "_cluster";

/// Records a search of a collection on other machines.
pub(crate) fn count_remote_search(app: &App, search: &RemoteSearch, took: Duration) {
    search_times(CLUSTER, "cluster").record(took);
    if count(app, CLUSTER, took, search.is_complete) {
        let ms = took.as_secs_f64() * 1e3;
        tracing::warn!(index = CLUSTER, ms, k = search.k, query = search.query, "slow query");
    }
}

/// Returns the histogram of search times.
pub(crate) fn search_times(index: &str, device: &'static str) -> Histogram {
    histogram!("warpseek_search_duration_seconds", "index" => index.to_owned(), "device" => device)
}

/// Counts a search and returns true if it was slow.
fn count(app: &App, index: &str, took: Duration, is_complete: bool) -> bool {
    app.load.record(took, is_complete);
    if !is_complete {
        degraded(index).increment(1);
    }
    let slow = Duration::from_millis(app.config.slow_query_ms);
    !slow.is_zero() && took >= slow
}

/// Renders all metrics in the format of Prometheus.
pub(crate) fn render(app: &App) -> String {
    gauge!("warpseek_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    gauge!("warpseek_search_queue_depth").set(app.searches.waiting() as f64);
    counter!("warpseek_abandoned_requests_total").increment(0);
    let mut gpu = 0;
    let (mut documents, mut bytes, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
    let mut on_gpu = Vec::new();
    for index in app.catalogue_if_open().into_iter().flat_map(Catalogue::all) {
        // Initializes the counter, so that Prometheus sees a value of 0 before the first
        // increase.
        degraded(&index.name).increment(0);
        documents.push((index.name.clone(), index.documents()));
        bytes.push((index.name.clone(), index.bytes()));
        damaged.push((index.name.clone(), u64::from(index.is_damaged())));
        let status = index.view().searcher.gpu_status();
        gpu += status.residency.iter().map(|r| r.used).sum::<u64>();
        if app.config.device != Device::Cpu {
            on_gpu.push((index.name.clone(), u64::from(status.why_not.is_none())));
        }
    }
    for index in app.catalogue_if_open().into_iter().flat_map(Catalogue::all_ngrams) {
        let snapshot = index.searcher.snapshot();
        documents.push((index.name.clone(), snapshot.statistics().documents));
        bytes.push((index.name.clone(), bytes_of(&index.dir)));
        damaged.push((index.name.clone(), u64::from(snapshot.damage().is_some())));
    }
    if app.remote.get().is_some() {
        degraded(CLUSTER).increment(0);
    }
    if let Some(scrub) = app.scrub_status() {
        counter!("warpseek_scrub_passes_total").absolute(scrub.passes);
        counter!("warpseek_scrub_bytes_total").absolute(scrub.bytes);
    }
    gauge!("warpseek_gpu_memory_bytes").set(gpu as f64);
    app.metrics.run_upkeep();
    let mut out = app.metrics.render();
    // Written here because servers of one process share the recorder.
    let running = app.searches.running();
    out.push_str("# TYPE warpseek_searches_running gauge\n");
    out.push_str(&format!("warpseek_searches_running {running}\n\n"));
    put_gauges(&mut out, "warpseek_index_documents", &documents);
    put_gauges(&mut out, "warpseek_index_size_bytes", &bytes);
    put_gauges(&mut out, "warpseek_index_damaged", &damaged);
    put_gauges(&mut out, "warpseek_index_on_gpu", &on_gpu);
    if let Some(remote) = app.remote.get() {
        out.push_str(&remote.metrics());
    }
    out
}

/// Returns the counter of an index's searches that a time limit cut short.
fn degraded(index: &str) -> Counter {
    counter!("warpseek_degraded_searches_total", "index" => index.to_owned())
}

/// Appends a gauge for every index. The recorder would keep the gauges of deleted indexes.
fn put_gauges(out: &mut String, name: &str, values: &[(String, u64)]) {
    if values.is_empty() {
        return;
    }
    out.push_str(&format!("# TYPE {name} gauge\n"));
    for (index, value) in values {
        let index = index.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        out.push_str(&format!("{name}{{index=\"{index}\"}} {value}\n"));
    }
    out.push('\n');
}
