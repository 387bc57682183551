//! Tests of the translation of clauses to query trees.

use warpseek::query::{Across, Filter, Phrase, Words};
use warpseek::{Index, IndexOptions};

use super::*;
use crate::elasticsearch::mapping::Declared;
use serde_json::json;
use std::ops::Bound;

#[path = "tests/empty.rs"]
mod empty;
#[path = "tests/strings.rs"]
mod strings;

fn mapping() -> Mapping {
    let mappings = json!({"properties": {
        "title": {"type": "text"}, "body": {"type": "text", "fields": {"keyword": {"type": "keyword"}}}, "tag": {"type": "keyword"},
        "year": {"type": "long"}, "at": {"type": "date"}, "open": {"type": "boolean"}, "v": {"type": "dense_vector", "dims": 3},
        "meta": {"properties": {"lang": {"type": "keyword"}}}, "id": {"type": "keyword"}, "flat": {"type": "flattened"},
        "mixed": {"properties": {"k": {"type": "keyword"}, "v": {"type": "dense_vector"}}}, "when": {"type": "date", "format": "epoch_second||yyyy"}
    }});
    Mapping::new(Declared {
        mappings: mappings.as_object().unwrap().clone(),
        ..Declared::default()
    })
    .unwrap()
}

fn read(query: Value) -> Result<(Node, Vec<String>), Failure> {
    let mut warnings = Vec::new();
    translate(&query, &mapping(), 1000, &mut warnings).map(|node| (node, warnings))
}

fn node(query: Value) -> Node {
    let shown = query.to_string();
    let (node, warnings) =
        read(query).unwrap_or_else(|failure| panic!("{shown}: {}", failure.reason));
    assert!(warnings.is_empty(), "{shown}: {warnings:?}");
    node
}

fn words(fields: &[&str], text: &str) -> Words {
    let fields = fields.iter().map(|field| ((*field).to_owned(), 2.2)).collect();
    Words { fields, ..Words::any([], text) }
}

fn terms(field: &str, values: &[&str]) -> Node {
    Node::Filter(Filter::Terms {
        field: field.into(),
        values: values.iter().map(|v| (*v).to_owned()).collect(),
    })
}

fn one(node: Node) -> Node {
    Node::Constant { filter: Box::new(node), score: 1.0 }
}

#[test]
fn words_have_the_factor_of_their_field() {
    assert_eq!(node(json!({"match": {"title": "a b"}})), Node::Words(words(&["title"], "a b")));
    let and = Words { operator: Operator::And, ..words(&["title"], "a") };
    assert_eq!(
        node(json!({"match": {"title": {"query": "a", "operator": "AND"}}})),
        Node::Words(and)
    );
    let least = Words { least: Some("75%".parse().unwrap()), ..words(&["title"], "a") };
    assert_eq!(
        node(json!({"match": {"title": {"query": "a", "minimum_should_match": "75%"}}})),
        Node::Words(least)
    );
    let boosted = Node::Boost(Box::new(Node::Words(words(&["title"], "a"))), 3.0);
    assert_eq!(node(json!({"match": {"title": {"query": "a", "boost": 3}}})), boosted);
    assert_eq!(node(json!({"match": {"nothing": "a"}})), Node::Nothing);
    assert_eq!(node(json!({"match": {"tag": "a b"}})), one(terms("tag", &["a b"])));
    assert_eq!(node(json!({"match": {"year": 7}})), one(terms("year", &["7"])));
}

