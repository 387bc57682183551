//! The scale of scores: the parts of a query that it depends on, and the limit on the differences
//! between boosts.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use warpseek_exec::query::{Bool, Filter, MAX_BOOST_RATIO, Node, Operator, Words, parse};
use warpseek_exec::{
    CollectionStatistics, Context, Engine, ExecError, Plan, Planner, Ranking, Reference,
    frequencies,
};
use warpseek_index::{FilterCache, Snapshot};
use warpseek_testkit::{Doc, Fixture};

fn fixture() -> Fixture {
    let texts = ["apple pie sugar butter", "apple pie sugar", "plum", "tart tart"];
    let docs: Vec<Doc> = texts.iter().enumerate().map(|(i, text)| Doc::text(i, *text)).collect();
    let fixture = Fixture::of(&docs[..2]);
    fixture.add(&docs[2..]).unwrap();
    fixture.add(&[Doc::text("gone", "crust")]).unwrap();
    fixture.delete(&["gone".to_owned()]).unwrap();
    fixture
}

fn plan(snapshot: &Arc<Snapshot>, tree: &Node) -> Result<Plan, ExecError> {
    let planner = Planner::new(snapshot.clone(), Ranking::default()).unwrap();
    planner.plan_tree(tree, None, None, 10, &FilterCache::new(0))
}

fn words(text: &str) -> Node {
    Node::Words(Words::any([], text))
}

fn ids(ids: &[&str]) -> Node {
    Node::Filter(Filter::Ids(ids.iter().map(|id| (*id).to_owned()).collect()))
}

fn boosted(node: Node, by: f64) -> Node {
    Node::Boost(Box::new(node), by)
}

fn constant(filter: Node) -> Node {
    Node::Constant { filter: Box::new(filter), score: 1.0 }
}

fn any(should: Vec<Node>) -> Node {
    Node::Bool(Bool { should, ..Bool::default() })
}

/// Returns query parts that no document matches.
fn impossible() -> Vec<Node> {
    let all = |must: Vec<Node>, filter| Node::Bool(Bool { must, filter, ..Bool::default() });
    vec![
        words("absent"),
        // Only a deleted document has this term.
        words("crust"),
        constant(ids(&["nosuch", "gone"])),
        constant(words("absent")),
        all(vec![words("apple")], vec![ids(&["nosuch"])]),
        all(vec![words("apple"), words("absent")], vec![]),
        all(vec![words("apple"), constant(ids(&[]))], vec![]),
        Node::Best { of: vec![words("absent"), constant(ids(&["gone"]))], tie_breaker: 0.5 },
        Node::Nothing,
    ]
}

#[test]
fn parts_that_cannot_match_do_not_count() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let hits = |plan: &Plan| {
        let engine = Reference::new(snapshot.clone());
        engine.search(&[plan], &Context::new(1)).remove(0).unwrap().hits
    };
    let alone = plan(&snapshot, &words("apple pie")).unwrap();
    let scores: Vec<u32> = hits(&alone).iter().map(|hit| hit.score).collect();
    assert!(scores.len() == 2 && scores[0] > scores[1], "{scores:?}");
    for part in impossible() {
        let shown = format!("{part:?}");
        let with = plan(&snapshot, &any(vec![words("apple pie"), boosted(part, 1e6)])).unwrap();
        assert_eq!(with.scale, alone.scale, "{shown}");
        assert_eq!(hits(&with), hits(&alone), "{shown}");
    }
}

