//! Chapter 5: one query of two terms at a time.

use serde_json::json;
use warpseek_bench::thesis;

use super::{
    ALGORITHMS, CLASSES, GPU, MODES, ONE_CORE, PARTITIONINGS, POLICIES, cell, times, with,
};
use crate::catalogue::{Entry, Plot};
use crate::grid::{Cell, Grid};
use crate::readers::{Wanted, pick};

/// Speedups by algorithm and mode.
const SPEEDUPS: [[&[[f64; 4]; 24]; 2]; 2] =
    [[&thesis::WAND_OR, &thesis::WAND_AND], [&thesis::MAXSCORE_OR, &thesis::MAXSCORE_AND]];
/// Milliseconds by algorithm and mode.
const TIMES: [[&[[f64; 4]; 24]; 2]; 2] =
    [[&times::WAND_OR, &times::WAND_AND], [&times::MAXSCORE_OR, &times::MAXSCORE_AND]];

/// Numbers of partitions per block in the figures.
const PER_BLOCK: [u32; 6] = [1, 5, 10, 100, 150, 200];

const NOTE: &str = "The thesis has lists without compression and documents of 50.2 million pages; ours decode compressed lists. Speedups are over the same algorithm on one core.";

pub(super) fn entries() -> Vec<Entry> {
    let mut all = Vec::new();
    for algorithm in 0..2 {
        for mode in 0..2 {
            // The tables of an algorithm and mode: on one core, on the GPU, recall.
            let first = 3 + 6 * algorithm + 3 * mode;
            all.push(sequential(first, algorithm, mode));
            all.push(parallel(first + 1, algorithm, mode));
            all.push(recall(first + 2, algorithm, mode));
        }
    }
    all.extend(figures());
    all
}

fn names(algorithm: usize, mode: usize) -> String {
    format!("{}, {}", ALGORITHMS[algorithm].0, MODES[mode].0)
}

/// Tables 5.3, 5.6, 5.9 and 5.12.
fn sequential(table: usize, algorithm: usize, mode: usize) -> Entry {
    let mut grid = Grid::new(&["class", "documents per list"], &["ms"], "ms per query");
    for (class, (label, name)) in CLASSES.into_iter().enumerate() {
        let wanted = vec![
            ("algorithm", json!(ALGORITHMS[algorithm].1)),
            ("mode", json!(MODES[mode].1)),
            ("class", json!(name)),
        ];
        let paper = thesis::SEQUENTIAL[2 * algorithm + mode][class];
        let docs = thesis::CLASSES[class].1.to_string();
        let cells = vec![Cell::new(paper, pick("/sequential", wanted, "ms", 1.0))];
        grid = grid.row(&[label, &docs], ONE_CORE, cells);
    }
    let title = format!("{}: on one core", names(algorithm, mode));
    Entry::new(format!("table 5.{table}"), title, grid).note(
        "The thesis runs Java; ours is Rust with vector instructions. Our lists have the thesis's lengths if the index is large enough, else the same fractions of its longest list.",
    )
}

/// Returns the position of a row in tables 5.4, 5.7, 5.10 and 5.13.
fn position(partitioning: usize, policy: usize, size: u32, per_block: u32) -> usize {
    12 * partitioning + 4 * policy + 2 * usize::from(size == 64) + usize::from(per_block == 10)
}

/// Returns the fields of the cell of a query alone.
fn alone(at: [usize; 3], mode: usize, class: &str, size: u32, per_block: u32) -> Wanted {
    let wanted = with(cell(at, size, per_block), "mode", MODES[mode].1);
    with(with(wanted, "class", class), "batch", "alone")
}

