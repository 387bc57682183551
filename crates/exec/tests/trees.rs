//! The meaning of query trees, on documents that can be checked by hand, and the trees that are
//! sums.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use warpseek_exec::query::{
    Across, Bool, Filter, Node, Operator, PlanNode, Words, best_score, parse,
};
use warpseek_exec::{Context, Engine, ExecError, Mode, Plan, Planner, Query, Ranking, Reference};
use warpseek_index::{FilterCache, Snapshot};
use warpseek_testkit::{Doc, Fixture};

fn fixture() -> Fixture {
    let texts = ["apple pie", "apple tart tart", "plum pie", "plum", "apple plum pie crust", ""];
    let docs: Vec<Doc> = texts.iter().enumerate().map(|(i, text)| Doc::text(i, *text)).collect();
    let fixture = Fixture::of(&docs[..3]);
    fixture.add(&docs[3..]).unwrap();
    fixture.add(&[Doc::text("gone", "apple pie plum tart crust")]).unwrap();
    fixture.delete(&["gone".to_owned()]).unwrap();
    fixture
}

fn planner(snapshot: &Arc<Snapshot>) -> Planner {
    Planner::new(snapshot.clone(), Ranking::default()).unwrap()
}

fn plan(snapshot: &Arc<Snapshot>, tree: &Node) -> Plan {
    let cache = FilterCache::new(0);
    planner(snapshot).plan_tree(tree, None, None, usize::MAX, &cache).unwrap()
}

/// Returns ids in order, and scores in units.
fn hits(snapshot: &Arc<Snapshot>, plan: &Plan) -> Vec<(String, u32)> {
    let answer = Reference::new(snapshot.clone()).search(&[plan], &Context::new(1)).remove(0);
    let hits = answer.unwrap().hits;
    hits.iter().map(|hit| (snapshot.external_id(hit.doc).unwrap(), hit.score)).collect()
}

fn ids(snapshot: &Arc<Snapshot>, tree: &Node) -> String {
    let mut ids: Vec<String> =
        hits(snapshot, &plan(snapshot, tree)).into_iter().map(|(id, _)| id).collect();
    ids.sort_unstable();
    ids.concat()
}

fn words(text: &str) -> Node {
    Node::Words(Words::any([], text))
}

fn read(text: &str) -> Node {
    parse(text, None, Operator::Or).unwrap()
}

#[test]
fn what_matches() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    for (query, want) in [
        ("apple", "014"),
        ("apples the pies", "0124"),
        ("+apple pie", "014"),
        ("+apple +pie", "04"),
        ("+apple -pie", "1"),
        ("-apple", "235"),
        ("-apple -plum", "5"),
        ("*", "012345"),
        ("+* -pie", "135"),
        ("apple _id:(1 3 gone nosuch)", "1"),
        ("_id:(1 3)", "13"),
        ("-_id:(1 3)", "0245"),
        ("-(-_id:1 -_id:3)", "13"),
        ("(apple tart) -(plum pie)", "1"),
        ("+(apple plum) +(pie tart)", "0124"),
        ("absent", ""),
        ("apple absent", "014"),
        ("+apple +absent", ""),
        ("apple -absent", "014"),
        // Words that the analyzer removes have no effect.
        ("the", ""),
        ("+the +apple", "014"),
        ("apple -the", "014"),
        ("+(the) apple", "014"),
        ("", ""),
    ] {
        assert_eq!(ids(&snapshot, &read(query)), want, "{query}");
    }
    let text = |text: &str, operator, least: Option<&str>| {
        let least = least.map(|least| least.parse().unwrap());
        Node::Words(Words { operator, least, ..Words::any([], text) })
    };
    assert_eq!(ids(&snapshot, &text("apple pie plum", Operator::And, None)), "4");
    assert_eq!(ids(&snapshot, &text("apple pie plum", Operator::Or, Some("2"))), "024");
    assert_eq!(ids(&snapshot, &text("apple pie plum", Operator::Or, Some("-1"))), "024");
    assert_eq!(ids(&snapshot, &text("apple pie plum", Operator::Or, Some("0"))), "01234");
    assert_eq!(ids(&snapshot, &text("apple pie plum", Operator::Or, Some("4"))), "");
    // Words that no document contains count as well.
    assert_eq!(ids(&snapshot, &text("apple pie absent", Operator::Or, Some("2"))), "04");
    assert_eq!(ids(&snapshot, &text("apple absent", Operator::Or, Some("2"))), "");
    // A word that occurs twice in the text counts twice, but is one word if all words are
    // required.
    assert_eq!(ids(&snapshot, &text("apple apple pie", Operator::Or, Some("2"))), "014");
    assert_eq!(ids(&snapshot, &text("apple apple pie", Operator::Or, Some("3"))), "04");
    assert_eq!(ids(&snapshot, &text("apple apple pie", Operator::And, None)), "04");
    assert_eq!(ids(&snapshot, &text("apple apple pie", Operator::Or, Some("4"))), "");
    let should = |least: Option<&str>| {
        let least = least.map(|least| least.parse().unwrap());
        let should = vec![words("apple"), words("plum")];
        Bool { should, least, ..Bool::default() }
    };
    assert_eq!(ids(&snapshot, &Node::Bool(should(None))), "01234");
    assert_eq!(ids(&snapshot, &Node::Bool(should(Some("0")))), "01234");
    assert_eq!(ids(&snapshot, &Node::Bool(should(Some("100%")))), "4");
    let with = |least| Bool { filter: vec![words("pie")], ..should(least) };
    assert_eq!(ids(&snapshot, &Node::Bool(with(None))), "024");
    assert_eq!(ids(&snapshot, &Node::Bool(with(Some("2")))), "4");
    assert_eq!(ids(&snapshot, &Node::Bool(Bool::default())), "012345");
}

