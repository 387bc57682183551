//! The `bench queries` command: latency and throughput of a file of queries on the CPU, by
//! algorithm, mode and number of hits.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde_json::json;
use warpseek::options::Algorithm;
use warpseek::plan::Work;
use warpseek::research::Tuning;
use warpseek::{Index, Mode, Request, Searcher, SearcherOptions};

use super::{ding, hardware, index_line, program, read_ids, read_queries};
use crate::report::html::{Page, Target};
use crate::report::svg::{Bars, Curves, Scale, Series};
use crate::statistics::{mean, percentile};
use warpseek_console::Failure;
use warpseek_console::Interrupt;
use warpseek_console::options::{RankingChoice, algorithms, named};
use warpseek_console::progress;
use warpseek_console::terminal::{count, counted, table};

/// Number of points at which a distribution is drawn.
const POINTS: usize = 200;

/// Measure the latency and throughput of a file of queries
///
/// Every cell (algorithm, mode, k) is warmed up once; then all cells take turns for the given
/// number of rounds. Latency is measured for one query at a time on one thread, from text to
/// hits, and is the best of the rounds; the mean and percentiles are over queries. CPU time is
/// the time of that thread, including the reading of the clock: the best round of each query,
/// mean over queries. Throughput is the best round on all threads.
///
/// With k = 10, table 2 of Ding 2009 follows, with the CPU's times in milliseconds (`--modes
/// or,and,and-or` for all of its rows).
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench queries --index idx --queries log.txt
  warpseek bench queries --index idx --queries log.txt --algorithms auto,wand -k 10,1000 --json
  warpseek bench queries --index idx --queries log.txt --threads 1,2,4 --html report.html")]
pub(super) struct Options {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// File of queries, one per line: `id<TAB>text` or only the text
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Algorithms to measure
    #[arg(long, value_delimiter = ',', value_name = "NAMES", default_value = "auto",
        value_parser = algorithms(Algorithm::cpu_names()))]
    algorithms: Vec<Algorithm>,
    /// Modes to measure
    #[arg(long, value_delimiter = ',', value_name = "MODES", default_value = "or,and",
        value_parser = named::<Mode>(Mode::NAMES))]
    modes: Vec<Mode>,
    /// Numbers of hits to measure with
    #[arg(short, value_delimiter = ',', value_name = "K", default_value = "10")]
    k: Vec<usize>,
    /// Numbers of threads for throughput
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "1")]
    threads: Vec<usize>,
    /// Number of rounds
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// Documents per tile, for the algorithm `cohort` [default: 131072, fewer for a single query]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tile: Option<u32>,
    /// Also count all matching documents, exactly
    #[arg(long)]
    count: bool,
    /// Also write the latency of each query, as `id<TAB>microseconds`, to PREFIX.MODE.K; with
    /// several algorithms, to PREFIX.ALGORITHM.MODE.K
    #[arg(long, value_name = "PREFIX")]
    latencies: Option<PathBuf>,
    /// Also write a self-contained HTML page with the table and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Do not show a progress bar
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    ranking: RankingChoice,
}

/// Measurements of one cell.
#[derive(Serialize)]
struct Cell {
    algorithm: String,
    mode: String,
    k: usize,
    mean_us: f64,
    p50_us: f64,
    p95_us: f64,
    p99_us: f64,
    cpu_us: f64,
    /// Queries per second by number of threads.
    qps: BTreeMap<usize, f64>,
    postings_scored: f64,
    blocks_decoded: f64,
    blocks_skipped: f64,
    /// Latencies in ascending order.
    #[serde(skip)]
    sorted_us: Vec<f64>,
}

/// A row of (Ding 2009, table 2) beside the mean time of a cell.
#[derive(Serialize)]
pub(crate) struct Table2 {
    pub(crate) algorithm: String,
    pub(crate) mode: String,
    pub(crate) paper_cpu_ms: f64,
    pub(crate) paper_gpu_ms: f64,
    /// Time on one thread.
    pub(crate) cpu_ms: f64,
}