/// Tables 5.4, 5.7, 5.10 and 5.13.
fn parallel(table: usize, algorithm: usize, mode: usize) -> Entry {
    let columns: Vec<String> = CLASSES
        .iter()
        .flat_map(|(label, _)| [format!("{label}, ms"), format!("{label}, speedup")])
        .collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let labels = ["partitions", "threshold", "size", "per block"];
    let mut grid = Grid::new(&labels, &columns, "ms per query, and speedup");
    for (partitioning, (partitions, _)) in PARTITIONINGS.into_iter().enumerate() {
        for (policy, (threshold, _)) in POLICIES.into_iter().enumerate() {
            for size in [32, 64] {
                for per_block in [1, 10] {
                    let row = position(partitioning, policy, size, per_block);
                    let at = [algorithm, partitioning, policy];
                    let both = |(class, (_, name)): (usize, (&str, &str))| {
                        let own = || alone(at, mode, name, size, per_block);
                        let ms = TIMES[algorithm][mode][row][class];
                        let speedup = SPEEDUPS[algorithm][mode][row][class];
                        [
                            Cell::new(ms, pick("/cells", own(), "ms", 1.0)),
                            Cell::new(speedup, pick("/cells", own(), "speedup", 1.0)),
                        ]
                    };
                    let cells = CLASSES.into_iter().enumerate().flat_map(both).collect();
                    let (size, per_block) = (size.to_string(), per_block.to_string());
                    let labels = [partitions, threshold, &size, &per_block];
                    grid = grid.row(&labels, GPU, cells);
                }
            }
        }
    }
    let title = format!("{}: on the GPU", names(algorithm, mode));
    Entry::new(format!("table 5.{table}"), title, grid).note(NOTE)
}

/// Tables 5.5, 5.8, 5.11 and 5.14.
fn recall(table: usize, algorithm: usize, mode: usize) -> Entry {
    let columns: Vec<String> = CLASSES
        .iter()
        .flat_map(|(label, _)| [format!("{label}, recall"), format!("{label}, deviation")])
        .collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut grid = Grid::new(&["partitions", "threshold"], &columns, "share of the exact hits");
    for (policy, (threshold, _)) in POLICIES.into_iter().enumerate() {
        let at = [algorithm, 0, policy];
        let both = |(class, (_, name)): (usize, (&str, &str))| {
            let own = || alone(at, mode, name, 32, 1);
            let paper = |of: &[[[f64; 4]; 3]; 4]| of[2 * algorithm + mode][policy][class];
            [
                Cell::new(paper(&thesis::RECALL), pick("/cells", own(), "recall", 1.0)),
                Cell::new(paper(&times::DEVIATION), pick("/cells", own(), "recall_deviation", 1.0)),
            ]
        };
        let cells = CLASSES.into_iter().enumerate().flat_map(both).collect();
        grid = grid.row(&[PARTITIONINGS[0].0, threshold], GPU, cells);
    }
    let title = format!("{}: recall of homogeneous partitions", names(algorithm, mode));
    Entry::new(format!("table 5.{table}"), title, grid).note(
        "Ours has partitions of 32 documents, one per block, and counts a document that two partitions find once, with its better score. Heterogeneous partitions are exact.",
    )
}

/// Figures 5.1 to 5.20.
fn figures() -> Vec<Entry> {
    let (wand, maxscore, or, and, hom, het) = (0, 1, 0, 1, 0, 1);
    vec![
        by_class(1, wand, or, &[hom, het], 1),
        by_class(2, wand, or, &[hom], 10),
        by_class(3, wand, or, &[het], 10),
        by_per_block(4, wand, or, hom),
        by_per_block(5, wand, or, het),
        by_class(6, wand, and, &[hom, het], 1),
        by_class(7, wand, and, &[hom], 10),
        by_class(8, wand, and, &[het], 10),
        by_per_block(9, wand, and, hom),
        by_per_block(10, wand, and, het),
        by_class(11, maxscore, or, &[hom, het], 1),
        by_class(12, maxscore, or, &[hom, het], 10),
        by_per_block(13, maxscore, or, hom),
        by_per_block(14, maxscore, or, het),
        extra_long(15, maxscore, or),
        by_class(16, maxscore, and, &[hom, het], 1),
        by_class(17, maxscore, and, &[hom, het], 10),
        by_per_block(18, maxscore, and, hom),
        by_per_block(19, maxscore, and, het),
        extra_long(20, maxscore, and),
    ]
}

