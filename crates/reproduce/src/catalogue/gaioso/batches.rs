//! Chapter 7: batches of 500 queries.

use serde_json::{Value, json};
use warpseek_bench::thesis;

use super::{ALGORITHMS, GPU, ONE_CORE, PARTITIONINGS, POLICIES, cell, times, with};
use crate::catalogue::{Entry, Plot};
use crate::grid::{Cell, Grid, Reader};
use crate::readers::{Wanted, pick};

/// Speedups and seconds by algorithm.
const SPEEDUPS: [&[[f64; 3]; 12]; 2] = [&thesis::WAND_BATCH, &thesis::MAXSCORE_BATCH];
const TIMES: [&[[f64; 3]; 12]; 2] = [&times::WAND_BATCH, &times::MAXSCORE_BATCH];

/// Sizes of partitions.
const SIZES: [u32; 3] = [32, 64, 128];

/// Numbers of partitions per block in the figures.
const PER_BLOCK: [u32; 8] = [1, 5, 10, 50, 100, 150, 200, 250];

/// Milliseconds of a query in seconds of a batch.
const S: f64 = thesis::A_BATCH as f64 / 1e3;

pub(super) fn entries() -> Vec<Entry> {
    let (wand, maxscore, hom, het) = (0, 1, 0, 1);
    vec![
        table_1(),
        asynchronous(2, wand),
        asynchronous(3, maxscore),
        synchronous(),
        seconds(1, wand, hom),
        speedups(2, wand, hom, 128),
        seconds(3, wand, het),
        speedups(4, wand, het, 32),
        seconds(5, maxscore, hom),
        speedups(6, maxscore, hom, 32),
        seconds(7, maxscore, het),
        speedups(8, maxscore, het, 32),
    ]
}

fn table_1() -> Entry {
    let mut grid = Grid::new(&["algorithm"], &["s"], "s per batch");
    for (number, (label, name)) in ALGORITHMS.into_iter().enumerate() {
        let wanted = vec![("algorithm", json!(name)), ("class", json!("batch"))];
        let ours = pick("/sequential", wanted, "ms", S);
        grid =
            grid.row(&[label], ONE_CORE, vec![Cell::new(thesis::BATCH_SEQUENTIAL[number], ours)]);
    }
    Entry::new("table 7.1", "500 queries on one core", grid).note(
        "The thesis has 500 queries of a log of Yahoo, in Java. Ours are synthetic, and the time is that of a query times 500.",
    )
}

/// Returns the fields of the cell of a batch.
fn batch(at: [usize; 3], size: u32, per_block: u32) -> Wanted {
    with(with(cell(at, size, per_block), "class", "batch"), "batch", "async")
}

/// Returns the position of a setting in tables 7.2 and 7.3.
fn position(partitioning: usize, policy: usize, per_block: u32) -> usize {
    6 * partitioning + 2 * policy + usize::from(per_block == 10)
}

fn asynchronous(table: usize, algorithm: usize) -> Entry {
    let columns: Vec<String> =
        SIZES.iter().flat_map(|size| [format!("{size}, s"), format!("{size}, speedup")]).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let labels = ["partitions", "threshold", "per block"];
    let mut grid = Grid::new(&labels, &columns, "s per batch, and speedup");
    for (partitioning, (partitions, _)) in PARTITIONINGS.into_iter().enumerate() {
        for (policy, (threshold, _)) in POLICIES.into_iter().enumerate() {
            for per_block in [1, 10] {
                let row = position(partitioning, policy, per_block);
                let at = [algorithm, partitioning, policy];
                let both = |(column, size): (usize, u32)| {
                    let own = || batch(at, size, per_block);
                    let (time, speedup) =
                        (TIMES[algorithm][row][column], SPEEDUPS[algorithm][row][column]);
                    [
                        Cell::new(time, pick("/cells", own(), "ms", S)),
                        Cell::new(speedup, pick("/cells", own(), "speedup", 1.0)),
                    ]
                };
                let cells = SIZES.into_iter().enumerate().flat_map(both).collect();
                grid = grid.row(&[partitions, threshold, &per_block.to_string()], GPU, cells);
            }
        }
    }
    let title = format!("{}: asynchronous batches", ALGORITHMS[algorithm].0);
    Entry::new(format!("table 7.{table}"), title, grid).note(
        "Columns are the sizes of partitions in documents. Ours has 16 streams, the thesis 32; the time is that of a query times 500.",
    )
}

