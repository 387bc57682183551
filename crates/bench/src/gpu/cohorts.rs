//! The `--cohorts` part of `bench gpu`: throughput by the size of cohorts and of tiles (Agrawal
//! 2016, figures 6 and 7).

use std::io::Write;
use std::path::Path;
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

use super::{Options, given, kernel_time, load_with, one_round_at_a_time};
use crate::answers::{check_hits, search_all};
use crate::cohorts::cell::{CPU, Cell, GPU, Grid, PAPER, Setting};
use crate::cohorts::matrices;
use crate::energy::Meter;
use crate::statistics::median;
use crate::times::Times;
use crate::{hardware, read_queries};

/// Number of queries of a cell: 1,000 for small cohorts, as in (Agrawal 2016), and 8,192 for
/// others.
const FEW: usize = 1000;
const MANY: usize = 8192;
const SMALL_COHORT: usize = 64;

/// Time for which the energy of a cell is measured, if it can be read.
const ENERGY: Duration = Duration::from_secs(1);

/// The layouts of cohorts on the device to measure.
pub(crate) struct Shapes {
    /// Binary logarithms of the number of documents in a microtile.
    pub(crate) micro_bits: Vec<u32>,
    /// Numbers of queries in a group.
    pub(crate) groups: Vec<usize>,
}

impl Default for Shapes {
    fn default() -> Self {
        let CohortSettings { micro_bits, group, .. } = CohortSettings::default();
        Shapes { micro_bits: vec![micro_bits], groups: vec![group] }
    }
}

/// Best throughput of the GPU relative to that of the CPU (Agrawal 2016, figure 7).
#[derive(Serialize)]
struct Ratio {
    k: usize,
    cohort: usize,
    ratio: f64,
    paper: f64,
}

/// A sweep over the sizes of cohorts and tiles on a GPU that holds an index.
pub(crate) struct Sweep<'a> {
    pub(crate) grid: &'a Grid,
    pub(crate) shapes: &'a Shapes,
    /// Uses all threads and has no deadline.
    pub(crate) context: &'a Context,
    pub(crate) meter: &'a Meter,
    documents: u64,
    /// The engine that `auto` chooses. The cohort engines share its image.
    usual: Arc<GpuEngine>,
}

impl<'a> Sweep<'a> {
    /// Copies an index to a device.
    pub(crate) fn open(
        (snapshot, planner): (&Arc<Snapshot>, &Planner),
        (device, settings): (&Device, Settings),
        (grid, shapes): (&'a Grid, &'a Shapes),
        (context, meter): (&'a Context, &'a Meter),
        quiet: bool,
    ) -> Result<Self, Failure> {
        let usual = Arc::new(GpuEngine::new(snapshot.clone(), device.clone(), settings)?);
        load_with(&usual, planner, context.threads(), quiet)?;
        let documents = snapshot.statistics().documents;
        Ok(Sweep { grid, shapes, context, meter, documents, usual })
    }

    /// Measures the grid. The first hits of each cell must be the expected ones.
    pub(crate) fn cells(
        &self,
        plans: &[Plan],
        k: usize,
        expected: &[Answer],
    ) -> Result<Vec<Cell>, Failure> {
        let (grid, shapes, mut cells) = (self.grid, self.shapes, Vec::new());
        for &cohort in &grid.cohorts {
            let some = &plans[..plans.len().min(if cohort < SMALL_COHORT { FEW } else { MANY })];
            let (tile, micro_bits, group) = (None, None, None);
            let setting = Setting { k, engine: "auto", cohort, tile, micro_bits, group };
            cells.push(self.cell(setting, &*self.usual, &*self.timed(), some, expected)?);
            for &tile in &grid.tiles {
                for &micro_bits in &shapes.micro_bits {
                    for &group in &shapes.groups {
                        let settings = CohortSettings { cohort, tile, micro_bits, group };
                        let engine = CohortEngine::new(self.usual.clone(), settings)?;
                        let timed = CohortEngine::new(self.timed(), settings)?;
                        let CohortSettings { tile, micro_bits, group, .. } = engine.settings();
                        let tile = Some(tile);
                        let (micro_bits, group) = (Some(micro_bits), Some(group));
                        let setting = Setting { k, engine: GPU, cohort, tile, micro_bits, group };
                        cells.push(self.cell(setting, &engine, &timed, some, expected)?);
                    }
                }
            }
        }
        Ok(cells)
    }

