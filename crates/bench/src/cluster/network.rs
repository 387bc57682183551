//! The network rate of nodes, beside that of Agrawal 2016, section 6.5.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

/// Rate of a node in the paper, in Mbit/s, and the queries per second for which it is: cohorts of
/// 256 queries every 50 ms, with 20 bytes for a query and 8 for each of 32 hits.
pub(super) const PAPER_MBIT: f64 = 11.0;
pub(super) const PAPER_RATE: f64 = 5120.0;

/// Traffic of the nodes during a measurement, without the heads of packets.
#[derive(Serialize)]
pub(super) struct Traffic {
    /// Mean over the nodes of the rates from and to the aggregator.
    sent_mbit_per_s: f64,
    received_mbit_per_s: f64,
    /// Mean and maximum over the nodes of both directions together.
    pub(super) node_mbit_per_s: f64,
    largest_node_mbit_per_s: f64,
    /// Bytes in both directions for a query in a shard.
    bytes_per_query: f64,
    /// The rate of a node that would get the queries of the paper's example, each with as many
    /// bytes as here.
    pub(super) at_paper_rate_mbit_per_s: f64,
}

impl Traffic {
    /// Returns the traffic between two states of a cluster, in which `calls` queries were sent to
    /// a shard.
    pub(super) fn between(before: &Value, after: &Value, took: Duration, calls: f64) -> Self {
        let bytes = |status: &Value, node: usize, name: &str| {
            status["nodes"][node][name].as_u64().unwrap_or(0) as f64
        };
        let nodes = after["nodes"].as_array().map_or(0, Vec::len);
        let of = |node: usize, name: &str| {
            (bytes(after, node, name) - bytes(before, node, name)).max(0.0)
        };
        let mbit = |bytes: f64| bytes * 8e-6 / took.as_secs_f64().max(f64::MIN_POSITIVE);
        let all = |name: &str| (0..nodes).map(|node| of(node, name)).sum::<f64>();
        let (sent, received) = (all("sent_bytes"), all("received_bytes"));
        let both = (0..nodes).map(|node| of(node, "sent_bytes") + of(node, "received_bytes"));
        let (count, bytes_per_query) = (nodes.max(1) as f64, (sent + received) / calls.max(1.0));
        Traffic {
            sent_mbit_per_s: mbit(sent / count),
            received_mbit_per_s: mbit(received / count),
            node_mbit_per_s: mbit((sent + received) / count),
            largest_node_mbit_per_s: mbit(both.fold(0.0, f64::max)),
            bytes_per_query,
            at_paper_rate_mbit_per_s: bytes_per_query * PAPER_RATE * 8e-6,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_rate_is_that_of_both_directions() {
        let state = |bytes: [u64; 4]| {
            let node = |sent, received| json!({"sent_bytes": sent, "received_bytes": received});
            json!({"nodes": [node(bytes[0], bytes[1]), node(bytes[2], bytes[3])]})
        };
        let (before, after) = (state([10, 20, 30, 40]), state([510_010, 20, 1_500_030, 2_000_040]));
        let traffic = Traffic::between(&before, &after, Duration::from_secs(2), 1000.0);
        let close = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found}");
        close(traffic.sent_mbit_per_s, 4.02);
        close(traffic.received_mbit_per_s, 4.0);
        close(traffic.node_mbit_per_s, 8.02);
        close(traffic.largest_node_mbit_per_s, 14.0);
        close(traffic.bytes_per_query, 4010.0);
        close(traffic.at_paper_rate_mbit_per_s, 164.2496);
    }

    #[test]
    fn the_rate_of_the_paper_follows_from_its_example() {
        let bytes = 256.0 * 20.0 + 256.0 * 32.0 * 8.0;
        assert_eq!((bytes * 8e-6 / 0.05_f64).round(), PAPER_MBIT);
        assert_eq!(256.0 / 0.05, PAPER_RATE);
    }
}