/// Returns a cell with a speedup of a figure, with partitions of 32 documents. The thesis prints
/// it if a table has it.
fn speedup(at: [usize; 3], mode: usize, class: usize, per_block: u32) -> Cell {
    let row = position(at[1], at[2], 32, per_block);
    let paper = [1, 10].contains(&per_block).then(|| SPEEDUPS[at[0]][mode][row][class]);
    let wanted = alone(at, mode, CLASSES[class].1, 32, per_block);
    Cell::new(paper, pick("/cells", wanted, "speedup", 1.0))
}

/// Returns a figure of speedups by class.
fn by_class(
    figure: usize,
    algorithm: usize,
    mode: usize,
    partitionings: &[usize],
    per_block: u32,
) -> Entry {
    let columns = CLASSES.map(|(label, _)| label);
    let mut grid = Grid::new(&["partitions", "threshold"], &columns, "speedup");
    for &partitioning in partitionings {
        for (policy, (threshold, _)) in POLICIES.into_iter().enumerate() {
            let at = [algorithm, partitioning, policy];
            let cells = (0..4).map(|class| speedup(at, mode, class, per_block)).collect();
            grid = grid.row(&[PARTITIONINGS[partitioning].0, threshold], GPU, cells);
        }
    }
    let partitions = if per_block == 1 { "partition" } else { "partitions" };
    let whose = match partitionings {
        [one] => format!("{} ", PARTITIONINGS[*one].1),
        _ => String::new(),
    };
    let title = format!("{}: {per_block} {whose}{partitions} per block", names(algorithm, mode));
    Entry::new(format!("figure 5.{figure}"), title, grid)
        .plot(Plot::Bars { log: false })
        .note("Partitions of 32 documents; the printed values are those of the tables.")
}

/// Returns a figure of speedups by partitions per block, for all classes.
fn by_per_block(figure: usize, algorithm: usize, mode: usize, partitioning: usize) -> Entry {
    let columns = PER_BLOCK.map(|number| number.to_string());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut grid = Grid::new(&["threshold", "class"], &columns, "speedup");
    for (policy, (threshold, _)) in POLICIES.into_iter().enumerate() {
        for (class, (label, _)) in CLASSES.into_iter().enumerate() {
            let at = [algorithm, partitioning, policy];
            let cells = PER_BLOCK.map(|number| speedup(at, mode, class, number));
            grid = grid.row(&[threshold, label], GPU, cells.into());
        }
    }
    let partitions = PARTITIONINGS[partitioning].1;
    let title = format!("{}: {partitions}, by partitions per block", names(algorithm, mode));
    Entry::new(format!("figure 5.{figure}"), title, grid)
        .plot(Plot::Curves { across: "partitions per block", log: (true, true) })
        .note("Partitions of 32 documents. The thesis prints the values for 1 and 10 partitions per block, in its tables, and plots the others.")
}

/// Returns a figure of the policies on extra-long lists, with heterogeneous partitions.
fn extra_long(figure: usize, algorithm: usize, mode: usize) -> Entry {
    let columns = PER_BLOCK.map(|number| number.to_string());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut grid = Grid::new(&["threshold"], &columns, "speedup");
    for (policy, (threshold, _)) in POLICIES.into_iter().enumerate() {
        let cells = PER_BLOCK.map(|number| speedup([algorithm, 1, policy], mode, 3, number));
        grid = grid.row(&[threshold], GPU, cells.into());
    }
    let title = format!("{}: extra-long lists, heterogeneous", names(algorithm, mode));
    Entry::new(format!("figure 5.{figure}"), title, grid)
        .plot(Plot::Curves { across: "partitions per block", log: (true, false) })
        .note("The thesis says that sharing the threshold is up to 60% faster than local ones, with 100 partitions per block.")
}
