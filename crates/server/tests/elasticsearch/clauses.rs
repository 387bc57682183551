//! Clauses whose texts have no terms, and query strings with such words.

use crate::common::{Running, start};
use serde_json::{Value, json};

const NONE: [&str; 0] = [];

fn fill(server: &Running) {
    let mappings = json!({"mappings": {"properties": {
        "title": {"type": "text"}, "body": {"type": "text", "analyzer": "english"},
        "tag": {"type": "keyword"}, "year": {"type": "integer"}, "at": {"type": "date"}
    }}});
    server.ok("PUT", "/a", &mappings);
    let documents = [
        (
            "1",
            json!({"title": "apple pie", "body": "the fruit", "tag": "x", "year": 1999, "at": "2024-01-01"}),
        ),
        (
            "2",
            json!({"title": "apple", "body": "pie of plums", "tag": "y", "year": 2001, "at": "2024-02-01"}),
        ),
        (
            "3",
            json!({"title": "banana", "body": "apple", "tag": "y", "year": 2002, "at": "2024-03-01"}),
        ),
        ("4", json!({"title": "plum", "body": "banana pie", "tag": "new york"})),
    ];
    let lines =
        documents.map(|(id, document)| format!("{}\n{document}\n", json!({"index": {"_id": id}})));
    let done = server.ok("POST", "/a/_bulk?refresh=true", &lines.concat().into());
    assert_eq!(done["errors"], false, "{done}");
}

fn found(server: &Running, query: &Value) -> Vec<String> {
    let mut ids = server.ids("a", &json!({"query": query}));
    ids.sort();
    ids
}

const ALL: [&str; 4] = ["1", "2", "3", "4"];