#[test]
fn several_fields() {
    let best =
        Words { across: Across::Best { tie_breaker: 0.5 }, ..words(&["title", "body"], "a") };
    assert_eq!(
        node(
            json!({"multi_match": {"query": "a", "fields": ["title", "body"], "type": "best_fields", "tie_breaker": 0.5}})
        ),
        Node::Words(best)
    );
    let (mut most, all) = (
        words(&["body", "title"], "a"),
        json!({"multi_match": {"query": "a", "type": "most_fields"}}),
    );
    assert_eq!(node(all), Node::Words(most.clone()));
    most.fields[1].1 = 2.2 * 3.0;
    assert_eq!(
        node(
            json!({"multi_match": {"query": "a", "type": "most_fields", "fields": ["b*", "title^3"]}})
        ),
        Node::Words(most)
    );
    let across = |kind: &str, tie_breaker: Value| {
        let query = json!({"multi_match": {"query": "a", "fields": ["title", "body"], "type": kind, "tie_breaker": tie_breaker}});
        match node(query) {
            Node::Words(words) => words.across,
            other => panic!("{other:?}"),
        }
    };
    let (none, best) = (Value::Null, |tie_breaker| Across::Best { tie_breaker });
    assert_eq!(across("best_fields", none.clone()), best(0.0));
    assert_eq!(across("most_fields", none.clone()), Across::Most);
    assert_eq!(across("most_fields", json!(1)), Across::Most);
    assert_eq!(across("most_fields", json!(0.3)), best(0.3));
    assert_eq!(across("cross_fields", none), Across::Cross { tie_breaker: 0.0 });
    assert_eq!(across("cross_fields", json!(0.3)), Across::Cross { tie_breaker: 0.3 });
    // Fields of values contribute to the best field or to the sum.
    let tag = |kind: &str| {
        node(
            json!({"multi_match": {"query": "a", "fields": ["title", "tag"], "type": kind, "tie_breaker": 0.3}}),
        )
    };
    for kind in ["most_fields", "cross_fields"] {
        assert!(matches!(tag(kind), Node::Best { tie_breaker: 0.3, .. }), "{kind}");
    }
    let mixed = node(json!({"multi_match": {"query": "a", "fields": ["title", "tag", "year"]}}));
    let title =
        Node::Words(Words { across: Across::Best { tie_breaker: 0.0 }, ..words(&["title"], "a") });
    assert_eq!(mixed, Node::Best { of: vec![one(terms("tag", &["a"])), title], tie_breaker: 0.0 });
}

#[test]
fn bool_takes_objects_and_arrays() {
    let tag = || json!({"term": {"tag": "x"}});
    let filter = || terms("tag", &["x"]);
    let want = Node::Bool(Bool {
        must: vec![Node::Words(words(&["title"], "a"))],
        filter: vec![filter()],
        ..Bool::default()
    });
    assert_eq!(
        node(json!({"bool": {"must": [{"match": {"title": "a"}}], "filter": [tag()]}})),
        want
    );
    assert_eq!(node(json!({"bool": {"must": {"match": {"title": "a"}}, "filter": tag()}})), want);
    let empty =
        Node::Bool(Bool { must: vec![Node::Words(words(&["title"], "a"))], ..Bool::default() });
    assert_eq!(
        node(json!({"bool": {"must": {"match": {"title": "a"}}, "filter": {}, "should": []}})),
        empty
    );
    let least = Bool {
        should: vec![Node::All, Node::All],
        least: Some(Least::count(2)),
        ..Bool::default()
    };
    assert_eq!(
        node(
            json!({"bool": {"should": [{"match_all": {}}, {"match_all": {}}], "minimum_should_match": 2}})
        ),
        Node::Bool(least)
    );
    let not = Node::Bool(Bool { must_not: vec![filter()], ..Bool::default() });
    assert_eq!(
        node(json!({"bool": {"must_not": tag()}})),
        Node::Bool(Bool { filter: vec![not], ..Bool::default() })
    );
    assert_eq!(node(json!({"bool": {}})), Node::Bool(Bool::default()));
}