/// Tests texts without terms, which match nothing in any part of a query unless the query ignores
/// them.
#[test]
fn texts_without_terms() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let (cache, all) = (FilterCache::new(0), "012345");
    for empty in [words("the"), words(""), words("!?")] {
        let bool = |query: Bool| ids(&snapshot, &Node::Bool(query));
        let (no, pie) = (|| vec![empty.clone()], || vec![words("pie")]);
        assert_eq!(ids(&snapshot, &empty), "");
        assert_eq!(bool(Bool { must: no(), ..Bool::default() }), "");
        assert_eq!(bool(Bool { filter: no(), ..Bool::default() }), "");
        assert_eq!(bool(Bool { should: no(), ..Bool::default() }), "");
        assert_eq!(bool(Bool { must_not: no(), ..Bool::default() }), all);
        assert_eq!(bool(Bool { must: no(), filter: pie(), ..Bool::default() }), "");
        assert_eq!(bool(Bool { must: pie(), filter: no(), ..Bool::default() }), "");
        assert_eq!(bool(Bool { must: pie(), should: no(), ..Bool::default() }), "024");
        assert_eq!(bool(Bool { must: pie(), must_not: no(), ..Bool::default() }), "024");
        // The empty part counts as one of the parts that might match.
        let least = |least: &str| Some(least.parse().unwrap());
        let should = vec![words("pie"), empty.clone()];
        assert_eq!(bool(Bool { should: should.clone(), least: least("2"), ..Bool::default() }), "");
        let skips = Bool { should, least: least("100%"), skip_empty: true, ..Bool::default() };
        assert_eq!(bool(skips), "024");
        let inside: [Node; 5] = [
            Node::Boost(Box::new(empty.clone()), 2.0),
            Node::Constant { filter: Box::new(empty.clone()), score: 1.0 },
            Node::Best { of: vec![empty.clone(), empty.clone()], tie_breaker: 0.0 },
            Node::Bool(Bool { must: no(), skip_empty: true, ..Bool::default() }),
            Node::Bool(Bool { must_not: no(), skip_empty: true, ..Bool::default() }),
        ];
        for inside in inside {
            let shown = format!("{inside:?}");
            let query = |skip_empty| Bool {
                must: vec![inside.clone()],
                filter: pie(),
                skip_empty,
                ..Bool::default()
            };
            assert_eq!(bool(query(false)), "", "{shown}");
            assert_eq!(bool(query(true)), "024", "{shown}");
            let filtered =
                planner(&snapshot).plan_tree(&words("pie"), Some(&inside), None, 9, &cache);
            assert_eq!(hits(&snapshot, &filtered.unwrap()), [], "{shown}");
        }
        let or = |then: Node| {
            let node = Node::IfEmpty { of: Box::new(empty.clone()), then: Box::new(then) };
            bool(Bool { must: vec![node], filter: pie(), ..Bool::default() })
        };
        assert_eq!(or(Node::All), "024");
        assert_eq!(or(words("tart")), "");
    }
    let some = Node::IfEmpty { of: Box::new(words("tart")), then: Box::new(Node::All) };
    assert_eq!(ids(&snapshot, &some), "1");
}

