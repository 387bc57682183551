//! The `--classes` part of `bench gpu`: queries grouped by their number of terms.

use std::io::Write;

use serde::Serialize;
use serde_json::json;
use warpseek_console::Failure;
use warpseek_console::terminal::{count, table};
use warpseek_exec::Answer;
use warpseek_exec_gpu::GpuEngine;

use super::measurement::{Alone, BatchRates, Bench, Setting, check, postings_of};

/// Number of terms of the last class, which also contains longer queries.
const MOST: usize = 6;

/// Figures of one class.
#[derive(Serialize)]
pub(super) struct Cell {
    #[serde(flatten)]
    setting: Setting,
    /// Number of terms that are in the index; the last class also contains queries with more.
    terms: usize,
    queries: usize,
    /// Number of postings of all queries of the class.
    postings: u64,
    #[serde(flatten)]
    batch: BatchRates,
    #[serde(flatten)]
    alone: Alone,
}

/// Measures each class as a separate batch and one query at a time. `answers` are the answers to
/// all queries in one batch.
pub(super) fn measure(
    bench: &Bench<'_>,
    engine: &GpuEngine,
    setting: Setting,
    answers: &[Answer],
) -> Result<Vec<Cell>, Failure> {
    let plans = bench.plans(bench.queries, setting.mode, setting.k, &bench.context)?;
    let mut cells = Vec::new();
    for terms in 1..=MOST {
        let is_in_class = |i: &usize| plans[*i].terms.len().min(MOST) == terms;
        let members: Vec<usize> = (0..plans.len()).filter(is_in_class).collect();
        if members.is_empty() {
            continue;
        }
        let queries: Vec<&str> = members.iter().map(|&i| bench.queries[i]).collect();
        let expected: Vec<Answer> = members.iter().map(|&i| answers[i].clone()).collect();
        let postings = members.iter().map(|&i| postings_of(&plans[i..=i])).sum();
        let (batch, answers) = bench.batch(engine, &queries, setting)?;
        check(
            &expected,
            &answers,
            "has different hits in its class than in the batch of all queries",
        )?;
        let alone = bench.alone(engine, &queries, setting, &expected)?;
        let cell = Cell { setting, terms, queries: queries.len(), postings, batch, alone };
        eprintln!("{}", json!(cell));
        cells.push(cell);
    }
    Ok(cells)
}

pub(super) fn print(cells: &[Cell], out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "\nQueries by number of terms, each class as a separate batch")?;
    let head = [
        "terms",
        "tile",
        "at once",
        "mode",
        "k",
        "queries",
        "postings/query",
        "q/s",
        "kernels q/s",
        "10^9 postings/s",
        "p50 us",
        "p99 us",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for Cell { setting, terms, queries, postings, batch, alone } in cells {
        rows.push(vec![
            if *terms < MOST { terms.to_string() } else { format!("{terms}+") },
            (1u64 << setting.tile_bits).to_string(),
            setting.at_once.map_or("-".to_owned(), |docs| docs.to_string()),
            setting.mode.to_string(),
            setting.k.to_string(),
            count(*queries as u64),
            count(postings / *queries as u64),
            count(batch.qps as u64),
            count(batch.device_qps as u64),
            format!("{:.1}", batch.postings_per_s / 1e9),
            format!("{:.1}", alone.p50_us),
            format!("{:.1}", alone.p99_us),
        ]);
    }
    table(&rows, out)
}
