//! Metrics of an aggregator, in the text format of Prometheus. The server that the aggregator is
//! mounted in counts the searches that were answered, and their times.

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::status::Status;

/// Labels that the server uses for searches of a cluster. No index can have this name.
const LABELS: &str = r#"{index="_cluster"}"#;

/// Counters of searches.
#[derive(Default)]
pub(crate) struct Counts {
    /// Number of searches that failed.
    failed: AtomicU64,
}

impl Counts {
    /// Counts a search that failed because of the cluster rather than the request.
    pub(crate) fn add_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the metrics, which the server appends to its own.
    pub(crate) fn page(&self, status: Option<&Status>) -> String {
        let mut out = String::new();
        let name = "warpseek_failed_searches_total";
        family(&mut out, name, "counter", "Searches without an answer.");
        line(&mut out, name, LABELS, self.failed.load(Ordering::Relaxed));
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
        let page = counts.page(None);
        assert!(
            page.ends_with("\nwarpseek_failed_searches_total{index=\"_cluster\"} 1\n"),
            "{page}"
        );
    }
}
