//! Explanations of scores on random trees: each part follows from its own parts, down to single
//! terms.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use warpseek_exec::query::{Bool, Node, Phrase, Words, best_score};
use warpseek_exec::{
    Context, Engine, Explanation, Mode, Plan, Planner, Query, Ranking, Reference, Rule, ScorePart,
    explain,
};
use warpseek_index::{BuildConfig, FilterCache, Snapshot};
use warpseek_testkit::phrases::phrase_cases;
use warpseek_testkit::{Doc, Fixture, Random, build_config};

fn planner(snapshot: &Arc<Snapshot>, static_weight: f64) -> Planner {
    let ranking = Ranking { static_weight, ..Ranking::suited(snapshot.manifest()) };
    Planner::new(snapshot.clone(), ranking).unwrap()
}

fn plan(planner: &Planner, tree: &Node) -> Plan {
    planner.plan_tree(tree, None, None, usize::MAX, &FilterCache::new(0)).unwrap()
}

/// Checks a part and its own parts.
fn check(explanation: &Explanation, part: &ScorePart, seen: &mut Vec<usize>) {
    let scores = || part.parts.iter().map(|part| part.score);
    let sum: u32 = scores().sum();
    match part.rule {
        Rule::Sum => assert_eq!(part.score, sum),
        Rule::Best { tie } => {
            assert_eq!(part.score, best_score(scores().max().unwrap_or(0), sum, tie));
        }
        Rule::Term(number) => {
            let term = &explanation.terms[number];
            assert_eq!(part.score, term.score);
            assert!(term.freq > 0 && term.value > 0.0 && part.score > 0);
            seen.push(number);
        }
        Rule::Static => assert_eq!(part.score, explanation.static_score),
        Rule::Constant => assert!(part.parts.is_empty()),
    }
    part.parts.iter().for_each(|part| check(explanation, part, seen));
}

/// Checks the explanations of all hits of a plan, and of documents that are not hits.
fn check_all(snapshot: &Arc<Snapshot>, plan: &Plan) {
    let answer = Reference::new(snapshot.clone()).search(&[plan], &Context::new(1)).remove(0);
    let hits = answer.unwrap().hits;
    for doc in (0..snapshot.doc_limit()).step_by(1 + snapshot.doc_limit() as usize / 30) {
        let explanation = explain(snapshot, plan, doc).unwrap();
        match hits.iter().find(|hit| hit.doc == doc) {
            Some(hit) => {
                assert_eq!(explanation.score, hit.score);
                let root = explanation.made_of.as_ref().unwrap();
                assert_eq!(root.score, hit.score);
                let mut seen = Vec::new();
                check(&explanation, root, &mut seen);
                for (number, term) in explanation.terms.iter().enumerate() {
                    assert_eq!(seen.contains(&number), term.score > 0);
                }
            }
            // Deleted documents are explained as if they were not deleted.
            None => {
                let id = snapshot.external_id(doc).unwrap();
                if snapshot.find_id(&id).unwrap() == Some(doc) {
                    assert_eq!((explanation.score, &explanation.made_of), (0, &None));
                    assert!(explanation.terms.iter().all(|term| term.score == 0));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_part_is_what_its_parts_make_it(case in phrase_cases(), seed in any::<u64>()) {
        let fixture = Fixture::after_each(&case.history(), |number| case.config(number));
        let (snapshot, mut random) = (fixture.snapshot(), Random::new(seed));
        let names = case.names(snapshot.text_fields());
        for static_weight in [0.0, 0.5] {
            let planner = planner(&snapshot, static_weight);
            for search in names.trees(&mut random, 12) {
                check_all(&snapshot, &plan(&planner, &search.tree));
            }
        }
    }
}

fn fixture() -> Fixture {
    let docs = [
        Doc::text(0, "new york is large").with_static(3.0),
        Doc::text(1, "york was new"),
        Doc::text(2, "old city"),
    ];
    Fixture::with(&docs, BuildConfig { positions: true, ..build_config() })
}

/// Returns the descriptions of the lines, without the numbers.
fn said(explanation: &Explanation) -> Vec<String> {
    let lines = explanation.lines().into_iter();
    lines.map(|line| line.replace(|c: char| c.is_ascii_digit(), "")).collect()
}

#[test]
fn what_does_not_match_is_not_there() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let words = |text: &str| Node::Words(Words::any([], text));
    let should = |should: Vec<Node>| Node::Bool(Bool { should, ..Bool::default() });
    let phrase = Node::Phrase(Phrase::exact([], "new york"));
    let best = Node::Best { of: vec![words("york"), words("large")], tie_breaker: 0.25 };
    let constant = Node::Constant { filter: Box::new(words("city")), score: 2.0 };
    let tree = should(vec![phrase, best, constant, words("absent")]);
    let planner = planner(&snapshot, 1.0);
    let plan = plan(&planner, &tree);
    check_all(&snapshot, &plan);
    let explained = |doc| explain(&snapshot, &plan, doc).unwrap();
    let all = [
        " sum of:",
        "   sum of:",
        "     weight(new)",
        "     weight(york)",
        "   max plus . times others of:",
        "     weight(york)",
        "     weight(larg)",
        "   static score of the document",
    ];
    assert_eq!(said(&explained(0)), all);
    // The document has both words of the phrase, but not the phrase.
    assert_eq!(said(&explained(1)), [" weight(york)"]);
    assert_eq!(explained(1).terms[0].score, 0);
    assert_eq!(explained(1).terms[0].freq, 1);
    assert_eq!(said(&explained(2)), [" constant score"]);
    assert_eq!(plan.real(explained(2).score), 2.0);
}

#[test]
fn a_deleted_document_may_have_the_largest_static_score() {
    let docs = [Doc::text(0, "new york").with_static(3e30), Doc::text(1, "york").with_static(1.0)];
    let fixture = Fixture::with(&docs, build_config());
    fixture.delete(&[docs[0].id.clone()]).unwrap();
    let snapshot = fixture.snapshot();
    let tree = Node::Words(Words::any([], "new york"));
    let plan = plan(&planner(&snapshot, 1.0), &tree);
    assert_eq!(explain(&snapshot, &plan, 0).unwrap().score, u32::MAX);
    check_all(&snapshot, &plan);
}

#[test]
fn queries_of_words_are_sums() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let planner = planner(&snapshot, 0.5);
    let query = Query::of([("new", 1.0), ("york", 2.0), ("larg", 1.0)]);
    for mode in [Mode::Or, Mode::And, Mode::AndOr] {
        check_all(&snapshot, &planner.plan(&query, mode, usize::MAX).unwrap());
    }
}
