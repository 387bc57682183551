//! Measurements of a GPU on the user's own machine, with a file for each thing that is measured.

mod classes;
mod codecs;
mod cohorts;
mod intersect;
mod kernels;
mod matrices;
mod memory;
mod primitives;
mod pruning;
mod queries;
mod thesis;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use warpseek_console::options::{RankingChoice, Threads, named};
use warpseek_console::progress::Display;
use warpseek_console::{Failure, Interrupt};
use warpseek_cuda::Device;
use warpseek_exec::{Answer, Context, Engine, Mode, Plan, Planner};
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_exec_gpu_papers::MAX_COHORT;

/// Measure a GPU on your index
///
/// Without further options, queries are measured. With --codecs it is the decoding of lists, of the index and of synthetic ones; with --intersect the intersection of lists and the
/// selection of the best k; with --pruning WAND and MaxScore; with --cohorts queries in cohorts.
///
/// Queries: a cell is a tile size, a number of documents at once, a mode and a k. In every cell, all queries are answered as one batch, measured from text to hits and on the device
/// alone, and then one at a time. Figures are medians of the rounds, after one round to warm up. In the same run, the CPU engine answers the first queries of the batch on all threads, and
/// the hits of both are compared. For k = 10, table 2 of Ding 2009 is shown next to the results. With --kernels, the report also says where the time between text and hits goes, if rounds
/// run one after the other: to each kernel, to copies, to fills, and the rest to the host. It has postings per second, and the bytes that are moved, which kernels count in separate runs,
/// compared with what copies on the device move. With --classes, queries of one, two and more terms are also measured separately, each class as one batch and one query at a time.
///
/// Codecs: every codec decodes lists of 25.2 million documents, by length, and those of the index if one is given: documents alone, documents with frequencies, both to memory, and
/// single frequencies. Times are medians by the device's clock, for inputs larger than its caches. Before that, what is decoded is compared with the lists. The CPU decodes the same lists
/// on one thread and on all.
///
/// Intersection: Parallel Merge Find on plain lists, by length and levels of splitters; the best k of an array of keys, in two ways; and, if an index and queries are given, AND
/// on compressed lists: queries per second, blocks decoded, and the share of each phase. Hits and the number of blocks are compared with the CPU's.
///
/// Pruning: queries of two terms with lists of four lengths, one at a time, and the first queries as a batch, in the settings of (Gaioso 2019, tables 5.3 to 5.14 and 7.1 to 7.4) and in
/// our own, next to the same algorithm on one core and the figures of the thesis. The hits of exact settings are first compared with the CPU's; for the others the report has their
/// recall. Each table is printed as soon as it is measured, to standard error if --json is given.
///
/// Cohorts: OR by the algorithm `cohort` for every size of cohort and of tile, next to the engine that `auto` chooses and to cohorts on the CPU. Hits are compared with the CPU's. With
/// --matrices, the first cohort and its lists are written as sparse matrices, for scripts/cusparse.py.
///
/// Primitives: medians of scan, compact, radix sort, merge sort, counting by key and load-balancing search, beside CuPy's counterparts if Python has CuPy.
///
/// Memory: queries as one batch, with less and less memory on the device. How soon the index is ready, throughput, where lists were found, and what was copied. The hits of every row
/// are compared with those of all lists as tiles, and the first with the CPU's.
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
    /// File of queries, one per line: `id<TAB>text` or only the text
    #[arg(long, value_name = "FILE", required_unless_present_any = ["codecs", "intersect", "primitives"])]
    queries: Option<PathBuf>,
    /// Also report where the time of queries goes: kernels, copies, fills, host
    #[arg(long, conflicts_with_all = ["codecs", "intersect", "pruning", "cohorts"])]
    kernels: bool,
    /// Also measure queries by their number of terms
    #[arg(long, conflicts_with_all = ["codecs", "intersect", "pruning", "cohorts"])]
    classes: bool,
    /// Measure the primitives that other kernels are made of instead: scan, compact, sorts, counting, load balancing
    #[arg(long, conflicts_with_all = ["index", "queries", "codecs", "intersect", "pruning", "cohorts"])]
    primitives: bool,
    /// With --primitives: number of values
    #[arg(long, default_value_t = 100_000_000, value_name = "N", value_parser = values)]
    values: usize,
    /// With --primitives: the Python whose CuPy is measured in the same run
    #[arg(long, default_value = "python3", value_name = "PROGRAM")]
    python: String,
    /// Measure the decoding of lists instead of queries
    #[arg(long, conflicts_with = "queries")]
    codecs: bool,
    /// Measure the intersection of lists and the selection of the best k instead of queries
    #[arg(long, conflicts_with = "codecs")]
    intersect: bool,
    /// Measure WAND and MaxScore instead, with 128 hits per query
    #[arg(long, conflicts_with_all = ["codecs", "intersect"])]
    pruning: bool,
    /// With --pruning: as many queries as in Gaioso 2019, 20 per class and 500 per batch [default: 4 and 100]
    #[arg(long, requires = "pruning")]
    full: bool,
    /// Measure queries in cohorts instead
    #[arg(long, conflicts_with_all = ["codecs", "intersect", "pruning"], requires_all = ["index", "queries"])]
    cohorts: bool,
    /// With --cohorts: sizes of cohorts
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "1,4,16,64,256,1024",
        value_parser = clap::value_parser!(u16).range(1..=MAX_COHORT as i64))]
    cohort: Vec<u16>,
    /// With --cohorts: documents in a tile
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "100000,250000,500000,1000000,2000000",
        value_parser = clap::value_parser!(u32).range(1..))]
    tile: Vec<u32>,
    /// With --cohorts: queries that a warp answers together [default: as in a search]
    #[arg(long, value_delimiter = ',', value_name = "N",
        value_parser = clap::value_parser!(u8).range(1..=32))]
    group: Vec<u8>,
    /// With --cohorts: write the matrices of the first cohort of the last size to this directory
    #[arg(long, value_name = "DIR", requires = "cohorts")]
    matrices: Option<PathBuf>,
    /// Measure queries with less memory instead: percent of what all lists take as tiles
    #[arg(long, value_delimiter = ',', value_name = "PERCENT", conflicts_with_all = ["codecs", "intersect", "pruning", "cohorts", "kernels", "classes"],
        value_parser = percent)]
    memory: Vec<f64>,
    /// With --memory: also measure a cache that keeps the lists used last
    #[arg(long, requires = "memory")]
    policies: bool,
    /// With --codecs: decode at least this many postings of each class of lists at once; four million are encoded and then copied on the device
    #[arg(long, default_value_t = 1 << 28, value_name = "N")]
    postings: usize,
    /// Modes to measure
    #[arg(long, value_delimiter = ',', value_name = "MODES", default_value = "or,and",
        value_parser = named::<Mode>(Mode::NAMES))]
    modes: Vec<Mode>,
    /// Numbers of hits to measure with
    #[arg(short, value_delimiter = ',', value_name = "K", default_value = "10")]
    k: Vec<usize>,
    /// Binary logarithms of the number of documents in a tile
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "11")]
    tile_bits: Vec<u32>,
    /// Binary logarithms of the number of documents taken at once, for both OR and AND [default: as in a search]
    #[arg(long, value_delimiter = ',', value_name = "N")]
    at_once: Vec<u32>,
    /// Score every posting and skip nothing
    #[arg(long)]
    exhaustive: bool,
    /// Queries that are also answered one at a time
    #[arg(long, default_value_t = 1000, value_name = "N")]
    singles: usize,
    /// Queries of the batch that the CPU answers too
    #[arg(long, default_value_t = 1000, value_name = "N")]
    cpu: usize,
    /// Number of rounds
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    #[command(flatten)]
    threads: Threads,
    /// Number of the GPU (see `warpseek devices`)
    #[arg(long, default_value_t = 0, value_name = "N")]
    gpu: u32,
    #[command(flatten)]
    ranking: RankingChoice,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.rounds == 0 {
        return Err(Failure::user("there is nothing to measure: no rounds"));
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

/// A number of values that primitives take.
fn values(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(values @ 1..=0x4000_0000) => Ok(values),
        _ => Err("it must be a number from 1 to 2^30".to_owned()),
    }
}

