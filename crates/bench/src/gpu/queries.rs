//! The default part of `bench gpu`: queries in a batch and one at a time, next to (Ding 2009,
//! table 2).

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde_json::json;
use warpseek_console::Failure;
use warpseek_console::terminal::{count, table};
use warpseek_cuda::Device;
use warpseek_cuda::kernels::copy::bandwidth;
use warpseek_exec::{Answer, Context, Mode, Planner};
use warpseek_exec_cpu::CpuEngine;
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_exec_gpu_papers::CountedEngine;
use warpseek_index::Snapshot;

use super::kernels::Table3;
use super::measurement::{Alone, BatchRates, Bench, Setting, check, mode_name, per_second};
use super::{Options, classes, given, kernels, load, search_all};
use crate::{ding, hardware, read_queries};

/// The copy of an index to the device.
#[derive(Serialize)]
struct ImageCell {
    tile_bits: u32,
    bytes: u64,
    seconds: f64,
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
                    let (cell, answers) = measure(&bench, &engine, setting)?;
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
            "table_3": all_steps.iter().filter_map(Table3::of).collect::<Vec<_>>(),
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

/// Measures a cell; also returns the answers to all queries.
fn measure(
    bench: &Bench<'_>,
    engine: &GpuEngine,
    setting: Setting,
) -> Result<(Cell, Vec<Answer>), Failure> {
    let Setting { mode, k, .. } = setting;
    let some = &bench.queries[..bench.options.cpu.min(bench.queries.len())];
    let on_cpu = |queries: &[&str], context: &Context| -> Result<_, Failure> {
        let cpu = CpuEngine::new(bench.snapshot.clone(), None);
        let start = Instant::now();
        let plans = bench.plans(queries, mode, k, context)?;
        let answers = search_all(&cpu, &plans, context)?;
        Ok((answers, per_second(queries.len(), start.elapsed())))
    };
    let (expected, cpu_qps) = on_cpu(some, &bench.context)?;
    // One thread answers this many queries in about the same time.
    let share = some.len().div_ceil(bench.context.threads());
    let (_, cpu_core_qps) = on_cpu(&some[..share], &Context::new(1))?;
    let (batch, answers) = bench.batch(engine, bench.queries, setting)?;
    check(&expected, &answers, &format!("({mode}, k {k}) has different hits than on the CPU"))?;
    let alone = bench.alone(engine, bench.queries, setting, &answers)?;
    let compared = expected.len();
    Ok((Cell { setting, batch, alone, cpu_qps, cpu_core_qps, compared }, answers))
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
        let row = ding::table_2(cell.setting.mode, cell.setting.k)?;
        Some(Table2 {
            mode: row.mode,
            paper_cpu_ms: row.cpu_ms,
            paper_gpu_ms: row.gpu_ms,
            cpu_ms: (cell.cpu_core_qps > 0.0).then(|| 1e3 / cell.cpu_core_qps),
            gpu_ms: cell.alone.mean_us / 1e3,
            gpu_batch_ms: 1e3 / cell.batch.qps.max(1e-9),
        })
    }
}

fn print_paper(rows: &[Table2], out: &mut impl Write) -> std::io::Result<()> {
    writeln!(
        out,
        "\nTable 2 of Ding 2009, the best {} of GOV2 on one core of 2.66 GHz and a GeForce 8800 GTS, next to this machine and this index; mean ms per query",
        ding::K
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
