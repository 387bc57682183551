//! Cohorts by size and by tile, as document A measures them: Figures 6 and 7.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use warpseek_cuda::Device;
use warpseek_exec::{Answer, Engine, Mode, Plan, Planner, Query, in_parallel};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_exec_gpu_papers::{CohortEngine, CohortSettings};
use warpseek_index::Snapshot;

use super::super::{hardware, read_queries};
use super::{Options, given, load, matrices, median};
use crate::failure::Failure;
use crate::terminal::{count, table};

/// Queries of a cell: the paper's 1,000 for small cohorts, and 8,192 for others.
const FEW: usize = 1000;
const MANY: usize = 8192;
const SMALL_COHORT: usize = 64;

/// What §6.2 says of a GTX Titan beside 16 cores of a Xeon, by size of cohort.
const PAPER: [(usize, f64); 2] = [(1, 1.09), (64, 2.5)];

#[derive(Serialize)]
struct Cell {
    k: usize,
    /// What answers: cohorts on the GPU, or what stands beside.
    engine: String,
    cohort: usize,
    /// Documents in a tile, where it has tiles.
    tile: Option<u32>,
    /// Binary logarithm of documents in a microtile, and queries in a group.
    micro_bits: Option<u32>,
    group: Option<usize>,
    queries: usize,
    /// From plans to hits.
    qps: f64,
    /// Kernels alone; none on the CPU.
    device_qps: Option<f64>,
    /// Queries times documents a second, as Figure 6 has it: of kernels, or of the CPU.
    work_per_s: f64,
}

/// Figure 7: the best of the GPU beside the CPU.
#[derive(Serialize)]
struct Ratio {
    k: usize,
    cohort: usize,
    ratio: f64,
    paper: f64,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let queries = read_queries(given(options.queries.as_deref(), "--queries")?)?;
    if queries.is_empty() {
        return Err(Failure::user("there is nothing to measure: no queries"));
    }
    let threads = options.threads.get();
    let device = Device::open(options.gpu, None)?;
    let snapshot = Arc::new(Snapshot::open(given(options.index.as_deref(), "--index")?)?);
    let manifest = snapshot.manifest();
    let planner = Planner::new(snapshot.clone(), options.ranking.get(manifest)?)?;
    let tile_bits = options.tile_bits.first().copied().unwrap_or(11);
    let settings = Settings { tile_bits, pruned: !options.exhaustive, ..Settings::default() };
    let beside = Arc::new(GpuEngine::new(snapshot.clone(), device.clone(), settings, threads)?);
    load(&beside, &planner, options)?;
    let mut bench = Bench {
        options,
        docs: snapshot.statistics().documents,
        expected: Vec::new(),
        cells: Vec::new(),
        cpu: CpuEngine::new(snapshot.clone(), Some(Algorithm::Cohort), threads),
        beside,
    };
    for &k in &options.k {
        let plan = |(): &mut (), text: &String| {
            let query = Query::parse(text, manifest.analyzer, manifest.content)?;
            planner.plan(&query, Mode::Or, k)
        };
        let plans: Vec<Plan> =
            in_parallel(&queries[..queries.len().min(MANY)], threads, || (), plan)?;
        let some = &plans[..options.cpu.min(plans.len())];
        bench.expected = CpuEngine::new(snapshot.clone(), None, threads).search(some)?;
        bench.sweep(&plans, k)?;
        if let Some(folder) = &options.matrices {
            let cohort = options.cohort.last().map_or(1, |&n| usize::from(n)).min(plans.len());
            let cohort_plans = &plans[..cohort];
            let engine = CohortEngine::new(
                bench.beside.clone(),
                CohortSettings { cohort, ..CohortSettings::default() },
            )?;
            let (answers, times) = bench.measure(&engine, cohort_plans, cohort)?;
            matrices::write(folder, &snapshot, cohort_plans, &answers, times)?;
        }
    }
    let ratios = bench.ratios();
    let hardware = format!("{}; {}", device.info().name, hardware());
    let mut out = std::io::stdout().lock();
    if options.json {
        let report = json!({
            "hardware": hardware, "ranking": planner.ranking_name(), "documents": bench.docs,
            "threads": threads, "rounds": options.rounds, "cells": bench.cells, "ratios": ratios,
        });
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{hardware}; {}; {} documents; median of {} rounds; the first {} queries of each cell have the CPU's hits",
        planner.ranking_name(),
        count(bench.docs),
        options.rounds,
        bench.expected.len()
    )?;
    print(&bench.cells, &mut out)?;
    print_ratios(&ratios, threads, &mut out)?;
    Ok(ExitCode::SUCCESS)
}