/// A part of the memory.
fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 1000.0 => Ok(percent),
        _ => Err("it must be a number above 0, up to 1000".to_owned()),
    }
}

/// A path that clap requires here.
fn given<'a>(path: Option<&'a Path>, flag: &str) -> Result<&'a Path, Failure> {
    path.ok_or_else(|| Failure::user(format!("{flag} is missing")))
}

/// Copies an index to the device and shows the progress.
fn load(engine: &GpuEngine, planner: &Planner, options: &Options) -> Result<(), Failure> {
    let loading = std::slice::from_ref(engine.loading());
    let display = Display::loading(loading, &Interrupt::default(), options.json);
    let loaded = engine.load(planner.formulas(), options.threads.get());
    drop(display);
    Ok(loaded?)
}

/// The answers to all plans, or the first error. No measurement goes on after an error.
fn search_all(
    engine: &dyn Engine,
    plans: &[Plan],
    context: &Context,
) -> Result<Vec<Answer>, Failure> {
    let plans: Vec<&Plan> = plans.iter().collect();
    Ok(engine.search(&plans, context).into_iter().collect::<Result<_, _>>()?)
}

/// An engine on the same image whose rounds are as large as possible and run one after the other, so that the times of its steps add up. It has device memory of its own
/// from its first search on.
fn one_round_at_a_time(engine: &GpuEngine) -> GpuEngine {
    engine.sharing_image(Settings { round: usize::MAX, in_flight: 1, ..*engine.settings() })
}

/// How long kernels ran during `work`, by the device's clock; only if none of them overlap, as with [`one_round_at_a_time`]. The trace slows `work` down and ends with it.
fn kernel_time<T>(
    device: &Device,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<Duration, Failure> {
    let trace = device.trace();
    work()?;
    let steps = trace.take()?;
    // Copies and fills have bytes.
    Ok(steps.iter().filter(|step| step.bytes == 0).map(|step| step.time).sum())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use warpseek::{Document, Index, Ranking};
    use warpseek_exec::Query;

    /// The emulator.
    pub(super) fn device() -> Device {
        // SAFETY: the symbol is the emulator's own function.
        unsafe { Device::emulated(warpseek_cuda_emulator::symbol, 0, None) }.expect("the emulator")
    }

    /// An index of 600 documents with the words apple, pie and tart.
    pub(super) fn index(dir: &Path) -> Index {
        let index = Index::create(dir).expect("a new index");
        let mut writer = index.writer().expect("nobody else writes");
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
