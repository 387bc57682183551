//! Metrics of an aggregator, in the text format of Prometheus. The server that the aggregator is
//! mounted in counts the searches that were answered, and their times.

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::status::{NodeStatus, Status};

/// Labels that the server uses for searches of a cluster. No index can have this name.
const LABELS: &str = r#"{index="_cluster"}"#;

/// Upper bounds of the numbers of queries in a cohort.
const SIZES: [f64; 13] =
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

/// Upper bounds of waiting times in seconds, as in the histograms of the server.
const WAITS: [f64; 13] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// A histogram whose bounds its user knows.
#[derive(Default)]
struct Histogram {
    /// Numbers of values up to each bound and above the one before; the last is for values above
    /// all bounds.
    counts: [AtomicU64; 14],
    /// Sum of the values, in units that are integers.
    sum: AtomicU64,
}

impl Histogram {
    fn add(&self, bounds: &[f64; 13], value: f64, units: u64) {
        let at = bounds.partition_point(|bound| *bound < value);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(units, Ordering::Relaxed);
    }

    fn all(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Writes the histogram; `per_unit` is the number of units of the sum in a value of 1.
    fn show(&self, out: &mut String, name: &str, what: &str, bounds: &[f64; 13], per_unit: f64) {
        family(out, name, "histogram", what);
        let mut below = 0;
        for (bound, count) in bounds.iter().zip(&self.counts) {
            below += count.load(Ordering::Relaxed);
            line(out, &format!("{name}_bucket"), &format!("{{le=\"{bound}\"}}"), below);
        }
        below += self.counts[bounds.len()].load(Ordering::Relaxed);
        line(out, &format!("{name}_bucket"), "{le=\"+Inf\"}", below);
        line(out, &format!("{name}_sum"), "", self.sum.load(Ordering::Relaxed) as f64 / per_unit);
        line(out, &format!("{name}_count"), "", below);
    }
}

/// Counters of searches.
#[derive(Default)]
pub(crate) struct Counts {
    /// Number of searches that failed.
    failed: AtomicU64,
    /// Numbers of queries in the cohorts that were sent.
    sizes: Histogram,
    /// Waiting times of live queries, with their sum in microseconds.
    waits: Histogram,
}

impl Counts {
    /// Counts a cohort that is sent.
    pub(crate) fn add_cohort(&self, queries: usize) {
        self.sizes.add(&SIZES, queries as f64, queries as u64);
    }

    /// Counts the time that a query of a cohort waited before it was sent.
    pub(crate) fn add_wait(&self, waited: Duration) {
        let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.waits.add(&WAITS, waited.as_secs_f64(), micros);
    }

    /// Returns the number of cohorts that were sent.
    pub(crate) fn cohorts(&self) -> u64 {
        self.sizes.all()
    }

    /// Returns the number of their queries.
    pub(crate) fn cohort_queries(&self) -> u64 {
        self.sizes.sum.load(Ordering::Relaxed)
    }

    /// Counts a search that failed because of the cluster rather than the request.
    pub(crate) fn add_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the metrics, which the server appends to its own. `waiting` is the number of queries
    /// in the line.
    pub(crate) fn page(&self, status: Option<&Status>, waiting: usize) -> String {
        let mut out = String::new();
        let name = "warpseek_failed_searches_total";
        family(&mut out, name, "counter", "Searches without an answer.");
        line(&mut out, name, LABELS, self.failed.load(Ordering::Relaxed));
        let name = "warpseek_cluster_cohort_queries";
        let what = "Queries that were sent to the nodes together.";
        self.sizes.show(&mut out, name, what, &SIZES, 1.0);
        let name = "warpseek_cluster_cohort_wait_seconds";
        let what = "Time for which queries waited for a cohort.";
        self.waits.show(&mut out, name, what, &WAITS, 1e6);
        let name = "warpseek_cluster_cohort_waiting";
        family(&mut out, name, "gauge", "Queries that wait for the next cohort.");
        line(&mut out, name, "", waiting);
        out + &status.map(of_nodes).unwrap_or_default()
    }
}

/// Returns the metrics of the nodes.
fn of_nodes(status: &Status) -> String {
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
    let sent: fn(&NodeStatus) -> u64 = |node| node.sent_bytes;
    let received: fn(&NodeStatus) -> u64 = |node| node.received_bytes;
    for (name, what, bytes) in [
        ("node_sent_bytes_total", "Bytes sent to each node.", sent),
        ("node_received_bytes_total", "Bytes received from each node.", received),
    ] {
        let name = format!("warpseek_cluster_{name}");
        family(&mut out, &name, "counter", what);
        for node in &status.nodes {
            // An address has a port at its end; what precedes it is written as in a string.
            let labels = format!("{{node={:?}}}", node.address);
            line(&mut out, &name, &labels, bytes(node));
        }
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
    fn failed_searches_are_counted_although_no_state_is_known() {
        let counts = Counts::default();
        counts.add_failed();
        let page = counts.page(None, 0);
        assert!(
            page.contains("\nwarpseek_failed_searches_total{index=\"_cluster\"} 1\n"),
            "{page}"
        );
    }

    #[test]
    fn histograms_have_their_bounds() {
        let counts = Counts::default();
        [1, 2, 3, 4096, 5000].into_iter().for_each(|queries| counts.add_cohort(queries));
        counts.add_wait(Duration::from_micros(2500));
        counts.add_wait(Duration::from_secs(20));
        assert_eq!((counts.cohorts(), counts.cohort_queries()), (5, 9102));
        let page = counts.page(None, 3);
        for wanted in [
            "cohort_queries_bucket{le=\"1\"} 1",
            "cohort_queries_bucket{le=\"2\"} 2",
            "cohort_queries_bucket{le=\"4\"} 3",
            "cohort_queries_bucket{le=\"2048\"} 3",
            "cohort_queries_bucket{le=\"4096\"} 4",
            "cohort_queries_bucket{le=\"+Inf\"} 5",
            "cohort_queries_sum 9102",
            "cohort_queries_count 5",
            "cohort_wait_seconds_bucket{le=\"0.001\"} 0",
            "cohort_wait_seconds_bucket{le=\"0.0025\"} 1",
            "cohort_wait_seconds_bucket{le=\"+Inf\"} 2",
            "cohort_wait_seconds_sum 20.0025",
            "cohort_waiting 3",
        ] {
            let line = format!("\nwarpseek_cluster_{wanted}\n");
            assert!(page.contains(&line), "{wanted} is not in {page}");
        }
    }
}
