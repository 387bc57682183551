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
use warpseek::{DeviceChoice, Index, Mode, Request, Response, Searcher, SearcherOptions};
use warpseek_console::options::{RankingChoice, Threads, algorithms, named, parse_bytes};
use warpseek_console::terminal::{counted, table};
use warpseek_console::{Failure, Interrupt, progress};
use warpseek_exec::{Answer, Context, Engine, Reference};

use crate::statistics::percentile;
use crate::{hardware, index_line, read_queries};

/// Measure how well deadlines are kept
///
/// Every algorithm answers every query with each deadline, one query or one batch at a time. "Over"
/// is the time from the deadline to the answers. "Covered" is the share of live documents that were
/// searched. Partial answers are compared with the reference over the documents that they cover.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench deadlines --index idx --queries log.txt
  warpseek bench deadlines --index idx --queries log.txt --deadlines 0,1,5 --algorithms auto,taat
  warpseek bench deadlines --index idx --queries log.txt --device cuda --batch 2048
  warpseek bench deadlines --index idx --queries log.txt --device cuda --batch 256 --gpu-memory 8G")]
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
    /// Algorithms to measure [default: auto; on the CPU all except `reference`]
    #[arg(long, value_delimiter = ',', value_name = "NAMES",
        value_parser = algorithms(Algorithm::names()))]
    algorithms: Vec<Algorithm>,
    /// Modes to measure
    #[arg(long, value_delimiter = ',', value_name = "MODES", default_value = "or,and",
        value_parser = named::<Mode>(Mode::NAMES))]
    modes: Vec<Mode>,
    /// Number of hits per query
    #[arg(short, default_value_t = 10, value_name = "K")]
    k: usize,
    /// Number of queries that are answered together, with one deadline
    #[arg(long, default_value_t = 1, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    batch: u32,
    /// Number of partial answers in each cell to compare with the reference, which is slow
    #[arg(long, default_value_t = 3, value_name = "N")]
    compare: usize,
    /// Device that answers the queries
    #[arg(long, value_name = "DEVICE", default_value = "cpu", help_heading = "Device",
        value_parser = ["cpu", "cuda"])]
    device: String,
    /// Number of the GPU (see `warpseek devices`) [default: 0]
    #[arg(long, value_name = "N", help_heading = "Device")]
    gpu: Option<u32>,
    /// Maximum GPU memory to use, e.g. 8G; with too little for all lists, they are loaded when
    /// queries need them [default: all]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Device")]
    gpu_memory: Option<usize>,
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
    let settings = settings(options)?;
    let queries = read_queries(&options.queries)?;
    if queries.is_empty() {
        return Err(Failure::user("the file of --queries is empty"));
    }
    let interrupt = Interrupt::listen(None)?;
    let index = Index::at(&options.index);
    let ranking = options.ranking.get(&index.manifest()?)?;
    let usual = Algorithm::cpu_names().into_iter().filter(|&name| name != "reference");
    let algorithms = match options.algorithms.is_empty() {
        true if options.device == "cuda" => vec![Algorithm::Auto],
        true => usual.filter_map(|name| name.parse().ok()).collect(),
        false => options.algorithms.clone(),
    };
    let steps = algorithms.len() * options.modes.len() * options.deadlines.len();
    let bar = progress::items("measuring", steps as u64, options.quiet);
    let mut cells = Vec::new();
    for algorithm in algorithms {
        let searcher =
            index.searcher_with(settings.clone().ranking(ranking).algorithm(algorithm))?;
        for &mode in &options.modes {
            let request = |text: &String| Request::new(text.as_str()).k(options.k).mode(mode);
            let requests: Vec<Request> = queries.iter().map(request).collect();
            // The first search of each query warms the caches of the index, which must not be
            // measured.
            for batch in requests.chunks(options.batch as usize) {
                search(&searcher, batch)?;
            }
            for &deadline in &options.deadlines {
                let what = (algorithm, mode, deadline);
                cells.push(measure(options, &searcher, &requests, what, &interrupt)?);
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
            "threads": options.threads.get(), "device": options.device, "batch": options.batch,
            "gpu_memory": options.gpu_memory, "cells": cells,
        });
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let threads = counted(options.threads.get() as u64, "thread");
    let queries = counted(queries.len() as u64, "query");
    let batch = match options.batch {
        1 => "one at a time".to_owned(),
        batch => format!("in batches of {batch}"),
    };
    let Options { device, k, .. } = options;
    writeln!(out, "{}; {about}; {queries} {batch}, k {k}, {device}, {threads}", hardware())?;
    table(&rows(&cells), &mut out)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the settings of the device.
fn settings(options: &Options) -> Result<SearcherOptions, Failure> {
    let settings = SearcherOptions::new().threads(options.threads.get());
    if options.device == "cpu" {
        let given =
            [("--gpu", options.gpu.is_some()), ("--gpu-memory", options.gpu_memory.is_some())];
        return match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => {
                Err(Failure::user(format!("{flag} has no effect on the CPU; add --device cuda")))
            }
            None => Ok(settings),
        };
    }
    let settings = settings.device(DeviceChoice::Cuda).gpus(vec![options.gpu.unwrap_or(0)]);
    Ok(match options.gpu_memory {
        Some(bytes) => settings.gpu_memory(bytes as u64),
        None => settings,
    })
}

