//! The default part of `bench gpu`: queries in a batch and one at a time, next to (Ding 2009,
//! table 2).

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use warpseek_console::Failure;
use warpseek_console::terminal::{count, table};
use warpseek_cuda::Device;
use warpseek_cuda::kernels::copy::bandwidth;
use warpseek_exec::{Answer, Context, ExecError, Mode, Plan, Planner, Pool, Query};
use warpseek_exec_cpu::CpuEngine;
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_exec_gpu_papers::CountedEngine;
use warpseek_index::Snapshot;

use super::{
    Options, classes, given, kernel_time, kernels, load, median, one_round_at_a_time, search_all,
};
use crate::{hardware, read_queries};

/// Number of queries that a thread plans and sends to the engine together.
const CHUNK: usize = 1024;

/// Number of hits per query in (Ding 2009, table 2).
const TABLE_2_K: usize = 10;
/// Rows of (Ding 2009, table 2): for each mode, the milliseconds on one core and on the GPU.
const TABLE_2: [(Mode, f64, f64); 3] =
    [(Mode::And, 8.71, 7.66), (Mode::Or, 212.72, 29.31), (Mode::AndOr, 23.85, 9.98)];

/// The copy of an index to the device.
#[derive(Serialize)]
struct ImageCell {
    tile_bits: u32,
    bytes: u64,
    seconds: f64,
}

/// The setting that a cell measures.
#[derive(Serialize, Clone, Copy)]
pub(super) struct Setting {
    pub(super) tile_bits: u32,
    /// Number of documents processed at once, if the user chose it.
    pub(super) at_once: Option<u32>,
    #[serde(serialize_with = "mode_name")]
    pub(super) mode: Mode,
    pub(super) k: usize,
}

fn mode_name<S: serde::Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(mode)
}

#[derive(Serialize)]
struct Cell {
    #[serde(flatten)]
    setting: Setting,
    #[serde(flatten)]
    batch: BatchRates,
    #[serde(flatten)]
    alone: Alone,
    /// Queries per second on all threads of the CPU, from text to hits.
    cpu_qps: f64,
    /// Queries per second on one thread of the CPU, from text to hits.
    cpu_core_qps: f64,
    /// Number of queries whose hits were compared with the CPU's. All were equal.
    compared: usize,
}

/// Rates of queries in one batch; medians of the rounds.
#[derive(Serialize, Clone, Copy)]
pub(super) struct BatchRates {
    /// Queries per second, from text to hits.
    pub(super) qps: f64,
    /// Queries per second by the time of kernels only.
    pub(super) device_qps: f64,
    /// Postings of all lists, read or not, per second of kernel time.
    pub(super) postings_per_s: f64,
}

/// Times of queries one at a time, from text to hits.
#[derive(Serialize, Clone, Copy)]
pub(super) struct Alone {
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) mean_us: f64,
    /// Median time of planning.
    pub(super) plan_us: f64,
    /// Median time of kernels.
    pub(super) kernels_us: f64,
}