#[test]
fn conditions_have_the_score_one_where_scores_count() {
    let range = |from, to| Node::Filter(Filter::Range { field: "year".into(), from, to });
    let included = |n: &str| Bound::Included(n.to_owned());
    assert_eq!(
        node(json!({"range": {"year": {"gte": 2000, "lt": 2010}}})),
        one(range(included("2000"), Bound::Excluded("2010".into())))
    );
    assert_eq!(node(json!({"range": {"nothing": {"gte": 1}}})), Node::Nothing);
    assert_eq!(
        node(json!({"terms": {"year": [1, 2.0, "3"]}})),
        one(terms("year", &["1", "2", "3"]))
    );
    assert_eq!(
        node(json!({"terms": {"_id": [1, "b"]}})),
        one(Node::Filter(Filter::Ids(vec!["1".into(), "b".into()])))
    );
    assert_eq!(
        node(json!({"term": {"_id": "x"}})),
        one(Node::Filter(Filter::Ids(vec!["x".into()])))
    );
    assert_eq!(
        node(json!({"ids": {"values": ["x"]}})),
        one(Node::Filter(Filter::Ids(vec!["x".into()])))
    );
    assert_eq!(
        node(json!({"exists": {"field": "tag"}})),
        one(Node::Filter(Filter::Exists { field: "tag".into() }))
    );
    assert_eq!(node(json!({"term": {"open": true}})), one(terms("open", &["true"])));
    assert_eq!(
        node(json!({"constant_score": {"filter": {"term": {"tag": "x"}}, "boost": 2}})),
        Node::Constant { filter: Box::new(terms("tag", &["x"])), score: 2.0 }
    );
    let term = Node::Boost(Box::new(Node::Term { field: "title".into(), term: "a".into() }), 2.2);
    assert_eq!(node(json!({"term": {"title": {"value": "a"}}})), term);
    assert_eq!(
        node(json!({"bool": {"filter": {"term": {"body.keyword": "X y"}}}})),
        Node::Bool(Bool { filter: vec![terms("body.keyword", &["X y"])], ..Bool::default() })
    );
    assert_eq!(
        node(json!({"bool": {"filter": {"term": {"id": "7"}}}})),
        Node::Bool(Bool { filter: vec![terms(".id", &["7"])], ..Bool::default() })
    );
}

#[test]
fn whole_and_compound() {
    assert_eq!(node(json!({"match_all": {}})), Node::All);
    assert_eq!(node(json!({"match_all": {"boost": 2}})), Node::Boost(Box::new(Node::All), 2.0));
    assert_eq!(node(json!({"match_none": {}})), Node::Nothing);
    assert_eq!(
        node(json!({"dis_max": {"queries": [{"match_all": {}}], "tie_breaker": 0.3}})),
        Node::Best { of: vec![Node::All], tie_breaker: 0.3 }
    );
}

