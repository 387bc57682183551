//! The `bench gpu` command: measurements of a GPU on the user's own machine. Each module measures
//! one subject.

mod classes;
mod codecs;
pub(crate) mod cohorts;
mod intersect;
mod kernels;
mod measurement;
mod memory;
mod primitives;
mod pruning;
mod queries;
pub mod thesis;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use warpseek_console::options::{RankingChoice, Threads, named};
use warpseek_console::progress::Display;
use warpseek_console::{Failure, Interrupt};
use warpseek_cuda::Device;
use warpseek_exec::{Mode, Planner};
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_exec_gpu_papers::MAX_COHORT;

use crate::answers::search_all;

/// Measure a GPU on your index
///
/// By default, the command answers all queries as one batch and then one at a time, for each mode,
/// k and tile size. It prints the medians of several rounds, after a round to warm up, and compares
/// the hits of the first queries with those of the CPU.
///
/// The flags under "Measurement" refine this, or measure something else instead: decoding,
/// intersection, WAND and MaxScore, cohorts, primitives, or queries with little GPU memory.
///
/// docs/measurements/gpu.md explains the tables and has results of an H200; docs/guide/gpu.md shows
/// how to use a GPU.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench gpu --index idx --queries log.txt
  warpseek bench gpu --index idx --queries log.txt --modes or -k 10,1000 --tile-bits 10,11,12
  warpseek bench gpu --index idx --queries log.txt --modes or,and,and-or --kernels --classes
  warpseek bench gpu --primitives
  warpseek bench gpu --codecs
  warpseek bench gpu --codecs --index idx --json
  warpseek bench gpu --intersect --index idx --queries log.txt
  warpseek bench gpu --pruning --index idx --queries log.txt --rounds 1
  warpseek bench gpu --cohorts --index idx --queries log.txt -k 32
  warpseek bench gpu --memory 5,10,20,50,100,120 --policies --index idx --queries log.txt --modes or
  warpseek bench gpu --cohorts --index idx --queries log.txt --cohort 256 --tile 262144 --matrices m")]
