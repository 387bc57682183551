use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use warpseek_exec::{Engine, ExecError, Mode, Plan, Planner, Query, in_parallel};
use warpseek_exec_cpu::CpuEngine;
use warpseek_exec_gpu::device::Device;
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_index::Snapshot;

use super::super::{hardware, read_queries};
use super::{Options, given, load, median};
use crate::failure::Failure;
use crate::terminal::{count, table};

/// Queries that a thread plans and asks together.
const CHUNK: usize = 1024;

/// The copy of an index to the device.
#[derive(Serialize)]
struct ImageCell {
    tile_bits: u32,
    bytes: u64,
    seconds: f64,
}

#[derive(Serialize)]
struct Cell {
    tile_bits: u32,
    /// Documents taken at once, where that was asked for.
    at_once: Option<u32>,
    mode: String,
    k: usize,
    /// Of the batch, from text to hits.
    qps: f64,
    /// Of the batch, kernels only.
    device_qps: f64,
    postings_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    /// Planning's part of it, median.
    plan_us: f64,
    /// The kernels' part of it, median.
    kernels_us: f64,
    /// Of the CPU on all threads, from text to hits.
    cpu_qps: f64,
    /// Queries whose hits were compared with the CPU's; all were equal.
    compared: usize,
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
    let manifest = snapshot.manifest();
    let planner = Planner::new(snapshot.clone(), options.ranking.get(manifest)?)?;
    let plan = |text: &str, mode: Mode, k: usize| -> Result<Plan, ExecError> {
        planner.plan(&Query::parse(text, manifest.analyzer, manifest.content)?, mode, k)
    };
    let plans = |queries: &[&str], mode: Mode, k: usize| -> Result<Vec<Plan>, Failure> {
        Ok(in_parallel(queries, threads, || (), |(), text| plan(text, mode, k))?)
    };
    let cpu = CpuEngine::new(snapshot.clone(), None, threads);
    let (mut cells, mut images) = (Vec::new(), Vec::new());
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
            for &mode in &options.modes {
                for &k in &options.k {
                    let mut whole = Vec::new();
                    let mut on_device = Vec::new();
                    let (mut answers, mut postings) = (Vec::new(), 0u64);
                    for round in 0..=options.rounds {
                        // From text to hits: threads take chunks, so that planning, device and results overlap.
                        let start = Instant::now();
                        let chunks: Vec<&[&str]> = queries.chunks(CHUNK).collect();
                        let answer = |(): &mut (), chunk: &&[&str]| {
                            let planned = chunk.iter().map(|text| plan(text, mode, k));
                            engine.search(&planned.collect::<Result<Vec<_>, _>>()?)
                        };
                        let found = in_parallel(&chunks, threads.max(2), || (), answer)?;
                        let time = start.elapsed();
                        answers = found.into_iter().flatten().collect();
                        let planned = plans(&queries, mode, k)?;
                        engine.time_kernels(true);
                        engine.take_device_time();
                        engine.search(&planned)?;
                        engine.time_kernels(false);
                        if round > 0 {
                            whole.push(time);
                            on_device.push(engine.take_device_time());
                        }
                        let lists = planned.iter().flat_map(|p| &p.terms);
                        postings = lists.map(|term| term.df).sum();
                    }
                    let (mut singles, mut planning, mut kernels) =
                        (Vec::new(), Vec::new(), Vec::new());
                    for (i, query) in queries.iter().take(options.singles).enumerate() {
                        let start = Instant::now();
                        let planned = [plan(query, mode, k)?];
                        planning.push(start.elapsed());
                        let answer = engine.search(&planned)?;
                        singles.push(start.elapsed());
                        if answer[0].hits != answers[i].hits {
                            return Err(Failure::user(format!(
                                "query {} has other hits alone than in the batch",
                                i + 1
                            )));
                        }
                    }
                    // Once more with their kernels' time, which takes time itself.
                    engine.time_kernels(true);
                    for query in queries.iter().take(options.singles) {
                        engine.search(&[plan(query, mode, k)?])?;
                        kernels.push(engine.take_device_time());
                    }
                    engine.time_kernels(false);
                    let some = &queries[..options.cpu.min(queries.len())];
                    let start = Instant::now();
                    let expected = cpu.search(&plans(some, mode, k)?)?;
                    let cpu_time = start.elapsed();
                    for (i, (expected, answer)) in expected.iter().zip(&answers).enumerate() {
                        if expected.hits != answer.hits {
                            return Err(Failure::user(format!(
                                "query {} ({mode}, k {k}) has other hits than on the CPU",
                                i + 1
                            )));
                        }
                    }
                    let per_second = |n: usize, d: Duration| n as f64 / d.as_secs_f64().max(1e-9);
                    let device_time = median(&mut on_device);
                    cells.push(Cell {
                        tile_bits,
                        at_once: at_once.map(|bits| 1 << bits),
                        mode: mode.to_string(),
                        k,
                        qps: per_second(queries.len(), median(&mut whole)),
                        device_qps: per_second(queries.len(), device_time),
                        postings_per_s: postings as f64 / device_time.as_secs_f64().max(1e-9),
                        p50_us: percentile(&mut singles, 0.5),
                        plan_us: percentile(&mut planning, 0.5),
                        kernels_us: percentile(&mut kernels, 0.5),
                        p99_us: percentile(&mut singles, 0.99),
                        cpu_qps: per_second(some.len(), cpu_time),
                        compared: expected.len(),
                    });
                    if let Some(cell) = cells.last() {
                        eprintln!("{}", json!(cell));
                    }
                }
            }
        }
    }
    let mut out = std::io::stdout().lock();
    let hardware = format!("{}; {}", device.info().name, hardware());
    let ranking = planner.ranking_name();
    if options.json {
        let report = json!({
            "hardware": hardware, "ranking": ranking, "queries": queries.len(), "images": images,
            "cells": cells,
        });
        writeln!(out, "{report:#}")?;
    } else {
        writeln!(
            out,
            "{hardware}; {ranking}; {} queries, median of {} rounds",
            queries.len(),
            options.rounds
        )?;
        print(&cells, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
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
    for cell in cells {
        rows.push(vec![
            (1u64 << cell.tile_bits).to_string(),
            cell.at_once.map_or("-".to_owned(), |docs| docs.to_string()),
            cell.mode.clone(),
            cell.k.to_string(),
            count(cell.qps as u64),
            count(cell.device_qps as u64),
            format!("{:.1}", cell.postings_per_s / 1e9),
            format!("{:.1}", cell.p50_us),
            format!("{:.1}", cell.p99_us),
            format!("{:.1}", cell.plan_us),
            format!("{:.1}", cell.kernels_us),
            count(cell.cpu_qps as u64),
            cell.compared.to_string(),
        ]);
    }
    table(&rows, out)
}
