//! Queries shared out: every engine has all documents, and answers a part of a batch.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warpseek_exec::{Answer, Choice, Engine, ExecError, Formula, Plan, in_parallel};

/// Queries that an engine takes at a time, at least; fewer than that are one engine's.
const LEAST: usize = 64;

/// Engines that each answer for all documents. They take queries of a batch in turn: as many as their share of what is left is, going by how fast they were so far, so that
/// all are done at about the same time.
pub struct ByQueries {
    engines: Vec<Box<dyn Engine>>,
    /// Queries a second; 0 before an engine has answered any.
    rates: Mutex<Vec<f64>>,
}

impl ByQueries {
    /// All are for the same snapshot. The first one answers single queries until it is known who is fastest.
    pub fn new(engines: Vec<Box<dyn Engine>>) -> Self {
        let rates = Mutex::new(vec![0.0; engines.len()]);
        ByQueries { engines, rates }
    }

    fn rates(&self) -> MutexGuard<'_, Vec<f64>> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where few queries are answered.
    fn fastest(&self) -> usize {
        let rates = self.rates();
        // The first of equals.
        (0..rates.len()).rev().max_by(|&a, &b| rates[a].total_cmp(&rates[b])).unwrap_or(0)
    }

    /// The next queries of an engine.
    fn take(&self, left: &Mutex<Range<usize>>, engine: usize) -> Option<Range<usize>> {
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        let n = share(&self.rates(), engine, left.len());
        let taken = left.start..left.start + n;
        left.start = taken.end;
        (n > 0).then_some(taken)
    }

    /// An engine answered so many queries in that time.
    fn learn(&self, engine: usize, queries: usize, took: Duration) {
        let rate = queries as f64 / took.as_secs_f64().max(1e-9);
        let of = &mut self.rates()[engine];
        // What is newer counts more: batches differ, and the first ones are slow.
        *of = if *of > 0.0 { (*of + rate) / 2.0 } else { rate };
    }
}

/// How many of the queries that are left an engine takes.
fn share(rates: &[f64], engine: usize, left: usize) -> usize {
    let known = rates.iter().all(|&rate| rate > 0.0);
    let part = if known { rates[engine] / rates.iter().sum::<f64>() } else { 0.0 };
    ((left as f64 * part) as usize).max(LEAST).min(left)
}

impl Engine for ByQueries {
    fn name(&self) -> &'static str {
        "by queries"
    }

    fn set_threads(&mut self, threads: usize) {
        self.engines.iter_mut().for_each(|engine| engine.set_threads(threads));
    }

    fn prepare(&self, formula: Formula) -> Result<(), ExecError> {
        let engines = &self.engines;
        in_parallel(engines, engines.len(), || (), |(), e| e.prepare(formula)).map(|_| ())
    }

    fn explain(&self, plans: &[Plan]) -> Vec<Choice> {
        if plans.len() <= LEAST {
            let fastest = self.engines.get(self.fastest());
            return fastest.map_or(Vec::new(), |engine| engine.explain(plans));
        }
        let engines: Vec<_> = self.engines.iter().map(|engine| engine.explain(plans)).collect();
        let join = |i: usize, of: fn(&Choice) -> &str| {
            let words: Vec<&str> = engines.iter().map(|engine| of(&engine[i])).collect();
            words.join(" or ")
        };
        let choice = |i| Choice {
            place: join(i, |c| &c.place),
            algorithm: join(i, |c| &c.algorithm),
            why: format!("each has its queries: {}", join(i, |c| &c.why)),
        };
        (0..plans.len()).map(choice).collect()
    }

    fn search(&self, plans: &[Plan]) -> Result<Vec<Answer>, ExecError> {
        if plans.len() <= LEAST {
            return self.engines.get(self.fastest()).map_or(Ok(Vec::new()), |e| e.search(plans));
        }
        let left = Mutex::new(0..plans.len());
        let numbers: Vec<usize> = (0..self.engines.len()).collect();
        let work = |(): &mut (), &engine: &usize| {
            let mut done = Vec::new();
            while let Some(taken) = self.take(&left, engine) {
                let start = Instant::now();
                let answers = self.engines[engine].search(&plans[taken.clone()]);
                let answers = answers.inspect_err(|_| {
                    // One failure ends all.
                    left.lock().unwrap_or_else(PoisonError::into_inner).start = plans.len();
                })?;
                self.learn(engine, taken.len(), start.elapsed());
                done.push((taken.start, answers));
            }
            Ok::<_, ExecError>(done)
        };
        let done = in_parallel(&numbers, numbers.len(), || (), work)?;
        let mut parts: Vec<_> = done.into_iter().flatten().collect();
        parts.sort_unstable_by_key(|&(start, _)| start);
        Ok(parts.into_iter().flat_map(|(_, answers)| answers).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_rates() {
        // As long as one is not known, nobody takes much.
        assert_eq!(share(&[0.0, 100.0], 1, 5000), LEAST);
        assert_eq!(share(&[100.0, 300.0], 0, 4000), 1000);
        assert_eq!(share(&[100.0, 300.0], 1, 4000), 3000);
        assert_eq!(share(&[1.0, 1e6], 0, 4000), LEAST);
        assert_eq!(share(&[1.0, 1e6], 0, 3), 3);
        assert_eq!(share(&[1.0, 1e6], 1, 0), 0);
    }

    struct Idle;

    impl Engine for Idle {
        fn name(&self) -> &'static str {
            "idle"
        }
        fn set_threads(&mut self, _: usize) {}
        fn search(&self, plans: &[Plan]) -> Result<Vec<Answer>, ExecError> {
            Ok(vec![Answer::default(); plans.len()])
        }
    }

    #[test]
    fn few_queries_go_to_the_fastest() {
        let idle = || Box::new(Idle) as Box<dyn Engine>;
        let engine = ByQueries::new(vec![idle(), idle()]);
        assert_eq!(engine.fastest(), 0);
        engine.learn(0, 100, Duration::from_secs(10));
        assert_eq!(engine.fastest(), 0);
        engine.learn(1, 100, Duration::from_secs(1));
        assert_eq!(engine.fastest(), 1);
        assert_eq!(*engine.rates(), [10.0, 100.0]);
        engine.learn(0, 100, Duration::from_millis(100));
        assert_eq!(*engine.rates(), [505.0, 100.0]);
    }
}
