//! Printing of the tables of `--pruning`. Each table is printed when its measurements are
//! complete.

use std::io::{Result, Write};

use warpseek_console::terminal::table;

use super::{Cell, Goals, Sequential};

/// The columns that describe the setting of a row.
const SETTINGS: [&str; 4] = ["partitions", "threshold", "size", "per block"];

fn settings(cell: &Cell) -> Vec<String> {
    let number = |n: Option<u32>| n.map_or("auto".to_owned(), |n| n.to_string());
    let (size, per_block) = (number(cell.partition_size), number(cell.per_block));
    let (size, per_block) = match cell.batch {
        "sync" => ("whole".to_owned(), "one".to_owned()),
        _ => (size, per_block),
    };
    vec![cell.partitioning.to_owned(), cell.threshold.to_owned(), size, per_block]
}

fn real(x: Option<f64>) -> String {
    x.map_or("-".to_owned(), |x| format!("{x:.2}"))
}

fn rows(heads: &[String], cells: impl Iterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let head = SETTINGS.iter().map(ToString::to_string).chain(heads.iter().cloned()).collect();
    std::iter::once(head).chain(cells).collect()
}

/// Prints the measurements of queries one at a time, with a row for each setting and columns for
/// each class.
pub(super) fn singles(
    sequential: &[Sequential],
    cells: &[Cell],
    out: &mut impl Write,
) -> Result<()> {
    let Some(first) = sequential.first() else { return Ok(()) };
    let (algorithm, mode) = (first.algorithm, &first.mode);
    writeln!(out, "\n{algorithm}, {mode}: on one core")?;
    let mut of_cpu =
        vec![["class", "docs per list", "queries", "ms", "thesis"].map(String::from).to_vec()];
    of_cpu.extend(sequential.iter().map(|row| {
        let docs = row.docs_a_list.map_or("-".to_owned(), |docs| docs.to_string());
        let (ms, thesis_ms) = (format!("{:.2}", row.ms), format!("{:.2}", row.thesis_ms));
        vec![row.class.to_owned(), docs, row.queries.to_string(), ms, thesis_ms]
    }));
    table(&of_cpu, out)?;
    let Some(first) = cells.first() else { return Ok(()) };
    let name = first.table;
    let classes: Vec<&[Cell]> = cells.chunks(cells.len() / sequential.len().max(1)).collect();
    let in_row = |row: usize, columns: fn(&Cell) -> Vec<String>| {
        let mut line = settings(&classes[0][row]);
        line.extend(classes.iter().flat_map(|class| columns(&class[row])));
        line
    };
    let heads = |columns: &[&str]| -> Vec<String> {
        let titles =
            |row: &Sequential| columns.iter().map(|&c| c.replace("{}", row.class)).collect();
        sequential.iter().flat_map(|row| -> Vec<String> { titles(row) }).collect()
    };
    writeln!(
        out,
        "\nTable {name}: {algorithm}, {mode}: ms per query, on the device, speedup, thesis"
    )?;
    let columns = heads(&["{}", "device", "speedup", "thesis"]);
    let times = |cell: &Cell| {
        let (ms, device_ms) = (format!("{:.3}", cell.ms), format!("{:.3}", cell.device_ms));
        vec![ms, device_ms, format!("{:.1}", cell.speedup), real(cell.thesis)]
    };
    let lines = (0..classes[0].len()).map(|row| in_row(row, times));
    table(&rows(&columns, lines), out)?;
    writeln!(out, "\n{algorithm}, {mode}: share of blocks skipped, recall, its deviation, thesis")?;
    let columns = heads(&["{}", "recall", "dev", "thesis"]);
    let shares = |cell: &Cell| {
        let (skipped, recall) = (format!("{:.3}", cell.skipped), format!("{:.3}", cell.recall));
        vec![skipped, recall, format!("{:.3}", cell.recall_deviation), real(cell.thesis_recall)]
    };
    let lines = (0..classes[0].len()).map(|row| in_row(row, shares));
    table(&rows(&columns, lines), out)
}

/// Prints the measurements of batches, with a row for each setting.
pub(super) fn batches(cells: &[Cell], out: &mut impl Write) -> Result<()> {
    let Some(first) = cells.first() else { return Ok(()) };
    let (name, algorithm, cpu_ms) = (first.table, first.algorithm, first.cpu_ms);
    writeln!(
        out,
        "\nTables {name} and 7.4: {algorithm}, batches; {cpu_ms:.2} ms per query on one core"
    )?;
    let heads = ["batch", "ms", "device", "speedup", "thesis", "skipped", "recall"];
    let line = |cell: &Cell| {
        let mut line = settings(cell);
        line.extend([
            cell.batch.to_owned(),
            format!("{:.4}", cell.ms),
            format!("{:.4}", cell.device_ms),
            format!("{:.1}", cell.speedup),
            real(cell.thesis),
            format!("{:.3}", cell.skipped),
            format!("{:.3}", cell.recall),
        ]);
        line
    };
    table(&rows(&heads.map(String::from), cells.iter().map(line)), out)
}

/// Prints the key figures of each algorithm.
pub(super) fn goals(goals: &[Goals], out: &mut impl Write) -> Result<()> {
    if goals.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nExtra-long lists, safe-read over local on the device; heterogeneous batches over one core"
    )?;
    let heads = ["", "safe-read", "size", "per block", "in our setting", "async", "sync"];
    let line = |goal: &Goals| {
        let number = |n: Option<u32>| n.map_or("auto".to_owned(), |n| n.to_string());
        vec![
            goal.algorithm.to_owned(),
            format!("{:.2}", goal.safe_read_over_local),
            number(goal.partition_size),
            number(goal.per_block),
            format!("{:.2}", goal.in_our_own_setting),
            format!("{:.1}", goal.asynchronous_speedup),
            format!("{:.1}", goal.synchronous_speedup),
        ]
    };
    let mut rows = vec![heads.map(String::from).to_vec()];
    rows.extend(goals.iter().map(line));
    table(&rows, out)
}
