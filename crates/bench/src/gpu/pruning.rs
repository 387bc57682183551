//! The `--pruning` part of `bench gpu`: WAND and MaxScore on a GPU, compared with the same
//! algorithms on one core (Gaioso 2019, tables 5.3 to 5.14 and 7.1 to 7.4).

mod settings;
mod tables;

use std::collections::HashSet;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use warpseek_console::Failure;
use warpseek_cuda::Device;
use warpseek_exec::{Answer, Context, Mode, Plan, Planner, Query, Work};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_exec_gpu_papers::partitioned::{
    Batch, PartitionSettings, PartitionedEngine, Partitioning, Pruning,
};
use warpseek_index::Snapshot;

use super::{Options, given, search_all, thesis};
use crate::statistics::median;
use crate::{hardware, read_queries};

/// Number of hits per query, as in (Gaioso 2019).
const K: usize = 128;
/// Number of queries that one core answers to warm up.
const WARM: usize = 2;
/// Number of postings of the shortest list that is measured.
const LEAST_DF: u32 = 128;

/// The GPU's figures for a class of queries or a batch, in one setting.
#[derive(Serialize)]
struct Cell {
    table: &'static str,
    algorithm: &'static str,
    mode: String,
    class: &'static str,
    partitioning: &'static str,
    threshold: &'static str,
    batch: &'static str,
    /// Number of postings of the longest list in a partition; `None` if the engine chooses.
    partition_size: Option<u32>,
    per_block: Option<u32>,
    /// Milliseconds per query, from plans to hits.
    ms: f64,
    /// The part of `ms` during which the device works.
    device_ms: f64,
    /// Milliseconds of the same queries with the same algorithm on one core.
    cpu_ms: f64,
    speedup: f64,
    /// The speedup in (Gaioso 2019).
    thesis: Option<f64>,
    /// Share of the lists' blocks that were not decoded.
    skipped: f64,
    /// Mean share of the exact hits that were found; 1 unless partitions are homogeneous.
    recall: f64,
    /// Standard deviation of `recall`; 0 unless partitions are homogeneous.
    recall_deviation: f64,
    thesis_recall: Option<f64>,
}

/// The figures of one core for a class of queries or a batch.
#[derive(Serialize)]
struct Sequential {
    algorithm: &'static str,
    mode: String,
    class: &'static str,
    /// Mean number of postings per list, for classes only.
    docs_a_list: Option<u64>,
    queries: usize,
    /// Milliseconds per query.
    ms: f64,
    thesis_ms: f64,
}

/// Key figures of one algorithm.
#[derive(Serialize)]
struct Goals {
    algorithm: &'static str,
    /// Speedup on the device due to shared thresholds, on extra-long lists in OR with heterogeneous
    /// partitions: the largest of all settings. `in_our_own_setting` is that of our own setting.
    safe_read_over_local: f64,
    partition_size: Option<u32>,
    per_block: Option<u32>,
    in_our_own_setting: f64,
    /// Speedup of batches with heterogeneous partitions over one core.
    asynchronous_speedup: f64,
    synchronous_speedup: f64,
}

/// Queries with the answers and the time of one core.
struct Sample {
    class: &'static str,
    mode: Mode,
    pruning: Pruning,
    plans: Vec<Plan>,
    expected: Vec<Answer>,
    cpu: Duration,
}

impl Sample {
    /// Returns the milliseconds per query on one core.
    fn ms(&self) -> f64 {
        milliseconds(self.cpu) / self.plans.len() as f64
    }

    fn sequential(&self, docs_a_list: Option<u64>, thesis_ms: f64) -> Sequential {
        Sequential {
            algorithm: self.pruning.name(),
            mode: self.mode.to_string(),
            class: self.class,
            docs_a_list,
            queries: self.plans.len(),
            ms: self.ms(),
            thesis_ms,
        }
    }
}

