//! How fast engines are, found by asking them: what documents are split by.

use std::time::{Duration, Instant};

use warpseek_exec::{Engine, ExecError, Mode, Plan, Planner, Query};
use warpseek_index::Snapshot;

/// Queries that stand for those to come, and terms of each.
const QUERIES: usize = 32;
const TERMS: usize = 3;

/// How long an engine is asked.
const LONG_ENOUGH: Duration = Duration::from_millis(200);

/// Queries made of an index's own terms, each as likely as it has postings: every so many-th posting names one.
pub fn probes(
    snapshot: &Snapshot,
    planner: &Planner,
    mode: Mode,
    k: usize,
) -> Result<Vec<Plan>, ExecError> {
    let all: u64 = snapshot.segments().iter().map(|s| s.dictionary().postings()).sum();
    let step = (all / (QUERIES * TERMS) as u64).max(1);
    let (mut seen, mut next, mut words) = (0, step / 2, Vec::new());
    for segment in snapshot.segments() {
        let mut terms = segment.dictionary().iter();
        while let Some(info) = terms.next_term()? {
            seen += u64::from(info.df);
            while seen > next {
                next += step;
                words.push(String::from_utf8_lossy(terms.term()).into_owned());
            }
        }
    }
    words.truncate(QUERIES * TERMS);
    // Neighbours in the dictionary go to different queries.
    let queries = words.len().div_ceil(TERMS);
    let query = |first: usize| {
        let words = words.iter().skip(first).step_by(queries.max(1));
        Query { terms: words.map(|word| (word.clone(), 1.0)).collect() }
    };
    (0..queries).map(|first| planner.plan(&query(first), mode, k)).collect()
}

/// How often in a second the engine answers these plans; 0 if there are none. The first time does not count.
pub fn rate(engine: &dyn Engine, plans: &[Plan]) -> Result<f64, ExecError> {
    if plans.is_empty() {
        return Ok(0.0);
    }
    engine.search(plans)?;
    let (start, mut times) = (Instant::now(), 0);
    while times == 0 || start.elapsed() < LONG_ENOUGH {
        engine.search(plans)?;
        times += 1;
    }
    Ok(f64::from(times) / start.elapsed().as_secs_f64().max(1e-9))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use warpseek_exec::{Ranking, Reference};
    use warpseek_testkit::{Doc, Fixture};

    use super::*;

    #[test]
    fn probes_have_the_terms_of_the_index() {
        let docs: Vec<Doc> =
            (0..300).map(|i| Doc::text(i, format!("all m{} n{i}", i % 7))).collect();
        for (docs, expected) in [(&docs[..], QUERIES), (&docs[..1], 1), (&[], 0)] {
            let snapshot = Fixture::of(docs).snapshot();
            let planner = Planner::new(snapshot.clone(), Ranking::default()).unwrap();
            let plans = probes(&snapshot, &planner, Mode::Or, 10).unwrap();
            assert!(plans.len().abs_diff(expected) <= 1, "{} of {expected}", plans.len());
            assert!(plans.iter().all(|plan| plan.missing.is_empty() && plan.terms.len() <= TERMS));
            let engine = Reference::new(snapshot, 1);
            assert_eq!(rate(&engine, &plans).unwrap() > 0.0, expected > 0);
        }
    }
}