#[test]
fn what_is_ignored_is_said() {
    let (node, warnings) = read(json!({"multi_match": {"query": "a", "type": "most_fields", "fields": ["title"], "fuzziness": "AUTO"}})).unwrap();
    assert_eq!(node, Node::Words(words(&["title"], "a")));
    assert!(warnings[0].contains("fuzziness"));
    assert!(
        read(json!({"match": {"title": {"query": "a", "fuzziness": 0}}})).unwrap().1.is_empty()
    );
    assert!(read(json!({"term": {"tag": "x"}})).unwrap().1[0].contains("idf"));
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    for (query, name) in [
        (json!({"match_phrase_prefix": {"title": "a b"}}), "match_phrase_prefix"),
        (json!({"match_phrase": {"title": {"query": "a b", "slop": -1}}}), "slop"),
        (json!({"match_phrase": {"title": {"query": "a b", "slop": 4_294_967_296u64}}}), "slop"),
        (json!({"match_phrase": {"title": {"query": "a b", "analyzer": "english"}}}), "analyzer"),
        (json!({"wildcard": {"tag": "a*"}}), "wildcard"),
        (json!({"fuzzy": {"tag": "a"}}), "fuzzy"),
        (json!({"nested": {"path": "a"}}), "nested"),
        (json!({"knn": {"field": "v"}}), "knn"),
        (json!({"function_score": {}}), "function_score"),
        (json!({"nonsense": {}}), "nonsense"),
        (json!({"match": {"title": {"query": "a", "sloop": 1}}}), "sloop"),
        (json!({"match": {"title": "a", "body": "b"}}), "multiple fields"),
        (json!({"multi_match": {"query": "a", "type": "phrase_prefix"}}), "phrase_prefix"),
        (json!({"term": {"v": 1}}), "dense_vector"),
        (json!({"exists": {"field": "v"}}), "dense_vector"),
        (json!({"range": {"title": {"gte": 1}}}), "text field"),
        (json!({"range": {"year": {"gte": "soon"}}}), "number"),
        (json!({"range": {"at": {"gte": "now-1x"}}}), "date math"),
        (json!({"range": {"at": {"gte": "2024", "format": "dd/MM/yyyy"}}}), "dd/MM/yyyy"),
        (json!({"range": {"at": {"gte": "2024", "format": "yyyy-MM-dd"}}}), "yyyy-MM-dd"),
        (json!({"range": {"at": {"gte": "now", "time_zone": "Europe/Berlin"}}}), "time_zone"),
        (json!({"term": {"flat.key": "a"}}), "[flat] is of type [flattened]"),
        (json!({"match": {"flat.key.deep": "a"}}), "[flat]"),
        (json!({"exists": {"field": "flat.key"}}), "[flat]"),
        (json!({"prefix": {"flat.key": "a"}}), "[flat]"),
        (json!({"range": {"flat.key": {"gt": 1}}}), "[flat]"),
        (json!({"terms": {"flat.key": ["a"]}}), "[flat]"),
        (json!({"match_phrase": {"flat.key": "a b"}}), "[flat]"),
        (json!({"query_string": {"query": "flat.key:a"}}), "[flat]"),
        (json!({"exists": {"field": "mixed"}}), "mixed.v"),
        (json!({"query_string": {"query": "1) apples 2) pears"}}), "not opened"),
        (json!({"query_string": {"query": "(a))"}}), "not opened"),
        (json!({"term": {"open": "maybe"}}), "boolean"),
        (json!({"match": {"title": {"query": "a", "boost": -1}}}), "negative"),
        (json!({"bool": {"most": []}}), "most"),
        (json!([]), "object"),
        (json!({}), "empty"),
        (json!({"match": {"title": "a"}, "term": {"tag": "b"}}), "one clause"),
        (json!({"match": {"title": "a".repeat(1001)}}), "limit"),
        (json!({"query_string": {"query": "\"a b"}}), "quotation mark"),
        (json!({"query_string": {"query": "\"a b\"~99999999999"}}), "slop"),
        (json!({"query_string": {"query": "(a"}}), "parenthesis"),
        (json!({"query_string": {"query": "title:"}}), "title"),
        (json!({"query_string": {"query": "a*b"}}), "wildcard"),
        (json!({"query_string": {"query": "title:a*"}}), "not a keyword"),
        (json!({"query_string": {"query": "/a b/"}}), "regexp"),
        (json!({"query_string": {"query": "a~1"}}), "[~]"),
        (json!({"query_string": {"query": "year:>"}}), "expected a number"),
        (json!({"query_string": {"query": "year:>="}}), "must follow [>=]"),
        (json!({"query_string": {"query": "title:>a"}}), "no ranges"),
        (json!({"query_string": {"query": "[1 TO 2]"}}), "no ranges"),
        (json!({"query_string": {"query": "a", "type": "phrase_prefix"}}), "phrase_prefix"),
        (json!({"query_string": {"query": "a", "type": "bool_prefix"}}), "bool_prefix"),
        (json!({"query_string": {"query": "a", "type": "best"}}), "[best] is unknown"),
        (json!({"query_string": {"query": "a", "type": 1}}), "must be a string"),
        (json!({"query_string": {"query": "a", "flags": "ALL"}}), "flags"),
        (json!({"query_string": {"query": "a", "minimum_should_match": "x"}}), "[minimum_should"),
        (json!({"simple_query_string": {"query": "a~1"}}), "[~]"),
        (json!({"simple_query_string": {"query": "a*"}}), "not a keyword"),
        (json!({"simple_query_string": {"query": "a", "flags": "AND|XOR"}}), "[XOR]"),
        (json!({"simple_query_string": {"query": "a", "flags": 1.5}}), "1.5"),
        (json!({"simple_query_string": {"query": "\"a b\"~99999999999"}}), "too large"),
        (json!({"simple_query_string": {"query": "a", "type": "phrase"}}), "[type]"),
        (json!({"match": {"title": {"query": "a", "zero_terms_query": "some"}}}), "zero_terms"),
        (json!({"match_phrase": {"title": {"query": "a", "zero_terms_query": 1}}}), "zero_terms"),
        (json!({"multi_match": {"query": "a", "zero_terms_query": []}}), "zero_terms"),
    ] {
        let shown = query.to_string();
        let failure = read(query).unwrap_err();
        assert_eq!(failure.status(), 400, "{shown}");
        assert!(failure.reason.contains(name), "{shown}: {}", failure.reason);
    }
    assert!(read(json!({"match": {"title": "a".repeat(1000)}})).is_ok());
}

