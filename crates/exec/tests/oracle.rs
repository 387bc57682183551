//! Compares the reference with an oracle that does not use an index.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::sync::Arc;

use proptest::prelude::*;
use warpseek_exec::{Mode, Query, explain};
use warpseek_index::{Progress, Snapshot, create};
use warpseek_testkit::{
    Doc, Fixture, Oracle, Search, build_config, collections, generator, plans, text_rankings,
};
use warpseek_text::Analyzer;

fn check(oracle: &Oracle, snapshot: &Arc<Snapshot>, searches: &[Search]) {
    let plans = plans(snapshot, searches);
    let answers = warpseek_testkit::expected(snapshot, &plans);
    for ((search, plan), answer) in searches.iter().zip(&plans).zip(&answers) {
        oracle.check(snapshot, search, plan, answer);
        for hit in answer.hits.iter().step_by(1 + answer.hits.len() / 3) {
            let explanation = explain(snapshot, plan, hit.doc).unwrap();
            let parts: u32 = explanation.terms.iter().map(|term| term.score).sum();
            assert_eq!(explanation.score, hit.score);
            assert_eq!(explanation.static_score + parts, hit.score);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_reference_equals_the_oracle_on_random_histories(case in generator::cases()) {
        let history = case.history();
        let fixture = Fixture::after_each(&history, |number| case.config(number));
        let oracle = Oracle::new(&history.live(), Analyzer::English, 256);
        check(&oracle, &fixture.snapshot(), &case.searches(40));
    }
}

#[test]
fn the_reference_equals_the_oracle_on_shared_collections() {
    for collection in collections::present() {
        let fixture = Fixture::empty(build_config());
        let (config, progress) = (fixture.config(), Progress::default());
        create(&fixture.dir(), &[collection.corpus()], config, false, &progress).unwrap();
        let lines = fs::read_to_string(collection.corpus()).unwrap();
        let docs: Vec<Doc> = lines.lines().map(parse).collect();
        let oracle = Oracle::new(&docs, Analyzer::English, 256);
        let rankings = text_rankings();
        let snapshot = fixture.snapshot();
        let search = |(i, (_, text)): (usize, &(String, String))| {
            let query = Query::parse(text, Analyzer::English, snapshot.manifest().content).unwrap();
            let mode = [Mode::Or, Mode::And, Mode::AndOr][i % 3];
            Search { query, mode, k: 1000, ranking: rankings[i % rankings.len()] }
        };
        let searches: Vec<_> = collection.queries().iter().enumerate().map(search).collect();
        check(&oracle, &snapshot, &searches);
    }
}

fn parse(line: &str) -> Doc {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    let field = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    Doc { id: field("id"), title: field("title"), text: field("text"), ..Doc::default() }
}
