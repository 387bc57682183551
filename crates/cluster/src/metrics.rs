//! Counters of an aggregator, in the text format of Prometheus.

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::aggregator::Status;

/// Bounds of the histogram of times, in seconds. They are those of the search server.
const SECONDS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Labels that the search server also uses for searches of a cluster. No index can have this
/// name.
const OF: &str = r#"index="_cluster""#;

/// Counters of searches.
#[derive(Default)]
pub(crate) struct Counts {
    /// Counts by the first bound that is not below the time. The last element counts times above
    /// all bounds.
    times: [AtomicU64; SECONDS.len() + 1],
    nanoseconds: AtomicU64,
    /// Number of answers that do not cover all documents.
    partial: AtomicU64,
    /// Number of searches that failed.
    failed: AtomicU64,
}

impl Counts {
    /// Counts a search that failed because of the cluster rather than the request.
    pub(crate) fn add_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an answered search, and whether the answer covers all documents.
    pub(crate) fn add(&self, is_complete: bool, took: Duration) {
        let one = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        if !is_complete {
            one(&self.partial);
        }
        let seconds = took.as_secs_f64();
        one(&self.times[SECONDS.partition_point(|bound| *bound < seconds)]);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Returns the metrics page of an aggregator with its own HTTP server.
    pub(crate) fn page(&self, status: Option<&Status>) -> String {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut out = String::new();
        family(&mut out, "warpseek_build_info", "gauge", "The version of the program.");
        let version = concat!("{version=\"", env!("CARGO_PKG_VERSION"), "\"}");
        line(&mut out, "warpseek_build_info", version, 1);
        let name = "warpseek_search_duration_seconds";
        family(&mut out, name, "histogram", "Times of searches that were answered.");
        let mut all = 0;
        let bounds = SECONDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&self.times) {
            all += get(count);
            let labels = format!("{{{OF},device=\"cluster\",le=\"{bound}\"}}");
            line(&mut out, &format!("{name}_bucket"), &labels, all);
        }
        let labels = format!("{{{OF},device=\"cluster\"}}");
        line(&mut out, &format!("{name}_sum"), &labels, get(&self.nanoseconds) as f64 / 1e9);
        line(&mut out, &format!("{name}_count"), &labels, all);
        let labels = format!("{{{OF}}}");
        let name = "warpseek_degraded_searches_total";
        family(&mut out, name, "counter", "Answers that do not cover all documents.");
        line(&mut out, name, &labels, get(&self.partial));
        let name = "warpseek_failed_searches_total";
        family(&mut out, name, "counter", "Searches without an answer.");
        line(&mut out, name, &labels, get(&self.failed));
        out + &status.map(of_nodes).unwrap_or_default()
    }
}

/// Returns the metrics of the nodes, for the page of an aggregator or of a search server.
pub(crate) fn of_nodes(status: &Status) -> String {
    let without = status.replicas.iter().filter(|replicas| **replicas == 0).count() as u64;
    let fewest = status.replicas.iter().min().map_or(0, |fewest| *fewest as u64);
    let gone = status.nodes.iter().filter(|node| node.problem.is_some()).count() as u64;
    let damaged = status.nodes.iter().map(|node| node.damaged.len() as u64).sum();
    let rows = [
        ("version", "gauge", "The version of the collection that is searched.", status.version),
        ("shards", "gauge", "Shards of the collection.", status.shards.into()),
        ("shards_missing", "gauge", "Shards that no reachable node serves.", without),
        ("replicas_fewest", "gauge", "Reachable nodes of the shard that has the fewest.", fewest),
        ("nodes", "gauge", "Nodes in the list.", status.nodes.len() as u64),
        ("nodes_gone", "gauge", "Nodes that did not answer when they were last called.", gone),
        (
            "shards_damaged",
            "gauge",
            "Shards of nodes that are not searched because their files are damaged.",
            damaged,
        ),
        (
            "shards_ignored",
            "gauge",
            "Shards of nodes that are not searched because they do not match the others.",
            status.ignored.len() as u64,
        ),
        (
            "hedged_total",
            "counter",
            "Calls that were repeated on a second node because of time.",
            status.hedged,
        ),
        (
            "cache_hits_total",
            "counter",
            "Searches that were answered from the cache.",
            status.cache_hits,
        ),
        (
            "cache_misses_total",
            "counter",
            "Searches that were not in the cache.",
            status.cache_misses,
        ),
    ];
    let mut out = String::new();
    for (name, kind, what, value) in rows {
        let name = format!("warpseek_cluster_{name}");
        family(&mut out, &name, kind, what);
        line(&mut out, &name, "", value);
    }
    out
}

fn family(out: &mut String, name: &str, kind: &str, what: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "# HELP {name} {what}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: impl Display) {
    let _ = writeln!(out, "{name}{labels} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_counted_by_time_and_outcome() {
        let counts = Counts::default();
        for (complete, ms) in [(true, 1), (true, 2), (false, 20_000)] {
            counts.add(complete, Duration::from_millis(ms));
        }
        counts.add_failed();
        let page = counts.page(None);
        let value = |start: &str| {
            let found = page.lines().find_map(|line| line.strip_prefix(start)?.strip_prefix(' '));
            found.map(str::to_owned).unwrap_or_else(|| panic!("{start} in {page}"))
        };
        let bucket = |le: &str| {
            value(&format!(
                "warpseek_search_duration_seconds_bucket{{{OF},device=\"cluster\",le=\"{le}\"}}"
            ))
        };
        // A time that equals a bound is counted in its bucket.
        let buckets = ["0.0005", "0.001", "0.0025", "10", "+Inf"].map(bucket);
        assert_eq!(buckets, ["0", "1", "2", "2", "3"]);
        assert_eq!(value(&format!("warpseek_degraded_searches_total{{{OF}}}")), "1");
        assert_eq!(value(&format!("warpseek_failed_searches_total{{{OF}}}")), "1");
        let sum = format!("warpseek_search_duration_seconds_sum{{{OF},device=\"cluster\"}}");
        assert_eq!(value(&sum), "20.003");
    }
}
