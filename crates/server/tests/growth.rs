//! Dynamic fields: an index that grew field by field equals one that had all fields from the
//! start.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Running, start};
use serde_json::{Value, json};

/// Returns documents, of which later ones have fields that earlier ones lack.
fn documents() -> Vec<Value> {
    let words = ["red", "green", "blue", "black", "white"];
    let mut state = 7u64;
    let mut random = move |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let document = |i: usize| {
        let mut document = json!({"id": format!("own {i}")});
        for field in 0..=i / 8 {
            let text: Vec<&str> = (0..1 + random(6)).map(|_| words[random(words.len())]).collect();
            document[format!("text{field}")] = json!(text.join(" "));
            document["meta"][format!("n{field}")] = json!(random(10));
        }
        document
    };
    (0..40).map(document).collect()
}

fn queries() -> Vec<Value> {
    vec![
        json!({"match": {"text0": "red green"}}),
        json!({"match": {"text4": "red"}}),
        json!({"multi_match": {"query": "blue white", "type": "most_fields"}}),
        json!({"multi_match": {"query": "blue white", "fields": ["text1^2", "text2"], "type": "best_fields", "tie_breaker": 0.3}}),
        json!({"bool": {"must": {"match": {"text1": "black"}}, "filter": {"range": {"meta.n1": {"gte": 3}}}, "must_not": {"term": {"meta.n0": 4}}}}),
        json!({"bool": {"filter": {"exists": {"field": "text3"}}}}),
        json!({"term": {"id.keyword": "own 7"}}),
        json!({"match_all": {}}),
    ]
}

/// Returns the ids and scores of all hits of several queries.
fn answers(server: &Running, index: &str) -> Vec<Vec<(Value, Value)>> {
    let answer = |query: Value| {
        let found = server.ok(
            "POST",
            &format!("/{index}/_search"),
            &json!({"query": query, "size": 100, "_source": false}),
        );
        let hits = found["hits"]["hits"].as_array().unwrap();
        assert_eq!(found["hits"]["total"]["value"], hits.len());
        hits.iter().map(|hit| (hit["_id"].clone(), hit["_score"].clone())).collect()
    };
    queries().into_iter().map(answer).collect()
}

#[test]
fn growing_changes_no_score() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let documents = documents();
    let lines = documents
        .iter()
        .enumerate()
        .map(|(i, document)| format!("{}\n{document}\n", json!({"index": {"_id": i}})));
    server.ok("POST", "/whole/_bulk?refresh=true", &lines.collect::<String>().into());
    for (i, document) in documents.iter().enumerate() {
        let refresh = if i % 3 == 0 { "?refresh=true" } else { "" };
        server.ok("PUT", &format!("/grown/_doc/{i}{refresh}"), document);
    }
    server.ok("POST", "/grown/_refresh", &Value::Null);
    let whole = answers(&server, "whole");
    assert!(whole.iter().all(|hits| !hits.is_empty()), "{whole:?}");
    assert_eq!(answers(&server, "grown"), whole);
    // An index without fields, which has a placeholder text field at first.
    server.ok("PUT", "/empty", &Value::Null);
    assert_eq!(
        server.ids("empty", &json!({"query": {"match": {"text0": "red"}}})),
        [] as [&str; 0]
    );
    server.ok("POST", "/empty/_doc?refresh=true", &json!({"n": 1}));
    assert_eq!(server.ids("empty", &json!({"query": {"term": {"n": 1}}})).len(), 1);
    server.ok("PUT", "/empty/_doc/t?refresh=true", &json!({"text0": "red"}));
    assert_eq!(server.ids("empty", &json!({"query": {"match": {"text0": "red"}}})), ["t"]);
    server.end();
    let server = start(data.path(), &[]);
    assert_eq!(answers(&server, "grown"), whole, "after a restart");
}

#[test]
fn many_writers_bring_fields_at_the_same_time() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    std::thread::scope(|scope| {
        for writer in 0..6 {
            let server = &server;
            scope.spawn(move || {
                for i in 0..12 {
                    let document = json!({"text": "shared words", format!("field{writer}_{}", i / 3): i, format!("text{writer}"): "own words"});
                    let answer = server.ask("PUT", &format!("/a/_doc/{writer}-{i}"), &document);
                    assert_eq!(answer.status, 201, "{}", answer.text);
                    server.ok("POST", "/a/_search", &json!({"query": {"match": {"text": "shared"}}}));
                }
            });
        }
    });
    server.ok("POST", "/a/_refresh", &Value::Null);
    assert_eq!(server.ok("GET", "/a/_count", &Value::Null)["count"], 72);
    for writer in 0..6 {
        let count = |query: Value| {
            server.ok("POST", "/a/_count", &json!({"query": query}))["count"].clone()
        };
        assert_eq!(count(json!({"match": {format!("text{writer}"): "own"}})), 12);
        assert_eq!(count(json!({"range": {format!("field{writer}_3"): {"gte": 0}}})), 3);
    }
}