pub(super) struct Options {
    /// Directory of the index
    #[arg(long, value_name = "DIR", required_unless_present_any = ["codecs", "intersect", "primitives"])]
    index: Option<PathBuf>,
    /// File of queries, one per line: `id<TAB>text` or text alone
    #[arg(long, value_name = "FILE", required_unless_present_any = ["codecs", "intersect", "primitives"])]
    queries: Option<PathBuf>,
    /// Also break down the time of queries into kernels, copies, fills and the host
    #[arg(long, conflicts_with_all = ["codecs", "intersect", "pruning", "cohorts"],
        help_heading = "Measurement")]
    kernels: bool,
    /// Also measure queries by their number of terms
    #[arg(long, conflicts_with_all = ["codecs", "intersect", "pruning", "cohorts"],
        help_heading = "Measurement")]
    classes: bool,
    /// Measure the primitives of kernels instead: scan, compaction, sorting, counting, load
    /// balancing
    #[arg(long, conflicts_with_all = ["index", "queries", "codecs", "intersect", "pruning", "cohorts"],
        help_heading = "Measurement")]
    primitives: bool,
    /// With --primitives: number of values
    #[arg(long, default_value_t = 100_000_000, value_name = "N", value_parser = values,
        help_heading = "Details")]
    values: usize,
    /// With --primitives: Python whose CuPy is measured in the same run
    #[arg(long, default_value = "python3", value_name = "PROGRAM", help_heading = "Details")]
    python: String,
    /// Measure the decoding of lists instead
    #[arg(long, conflicts_with = "queries", help_heading = "Measurement")]
    codecs: bool,
    /// Measure the intersection of lists and the selection of the best k instead
    #[arg(long, conflicts_with = "codecs", help_heading = "Measurement")]
    intersect: bool,
    /// Measure WAND and MaxScore instead, with 128 hits per query
    #[arg(long, conflicts_with_all = ["codecs", "intersect"], help_heading = "Measurement")]
    pruning: bool,
    /// With --pruning: as many queries as in Gaioso 2019, 20 per class and 500 per batch [default:
    /// 4 and 100]
    #[arg(long, requires = "pruning", help_heading = "Details")]
    full: bool,
    /// With --pruning: also the settings of the figures of Gaioso 2019, 1 to 250 partitions per
    /// block
    #[arg(long, requires = "pruning", help_heading = "Details")]
    figures: bool,
    /// With --pruning: measure only the algorithms on one core, which needs no GPU
    #[arg(long, requires = "pruning", conflicts_with = "figures", help_heading = "Details")]
    one_core: bool,
    /// Measure queries in cohorts instead
    #[arg(long, conflicts_with_all = ["codecs", "intersect", "pruning"],
        requires_all = ["index", "queries"], help_heading = "Measurement")]
    cohorts: bool,
    /// With --cohorts: numbers of queries in a cohort
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "1,4,16,64,256,1024",
        value_parser = clap::value_parser!(u16).range(1..=MAX_COHORT as i64),
        help_heading = "Details")]
    cohort: Vec<u16>,
    /// With --cohorts: numbers of documents in a tile
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "100000,250000,500000,1000000,2000000",
        value_parser = clap::value_parser!(u32).range(1..), help_heading = "Details")]
    tile: Vec<u32>,
    /// With --cohorts: numbers of queries that a warp answers together [default: as in a search]
    #[arg(long, value_delimiter = ',', value_name = "N",
        value_parser = clap::value_parser!(u8).range(1..=32), help_heading = "Details")]
    group: Vec<u8>,
    /// With --cohorts: write the first cohort of the last size and its lists as sparse matrices to
    /// this directory (see scripts/spmm.py)
    #[arg(long, value_name = "DIR", requires = "cohorts", help_heading = "Details")]
    matrices: Option<PathBuf>,
    /// Measure queries with less GPU memory instead, in percent of the size of all lists as tiles
    #[arg(long, value_delimiter = ',', value_name = "PERCENT", conflicts_with_all = ["codecs", "intersect", "pruning", "cohorts", "kernels", "classes"],
        value_parser = percent, help_heading = "Measurement")]
    memory: Vec<f64>,
    /// With --memory: also measure a cache that keeps the most recently used lists
    #[arg(long, requires = "memory", help_heading = "Details")]
    policies: bool,
    /// With --codecs: minimum number of postings to decode at once, for each class of lists; four
    /// million are encoded and copied on the device
    #[arg(long, default_value_t = 1 << 28, value_name = "N", help_heading = "Details")]
    postings: usize,
    /// Modes to measure
    #[arg(long, value_delimiter = ',', value_name = "MODES", default_value = "or,and,and-or",
        value_parser = named::<Mode>(Mode::NAMES), help_heading = "Queries")]
    modes: Vec<Mode>,
    /// Numbers of hits per query
    #[arg(
        short,
        value_delimiter = ',',
        value_name = "K",
        default_value = "10",
        help_heading = "Queries"
    )]
    k: Vec<usize>,
    /// Binary logarithms of the number of documents in a tile
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N",
        default_value = "11",
        help_heading = "Queries"
    )]
    tile_bits: Vec<u32>,
    /// Binary logarithms of the number of documents processed at once, for OR and AND [default: as
    /// in a search]
    #[arg(long, value_delimiter = ',', value_name = "N", help_heading = "Queries")]
    at_once: Vec<u32>,
    /// Score every posting and skip nothing
    #[arg(long, help_heading = "Queries")]
    exhaustive: bool,
    /// Number of queries that are also answered one at a time
    #[arg(long, default_value_t = 1000, value_name = "N", help_heading = "Queries")]
    singles: usize,
    /// Number of queries of the batch that the CPU answers too
    #[arg(long, default_value_t = 1000, value_name = "N", help_heading = "Queries")]
    cpu: usize,
    /// Number of rounds
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    #[command(flatten)]
    threads: Threads,
    /// Number of the GPU (see `warpseek devices`)
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = "Device")]
    gpu: u32,
    #[command(flatten)]
    ranking: RankingChoice,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.rounds == 0 {
        return Err(Failure::user("--rounds must be at least 1"));
    }
    match () {
        () if options.primitives => primitives::run(options),
        () if options.codecs => codecs::run(options),
        () if options.intersect => intersect::run(options),
        () if options.pruning => pruning::run(options),
        () if options.cohorts => cohorts::run(options),
        () if !options.memory.is_empty() => memory::run(options),
        () => queries::run(options),
    }
}

/// Parses a number of values that the primitives support.
fn values(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(values @ 1..=0x4000_0000) => Ok(values),
        _ => Err("it must be a number from 1 to 2^30".to_owned()),
    }
}

/// Parses a percentage of the memory.
fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 1000.0 => Ok(percent),
        _ => Err("it must be a number above 0, up to 1000".to_owned()),
    }
}

