//! Batches and single queries, and what document D says of them: Table 2.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use warpseek_cuda::Device;
use warpseek_cuda::kernels::copy::bandwidth;
use warpseek_exec::{Answer, Engine, ExecError, Mode, Plan, Planner, Query, in_parallel};
use warpseek_exec_cpu::CpuEngine;
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_index::Snapshot;

use super::super::{hardware, read_queries};
use super::{Options, classes, given, kernels, load, median};
use crate::failure::Failure;
use crate::terminal::{count, table};

/// Queries that a thread plans and asks together.
const CHUNK: usize = 1024;

/// Table 2: hits a query, and for each mode milliseconds of one core and of the GPU.
const TABLE_2_K: usize = 10;
const TABLE_2: [(Mode, f64, f64); 3] =
    [(Mode::And, 8.71, 7.66), (Mode::Or, 212.72, 29.31), (Mode::AndOr, 23.85, 9.98)];

/// The copy of an index to the device.
#[derive(Serialize)]
struct ImageCell {
    tile_bits: u32,
    bytes: u64,
    seconds: f64,
}

/// What a cell is of.
#[derive(Serialize, Clone, Copy)]
pub(super) struct Place {
    pub(super) tile_bits: u32,
    /// Documents taken at once, where that was asked for.
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
    place: Place,
    #[serde(flatten)]
    batch: BatchRates,
    #[serde(flatten)]
    alone: Alone,
    /// Of the CPU on all threads, from text to hits.
    cpu_qps: f64,
    /// On one, from text to hits.
    cpu_core_qps: f64,
    /// Queries whose hits were compared with the CPU's; all were equal.
    compared: usize,
}

/// A batch, medians of rounds.
#[derive(Serialize, Clone, Copy)]
pub(super) struct BatchRates {
    /// From text to hits.
    pub(super) qps: f64,
    /// Kernels only.
    pub(super) device_qps: f64,
    /// Of all lists, read or not, by kernels.
    pub(super) postings_per_s: f64,
}

/// Queries one at a time, from text to hits.
#[derive(Serialize, Clone, Copy)]
pub(super) struct Alone {
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) mean_us: f64,
    /// Planning's part of it, median.
    pub(super) plan_us: f64,
    /// The kernels' part of it, median.
    pub(super) kernels_us: f64,
}

