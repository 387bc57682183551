//! Texts without terms: which trees say what becomes of them.

use super::*;

#[test]
fn zero_terms_query_says_what_a_text_without_terms_matches() {
    let title = || Node::Words(words(&["title"], "a"));
    let or_all = |of: Node| Node::IfEmpty { of: Box::new(of), then: Box::new(Node::All) };
    let matching = |zero: &str| json!({"match": {"title": {"query": "a", "zero_terms_query": zero, "boost": 3}}});
    assert_eq!(node(matching("none")), Node::Boost(Box::new(title()), 3.0));
    assert_eq!(node(matching("ALL")), Node::Boost(Box::new(or_all(title())), 3.0));
    let phrases = json!({"match_phrase": {"title": {"query": "a b", "zero_terms_query": "all"}}});
    assert_eq!(node(phrases), or_all(phrase("title", "a b", 0)));
    // Each field has its own analyzer, and with it its own answer.
    let several = |kind: &str| json!({"multi_match": {"query": "a", "fields": ["title", "body^2", "nothing"], "type": kind, "zero_terms_query": "all"}});
    let of = |best: bool| {
        let across = |of: Words| match best {
            true => Words { across: Across::Best { tie_breaker: 0.0 }, ..of },
            false => of,
        };
        let field = |name: &str| or_all(Node::Words(across(words(&[name], "a"))));
        vec![field("title"), Node::Boost(Box::new(field("body")), 2.0)]
    };
    assert_eq!(node(several("best_fields")), Node::Best { of: of(true), tie_breaker: 0.0 });
    assert_eq!(node(several("most_fields")), Node::Best { of: of(false), tie_breaker: 1.0 });
    let phrases = ["title", "body"].map(|name| or_all(phrase(name, "a", 0)));
    let [title, body] = phrases;
    let of = vec![title, Node::Boost(Box::new(body), 2.0)];
    assert_eq!(node(several("phrase")), Node::Best { of, tie_breaker: 0.0 });
    let Node::IfEmpty { of, then } = node(several("cross_fields")) else {
        panic!("{:?}", node(several("cross_fields")));
    };
    assert!(matches!(*of, Node::Words(Words { ref fields, .. }) if fields.len() == 2), "{of:?}");
    assert_eq!(*then, Node::All);
}

/// Query strings alone leave out what has no terms.
#[test]
fn clauses_are_not_left_out() {
    let skips = |query: Value| match read(query).unwrap().0 {
        Node::Bool(of) => of.skip_empty,
        other => panic!("{other:?}"),
    };
    let matching = || json!({"match": {"title": "a"}});
    assert!(!skips(json!({"bool": {"must": [matching()], "filter": [matching()]}})));
    assert!(!skips(json!({"bool": {"must_not": [matching()]}})));
    assert!(skips(json!({"query_string": {"query": "a b", "default_field": "title"}})));
    assert!(skips(json!({"simple_query_string": {"query": "a b", "fields": ["title"]}})));
}

/// A text field exists if it has a term, or if a sub-field has the value.
#[test]
fn values_without_terms_exist_in_sub_fields() {
    let exists = |field: &str| Node::Filter(Filter::Exists { field: field.into() });
    let of = |field: &str| node(json!({"exists": {"field": field}}));
    assert_eq!(of("title"), one(exists("title")));
    let should = vec![exists("body"), exists("body.keyword")];
    assert_eq!(of("body"), one(Node::Bool(Bool { should, ..Bool::default() })));
    assert_eq!(of("body.keyword"), one(exists("body.keyword")));
    assert_eq!(of("meta"), one(exists("meta.lang")));
}
