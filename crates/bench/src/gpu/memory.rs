//! The `--memory` part of `bench gpu`: throughput of queries by the memory of the GPU, which
//! shows how much the cache of lists saves (Ding 2009, section 5).

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde_json::json;
use warpseek_console::Failure;
use warpseek_console::terminal::{count, table};
use warpseek_cuda::Device;
use warpseek_exec::{
    Answer, Context, Formula, Formulas, Mode, Plan, Planner, Query, Ranking, RankingFunction,
};
use warpseek_exec_cpu::CpuEngine;
use warpseek_exec_gpu::{CacheCounts, GpuEngine, GpuLists, Policy, Settings};
use warpseek_index::Snapshot;

use super::measurement::{check, per_second};
use super::{Options, given, search_all};
use crate::statistics::median;
use crate::{hardware, read_queries};

/// Measurements of an index that is on the device as a whole.
#[derive(Serialize)]
struct Whole {
    /// Seconds from an open device until the index is ready, and bytes that were copied.
    ready_s: f64,
    copied: u64,
    /// Bytes on the device, with the compressed lists and without them.
    bytes: u64,
    tile_bytes: u64,
    /// Seconds until the index is ready for another formula.
    other_formula_s: f64,
    /// Milliseconds of each kernel and copy, run one after the other, for the first formula and
    /// for another one.
    steps: [BTreeMap<String, f64>; 2],
    qps: f64,
    postings: u64,
}

/// Measurements of queries with less memory.
#[derive(Serialize)]
struct Row {
    policy: &'static str,
    /// Bytes that the device may use, also as a percentage of the bytes that tiles take.
    budget: u64,
    percent: f64,
    ready_s: f64,
    qps: f64,
    /// Throughput relative to the CPU's.
    over_cpu: f64,
    /// Throughput relative to that of the whole index.
    of_whole: f64,
    /// Shares of the lists, and of the postings, of a warm batch that were tiles, compressed, and
    /// in main memory.
    lists: [f64; 3],
    postings: [f64; 3],
    /// Bytes copied for a warm batch, and seconds that rounds waited.
    moved: u64,
    waited_s: f64,
    slices: f64,
    held: u64,
    /// Maximum number of bytes in use.
    peak: u64,
    p50_us: f64,
    /// Milliseconds of each kernel and copy for the batch, run one after the other.
    steps: BTreeMap<String, f64>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let queries = read_queries(given(options.queries.as_deref(), "--queries")?)?;
    if queries.is_empty() {
        return Err(Failure::user("the file of --queries is empty"));
    }
    let snapshot = Arc::new(Snapshot::open(given(options.index.as_deref(), "--index")?)?);
    let ranking = options.ranking.get(snapshot.manifest())?;
    let planner = Planner::new(snapshot.clone(), ranking)?;
    let (mode, k) = (options.modes.first().copied().unwrap_or(Mode::Or), options.k[0]);
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let bench = Bench {
        options,
        snapshot,
        planner,
        queries,
        mode,
        k,
        context: Context::new(options.threads.get()),
    };
    let cpu = CpuEngine::new(bench.snapshot.clone(), None);
    let some = bench.plans(&bench.queries[..options.cpu.min(bench.queries.len())])?;
    let start = Instant::now();
    let expected = search_all(&cpu, &some, &bench.context)?;
    let cpu_qps = per_second(some.len(), start.elapsed());
    let (whole, answers, name) = bench.whole(&expected)?;
    eprintln!("{}", json!(whole));
    let mut rows = Vec::new();
    for &policy in
        if options.policies { &[Policy::Worth, Policy::Recent][..] } else { &[Policy::Worth] }
    {
        for &percent in &options.memory {
            let row = bench.row(policy, percent, &whole, cpu_qps, &answers)?;
            eprintln!("{}", json!(row));
            rows.push(row);
        }
    }
    let mut out = std::io::stdout().lock();
    let hardware = format!("{name}; {}", hardware());
    if options.json {
        let report = json!({
            "hardware": hardware, "queries": bench.queries.len(), "mode": mode.to_string(), "k": k,
            "cpu_qps": cpu_qps, "whole": whole, "rows": rows,
        });
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{hardware}; {} queries as one batch, {mode}, best {k}, median of {} rounds; CPU {} q/s; all hits equal",
        bench.queries.len(),
        options.rounds,
        count(cpu_qps as u64)
    )?;
    writeln!(
        out,
        "all lists as tiles: ready in {:.3} s ({:.2} GB copied), {:.2} GB, other k1 and b in {:.3} s, {} q/s",
        whole.ready_s,
        whole.copied as f64 / 1e9,
        whole.bytes as f64 / 1e9,
        whole.other_formula_s,
        count(whole.qps as u64)
    )?;
    print(&rows, &whole, &mut out)?;
    Ok(ExitCode::SUCCESS)
}

