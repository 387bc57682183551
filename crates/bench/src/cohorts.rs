//! The `bench cohorts` command: queries in cohorts on tiles of documents, on the CPU and on a GPU,
//! beside a vendor's product of sparse matrices (Agrawal 2016, figures 2, 6 and 7).

pub(crate) mod cell;
mod cpu;
pub(crate) mod matrices;
mod show;
mod spmm;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use warpseek_console::options::{RankingChoice, Threads};
use warpseek_console::{Failure, Interrupt, progress};
use warpseek_cuda::Device;
use warpseek_exec::{Context, ExecError, Mode, Plan, Planner, Query, Ranking};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_exec_gpu_papers::MAX_COHORT;
use warpseek_index::Snapshot;

use self::cell::{Best, Cell, Grid};
use self::cpu::Bench;
use self::spmm::{Peer, Spmm};
use crate::answers::{check_hits, search_all};
use crate::energy::Meter;
use crate::gpu::cohorts::{Shapes, Sweep};
use crate::report::html::Target;
use crate::times::Times;
use crate::{hardware, index_line, read_queries};

/// Measure queries in cohorts, by the sizes of cohorts and of tiles, on the CPU and on a GPU
///
/// A cohort is a number of queries that are answered together, one tile of documents after
/// another. The unit is queries times documents per second, as in Agrawal 2016 (figures 6 and 7):
/// medians of several rounds after one to warm up, with OR. The hits are compared with those of the
/// CPU's usual algorithm.
///
/// If the hardware lets the program read its energy counters, there is also the work per joule:
/// the host's processors and memory by RAPL, the GPU by NVML. These counters include what is taken
/// when idle.
///
/// --spmm multiplies the matrices of a cohort with a vendor's library in the same run (figure 2):
/// Intel MKL, or SciPy if that is missing. All values are whole numbers, so that its scores are
/// exact and must equal ours, with the same documents in the same order.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench cohorts --index idx --queries log.txt
  warpseek bench cohorts --index idx --queries log.txt --cohort 1,64 --tile 100000 --spmm
  warpseek bench cohorts --index idx --queries log.txt --cuda --html cohorts.html
  warpseek bench cohorts --index idx --queries log.txt --json > cohorts.json
  warpseek plan --measurements cohorts.json")]
pub(super) struct Options {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// File of queries, one per line: `id<TAB>text` or only the text
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Numbers of queries in a cohort
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "1,4,16,64,256,1024",
        value_parser = clap::value_parser!(u16).range(1..=MAX_COHORT as i64))]
    cohort: Vec<u16>,
    /// Numbers of documents in a tile
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "100000,250000,500000,1000000,2000000",
        value_parser = clap::value_parser!(u32).range(1..))]
    tile: Vec<u32>,
    /// Numbers of hits per query
    #[arg(short, value_delimiter = ',', value_name = "K", default_value = "32")]
    k: Vec<usize>,
    /// Number of queries that the CPU answers in each cell (at least one cohort), and whose hits
    /// are compared
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = at_least_one)]
    sample: usize,
    /// Number of rounds
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = at_least_one)]
    rounds: usize,
    /// Also measure a GPU
    #[arg(long, help_heading = "Device")]
    cuda: bool,
    /// Number of the GPU (see `warpseek devices`)
    #[arg(long, default_value_t = 0, value_name = "N", requires = "cuda", help_heading = "Device")]
    gpu: u32,
    /// Minimum seconds for which the energy of each cell is measured; 0 to leave it out
    #[arg(long, default_value_t = 1.0, value_name = "S", value_parser = energy_seconds)]
    energy_seconds: f64,
    /// Also multiply the matrices of a cohort with MKL or SciPy, and compare times and results
    #[arg(long, help_heading = "Vendor's library")]
    spmm: bool,
    /// Number of queries in that cohort (fewer if the file has fewer)
    #[arg(long, default_value_t = 256, value_name = "N", help_heading = "Vendor's library",
        value_parser = clap::value_parser!(u16).range(1..=MAX_COHORT as i64))]
    spmm_cohort: u16,
    /// Number of documents in its tiles
    #[arg(long, default_value_t = 500_000, value_name = "N", help_heading = "Vendor's library",
        value_parser = clap::value_parser!(u32).range(1..))]
    spmm_tile: u32,
    /// Library to use [default: mkl, or scipy if it is missing]
    #[arg(long, value_name = "NAME", requires = "spmm", value_parser = ["mkl", "scipy"],
        help_heading = "Vendor's library")]
    spmm_backend: Option<String>,
    /// Python that has the library
    #[arg(
        long,
        default_value = "python3",
        value_name = "PROGRAM",
        help_heading = "Vendor's library"
    )]
    python: String,
    /// Write the matrices of that cohort to this directory, for scripts/spmm.py
    #[arg(long, value_name = "DIR", help_heading = "Vendor's library")]
    matrices: Option<PathBuf>,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    ranking: RankingChoice,
    /// Also write a self-contained HTML page with tables and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Do not show a progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// Parses a number that must not be 0.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err("it must be a number of at least 1".to_owned()),
    }
}