/// The state of a run.
struct Run<'a> {
    options: &'a Options,
    snapshot: Arc<Snapshot>,
    planner: Planner,
    /// `None` if only one core is measured.
    engine: Option<PartitionedEngine>,
    one_core: Context,
    all: Context,
    start: Instant,
    /// Tables are printed here while the rest is measured.
    out: Box<dyn Write>,
    cells: Vec<Cell>,
    sequential: Vec<Sequential>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let index = given(options.index.as_deref(), "--index")?;
    let queries = given(options.queries.as_deref(), "--queries")?;
    let device = match options.one_core {
        true => None,
        false => Some(Device::open(options.gpu, None).map_err(|e| Failure::user(e.to_string()))?),
    };
    let snapshot = Arc::new(Snapshot::open(index)?);
    let planner = Planner::new(snapshot.clone(), options.ranking.get(snapshot.manifest())?)?;
    let (a_class, a_batch) = if options.full { (20, 500) } else { (4, 100) };
    let classes = classes(&snapshot, a_class)?;
    let manifest = snapshot.manifest();
    let batch = read_queries(queries)?.into_iter().take(a_batch).map(|text| {
        let query = Query::for_index(&text, manifest)?;
        planner.plan(&query, Mode::Or, K)
    });
    let batch = batch.collect::<Result<Vec<_>, _>>()?;
    let hardware = match &device {
        Some(device) => format!("{}; {}", device.info().name, hardware()),
        None => hardware(),
    };
    // With --json, standard output contains only the report.
    let mut out: Box<dyn Write> = match options.json {
        true => Box::new(std::io::stderr()),
        false => Box::new(std::io::stdout()),
    };
    let (ranking, rounds) = (planner.ranking_name(), options.rounds);
    writeln!(out, "{hardware}; {ranking}; k {K}; medians of {rounds}")?;
    writeln!(out, "all exact cells have the CPU's hits; thesis: figures of Gaioso 2019")?;
    let (one_core, all) = (Context::new(1), Context::new(options.threads.get()));
    let (start, cells, sequential) = (Instant::now(), Vec::new(), Vec::new());
    let mut run = Run {
        options,
        snapshot,
        planner,
        engine: None,
        one_core,
        all,
        start,
        out,
        cells,
        sequential,
    };
    if let Some(device) = device {
        let first = PartitionSettings::default();
        let engine =
            PartitionedEngine::new(run.snapshot.clone(), device, first).map_err(Failure::user)?;
        engine.load(run.planner.formulas(), options.threads.get())?;
        run.engine = Some(engine);
        run.say("lists are on the device");
    }
    for (number, &pruning) in Pruning::ALL.iter().enumerate() {
        run.batches(number, pruning, batch.clone())?;
        for (half, mode) in [Mode::Or, Mode::And].into_iter().enumerate() {
            run.singles((number, half), pruning, mode, &classes)?;
        }
    }
    let Run { mut out, cells, sequential, engine, .. } = run;
    let goals = if engine.is_some() { goals(&cells) } else { Vec::new() };
    tables::goals(&goals, &mut out)?;
    if options.json {
        let report = json!({
            "hardware": hardware, "ranking": ranking, "k": K, "sequential": sequential, "cells": cells, "goals": goals,
        });
        writeln!(std::io::stdout().lock(), "{report:#}")?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Run<'_> {
    fn say(&self, what: &str) {
        eprintln!("{:5.1} s: {what}", self.start.elapsed().as_secs_f64());
    }

    /// Returns the sequential engine of an algorithm.
    fn cpu(&self, number: usize) -> CpuEngine {
        let algorithm = [Algorithm::Wand, Algorithm::MaxScore][number];
        CpuEngine::new(self.snapshot.clone(), Some(algorithm))
    }

    /// Measures the batch of an algorithm (tables 7.1 to 7.4).
    fn batches(
        &mut self,
        number: usize,
        pruning: Pruning,
        plans: Vec<Plan>,
    ) -> Result<(), Failure> {
        let cpu = self.cpu(number);
        let sample = measure_cpu(&cpu, &self.one_core, "batch", Mode::Or, pruning, plans)?;
        let whole = thesis::BATCH_SEQUENTIAL[number] * 1e3 / thesis::A_BATCH as f64;
        self.sequential.push(sample.sequential(None, whole));
        self.say(&format!("{}: a batch on one core", pruning.name()));
        let (from, own) = (self.cells.len(), [thesis::WAND_BATCH, thesis::MAXSCORE_BATCH][number]);
        let Some(engine) = &mut self.engine else { return Ok(()) };
        for (settings, position) in settings::batches(pruning, self.options.figures) {
            engine.set(settings).map_err(Failure::user)?;
            let mut cell = measure(engine, &self.all, &sample, self.options.rounds, true)?;
            (cell.table, cell.thesis) = match settings.batch {
                Batch::Synchronous => ("7.4", Some(thesis::SYNCHRONOUS[number])),
                Batch::Asynchronous => {
                    (["7.2", "7.3"][number], position.map(|(row, column)| own[row][column]))
                }
            };
            self.cells.push(cell);
        }
        tables::batches(&self.cells[from..], &mut self.out)?;
        self.say(&format!("{}: batches", pruning.name()));
        Ok(())
    }

    /// Measures queries one at a time, class by class (tables 5.3 to 5.14). `place` has the
    /// positions of the algorithm and of the mode in the tables of the thesis.
    fn singles(
        &mut self,
        place: (usize, usize),
        pruning: Pruning,
        mode: Mode,
        classes: &[Class],
    ) -> Result<(), Failure> {
        let (number, half) = place;
        let from = (self.cells.len(), self.sequential.len());
        let own =
            [[thesis::WAND_OR, thesis::WAND_AND], [thesis::MAXSCORE_OR, thesis::MAXSCORE_AND]]
                [number][half];
        let recalls = thesis::RECALL[2 * number + half];
        let cpu = self.cpu(number);
        for (class, (name, terms, df)) in classes.iter().enumerate() {
            let pairs = terms.chunks_exact(2).map(|pair| {
                let terms = pair.iter().map(|term| (term.clone(), 1.0));
                self.planner.plan(&Query::of(terms), mode, K)
            });
            let plans = pairs.collect::<Result<Vec<_>, _>>()?;
            let sample = measure_cpu(&cpu, &self.one_core, name, mode, pruning, plans)?;
            let thesis_ms = thesis::SEQUENTIAL[2 * number + half][class];
            self.sequential.push(sample.sequential(Some(*df), thesis_ms));
            self.say(&format!("{}, {mode}, {name}: on one core", pruning.name()));
            let Some(engine) = &mut self.engine else { continue };
            let all = settings::singles(pruning, self.options.figures);
            for (row, settings) in all.into_iter().enumerate() {
                engine.set(settings).map_err(Failure::user)?;
                let mut cell = measure(engine, &self.all, &sample, self.options.rounds, false)?;
                cell.table = [["5.4", "5.7"], ["5.10", "5.13"]][number][half];
                cell.thesis = own.get(row).map(|row| row[class]);
                let homogeneous = settings.partitioning == Partitioning::Homogeneous;
                cell.thesis_recall =
                    homogeneous.then(|| recalls[settings.threshold as usize][class]);
                self.cells.push(cell);
            }
            self.say(&format!("{}, {mode}, {name}", pruning.name()));
        }
        tables::singles(&self.sequential[from.1..], &self.cells[from.0..], &mut self.out)?;
        Ok(())
    }
}