#[test]
fn scores() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let score = |tree: &Node, id: &str| {
        let plan = plan(&snapshot, tree);
        let hits = hits(&snapshot, &plan);
        let hit = hits.iter().find(|hit| hit.0 == id).map(|hit| plan.real(hit.1));
        hit.unwrap_or(f64::NAN)
    };
    // Parts without words score 0 or a constant.
    assert_eq!(score(&read("_id:(1 3)"), "3"), 0.0);
    assert_eq!(score(&read("-apple"), "5"), 0.0);
    assert_eq!(score(&read("*"), "5"), 1.0);
    assert_eq!(score(&read("*^2.5"), "5"), 2.5);
    let constant = Node::Constant { filter: Box::new(words("apple")), score: 0.5 };
    assert_eq!(score(&constant, "1"), 0.5);
    assert_eq!(score(&Node::Boost(Box::new(constant.clone()), 3.0), "1"), 1.5);
    let both = |nodes: [Node; 2]| Node::Bool(Bool { should: nodes.to_vec(), ..Bool::default() });
    assert_eq!(score(&both([constant.clone(), Node::All]), "1"), 1.5);
    assert_eq!(score(&both([constant, Node::All]), "2"), 1.0);
    assert_eq!((best_score(10, 16, 0), best_score(10, 16, 65_536)), (10, 16));
    assert_eq!(best_score(10, 15, 32_768), 12);

    // A tree of words is equivalent to a query of these words, bit by bit. A word that is given
    // twice has twice the weight.
    let query = Query::of([("appl", 3.0), ("pie", 2.0)]);
    let flat = planner(&snapshot).plan(&query, Mode::Or, usize::MAX).unwrap();
    for same in ["apple^3 pie^2", "apple pie apple^2 pie", "(apple (pie apple))^1 apple pie"] {
        let of_tree = plan(&snapshot, &read(same));
        assert_eq!((of_tree.scale, &of_tree.terms), (flat.scale, &flat.terms), "{same}");
        assert_eq!(hits(&snapshot, &of_tree), hits(&snapshot, &flat), "{same}");
    }

    // The score of the best of two is the larger one, plus a part of the smaller one.
    let parts = vec![words("apple"), words("crust")];
    for tie_breaker in [0.0, 0.5, 1.0] {
        let best = plan(&snapshot, &Node::Best { of: parts.clone(), tie_breaker });
        let sum = plan(&snapshot, &Node::Bool(Bool { should: parts.clone(), ..Bool::default() }));
        let hits = hits(&snapshot, &best);
        let hit = hits.iter().find(|hit| hit.0 == "4").unwrap();
        let explained = |plan: &Plan| {
            let doc = snapshot.find_id("4").unwrap().unwrap();
            warpseek_exec::explain(&snapshot, plan, doc).unwrap()
        };
        let [apple, crust] = [0, 1].map(|i| explained(&best).terms[i].score);
        let tie = (tie_breaker * 65_536.0) as u32;
        assert_eq!(hit.1, best_score(apple.max(crust), apple + crust, tie));
        assert_eq!(explained(&best).score, hit.1);
        assert_eq!(explained(&sum).terms.len(), 2);
    }
}