#[test]
fn a_clause_without_terms_matches_nothing() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server);
    let tagged = || json!({"term": {"tag": "y"}});
    for text in ["???", "", "!", "- -"] {
        for empty in [
            json!({"match": {"title": text}}),
            json!({"match": {"title": {"query": text, "operator": "and"}}}),
            json!({"match": {"title": {"query": text, "zero_terms_query": "none"}}}),
            json!({"match_phrase": {"title": text}}),
            json!({"multi_match": {"query": text, "fields": ["title", "body"]}}),
            json!({"multi_match": {"query": text, "type": "most_fields"}}),
            json!({"multi_match": {"query": text, "type": "cross_fields"}}),
            json!({"multi_match": {"query": text, "type": "phrase"}}),
            json!({"combined_fields": {"query": text, "fields": ["title", "body"]}}),
            json!({"simple_query_string": {"query": text}}),
            json!({"dis_max": {"queries": [{"match": {"title": text}}, {"match": {"body": text}}]}}),
            json!({"constant_score": {"filter": {"match": {"title": text}}}}),
            json!({"bool": {"must": [{"match": {"title": text}}]}}),
            json!({"bool": {"should": [{"match": {"title": text}}]}}),
            json!({"boosting": {"positive": {"match": {"title": text}}, "negative": tagged(), "negative_boost": 0.5}}),
        ] {
            assert_eq!(found(&server, &empty), NONE, "{empty}");
            for query in [
                json!({"bool": {"must": [empty], "filter": [tagged()]}}),
                json!({"bool": {"must": [tagged()], "filter": [empty]}}),
                json!({"bool": {"must": [empty, {"match": {"title": "apple"}}]}}),
                json!({"bool": {"filter": [tagged()], "should": [empty], "minimum_should_match": 1}}),
                json!({"constant_score": {"filter": {"bool": {"must": [empty], "filter": [tagged()]}}}}),
            ] {
                assert_eq!(found(&server, &query), NONE, "{query}");
                let body = json!({"query": query});
                assert_eq!(server.ok("POST", "/a/_count", &body)["count"], 0, "{query}");
            }
            for (query, wanted) in [
                (json!({"bool": {"must_not": [empty]}}), ALL.to_vec()),
                (json!({"bool": {"must": [tagged()], "must_not": [empty]}}), vec!["2", "3"]),
                (json!({"bool": {"must": [tagged()], "should": [empty]}}), vec!["2", "3"]),
                (json!({"dis_max": {"queries": [empty, tagged()]}}), vec!["2", "3"]),
                (
                    json!({"boosting": {"positive": tagged(), "negative": empty, "negative_boost": 0.5}}),
                    vec!["2", "3"],
                ),
            ] {
                assert_eq!(found(&server, &query), wanted, "{query}");
            }
        }
    }
    // A query string leaves out clauses without terms, but is itself a clause.
    for clause in ["query_string", "simple_query_string"] {
        let query_string = |text: &str| json!({clause: {"query": text, "fields": ["body"], "default_operator": "and"}});
        assert_eq!(found(&server, &query_string("the pie")), ["2", "4"]);
        assert_eq!(found(&server, &query_string("pie -the")), ["2", "4"]);
        assert_eq!(found(&server, &query_string("the")), NONE);
        let query = json!({"bool": {"must": [query_string("the")], "filter": [tagged()]}});
        assert_eq!(found(&server, &query), NONE, "{query}");
    }
    assert_eq!(found(&server, &json!({"bool": {}})), ALL);
    let empty = json!({"match": {"title": "???"}});
    let body = json!({"query": {"bool": {"must": [empty], "filter": [tagged()]}}});
    let deleted = server.ok("POST", "/a/_delete_by_query?refresh", &body);
    assert_eq!(deleted["deleted"], 0, "{deleted}");
    let explained = server.ask("POST", "/a/_explain/2", &body);
    assert_eq!((explained.status, &explained.json()["matched"]), (200, &json!(false)));
    let mut filtered =
        json!({"query": empty, "post_filter": tagged(), "highlight": {"fields": {"title": {}}}});
    assert_eq!(server.ids("a", &filtered), NONE);
    filtered["aggs"] = json!({"tags": {"terms": {"field": "tag"}}});
    filtered.as_object_mut().unwrap().remove("post_filter");
    let counted = server.ok("POST", "/a/_search", &filtered);
    assert_eq!(counted["aggregations"]["tags"]["buckets"], json!([]), "{counted}");
    // The native routes.
    for body in [
        json!({"query": "???", "filter": tagged()}),
        json!({"query": "apple", "filter": empty}),
        json!({"query": {"bool": {"must": [empty], "filter": [tagged()]}}}),
    ] {
        let answer = server.ok("POST", "/v1/indexes/a/search", &body);
        assert_eq!(answer["hits"], json!([]), "{body}: {answer}");
        let answer = server.ok("POST", "/v1/indexes/a/count", &body);
        assert_eq!(answer["count"], 0, "{body}: {answer}");
    }
    assert_eq!(found(&server, &json!({"match_all": {}})), ALL, "all are still there");
}

#[test]
fn zero_terms_query_is_honoured() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server);
    let scores = |query: Value| -> Vec<f64> {
        let found = server.ok("POST", "/a/_search", &json!({"query": query}));
        let hits = found["hits"]["hits"].as_array().unwrap().iter();
        hits.map(|hit| hit["_score"].as_f64().unwrap()).collect()
    };
    let all = |text: &str| json!({"query": text, "zero_terms_query": "all"});
    assert_eq!(scores(json!({"match": {"title": all("?")}})), [1.0; 4]);
    assert_eq!(scores(json!({"match": {"body": all("the")}})), [1.0; 4]);
    assert_eq!(scores(json!({"match_phrase": {"title": all("?")}})), [1.0; 4]);
    let mut boosted = all("?");
    boosted["boost"] = json!(2);
    assert_eq!(scores(json!({"match": {"title": boosted}})), [2.0; 4]);
    assert_eq!(found(&server, &json!({"match": {"title": all("pie")}})), ["1"]);
    let several = |kind: &str| json!({"multi_match": {"query": "?", "zero_terms_query": "all", "type": kind, "fields": ["title", "body^2"]}});
    assert_eq!(scores(several("best_fields")), [2.0; 4]);
    assert_eq!(scores(several("most_fields")), [3.0; 4]);
    assert_eq!(scores(several("phrase")), [2.0; 4]);
    assert_eq!(scores(several("cross_fields")), [1.0; 4]);
    let bool = |zero: &str| json!({"bool": {"must": [{"match": {"title": {"query": "?", "zero_terms_query": zero}}}], "filter": [{"term": {"tag": "y"}}]}});
    assert_eq!(found(&server, &bool("all")), ["2", "3"]);
    assert_eq!(found(&server, &bool("none")), NONE);
    let refused = server.ask("POST", "/a/_search", &json!({"query": bool("some")}));
    assert_eq!(refused.status, 400);
    assert!(refused.text.contains("zero_terms_query"), "{}", refused.text);
}