/// Returns a path that clap requires for this measurement.
fn given<'a>(path: Option<&'a Path>, flag: &str) -> Result<&'a Path, Failure> {
    path.ok_or_else(|| Failure::user(format!("{flag} is missing")))
}

/// Copies an index to the device and shows the progress.
fn load(engine: &GpuEngine, planner: &Planner, options: &Options) -> Result<(), Failure> {
    load_with(engine, planner, options.threads.get(), options.json)
}

fn load_with(
    engine: &GpuEngine,
    planner: &Planner,
    threads: usize,
    quiet: bool,
) -> Result<(), Failure> {
    let loading = std::slice::from_ref(engine.loading());
    let display = Display::loading(loading, &Interrupt::default(), quiet);
    let loaded = engine.load(planner.formulas(), threads);
    drop(display);
    Ok(loaded?)
}

/// Returns an engine on the same image whose rounds are as large as possible and run one after
/// the other, so that the times of its steps add up. The first search allocates separate device
/// memory for the engine.
fn one_round_at_a_time(engine: &GpuEngine) -> GpuEngine {
    engine.sharing_image(Settings { round: usize::MAX, in_flight: 1, ..*engine.settings() })
}

/// Returns the total time of the kernels that run during `work`, by the device's clock. It
/// requires that kernels do not overlap, as with [`one_round_at_a_time`]. Tracing slows `work`
/// down, and ends with it.
fn kernel_time<T>(
    device: &Device,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<Duration, Failure> {
    let trace = device.trace();
    work()?;
    let steps = trace.take()?;
    // Only copies and fills have bytes.
    Ok(steps.iter().filter(|step| step.bytes == 0).map(|step| step.time).sum())
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use warpseek::{Document, Index, Ranking};
    use warpseek_exec::{Context, Plan, Query};

    /// Opens the emulated device.
    pub(super) fn device() -> Device {
        // SAFETY: the symbol is the emulator's own function.
        unsafe { Device::emulated(warpseek_cuda_emulator::symbol, 0, None) }.expect("the emulator")
    }

    /// Creates an index of 600 documents with the words apple, pie and tart.
    pub(super) fn index(dir: &Path) -> Index {
        let index = Index::create(dir).expect("a new index");
        let mut writer = index.writer().expect("the only writer");
        for i in 0..600 {
            let text = ["apple pie", "apple", "pie tart", "tart"][i % 4];
            writer.add(Document::new(i.to_string(), "", text)).expect("a document");
        }
        writer.commit().expect("space on disk");
        index
    }

    #[test]
    fn kernels_of_one_large_round_are_timed() {
        let dir = tempfile::tempdir().expect("a directory");
        let snapshot = index(&dir.path().join("idx")).snapshot().expect("an index");
        let manifest = snapshot.manifest();
        let planner = Planner::new(snapshot.clone(), Ranking::suited(manifest)).expect("it fits");
        let plan = |text: &&str| {
            let query = Query::for_index(text, manifest).expect("a query");
            planner.plan(&query, Mode::Or, 3).expect("a plan")
        };
        let plans: Vec<Plan> =
            ["apple", "pie", "apple tart", "tart pie", "apple pie tart"].iter().map(plan).collect();
        let settings = Settings { round: 2, ..Settings::default() };
        let device = device();
        let engine = GpuEngine::new(snapshot.clone(), device.clone(), settings).expect("kernels");
        let (context, timed) = (Context::new(2), one_round_at_a_time(&engine));
        let expected = search_all(&engine, &plans, &context).expect("answers");
        assert!(expected.iter().all(|answer| answer.hits.len() == 3));

        let kernels = |engine: &GpuEngine| {
            let trace = device.trace();
            assert_eq!(search_all(engine, &plans, &context).expect("answers"), expected);
            let steps = trace.take().expect("steps");
            assert!(steps.iter().any(|step| step.bytes > 0), "{steps:?}");
            steps.iter().filter(|step| step.bytes == 0).count()
        };
        // Rounds of 2, 2 and 1 queries have 2, 2 and 1 kernels; the one large round has 2.
        assert_eq!((kernels(&engine), kernels(&timed)), (5, 2));

        let time = kernel_time(&device, || search_all(&timed, &plans, &context));
        assert!(time.expect("a time") > Duration::ZERO);
        let stream = device.stream().expect("a stream");
        let copied = kernel_time(&device, || Ok(device.upload(&stream, &[1u32, 2])?));
        assert_eq!(copied.expect("a time"), Duration::ZERO, "copies are not kernels");
    }
}
