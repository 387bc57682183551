//! WAND and MaxScore on a GPU beside the same on one core, as tables 5.3 to 5.14 and 7.1 to 7.4 of the thesis have it.

use std::collections::HashSet;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use warpseek_exec::{Answer, Engine, Formula, Mode, Plan, Planner, Query, Work};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_exec_gpu::device::Device;
use warpseek_exec_gpu::partitioned::{
    Batch, PartitionSettings, PartitionedEngine, Partitioning, Pruning, Threshold,
};
use warpseek_index::Snapshot;

use super::super::{hardware, read_queries};
use super::{Options, given, median, thesis};
use crate::failure::Failure;
use crate::terminal::table;

/// Hits a query, as in the thesis.
const K: usize = 128;
/// Queries of a class, and of a batch, as in the thesis.
const A_CLASS: usize = 20;
const A_BATCH: usize = 500;
/// Queries that one core answers before its time is taken.
const WARM: usize = 2;
/// Fewer postings are no list worth measuring.
const LEAST_DF: u32 = 128;

/// One way to go about a class of queries or a batch.
#[derive(Serialize)]
struct Cell {
    table: &'static str,
    algorithm: &'static str,
    mode: String,
    class: &'static str,
    partitioning: &'static str,
    threshold: &'static str,
    batch: &'static str,
    /// Postings of the longest list in a partition, and partitions a block; none where we choose.
    partition_size: Option<u32>,
    per_block: Option<u32>,
    /// From plans to hits, a query.
    ms: f64,
    /// Of it, on the device.
    device_ms: f64,
    /// Of the same queries by the same algorithm on one core.
    cpu_ms: f64,
    speedup: f64,
    /// The thesis' speedup.
    thesis: Option<f64>,
    /// Share of the lists' blocks that were not decoded.
    skipped: f64,
    /// Share of the exact hits that were found, on average, and its deviation: 1 unless partitions are homogeneous.
    recall: f64,
    recall_deviation: f64,
    thesis_recall: Option<f64>,
}