#[test]
fn query_strings_mean_what_they_mean_to_lucene() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server);
    let simple = |text: &str, fields: Value| {
        found(&server, &json!({"simple_query_string": {"query": text, "fields": fields}}))
    };
    for (text, wanted) in [
        ("apple + pie | banana", vec!["1", "3"]),
        ("banana | apple + pie", vec!["1"]),
        ("banana | (apple + pie)", vec!["1", "3"]),
        ("plum -apple", vec!["3", "4"]),
        ("apple +-pie", vec!["2"]),
        ("-apple", vec!["3", "4"]),
        ("\"apple pie\" | plum", vec!["1", "4"]),
        ("*", ALL.to_vec()),
    ] {
        assert_eq!(simple(text, json!(["title"])), wanted, "{text}");
    }
    assert_eq!(simple("new* | x", json!(["tag"])), ["1", "4"]);
    assert_eq!(simple("apple + pie", json!(["title", "body"])), ["1", "2"]);
    let score = |query: Value| {
        let found = server.ok("POST", "/a/_search", &json!({"query": query}));
        let hits = found["hits"]["hits"].as_array().unwrap().clone();
        let two = hits.iter().find(|hit| hit["_id"] == "2").cloned();
        two.map(|hit| hit["_score"].as_f64().unwrap()).unwrap()
    };
    // The scores of fields are added.
    let fields = json!(["title", "tag"]);
    let sum = score(json!({"simple_query_string": {"query": "apple | y", "fields": fields}}));
    let apple = score(json!({"match": {"title": "apple"}}));
    assert!((sum - apple - 1.0).abs() < 1e-4, "{sum} {apple}");
    let line = |text: &str, options: Value| {
        let mut body = json!({"query": text, "fields": ["title", "body"]});
        body.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        found(&server, &json!({"query_string": body}))
    };
    // All words must be in one field, unless the fields are searched as one.
    let and = |kind: &str| json!({"default_operator": "AND", "type": kind});
    assert_eq!(line("apple pie", and("best_fields")), ["1"]);
    assert_eq!(line("apple pie", and("most_fields")), ["1"]);
    assert_eq!(line("apple pie", and("cross_fields")), ["1", "2"]);
    assert_eq!(line("apple AND pie", and("best_fields")), ["1", "2"]);
    assert_eq!(line("banana pie", and("phrase")), ["4"]);
    assert_eq!(line("plum pie", and("phrase")), NONE);
    for (text, wanted) in [
        ("year:>2001", vec!["3"]),
        ("year:>=2001", vec!["2", "3"]),
        ("year:<2001", vec!["1"]),
        ("year:<=2001", vec!["1", "2"]),
        ("year:[1999 TO 2002}", vec!["1", "2"]),
        ("year:{1999 TO 2002]", vec!["2", "3"]),
        ("year:(>=2000 AND <2002)", vec!["2"]),
        ("year:[2001 TO *]", vec!["2", "3"]),
        ("at:>=2024-02-01", vec!["2", "3"]),
        ("at:{2024-01-01 TO 2024-03-01}", vec!["2"]),
        ("_exists_:year -pie", vec!["3"]),
        ("tag:(new york)", vec!["4"]),
        ("tag:new*", vec!["4"]),
        ("-apple", vec!["4"]),
    ] {
        assert_eq!(line(text, json!({})), wanted, "{text}");
    }
    let got = server.ok("GET", "/a/_search?q=year:%3E2001", &Value::Null);
    assert_eq!(got["hits"]["hits"][0]["_id"], "3", "{got}");
    for (query, name) in [
        (json!({"query_string": {"query": "apple~1"}}), "[~]"),
        (json!({"simple_query_string": {"query": "apple~"}}), "[~]"),
        (json!({"simple_query_string": {"query": "app*", "fields": ["title"]}}), "prefix"),
        (json!({"query_string": {"query": "a", "type": "phrase_prefix"}}), "phrase_prefix"),
        (json!({"query_string": {"query": "/a.*/"}}), "regexp"),
    ] {
        let refused = server.ask("POST", "/a/_search", &json!({"query": query}));
        assert_eq!(refused.status, 400, "{query}: {}", refused.text);
        assert!(refused.text.contains(name), "{query}: {}", refused.text);
    }
}