#[test]
fn boosts_that_are_too_different_are_refused() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let refused = |tree: &Node| match plan(&snapshot, tree) {
        Err(ExecError::Boosts { smallest, largest }) => Some((smallest, largest)),
        Err(error) => panic!("{error}"),
        Ok(_) => None,
    };
    let all = |nodes: [Node; 2]| Node::Bool(Bool { must: nodes.to_vec(), ..Bool::default() });
    let best = |nodes: [Node; 2]| Node::Best { of: nodes.to_vec(), tie_breaker: 0.0 };
    for combined in [&all as &dyn Fn([Node; 2]) -> Node, &best, &|nodes| any(nodes.to_vec())] {
        for part in [words("plum"), constant(ids(&["2"])), Node::All] {
            let tree = |by| combined([words("apple"), boosted(part.clone(), by)]);
            assert_eq!(refused(&tree(MAX_BOOST_RATIO)), None);
            assert_eq!(refused(&tree(1e6)), Some((1.0, 1e6)));
            assert_eq!(refused(&tree(1e-6)), Some((1e-6, 1.0)));
        }
    }
    // A part without a boost, or a part that adds nothing, makes no difference.
    assert_eq!(refused(&boosted(any(vec![words("apple"), words("pie")]), 1e6)), None);
    let zero = Node::Constant { filter: Box::new(words("plum")), score: 0.0 };
    assert_eq!(refused(&any(vec![boosted(words("apple"), 1e6), zero])), None);
    let not = Bool {
        must: vec![boosted(words("apple"), 1e6)],
        must_not: vec![words("plum")],
        filter: vec![words("pie")],
        ..Bool::default()
    };
    assert_eq!(refused(&Node::Bool(not)), None);
    // The number of times that a text contains a word does not affect its boost.
    let often = "apple ".repeat(40_000) + "pie";
    assert_eq!(refused(&words(&often)), None);
    // Weights of fields and boosts multiply; a word that occurs twice becomes one with the larger
    // boost.
    let twice = any(vec![words("apple"), boosted(words("apple"), 1e6)]);
    assert_eq!(refused(&twice), None);
}

/// Tests the resolution of scores: the closer the boosts of a query are, the more of a score's 31
/// bits distinguish documents; at the limit there are still enough.
#[test]
fn order_is_kept_at_the_limit() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let tree = any(vec![words("apple pie"), boosted(constant(ids(&["2"])), MAX_BOOST_RATIO)]);
    let plan = plan(&snapshot, &tree).unwrap();
    let engine = Reference::new(snapshot.clone());
    let hits = engine.search(&[&plan], &Context::new(1)).remove(0).unwrap().hits;
    let scores: Vec<u32> = hits.iter().map(|hit| hit.score).collect();
    assert!(scores[1] > scores[2] && scores[2] > 1 << 10, "{scores:?}");
}

#[test]
fn parts_of_a_collection_and_the_whole_have_one_scale() {
    let whole = fixture().snapshot();
    let texts = [["apple pie sugar butter", "apple pie sugar"], ["plum", "tart tart"]];
    let part = |number: usize| {
        let doc = |i: usize| Doc::text(2 * number + i, texts[number][i]);
        Fixture::of(&[doc(0), doc(1)]).snapshot()
    };
    let parts = [part(0), part(1)];
    let terms = ["appl", "pie", "plum"];
    let mut all = CollectionStatistics::of(&parts[0]);
    all.add_fields(&CollectionStatistics::of(&parts[1]).fields).unwrap();
    for part in &parts {
        let found = frequencies(part, terms.map(|term| (0, term))).unwrap();
        for (term, documents) in terms.into_iter().zip(found) {
            all.add_term(0, term, documents).unwrap();
        }
    }
    let all = Arc::new(all);
    let cache = FilterCache::new(0);
    // No document of the second part meets the first condition, and no document at all meets the
    // second.
    for condition in ["_id:(0 1)", "_id:nosuch"] {
        let text = format!("plum (+apple +pie {condition})^50");
        let tree = parse(&text, None, Operator::Or).unwrap();
        let planner = Planner::new(whole.clone(), Ranking::default()).unwrap();
        let want = planner.plan_expression(&tree, None, None, 10, &cache).unwrap().scale;
        for part in &parts {
            let planner = Planner::of_part(part.clone(), Ranking::default(), all.clone()).unwrap();
            for plan in [
                planner.plan_expression(&tree, None, None, 10, &cache),
                planner.plan_tree(&tree, None, None, 10, &cache),
            ] {
                assert_eq!(plan.unwrap().scale, want, "{text}");
            }
        }
    }
}
