//! What a GPU does on the user's machine: a file for each thing that is measured.

mod classes;
mod codecs;
mod cohorts;
mod intersect;
mod kernels;
mod matrices;
mod pruning;
mod queries;
mod thesis;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use warpseek_exec::{Mode, Planner};
use warpseek_exec_gpu::GpuEngine;
use warpseek_exec_gpu_papers::MAX_COHORT;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::{RankingChoice, Threads, named};
use crate::progress::Display;

/// Measure a GPU on your index
///
/// Queries; or with --codecs the decoding of lists, of the index and of synthetic ones; or with --intersect the intersection of lists and the best k; or with
/// --pruning WAND and MaxScore; or with --cohorts queries in cohorts.
///
/// Queries: for every cell (tile size, documents at once, mode, k): a batch of all queries, from text to hits and on the device alone, and queries one by one. Medians of
/// the rounds after one to warm up. The CPU engine answers the same batch on all threads in the same run, and its hits are compared. For k = 10, Table 2 of document D beside it.
/// With --kernels, also where the time goes between text and hits, in rounds one after the other: each kernel, copies, fills, and the host as the rest; postings a second, and bytes that
/// are moved, which kernels count in runs of their own, beside what copies on the device move. With --classes, also queries of one, two and more terms, each class in a batch of
/// its own and one at a time.
///
/// Codecs: lists of 25.2 million documents by length, and those of the index if one is given, decoded by every codec: documents alone, with frequencies, to
/// memory, and frequencies one by one. Times are medians by the device's clock, of inputs larger than its caches; what is decoded is compared with
/// the lists before. The CPU decodes the same lists on one thread and on all.
///
/// Intersection: Parallel Merge Find on plain lists by length and levels of splitters; the best k of an array of keys, in two ways; and, if an index and queries are given, AND
/// on compressed lists: queries a second, blocks decoded, shares of phases. Hits, and the number of blocks, are compared with the CPU's.
///
/// Pruning: queries of two terms with lists of four lengths, one by one, and a batch of the first queries, in the settings of the thesis of Gaioso (2019, tables 5.3 to 5.14 and 7.1 to
/// 7.4) and in our own, beside the same algorithm on one core and the thesis' figures. Hits of exact settings are compared with the CPU's first, others have their recall. Tables
/// come as soon as they are measured, on standard error if --json has the output.
///
/// Cohorts: OR by the algorithm `cohort` for every size of cohort and of tile, beside the engine that `auto` takes, and the CPU's cohorts. Hits are compared with the CPU's. With
/// --matrices, the first cohort and its lists are written as sparse matrices, for scripts/cusparse.py.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench gpu --index idx --queries log.txt
  warpseek bench gpu --index idx --queries log.txt --modes or -k 10,1000 --tile-bits 10,11,12
  warpseek bench gpu --index idx --queries log.txt --modes or,and,and-or --kernels --classes
  warpseek bench gpu --codecs
  warpseek bench gpu --codecs --index idx --json
  warpseek bench gpu --intersect --index idx --queries log.txt
  warpseek bench gpu --pruning --index idx --queries log.txt --rounds 1
  warpseek bench gpu --cohorts --index idx --queries log.txt -k 32
  warpseek bench gpu --cohorts --index idx --queries log.txt --cohort 256 --tile 262144 --matrices m")]
pub(super) struct Options {
    /// Directory of the index
    #[arg(long, value_name = "DIR", required_unless_present_any = ["codecs", "intersect"])]
    index: Option<PathBuf>,
    /// File of queries: `id<TAB>text` or text alone a line
    #[arg(long, value_name = "FILE", required_unless_present_any = ["codecs", "intersect"])]
    queries: Option<PathBuf>,
    /// Say for queries where their time goes: kernels, copies, fills, host
    #[arg(long, conflicts_with_all = ["codecs", "intersect", "pruning", "cohorts"])]
    kernels: bool,
    /// Measure queries by their number of terms, too
    #[arg(long, conflicts_with_all = ["codecs", "intersect", "pruning", "cohorts"])]
    classes: bool,
    /// Measure decoding of lists instead of queries
    #[arg(long, conflicts_with = "queries")]
    codecs: bool,
    /// Measure intersection of lists and the best k instead of queries
    #[arg(long, conflicts_with = "codecs")]
    intersect: bool,
    /// Measure WAND and MaxScore instead, with 128 hits a query
    #[arg(long, conflicts_with_all = ["codecs", "intersect"])]
    pruning: bool,
    /// With --pruning: as many queries as in the thesis, 20 a class and 500 a batch [default: 4 and 100]
    #[arg(long, requires = "pruning")]
    full: bool,
    /// Measure queries in cohorts
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
    /// With --cohorts: queries that a warp answers together [default: what is used otherwise]
    #[arg(long, value_delimiter = ',', value_name = "N",
        value_parser = clap::value_parser!(u8).range(1..=32))]
    group: Vec<u8>,
    /// With --cohorts: write the matrices of the first cohort, of the size named last, to this folder
    #[arg(long, value_name = "DIR", requires = "cohorts")]
    matrices: Option<PathBuf>,
    /// With --codecs: postings of a class of lists that are decoded at once, at least; four million are coded, and copied on the device
    #[arg(long, default_value_t = 1 << 28, value_name = "N")]
    postings: usize,
    /// Modes
    #[arg(long, value_delimiter = ',', value_name = "MODES", default_value = "or,and",
        value_parser = named::<Mode>(Mode::NAMES))]
    modes: Vec<Mode>,
    /// Numbers of hits
    #[arg(short, value_delimiter = ',', value_name = "K", default_value = "10")]
    k: Vec<usize>,
    /// Binary logarithms of documents in a tile
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "11")]
    tile_bits: Vec<u32>,
    /// Binary logarithms of documents taken at once, of OR and AND alike [default: what is used otherwise]
    #[arg(long, value_delimiter = ',', value_name = "N")]
    at_once: Vec<u32>,
    /// Score every posting, pass over nothing
    #[arg(long)]
    exhaustive: bool,
    /// Queries that are also asked one by one
    #[arg(long, default_value_t = 1000, value_name = "N")]
    singles: usize,
    /// Queries of the batch that the CPU answers, too
    #[arg(long, default_value_t = 1000, value_name = "N")]
    cpu: usize,
    /// Rounds
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    #[command(flatten)]
    threads: Threads,
    /// Number of the GPU
    #[arg(long, default_value_t = 0, value_name = "N")]
    gpu: u32,
    #[command(flatten)]
    ranking: RankingChoice,
    /// JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.rounds == 0 {
        return Err(Failure::user("there is nothing to measure: no rounds"));
    }
    match () {
        () if options.codecs => codecs::run(options),
        () if options.intersect => intersect::run(options),
        () if options.pruning => pruning::run(options),
        () if options.cohorts => cohorts::run(options),
        () => queries::run(options),
    }
}

/// A path that clap lets nobody leave out here.
fn given<'a>(path: Option<&'a Path>, flag: &str) -> Result<&'a Path, Failure> {
    path.ok_or_else(|| Failure::user(format!("{flag} is missing")))
}

/// Copies an index to the device, and shows it.
fn load(engine: &GpuEngine, planner: &Planner, options: &Options) -> Result<(), Failure> {
    let loading = std::slice::from_ref(engine.loading());
    let display = Display::loading(loading, &Interrupt::default(), options.json);
    let loaded = engine.load(planner.formula());
    drop(display);
    Ok(loaded?)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
