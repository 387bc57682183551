//! Gaioso, 2019: chapters 5 and 7.

mod batches;
mod singles;
mod times;

use serde_json::{Value, json};

use super::Entry;
use crate::readers::Wanted;

/// The step that measures one core, and the one that measures the GPU.
const ONE_CORE: &str = "pruning";
const GPU: &str = "pruning-gpu";

/// Classes of queries: the label, and the name in reports.
const CLASSES: [(&str, &str); 4] =
    [("short", "short"), ("medium", "medium"), ("long", "long"), ("extra", "extra-long")];

/// The algorithms: the label, and the name in reports.
const ALGORITHMS: [(&str, &str); 2] = [("WAND", "wand"), ("MaxScore", "maxscore")];

/// The modes: the label, and the name in reports.
const MODES: [(&str, &str); 2] = [("OR", "or"), ("AND", "and")];

/// Partitionings: the label, and the name in reports.
const PARTITIONINGS: [(&str, &str); 2] = [("hom.", "homogeneous"), ("het.", "heterogeneous")];

/// Threshold policies: the label, and the name in reports.
const POLICIES: [(&str, &str); 3] =
    [("local", "local"), ("Sh-R", "safe-read"), ("Sh-WR", "safe-write-read")];

pub(super) fn entries() -> Vec<Entry> {
    singles::entries().into_iter().chain(batches::entries()).collect()
}

/// Returns the fields of a cell on the GPU. The first three positions are those of the algorithm,
/// the partitioning and the policy.
fn cell(at: [usize; 3], size: u32, per_block: u32) -> Wanted {
    vec![
        ("algorithm", json!(ALGORITHMS[at[0]].1)),
        ("partitioning", json!(PARTITIONINGS[at[1]].1)),
        ("threshold", json!(POLICIES[at[2]].1)),
        ("partition_size", json!(size)),
        ("per_block", json!(per_block)),
    ]
}

/// Adds a field.
fn with(mut wanted: Wanted, name: &'static str, value: impl Into<Value>) -> Wanted {
    wanted.push((name, value.into()));
    wanted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::catalogue::Document;

    #[test]
    fn cells_are_read_by_their_settings() {
        let cell = |per_block: u32, ms: f64| {
            json!({
                "algorithm": "maxscore", "mode": "and", "class": "extra-long", "batch": "alone",
                "partitioning": "heterogeneous", "threshold": "safe-write-read",
                "partition_size": 64, "per_block": per_block, "ms": ms, "speedup": 10.0 * ms,
            })
        };
        let report = json!({"cells": [cell(1, 0.5), cell(10, 0.25)]});
        let entries = Document::Gaioso.entries();
        let table = entries.iter().find(|entry| entry.id == "table 5.13").unwrap();
        let last = &table.grid.rows[23].cells;
        assert_eq!((last[6].paper, last[7].paper), (Some(22.55), Some(14.68)));
        let ours = |i: usize| last[i].ours.as_ref().unwrap()(&report);
        assert_eq!((ours(6), ours(7), ours(0)), (Some(0.25), Some(2.5), None));
    }

    #[test]
    fn figures_have_the_values_of_the_tables() {
        let entries = Document::Gaioso.entries();
        let grid = |id: &str| &entries.iter().find(|entry| entry.id == id).unwrap().grid;
        // Figure 5.15: MaxScore, heterogeneous, OR, extra-long lists; 32 documents.
        let row = &grid("figure 5.15").rows[1];
        let paper: Vec<_> = row.cells.iter().map(|cell| cell.paper).collect();
        assert_eq!(paper, [Some(1.54), None, Some(11.88), None, None, None]);
        // Figure 7.4: WAND, heterogeneous, speedups with 32 documents.
        let row = &grid("figure 7.4").rows[0];
        assert_eq!((row.cells[0].paper, row.cells[2].paper), (Some(1.99), Some(9.43)));
    }
}