/// Parses a time for which energy is measured.
fn energy_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("it must be a number of seconds from 0 to 3600".to_owned()),
    }
}

/// Settings of [`measure`].
pub(crate) struct Settings<'a> {
    pub(crate) index: &'a Path,
    pub(crate) queries: &'a Path,
    pub(crate) grid: Grid,
    pub(crate) threads: usize,
    /// Number of the GPU to measure too.
    pub(crate) gpu: Option<u32>,
    /// The cohort whose matrices are written or multiplied.
    pub(crate) product: Option<Product<'a>>,
    pub(crate) quiet: bool,
}

/// A cohort as matrices.
pub(crate) struct Product<'a> {
    pub(crate) cohort: usize,
    /// Folder in which the matrices are left; a temporary one if there is none.
    pub(crate) folder: Option<&'a Path>,
    pub(crate) tile: u32,
    /// The library that multiplies them.
    pub(crate) peer: Option<Peer<'a>>,
}

/// The measurements of `bench cohorts`.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) hardware: String,
    pub(crate) index: String,
    pub(crate) ranking: String,
    pub(crate) documents: u64,
    pub(crate) threads: usize,
    pub(crate) rounds: usize,
    /// Number of queries of which each cell has the hits of the CPU's usual algorithm.
    pub(crate) compared: usize,
    pub(crate) cells: Vec<Cell>,
    pub(crate) best: Vec<Best>,
    /// Reasons why energy counters cannot be read.
    pub(crate) unreadable: Vec<String>,
    pub(crate) spmm: Option<Spmm>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let target = options.html.as_deref().map(Target::new).transpose()?;
    let ranking = options.ranking.get(Snapshot::open(&options.index)?.manifest())?;
    let threads = options.threads.get();
    let peer = options.spmm.then(|| Peer {
        python: &options.python,
        backend: options.spmm_backend.as_deref(),
        tile: options.spmm_tile,
        rounds: options.rounds,
        threads,
    });
    let product = (options.spmm || options.matrices.is_some()).then(|| Product {
        cohort: options.spmm_cohort.into(),
        folder: options.matrices.as_deref(),
        tile: options.spmm_tile,
        peer,
    });
    let settings = Settings {
        index: &options.index,
        queries: &options.queries,
        grid: Grid {
            k: options.k.clone(),
            cohorts: options.cohort.iter().map(|&n| n.into()).collect(),
            tiles: options.tile.clone(),
            rounds: options.rounds,
            queries: options.sample,
            energy: Duration::from_secs_f64(options.energy_seconds),
        },
        threads,
        gpu: options.cuda.then_some(options.gpu),
        product,
        quiet: options.quiet || options.json,
    };
    let report = measure(&settings, ranking, &Interrupt::listen(None)?)?;
    if let Some(target) = target {
        target.save(&show::page(&report))?;
    }
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{:#}", serde_json::to_value(&report)?)?;
    } else {
        show::print(&report, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures the grid on the CPU and, if the settings name one, on a GPU, and then the product of
/// matrices.
pub(crate) fn measure(
    settings: &Settings<'_>,
    ranking: Ranking,
    interrupt: &Interrupt,
) -> Result<Report, Failure> {
    let texts = read_queries(settings.queries)?;
    if texts.is_empty() {
        return Err(Failure::user(format!("{} has no queries", settings.queries.display())));
    }
    let device = settings.gpu.map(|gpu| Device::open(gpu, None)).transpose()?;
    let snapshot = Arc::new(Snapshot::open(settings.index)?);
    let planner = Planner::new(snapshot.clone(), ranking)?;
    let (context, meter) = (Context::new(settings.threads), Meter::open(device.as_ref()));
    let grid = &settings.grid;
    let bench = Bench { snapshot: &snapshot, context: &context, grid, meter: &meter, interrupt };
    let cells_of_cpu = grid.k.len() * grid.cohorts.len() * grid.tiles.len();
    let bar = progress::items("measuring", cells_of_cpu as u64, settings.quiet);
    let shapes = Shapes::default();
    let open = |device| {
        let image = (device, warpseek_exec_gpu::Settings::default());
        let shared = (&context, &meter);
        Sweep::open((&snapshot, &planner), image, (grid, &shapes), shared, settings.quiet)
    };
    let on_gpu = device.as_ref().map(open).transpose()?;
    let (mut cells, mut spmm, mut compared) = (Vec::new(), None, 0);
    for &k in &grid.k {
        let plans = plan(&texts, &planner, &snapshot, k, &context)?;
        let usual = CpuEngine::new(snapshot.clone(), None);
        let expected = search_all(&usual, &plans[..grid.queries.min(plans.len())], &context)?;
        compared = expected.len();
        cells.extend(bench.sweep(&plans, k, &expected, &|_| bar.inc(1))?);
        if let Some(sweep) = &on_gpu {
            cells.extend(bar.suspend(|| sweep.cells(&plans, k, &expected))?);
        }
        if let Some(product) = settings.product.as_ref().filter(|_| Some(&k) == grid.k.first()) {
            spmm = multiply(&bench, product, &plans)?;
        }
    }
    bar.finish_and_clear();
    let gpu = device.as_ref().map_or(String::new(), |gpu| format!("{}; ", gpu.info().name));
    Ok(Report {
        hardware: format!("{gpu}{}", hardware()),
        index: index_line(settings.index, &snapshot),
        ranking: planner.ranking_name(),
        documents: snapshot.statistics().documents,
        threads: settings.threads,
        rounds: grid.rounds,
        compared,
        best: Best::of(&cells),
        cells,
        unreadable: meter.unreadable(),
        spmm,
    })
}

fn plan(
    texts: &[String],
    planner: &Planner,
    snapshot: &Snapshot,
    k: usize,
    context: &Context,
) -> Result<Vec<Plan>, Failure> {
    let plan = |(): &mut (), text: &String| {
        planner.plan(&Query::for_index(text, snapshot.manifest())?, Mode::Or, k)
    };
    let plans = context.pool().map(texts, || (), plan);
    Ok(plans.into_iter().collect::<Result<Vec<_>, ExecError>>()?)
}

/// Writes the first queries as matrices, and multiplies them if there is a library to do so.
fn multiply(
    bench: &Bench<'_>,
    product: &Product<'_>,
    plans: &[Plan],
) -> Result<Option<Spmm>, Failure> {
    let plans = matrices::in_one_unit(&plans[..product.cohort.min(plans.len())])?;
    let usual = CpuEngine::new(bench.snapshot.clone(), None);
    let expected = search_all(&usual, &plans, bench.context)?;
    let cohort = CpuEngine::new(bench.snapshot.clone(), Some(Algorithm::Cohort));
    let (answers, whole) = bench.time(&cohort.with_tile(product.tile), &plans, plans.len())?;
    check_hits(&expected, &answers, "a cohort with a coarser unit")?;
    let temporary = tempfile::tempdir()?;
    let folder = product.folder.unwrap_or(temporary.path());
    let times = Times { whole, kernels: None };
    matrices::write(folder, bench.snapshot, &plans, &answers, times)?;
    product.peer.as_ref().map(|peer| spmm::compare(folder, peer)).transpose()
}