    /// Returns the usual engine in the form that times kernels.
    fn timed(&self) -> Arc<GpuEngine> {
        Arc::new(one_round_at_a_time(&self.usual))
    }

    /// Measures a cell and its energy.
    fn cell(
        &self,
        setting: Setting,
        engine: &dyn Engine,
        timed: &dyn Engine,
        plans: &[Plan],
        expected: &[Answer],
    ) -> Result<Cell, Failure> {
        let cohort = setting.cohort;
        let (_, times) = self.measure(engine, timed, plans, cohort, expected)?;
        let energy = self
            .meter
            .measure(self.grid.energy, true, || self.answer(engine, plans, cohort).map(drop))?;
        let cell = Cell::new(setting, plans.len(), self.documents, times, energy);
        eprintln!("{}", json!(cell));
        Ok(cell)
    }

    /// Answers plans. Each search has `cohort` queries, unless the engine forms cohorts itself: a
    /// cohort engine gets all queries at once, so that several cohorts can be in flight.
    fn answer(
        &self,
        engine: &dyn Engine,
        plans: &[Plan],
        cohort: usize,
    ) -> Result<Vec<Answer>, Failure> {
        let at_once = if engine.name() == "cohort" { plans.len() } else { cohort };
        let mut answers = Vec::with_capacity(plans.len());
        for some in plans.chunks(at_once.max(1)) {
            answers.extend(search_all(engine, some, self.context)?);
        }
        Ok(answers)
    }

    /// Compares hits, then measures medians. `timed` is the same engine in the form that times
    /// kernels.
    fn measure(
        &self,
        engine: &dyn Engine,
        timed: &dyn Engine,
        plans: &[Plan],
        cohort: usize,
        expected: &[Answer],
    ) -> Result<(Vec<Answer>, Times), Failure> {
        let answers = self.answer(engine, plans, cohort)?;
        check_hits(expected, &answers, &format!("`{}`", engine.name()))?;
        let (mut whole, mut kernels) = (Vec::new(), Vec::new());
        for _ in 0..self.grid.rounds {
            let start = Instant::now();
            self.answer(engine, plans, cohort)?;
            whole.push(start.elapsed());
        }
        self.answer(timed, plans, cohort)?;
        for _ in 0..self.grid.rounds {
            let time = kernel_time(self.usual.device(), || self.answer(timed, plans, cohort))?;
            kernels.push(time);
        }
        let kernels = Some(median(&mut kernels));
        Ok((answers, Times { whole: median(&mut whole), kernels }))
    }

    /// Writes a cohort as matrices. Its plans get the same unit first.
    fn write_matrices(
        &self,
        folder: &Path,
        snapshot: &Arc<Snapshot>,
        plans: &[Plan],
        cohort: usize,
    ) -> Result<(), Failure> {
        let plans = matrices::in_one_unit(&plans[..cohort.min(plans.len())])?;
        let expected = search_all(&CpuEngine::new(snapshot.clone(), None), &plans, self.context)?;
        let settings = CohortSettings { cohort, ..CohortSettings::default() };
        let engine = CohortEngine::new(self.usual.clone(), settings)?;
        let timed = CohortEngine::new(self.timed(), settings)?;
        let (answers, times) = self.measure(&engine, &timed, &plans, cohort, &expected)?;
        matrices::write(folder, snapshot, &plans, &answers, times)
    }
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
    let grid = Grid {
        k: options.k.clone(),
        cohorts: options.cohort.iter().map(|&n| n.into()).collect(),
        tiles: options.tile.clone(),
        rounds: options.rounds,
        queries: options.cpu,
        energy: ENERGY,
    };
    let mut shapes = Shapes::default();
    if !options.at_once.is_empty() {
        shapes.micro_bits.clone_from(&options.at_once);
    }
    if !options.group.is_empty() {
        shapes.groups = options.group.iter().map(|&n| n.into()).collect();
    }
    let (context, meter) = (Context::new(threads), Meter::open(Some(&device)));
    let sweep = Sweep::open(
        (&snapshot, &planner),
        (&device, settings),
        (&grid, &shapes),
        (&context, &meter),
        options.json,
    )?;
    let (mut cells, mut compared) = (Vec::new(), 0);
    for &k in &grid.k {
        let plan = |(): &mut (), text: &String| {
            let query = Query::for_index(text, manifest)?;
            planner.plan(&query, Mode::Or, k)
        };
        let queries = &queries[..queries.len().min(MANY)];
        let plans = context.pool().map(queries, || (), plan);
        let plans = plans.into_iter().collect::<Result<Vec<Plan>, ExecError>>()?;
        let some = &plans[..grid.queries.min(plans.len())];
        let expected = search_all(&CpuEngine::new(snapshot.clone(), None), some, &context)?;
        compared = expected.len();
        cells.extend(on_cpu(&snapshot, &grid, k, some, &context)?);
        cells.extend(sweep.cells(&plans, k, &expected)?);
        if let Some(folder) = &options.matrices {
            let cohort = grid.cohorts.last().copied().unwrap_or(1);
            sweep.write_matrices(folder, &snapshot, &plans, cohort)?;
        }
    }
    let ratios = ratios(&cells, &grid.k);
    let (hardware, unreadable) =
        (format!("{}; {}", device.info().name, hardware()), meter.unreadable());
    let documents = snapshot.statistics().documents;
    let mut out = std::io::stdout().lock();
    if options.json {
        let report = json!({
            "hardware": hardware, "ranking": planner.ranking_name(), "documents": documents,
            "threads": threads, "rounds": options.rounds, "cells": cells, "ratios": ratios,
            "unreadable": unreadable,
        });
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{hardware}; {}; {} documents; median of {} rounds; the first {compared} queries of each cell have the CPU's hits",
        planner.ranking_name(),
        count(documents),
        options.rounds,
    )?;
    print(&cells, &mut out)?;
    unreadable.iter().try_for_each(|why| writeln!(out, "{why}"))?;
    print_ratios(&ratios, threads, &mut out)?;
    Ok(ExitCode::SUCCESS)
}

