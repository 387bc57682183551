//! Measurements of queries on a GPU, in a batch and one at a time, and comparison of their hits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use warpseek_console::Failure;
use warpseek_cuda::Device;
use warpseek_exec::{Answer, Context, ExecError, Mode, Plan, Planner, Pool, Query};
use warpseek_exec_gpu::GpuEngine;
use warpseek_index::Snapshot;

use super::{Options, kernel_time, one_round_at_a_time, search_all};
use crate::statistics::{median, percentile};

/// Number of queries that a thread plans and sends to the engine together.
const CHUNK: usize = 1024;

/// The setting that a cell measures.
#[derive(Serialize, Clone, Copy)]
pub(super) struct Setting {
    pub(super) tile_bits: u32,
    /// Number of documents processed at once, if the user chose it.
    pub(super) at_once: Option<u32>,
    #[serde(serialize_with = "mode_name")]
    pub(super) mode: Mode,
    pub(super) k: usize,
}

pub(super) fn mode_name<S: serde::Serializer>(
    mode: &Mode,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(mode)
}

/// Rates of queries in one batch; medians of the rounds.
#[derive(Serialize, Clone, Copy)]
pub(super) struct BatchRates {
    /// Queries per second, from text to hits.
    pub(super) qps: f64,
    /// Queries per second by the time of kernels only.
    pub(super) device_qps: f64,
    /// Postings of all lists, read or not, per second of kernel time.
    pub(super) postings_per_s: f64,
}

/// Times of queries one at a time, from text to hits.
#[derive(Serialize, Clone, Copy)]
pub(super) struct Alone {
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) mean_us: f64,
    /// Median time of planning.
    pub(super) plan_us: f64,
    /// Median time of kernels.
    pub(super) kernels_us: f64,
}

/// The state that the measurements of all cells share.
pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) queries: &'a [&'a str],
    /// Uses all threads and has no deadline.
    pub(super) context: Context,
    pub(super) device: &'a Device,
    pub(super) snapshot: &'a Arc<Snapshot>,
    pub(super) planner: &'a Planner,
}

impl Bench<'_> {
    pub(super) fn plan(&self, text: &str, mode: Mode, k: usize) -> Result<Plan, ExecError> {
        let manifest = self.snapshot.manifest();
        self.planner.plan(&Query::for_index(text, manifest)?, mode, k)
    }

    /// Plans queries on the threads of a context.
    pub(super) fn plans(
        &self,
        queries: &[&str],
        mode: Mode,
        k: usize,
        context: &Context,
    ) -> Result<Vec<Plan>, ExecError> {
        let plan = |(): &mut (), text: &&str| self.plan(text, mode, k);
        context.pool().map(queries, || (), plan).into_iter().collect()
    }

    /// Measures queries as one batch; also returns their answers.
    pub(super) fn batch(
        &self,
        engine: &GpuEngine,
        queries: &[&str],
        Setting { mode, k, .. }: Setting,
    ) -> Result<(BatchRates, Vec<Answer>), Failure> {
        let (mut whole, mut on_device) = (Vec::new(), Vec::new());
        let mut answers = Vec::new();
        // Threads take chunks of queries from text to hits, so that planning, the device and the
        // reading of results overlap.
        let pool = Pool::shared(self.context.threads().max(2));
        let answer = |(): &mut (), chunk: &&[&str]| -> Result<Vec<Answer>, Failure> {
            let planned = chunk.iter().map(|text| self.plan(text, mode, k));
            search_all(engine, &planned.collect::<Result<Vec<_>, _>>()?, &self.context)
        };
        for round in 0..=self.options.rounds {
            let start = Instant::now();
            let chunks: Vec<&[&str]> = queries.chunks(CHUNK).collect();
            let found = pool.map(&chunks, || (), answer);
            if round > 0 {
                whole.push(start.elapsed());
            }
            let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
            answers = found.into_iter().flatten().collect();
        }
        let (planned, timed) =
            (self.plans(queries, mode, k, &self.context)?, one_round_at_a_time(engine));
        for round in 0..=self.options.rounds {
            let time = kernel_time(self.device, || search_all(&timed, &planned, &self.context))?;
            if round > 0 {
                on_device.push(time);
            }
        }
        let device_time = median(&mut on_device);
        let rates = BatchRates {
            qps: per_second(queries.len(), median(&mut whole)),
            device_qps: per_second(queries.len(), device_time),
            postings_per_s: postings_of(&planned) as f64 / device_time.as_secs_f64().max(1e-9),
        };
        Ok((rates, answers))
    }

    /// Measures the first queries one at a time. Their hits must be those of the batch.
    pub(super) fn alone(
        &self,
        engine: &GpuEngine,
        queries: &[&str],
        Setting { mode, k, .. }: Setting,
        expected: &[Answer],
    ) -> Result<Alone, Failure> {
        let (mut times, mut planning, mut kernels) = (Vec::new(), Vec::new(), Vec::new());
        let queries = &queries[..self.options.singles.min(queries.len())];
        let mut answers = Vec::new();
        for query in queries {
            let start = Instant::now();
            let planned = [self.plan(query, mode, k)?];
            planning.push(start.elapsed());
            answers.extend(search_all(engine, &planned, &self.context)?);
            times.push(start.elapsed());
        }
        check(expected, &answers, "has different hits alone than in the batch")?;
        // Kernels are timed in a second run, because timing them slows the queries down.
        let timed = one_round_at_a_time(engine);
        for query in queries {
            let planned = [self.plan(query, mode, k)?];
            let search = || search_all(&timed, &planned, &self.context);
            kernels.push(kernel_time(self.device, search)?);
        }
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let sum: Duration = times.iter().sum();
        let p50 = median(&mut times);
        Ok(Alone {
            p50_us: micros(p50),
            p99_us: micros(percentile(&times, 0.99).unwrap_or_default()),
            mean_us: micros(sum) / times.len().max(1) as f64,
            plan_us: micros(median(&mut planning)),
            kernels_us: micros(median(&mut kernels)),
        })
    }
}

/// Checks that the hits of all queries that both sides answered are equal.
pub(super) fn check(expected: &[Answer], answers: &[Answer], problem: &str) -> Result<(), Failure> {
    let differs = |(a, b): (&Answer, &Answer)| a.hits != b.hits;
    match expected.iter().zip(answers).position(differs) {
        Some(i) => Err(Failure::broken(format!("query {} {problem}", i + 1))),
        None => Ok(()),
    }
}

/// Returns the number of postings in the lists of plans.
pub(super) fn postings_of(plans: &[Plan]) -> u64 {
    plans.iter().flat_map(|plan| &plan.terms).map(|term| term.df).sum()
}

pub(super) fn per_second(n: usize, time: Duration) -> f64 {
    n as f64 / time.as_secs_f64().max(1e-9)
}