struct Bench<'a> {
    options: &'a Options,
    docs: u64,
    /// Hits of the CPU for the first queries.
    expected: Vec<Answer>,
    cells: Vec<Cell>,
    beside: Arc<GpuEngine>,
    cpu: CpuEngine,
}

/// From plans to hits, and of kernels alone.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) whole: Duration,
    pub(super) kernels: Option<Duration>,
}

impl Bench<'_> {
    fn sweep(&mut self, plans: &[Plan], k: usize) -> Result<(), Failure> {
        let default = CohortSettings::default();
        let micro_bits = match &self.options.at_once[..] {
            [] => vec![default.micro_bits],
            some => some.to_vec(),
        };
        let groups = match &self.options.group[..] {
            [] => vec![default.group],
            some => some.iter().map(|&n| usize::from(n)).collect(),
        };
        for &cohort in &self.options.cohort {
            let cohort = usize::from(cohort);
            let some = &plans[..plans.len().min(if cohort < SMALL_COHORT { FEW } else { MANY })];
            let none = (None, None, None);
            let beside = self.beside.clone();
            let (_, times) = self.measure(&*beside, some, cohort)?;
            self.cell(k, "auto", cohort, none, some.len(), times);
            if PAPER.iter().any(|&(size, _)| size == cohort) {
                let few = &some[..some.len().min(self.options.cpu)];
                let times = self.on_cpu(few, cohort)?;
                self.cell(k, "CPU", cohort, none, few.len(), times);
            }
            for &tile in &self.options.tile {
                for &micro_bits in &micro_bits {
                    for &group in &groups {
                        let settings = CohortSettings { cohort, tile, micro_bits, group };
                        let engine = CohortEngine::new(self.beside.clone(), settings)?;
                        let (_, times) = self.measure(&engine, some, cohort)?;
                        let CohortSettings { tile, micro_bits, group, .. } = engine.settings();
                        let of = (Some(tile), Some(micro_bits), Some(group));
                        self.cell(k, "cohort", cohort, of, some.len(), times);
                    }
                }
            }
        }
        Ok(())
    }

    /// Compares hits, then takes medians; `cohort` queries are asked at a time unless the engine cuts batches itself.
    fn measure(
        &self,
        engine: &dyn Engine,
        plans: &[Plan],
        cohort: usize,
    ) -> Result<(Vec<Answer>, Times), Failure> {
        // A cohort engine has the cohorts of a batch under way together; others are asked for as many queries.
        let at_once = if engine.name() == "cohort" { plans.len() } else { cohort };
        let ask = || -> Result<Vec<Answer>, Failure> {
            let mut answers = Vec::with_capacity(plans.len());
            for some in plans.chunks(at_once.max(1)) {
                answers.extend(engine.search(some)?);
            }
            Ok(answers)
        };
        let answers = ask()?;
        for (i, (expected, answer)) in self.expected.iter().zip(&answers).enumerate() {
            if expected.hits != answer.hits {
                let name = engine.name();
                return Err(Failure::broken(format!(
                    "query {} has other hits by `{name}` than on the CPU",
                    i + 1
                )));
            }
        }
        let (mut whole, mut kernels) = (Vec::new(), Vec::new());
        for _ in 0..self.options.rounds {
            let start = Instant::now();
            ask()?;
            whole.push(start.elapsed());
            self.beside.time_kernels(true);
            self.beside.take_device_time();
            ask()?;
            self.beside.time_kernels(false);
            kernels.push(self.beside.take_device_time());
        }
        let kernels = Some(median(&mut kernels));
        Ok((answers, Times { whole: median(&mut whole), kernels }))
    }

    /// Once is enough: it is slow.
    fn on_cpu(&self, plans: &[Plan], cohort: usize) -> Result<Times, Failure> {
        let start = Instant::now();
        for some in plans.chunks(cohort) {
            self.cpu.search(some)?;
        }
        Ok(Times { whole: start.elapsed(), kernels: None })
    }

    fn cell(
        &mut self,
        k: usize,
        engine: &str,
        cohort: usize,
        (tile, micro_bits, group): (Option<u32>, Option<u32>, Option<usize>),
        queries: usize,
        times: Times,
    ) {
        let per_second = |time: Duration| queries as f64 / time.as_secs_f64().max(1e-9);
        let (qps, device_qps) = (per_second(times.whole), times.kernels.map(per_second));
        let work_per_s = device_qps.unwrap_or(qps) * self.docs as f64;
        let engine = engine.to_owned();
        let cell = Cell {
            k,
            engine,
            cohort,
            tile,
            micro_bits,
            group,
            queries,
            qps,
            device_qps,
            work_per_s,
        };
        eprintln!("{}", json!(cell));
        self.cells.push(cell);
    }

    fn ratios(&self) -> Vec<Ratio> {
        let mut ratios = Vec::new();
        for &k in &self.options.k {
            for (cohort, paper) in PAPER {
                let best = |engine: &str| {
                    let of = self
                        .cells
                        .iter()
                        .filter(|c| c.k == k && c.cohort == cohort && c.engine == engine);
                    of.map(|cell| cell.qps).fold(0.0, f64::max)
                };
                let (gpu, cpu) = (best("cohort"), best("CPU"));
                if cpu > 0.0 {
                    ratios.push(Ratio { k, cohort, ratio: gpu / cpu, paper });
                }
            }
        }
        ratios
    }
}

