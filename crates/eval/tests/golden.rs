//! Compares our figures with those of `trec_eval`, which `scripts/golden_eval.py` wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use warpseek_eval::{Measure, Options, Qrels, Run, evaluate};
use warpseek_testkit::collections;

/// Both sides add the same terms in the same order, so only `log2` may differ in its last bit.
const TOLERANCE: f64 = 1e-9;

type Figures = BTreeMap<String, f64>;

#[derive(Deserialize)]
struct Expected {
    queries: usize,
    mean: Figures,
    queries_complete: usize,
    mean_complete: Figures,
    #[serde(default)]
    per_query: BTreeMap<String, Figures>,
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).expect("a golden file");
    serde_json::from_str(&text).expect("a golden file of figures")
}

fn compare(case: &str, measures: &[Measure], ours: &[f64], theirs: &Figures) {
    assert_eq!(measures.len(), theirs.len(), "{case}");
    for (measure, &ours) in measures.iter().zip(ours) {
        let theirs = theirs[&measure.to_string()];
        assert!(
            (ours - theirs).abs() <= TOLERANCE,
            "{case}: {measure} is {ours}, trec_eval says {theirs}"
        );
    }
}

fn check(name: &str, qrels: &Qrels, run: &Run, expected: &Expected) {
    let measures: Vec<Measure> =
        expected.mean.keys().map(|measure| measure.parse().expect("a known measure")).collect();
    let report = evaluate(qrels, run, &measures, Options::default());
    assert_eq!(report.queries, expected.queries, "{name}");
    compare(name, &measures, &report.mean, &expected.mean);
    for (qid, theirs) in &expected.per_query {
        compare(&format!("{name} query {qid}"), &measures, &report.per_query[qid], theirs);
    }
    let complete = evaluate(qrels, run, &measures, Options { complete: true });
    assert_eq!(complete.queries, expected.queries_complete, "{name}");
    compare(&format!("{name} complete"), &measures, &complete.mean, &expected.mean_complete);
}

#[test]
fn synthetic_case_agrees_with_trec_eval() {
    let qrels = Qrels::read(golden("synthetic.qrels")).unwrap();
    let run = Run::read(golden("synthetic.run")).unwrap();
    let expected: Expected = read_json(&golden("synthetic.json"));
    assert_eq!(expected.per_query.len(), expected.queries);
    assert!(expected.queries < expected.queries_complete);
    check("synthetic", &qrels, &run, &expected);
}

#[test]
fn collections_agree_with_trec_eval() {
    let expected: BTreeMap<String, Expected> = read_json(&golden("collections.json"));
    assert!(expected.keys().all(|name| collections::NAMES.contains(&name.as_str())));
    for collection in collections::present() {
        let qrels = Qrels::read(collection.qrels()).unwrap();
        check(collection.name, &qrels, &pseudo_run(&qrels), &expected[collection.name]);
    }
}

fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |state, byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns the run that `pseudo_run` in `scripts/golden_eval.py` computes.
fn pseudo_run(qrels: &Qrels) -> Run {
    let documents: BTreeSet<&str> =
        qrels.queries().flat_map(|qid| qrels.judged(qid)).map(|(docid, _)| docid).collect();
    let mut run = Run::default();
    for qid in qrels.queries().filter(|qid| !fnv1a(qid).is_multiple_of(11)) {
        for docid in &documents {
            let state = fnv1a(&format!("{qid} {docid}"));
            let found = match qrels.grade(qid, docid) {
                Some(_) => !state.is_multiple_of(5),
                None => (state >> 32).is_multiple_of(16),
            };
            if found {
                assert!(run.insert(qid, docid, ((state >> 8) % 100) as f64 / 7.0));
            }
        }
    }
    run
}