struct Bench<'a> {
    options: &'a Options,
    snapshot: Arc<Snapshot>,
    planner: Planner,
    queries: Vec<&'a str>,
    mode: Mode,
    k: usize,
    context: Context,
}

impl Bench<'_> {
    fn plans(&self, queries: &[&str]) -> Result<Vec<Plan>, Failure> {
        let manifest = self.snapshot.manifest();
        let plan = |(): &mut (), text: &&str| {
            let query = Query::for_index(text, manifest)?;
            self.planner.plan(&query, self.mode, self.k)
        };
        let plans = self.context.pool().map(queries, || (), plan);
        Ok(plans.into_iter().collect::<Result<_, _>>()?)
    }

    fn engine(&self, budget: Option<u64>, settings: Settings) -> Result<GpuEngine, Failure> {
        let device = Device::open(self.options.gpu, budget)?;
        Ok(GpuEngine::new(self.snapshot.clone(), device, settings)?)
    }

    /// Measures a batch from text to hits and compares its answers; returns the median seconds
    /// and the answers.
    fn batch(
        &self,
        engine: &GpuEngine,
        expected: &[Answer],
    ) -> Result<(f64, Vec<Answer>), Failure> {
        let mut times = Vec::new();
        let mut answers = Vec::new();
        for round in 0..=self.options.rounds {
            let start = Instant::now();
            let plans = self.plans(&self.queries)?;
            answers = search_all(engine, &plans, &self.context)?;
            if round > 0 {
                times.push(start.elapsed());
            }
            check(expected, &answers, "has different hits than expected")?;
        }
        Ok((median(&mut times).as_secs_f64(), answers))
    }

    fn whole(&self, expected: &[Answer]) -> Result<(Whole, Vec<Answer>, String), Failure> {
        let (mut ready, mut other) = (Vec::new(), Vec::new());
        let settings = Settings { lists: GpuLists::Tiles, ..Settings::default() };
        let (formulas, threads) = (self.planner.formulas(), self.context.threads());
        for _ in 0..self.options.rounds {
            let engine = self.engine(None, settings)?;
            let start = Instant::now();
            engine.load(formulas, threads)?;
            ready.push(start.elapsed());
            for others in self.others() {
                let start = Instant::now();
                engine.load(&others, threads)?;
                other.push(start.elapsed());
            }
        }
        let steps = self.steps(settings)?;
        let engine = self.engine(None, settings)?;
        engine.load(formulas, threads)?;
        let bytes = engine.device().memory().current;
        let (seconds, answers) = self.batch(&engine, expected)?;
        let bodies = self.snapshot.segments().iter().map(|s| s.postings_file().body_len());
        let whole = Whole {
            ready_s: median(&mut ready).as_secs_f64(),
            copied: engine.loading().bytes(),
            bytes,
            tile_bytes: bytes - engine.loading().bytes().min(bodies.sum()),
            other_formula_s: median(&mut other).as_secs_f64(),
            steps,
            qps: self.queries.len() as f64 / seconds,
            postings: self.snapshot.segments().iter().map(|s| s.dictionary().postings()).sum(),
        };
        Ok((whole, answers, engine.device().info().name.clone()))
    }

    /// Returns the time of each step by the device's clock, with one thread.
    fn steps(&self, settings: Settings) -> Result<[BTreeMap<String, f64>; 2], Failure> {
        let engine = self.engine(None, settings)?;
        let load = |formulas: &Formulas| -> Result<BTreeMap<String, f64>, Failure> {
            traced(&engine, || Ok(engine.load(formulas, 1)?))
        };
        let other = self.others().into_iter().next().unwrap_or_else(|| Formula::Linear.into());
        Ok([load(self.planner.formulas())?, load(&other)?])
    }

    /// Returns formulas with other parameters.
    fn others(&self) -> Vec<Formulas> {
        let other = |(k1, b)| {
            let function = RankingFunction::Bm25 { k1, b };
            let ranking = Ranking { function, ..Ranking::default() };
            Planner::new(self.snapshot.clone(), ranking)
                .ok()
                .map(|planner| planner.formulas().clone())
        };
        [(1.2, 0.75), (2.0, 0.3)].into_iter().filter_map(other).collect()
    }

    fn row(
        &self,
        policy: Policy,
        percent: f64,
        whole: &Whole,
        cpu_qps: f64,
        expected: &[Answer],
    ) -> Result<Row, Failure> {
        let budget = (whole.tile_bytes as f64 * percent / 100.0) as u64;
        let engine = self.engine(Some(budget), Settings { policy, ..Settings::default() })?;
        let start = Instant::now();
        engine.load(self.planner.formulas(), self.context.threads())?;
        let ready_s = start.elapsed().as_secs_f64();
        self.batch(&engine, expected)?;
        let before = engine.cache_counts().unwrap_or_default();
        let (seconds, _) = self.batch(&engine, expected)?;
        let after = engine.cache_counts().unwrap_or_default();
        let batches = (self.options.rounds + 1) as f64;
        let cached = engine.cache_counts().is_some();
        let mut times = Vec::new();
        for (i, plan) in self.plans(&self.queries)?.chunks(1).take(self.options.singles).enumerate()
        {
            let start = Instant::now();
            let answers = search_all(&engine, plan, &self.context)?;
            times.push(start.elapsed());
            check(&expected[i..], &answers, "has different hits alone than in the batch")?;
        }
        let plans = self.plans(&self.queries)?;
        let steps = traced(&engine, || search_all(&engine, &plans, &self.context).map(|_| ()))?;
        let qps = self.queries.len() as f64 / seconds;
        let memory = engine.device().memory();
        Ok(Row {
            policy: if policy == Policy::Worth { "worth" } else { "recent" },
            budget,
            percent,
            ready_s,
            qps,
            over_cpu: qps / cpu_qps,
            of_whole: qps / whole.qps,
            lists: if cached { parts(before.lists, after.lists) } else { [1.0, 0.0, 0.0] },
            postings: if cached { parts(before.postings, after.postings) } else { [1.0, 0.0, 0.0] },
            moved: ((after.bytes_moved - before.bytes_moved) as f64 / batches) as u64,
            waited_s: (after.waited - before.waited).as_secs_f64() / batches,
            slices: slices(&before, &after),
            held: after.held,
            peak: memory.peak,
            p50_us: median(&mut times).as_secs_f64() * 1e6,
            steps,
        })
    }
}