/// The state that the measurements of all cells share.
pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) queries: &'a [&'a str],
    /// Uses all threads and has no deadline.
    pub(super) context: Context,
    pub(super) device: &'a Device,
    snapshot: &'a Arc<Snapshot>,
    planner: &'a Planner,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let queries = read_queries(given(options.queries.as_deref(), "--queries")?)?;
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    if queries.is_empty() {
        return Err(Failure::user("the file of --queries is empty"));
    }
    let device = Device::open(options.gpu, None)?;
    let snapshot = Arc::new(Snapshot::open(given(options.index.as_deref(), "--index")?)?);
    let planner = Planner::new(snapshot.clone(), options.ranking.get(snapshot.manifest())?)?;
    let bench = Bench {
        options,
        queries: &queries,
        context: Context::new(options.threads.get()),
        device: &device,
        snapshot: &snapshot,
        planner: &planner,
    };
    // Measure the bandwidth first: it needs device memory that the image takes later.
    let copy = if options.kernels { Some(bandwidth(&device)?) } else { None };
    let (mut cells, mut images) = (Vec::new(), Vec::new());
    let (mut all_steps, mut by_class) = (Vec::new(), Vec::new());
    let default = Settings::default();
    let at_once = match &options.at_once[..] {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    for &tile_bits in &options.tile_bits {
        for &at_once in &at_once {
            let settings = Settings {
                tile_bits,
                or_bits: at_once.unwrap_or(default.or_bits),
                and_bits: at_once.unwrap_or(default.and_bits),
                pruned: !options.exhaustive,
                ..default
            };
            let engine = GpuEngine::new(snapshot.clone(), device.clone(), settings)?;
            let start = Instant::now();
            load(&engine, &planner, options)?;
            let (seconds, bytes) = (start.elapsed().as_secs_f64(), engine.loading().bytes());
            images.push(ImageCell { tile_bits, bytes, seconds });
            eprintln!(
                "image of 2^{tile_bits} documents per tile: {:.2} GB in {seconds:.1} s ({:.1} GB/s)",
                bytes as f64 / 1e9,
                bytes as f64 / 1e9 / seconds.max(1e-9)
            );
            let mut steps = Vec::new();
            for &mode in &options.modes {
                for &k in &options.k {
                    let at_once = at_once.map(|bits| 1 << bits);
                    let setting = Setting { tile_bits, at_once, mode, k };
                    let (cell, answers) = bench.cell(&engine, setting)?;
                    eprintln!("{}", json!(cell));
                    let usual_us = [1e6 / cell.batch.qps.max(1e-9), cell.alone.mean_us];
                    cells.push(cell);
                    if let Some(copy) = copy {
                        let timed =
                            kernels::time(&bench, &engine, setting, usual_us, &answers, copy)?;
                        steps.extend(timed);
                    }
                    if options.classes {
                        by_class.extend(classes::measure(&bench, &engine, setting, &answers)?);
                    }
                }
            }
            if let Some(copy) = copy {
                // The engine with counting kernels replaces this one and keeps its image, so the
                // device never holds two.
                let counted = CountedEngine::new(engine)?;
                all_steps.extend(kernels::count_moved(&bench, &counted, steps, copy)?);
            }
        }
    }
    let paper: Vec<Table2> = cells.iter().filter_map(Table2::of).collect();
    let mut out = std::io::stdout().lock();
    let hardware = format!("{}; {}", device.info().name, hardware());
    let ranking = planner.ranking_name();
    if options.json {
        let report = json!({
            "hardware": hardware, "ranking": ranking, "queries": queries.len(), "images": images,
            "cells": cells, "table_2": paper, "copy_bytes_per_s": copy, "kernels": all_steps,
            "classes": by_class,
        });
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{hardware}; {ranking}; {} queries, median of {} rounds",
        queries.len(),
        options.rounds
    )?;
    print(&cells, &mut out)?;
    if !paper.is_empty() {
        print_paper(&paper, &mut out)?;
    }
    if let Some(copy) = copy {
        kernels::print(&all_steps, copy, &mut out)?;
    }
    if options.classes {
        classes::print(&by_class, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Bench<'_> {
    pub(super) fn plan(&self, text: &str, mode: Mode, k: usize) -> Result<Plan, ExecError> {
        let manifest = self.snapshot.manifest();
        self.planner.plan(&Query::for_index(text, manifest)?, mode, k)
    }

    /// Plans queries on the threads of a context.
    pub(super) fn plans(
        &self,
        queries: &[&str],
        mode: Mode,
        k: usize,
        context: &Context,
    ) -> Result<Vec<Plan>, ExecError> {
        let plan = |(): &mut (), text: &&str| self.plan(text, mode, k);
        context.pool().map(queries, || (), plan).into_iter().collect()
    }

    /// Measures a cell; also returns the answers to all queries.
    fn cell(&self, engine: &GpuEngine, setting: Setting) -> Result<(Cell, Vec<Answer>), Failure> {
        let Setting { mode, k, .. } = setting;
        let some = &self.queries[..self.options.cpu.min(self.queries.len())];
        let on_cpu = |queries: &[&str], context: &Context| -> Result<_, Failure> {
            let cpu = CpuEngine::new(self.snapshot.clone(), None);
            let start = Instant::now();
            let plans = self.plans(queries, mode, k, context)?;
            let answers = search_all(&cpu, &plans, context)?;
            Ok((answers, per_second(queries.len(), start.elapsed())))
        };
        let (expected, cpu_qps) = on_cpu(some, &self.context)?;
        // One thread answers this many queries in about the same time.
        let share = some.len().div_ceil(self.context.threads());
        let (_, cpu_core_qps) = on_cpu(&some[..share], &Context::new(1))?;
        let (batch, answers) = self.batch(engine, self.queries, setting)?;
        check(&expected, &answers, &format!("({mode}, k {k}) has different hits than on the CPU"))?;
        let alone = self.alone(engine, self.queries, setting, &answers)?;
        let compared = expected.len();
        Ok((Cell { setting, batch, alone, cpu_qps, cpu_core_qps, compared }, answers))
    }

    /// Measures queries as one batch; also returns their answers.
    pub(super) fn batch(
        &self,
        engine: &GpuEngine,
        queries: &[&str],
        Setting { mode, k, .. }: Setting,
    ) -> Result<(BatchRates, Vec<Answer>), Failure> {
        let (mut whole, mut on_device) = (Vec::new(), Vec::new());
        let mut answers = Vec::new();
        // Threads take chunks of queries from text to hits, so that planning, the device and the
        // reading of results overlap.
        let pool = Pool::shared(self.context.threads().max(2));
        let answer = |(): &mut (), chunk: &&[&str]| -> Result<Vec<Answer>, Failure> {
            let planned = chunk.iter().map(|text| self.plan(text, mode, k));
            search_all(engine, &planned.collect::<Result<Vec<_>, _>>()?, &self.context)
        };
        for round in 0..=self.options.rounds {
            let start = Instant::now();
            let chunks: Vec<&[&str]> = queries.chunks(CHUNK).collect();
            let found = pool.map(&chunks, || (), answer);
            if round > 0 {
                whole.push(start.elapsed());
            }
            let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
            answers = found.into_iter().flatten().collect();
        }
        let (planned, timed) =
            (self.plans(queries, mode, k, &self.context)?, one_round_at_a_time(engine));
        for round in 0..=self.options.rounds {
            let time = kernel_time(self.device, || search_all(&timed, &planned, &self.context))?;
            if round > 0 {
                on_device.push(time);
            }
        }
        let device_time = median(&mut on_device);
        let rates = BatchRates {
            qps: per_second(queries.len(), median(&mut whole)),
            device_qps: per_second(queries.len(), device_time),
            postings_per_s: postings_of(&planned) as f64 / device_time.as_secs_f64().max(1e-9),
        };
        Ok((rates, answers))
    }

    /// Measures the first queries one at a time. Their hits must be those of the batch.
    pub(super) fn alone(
        &self,
        engine: &GpuEngine,
        queries: &[&str],
        Setting { mode, k, .. }: Setting,
        expected: &[Answer],
    ) -> Result<Alone, Failure> {
        let (mut times, mut planning, mut kernels) = (Vec::new(), Vec::new(), Vec::new());
        let queries = &queries[..self.options.singles.min(queries.len())];
        let mut answers = Vec::new();
        for query in queries {
            let start = Instant::now();
            let planned = [self.plan(query, mode, k)?];
            planning.push(start.elapsed());
            answers.extend(search_all(engine, &planned, &self.context)?);
            times.push(start.elapsed());
        }
        check(expected, &answers, "has different hits alone than in the batch")?;
        // Kernels are timed in a second run, because timing them slows the queries down.
        let timed = one_round_at_a_time(engine);
        for query in queries {
            let planned = [self.plan(query, mode, k)?];
            let search = || search_all(&timed, &planned, &self.context);
            kernels.push(kernel_time(self.device, search)?);
        }
        let sum: Duration = times.iter().sum();
        Ok(Alone {
            p50_us: percentile(&mut times, 0.5),
            p99_us: percentile(&mut times, 0.99),
            mean_us: sum.as_secs_f64() * 1e6 / times.len().max(1) as f64,
            plan_us: percentile(&mut planning, 0.5),
            kernels_us: percentile(&mut kernels, 0.5),
        })
    }
}

/// Checks that the hits of all queries that both sides answered are equal.
pub(super) fn check(expected: &[Answer], answers: &[Answer], problem: &str) -> Result<(), Failure> {
    let differs = |(a, b): (&Answer, &Answer)| a.hits != b.hits;
    match expected.iter().zip(answers).position(differs) {
        Some(i) => Err(Failure::broken(format!("query {} {problem}", i + 1))),
        None => Ok(()),
    }
}

/// Returns the number of postings in the lists of plans.
pub(super) fn postings_of(plans: &[Plan]) -> u64 {
    plans.iter().flat_map(|plan| &plan.terms).map(|term| term.df).sum()
}

pub(super) fn per_second(n: usize, time: Duration) -> f64 {
    n as f64 / time.as_secs_f64().max(1e-9)
}

fn percentile(times: &mut [Duration], p: f64) -> f64 {
    times.sort_unstable();
    let at = (times.len().saturating_sub(1) as f64 * p).round() as usize;
    times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

fn print(cells: &[Cell], out: &mut impl Write) -> std::io::Result<()> {
    let head = [
        "tile",
        "at once",
        "mode",
        "k",
        "q/s",
        "kernels q/s",
        "10^9 postings/s",
        "p50 us",
        "p99 us",
        "plan us",
        "kernels us",
        "CPU q/s",
        "equal",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for Cell { setting, batch, alone, cpu_qps, compared, .. } in cells {
        rows.push(vec![
            (1u64 << setting.tile_bits).to_string(),
            setting.at_once.map_or("-".to_owned(), |docs| docs.to_string()),
            setting.mode.to_string(),
            setting.k.to_string(),
            count(batch.qps as u64),
            count(batch.device_qps as u64),
            format!("{:.1}", batch.postings_per_s / 1e9),
            format!("{:.1}", alone.p50_us),
            format!("{:.1}", alone.p99_us),
            format!("{:.1}", alone.plan_us),
            format!("{:.1}", alone.kernels_us),
            count(*cpu_qps as u64),
            compared.to_string(),
        ]);
    }
    table(&rows, out)
}

/// A row of (Ding 2009, table 2) with our own figures, in milliseconds per query.
#[derive(Serialize)]
struct Table2 {
    #[serde(serialize_with = "mode_name")]
    mode: Mode,
    paper_cpu_ms: f64,
    paper_gpu_ms: f64,
    /// Time on one core.
    cpu_ms: Option<f64>,
    /// Time of queries one at a time.
    gpu_ms: f64,
    /// Time in a batch.
    gpu_batch_ms: f64,
}

impl Table2 {
    /// Returns the row of a cell, if the table has one.
    fn of(cell: &Cell) -> Option<Table2> {
        let of_mode = |row: &&(Mode, f64, f64)| row.0 == cell.setting.mode;
        let &(mode, paper_cpu_ms, paper_gpu_ms) = TABLE_2.iter().find(of_mode)?;
        (cell.setting.k == TABLE_2_K).then(|| Table2 {
            mode,
            paper_cpu_ms,
            paper_gpu_ms,
            cpu_ms: (cell.cpu_core_qps > 0.0).then(|| 1e3 / cell.cpu_core_qps),
            gpu_ms: cell.alone.mean_us / 1e3,
            gpu_batch_ms: 1e3 / cell.batch.qps.max(1e-9),
        })
    }
}

fn print_paper(rows: &[Table2], out: &mut impl Write) -> std::io::Result<()> {
    writeln!(
        out,
        "\nTable 2 of Ding 2009, the best {TABLE_2_K} of GOV2 on one core of 2.66 GHz and a GeForce 8800 GTS, next to this machine and this index; mean ms per query"
    )?;
    let head =
        ["mode", "CPU", "GPU", "CPU here, 1 core", "GPU here, one at a time", "GPU here, batch"];
    let mut table_rows = vec![head.map(String::from).to_vec()];
    for row in rows {
        let figures = [row.paper_cpu_ms, row.paper_gpu_ms].map(|ms| format!("{ms:.2}"));
        let here = [row.cpu_ms, Some(row.gpu_ms), Some(row.gpu_batch_ms)];
        let here = here.map(|ms| ms.map_or("-".to_owned(), |ms| format!("{ms:.4}")));
        table_rows.push([vec![row.mode.to_string()], figures.to_vec(), here.to_vec()].concat());
    }
    table(&table_rows, out)
}
