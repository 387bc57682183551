use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use warpseek_exec::{Mode, Work};
use warpseek_exec_cpu::Algorithm;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::{EngineChoice, Searching, named};
use crate::progress;
use crate::searcher::Searcher;
use crate::terminal::{count, table};

/// Measure latency and throughput of a file of queries
///
/// Every cell (algorithm, mode, k) is warmed up once, then all cells take turns for the given number of rounds. Latency: one query at a
/// time on one thread, from text to hits, the best of its rounds; mean and percentiles are over queries. Throughput: the best
/// round with all threads.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench queries --index idx --queries log.txt
  warpseek bench queries --index idx --queries log.txt --algorithms ranges,block-max-wand --modes or -k 10,1000 --json")]
pub(super) struct Options {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// File of queries: `id<TAB>text` or text alone a line
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Algorithms
    #[arg(long, value_delimiter = ',', value_name = "NAMES", default_value = "auto",
        value_parser = named::<EngineChoice>(EngineChoice::names()))]
    algorithms: Vec<EngineChoice>,
    /// Modes
    #[arg(long, value_delimiter = ',', value_name = "MODES", default_value = "or,and",
        value_parser = named::<Mode>(Mode::NAMES))]
    modes: Vec<Mode>,
    /// Numbers of hits
    #[arg(short, value_delimiter = ',', value_name = "K", default_value = "10")]
    k: Vec<usize>,
    /// Numbers of threads for throughput
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "1")]
    threads: Vec<usize>,
    /// Rounds
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    #[command(flatten)]
    searching: Searching,
    /// JSON instead of a table
    #[arg(long)]
    json: bool,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// Figures of one cell.
#[derive(Serialize)]
struct Cell {
    algorithm: String,
    mode: String,
    k: usize,
    mean_us: f64,
    p50_us: f64,
    p95_us: f64,
    p99_us: f64,
    /// Queries a second by number of threads.
    qps: BTreeMap<usize, f64>,
    postings_scored: f64,
    blocks_decoded: f64,
    blocks_skipped: f64,
}

/// A cell being measured.
struct Measuring {
    choice: EngineChoice,
    mode: Mode,
    k: usize,
    searcher: Searcher,
    best: Vec<f64>,
    work: Work,
    qps: BTreeMap<usize, f64>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let text = fs::read_to_string(&options.queries)
        .map_err(|e| Failure::user(format!("{}: {e}", options.queries.display())))?;
    let queries: Vec<&str> = text
        .lines()
        .map(|line| line.split_once('\t').map_or(line, |(_, text)| text))
        .filter(|line| !line.trim().is_empty())
        .collect();
    if queries.is_empty() || options.rounds == 0 {
        return Err(Failure::user("there is nothing to measure: no queries, or no rounds"));
    }
    let interrupt = Interrupt::listen(None)?;
    let mut cells = Vec::new();
    for &mode in &options.modes {
        for &k in &options.k {
            for &choice in &options.algorithms {
                let searching = Searching { mode, algorithm: choice, ..options.searching.clone() };
                let searcher = Searcher::open(&options.index, &searching, k, 1)?;
                let (best, qps) = (vec![f64::MAX; queries.len()], BTreeMap::new());
                let work = Work::default();
                cells.push(Measuring { choice, mode, k, searcher, best, work, qps });
            }
        }
    }
    let ranking = cells.first().map_or(String::new(), |cell| cell.searcher.ranking_name());
    let steps = (cells.len() * (options.rounds + 1)) as u64;
    let bar = progress::items("measuring", steps, options.quiet);
    for round in 0..=options.rounds {
        for cell in &mut cells {
            if interrupt.is_set() {
                return Err(Failure::interrupted("interrupted"));
            }
            cell.round(&queries, &options.threads, round == 0)?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let cells: Vec<Cell> = cells.into_iter().map(Measuring::finish).collect();
    let mut out = std::io::stdout().lock();
    if options.json {
        let report = json!({
            "hardware": hardware(), "ranking": ranking, "queries": queries.len(), "rounds": options.rounds, "cells": cells,
        });
        writeln!(out, "{report:#}")?;
    } else {
        writeln!(
            out,
            "{}; {ranking}; {} queries, best of {} rounds",
            hardware(),
            queries.len(),
            options.rounds
        )?;
        print(&cells, &options.threads, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Measuring {
    fn round(&mut self, queries: &[&str], threads: &[usize], warm_up: bool) -> Result<(), Failure> {
        self.searcher.set_threads(1);
        let mut work = Work::default();
        for (best, query) in self.best.iter_mut().zip(queries) {
            let start = Instant::now();
            let answers = self.searcher.answer(&[query]).map_err(|(_, e)| e)?;
            let took = start.elapsed().as_secs_f64() * 1e6;
            if !warm_up {
                *best = best.min(took);
            }
            answers.iter().for_each(|(_, answer)| work += answer.work);
        }
        self.work = work;
        if warm_up {
            return Ok(());
        }
        for &n in threads {
            self.searcher.set_threads(n);
            let start = Instant::now();
            self.searcher.answer(queries).map_err(|(_, e)| e)?;
            let qps = queries.len() as f64 / start.elapsed().as_secs_f64();
            let best = self.qps.entry(n).or_insert(0.0);
            *best = best.max(qps);
        }
        Ok(())
    }

    fn finish(mut self) -> Cell {
        self.best.sort_by(f64::total_cmp);
        let n = self.best.len();
        let percentile = |p: f64| self.best[((n - 1) as f64 * p).round() as usize];
        let per_query = |total: u64| total as f64 / n as f64;
        Cell {
            algorithm: match self.choice {
                EngineChoice::Auto => "auto".to_owned(),
                EngineChoice::Reference => "reference".to_owned(),
                EngineChoice::Cpu(algorithm) => Algorithm::name(algorithm).to_owned(),
            },
            mode: self.mode.to_string(),
            k: self.k,
            mean_us: self.best.iter().sum::<f64>() / n as f64,
            p50_us: percentile(0.5),
            p95_us: percentile(0.95),
            p99_us: percentile(0.99),
            qps: self.qps,
            postings_scored: per_query(self.work.postings_scored),
            blocks_decoded: per_query(self.work.blocks_decoded),
            blocks_skipped: per_query(self.work.blocks_skipped),
        }
    }
}

fn print(cells: &[Cell], threads: &[usize], out: &mut impl Write) -> std::io::Result<()> {
    let mut head =
        ["algorithm", "mode", "k", "mean us", "p50", "p95", "p99"].map(String::from).to_vec();
    head.extend(threads.iter().map(|n| format!("q/s {n}t")));
    head.extend(["scored", "decoded", "skipped"].map(String::from));
    let mut rows = vec![head];
    for cell in cells {
        let us = |value: f64| format!("{value:.1}");
        let mut row = vec![cell.algorithm.clone(), cell.mode.clone(), cell.k.to_string()];
        row.extend([cell.mean_us, cell.p50_us, cell.p95_us, cell.p99_us].map(us));
        row.extend(threads.iter().map(|n| count(cell.qps.get(n).copied().unwrap_or(0.0) as u64)));
        row.extend(
            [cell.postings_scored, cell.blocks_decoded, cell.blocks_skipped]
                .map(|n| format!("{n:.0}")),
        );
        rows.push(row);
    }
    table(&rows, out)
}

/// The processor, and how many of its cores we have.
pub(super) fn hardware() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": ").map(|m| m.1));
    format!("{}, {cores} cores", model.unwrap_or(std::env::consts::ARCH))
}