/// The name of a class, its terms, and the mean length of their lists. The terms are those whose
/// lists come closest to the lengths in (Gaioso 2019) or, if the index is smaller, to the same
/// fractions of its longest list.
type Class = (&'static str, Vec<String>, u64);

fn classes(snapshot: &Snapshot, queries: usize) -> Result<Vec<Class>, Failure> {
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
        let wanted = (2 * queries).min(lists.len() / 2 * 2);
        let from = at.saturating_sub(wanted / 2).min(lists.len() - wanted);
        let near = &lists[from..from + wanted];
        // A query pairs a term of the shorter half with one of the longer half.
        let (low, high) = near.split_at(near.len() / 2);
        let pairs = low.iter().zip(high).flat_map(|(a, b)| [a.1.clone(), b.1.clone()]);
        let mean = near.iter().map(|&(df, _)| u64::from(df)).sum::<u64>() / wanted.max(1) as u64;
        (name, pairs.collect(), mean)
    };
    Ok(thesis::CLASSES.iter().map(class).collect())
}

fn measure_cpu(
    cpu: &CpuEngine,
    context: &Context,
    class: &'static str,
    mode: Mode,
    pruning: Pruning,
    plans: Vec<Plan>,
) -> Result<Sample, Failure> {
    if plans.is_empty() {
        return Err(Failure::user(
            "nothing to measure: --queries must name a file with queries, and --index an index with lists of at least 128 postings",
        ));
    }
    search_all(cpu, &plans[..plans.len().min(WARM)], context)?;
    let start = Instant::now();
    let expected = search_all(cpu, &plans, context)?;
    let cpu = start.elapsed();
    Ok(Sample { class, mode, pruning, plans, expected, cpu })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Compares hits, then measures times, with one query after the other or all of them at once.
fn measure(
    engine: &PartitionedEngine,
    context: &Context,
    sample: &Sample,
    rounds: usize,
    at_once: bool,
) -> Result<Cell, Failure> {
    let search = || -> Result<Vec<Answer>, Failure> {
        if at_once {
            return search_all(engine, &sample.plans, context);
        }
        let mut answers = Vec::new();
        for plan in &sample.plans {
            answers.extend(search_all(engine, std::slice::from_ref(plan), context)?);
        }
        Ok(answers)
    };
    let settings = engine.settings();
    let answers = search()?;
    let mut recalls = Vec::new();
    for (i, (answer, expected)) in answers.iter().zip(&sample.expected).enumerate() {
        if !settings.is_approximate() && answer.hits != expected.hits {
            return Err(Failure::user(format!(
                "query {} ({} {}, {}) has different hits than on the CPU with {settings:?}",
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
    answers.iter().filter_map(|answer| answer.work).for_each(|of_query| work += of_query);
    let blocks = work.blocks_decoded + work.blocks_skipped;
    let mean = recalls.iter().sum::<f64>() / recalls.len().max(1) as f64;
    let variance = recalls.iter().map(|recall| (recall - mean).powi(2)).sum::<f64>();
    let n = sample.plans.len() as f64;
    let ms = milliseconds(median(&mut whole)) / n;
    Ok(Cell {
        table: "",
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
        cpu_ms: sample.ms(),
        speedup: sample.ms() / ms.max(1e-9),
        thesis: None,
        skipped: work.blocks_skipped as f64 / blocks.max(1) as f64,
        recall: mean,
        recall_deviation: (variance / recalls.len().max(1) as f64).sqrt(),
        thesis_recall: None,
    })
}

fn goals(cells: &[Cell]) -> Vec<Goals> {
    let goals_of = |&pruning: &Pruning| {
        let exact = |class: &'static str| {
            cells.iter().filter(move |cell| {
                (cell.class, &*cell.mode, cell.partitioning) == (class, "or", "heterogeneous")
                    && cell.algorithm == pruning.name()
            })
        };
        let extra = |threshold: &'static str| {
            exact("extra-long").filter(move |cell| cell.threshold == threshold)
        };
        let gains: Vec<(f64, &Cell)> = extra("local")
            .zip(extra("safe-read"))
            .map(|(local, shared)| (local.device_ms / shared.device_ms.max(1e-9), local))
            .collect();
        let most = gains.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let own = gains.iter().find(|(_, cell)| cell.partition_size.is_none());
        let batch = |kind: &str| {
            let of_kind = exact("batch").filter(|cell| cell.batch == kind);
            of_kind.map(|cell| cell.speedup).fold(0.0, f64::max)
        };
        Goals {
            algorithm: pruning.name(),
            safe_read_over_local: most.map_or(0.0, |(gain, _)| *gain),
            partition_size: most.and_then(|(_, cell)| cell.partition_size),
            per_block: most.and_then(|(_, cell)| cell.per_block),
            in_our_own_setting: own.map_or(0.0, |(gain, _)| *gain),
            asynchronous_speedup: batch("async"),
            synchronous_speedup: batch("sync"),
        }
    };
    Pruning::ALL.iter().map(goals_of).collect()
}
