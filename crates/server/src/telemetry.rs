//! Counts and logs.

use std::time::Duration;

use metrics::{counter, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use warpseek::{Request, Response};

use crate::app::App;
use crate::catalogue::Catalogue;
use crate::collection::View;
use crate::config::LogFormat;

/// Bounds of histograms in seconds.
const SECONDS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Starts counting. One recorder serves all servers of a process.
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

pub(crate) fn count_request(method: &str, route: &str, status: u16, took: Duration) {
    // Clients may send any word for a method, and every label takes memory for good.
    let method = match method {
        "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" => method,
        _ => "other",
    };
    let labels = [
        ("method", method.to_owned()),
        ("route", route.to_owned()),
        ("status", status.to_string()),
    ];
    counter!("warpseek_http_requests_total", &labels).increment(1);
    histogram!("warpseek_http_request_duration_seconds", &labels[..2]).record(took);
}

/// Counts a search of the index with this name, and logs it if it was slow.
pub(crate) fn count_search(
    app: &App,
    index: &str,
    view: &View,
    request: &Request,
    response: &Response,
) {
    app.load.record(response.took(), response.coverage().is_complete());
    let device = if view.searcher.gpu_status().name.is_some() { "gpu" } else { "cpu" };
    histogram!("warpseek_search_duration_seconds", "index" => index.to_owned(), "device" => device)
        .record(response.took());
    if !response.coverage().is_complete() {
        counter!("warpseek_degraded_searches_total", "index" => index.to_owned()).increment(1);
    }
    let slow = Duration::from_millis(app.config.slow_query_ms);
    if !slow.is_zero() && response.took() >= slow {
        let ms = response.took().as_secs_f64() * 1e3;
        tracing::warn!(index, ms, k = request.k, terms = response.plan().terms.len(), query = ?request.query, "slow query");
    }
}

/// All counts in the form of Prometheus.
pub(crate) fn render(app: &App) -> String {
    gauge!("warpseek_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    gauge!("warpseek_search_queue_depth").set(app.searches.waiting() as f64);
    let mut gpu = 0;
    for of in app.catalogue_if_open().into_iter().flat_map(Catalogue::all) {
        gauge!("warpseek_index_documents", "index" => of.name.clone()).set(of.documents() as f64);
        gauge!("warpseek_index_size_bytes", "index" => of.name.clone()).set(of.bytes() as f64);
        gpu += of.view().searcher.gpu_status().residency.iter().map(|r| r.used).sum::<u64>();
    }
    gauge!("warpseek_gpu_memory_bytes").set(gpu as f64);
    app.metrics.run_upkeep();
    app.metrics.render()
}

/// Starts logging to standard error. A program that logs already goes on with its own.
pub(crate) fn start_logging(format: LogFormat) {
    let logs = tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false);
    let _ = match format {
        LogFormat::Pretty => {
            tracing::subscriber::set_global_default(logs.with_ansi(false).finish())
        }
        LogFormat::Json => {
            tracing::subscriber::set_global_default(logs.json().flatten_event(true).finish())
        }
    };
}