fn print(cells: &[Cell], out: &mut impl Write) -> std::io::Result<()> {
    let head = [
        "k",
        "engine",
        "cohort",
        "tile",
        "microtile",
        "group",
        "queries",
        "q/s",
        "kernels q/s",
        "10^12 queries x documents/s",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for cell in cells {
        rows.push(vec![
            cell.k.to_string(),
            cell.engine.clone(),
            cell.cohort.to_string(),
            or_none(cell.tile.map(|docs| count(u64::from(docs)))),
            or_none(cell.micro_bits.map(|bits| count(1 << bits))),
            or_none(cell.group.map(|n| n.to_string())),
            cell.queries.to_string(),
            count(cell.qps as u64),
            or_none(cell.device_qps.map(|qps| count(qps as u64))),
            format!("{:.3}", cell.work_per_s / 1e12),
        ]);
    }
    table(&rows, out)
}

fn print_ratios(ratios: &[Ratio], threads: usize, out: &mut impl Write) -> std::io::Result<()> {
    if ratios.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nFigure 7: the best of the GPU's cohorts beside the CPU's on {threads} threads; the paper has a GTX Titan beside 16 cores"
    )?;
    let mut rows = vec![["k", "cohort", "GPU / CPU", "paper"].map(String::from).to_vec()];
    for ratio in ratios {
        rows.push(vec![
            ratio.k.to_string(),
            ratio.cohort.to_string(),
            format!("{:.2}", ratio.ratio),
            format!("{:.2}", ratio.paper),
        ]);
    }
    table(&rows, out)
}