/// Answers requests together.
fn search(searcher: &Searcher, requests: &[Request]) -> Result<Vec<Response>, Failure> {
    match requests {
        // A single request takes a shorter path.
        [request] => Ok(vec![searcher.search(request)?]),
        batch => Ok(searcher.search_batch(batch).into_iter().collect::<Result<_, _>>()?),
    }
}

/// Answers all requests with a deadline.
fn measure(
    options: &Options,
    searcher: &Searcher,
    requests: &[Request],
    (algorithm, mode, deadline_ms): (Algorithm, Mode, f64),
    interrupt: &Interrupt,
) -> Result<Cell, Failure> {
    let time = Duration::try_from_secs_f64(deadline_ms * 1e-3)
        .map_err(|_| Failure::user(format!("{deadline_ms} is not a valid deadline")))?;
    let (mut over, mut partial, mut covered, mut compared) = (Vec::new(), 0, 0.0, 0);
    for batch in requests.chunks(options.batch as usize) {
        if interrupt.is_set() {
            return Err(Failure::interrupted("interrupted"));
        }
        let batch: Vec<Request> =
            batch.iter().map(|request| request.clone().deadline(time)).collect();
        let start = Instant::now();
        let responses = search(searcher, &batch)?;
        over.push(start.elapsed().saturating_sub(time).as_secs_f64() * 1e3);
        for response in responses {
            let (searched, all) = response.documents_searched();
            covered += searched as f64 / all.max(1) as f64;
            if response.coverage().is_complete() {
                continue;
            }
            partial += 1;
            // Those for which something was searched say more.
            if searched > 0 && compared < options.compare {
                compared += 1;
                if !is_exact(&response)? {
                    let what =
                        "hits differ from the reference's over the documents that they cover";
                    return Err(Failure::broken(format!("{algorithm}, {mode}: {what}")));
                }
            }
        }
    }
    over.sort_by(f64::total_cmp);
    let at = |share: f64| percentile(&over, share).unwrap_or_default();
    let n = requests.len() as f64;
    Ok(Cell {
        algorithm: algorithm.name(),
        mode: mode.to_string(),
        deadline_ms,
        over_p50_ms: at(0.5),
        over_p99_ms: at(0.99),
        over_most_ms: at(1.0),
        partial: f64::from(partial) / n,
        covered: covered / n,
        compared,
    })
}

/// Compares a response with the reference over the documents that it covers.
fn is_exact(response: &Response) -> Result<bool, Failure> {
    let over = response.coverage().clone();
    let reference = Reference::over(Arc::clone(response.snapshot()), over);
    let expected = reference.search(&[response.plan()], &Context::new(1)).into_iter();
    let expected: Vec<Answer> = expected.collect::<Result<_, _>>()?;
    Ok(expected[0].hits == response.hits())
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
