use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use warpseek_exec::{Engine, Mode, Plan, Planner, Query, in_parallel};
use warpseek_exec_cpu::CpuEngine;
use warpseek_exec_gpu::device::Device;
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_index::Snapshot;

use super::super::{hardware, read_queries};
use super::{Options, given, median};
use crate::failure::Failure;
use crate::terminal::{count, table};

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
    let device = Device::open(options.gpu, None).map_err(|e| Failure::user(e.to_string()))?;
    let snapshot = Arc::new(Snapshot::open(given(options.index.as_deref(), "--index")?)?);
    let manifest = snapshot.manifest();
    let planner = Planner::new(snapshot.clone(), options.ranking.get(manifest)?)?;
    let plans = |queries: &[&str], mode: Mode, k: usize| -> Result<Vec<Plan>, Failure> {
        let plan = |(): &mut (), text: &&str| {
            planner.plan(&Query::parse(text, manifest.analyzer, manifest.content)?, mode, k)
        };
        Ok(in_parallel(queries, threads, || (), plan)?)
    };
    let cpu = CpuEngine::new(snapshot.clone(), None, threads);
    let mut cells = Vec::new();
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
                ..default
            };
            let engine = GpuEngine::new(snapshot.clone(), device.clone(), settings, threads)
                .map_err(|e| Failure::user(e.to_string()))?;
            let formula = plans(&queries[..1], Mode::Or, 1)?[0].formula;
            let start = Instant::now();
            engine.load(formula)?;
            eprintln!(
                "image of 2^{tile_bits} documents a tile: {:.1} s, {:.2} GB",
                start.elapsed().as_secs_f64(),
                device.memory().current as f64 / 1e9
            );
            for &mode in &options.modes {
                for &k in &options.k {
                    engine.time_kernels(true);
                    let mut whole = Vec::new();
                    let mut on_device = Vec::new();
                    let (mut answers, mut postings) = (Vec::new(), 0u64);
                    for round in 0..=options.rounds {
                        let start = Instant::now();
                        let planned = plans(&queries, mode, k)?;
                        engine.take_device_time();
                        answers = engine.search(&planned)?;
                        if round > 0 {
                            whole.push(start.elapsed());
                            on_device.push(engine.take_device_time());
                        }
                        let lists = planned.iter().flat_map(|p| &p.terms);
                        postings = lists.map(|term| term.df).sum();
                    }
                    engine.time_kernels(false);
                    let mut singles = Vec::new();
                    for (i, query) in queries.iter().take(options.singles).enumerate() {
                        let start = Instant::now();
                        let answer = engine.search(&plans(&[query], mode, k)?)?;
                        singles.push(start.elapsed());
                        if answer[0].hits != answers[i].hits {
                            return Err(Failure::user(format!(
                                "query {} has other hits alone than in the batch",
                                i + 1
                            )));
                        }
                    }
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
            "hardware": hardware, "ranking": ranking, "queries": queries.len(), "cells": cells,
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
            count(cell.cpu_qps as u64),
            cell.compared.to_string(),
        ]);
    }
    table(&rows, out)
}
