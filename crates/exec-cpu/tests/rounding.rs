//! Bounds must hold after rounding, too: with f / (f + c) in single precision, 127 occurrences
//! can score more than 128. The bound of the list is that of 128, so an engine that trusts it
//! would lose the best hit. The formula is written so that this cannot happen.
#![allow(clippy::unwrap_used)]

use warpseek_exec::{Mode, Planner, Query, Ranking, RankingFunction};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_testkit::{Doc, Fixture, answers, expected};

#[test]
fn bounds_hold_for_frequencies_around_powers_of_two() {
    let documents: Vec<Doc> = (5..14)
        .flat_map(|bits| [1usize << bits, (1 << bits) - 1])
        .enumerate()
        .map(|(id, freq)| Doc::text(id, format!("{}{}", "x ".repeat(freq), "y ".repeat(id))))
        .collect();
    for pair in documents.windows(2) {
        let fixture = Fixture::of(pair);
        let snapshot = fixture.snapshot();
        for (k1, b) in [(1e-4, 0.0), (0.1, 0.0), (0.9, 0.0), (0.9, 0.4), (3.0, 0.75)] {
            let function = RankingFunction::Bm25 { k1, b };
            let ranking = Ranking { function, static_weight: 0.0 };
            let planner = Planner::new(snapshot.clone(), ranking).unwrap();
            let query = Query::of(vec![("x".to_owned(), 1.0)]);
            let plans = [planner.plan(&query, Mode::Or, 1).unwrap()];
            let expected = expected(&snapshot, &plans);
            for algorithm in Algorithm::ALL {
                let engine = CpuEngine::new(snapshot.clone(), Some(algorithm));
                let hits = &answers(&engine, &plans, 1).unwrap()[0].hits;
                assert_eq!(*hits, expected[0].hits, "{algorithm}, k1 {k1}, b {b}");
            }
        }
    }
}
