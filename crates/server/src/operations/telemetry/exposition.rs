//! The text of `/metrics`: what the recorder has collected, and gauges of the server's state.

use metrics::{counter, gauge};
use warpseek::cache::CacheCounts;

use super::counters::{CLUSTER, degraded_searches};
use crate::app::App;
use crate::indexes::catalogue::Catalogue;
use crate::indexes::files::bytes_of;
use crate::operations::config::Device;

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
        degraded_searches(&index.name).increment(0);
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
        degraded_searches(CLUSTER).increment(0);
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
    if let Some(answers) = &app.answers {
        put_cache(&mut out, &answers.counts());
    }
    put_gauges(&mut out, "warpseek_index_documents", &documents);
    put_gauges(&mut out, "warpseek_index_size_bytes", &bytes);
    put_gauges(&mut out, "warpseek_index_damaged", &damaged);
    put_gauges(&mut out, "warpseek_index_on_gpu", &on_gpu);
    if let Some(remote) = app.remote.get() {
        out.push_str(&remote.metrics());
    }
    out
}

/// Appends the counts of the cache of answers, which belongs to one server of the process.
fn put_cache(out: &mut String, counts: &CacheCounts) {
    let CacheCounts { hits, misses, evicted, entries, bytes, .. } = *counts;
    let values = [
        ("hits_total", "counter", hits as f64),
        ("misses_total", "counter", misses as f64),
        ("evictions_total", "counter", evicted as f64),
        ("hit_rate", "gauge", counts.hit_rate()),
        ("entries", "gauge", entries as f64),
        ("bytes", "gauge", bytes as f64),
    ];
    for (name, kind, value) in values {
        let name = format!("warpseek_cache_{name}");
        out.push_str(&format!("# TYPE {name} {kind}\n{name} {value}\n\n"));
    }
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