/// Measures the CPU's cohorts of the sizes that the paper has figures for, only once, because the
/// CPU is slow. `bench cohorts` measures all sizes.
fn on_cpu(
    snapshot: &Arc<Snapshot>,
    grid: &Grid,
    k: usize,
    plans: &[Plan],
    context: &Context,
) -> Result<Vec<Cell>, Failure> {
    let engine = CpuEngine::new(snapshot.clone(), Some(Algorithm::Cohort));
    let mut cells = Vec::new();
    for &cohort in grid.cohorts.iter().filter(|&&size| PAPER.iter().any(|&(n, _)| n == size)) {
        let start = Instant::now();
        for some in plans.chunks(cohort) {
            search_all(&engine, some, context)?;
        }
        let times = Times { whole: start.elapsed(), kernels: None };
        let (tile, micro_bits, group) = (None, None, None);
        let setting = Setting { k, engine: CPU, cohort, tile, micro_bits, group };
        let documents = snapshot.statistics().documents;
        cells.push(Cell::new(setting, plans.len(), documents, times, None));
        eprintln!("{}", json!(cells.last()));
    }
    Ok(cells)
}

fn ratios(cells: &[Cell], k: &[usize]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for &k in k {
        for (cohort, paper) in PAPER {
            let best = |engine: &str| {
                let own = cells.iter().filter(|Cell { setting, .. }| {
                    (setting.k, setting.cohort, setting.engine) == (k, cohort, engine)
                });
                own.map(|cell| cell.qps).fold(0.0, f64::max)
            };
            let (gpu, cpu) = (best(GPU), best(CPU));
            if cpu > 0.0 {
                ratios.push(Ratio { k, cohort, ratio: gpu / cpu, paper });
            }
        }
    }
    ratios
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
        "host W",
        "GPU W",
        "10^9 queries x documents/J",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let figure = |value: Option<f64>| or_none(value.map(|value| format!("{value:.1}")));
    for cell in cells {
        let Setting { k, engine, cohort, tile, micro_bits, group } = &cell.setting;
        rows.push(vec![
            k.to_string(),
            (*engine).to_owned(),
            cohort.to_string(),
            or_none(tile.map(|docs| count(u64::from(docs)))),
            or_none(micro_bits.map(|bits| count(1 << bits))),
            or_none(group.map(|n| n.to_string())),
            cell.queries.to_string(),
            count(cell.qps as u64),
            or_none(cell.device_qps.map(|qps| count(qps as u64))),
            format!("{:.3}", cell.work_per_s / 1e12),
            figure(cell.host_watts),
            figure(cell.device_watts),
            figure(cell.work_per_joule.map(|work| work / 1e9)),
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
