//! Texts without terms: the trees that decide what they match.

use super::*;

#[test]
fn zero_terms_query_says_what_a_text_without_terms_matches() {
    let title = || Node::Words(words(&["title"], "a"));
    let or_all = |node: Node| Node::IfEmpty { of: Box::new(node), then: Box::new(Node::All) };
    let matching = |zero: &str| json!({"match": {"title": {"query": "a", "zero_terms_query": zero, "boost": 3}}});
    assert_eq!(node(matching("none")), Node::Boost(Box::new(title()), 3.0));
    assert_eq!(node(matching("ALL")), Node::Boost(Box::new(or_all(title())), 3.0));
    let phrases = json!({"match_phrase": {"title": {"query": "a b", "zero_terms_query": "all"}}});
    assert_eq!(node(phrases), or_all(phrase("title", "a b", 0)));
    // Each field has its analyzer, and so decides separately.
    let several = |kind: &str| json!({"multi_match": {"query": "a", "fields": ["title", "body^2", "nothing"], "type": kind, "zero_terms_query": "all"}});
    let queries = |best: bool| {
        let across = |query: Words| match best {
            true => Words { across: Across::Best { tie_breaker: 0.0 }, ..query },
            false => query,
        };
        let field = |name: &str| or_all(Node::Words(across(words(&[name], "a"))));
        vec![field("title"), Node::Boost(Box::new(field("body")), 2.0)]
    };
    assert_eq!(node(several("best_fields")), Node::Best { of: queries(true), tie_breaker: 0.0 });
    assert_eq!(node(several("most_fields")), Node::Best { of: queries(false), tie_breaker: 1.0 });
    let phrases = ["title", "body"].map(|name| or_all(phrase(name, "a", 0)));
    let [title, body] = phrases;
    let queries = vec![title, Node::Boost(Box::new(body), 2.0)];
    assert_eq!(node(several("phrase")), Node::Best { of: queries, tie_breaker: 0.0 });
    let Node::IfEmpty { of, then } = node(several("cross_fields")) else {
        panic!("{:?}", node(several("cross_fields")));
    };
    assert!(matches!(*of, Node::Words(Words { ref fields, .. }) if fields.len() == 2), "{of:?}");
    assert_eq!(*then, Node::All);
}

/// Only query strings leave out clauses without terms.
#[test]
fn clauses_are_not_left_out() {
    let skips = |query: Value| match read(query).unwrap().0 {
        Node::Bool(parts) => parts.skip_empty,
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
    let read_exists = |field: &str| node(json!({"exists": {"field": field}}));
    assert_eq!(read_exists("title"), one(exists("title")));
    let should = vec![exists("body"), exists("body.keyword")];
    assert_eq!(read_exists("body"), one(Node::Bool(Bool { should, ..Bool::default() })));
    assert_eq!(read_exists("body.keyword"), one(exists("body.keyword")));
    assert_eq!(read_exists("meta"), one(exists("meta.lang")));
}
