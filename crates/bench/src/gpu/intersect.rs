//! The `--intersect` part of `bench gpu`: intersection of lists and selection of the best k (Ding
//! 2009, figure 6, section 8.1, table 3).

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use warpseek_console::Failure;
use warpseek_console::terminal::{count, table};
use warpseek_cuda::kernels::max_tree::{Best, MaxTree};
use warpseek_cuda::kernels::merge_find::{MAX_LEVELS, MergeFind};
use warpseek_cuda::{Buffer, Device, DeviceError, Stream};
use warpseek_exec::{Answer, Context, ExecError, Mode, Plan, Planner, Pool, Query, Work};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_exec_gpu_papers::{IntersectEngine, PHASES};
use warpseek_index::Snapshot;

use super::{Options, search_all};
use crate::statistics::median;
use crate::{hardware, read_queries};

/// Lengths of the two lists. The lists of the paper have 5,000 to 16 million numbers: first both
/// the same length, then 200,000 in the shorter list.
const LENGTHS: [(usize, usize); 9] = [
    (5_000, 5_000),
    (50_000, 50_000),
    (500_000, 500_000),
    (4_000_000, 4_000_000),
    (16_000_000, 16_000_000),
    (200_000, 200_000),
    (200_000, 800_000),
    (200_000, 3_200_000),
    (200_000, 12_800_000),
];

/// Lengths of arrays of keys.
const KEYS: [usize; 3] = [100_000, 1_000_000, 25_200_000];
/// Numbers of best keys to select from each array.
const BEST: [usize; 5] = [10, 100, 1_000, 4_000, 10_000];

/// Number of runs into which the second method of selecting the best k divides an array.
const RUNS: usize = 264;

/// Number of hits per query.
const K: usize = 10;

/// Shares of phases (Ding 2009, table 3): scores with selection of the best k, intersection,
/// decompression.
const TABLE_3: [f64; 3] = [0.08, 0.45, 0.47];

#[derive(Serialize)]
struct Lists {
    shorter: usize,
    longer: usize,
    both: usize,
    /// Nanoseconds per number of the shorter list, by levels of splitters.
    ns: Vec<f64>,
    /// Nanoseconds of a merge per number of the shorter list, on one thread of the CPU and on
    /// all.
    cpu_ns: f64,
    cpu_threads_ns: f64,
    /// Figures that the paper reports for its device.
    paper: &'static str,
}

#[derive(Serialize)]
struct TopK {
    keys: usize,
    k: usize,
    /// Time with the tree of maxima.
    tree_us: f64,
    /// Time with sorted buffers: the best of each run, then the best of those.
    buffers_us: f64,
    /// Time of selection and sorting on one thread.
    cpu_us: f64,
}

