//! Times of single queries by the number of n-grams that may be missing, on one thread.

use std::time::Instant;

use serde::Serialize;
use warpseek_console::{Failure, progress};
use warpseek_ngram::{Answer, Division, NgramError, Query};

use super::{Bench, failed};
use crate::statistics::{mean, percentile};

/// Ways to divide a query between CPU and GPU, with their names in reports.
const DIVISIONS: [(Division, &str); 2] =
    [(Division::CpuGathers, "cpu, then gpu"), (Division::GpuGathers, "gpu, then cpu")];

/// Times of an engine at a number of misses.
#[derive(Serialize)]
pub(super) struct Times {
    pub(super) engine: String,
    pub(super) misses: u32,
    pub(super) mean_ms: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// Speed relative to the first engine.
    pub(super) speedup: f64,
    #[serde(skip)]
    pub(super) each_ms: Vec<f64>,
}

/// A function that answers a query.
type Search<'a> = Box<dyn Fn(&Query) -> Result<Answer, NgramError> + 'a>;

impl Bench<'_> {
    /// Returns all engines with their names: the algorithms on the CPU and on the GPU, and the
    /// hybrids.
    pub(super) fn engines(&self) -> Vec<(String, Search<'_>)> {
        let (options, single) = (self.options, &self.single);
        let mut all: Vec<(String, Search<'_>)> = Vec::new();
        for &algorithm in &options.algorithms {
            let search =
                move |query: &Query| self.searcher.search(query, options.k, algorithm, single);
            all.push((algorithm.name().to_owned(), Box::new(search)));
        }
        let Some(gpu) = &self.gpu else { return all };
        for &algorithm in &options.algorithms {
            let search = move |query: &Query| {
                let query = std::slice::from_ref(query);
                gpu.search_many(query, options.k, algorithm, single).remove(0)
            };
            all.push((format!("gpu {algorithm}"), Box::new(search)));
        }
        for (division, name) in DIVISIONS {
            let search =
                move |query: &Query| gpu.search_divided(query, options.k, division, single);
            all.push((name.to_owned(), Box::new(search)));
        }
        all
    }

    /// Answers the queries one after the other. Returns the milliseconds of each. The answers must
    /// equal those of the first engine, which `want` keeps.
    pub(super) fn each_ms(
        &self,
        name: &str,
        search: &Search<'_>,
        queries: &[Query],
        want: &mut Option<Vec<Answer>>,
    ) -> Result<Vec<f64>, Failure> {
        let (mut each, mut answers) = (Vec::new(), Vec::new());
        // The first queries load lists into memory.
        for query in queries.iter().take(queries.len().div_ceil(10)) {
            search(query).map_err(failed)?;
        }
        for query in queries {
            if self.interrupt.is_set() {
                return Err(Failure::interrupted("interrupted"));
            }
            let start = Instant::now();
            let answer = search(query).map_err(failed)?;
            each.push(start.elapsed().as_secs_f64() * 1e3);
            answers.push(answer);
        }
        if want.get_or_insert_with(|| answers.clone()) != &answers {
            return Err(Failure::broken(format!(
                "{name} returns different hits than the first engine"
            )));
        }
        Ok(each)
    }

    /// Measures one query at a time on one thread.
    pub(super) fn times(&self) -> Result<Vec<Times>, Failure> {
        let options = self.options;
        let phrases = self.suite(options.phrases, options.seed)?;
        let engines = self.engines();
        let steps = engines.len() * options.misses.len();
        let bar = progress::items("times", steps as u64, options.quiet);
        let mut all = Vec::new();
        for &misses in &options.misses {
            let queries = phrases
                .iter()
                .map(|phrase| self.query(&phrase.texts[0], misses))
                .collect::<Result<Vec<_>, _>>()?;
            let (mut first, mut want): (Option<f64>, Option<Vec<Answer>>) = (None, None);
            for (name, search) in &engines {
                let each = self.each_ms(name, search, &queries, &mut want)?;
                let mean = mean(&each);
                let speedup = *first.get_or_insert(mean) / mean;
                let mut sorted = each.clone();
                sorted.sort_by(f64::total_cmp);
                all.push(Times {
                    engine: name.clone(),
                    misses,
                    mean_ms: mean,
                    p50_ms: percentile(&sorted, 0.5).unwrap_or_default(),
                    p99_ms: percentile(&sorted, 0.99).unwrap_or_default(),
                    speedup,
                    each_ms: each,
                });
                bar.inc(1);
            }
        }
        Ok(all)
    }
}

pub(super) fn rows(all: &[Times]) -> Vec<Vec<String>> {
    let head = ["engine", "misses", "mean ms", "p50 ms", "p99 ms", "speedup"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(all.iter().map(|t| {
        let numbers = [t.mean_ms, t.p50_ms, t.p99_ms].map(|ms| format!("{ms:.3}"));
        let [mean, p50, p99] = numbers;
        vec![t.engine.clone(), t.misses.to_string(), mean, p50, p99, format!("{:.1}", t.speedup)]
    }));
    rows
}
