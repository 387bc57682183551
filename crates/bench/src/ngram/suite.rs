//! A suite of queries as in (Walkowiak 2010): each query has one number of n-grams that may be
//! missing, in turn. The report has the total of each engine, and compares engines query by query.

use serde::Serialize;
use warpseek_console::terminal::count;
use warpseek_console::{Failure, progress};
use warpseek_ngram::{Algorithm, Answer};

use super::Bench;
use crate::statistics::mean;

/// The results of a suite.
#[derive(Serialize)]
pub(super) struct Suite {
    queries: usize,
    totals: Vec<Total>,
    by_misses: Vec<Comparison>,
    /// For each engine but the first, the milliseconds of the first and the speedup over it, query
    /// by query.
    points: Vec<Points>,
}

/// An engine's time for the whole suite, with speedups relative to the first engine.
#[derive(Serialize)]
struct Total {
    engine: String,
    seconds: f64,
    /// The ratio of the totals.
    speedup: f64,
    /// The mean of the ratios of the single queries.
    mean_speedup: f64,
}

/// An engine beside the algorithm with bins on the CPU, for the queries with one number of misses
/// (table 1).
#[derive(Serialize)]
struct Comparison {
    engine: String,
    misses: u32,
    queries: usize,
    bins_ms: f64,
    ms: f64,
    /// The mean of the ratios of the single queries.
    mean_speedup: f64,
    /// Share of the queries that are faster than in bins.
    success: f64,
}

#[derive(Serialize)]
struct Points {
    engine: String,
    misses: Vec<u32>,
    first_ms: Vec<f64>,
    speedups: Vec<f64>,
}

impl Bench<'_> {
    /// Measures all engines over the suite.
    pub(super) fn measure_suite(&self) -> Result<Suite, Failure> {
        let options = self.options;
        if options.misses.is_empty() {
            return Err(Failure::user("--misses must have at least one number"));
        }
        let phrases = self.suite(options.phrases, options.seed + 3)?;
        let misses: Vec<u32> =
            (0..phrases.len()).map(|i| options.misses[i % options.misses.len()]).collect();
        let queries = phrases
            .iter()
            .zip(&misses)
            .map(|(phrase, &misses)| self.query(&phrase.texts[0], misses))
            .collect::<Result<Vec<_>, _>>()?;
        let engines = self.engines();
        let bar = progress::items("suite", engines.len() as u64, options.quiet);
        let mut want: Option<Vec<Answer>> = None;
        let mut measured = Vec::new();
        for (name, search) in &engines {
            measured.push((name.clone(), self.each_ms(name, search, &queries, &mut want)?));
            bar.inc(1);
        }
        Ok(Suite::new(&measured, &misses))
    }
}

impl Suite {
    /// Compares the times in ms of the queries by engine. `misses` has the number of each query.
    fn new(measured: &[(String, Vec<f64>)], misses: &[u32]) -> Suite {
        let none: &[f64] = &[];
        let first = measured.first().map_or(none, |(_, each)| each);
        let sum = |each: &[f64]| each.iter().sum::<f64>();
        let total = |(engine, each): &(String, Vec<f64>)| Total {
            engine: engine.clone(),
            seconds: sum(each) / 1e3,
            speedup: sum(first) / sum(each),
            mean_speedup: mean(&ratios(first, each)),
        };
        let bins = measured.iter().position(|(name, _)| name == Algorithm::Bins.name());
        let mut by_misses = Vec::new();
        if let Some(bins) = bins {
            let mut known = misses.to_vec();
            known.sort_unstable();
            known.dedup();
            for (engine, each) in measured.iter().skip(bins + 1) {
                let compare = |&number: &u32| {
                    let own = |each: &[f64]| -> Vec<f64> {
                        let pairs = each.iter().zip(misses);
                        pairs.filter(|(_, misses)| **misses == number).map(|p| *p.0).collect()
                    };
                    let (bins, each) = (own(&measured[bins].1), own(each));
                    let ratios = ratios(&bins, &each);
                    let faster = ratios.iter().filter(|ratio| **ratio > 1.0).count();
                    Comparison {
                        engine: engine.clone(),
                        misses: number,
                        queries: each.len(),
                        bins_ms: mean(&bins),
                        ms: mean(&each),
                        mean_speedup: mean(&ratios),
                        success: faster as f64 / ratios.len().max(1) as f64,
                    }
                };
                by_misses.extend(known.iter().map(compare));
            }
        }
        let points = measured.iter().skip(1).map(|(engine, each)| Points {
            engine: engine.clone(),
            misses: misses.to_vec(),
            first_ms: first.to_vec(),
            speedups: ratios(first, each),
        });
        Suite {
            queries: misses.len(),
            totals: measured.iter().map(total).collect(),
            by_misses,
            points: points.collect(),
        }
    }
}