#[derive(Serialize)]
struct Queries {
    queries: usize,
    codec: &'static str,
    list_bytes: u64,
    blocks: u64,
    /// Number of decoded blocks, equal to the number that the CPU decodes without pruning.
    blocks_decoded: u64,
    qps: f64,
    device_qps: f64,
    p50_us: f64,
    /// Queries per second with the algorithm that the CPU engine chooses, on all threads.
    cpu_qps: f64,
    /// Names and shares of phases.
    phases: Vec<(String, f64)>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let device = Device::open(options.gpu, None).map_err(failed)?;
    let threads = options.threads.get();
    let mut lists = Vec::new();
    for (shorter, longer) in LENGTHS {
        lists.push(merge_find(&device, shorter, longer, options.rounds, threads)?);
        eprintln!("{}", json!(lists.last()));
    }
    let mut best = Vec::new();
    for keys in KEYS {
        top_k(&device, keys, options.rounds, &mut best)?;
    }
    let queries = match (&options.index, &options.queries) {
        (Some(_), Some(_)) => Some(queries(&device, options, threads)?),
        _ => None,
    };
    let hardware = format!("{}; {}", device.info().name, hardware());
    let mut out = std::io::stdout().lock();
    if options.json {
        let report = json!({
            "hardware": hardware, "threads": threads, "rounds": options.rounds,
            "merge_find": lists, "top_k": best, "queries": queries,
        });
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{hardware}; median of {} rounds; all results equal the CPU's", options.rounds)?;
    print_lists(&lists, threads, &mut out)?;
    print_best(&best, &mut out)?;
    if let Some(queries) = &queries {
        print_queries(queries, threads, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::user(error.to_string())
}

fn differs(what: &str) -> Failure {
    Failure::broken(format!("{what} differs from the CPU's"))
}

/// Returns a number that looks random but is the same in every run.
fn mixed(i: u64) -> u64 {
    let x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ x >> 29
}

/// Returns ascending numbers, up to about four times the length of the longer list.
fn draw(len: usize, longer: usize, seed: u64) -> Vec<u32> {
    let most = (8 * longer / len - 1) as u64;
    let mut number = 0;
    let next = |i: usize| {
        number += 1 + (mixed(seed << 32 | i as u64) % most) as u32;
        number
    };
    (0..len).map(next).collect()
}

fn merge(a: &[u32], b: &[u32]) -> Vec<u32> {
    let (mut j, mut both) = (0, Vec::new());
    for &number in a {
        // The next number is near if the lists have the same length, and far away in a longer
        // list.
        let mut step = 1;
        while j + step < b.len() && b[j + step] < number {
            j += step;
            step *= 2;
        }
        let end = (j + step + 1).min(b.len());
        j += b[j..end].partition_point(|&other| other < number);
        if b.get(j) == Some(&number) {
            both.push(number);
        }
    }
    both
}

/// Merges parts of `a` on several threads; returns the number of elements in both lists.
fn merge_in_parallel(a: &[u32], b: &[u32], pool: &Pool) -> usize {
    let parts: Vec<&[u32]> = a.chunks(a.len().div_ceil(pool.threads() * 4).max(1)).collect();
    let part = |(): &mut (), part: &&[u32]| {
        let edge = |number: u32| b.partition_point(|&other| other < number);
        let (from, to) = (edge(part[0]), edge(part[part.len() - 1]) + 1);
        merge(part, &b[from..to.min(b.len())]).len()
    };
    pool.map(&parts, || (), part).iter().sum()
}

/// Returns the median time of `rounds` launches by the device's clock, after one launch to warm
/// up.
fn time(
    device: &Device,
    stream: &Stream,
    rounds: usize,
    launch: &mut dyn FnMut() -> Result<(), DeviceError>,
) -> Result<Duration, DeviceError> {
    let mut times = Vec::new();
    for round in 0..=rounds {
        let (start, end) = (device.event()?, device.event()?);
        stream.record(&start)?;
        launch()?;
        stream.record(&end)?;
        end.synchronize()?;
        if round > 0 {
            times.push(end.since(&start)?);
        }
    }
    Ok(median(&mut times))
}

fn host_time(rounds: usize, mut work: impl FnMut()) -> Duration {
    let mut times = Vec::new();
    for _ in 0..rounds.min(3) {
        let start = Instant::now();
        work();
        times.push(start.elapsed());
    }
    median(&mut times)
}

fn merge_find(
    device: &Device,
    shorter: usize,
    longer: usize,
    rounds: usize,
    threads: usize,
) -> Result<Lists, Failure> {
    let (a, b) = (draw(shorter, longer, 1), draw(longer, longer, 2));
    let pool = Pool::shared(threads);
    let expected = merge(&a, &b);
    let measured = || -> Result<(Vec<f64>, bool), DeviceError> {
        let (stream, kernels) = (device.stream()?, MergeFind::new(device)?);
        let (on_a, on_b) = (device.upload(&stream, &a)?, device.upload(&stream, &b)?);
        let out = device.buffer(shorter)?;
        let scratch = device.buffer(MergeFind::scratch_len(shorter))?;
        let (mut ns, mut equal) = (Vec::new(), true);
        for levels in 0..=MAX_LEVELS {
            // All launches are one graph, because a list of 5,000 is finished before the host
            // could start the next launch.
            let mut graph = stream.capture(|stream| {
                kernels.intersect(stream, &on_a, &on_b, levels, &out, &scratch)
            })?;
            stream.zero(&out)?;
            graph.launch(&stream)?;
            let found = stream.download(&scratch.slice(scratch.len() - 1..))?[0] as usize;
            equal &= found == expected.len() && stream.download(&out.slice(..found))? == expected;
            let time = time(device, &stream, rounds, &mut || graph.launch(&stream))?;
            ns.push(time.as_secs_f64() * 1e9 / shorter as f64);
        }
        Ok((ns, equal))
    };
    let (ns, equal) = measured().map_err(failed)?;
    if !equal || merge_in_parallel(&a, &b, &pool) != expected.len() {
        return Err(differs("an intersection"));
    }
    let per = |time: Duration| time.as_secs_f64() * 1e9 / shorter as f64;
    let cpu_ns = per(host_time(rounds, || drop(std::hint::black_box(merge(&a, &b)))));
    let cpu_threads_ns = per(host_time(rounds, || {
        std::hint::black_box(merge_in_parallel(&a, &b, &pool));
    }));
    let paper = match (shorter, longer) {
        (200_000, 200_000) => "about 4 ns, 3 levels",
        (200_000, 12_800_000) => "about 15 ns, 3 levels",
        (4_000_000.., _) => "below 4 ns, 2 or 3 levels",
        _ => "-",
    };
    Ok(Lists { shorter, longer, both: expected.len(), ns, cpu_ns, cpu_threads_ns, paper })
}

/// Returns keys like those of hits, with so few different scores that the document often decides
/// the order.
fn keys(len: usize) -> Vec<u64> {
    (0..len as u64)
        .map(|doc| (mixed(doc) % 1_000_000 + 1) << 32 | u64::from(!(doc as u32)))
        .collect()
}

fn top_k(device: &Device, len: usize, rounds: usize, cells: &mut Vec<TopK>) -> Result<(), Failure> {
    let keys = keys(len);
    for k in BEST.into_iter().filter(|&k| k * 4 <= len) {
        let best = |keys: &[u64]| {
            let mut keys = keys.to_vec();
            keys.select_nth_unstable_by(k - 1, |a, b| b.cmp(a));
            keys.truncate(k);
            keys.sort_unstable_by(|a, b| b.cmp(a));
            keys
        };
        let expected = best(&keys);
        let measured = || -> Result<([Duration; 2], bool), DeviceError> {
            let (stream, tree) = (device.stream()?, MaxTree::new(device)?);
            let all = device.upload(&stream, &keys)?;
            let out = Best { keys: device.buffer(k)?, count: device.buffer(1)? };
            let scratch = device.buffer(MaxTree::scratch_len(len, k))?;
            let mut graph =
                stream.capture(|stream| tree.best(stream, &all, None, k, &out, &scratch))?;
            graph.launch(&stream)?;
            let mut equal = stream.download(&out.keys)? == expected;
            let by_tree = time(device, &stream, rounds, &mut || graph.launch(&stream))?;
            // Select the best of each run, then the best of those. A run with fewer than k keys
            // leaves zeros, which are not valid keys.
            let edge = |i: usize| (len * i / RUNS) as u32;
            let starts: Vec<u32> = (0..=RUNS).map(edge).collect();
            let (starts, ks) =
                (device.upload(&stream, &starts)?, device.upload(&stream, &[k as u32; RUNS])?);
            let (all_of, one): (Buffer<u32>, _) =
                (device.upload(&stream, &[0, (RUNS * k) as u32])?, ks.slice(..1));
            let some = Best { keys: device.buffer(RUNS * k)?, count: device.buffer(RUNS)? };
            let scratch = device.buffer(MaxTree::runs_scratch_len(RUNS, k))?;
            let mut graph = stream.capture(|stream| {
                stream.zero(&some.keys)?;
                tree.best_of_runs(stream, &all, &starts, &ks, k, &some, &scratch)?;
                tree.best_of_runs(stream, &some.keys, &all_of, &one, k, &out, &scratch)
            })?;
            stream.zero(&out.keys)?;
            graph.launch(&stream)?;
            equal &= stream.download(&out.keys)? == expected;
            let by_buffers = time(device, &stream, rounds, &mut || graph.launch(&stream))?;
            Ok(([by_tree, by_buffers], equal))
        };
        let (times, equal) = measured().map_err(failed)?;
        if !equal {
            return Err(differs(&format!("the best {k} of {len} keys")));
        }
        let [tree_us, buffers_us] = times.map(|time| time.as_secs_f64() * 1e6);
        let cpu_us = host_time(1, || drop(std::hint::black_box(best(&keys)))).as_secs_f64() * 1e6;
        cells.push(TopK { keys: len, k, tree_us, buffers_us, cpu_us });
        eprintln!("{}", json!(cells.last()));
    }
    Ok(())
}

/// Returns the work that an engine reports for a query.
fn work(answer: &Answer) -> Work {
    answer.work.unwrap_or_default()
}

fn queries(device: &Device, options: &Options, threads: usize) -> Result<Queries, Failure> {
    let (index, file) = (options.index.as_deref(), options.queries.as_deref());
    let (Some(index), Some(file)) = (index, file) else {
        return Err(Failure::user("--index and --queries must be given together"));
    };
    let texts = read_queries(file)?;
    let snapshot = Arc::new(Snapshot::open(index)?);
    let manifest = snapshot.manifest();
    let planner = Planner::new(snapshot.clone(), options.ranking.get(manifest)?)?;
    let plan =
        |(): &mut (), text: &String| planner.plan(&Query::for_index(text, manifest)?, Mode::And, K);
    let context = Context::new(threads);
    let plans = context.pool().map(&texts, || (), plan);
    let plans = plans.into_iter().collect::<Result<Vec<Plan>, ExecError>>()?;
    let Some(first) = plans.first() else {
        return Err(Failure::user("the file of --queries is empty"));
    };
    let engine = IntersectEngine::new(snapshot.clone(), device.clone(), None).map_err(failed)?;
    let start = Instant::now();
    let list_bytes = engine.load(&first.formulas, threads)?;
    let took = start.elapsed().as_secs_f64();
    eprintln!("lists in {}: {took:.1} s, {:.2} GB", engine.codec(), list_bytes as f64 / 1e9);

    // DAAT does not prune, so it shows which blocks must be decoded. The time of the CPU is that
    // of the algorithm that the CPU engine chooses.
    let some = &plans[..options.cpu.min(plans.len())];
    let daat = CpuEngine::new(snapshot.clone(), Some(Algorithm::Daat));
    let expected = search_all(&daat, some, &context)?;
    let answers = search_all(&engine, &plans, &context)?;
    for (i, (expected, answer)) in expected.iter().zip(&answers).enumerate() {
        if expected.hits != answer.hits {
            return Err(differs(&format!("query {}", i + 1)));
        }
        if work(expected).blocks_decoded != work(answer).blocks_decoded {
            return Err(differs(&format!("the number of blocks decoded for query {}", i + 1)));
        }
    }
    let cpu = CpuEngine::new(snapshot, None);
    let start = Instant::now();
    search_all(&cpu, some, &context)?;
    let cpu_time = start.elapsed();
    let mut times = Vec::new();
    for _ in 0..options.rounds {
        let start = Instant::now();
        search_all(&engine, &plans, &context)?;
        times.push(start.elapsed());
    }
    engine.time_phases(true);
    engine.take_phase_times();
    search_all(&engine, &plans, &context)?;
    let phases = engine.take_phase_times();
    engine.time_phases(false);
    let mut singles = Vec::new();
    for plan in plans.iter().take(options.singles) {
        let start = Instant::now();
        search_all(&engine, std::slice::from_ref(plan), &context)?;
        singles.push(start.elapsed());
    }
    let decoded = answers.iter().map(|answer| work(answer).blocks_decoded).sum();
    let skipped: u64 = answers.iter().map(|answer| work(answer).blocks_skipped).sum();
    let on_device: Duration = phases.iter().sum();
    let rate = |n: usize, time: Duration| n as f64 / time.as_secs_f64().max(1e-9);
    let share = |i: usize| phases[i].as_secs_f64() / on_device.as_secs_f64().max(1e-9);
    let names = PHASES.iter().enumerate();
    Ok(Queries {
        queries: plans.len(),
        codec: engine.codec().name(),
        list_bytes,
        blocks: decoded + skipped,
        blocks_decoded: decoded,
        qps: rate(plans.len(), median(&mut times)),
        device_qps: rate(plans.len(), on_device),
        p50_us: median(&mut singles).as_secs_f64() * 1e6,
        cpu_qps: rate(some.len(), cpu_time),
        phases: names.map(|(i, &name)| (name.to_owned(), share(i))).collect(),
    })
}

fn print_lists(lists: &[Lists], threads: usize, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(
        out,
        "\nParallel Merge Find, ns per number of the shorter list, by levels of splitters (Ding 2009, figure 6)"
    )?;
    let mut head = ["shorter", "longer", "both"].map(String::from).to_vec();
    head.extend((0..=MAX_LEVELS).map(|levels| levels.to_string()));
    head.extend([
        "CPU, 1 thread".to_owned(),
        format!("{threads} threads"),
        "paper's GPU".to_owned(),
    ]);
    let mut rows = vec![head];
    for cell in lists {
        let mut row: Vec<String> =
            [cell.shorter, cell.longer, cell.both].iter().map(|&n| count(n as u64)).collect();
        row.extend(cell.ns.iter().map(|ns| format!("{ns:.4}")));
        row.extend([format!("{:.2}", cell.cpu_ns), format!("{:.2}", cell.cpu_threads_ns)]);
        row.push(cell.paper.to_owned());
        rows.push(row);
    }
    table(&rows, out)
}

fn print_best(cells: &[TopK], out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "\nThe best k of an array of keys, us (Ding 2009, section 8.2)")?;
    let head = ["keys", "k", "tree of maxima", "sorted buffers", "CPU, 1 thread"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for cell in cells {
        let us = [cell.tree_us, cell.buffers_us, cell.cpu_us].map(|us| format!("{us:.1}"));
        let mut row = vec![count(cell.keys as u64), count(cell.k as u64)];
        row.extend(us);
        rows.push(row);
    }
    table(&rows, out)
}

fn print_queries(cell: &Queries, threads: usize, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(
        out,
        "\nAND on compressed lists ({}, {:.2} GB), k = {K}, {} queries: {} q/s, kernels {} q/s, one at a time {:.1} us (median); CPU on {threads} threads {} q/s",
        cell.codec,
        cell.list_bytes as f64 / 1e9,
        count(cell.queries as u64),
        count(cell.qps as u64),
        count(cell.device_qps as u64),
        cell.p50_us,
        count(cell.cpu_qps as u64)
    )?;
    writeln!(
        out,
        "{} of {} blocks decoded ({:.1}%), as many as by the CPU without pruning",
        count(cell.blocks_decoded),
        count(cell.blocks),
        100.0 * cell.blocks_decoded as f64 / cell.blocks.max(1) as f64
    )?;
    let mut rows = vec![vec!["phase".to_owned(), "share".to_owned()]];
    rows.extend(
        cell.phases
            .iter()
            .map(|(name, share)| vec![name.clone(), format!("{:.1}%", 100.0 * share)]),
    );
    table(&rows, out)?;
    let [best, intersection, decompression] = TABLE_3.map(|share| 100.0 * share);
    writeln!(
        out,
        "Table 3 of Ding 2009: best k and scores {best}%, intersection {intersection}%, decompression {decompression}%"
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::gpu::tests::{device, index};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    /// Also compares hits and blocks with the CPU's.
    #[test]
    fn queries_are_measured() {
        let dir = tempfile::tempdir().expect("a directory");
        let (idx, log) = (dir.path().join("idx"), dir.path().join("log"));
        index(&idx);
        std::fs::write(&log, "apple\npie apple\ntart pie\n").expect("space on disk");
        let (idx, log) = (idx.display().to_string(), log.display().to_string());
        let line = ["gpu", "--intersect", "--rounds", "1", "--index", &idx, "--queries", &log];
        let options = Line::parse_from(line).options;
        let cell = queries(&device(), &options, 2).expect("equal hits");
        assert_eq!(cell.queries, 3);
        assert!(cell.blocks > 0 && cell.blocks_decoded > 0 && cell.blocks_decoded <= cell.blocks);
        assert!(cell.qps > 0.0 && cell.device_qps > 0.0 && cell.p50_us > 0.0 && cell.cpu_qps > 0.0);
        let shares: f64 = cell.phases.iter().map(|(_, share)| share).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{:?}", cell.phases);
    }

    #[test]
    fn merges_agree() {
        for (shorter, longer) in [(50, 50), (30, 1000), (1, 1)] {
            let (a, b) = (draw(shorter, longer, 1), draw(longer, longer, 2));
            let both = merge(&a, &b);
            let expected: Vec<u32> = a.iter().copied().filter(|n| b.contains(n)).collect();
            assert_eq!(both, expected);
            assert_eq!(merge_in_parallel(&a, &b, &Pool::shared(3)), both.len());
        }
    }
}