/// Reads a field of the synchronous batch of an algorithm.
fn sync(algorithm: usize, field: &'static str, factor: f64) -> Reader {
    let wanted: Vec<(&'static str, Value)> =
        vec![("algorithm", json!(ALGORITHMS[algorithm].1)), ("batch", json!("sync"))];
    pick("/cells", wanted, field, factor)
}

fn synchronous() -> Entry {
    let columns = [
        "32 threads, s",
        "speedup",
        "64 threads, s",
        "speedup",
        "128 threads, s",
        "speedup",
        "chosen by the engine, s",
        "speedup",
    ];
    let mut grid = Grid::new(&["algorithm"], &columns, "s per batch, and speedup");
    for (number, (label, _)) in ALGORITHMS.into_iter().enumerate() {
        let lone = |paper: f64| Cell { paper: Some(paper), ours: None };
        let mut cells: Vec<Cell> = times::SYNCHRONOUS[number]
            .iter()
            .flat_map(|&(time, speedup)| [lone(time), lone(speedup)])
            .collect();
        cells.push(Cell::unprinted(sync(number, "ms", S)));
        cells.push(Cell::unprinted(sync(number, "speedup", 1.0)));
        grid = grid.row(&[label], GPU, cells);
    }
    Entry::new("table 7.4", "synchronous batches", grid).note(
        "Our engine chooses the number of warps in a block, up to ten, each with a part of the documents.",
    )
}

/// Returns a figure with the seconds of a batch by partitions per block.
fn seconds(figure: usize, algorithm: usize, partitioning: usize) -> Entry {
    let columns = PER_BLOCK.map(|number| number.to_string());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut grid = Grid::new(&["threshold", "size"], &columns, "s per batch");
    for (policy, (threshold, _)) in POLICIES.into_iter().enumerate() {
        for (column, size) in SIZES.into_iter().enumerate() {
            let cell = |per_block: u32| {
                let row = position(partitioning, policy, per_block);
                let paper = [1, 10].contains(&per_block).then(|| TIMES[algorithm][row][column]);
                let wanted = batch([algorithm, partitioning, policy], size, per_block);
                Cell::new(paper, pick("/cells", wanted, "ms", S))
            };
            grid = grid.row(&[threshold, &size.to_string()], GPU, PER_BLOCK.map(cell).into());
        }
    }
    let (name, partitions) = (ALGORITHMS[algorithm].0, PARTITIONINGS[partitioning].1);
    let title = format!("{name}: {partitions}, time of a batch");
    Entry::new(format!("figure 7.{figure}"), title, grid)
        .plot(Plot::Curves { across: "partitions per block", log: (true, true) })
        .note("The thesis prints the values for 1 and 10 partitions per block, in its tables, and plots the others.")
}

/// Returns a figure with the speedups of a batch by partitions per block.
fn speedups(figure: usize, algorithm: usize, partitioning: usize, size: u32) -> Entry {
    let columns = PER_BLOCK.map(|number| number.to_string());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let column = SIZES.iter().position(|known| *known == size).unwrap_or_default();
    let mut grid = Grid::new(&["threshold"], &columns, "speedup");
    for (policy, (threshold, _)) in POLICIES.into_iter().enumerate() {
        let cell = |per_block: u32| {
            let row = position(partitioning, policy, per_block);
            let paper = [1, 10].contains(&per_block).then(|| SPEEDUPS[algorithm][row][column]);
            // The text gives the best speedups of heterogeneous WAND.
            let printed = match (algorithm, partitioning, policy, per_block) {
                (0, 1, 0, 250) => Some(22.0),
                (0, 1, _, 250) => Some(25.0),
                _ => None,
            };
            let wanted = batch([algorithm, partitioning, policy], size, per_block);
            Cell::new(paper.or(printed), pick("/cells", wanted, "speedup", 1.0))
        };
        grid = grid.row(&[threshold], GPU, PER_BLOCK.map(cell).into());
    }
    let (name, partitions) = (ALGORITHMS[algorithm].0, PARTITIONINGS[partitioning].1);
    let title = format!("{name}: {partitions}, partitions of {size}, speedup of a batch");
    Entry::new(format!("figure 7.{figure}"), title, grid)
        .plot(Plot::Curves { across: "partitions per block", log: (true, false) })
        .note("The thesis prints the values for 1 and 10 partitions per block, in its tables, and plots the others.")
}