fn ratios(slow: &[f64], fast: &[f64]) -> Vec<f64> {
    slow.iter().zip(fast).map(|(slow, fast)| slow / fast.max(1e-9)).collect()
}

/// Returns the rows of two tables: totals, and the comparison with bins.
pub(super) fn rows(suite: Option<&Suite>) -> [Vec<Vec<String>>; 2] {
    let head = ["engine", "queries", "total s", "speedup of totals", "mean speedup"];
    let mut totals = vec![head.map(str::to_owned).to_vec()];
    let head = ["engine", "misses", "queries", "bins ms", "ms", "mean speedup", "faster than bins"];
    let mut compared = vec![head.map(str::to_owned).to_vec()];
    let Some(suite) = suite else { return [totals, compared] };
    totals.extend(suite.totals.iter().map(|t| {
        let queries = count(suite.queries as u64);
        let numbers = [t.speedup, t.mean_speedup].map(|ratio| format!("{ratio:.1}"));
        let [speedup, mean] = numbers;
        vec![t.engine.clone(), queries, format!("{:.3}", t.seconds), speedup, mean]
    }));
    compared.extend(suite.by_misses.iter().map(|c| {
        vec![
            c.engine.clone(),
            c.misses.to_string(),
            c.queries.to_string(),
            format!("{:.3}", c.bins_ms),
            format!("{:.3}", c.ms),
            format!("{:.2}", c.mean_speedup),
            format!("{:.1}%", 100.0 * c.success),
        ]
    }));
    [totals, compared]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_and_single_queries_are_compared() {
        let measured = [
            ("baseline".to_owned(), vec![8.0, 4.0, 6.0, 2.0]),
            ("bins".to_owned(), vec![4.0, 4.0, 2.0, 2.0]),
            ("hybrid".to_owned(), vec![2.0, 8.0, 4.0, 1.0]),
        ];
        let suite = Suite::new(&measured, &[0, 3, 0, 3]);
        let bins = &suite.totals[1];
        assert_eq!((bins.seconds, bins.mean_speedup), (0.012, (2.0 + 1.0 + 3.0 + 1.0) / 4.0));
        assert_eq!(bins.speedup, 20.0 / 12.0);
        let found: Vec<_> = suite.by_misses.iter().map(|c| (&*c.engine, c.misses)).collect();
        assert_eq!(found, [("hybrid", 0), ("hybrid", 3)]);
        // With no misses 4 ms become 2 ms, and 2 ms become 4 ms.
        let none = &suite.by_misses[0];
        assert_eq!((none.bins_ms, none.ms), (3.0, 3.0));
        assert_eq!((none.mean_speedup, none.success), (1.25, 0.5));
        assert_eq!(suite.points[1].speedups, [4.0, 0.5, 1.5, 2.0]);
        let [totals, compared] = rows(Some(&suite));
        assert_eq!((totals.len(), compared.len()), (4, 3));
        assert_eq!(compared[1][6], "50.0%");
    }
}