/// Returns the milliseconds of each kernel and copy of some work, by the device's clock.
fn traced(
    engine: &GpuEngine,
    work: impl FnOnce() -> Result<(), Failure>,
) -> Result<BTreeMap<String, f64>, Failure> {
    let trace = engine.device().trace();
    work()?;
    let mut steps = BTreeMap::new();
    for step in trace.take()? {
        *steps.entry(step.name.to_string()).or_default() += step.time.as_secs_f64() * 1e3;
    }
    Ok(steps)
}

fn slices(before: &CacheCounts, after: &CacheCounts) -> f64 {
    (after.slices - before.slices) as f64 / (after.rounds - before.rounds).max(1) as f64
}

/// Returns the share of each increase in their sum.
fn parts(before: [u64; 3], after: [u64; 3]) -> [f64; 3] {
    let by: [u64; 3] = std::array::from_fn(|i| after[i] - before[i]);
    let all: u64 = by.iter().sum();
    by.map(|one| if all == 0 { 0.0 } else { one as f64 / all as f64 })
}

fn print(rows: &[Row], whole: &Whole, out: &mut impl Write) -> std::io::Result<()> {
    let head = [
        "policy",
        "memory %",
        "GB",
        "bytes/posting",
        "ready s",
        "q/s",
        "of whole",
        "over CPU",
        "hits lists %",
        "hits postings %",
        "as tiles %",
        "GB moved",
        "waited s",
        "slices",
        "one query us",
    ];
    let mut table_rows = vec![head.map(String::from).to_vec()];
    for row in rows {
        table_rows.push(vec![
            row.policy.to_owned(),
            format!("{:.0}", row.percent),
            format!("{:.3}", row.peak as f64 / 1e9),
            format!("{:.2}", row.peak as f64 / whole.postings.max(1) as f64),
            format!("{:.3}", row.ready_s),
            count(row.qps as u64),
            format!("{:.2}", row.of_whole),
            format!("{:.1}", row.over_cpu),
            format!("{:.1}", 100.0 * (row.lists[0] + row.lists[1])),
            format!("{:.1}", 100.0 * (row.postings[0] + row.postings[1])),
            format!("{:.1}", 100.0 * row.postings[0]),
            format!("{:.3}", row.moved as f64 / 1e9),
            format!("{:.4}", row.waited_s),
            format!("{:.1}", row.slices),
            format!("{:.0}", row.p50_us),
        ]);
    }
    table(&table_rows, out)
}