/// A cell while it is measured.
struct Measuring {
    choice: Algorithm,
    mode: Mode,
    k: usize,
    searcher: Searcher,
    requests: Vec<Request>,
    best: Vec<f64>,
    cpu: Vec<f64>,
    work: Work,
    qps: BTreeMap<usize, f64>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let queries = read_queries(&options.queries)?;
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    if queries.is_empty() || options.rounds == 0 {
        return Err(Failure::user(
            "nothing to measure: --queries must name a file with at least one query, and --rounds must be at least 1",
        ));
    }
    let target = options.html.as_deref().map(Target::new).transpose()?;
    let interrupt = Interrupt::listen(None)?;
    let index = Index::open(&options.index)?;
    let ranking = options.ranking.get(index.snapshot()?.manifest())?;
    let mut cells = Vec::new();
    for &mode in &options.modes {
        for &k in &options.k {
            for &choice in &options.algorithms {
                let tuning = Tuning { tile: options.tile, ..Tuning::default() };
                let settings = SearcherOptions::new()
                    .ranking(ranking)
                    .algorithm(choice)
                    .threads(1)
                    .tuning(tuning);
                let searcher = index.searcher_with(settings)?;
                let request =
                    |&text: &&str| Request::new(text).k(k).mode(mode).count(options.count);
                let requests = queries.iter().map(request).collect();
                let (best, qps) = (vec![f64::MAX; queries.len()], BTreeMap::new());
                let (cpu, work) = (best.clone(), Work::default());
                cells.push(Measuring { choice, mode, k, searcher, requests, best, cpu, work, qps });
            }
        }
    }
    let ranking = cells.first().map_or(String::new(), |cell| cell.searcher.ranking_name());
    let count_matches = options.count;
    let steps = (cells.len() * (options.rounds + 1)) as u64;
    let bar = progress::items("measuring", steps, options.quiet);
    for round in 0..=options.rounds {
        for cell in &mut cells {
            if interrupt.is_set() {
                return Err(Failure::interrupted("interrupted"));
            }
            cell.round(&options.threads, round == 0)?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let index = cells.first().map(|cell| index_line(&options.index, &cell.searcher.snapshot()));
    let parameters = cells.first().map(|cell| cell.searcher.ranking().to_string());
    if let Some(prefix) = &options.latencies {
        let ids = read_ids(&options.queries)?;
        for cell in &cells {
            let algorithm = (options.algorithms.len() > 1).then_some(cell.choice.name());
            cell.write_latencies(prefix, algorithm, &ids)?;
        }
    }
    let cells: Vec<Cell> = cells.into_iter().map(Measuring::finish).collect();
    let rows = rows(&cells, &options.threads);
    let table_2: Vec<Table2> = cells.iter().filter_map(Table2::of).collect();
    if let Some(target) = target {
        let facts = [
            ("program", program()),
            ("hardware", hardware()),
            ("index", index.unwrap_or_default()),
            ("queries", format!("{}: {}", options.queries.display(), count(queries.len() as u64))),
            ("ranking", ranking.clone()),
            ("parameters", parameters.unwrap_or_default()),
            ("matches counted", if count_matches { "yes" } else { "no" }.to_owned()),
            ("rounds", format!("best of {}, after one to warm up", options.rounds)),
        ];
        target.save(&page(&facts, &rows, &cells, &options.threads))?;
    }
    let mut out = std::io::stdout().lock();
    if options.json {
        let report = json!({
            "hardware": hardware(), "ranking": ranking, "queries": queries.len(), "rounds": options.rounds, "cells": cells, "table_2": table_2,
        });
        writeln!(out, "{report:#}")?;
    } else {
        writeln!(
            out,
            "{}; {ranking}; {}, best of {}",
            hardware(),
            counted(queries.len() as u64, "query"),
            counted(options.rounds as u64, "round"),
        )?;
        table(&rows, &mut out)?;
        print_table_2(&table_2, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Table2 {
    /// Returns the row of a cell, if the table has one.
    fn of(cell: &Cell) -> Option<Table2> {
        let row = ding::table_2(cell.mode.parse().ok()?, cell.k)?;
        Some(Table2 {
            algorithm: cell.algorithm.clone(),
            mode: cell.mode.clone(),
            paper_cpu_ms: row.cpu_ms,
            paper_gpu_ms: row.gpu_ms,
            cpu_ms: cell.mean_us / 1e3,
        })
    }
}

fn print_table_2(rows: &[Table2], out: &mut impl Write) -> std::io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nTable 2 of Ding 2009, the best {} of GOV2 on one core of 2.66 GHz and a GeForce 8800 GTS, next to one core here and this index; mean ms per query (a GPU: bench gpu)",
        ding::K
    )?;
    let head = ["algorithm", "mode", "paper's CPU", "paper's GPU", "CPU here"];
    let mut cells = vec![head.map(String::from).to_vec()];
    for row in rows {
        let paper = [row.paper_cpu_ms, row.paper_gpu_ms].map(|ms| format!("{ms:.2}"));
        let here = vec![format!("{:.4}", row.cpu_ms)];
        cells.push([vec![row.algorithm.clone(), row.mode.clone()], paper.to_vec(), here].concat());
    }
    table(&cells, out)
}

impl Measuring {
    fn round(&mut self, threads: &[usize], warm_up: bool) -> Result<(), Failure> {
        let mut work = Work::default();
        for ((best, least_cpu), request) in
            self.best.iter_mut().zip(&mut self.cpu).zip(&self.requests)
        {
            let spent = thread_cpu_time();
            let start = Instant::now();
            let response = self.searcher.search(request)?;
            let took = start.elapsed().as_secs_f64() * 1e6;
            let spent = thread_cpu_time().saturating_sub(spent).as_secs_f64() * 1e6;
            if !warm_up {
                *best = best.min(took);
                *least_cpu = least_cpu.min(spent);
            }
            work += response.work().unwrap_or_default();
        }
        self.work = work;
        if warm_up {
            return Ok(());
        }
        for &n in threads {
            let searcher = self.searcher.with_threads(n);
            let start = Instant::now();
            let responses = searcher.search_batch(&self.requests);
            let qps = self.requests.len() as f64 / start.elapsed().as_secs_f64();
            responses.into_iter().find_map(Result::err).map_or(Ok(()), Err)?;
            let best = self.qps.entry(n).or_insert(0.0);
            *best = best.max(qps);
        }
        Ok(())
    }

    /// Writes the id and the latency of each query.
    fn write_latencies(
        &self,
        prefix: &Path,
        algorithm: Option<&str>,
        ids: &[String],
    ) -> Result<(), Failure> {
        let mut path = prefix.as_os_str().to_owned();
        if let Some(algorithm) = algorithm {
            path.push(format!(".{algorithm}"));
        }
        path.push(format!(".{}.{}", self.mode, self.k));
        let line = |(id, us): (&String, &f64)| format!("{id}\t{us:.1}\n");
        let lines: String = ids.iter().zip(&self.best).map(line).collect();
        let path = PathBuf::from(path);
        fs::write(&path, lines).map_err(|e| Failure::user(format!("{}: {e}", path.display())))
    }

    fn finish(mut self) -> Cell {
        self.best.sort_by(f64::total_cmp);
        let n = self.best.len();
        let at = |share: f64| percentile(&self.best, share).unwrap_or_default();
        let per_query = |total: u64| total as f64 / n as f64;
        Cell {
            algorithm: self.choice.name().to_owned(),
            mode: self.mode.to_string(),
            k: self.k,
            mean_us: mean(&self.best),
            p50_us: at(0.5),
            p95_us: at(0.95),
            p99_us: at(0.99),
            cpu_us: self.cpu.iter().sum::<f64>() / n as f64,
            qps: self.qps,
            postings_scored: per_query(self.work.postings_scored),
            blocks_decoded: per_query(self.work.blocks_decoded),
            blocks_skipped: per_query(self.work.blocks_skipped),
            sorted_us: self.best,
        }
    }
}

/// Returns the CPU time that this thread has used; latency is measured on one thread.
fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn rows(cells: &[Cell], threads: &[usize]) -> Vec<Vec<String>> {
    let mut head = ["algorithm", "mode", "k", "mean us", "p50", "p95", "p99", "cpu us"]
        .map(String::from)
        .to_vec();
    head.extend(threads.iter().map(|n| format!("q/s {n}t")));
    head.extend(["scored", "decoded", "skipped"].map(String::from));
    let mut rows = vec![head];
    for cell in cells {
        let us = |value: f64| format!("{value:.1}");
        let mut row = vec![cell.algorithm.clone(), cell.mode.clone(), cell.k.to_string()];
        row.extend([cell.mean_us, cell.p50_us, cell.p95_us, cell.p99_us, cell.cpu_us].map(us));
        row.extend(threads.iter().map(|n| count(cell.qps.get(n).copied().unwrap_or(0.0) as u64)));
        row.extend(
            [cell.postings_scored, cell.blocks_decoded, cell.blocks_skipped]
                .map(|n| format!("{n:.0}")),
        );
        rows.push(row);
    }
    rows
}

/// Renders the measurements as a page with a colour for each algorithm and, of each kind of
/// figure, one for each mode and k.
fn page(facts: &[(&str, String)], rows: &[Vec<String>], cells: &[Cell], threads: &[usize]) -> Page {
    let mut page = Page::new("Queries", facts);
    page.table(rows);
    // Cells are ordered by mode and k, then by algorithm, and every such group has all algorithms.
    let groups: Vec<&[Cell]> = cells.chunk_by(|a, b| (&a.mode, a.k) == (&b.mode, b.k)).collect();
    let algorithms = groups.first().copied().unwrap_or_default();
    let algorithms: Vec<String> = algorithms.iter().map(|cell| cell.algorithm.clone()).collect();
    let title = |cells: &[Cell]| format!("{}, k = {}", cells[0].mode.to_uppercase(), cells[0].k);
    let bars = |names: &[String], unit: &str, scale: Scale, values: &dyn Fn(&Cell) -> Vec<f64>| {
        let draw = |cells: &&[Cell]| {
            let series = cells.iter().map(|cell| (cell.algorithm.clone(), values(cell))).collect();
            let (title, unit, groups) = (title(cells), unit.to_owned(), names.to_vec());
            Bars { title, unit, scale, groups, series }.draw()
        };
        groups.iter().map(draw).collect::<Vec<String>>()
    };
    let names = ["mean", "p50", "p95", "p99", "mean CPU"].map(String::from);
    let latency = bars(&names, "microseconds", Scale::Log, &|cell| {
        vec![cell.mean_us, cell.p50_us, cell.p95_us, cell.p99_us, cell.cpu_us]
    });
    let note = "One query at a time on one thread, from text to hits.";
    page.figures("Latency", note, &algorithms, &latency);

    let curves = |cells: &&[Cell]| {
        let series = cells.iter().map(distribution).collect();
        let units = ("microseconds".to_owned(), "% of queries".to_owned());
        let scales = (Scale::Log, Scale::Linear);
        Curves { title: title(cells), units, scales, series }.draw()
    };
    let drawn: Vec<String> = groups.iter().map(curves).collect();
    let note = "Share of queries that take at most this long.";
    page.figures("Distribution of latency", note, &algorithms, &drawn);

    let names: Vec<String> = threads.iter().map(|&n| counted(n as u64, "thread")).collect();
    let throughput = bars(&names, "queries per second", Scale::Linear, &|cell| {
        threads.iter().map(|n| cell.qps.get(n).copied().unwrap_or(0.0)).collect()
    });
    let note = "All queries as one batch, from text to hits.";
    page.figures("Throughput", note, &algorithms, &throughput);

    let names = ["postings scored", "blocks decoded", "blocks skipped"].map(String::from);
    let work = bars(&names, "per query", Scale::Log, &|cell| {
        vec![cell.postings_scored, cell.blocks_decoded, cell.blocks_skipped]
    });
    let note = "Means over queries; the same on every machine. Values of 0 have no bar.";
    page.figures("Work", note, &algorithms, &work);
    page
}

/// Returns latencies with the percentage of queries that take no longer, reduced to as many
/// points as are visible.
fn distribution(cell: &Cell) -> Series<(f64, f64)> {
    let sorted = &cell.sorted_us;
    let (n, points) = (sorted.len(), POINTS.min(sorted.len()));
    let point = |i: usize| {
        let rank = i * n / points;
        (sorted[rank - 1], 100.0 * rank as f64 / n as f64)
    };
    (cell.algorithm.clone(), (1..=points).map(point).collect())
}
