//! The `--cohorts` part of `bench gpu`: throughput by the size of cohorts and of tiles (Agrawal
//! 2016, figures 6 and 7).

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use warpseek_console::Failure;
use warpseek_console::terminal::{count, table};
use warpseek_cuda::Device;
use warpseek_exec::{Answer, Context, Engine, ExecError, Mode, Plan, Planner, Query};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_exec_gpu_papers::{CohortEngine, CohortSettings};
use warpseek_index::Snapshot;

use super::times::Times;
use super::{Options, given, kernel_time, load, matrices, one_round_at_a_time, search_all};
use crate::statistics::median;
use crate::{hardware, read_queries};

/// Number of queries of a cell: 1,000 for small cohorts, as in (Agrawal 2016), and 8,192 for
/// others.
const FEW: usize = 1000;
const MANY: usize = 8192;
const SMALL_COHORT: usize = 64;

/// Throughput of a GTX Titan relative to 16 cores of a Xeon, by size of cohort (Agrawal 2016,
/// section 6.2).
const PAPER: [(usize, f64); 2] = [(1, 1.09), (64, 2.5)];

#[derive(Serialize)]
struct Cell {
    k: usize,
    /// The engine: cohorts on the GPU, or one of those that they are compared with.
    engine: String,
    cohort: usize,
    /// Number of documents in a tile, if the engine has tiles.
    tile: Option<u32>,
    /// Binary logarithm of the number of documents in a microtile, and number of queries in a
    /// group.
    micro_bits: Option<u32>,
    group: Option<usize>,
    queries: usize,
    /// Queries per second, from plans to hits.
    qps: f64,
    /// Queries per second by the time of kernels only; `None` on the CPU.
    device_qps: Option<f64>,
    /// Queries times documents per second (Agrawal 2016, figure 6), by the time of kernels or of
    /// the CPU.
    work_per_s: f64,
}

/// Best throughput of the GPU relative to that of the CPU (Agrawal 2016, figure 7).
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
        return Err(Failure::user("the file of --queries is empty"));
    }
    let threads = options.threads.get();
    let device = Device::open(options.gpu, None)?;
    let snapshot = Arc::new(Snapshot::open(given(options.index.as_deref(), "--index")?)?);
    let manifest = snapshot.manifest();
    let planner = Planner::new(snapshot.clone(), options.ranking.get(manifest)?)?;
    let tile_bits = options.tile_bits.first().copied().unwrap_or(11);
    let settings = Settings { tile_bits, pruned: !options.exhaustive, ..Settings::default() };
    let usual = Arc::new(GpuEngine::new(snapshot.clone(), device.clone(), settings)?);
    load(&usual, &planner, options)?;
    let mut bench = Bench {
        options,
        context: Context::new(threads),
        docs: snapshot.statistics().documents,
        expected: Vec::new(),
        cells: Vec::new(),
        cpu: CpuEngine::new(snapshot.clone(), Some(Algorithm::Cohort)),
        usual,
    };
    for &k in &options.k {
        let plan = |(): &mut (), text: &String| {
            let query = Query::for_index(text, manifest)?;
            planner.plan(&query, Mode::Or, k)
        };
        let queries = &queries[..queries.len().min(MANY)];
        let plans = bench.context.pool().map(queries, || (), plan);
        let plans = plans.into_iter().collect::<Result<Vec<Plan>, ExecError>>()?;
        let some = &plans[..options.cpu.min(plans.len())];
        let cpu = CpuEngine::new(snapshot.clone(), None);
        bench.expected = search_all(&cpu, some, &bench.context)?;
        bench.sweep(&plans, k)?;
        if let Some(folder) = &options.matrices {
            let cohort = options.cohort.last().map_or(1, |&n| usize::from(n)).min(plans.len());
            let cohort_plans = &plans[..cohort];
            let settings = CohortSettings { cohort, ..CohortSettings::default() };
            let engine = CohortEngine::new(bench.usual.clone(), settings)?;
            let timed = CohortEngine::new(bench.timed(), settings)?;
            let (answers, times) = bench.measure(&engine, &timed, cohort_plans, cohort)?;
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
    /// Uses all threads and has no deadline.
    context: Context,
    docs: u64,
    /// The CPU's answers to the first queries.
    expected: Vec<Answer>,
    cells: Vec<Cell>,
    /// The engine that `auto` chooses. The cohort engines share its image.
    usual: Arc<GpuEngine>,
    cpu: CpuEngine,
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
            let (_, times) = self.measure(&*self.usual, &*self.timed(), some, cohort)?;
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
                        let engine = CohortEngine::new(self.usual.clone(), settings)?;
                        let timed = CohortEngine::new(self.timed(), settings)?;
                        let (_, times) = self.measure(&engine, &timed, some, cohort)?;
                        let CohortSettings { tile, micro_bits, group, .. } = engine.settings();
                        let shape = (Some(tile), Some(micro_bits), Some(group));
                        self.cell(k, "cohort", cohort, shape, some.len(), times);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the usual engine in the form that times kernels.
    fn timed(&self) -> Arc<GpuEngine> {
        Arc::new(one_round_at_a_time(&self.usual))
    }

    /// Compares hits, then measures medians. `timed` is the same engine in the form that times
    /// kernels. Each search has `cohort` queries, unless the engine forms cohorts itself.
    fn measure(
        &self,
        engine: &dyn Engine,
        timed: &dyn Engine,
        plans: &[Plan],
        cohort: usize,
    ) -> Result<(Vec<Answer>, Times), Failure> {
        // A cohort engine gets all queries at once, so that several cohorts can be in flight.
        let at_once = if engine.name() == "cohort" { plans.len() } else { cohort };
        let ask = |engine: &dyn Engine| -> Result<Vec<Answer>, Failure> {
            let mut answers = Vec::with_capacity(plans.len());
            for some in plans.chunks(at_once.max(1)) {
                answers.extend(search_all(engine, some, &self.context)?);
            }
            Ok(answers)
        };
        let answers = ask(engine)?;
        for (i, (expected, answer)) in self.expected.iter().zip(&answers).enumerate() {
            if expected.hits != answer.hits {
                let name = engine.name();
                return Err(Failure::broken(format!(
                    "query {}: the hits of `{name}` differ from the CPU's",
                    i + 1
                )));
            }
        }
        let (mut whole, mut kernels) = (Vec::new(), Vec::new());
        for _ in 0..self.options.rounds {
            let start = Instant::now();
            ask(engine)?;
            whole.push(start.elapsed());
        }
        ask(timed)?;
        for _ in 0..self.options.rounds {
            kernels.push(kernel_time(self.usual.device(), || ask(timed))?);
        }
        let kernels = Some(median(&mut kernels));
        Ok((answers, Times { whole: median(&mut whole), kernels }))
    }

    /// Measures only once, because the CPU is slow.
    fn on_cpu(&self, plans: &[Plan], cohort: usize) -> Result<Times, Failure> {
        let start = Instant::now();
        for some in plans.chunks(cohort) {
            search_all(&self.cpu, some, &self.context)?;
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
                    let rates = self
                        .cells
                        .iter()
                        .filter(|c| c.k == k && c.cohort == cohort && c.engine == engine);
                    rates.map(|cell| cell.qps).fold(0.0, f64::max)
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
        "\nFigure 7 of Agrawal 2016: the best throughput of cohorts on the GPU relative to the CPU on {threads} threads; the paper compares a GTX Titan with 16 cores"
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