#[test]
fn dates() {
    let range = |field: &str, body: Value| match node(json!({"range": {field: body}})) {
        Node::Constant { filter, .. } => match *filter {
            Node::Filter(Filter::Range { from, to, .. }) => (from, to),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let included = |at: i64| Bound::Included(warpseek::schema::format_date(at));
    let excluded = |at: i64| Bound::Excluded(warpseek::schema::format_date(at));
    let start = 1_704_067_200_000; // 2024
    let month = 31 * 86_400_000;
    assert_eq!(
        range("at", json!({"gte": "2024-01-15||/M", "lt": "2024-01-01||+1M"})),
        (included(start), excluded(start + month))
    );
    assert_eq!(
        range("at", json!({"gt": "2023-12-15||/M", "lte": "2024-01-15||/M"})),
        (excluded(start - 1), included(start + month - 1))
    );
    assert_eq!(
        range("at", json!({"gte": "2024-01-01", "time_zone": "+01:00"})),
        (included(start - 3_600_000), Bound::Unbounded)
    );
    let seconds = json!({"gte": 1_704_067_200, "lt": "1704067201", "format": "epoch_second"});
    assert_eq!(range("at", seconds), (included(start), excluded(start + 1000)));
    assert_eq!(range("at", json!({"gte": 2024, "format": "yyyy"})).0, included(start));
    // A small number of milliseconds is not read as a year.
    assert_eq!(range("at", json!({"gt": "1970-01-01T00:00:01Z"})).0, excluded(1999));
    assert_eq!(range("at", json!({"lt": 2, "format": "epoch_second"})).1, excluded(2000));
    // The formats of a field also apply to queries.
    assert_eq!(range("when", json!({"gte": start / 1000})).0, included(start));
    assert_eq!(range("when", json!({"gte": "2024", "format": "yyyy"})).0, included(start));
    // All parts of a query use the same moment for `now`.
    let (from, to) = range("at", json!({"gt": "now-1h", "lt": "now"}));
    let number = |bound: Bound<String>| match bound {
        Bound::Excluded(text) => warpseek::schema::parse_date(&text).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(number(to) - number(from), 3_600_000);
    let day = Filter::Range {
        field: "at".into(),
        from: included(start),
        to: included(start + 86_399_999),
    };
    assert_eq!(node(json!({"term": {"at": "2024-01-01T12:00||/d"}})), one(Node::Filter(day)));
}

proptest::proptest! {
    #[test]
    fn no_text_of_a_query_panics(text in ".{0,40}") {
        let _ = read(json!({"query_string": {"query": text}}));
        let _ = read(json!({"simple_query_string": {"query": text}}));
        let _ = read(json!({"range": {"at": {"gte": text}}}));
    }

    #[test]
    fn no_syntax_panics(text in "[a*?:()\\[\\]{}\"^~+|!\\\\ ANDORTO-]{0,24}") {
        let _ = read(json!({"query_string": {"query": text}}));
        let _ = read(json!({"simple_query_string": {"query": text}}));
    }
}

fn phrase(field: &str, text: &str, slop: u32) -> Node {
    Node::Phrase(Phrase { fields: vec![(field.into(), 2.2)], text: text.into(), slop })
}

#[test]
fn phrases() {
    let ab = phrase("title", "a b", 0);
    assert_eq!(node(json!({"match_phrase": {"title": "a b"}})), ab);
    let body = json!({"query": "a b", "slop": "2", "boost": 3, "analyzer": "standard"});
    assert_eq!(
        node(json!({"match_phrase": {"title": body}})),
        Node::Boost(Box::new(phrase("title", "a b", 2)), 3.0)
    );
    assert_eq!(node(json!({"match_phrase": {"tag": "a b"}})), one(terms("tag", &["a b"])));
    assert_eq!(node(json!({"match_phrase": {"nothing": "a b"}})), Node::Nothing);
    let best = |tie_breaker: f64| Node::Best {
        of: vec![ab.clone(), phrase("body", "a b", 0)],
        tie_breaker,
    };
    assert_eq!(
        node(
            json!({"multi_match": {"query": "a b", "type": "phrase", "fields": ["title", "body"], "tie_breaker": 0.5}})
        ),
        best(0.5)
    );
    assert_eq!(
        node(json!({"query_string": {"query": "title:\"a b\"~4^2"}})),
        Node::Boost(Box::new(phrase("title", "a b", 4)), 2.0)
    );
    for clause in ["query_string", "simple_query_string"] {
        let quoted = json!({clause: {"query": "\"a b\"", "fields": ["title", "body"]}});
        assert_eq!(node(quoted), best(0.0), "{clause}");
        let slop = json!({clause: {"query": "\"a \\\"b\"~3", "fields": ["title"]}});
        assert_eq!(node(slop), phrase("title", "a \"b", 3), "{clause}");
    }
}

#[test]
fn phrases_in_fields_without_positions() {
    let mappings = json!({"properties": {
        "title": {"type": "text"}, "bare": {"type": "text", "index_options": "freqs"}
    }});
    let declared =
        Declared { mappings: mappings.as_object().unwrap().clone(), ..Declared::default() };
    let mapping = Mapping::new(declared).unwrap();
    let read = |query: Value| {
        let mut warnings = Vec::new();
        translate(&query, &mapping, 1000, &mut warnings).map(|node| (node, warnings))
    };
    for refused in [
        json!({"match_phrase": {"bare": "a b"}}),
        json!({"query_string": {"query": "bare:\"a b\""}}),
        json!({"multi_match": {"query": "a b", "fields": "bare", "type": "phrase"}}),
    ] {
        let failure = read(refused).unwrap_err();
        assert!(failure.reason.contains("without position data"), "{}", failure.reason);
    }
    // Next to other fields, they are ignored with a warning. A single word needs no positions.
    let (mixed, warnings) = read(json!({"query_string": {"query": "\"a b\""}})).unwrap();
    assert_eq!((mixed, warnings.len()), (phrase("title", "a b", 0), 1));
    let word = Words { operator: Operator::And, ..words(&["bare"], "a") };
    let (one, warnings) = read(json!({"match_phrase": {"bare": "a"}})).unwrap();
    assert_eq!((one, warnings.len()), (Node::Words(word), 0));
}

/// An index without a schema, as the command line creates it, has one field without a name.
#[test]
fn phrases_have_the_factor_without_a_schema_too() {
    let folder = tempfile::tempdir().unwrap();
    let document = warpseek::Document::new("1", "", "new ideas");
    let (options, progress) = (IndexOptions::new().positions(true), warpseek::Progress::default());
    let dir = folder.path().join("index");
    let (index, _) = Index::build_from_documents(dir, [document], &options, &progress).unwrap();
    let mapping = Mapping::of_manifest(&index.manifest().unwrap());
    let phrase = Phrase { fields: Vec::new(), text: "new ideas".into(), slop: 0 };
    let query = json!({"match_phrase": {"text": "new ideas"}});
    let node = translate(&query, &mapping, 1000, &mut Vec::new()).unwrap();
    assert_eq!(node, Node::Boost(Box::new(Node::Phrase(phrase)), 1.9));
}
