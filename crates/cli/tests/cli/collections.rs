//! The shared test collections, if present: with default settings, searches reach the expected
//! effectiveness.

use warpseek_testkit::collections;

use crate::support::Space;

#[track_caller]
fn check(name: &'static str, measure: &str, least: f64) {
    let Some(collection) = collections::find(name) else { return };
    let dir = collection.dir.canonicalize().unwrap();
    let file = |file: &str| dir.join(file).to_str().unwrap().to_owned();
    let space = Space::new();
    space.args(&["index", &file("corpus.jsonl"), "-o", "idx", "-q"]).ok();
    space.args(&["run", "idx", "--queries", &file("queries.tsv"), "-o", "run.trec", "-q"]).ok();
    let qrels = file("qrels.tsv");
    let eval =
        ["eval", "--qrels", &qrels, "--run", "run.trec", "-m", measure, "--complete", "--json"];
    let report = space.args(&eval).json();
    let mean = report["mean"][0].as_f64().unwrap();
    println!("{name}: {measure} {mean:.4} over {} queries", report["queries"]);
    assert!(mean >= least, "{name}: {measure} is {mean}, not {least}");
}

#[test]
fn scifact_reaches_its_effectiveness() {
    check("scifact", "ndcg@10", 0.675);
}

#[test]
fn cranfield_reaches_its_effectiveness() {
    check("cranfield", "map", 0.39);
}

#[test]
fn cacm_reaches_its_effectiveness() {
    check("cacm", "map", 0.33);
}
