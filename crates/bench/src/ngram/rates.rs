//! Rates of batches of queries on all threads.

use std::time::Instant;

use serde::Serialize;
use warpseek_console::terminal::count;
use warpseek_console::{Failure, progress};
use warpseek_exec::Context;
use warpseek_ngram::{Algorithm, Answer, NgramError, Query};

use super::{Bench, failed};

/// Number of queries in the first batch of an engine.
const LEAST_BATCH: usize = 64;
/// Seconds that a batch must take; batches grow until they do.
const LONG_BATCH: f64 = 1.0;

/// The rate of an engine over a batch.
#[derive(Serialize)]
pub(super) struct Rate {
    engine: String,
    threads: usize,
    misses: u32,
    queries: usize,
    per_second: f64,
}

/// The results of a batch.
type Answers = Vec<Result<Answer, NgramError>>;

impl Bench<'_> {
    /// Measures batches of queries on all threads.
    pub(super) fn rates(&self) -> Result<Vec<Rate>, Failure> {
        let options = self.options;
        let suite = self.suite(options.batch, options.seed + 2)?;
        let misses = options.batch_misses;
        let queries = suite
            .iter()
            .map(|phrase| self.query(&phrase.texts[0], misses))
            .collect::<Result<Vec<_>, _>>()?;
        let threads = options.threads.get();
        let all_threads = Context::new(threads);
        // The list-by-list algorithm answers queries one at a time only.
        let algorithms: Vec<Algorithm> =
            options.algorithms.iter().copied().filter(|&a| a != Algorithm::Baseline).collect();
        let engines = algorithms.len() * if self.gpu.is_some() { 2 } else { 1 };
        let bar = progress::items("rates", engines as u64, options.quiet);
        let (mut rates, mut known): (Vec<Rate>, Vec<Answer>) = (Vec::new(), Vec::new());
        let mut add = |name: &str, search: &dyn Fn(&[Query]) -> Answers| {
            let mut batch = queries.len().min(LEAST_BATCH);
            let (answers, seconds) = loop {
                let start = Instant::now();
                let answers: Result<Vec<_>, _> = search(&queries[..batch]).into_iter().collect();
                let seconds = start.elapsed().as_secs_f64();
                if batch == queries.len() || seconds > LONG_BATCH {
                    break (answers.map_err(failed)?, seconds);
                }
                if self.interrupt.is_set() {
                    return Err(Failure::interrupted("interrupted"));
                }
                batch = queries.len().min(4 * batch);
            };
            // Engines may have batches of different sizes.
            if known.iter().zip(&answers).any(|(a, b)| a != b) {
                let what = format!("{name} returns different hits than the first engine");
                return Err(Failure::broken(what));
            }
            if answers.len() > known.len() {
                known.clone_from(&answers);
            }
            let per_second = batch as f64 / seconds;
            let (engine, queries) = (name.into(), batch);
            rates.push(Rate { engine, threads, misses, queries, per_second });
            bar.inc(1);
            Ok(())
        };
        for &algorithm in &algorithms {
            let search = |queries: &[Query]| {
                self.searcher.search_many(queries, options.k, algorithm, &all_threads)
            };
            add(algorithm.name(), &search)?;
        }
        if let Some(gpu) = &self.gpu {
            for &algorithm in &algorithms {
                let search = |queries: &[Query]| {
                    gpu.search_many(queries, options.k, algorithm, &all_threads)
                };
                search(&queries[..queries.len().min(10)]);
                add(&format!("gpu {algorithm}"), &search)?;
            }
        }
        Ok(rates)
    }
}

pub(super) fn rows(all: &[Rate]) -> Vec<Vec<String>> {
    let head = ["engine", "threads", "misses", "queries", "queries/s"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(all.iter().map(|r| {
        let counts = [r.threads, r.misses as usize, r.queries].map(|n| count(n as u64));
        let rate = count(r.per_second.round() as u64);
        [r.engine.clone()].into_iter().chain(counts).chain([rate]).collect()
    }));
    rows
}