#[test]
fn sums_are_flat_plans() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    for (query, additive, mode, masked) in [
        ("apple", true, Mode::Or, false),
        ("apple pie (plum tart)", true, Mode::Or, false),
        ("+apple", true, Mode::Or, false),
        ("+apple +pie", true, Mode::And, false),
        ("+(+apple +pie)^2", true, Mode::And, false),
        ("+apple +pie -crust", true, Mode::And, true),
        ("+apple +pie -absent", true, Mode::Or, true),
        ("+apple pie", true, Mode::Or, true),
        ("apple -pie", true, Mode::Or, true),
        ("apple _id:(1 2)", true, Mode::Or, true),
        ("+(apple plum) +(pie tart) crust", true, Mode::Or, true),
        ("(apple tart) -(plum pie)", true, Mode::Or, true),
        ("", true, Mode::Or, false),
        ("+absent apple", true, Mode::Or, false),
        // A part that only adds if all of it matches is not a sum.
        ("apple (+pie +crust)", false, Mode::Or, false),
        ("apple (pie -crust)", false, Mode::Or, false),
        ("+apple apple", false, Mode::Or, false),
        ("*", false, Mode::Or, false),
        ("-apple", false, Mode::Or, false),
        ("_id:1", false, Mode::Or, false),
        ("apple *", false, Mode::Or, false),
    ] {
        let plan = plan(&snapshot, &read(query));
        let is_additive = plan.tree.as_ref().unwrap().is_additive;
        assert_eq!((is_additive, plan.mode), (additive, mode), "{query}");
        assert_eq!(plan.mask.is_some(), masked, "{query}");
    }
    let best = |texts: &[&str]| {
        let parts = texts.iter().map(|text| words(text)).collect();
        plan(&snapshot, &Node::Best { of: parts, tie_breaker: 0.3 })
    };
    assert!(best(&["apple", "pie"]).needed_tree().is_some());
    // One of them cannot match, so the other is the best.
    assert!(best(&["apple", "absent"]).needed_tree().is_none());
}

#[test]
fn fields_and_values_that_are_not_there() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let error = |tree: &Node| {
        let cache = FilterCache::new(0);
        planner(&snapshot).plan_tree(tree, None, None, 10, &cache).unwrap_err()
    };
    let field = || "title".to_owned();
    for tree in [
        Node::Term { field: field(), term: "apple".into() },
        Node::Words(Words::any([field()], "apple")),
        Node::Filter(Filter::Exists { field: field() }),
        Node::Words(Words {
            across: Across::Cross { tie_breaker: 0.0 },
            ..Words::any([field()], "apple")
        }),
    ] {
        assert!(matches!(error(&tree), ExecError::UnknownField { .. }), "{tree:?}");
    }
    let boost = |by: f64| Node::Boost(Box::new(Node::Boost(Box::new(words("apple")), by)), by);
    assert!(matches!(error(&boost(1e8)), ExecError::Weight { .. }));
    let constant = Node::Constant { filter: Box::new(Node::All), score: 1e8 };
    let constant = Node::Boost(Box::new(constant), 1e8);
    assert!(matches!(error(&constant), ExecError::Parameter { .. }));
}

#[test]
fn masks_of_filters() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let cache = FilterCache::new(0);
    let planner = planner(&snapshot);
    for query in ["apple", "+apple +pie", "-apple", "_id:(1 3 gone)", "*", "the", "apple -pie *"] {
        let tree = read(query);
        let mask = planner.matching(&tree, &cache).unwrap();
        let found = ids(&snapshot, &tree);
        assert_eq!(mask.documents(), found.len() as u64, "{query}");
        // A filter is equivalent to a mask of its documents.
        let filtered = |filter, among: Option<&Arc<_>>| {
            let plan = planner.plan_tree(&words("pie plum"), filter, among, 10, &cache).unwrap();
            (hits(&snapshot, &plan), plan.scale)
        };
        let (one, other) = (filtered(Some(&tree), None), filtered(None, Some(&Arc::new(mask))));
        assert_eq!(one, other, "{query}");
        let all = filtered(None, None);
        let kept: Vec<_> = all.0.into_iter().filter(|hit| found.contains(&hit.0)).collect();
        assert_eq!(one.0, kept, "{query}");
    }
    assert!(matches!(
        planner
            .plan_tree(&words("a"), Some(&Node::All), None, 1, &cache)
            .unwrap()
            .tree
            .unwrap()
            .root,
        PlanNode::Nothing
    ));
}
