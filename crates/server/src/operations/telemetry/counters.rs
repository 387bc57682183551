//! Counters and histograms of requests and searches, and the recorder that collects them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use axum::http::Method;
use metrics::{Counter, Histogram, counter, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

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

/// Counts a request and records its duration.
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

/// Returns the histogram of search times.
pub(crate) fn search_times(index: &str, device: &'static str) -> Histogram {
    histogram!("warpseek_search_duration_seconds", "index" => index.to_owned(), "device" => device)
}

/// Name of a collection on other machines, which no index can have.
pub(crate) const CLUSTER: &str = "_cluster";

/// Returns the counter of an index's searches that a time limit cut short.
pub(crate) fn degraded_searches(index: &str) -> Counter {
    counter!("warpseek_degraded_searches_total", "index" => index.to_owned())
}
