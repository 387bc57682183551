//! The `bench deadlines` command: how late answers come after a deadline, and how much of the
//! index they cover.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use serde_json::json;
use warpseek::options::Algorithm;
use warpseek::{Index, Mode, Request, SearcherOptions};
use warpseek_console::options::{RankingChoice, Threads, algorithms, named};
use warpseek_console::terminal::{counted, table};
use warpseek_console::{Failure, Interrupt, progress};
use warpseek_exec::{Answer, Context, Engine, Reference};

use crate::statistics::percentile;
use crate::{hardware, index_line, read_queries};

/// Measure how well deadlines are kept
///
/// Every algorithm answers every query with each deadline, one query at a time. "Over" is the
/// time from the deadline to the answer. "Covered" is the share of live documents that were
/// searched. Partial answers are compared with the reference over the documents that they cover.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench deadlines --index idx --queries log.txt
  warpseek bench deadlines --index idx --queries log.txt --deadlines 0,1,5 --algorithms auto,taat")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// File of queries, one per line: `id<TAB>text` or only the text
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Deadlines to measure, in milliseconds
    #[arg(long, value_delimiter = ',', value_name = "MS", default_value = "0,1,5")]
    deadlines: Vec<f64>,
    /// Algorithms to measure [default: all CPU algorithms except `reference`]
    #[arg(long, value_delimiter = ',', value_name = "NAMES",
        value_parser = algorithms(Algorithm::cpu_names()))]
    algorithms: Vec<Algorithm>,
    /// Modes to measure
    #[arg(long, value_delimiter = ',', value_name = "MODES", default_value = "or,and",
        value_parser = named::<Mode>(Mode::NAMES))]
    modes: Vec<Mode>,
    /// Number of hits per query
    #[arg(short, default_value_t = 10, value_name = "K")]
    k: usize,
    /// Number of partial answers in each cell to compare with the reference, which is slow
    #[arg(long, default_value_t = 3, value_name = "N")]
    compare: usize,
    #[command(flatten)]
    threads: Threads,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Do not show a progress bar
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    ranking: RankingChoice,
}

/// Measurements of one algorithm, mode and deadline.
#[derive(Serialize)]
struct Cell {
    algorithm: &'static str,
    mode: String,
    deadline_ms: f64,
    /// Milliseconds from the deadline to the answer; 0 if it was in time.
    over_p50_ms: f64,
    over_p99_ms: f64,
    over_most_ms: f64,
    /// Share of answers that are partial.
    partial: f64,
    /// Mean share of live documents that were searched.
    covered: f64,
    /// Number of partial answers that were compared with the reference; all were equal.
    compared: usize,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let queries = read_queries(&options.queries)?;
    if queries.is_empty() {
        return Err(Failure::user("the file of --queries is empty"));
    }
    let interrupt = Interrupt::listen(None)?;
    let index = Index::at(&options.index);
    let ranking = options.ranking.get(&index.manifest()?)?;
    let usual = Algorithm::cpu_names().into_iter().filter(|&name| name != "reference");
    let algorithms = match options.algorithms.is_empty() {
        true => usual.filter_map(|name| name.parse().ok()).collect(),
        false => options.algorithms.clone(),
    };
    let steps = algorithms.len() * options.modes.len() * options.deadlines.len();
    let bar = progress::items("measuring", steps as u64, options.quiet);
    let mut cells = Vec::new();
    for algorithm in algorithms {
        let threads = options.threads.get();
        let settings =
            SearcherOptions::new().ranking(ranking).algorithm(algorithm).threads(threads);
        let searcher = index.searcher_with(settings)?;
        for &mode in &options.modes {
            let request = |text: &String| Request::new(text.as_str()).k(options.k).mode(mode);
            let requests: Vec<Request> = queries.iter().map(request).collect();
            // The first search of each query warms the caches of the index, which must not be
            // measured.
            for request in &requests {
                searcher.search(request)?;
            }
            for &deadline in &options.deadlines {
                let time = Duration::try_from_secs_f64(deadline * 1e-3)
                    .map_err(|_| Failure::user(format!("{deadline} is not a valid deadline")))?;
                let (mut over, mut partial, mut covered) = (Vec::new(), 0, 0.0);
                let mut compared = 0;
                for request in &requests {
                    if interrupt.is_set() {
                        return Err(Failure::interrupted("interrupted"));
                    }
                    let request = request.clone().deadline(time);
                    let start = Instant::now();
                    let response = searcher.search(&request)?;
                    over.push(start.elapsed().saturating_sub(time).as_secs_f64() * 1e3);
                    let (searched, all) = response.documents_searched();
                    covered += searched as f64 / all.max(1) as f64;
                    if response.coverage().is_complete() {
                        continue;
                    }
                    partial += 1;
                    if compared < options.compare {
                        compared += 1;
                        let over = response.coverage().clone();
                        let reference = Reference::over(Arc::clone(response.snapshot()), over);
                        let expected: Vec<Answer> = reference
                            .search(&[response.plan()], &Context::new(1))
                            .into_iter()
                            .collect::<Result<_, _>>()?;
                        if expected[0].hits != response.hits() {
                            let what = "hits differ from the reference's over the documents that they cover";
                            return Err(Failure::broken(format!("{algorithm}, {mode}: {what}")));
                        }
                    }
                }
                over.sort_by(f64::total_cmp);
                let at = |share: f64| percentile(&over, share).unwrap_or_default();
                let n = requests.len() as f64;
                cells.push(Cell {
                    algorithm: algorithm.name(),
                    mode: mode.to_string(),
                    deadline_ms: deadline,
                    over_p50_ms: at(0.5),
                    over_p99_ms: at(0.99),
                    over_most_ms: at(1.0),
                    partial: f64::from(partial) / n,
                    covered: covered / n,
                    compared,
                });
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    let mut out = std::io::stdout().lock();
    let about = index_line(&options.index, &*index.snapshot()?);
    if options.json {
        let report = json!({
            "hardware": hardware(), "index": about, "queries": queries.len(), "k": options.k,
            "threads": options.threads.get(), "cells": cells,
        });
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let threads = counted(options.threads.get() as u64, "thread");
    let queries = counted(queries.len() as u64, "query");
    writeln!(out, "{}; {about}; {queries}, k {}, {threads}", hardware(), options.k)?;
    table(&rows(&cells), &mut out)?;
    Ok(ExitCode::SUCCESS)
}

fn rows(cells: &[Cell]) -> Vec<Vec<String>> {
    let head =
        ["algorithm", "mode", "deadline ms", "over p50", "p99", "most", "partial", "covered"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for cell in cells {
        let ms = |value: f64| format!("{value:.3}");
        let percent = |share: f64| format!("{:.1}%", 100.0 * share);
        let mut row =
            vec![cell.algorithm.to_owned(), cell.mode.clone(), cell.deadline_ms.to_string()];
        row.extend([cell.over_p50_ms, cell.over_p99_ms, cell.over_most_ms].map(ms));
        row.extend([cell.partial, cell.covered].map(percent));
        rows.push(row);
    }
    rows
}