/// What all cells are measured with.
pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) queries: &'a [&'a str],
    pub(super) threads: usize,
    pub(super) device: &'a Device,
    snapshot: &'a Arc<Snapshot>,
    planner: &'a Planner,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let queries = read_queries(given(options.queries.as_deref(), "--queries")?)?;
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    if queries.is_empty() {
        return Err(Failure::user("there is nothing to measure: no queries"));
    }
    let threads = options.threads.get();
    let device = Device::open(options.gpu, None)?;
    let snapshot = Arc::new(Snapshot::open(given(options.index.as_deref(), "--index")?)?);
    let planner = Planner::new(snapshot.clone(), options.ranking.get(snapshot.manifest())?)?;
    let bench = Bench {
        options,
        queries: &queries,
        threads,
        device: &device,
        snapshot: &snapshot,
        planner: &planner,
    };
    // While the device's memory is free.
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
            let engine = GpuEngine::new(snapshot.clone(), device.clone(), settings, threads)?;
            let start = Instant::now();
            load(&engine, &planner, options)?;
            let (seconds, bytes) = (start.elapsed().as_secs_f64(), engine.loading().bytes());
            images.push(ImageCell { tile_bits, bytes, seconds });
            eprintln!(
                "image of 2^{tile_bits} documents a tile: {:.2} GB in {seconds:.1} s ({:.1} GB/s)",
                bytes as f64 / 1e9,
                bytes as f64 / 1e9 / seconds.max(1e-9)
            );
            let mut steps = Vec::new();
            for &mode in &options.modes {
                for &k in &options.k {
                    let at_once = at_once.map(|bits| 1 << bits);
                    let place = Place { tile_bits, at_once, mode, k };
                    let (cell, answers) = bench.cell(&engine, place)?;
                    eprintln!("{}", json!(cell));
                    let usual_us = [1e6 / cell.batch.qps.max(1e-9), cell.alone.mean_us];
                    cells.push(cell);
                    if let Some(copy) = copy {
                        let timed =
                            kernels::time(&bench, &engine, place, usual_us, &answers, copy)?;
                        steps.extend(timed);
                    }
                    if options.classes {
                        by_class.extend(classes::measure(&bench, &engine, place, &answers)?);
                    }
                }
            }
            if let Some(copy) = copy {
                // Kernels that count take the engine's place: the image is there once.
                let counted = warpseek_exec_gpu_papers::CountedEngine::new(engine)?;
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
        self.planner.plan(&Query::parse(text, manifest.analyzer, manifest.content)?, mode, k)
    }

    /// By all threads.
    pub(super) fn plans(
        &self,
        queries: &[&str],
        mode: Mode,
        k: usize,
    ) -> Result<Vec<Plan>, ExecError> {
        in_parallel(queries, self.threads, || (), |(), text| self.plan(text, mode, k))
    }

    /// A cell, and the hits of all queries.
    fn cell(&self, engine: &GpuEngine, place: Place) -> Result<(Cell, Vec<Answer>), Failure> {
        let Place { mode, k, .. } = place;
        let some = &self.queries[..self.options.cpu.min(self.queries.len())];
        let on_cpu = |queries: &[&str], threads: usize| -> Result<_, Failure> {
            let cpu = CpuEngine::new(self.snapshot.clone(), None, threads);
            let start = Instant::now();
            let plans = in_parallel(queries, threads, || (), |(), text| self.plan(text, mode, k))?;
            let answers = cpu.search(&plans)?;
            Ok((answers, per_second(queries.len(), start.elapsed())))
        };
        let (expected, cpu_qps) = on_cpu(some, self.threads)?;
        // So many that one thread takes about as long.
        let (_, cpu_core_qps) = on_cpu(&some[..some.len().div_ceil(self.threads)], 1)?;
        let (batch, answers) = self.batch(engine, self.queries, place)?;
        check(&expected, &answers, &format!("({mode}, k {k}) has other hits than on the CPU"))?;
        let alone = self.alone(engine, self.queries, place, &answers)?;
        let compared = expected.len();
        Ok((Cell { place, batch, alone, cpu_qps, cpu_core_qps, compared }, answers))
    }

    /// All of the queries in one batch, and their hits.
    pub(super) fn batch(
        &self,
        engine: &GpuEngine,
        queries: &[&str],
        Place { mode, k, .. }: Place,
    ) -> Result<(BatchRates, Vec<Answer>), Failure> {
        let (mut whole, mut on_device) = (Vec::new(), Vec::new());
        let (mut answers, mut postings) = (Vec::new(), 0u64);
        for round in 0..=self.options.rounds {
            // From text to hits: threads take chunks, so that planning, device and results overlap.
            let start = Instant::now();
            let chunks: Vec<&[&str]> = queries.chunks(CHUNK).collect();
            let answer = |(): &mut (), chunk: &&[&str]| {
                let planned = chunk.iter().map(|text| self.plan(text, mode, k));
                engine.search(&planned.collect::<Result<Vec<_>, _>>()?)
            };
            let found = in_parallel(&chunks, self.threads.max(2), || (), answer)?;
            let time = start.elapsed();
            answers = found.into_iter().flatten().collect();
            let planned = self.plans(queries, mode, k)?;
            engine.time_kernels(true);
            engine.take_device_time();
            engine.search(&planned)?;
            engine.time_kernels(false);
            if round > 0 {
                whole.push(time);
                on_device.push(engine.take_device_time());
            }
            postings = postings_of(&planned);
        }
        let device_time = median(&mut on_device);
        let rates = BatchRates {
            qps: per_second(queries.len(), median(&mut whole)),
            device_qps: per_second(queries.len(), device_time),
            postings_per_s: postings as f64 / device_time.as_secs_f64().max(1e-9),
        };
        Ok((rates, answers))
    }

    /// The first queries one at a time; their hits must be those of the batch.
    pub(super) fn alone(
        &self,
        engine: &GpuEngine,
        queries: &[&str],
        Place { mode, k, .. }: Place,
        expected: &[Answer],
    ) -> Result<Alone, Failure> {
        let (mut times, mut planning, mut kernels) = (Vec::new(), Vec::new(), Vec::new());
        let queries = &queries[..self.options.singles.min(queries.len())];
        let mut answers = Vec::new();
        for query in queries {
            let start = Instant::now();
            let planned = [self.plan(query, mode, k)?];
            planning.push(start.elapsed());
            answers.extend(engine.search(&planned)?);
            times.push(start.elapsed());
        }
        check(expected, &answers, "has other hits alone than in the batch")?;
        // Once more with their kernels' time, which takes time itself.
        engine.time_kernels(true);
        engine.take_device_time();
        for query in queries {
            engine.search(&[self.plan(query, mode, k)?])?;
            kernels.push(engine.take_device_time());
        }
        engine.time_kernels(false);
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

/// Refuses hits that differ, where there are both.
pub(super) fn check(expected: &[Answer], answers: &[Answer], problem: &str) -> Result<(), Failure> {
    let differs = |(a, b): (&Answer, &Answer)| a.hits != b.hits;
    match expected.iter().zip(answers).position(differs) {
        Some(i) => Err(Failure::broken(format!("query {} {problem}", i + 1))),
        None => Ok(()),
    }
}

/// Of the lists of plans.
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
    for Cell { place, batch, alone, cpu_qps, compared, .. } in cells {
        rows.push(vec![
            (1u64 << place.tile_bits).to_string(),
            place.at_once.map_or("-".to_owned(), |docs| docs.to_string()),
            place.mode.to_string(),
            place.k.to_string(),
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

/// A row of Table 2, milliseconds a query.
#[derive(Serialize)]
struct Table2 {
    #[serde(serialize_with = "mode_name")]
    mode: Mode,
    paper_cpu_ms: f64,
    paper_gpu_ms: f64,
    /// On one core.
    cpu_ms: Option<f64>,
    /// One at a time.
    gpu_ms: f64,
    /// In a batch.
    gpu_batch_ms: f64,
}

impl Table2 {
    /// If a cell is one of it.
    fn of(cell: &Cell) -> Option<Table2> {
        let of_mode = |row: &&(Mode, f64, f64)| row.0 == cell.place.mode;
        let &(mode, paper_cpu_ms, paper_gpu_ms) = TABLE_2.iter().find(of_mode)?;
        (cell.place.k == TABLE_2_K).then(|| Table2 {
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
        "\nTable 2 of document D, the best {TABLE_2_K} of GOV2 on one core of 2.66 GHz and a GeForce 8800 GTS, beside this machine and this index; ms a query, mean"
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
