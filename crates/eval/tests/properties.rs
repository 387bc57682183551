//! Properties of every run: it survives writing and reading, its figures are within bounds, and no
//! input makes the readers panic.

use std::collections::BTreeMap;

use proptest::prelude::*;
use warpseek_eval::{Measure, Options, Qrels, Run, RunWriter, evaluate};

fn measures() -> Vec<Measure> {
    Measure::KNOWN
        .iter()
        .map(|name| name.replace("@k", "@3").parse().expect("a known name"))
        .collect()
}

type Table<T> = BTreeMap<(u8, u8), T>;

fn qrels(judgements: &Table<i32>) -> Qrels {
    let mut qrels = Qrels::default();
    for (&(query, document), &grade) in judgements {
        assert_eq!(qrels.insert(&format!("q{query}"), &format!("d{document}"), grade), None);
    }
    qrels
}

fn run(hits: &Table<f64>) -> Run {
    let mut run = Run::default();
    for (&(query, document), &score) in hits {
        assert!(run.insert(&format!("q{query}"), &format!("d{document}"), score));
    }
    run
}

fn table<T: Strategy>(values: T) -> impl Strategy<Value = Table<T::Value>> {
    proptest::collection::btree_map((0u8..4, 0u8..20), values, 0..60)
}

proptest! {
    #[test]
    fn a_run_round_trips_through_a_file(hits in table(-1e3f64..1e3)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let mut writer = RunWriter::create(&path).unwrap();
        for (rank, (&(query, document), &score)) in hits.iter().rev().enumerate() {
            let (qid, docid) = (format!("q{query}"), format!("d{document}"));
            writer.write(&qid, &docid, rank + 1, score, "tag").unwrap();
        }
        writer.finish().unwrap();
        prop_assert_eq!(Run::read(&path).unwrap(), run(&hits));
    }

    #[test]
    fn figures_stay_within_bounds(
        judgements in table(-2i32..5),
        hits in table((0u8..6).prop_map(f64::from)),
        complete in any::<bool>(),
    ) {
        let (qrels, run, measures) = (qrels(&judgements), run(&hits), measures());
        let report = evaluate(&qrels, &run, &measures, Options { complete });
        for figures in report.per_query.values().chain([&report.mean]) {
            for (measure, &figure) in measures.iter().zip(figures) {
                prop_assert!(figure >= 0.0, "{} {}", measure, figure);
                prop_assert!(measure.is_summed() || figure <= 1.0 + 1e-12, "{} {}", measure, figure);
            }
        }
        let counted = qrels.len() - if complete { 0 } else { report.missing_in_run };
        prop_assert_eq!(report.queries, counted);
    }

    /// Tests that ranking by the grades themselves is ideal: ndcg is 1 if any document is
    /// relevant.
    #[test]
    fn the_ideal_run_is_perfect(judgements in table(-2i32..5)) {
        let hits = judgements.iter().map(|(&key, &grade)| (key, f64::from(grade))).collect();
        let (qrels, run) = (qrels(&judgements), run(&hits));
        let names = ["ndcg", "ndcg@3", "map", "mrr", "rprec", "num_rel"];
        let measures = names.map(|name| name.parse().unwrap());
        let report = evaluate(&qrels, &run, &measures, Options::default());
        for figures in report.per_query.values() {
            let best = if figures[5] > 0.0 { 1.0 } else { 0.0 };
            for figure in &figures[..5] {
                prop_assert!((figure - best).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn readers_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Qrels::parse(&bytes[..], "bytes");
        let _ = Run::parse(&bytes[..], "bytes");
    }

    #[test]
    fn readers_never_panic_on_columns(text in "([a-z0-9.+-]{1,4}[ \t\r]{1,2}){0,7}\n([a-z0-9é-]{1,3} ){0,7}") {
        let _ = Qrels::parse(text.as_bytes(), "text");
        let _ = Run::parse(text.as_bytes(), "text");
        let _ = text.trim().parse::<Measure>();
    }
}