/// Queries, and what one core makes of them.
struct Sample {
    table: &'static str,
    class: &'static str,
    mode: Mode,
    pruning: Pruning,
    plans: Vec<Plan>,
    expected: Vec<Answer>,
    cpu: Duration,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let index = given(options.index.as_deref(), "--index")?;
    let queries = given(options.queries.as_deref(), "--queries")?;
    let device = Device::open(options.gpu, None).map_err(|e| Failure::user(e.to_string()))?;
    let snapshot = Arc::new(Snapshot::open(index)?);
    let planner = Planner::new(snapshot.clone(), options.ranking.get(snapshot.manifest())?)?;
    let classes = classes(&snapshot)?;
    let (mut cells, mut sequential) = (Vec::new(), Vec::new());
    let first = PartitionSettings::default();
    let threads = options.threads.get();
    let mut engine = PartitionedEngine::new(snapshot.clone(), device.clone(), first, threads)
        .map_err(Failure::user)?;
    let start = Instant::now();
    engine.load(formula(&planner)?)?;
    eprintln!("lists on the device: {:.1} s", start.elapsed().as_secs_f64());
    for (number, &pruning) in Pruning::ALL.iter().enumerate() {
        let algorithm = [Algorithm::Wand, Algorithm::MaxScore][number];
        let cpu = CpuEngine::new(snapshot.clone(), Some(algorithm), 1);
        for (half, mode) in [Mode::Or, Mode::And].into_iter().enumerate() {
            let tables = [["5.4", "5.7"], ["5.10", "5.13"]];
            let own =
                [[thesis::WAND_OR, thesis::WAND_AND], [thesis::MAXSCORE_OR, thesis::MAXSCORE_AND]]
                    [number][half];
            for (class, (name, terms, df)) in classes.iter().enumerate() {
                let pairs = terms.chunks_exact(2).map(|pair| {
                    let terms = pair.iter().map(|term| (term.clone(), 1.0)).collect();
                    planner.plan(&Query { terms }, mode, K)
                });
                let plans = pairs.collect::<Result<Vec<_>, _>>()?;
                let table = tables[number][half];
                let sample = measure_cpu(&cpu, table, name, mode, pruning, plans)?;
                sequential.push(json!({
                    "algorithm": pruning.name(), "mode": mode.to_string(), "class": name, "docs_a_list": df,
                    "queries": sample.plans.len(), "ms": per_query(&sample),
                    "thesis_ms": thesis::SEQUENTIAL[2 * number + half][class],
                }));
                let recalls = thesis::RECALL[2 * number + half];
                for (row, settings) in single_settings(pruning).into_iter().enumerate() {
                    engine.set(settings).map_err(Failure::user)?;
                    let mut cell = measure(&engine, &sample, options.rounds, false)?;
                    cell.thesis = own.get(row).map(|row| row[class]);
                    let homogeneous = settings.partitioning == Partitioning::Homogeneous;
                    cell.thesis_recall =
                        homogeneous.then(|| recalls[settings.threshold as usize][class]);
                    cells.push(cell);
                }
                eprintln!("{algorithm} {mode} {name}: done");
            }
        }
        let manifest = snapshot.manifest();
        let plans = read_queries(queries)?.into_iter().take(A_BATCH).map(|text| {
            let query = Query::parse(&text, manifest.analyzer, manifest.content)?;
            planner.plan(&query, Mode::Or, K)
        });
        let plans = plans.collect::<Result<Vec<_>, _>>()?;
        let table = ["7.2", "7.3"][number];
        let sample = measure_cpu(&cpu, table, "batch", Mode::Or, pruning, plans)?;
        sequential.push(json!({
            "algorithm": pruning.name(), "mode": "or", "class": "batch", "queries": sample.plans.len(),
            "ms": per_query(&sample), "thesis_ms": thesis::BATCH_SEQUENTIAL[number] * 1e3 / A_BATCH as f64,
        }));
        let own = [thesis::WAND_BATCH, thesis::MAXSCORE_BATCH][number];
        for (settings, place) in batch_settings(pruning) {
            engine.set(settings).map_err(Failure::user)?;
            let mut cell = measure(&engine, &sample, options.rounds, true)?;
            cell.thesis = match settings.batch {
                Batch::Synchronous => Some(thesis::SYNCHRONOUS[number]),
                Batch::Asynchronous => place.map(|(row, column)| own[row][column]),
            };
            if settings.batch == Batch::Synchronous {
                cell.table = "7.4";
            }
            cells.push(cell);
        }
        eprintln!("{algorithm} batches: done");
    }
    let mut out = std::io::stdout().lock();
    let hardware = format!("{}; {}", device.info().name, hardware());
    if options.json {
        let report = json!({
            "hardware": hardware, "ranking": planner.ranking_name(), "k": K, "sequential": sequential, "cells": cells,
            "goals": goals(&cells),
        });
        writeln!(out, "{report:#}")?;
    } else {
        writeln!(
            out,
            "{hardware}; {}; k {K}; medians of {}",
            planner.ranking_name(),
            options.rounds
        )?;
        writeln!(out, "exact cells have the hits of the CPU, all of them\n")?;
        print(&sequential, &cells, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn formula(planner: &Planner) -> Result<Formula, Failure> {
    Ok(planner.plan(&Query { terms: Vec::new() }, Mode::Or, 1)?.formula)
}

/// Name, terms and mean length of lists by class: those whose lists come closest to the thesis' lengths, or where the index is smaller, to the same shares of its longest.
type Class = (&'static str, Vec<String>, u64);

fn classes(snapshot: &Snapshot) -> Result<Vec<Class>, Failure> {
    let segments = snapshot.segments().iter();
    let Some(segment) = segments.max_by_key(|segment| segment.documents().count()) else {
        return Err(Failure::user("the index has no documents"));
    };
    let mut lists: Vec<(u32, String)> = Vec::new();
    let mut terms = segment.dictionary().iter();
    while let Some(info) = terms.next_term()? {
        if info.df >= LEAST_DF {
            lists.push((info.df, String::from_utf8_lossy(terms.term()).into_owned()));
        }
    }
    lists.sort();
    let longest = lists.last().map_or(0, |&(df, _)| df);
    let (_, extra) = thesis::CLASSES[3];
    let scale = (f64::from(longest) / f64::from(extra)).min(1.0);
    let class = |&(name, df): &(&'static str, u32)| {
        let target = f64::from(df) * scale;
        let at = lists.partition_point(|&(df, _)| f64::from(df) < target);
        let wanted = (2 * A_CLASS).min(lists.len() / 2 * 2);
        let from = at.saturating_sub(wanted / 2).min(lists.len() - wanted);
        let near = &lists[from..from + wanted];
        // Neighbours in length are no neighbours in a query.
        let (low, high) = near.split_at(near.len() / 2);
        let pairs = low.iter().zip(high).flat_map(|(a, b)| [a.1.clone(), b.1.clone()]);
        let mean = near.iter().map(|&(df, _)| u64::from(df)).sum::<u64>() / wanted.max(1) as u64;
        (name, pairs.collect(), mean)
    };
    Ok(thesis::CLASSES.iter().map(class).collect())
}

/// The rows of tables 5.4, 5.7, 5.10 and 5.13 in their order, and what we choose.
fn single_settings(pruning: Pruning) -> Vec<PartitionSettings> {
    let base = PartitionSettings { pruning, streams: 1, ..PartitionSettings::default() };
    let mut all = Vec::new();
    for partitioning in [Partitioning::Homogeneous, Partitioning::Heterogeneous] {
        for &threshold in Threshold::ALL {
            for size in [32, 64] {
                for per_block in [1, 10] {
                    let (partition_size, per_block) = (Some(size), Some(per_block));
                    all.push(PartitionSettings {
                        partitioning,
                        threshold,
                        partition_size,
                        per_block,
                        ..base
                    });
                }
            }
        }
    }
    // As many partitions a block as suited the thesis' extra-long lists, and our own choice.
    for per_block in [Some(100), None] {
        for partitioning in [Partitioning::Homogeneous, Partitioning::Heterogeneous] {
            let each = Threshold::ALL.iter().map(|&threshold| PartitionSettings {
                partitioning,
                threshold,
                partition_size: per_block.map(|_| 64),
                per_block,
                ..base
            });
            all.extend(each);
        }
    }
    all
}

/// The rows of tables 7.2 and 7.3 with their places, more partitions a block, what we choose, and synchronous batches.
fn batch_settings(pruning: Pruning) -> Vec<(PartitionSettings, Option<(usize, usize)>)> {
    let base = PartitionSettings { pruning, streams: 32, ..PartitionSettings::default() };
    let mut all = Vec::new();
    for (half, partitioning) in
        [Partitioning::Homogeneous, Partitioning::Heterogeneous].into_iter().enumerate()
    {
        for (policy, &threshold) in Threshold::ALL.iter().enumerate() {
            let of = PartitionSettings { partitioning, threshold, ..base };
            for (few, per_block) in [1, 10].into_iter().enumerate() {
                for (column, size) in [32, 64, 128].into_iter().enumerate() {
                    let (partition_size, per_block) = (Some(size), Some(per_block));
                    let place = Some((6 * half + 2 * policy + few, column));
                    all.push((PartitionSettings { partition_size, per_block, ..of }, place));
                }
            }
            for per_block in [100, 250] {
                let (partition_size, per_block) = (Some(128), Some(per_block));
                all.push((PartitionSettings { partition_size, per_block, ..of }, None));
            }
            all.push((of, None));
        }
    }
    all.push((PartitionSettings { batch: Batch::Synchronous, ..base }, None));
    all
}

fn measure_cpu(
    cpu: &CpuEngine,
    table: &'static str,
    class: &'static str,
    mode: Mode,
    pruning: Pruning,
    plans: Vec<Plan>,
) -> Result<Sample, Failure> {
    if plans.is_empty() {
        return Err(Failure::user(
            "there is nothing to measure: no lists long enough, or no queries",
        ));
    }
    cpu.search(&plans[..plans.len().min(WARM)])?;
    let start = Instant::now();
    let expected = cpu.search(&plans)?;
    let cpu = start.elapsed();
    Ok(Sample { table, class, mode, pruning, plans, expected, cpu })
}

fn per_query(sample: &Sample) -> f64 {
    milliseconds(sample.cpu) / sample.plans.len() as f64
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Hits first, then time: one query after the other, or all at once.
fn measure(
    engine: &PartitionedEngine,
    sample: &Sample,
    rounds: usize,
    at_once: bool,
) -> Result<Cell, Failure> {
    let search = || -> Result<Vec<Answer>, Failure> {
        if at_once {
            return Ok(engine.search(&sample.plans)?);
        }
        let mut answers = Vec::new();
        for plan in &sample.plans {
            answers.extend(engine.search(std::slice::from_ref(plan))?);
        }
        Ok(answers)
    };
    let settings = engine.settings();
    let answers = search()?;
    let mut recalls = Vec::new();
    for (i, (answer, expected)) in answers.iter().zip(&sample.expected).enumerate() {
        if !settings.is_approximate() && answer.hits != expected.hits {
            return Err(Failure::user(format!(
                "query {} ({} {}, {}) has other hits than on the CPU with {settings:?}",
                i + 1,
                sample.pruning,
                sample.mode,
                sample.class
            )));
        }
        let found: HashSet<_> = answer.hits.iter().map(|hit| hit.doc).collect();
        let same = expected.hits.iter().filter(|hit| found.contains(&hit.doc)).count();
        if !expected.hits.is_empty() {
            recalls.push(same as f64 / expected.hits.len() as f64);
        }
    }
    let mut whole = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        search()?;
        whole.push(start.elapsed());
    }
    engine.time_kernels(true);
    engine.take_device_time();
    search()?;
    let on_device = engine.take_device_time();
    engine.time_kernels(false);
    let mut work = Work::default();
    answers.iter().for_each(|answer| work += answer.work);
    let blocks = work.blocks_decoded + work.blocks_skipped;
    let mean = recalls.iter().sum::<f64>() / recalls.len().max(1) as f64;
    let variance = recalls.iter().map(|recall| (recall - mean).powi(2)).sum::<f64>();
    let n = sample.plans.len() as f64;
    let ms = milliseconds(median(&mut whole)) / n;
    Ok(Cell {
        table: sample.table,
        algorithm: sample.pruning.name(),
        mode: sample.mode.to_string(),
        class: sample.class,
        partitioning: settings.partitioning.name(),
        threshold: settings.threshold.name(),
        batch: if at_once { settings.batch.name() } else { "alone" },
        partition_size: settings.partition_size,
        per_block: settings.per_block,
        ms,
        device_ms: milliseconds(on_device) / n,
        cpu_ms: per_query(sample),
        speedup: per_query(sample) / ms.max(1e-9),
        thesis: None,
        skipped: work.blocks_skipped as f64 / blocks.max(1) as f64,
        recall: mean,
        recall_deviation: (variance / recalls.len().max(1) as f64).sqrt(),
        thesis_recall: None,
    })
}

/// What must show: how much sharing thresholds gives on extra-long lists in the same setting, at most and in our own choice, and the best exact batch.
fn goals(cells: &[Cell]) -> serde_json::Value {
    let extra = |algorithm: &'static str, threshold: &'static str| {
        cells.iter().filter(move |cell| {
            (cell.class, &*cell.mode, cell.partitioning) == ("extra-long", "or", "heterogeneous")
                && (cell.algorithm, cell.threshold) == (algorithm, threshold)
        })
    };
    let gains = |algorithm| {
        extra(algorithm, "local").zip(extra(algorithm, "safe-read")).map(|(local, shared)| {
            (local.partition_size, local.device_ms / shared.device_ms.max(1e-9))
        })
    };
    let most = |algorithm| gains(algorithm).map(|(_, gain)| gain).fold(0.0, f64::max);
    let own = |algorithm| gains(algorithm).find(|(size, _)| size.is_none()).map(|(_, gain)| gain);
    let batch = |algorithm: &str| {
        let exact = cells.iter().filter(|cell| {
            (cell.class, cell.algorithm, cell.partitioning) == ("batch", algorithm, "heterogeneous")
        });
        exact.map(|cell| cell.speedup).fold(0.0, f64::max)
    };
    let of = |algorithm| {
        json!({
            "safe_read_over_local": most(algorithm), "in_our_own_setting": own(algorithm),
            "batch_speedup_over_one_core": batch(algorithm),
        })
    };
    json!({ "wand": of("wand"), "maxscore": of("maxscore") })
}

fn print(
    sequential: &[serde_json::Value],
    cells: &[Cell],
    out: &mut impl Write,
) -> std::io::Result<()> {
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Number(number) if number.is_f64() => {
            format!("{:.3}", number.as_f64().unwrap_or(0.0))
        }
        serde_json::Value::Null => "-".to_owned(),
        value => value.to_string(),
    };
    writeln!(out, "Sequential, one core (tables 5.3, 5.6, 5.9, 5.12, 7.1)")?;
    let keys = ["algorithm", "mode", "class", "docs_a_list", "queries", "ms", "thesis_ms"];
    let mut rows = vec![keys.map(|key| key.replace('_', " ")).to_vec()];
    rows.extend(sequential.iter().map(|row| keys.iter().map(|&key| text(&row[key])).collect()));
    table(&rows, out)?;
    let head = [
        "class",
        "partitions",
        "threshold",
        "batch",
        "size",
        "a block",
        "ms",
        "device ms",
        "speedup",
        "thesis",
        "skipped",
        "recall",
        "thesis",
    ];
    let mut printed = "";
    let names = ["5.4", "5.7", "5.10", "5.13", "7.2", "7.3", "7.4"];
    for name in names {
        let of: Vec<&Cell> = cells.iter().filter(|cell| cell.table == name).collect();
        let Some(first) = of.first() else { continue };
        let algorithm = if name == "7.4" { "both" } else { first.algorithm };
        writeln!(out, "\nTable {name}: {algorithm}, {}", first.mode)?;
        let mut rows = vec![head.map(String::from).to_vec()];
        for cell in of {
            let number = |n: Option<u32>| n.map_or("auto".to_owned(), |n| n.to_string());
            let real = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{x:.2}"));
            rows.push(vec![
                if name == "7.4" { cell.algorithm } else { cell.class }.to_owned(),
                cell.partitioning.to_owned(),
                cell.threshold.to_owned(),
                cell.batch.to_owned(),
                number(cell.partition_size),
                number(cell.per_block),
                format!("{:.4}", cell.ms),
                format!("{:.4}", cell.device_ms),
                format!("{:.1}", cell.speedup),
                real(cell.thesis),
                format!("{:.3}", cell.skipped),
                format!("{:.3}", cell.recall),
                real(cell.thesis_recall),
            ]);
        }
        table(&rows, out)?;
        printed = name;
    }
    if !printed.is_empty() {
        writeln!(out, "\n{}", goals(cells))?;
    }
    Ok(())
}