#[test]
fn minimum_should_match_counts_every_word() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server);
    let least = |query: &str, least: Value| {
        let body = || json!({"query": query, "minimum_should_match": least});
        let with = |key: &str, value: Value| {
            let mut body = body();
            body[key] = value;
            body
        };
        let of_all = [
            json!({"match": {"title": body()}}),
            json!({"multi_match": with("fields", json!(["title"]))}),
            json!({"query_string": with("default_field", json!("title"))}),
            json!({"simple_query_string": with("fields", json!(["title"]))}),
            json!({"combined_fields": with("fields", json!(["title"]))}),
        ];
        let mut answers: Vec<Vec<String>> =
            of_all.iter().map(|query| found(&server, query)).collect();
        answers.dedup();
        assert_eq!(answers.len(), 1, "{query} {least}: {answers:?}");
        answers.remove(0)
    };
    assert_eq!(least("apple apple pie", json!(2)), ["1", "2"]);
    assert_eq!(least("apple apple pie", json!("67%")), ["1", "2"]);
    assert_eq!(least("apple apple pie", json!(3)), ["1"]);
    assert_eq!(least("apple apple pie", json!("-1")), ["1", "2"]);
    assert_eq!(least("apple pie banana", json!(2)), ["1"]);
    assert_eq!(least("banana nosuch nosuch", json!(2)), NONE);
}

#[test]
fn empty_strings_exist() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let mappings = json!({"mappings": {"properties": {"tag": {"type": "keyword"}}}});
    server.ok("PUT", "/a", &mappings);
    let documents = [
        json!({"note": "word", "tag": "x"}),
        json!({"note": "", "tag": ""}),
        json!({"note": "???"}),
        json!({"note": null, "tag": null}),
        json!({"note": [], "tag": []}),
        json!({}),
        json!({"note": ["", null], "tag": [null, ""]}),
    ];
    for (id, document) in documents.iter().enumerate() {
        server.ok("PUT", &format!("/a/_doc/{id}?refresh=true"), document);
    }
    for (field, wanted) in [("note", vec!["0", "1", "2", "6"]), ("tag", vec!["0", "1", "6"])] {
        let query = json!({"exists": {"field": field}});
        assert_eq!(found(&server, &query), wanted, "{field}");
        let query = json!({"query_string": {"query": format!("_exists_:{field}")}});
        assert_eq!(found(&server, &query), wanted, "{field}");
        let query = json!({"bool": {"must_not": query}});
        assert_eq!(found(&server, &query).len(), documents.len() - wanted.len(), "{field}");
    }
    assert_eq!(found(&server, &json!({"match": {"note": ""}})), NONE);
    assert_eq!(found(&server, &json!({"term": {"tag": ""}})), ["1", "6"]);
}

#[test]
fn no_fields_are_the_default_ones() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server);
    for clause in ["multi_match", "query_string", "simple_query_string"] {
        let query = json!({clause: {"query": "plums", "fields": []}});
        assert_eq!(found(&server, &query), ["2"], "{clause}");
    }
    let query = json!({"query_string": {"query": "apple", "fields": [], "default_field": "body"}});
    assert_eq!(found(&server, &query), ["3"]);
    let query = json!({"query": {"combined_fields": {"query": "apple", "fields": []}}});
    assert_eq!(server.ask("POST", "/a/_search", &query).status, 400);
    let arguments = json!({"index": "a", "query": "plums", "fields": []});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": arguments}});
    let answer = server.ok("POST", "/mcp", &call);
    assert_eq!(answer["result"]["structuredContent"]["total"], 1, "{answer}");
}

/// Java clients send these options with every query; they have no effect.
#[test]
fn options_with_their_defaults_are_taken() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server);
    let line = json!({
        "query": "apple", "default_field": "title", "type": "best_fields", "fuzziness": "AUTO", "fuzzy_prefix_length": 0,
        "fuzzy_max_expansions": 50, "fuzzy_transpositions": true, "fuzzy_rewrite": null, "rewrite": null, "escape": false,
        "max_determinized_states": 10000, "enable_position_increments": true, "quote_field_suffix": null, "time_zone": null,
    });
    assert_eq!(found(&server, &json!({"query_string": line})), ["1", "2"]);
    let simple = json!({"query": "apple", "fields": ["title"], "flags": -1, "fuzzy_prefix_length": 0, "fuzzy_max_expansions": 50, "fuzzy_transpositions": true});
    assert_eq!(found(&server, &json!({"simple_query_string": simple})), ["1", "2"]);
    for (key, value) in [
        ("escape", json!(true)),
        ("quote_field_suffix", json!(".exact")),
        ("time_zone", json!("+01:00")),
        ("enable_position_increments", json!(false)),
    ] {
        let body = json!({"query": {"query_string": {"query": "apple", key: value}}});
        let answer = server.ask("POST", "/a/_search", &body);
        assert!(answer.status == 400 && answer.text.contains(key), "{key}: {}", answer.text);
    }
    for (range, wanted) in [
        (json!({"from": 1999, "to": 2001}), vec!["1", "2"]),
        (json!({"from": 1999, "to": 2001, "include_lower": false}), vec!["2"]),
        (json!({"from": 1999, "to": 2001, "include_upper": "false", "boost": 1.0}), vec!["1"]),
        (
            json!({"from": 2001, "to": null, "include_lower": true, "include_upper": true}),
            vec!["2", "3"],
        ),
        (json!({"gte": 2002, "include_upper": true}), vec!["3"]),
    ] {
        assert_eq!(found(&server, &json!({"range": {"year": range}})), wanted, "{range}");
    }
    for range in [json!({"from": 1999, "gte": 1999}), json!({"lte": 1, "include_upper": false})] {
        let body = json!({"query": {"range": {"year": range}}});
        assert_eq!(server.ask("POST", "/a/_search", &body).status, 400, "{body}");
    }
}

#[test]
fn a_field_that_cannot_have_the_text_is_one_of_several() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server);
    for kind in ["best_fields", "most_fields", "phrase"] {
        let several = json!({"multi_match": {"query": "apple", "fields": ["title", "year"], "type": kind, "zero_terms_query": "all"}});
        assert_eq!(found(&server, &several), ["1", "2"], "{kind}");
        let alone = json!({"query": {"multi_match": {"query": "apple", "fields": ["year"], "type": kind, "zero_terms_query": "all"}}});
        assert_eq!(server.ask("POST", "/a/_search", &alone).status, 400, "{kind}");
    }
}
