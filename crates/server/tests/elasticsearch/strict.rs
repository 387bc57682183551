//! Unknown options and keys are errors on every route and in every body; known ones without
//! effect cause warnings.

use crate::common::{Answer, Running, start};
use serde_json::{Value, json};

fn three() -> (tempfile::TempDir, Running) {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let lines = (1..=3)
        .map(|i| format!("{{\"index\": {{\"_id\": \"{i}\"}}}}\n{{\"t\": \"word\", \"n\": {i}}}\n"));
    server.ok("POST", "/a/_bulk?refresh=true", &lines.collect::<String>().into());
    (data, server)
}

fn refused(answer: &Answer, what: &str) -> String {
    assert_eq!(answer.status, 400, "{what}: {}", answer.text);
    let error = &answer.json()["error"];
    assert!(error["type"].as_str().is_some_and(|kind| kind.ends_with("_exception")), "{what}");
    error["reason"].as_str().unwrap().to_owned()
}

fn analysis(parts: Value) -> Value {
    json!({"settings": {"analysis": parts}})
}

fn similarity(defined: Value) -> Value {
    json!({"settings": {"similarity": defined}})
}

fn field(mapping: Value) -> Value {
    json!({"mappings": {"properties": {"f": mapping}}})
}

#[test]
fn a_delete_by_query_deletes_no_more_than_it_says() {
    let (_data, server) = three();
    let count = || server.ok("GET", "/a/_count", &Value::Null)["count"].as_u64().unwrap();
    let path = "/a/_delete_by_query";
    for (options, body) in [
        ("", json!({"size": 1})),
        ("", json!({"max_doc": 1})),
        ("", json!({"bogus": 1})),
        ("", json!({"from": 3})),
        ("", json!({"sort": ["n"]})),
        ("", json!({"slice": {"id": 0, "max": 2}})),
        ("", json!({"max_docs": 0})),
        ("", json!({"max_docs": -2})),
        ("", json!({"max_docs": "many"})),
        ("", json!({"max_docs": 1.5})),
        ("", json!({"conflicts": "ignore"})),
        ("?size=1", json!({})),
        ("?from=3", json!({})),
        ("?max_doc=1", json!({})),
        ("?terminate_after=1", json!({})),
        ("?sort=n", json!({})),
        ("?bogus", json!({})),
        ("?q=word", json!({})),
        ("?max_docs=2", json!({"max_docs": 1})),
        ("?conflicts=maybe", json!({})),
        ("?refresh=soon", json!({})),
        ("/?size=1", json!({})),
    ] {
        let mut body = body;
        body["query"] = json!({"match_all": {}});
        let answer = server.ask("POST", &format!("{path}{options}"), &body);
        refused(&answer, &format!("{options} {body}"));
        assert_eq!(count(), 3, "{options} {body}");
    }
    let one = json!({"query": {"match_all": {}}, "max_docs": 1, "conflicts": "proceed"});
    let done = server.ok("POST", &format!("{path}?refresh=true"), &one);
    assert_eq!((&done["deleted"], count()), (&json!(1), 2));
    let done = server.ok(
        "POST",
        &format!("{path}?refresh&max_docs=1"),
        &json!({"query": {"match_all": {}}}),
    );
    assert_eq!((&done["deleted"], count()), (&json!(1), 1));
    // The option was read, although there was nothing to delete.
    let none = json!({"query": {"term": {"n": 99}}});
    let nothing = server.ask("POST", &format!("{path}?refresh=true"), &none);
    assert_eq!((nothing.status, nothing.headers.get("warning")), (200, None));
}

#[test]
fn a_delete_by_query_leaves_documents_that_were_written_since() {
    let data = tempfile::tempdir().unwrap();
    // Searches do not see writes before a refresh.
    let server = start(data.path(), &[("refresh_ms", 60_000.into())]);
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({"tags": "y"}));
    server.ok("PUT", "/a/_doc/1", &json!({"tags": "n"}));
    let query = json!({"query": {"term": {"tags": "y"}}});
    let path = "/a/_delete_by_query";
    for (options, status) in [("", 409), ("?conflicts=proceed", 200)] {
        let answer = server.ask("POST", &format!("{path}{options}"), &query);
        assert_eq!(answer.status, status, "{options}: {}", answer.text);
        let done = answer.json();
        assert_eq!((&done["deleted"], &done["version_conflicts"]), (&json!(0), &json!(1)));
        let kept = server.ok("GET", "/a/_doc/1", &Value::Null);
        assert_eq!(kept["_source"], json!({"tags": "n"}), "{options}");
    }
}

#[test]
fn a_delete_by_query_says_what_is_wrong_before_it_begins() {
    let (_data, server) = three();
    let count = || server.ok("GET", "/a/_count", &Value::Null)["count"].as_u64().unwrap();
    let path = "/a/_delete_by_query";
    for part in ["filter", "must"] {
        let query = json!({"query": {"bool": {part: {}}}});
        let reason = refused(&server.ask("POST", path, &query), part);
        assert!(reason.contains(part), "{reason}");
        assert_eq!(count(), 3, "{part}");
    }
    let wrong = json!({"query": {"match_all": {}}, "bogus": 1});
    let later = format!("{path}?wait_for_completion=false");
    assert!(refused(&server.ask("POST", &later, &wrong), "a task").contains("bogus"));
    let none = json!({"query": {"term": {"n": 99}}});
    let begun = server.ask("POST", &format!("{later}&max_docs=1&refresh=true"), &none);
    assert_eq!((begun.status, begun.headers.get("warning")), (200, None), "{}", begun.text);
    assert!(begun.json()["task"].is_string(), "{}", begun.text);
}

#[test]
fn unknown_keys_and_options_are_refused_on_every_route() {
    let (_data, server) = three();
    server.ok("PUT", "/a/_alias/b", &Value::Null);
    for (method, path) in [
        ("GET", "/"),
        ("PUT", "/x"),
        ("GET", "/a"),
        ("DELETE", "/a"),
        ("GET", "/a/_mapping"),
        ("PUT", "/a/_mapping"),
        ("GET", "/_settings"),
        ("PUT", "/a/_settings"),
        ("GET", "/a/_mapping/field/t"),
        ("POST", "/_bulk"),
        ("POST", "/a/_doc"),
        ("PUT", "/a/_doc/1"),
        ("GET", "/a/_doc/1"),
        ("DELETE", "/a/_doc/1"),
        ("PUT", "/a/_create/9"),
        ("GET", "/a/_source/1"),
        ("POST", "/a/_update/1"),
        ("POST", "/_mget"),
        ("POST", "/a/_search"),
        ("GET", "/a/_search"),
        ("POST", "/_search"),
        ("POST", "/a/_msearch"),
        ("POST", "/a/_count"),
        ("POST", "/_search/scroll"),
        ("DELETE", "/_search/scroll"),
        ("POST", "/a/_explain/1"),
        ("POST", "/a/_refresh"),
        ("POST", "/a/_flush"),
        ("POST", "/a/_forcemerge"),
        ("GET", "/_tasks"),
        ("POST", "/a/_pit"),
        ("DELETE", "/_pit"),
        ("POST", "/_aliases"),
        ("GET", "/_alias"),
        ("PUT", "/a/_alias/c"),
        ("DELETE", "/a/_alias/b"),
        ("GET", "/_field_caps"),
        ("POST", "/a/_validate/query"),
        ("POST", "/_analyze"),
        ("GET", "/_cluster/health"),
        ("GET", "/_cluster/settings"),
        ("GET", "/_cat/indices"),
        ("GET", "/_cat/count"),
        ("GET", "/_cat/aliases"),
        ("GET", "/_cat/health"),
        ("GET", "/a/_stats"),
        ("GET", "/v1/status"),
        ("POST", "/v1/indexes/a/search"),
        ("POST", "/retrieve"),
        ("POST", "/mcp"),
        ("GET", "/metrics"),
        ("GET", "/health"),
        ("GET", "/a/_search/"),
    ] {
        let answer = server.ask(method, &format!("{path}?no_such_option=1"), &Value::Null);
        let reason = refused(&answer, &format!("{method} {path}"));
        assert!(reason.contains("no_such_option"), "{method} {path}: {reason}");
    }
    for (method, path, body) in [
        ("PUT", "/x", json!({"mapping": {}})),
        ("PUT", "/x", json!({"mappings": {"propertys": {}}})),
        (
            "PUT",
            "/x",
            json!({"mappings": {"properties": {"t": {"type": "text", "analyser": "x"}}}}),
        ),
        ("PUT", "/x", json!({"settings": {"index.shards": 1}})),
        ("PUT", "/x", json!({"settings": []})),
        ("PUT", "/x", json!({"aliases": ["b"]})),
        ("PUT", "/x", json!({"aliases": {"c": {"bogus": 1}}})),
        ("PUT", "/x", json!({"aliases": {"c": {"index": "other"}}})),
        ("PUT", "/x", json!({"aliases": {"c": {"must_exist": true}}})),
        ("PUT", "/x", json!({"mappings": {"dynamic": "stirct"}})),
        ("PUT", "/x", json!({"settings": {"index.mapping.total_fields.limit": "many"}})),
        (
            "PUT",
            "/x",
            json!({"settings": {"analysis": {"analyzer": {"u": {"tokenizer": "standard", "filter": ["nope"]}}}}}),
        ),
        ("PUT", "/x", analysis(json!({"tokenizer": {"t": {"type": "bogus"}}}))),
        ("PUT", "/x", analysis(json!({"tokenizer": {"t": {"type": "standard", "bogus": 1}}}))),
        ("PUT", "/x", analysis(json!({"char_filter": {"c": {"type": "bogus"}}}))),
        ("PUT", "/x", analysis(json!({"normalizer": {"n": {"type": "bogus"}}}))),
        ("PUT", "/x", analysis(json!({"filter": {"f": {"type": "stop", "stopwords": "_nope_"}}}))),
        ("PUT", "/x", similarity(json!({"default": {"type": "BM25", "k1": -1}}))),
        ("PUT", "/x", similarity(json!({"default": {"type": "BM25", "b": 1.5}}))),
        ("PUT", "/x", similarity(json!({"mine": {"type": "bogus"}}))),
        ("PUT", "/x", similarity(json!({"mine": {"type": "BM25", "bogus": 1}}))),
        ("PUT", "/x", json!({"settings": {"number_of_shards": "x"}})),
        ("PUT", "/x", json!({"settings": {"number_of_shards": 0}})),
        ("PUT", "/x", json!({"settings": {"number_of_replicas": -3}})),
        ("PUT", "/x", json!({"mappings": {"_source": {"enabled": true, "bogus": 1}}})),
        ("PUT", "/x", field(json!({"type": "text", "term_vector": "bogus"}))),
        ("PUT", "/x", field(json!({"type": "text", "norms": "x"}))),
        ("PUT", "/x", field(json!({"type": "long", "coerce": "x"}))),
        ("POST", "/a/_search", json!({"aggs": {}, "aggregations": {}})),
        ("POST", "/a/_mget", json!({"docs": [{"_id": "1"}], "ids": ["1"]})),
        ("PUT", "/v1/indexes/x", json!({"aliases": {}})),
        ("PUT", "/v1/indexes/x", json!({"mappings": {"bogus": 1}})),
        ("PUT", "/a/_mapping", json!({"bogus": {}})),
        ("PUT", "/a/_mapping", json!({"properties": {"n": {"type": "long", "index": false}}})),
        ("PUT", "/a/_mapping", json!({"properties": {"n": {"type": "long", "doc_values": false}}})),
        ("PUT", "/a/_settings", json!({"bogus": 1})),
        ("PUT", "/a/_settings", json!({"settings": {"refresh_interval": "1s"}, "bogus": 1})),
        ("GET", "/_cat/indices?bytes=tons", Value::Null),
        ("POST", "/a/_update/1", json!({"doc": {}, "bogus": 1})),
        ("POST", "/a/_update/1", json!({"doc": {}, "detect_noop": "x"})),
        ("POST", "/_mget", json!({"docs": [], "bogus": 1})),
        ("POST", "/a/_mget", json!({"docs": [{"_id": "1", "bogus": 1}]})),
        ("POST", "/a/_mget", json!({"docs": [{"_id": "1", "_index": 5}]})),
        ("POST", "/a/_search", json!({"bogus": 1})),
        ("POST", "/a/_search", json!({"query": {"match_none": {"bogus": 1}}})),
        ("POST", "/a/_search", json!({"query": {"match": {"t": "word", "boost": 2}}})),
        ("POST", "/a/_search", json!({"query": {"range": {"n": {"gte": 1, "gt": 2}}}})),
        (
            "POST",
            "/a/_search",
            json!({"query": {"match": {"t": {"query": "word", "boost": "NaN"}}}}),
        ),
        ("POST", "/a/_count", json!({"size": 1})),
        ("POST", "/a/_explain/1", json!({"query": {"match_all": {}}, "size": 1})),
        ("POST", "/_search/scroll", json!({"scroll_id": "x", "bogus": 1})),
        ("POST", "/_search/scroll", json!({"scroll_id": 5})),
        ("DELETE", "/_search/scroll", json!({"scroll_id": [5]})),
        ("DELETE", "/_pit", json!({"id": "x", "bogus": 1})),
        ("DELETE", "/_search/point_in_time", json!({"pit_id": [5]})),
        ("POST", "/_aliases", json!({"actions": [], "bogus": 1})),
        (
            "POST",
            "/_aliases",
            json!({"actions": [{"add": {"index": "a", "alias": "c", "bogus": 1}}]}),
        ),
        (
            "POST",
            "/_aliases",
            json!({"actions": [{"remove": {"index": "a", "alias": "b", "must_exist": "x"}}]}),
        ),
        ("PUT", "/a/_alias/c", json!({"bogus": 1})),
        ("PUT", "/a/_alias/c", json!({"alias": "d"})),
        ("POST", "/a/_field_caps", json!({"fields": "t", "bogus": 1})),
        ("POST", "/_analyze", json!({"text": "a", "bogus": 1})),
        ("POST", "/_analyze", json!({"text": ["a", 5]})),
        ("POST", "/v1/indexes/a/batch", json!({"searches": [], "bogus": 1})),
        ("POST", "/v1/indexes/a/refresh", json!({"bogus": 1})),
        ("POST", "/retrieve", json!({"queries": ["a"], "bogus": 1})),
        ("POST", "/retrieve", json!({"query": "a", "topk": 1, "top_k": 2})),
        ("POST", "/retrieve", json!({"query": "a", "return_scores": "x"})),
        ("POST", "/a/_refresh", json!({"bogus": 1})),
        ("GET", "/a/_doc/1", json!({"bogus": 1})),
        ("DELETE", "/a", json!({"bogus": 1})),
        ("POST", "/_bulk", "{\"index\": {\"_index\": \"a\", \"bogus\": 1}}\n{}\n".into()),
        ("POST", "/a/_bulk", "{\"index\": {\"_index\": 5}}\n{}\n".into()),
        ("POST", "/a/_msearch", "{\"bogus\": 1}\n{}\n".into()),
    ] {
        let answer = server.ask(method, path, &body);
        refused(&answer, &format!("{method} {path} {body}"));
    }
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": {"index": "a", "query": "word", "bogus": 1}}});
    assert_eq!(server.ok("POST", "/mcp", &call)["result"]["isError"], true);
    let valid =
        server.ok("POST", "/a/_validate/query", &json!({"query": {"match_all": {}}, "bogus": 1}));
    assert_eq!(valid["valid"], false);
    // Only the invalid search of a multi-search fails.
    let many = server.ok("POST", "/a/_msearch", &"{\"index\": [5]}\n{}\n".into());
    assert_eq!(many["responses"][0]["status"], 400, "{many}");
    // None of the refused requests had an effect.
    assert_eq!(server.ok("GET", "/a/_count", &Value::Null)["count"], 3);
    let found = server.ok("POST", "/a/_count", &json!({"query": {"term": {"n": 2}}}));
    assert_eq!(found["count"], 1);
    assert_eq!(server.ask("GET", "/x", &Value::Null).status, 404);
    assert_eq!(server.ask("GET", "/a/_alias/c", &Value::Null).status, 404);
}

#[test]
fn what_is_known_and_has_no_effect_is_said() {
    let (_data, server) = three();
    for (method, path, body, wanted) in [
        ("GET", "/a?flat_settings=true", Value::Null, "flat_settings"),
        ("GET", "/_cluster/health?level=indices", Value::Null, "level"),
        (
            "POST",
            "/a/_search",
            json!({"query": {"match": {"t": {"query": "word", "_name": "x"}}}}),
            "_name",
        ),
        ("POST", "/a/_update/1", json!({"doc": {"n": 1}, "_source": true}), "_source"),
        ("POST", "/a/_explain/1?_source=t", json!({"query": {"match": {"t": "word"}}}), "_source"),
        (
            "POST",
            "/a/_explain/1",
            json!({"query": {"match": {"t": {"query": "other", "_name": "x"}}}}),
            "_name",
        ),
        (
            "POST",
            "/a/_validate/query",
            json!({"query": {"match": {"t": {"query": "word", "_name": "x"}}}}),
            "_name",
        ),
        ("PUT", "/h", json!({"settings": {"index.hidden": true}}), "index.hidden"),
        ("PUT", "/s", json!({"settings": {"index": {"sort.field": "n"}}}), "index.sort"),
        ("POST", "/a/_mget", json!({"docs": [{"_id": "1", "routing": "x"}]}), "routing"),
        (
            "PUT",
            "/v1/indexes/z",
            json!({"mappings": {"properties": {"t": {"type": "text", "norms": false}}}}),
            "norms",
        ),
        (
            "PUT",
            "/y",
            json!({"mappings": {"properties": {"t": {"type": "text", "analyzer": "english"}}}}),
            "porter2",
        ),
    ] {
        let answer = server.ask(method, path, &body);
        assert!(answer.status < 300, "{path}: {}", answer.text);
        let warning = answer.headers.get("warning").cloned().unwrap_or_default();
        assert!(warning.contains(wanted), "{path}: {warning}");
    }
    // A boost next to the field of a clause about values has an effect.
    let score = |query: Value| {
        let found = server.ok("POST", "/a/_search", &json!({"query": query, "size": 1}));
        found["hits"]["hits"][0]["_score"].as_f64().unwrap()
    };
    assert_eq!(score(json!({"term": {"n": 2, "boost": 3}})), 3.0);
    assert_eq!(score(json!({"range": {"n": {"gte": 2}, "boost": 3}})), 3.0);
    // The header of a search in a multi-search decides whether partial results are allowed.
    let lines =
        "{\"allow_partial_search_results\": false}\n{\"timeout\": \"1nanos\", \"size\": 1}\n";
    let many = server.ok("POST", "/a/_msearch", &lines.into());
    assert_eq!(many["responses"][0]["status"], 504, "{many}");
}

#[test]
fn a_body_may_stand_in_the_query_string() {
    let (_data, server) = three();
    let with_source = |path: &str, body: &str| {
        let coded: String = body.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let options = format!("source={coded}&source_content_type=application/json");
        server.ask("GET", &format!("{path}?{options}"), &Value::Null)
    };
    let query = "{\"query\": {\"term\": {\"n\": 2}}}";
    let found = with_source("/a/_search", query).json();
    assert_eq!(
        (&found["hits"]["total"]["value"], &found["hits"]["hits"][0]["_id"]),
        (&json!(1), &json!("2"))
    );
    assert_eq!(with_source("/a/_count", query).json()["count"], 1);
    assert_eq!(with_source("/a/_explain/2", query).json()["matched"], true);
    assert_eq!(with_source("/a/_validate/query", query).json()["valid"], true);
    assert_eq!(with_source("/a/_mget", "{\"ids\": [\"3\"]}").json()["docs"][0]["found"], true);
    assert_eq!(
        with_source("/a/_msearch", &format!("{{}}\n{query}\n")).json()["responses"][0]["hits"]["total"]
            ["value"],
        1
    );
    for path in [
        "/a/_search?source={}",
        "/a/_search?source={}&source_content_type=application/yaml",
        "/a/_search?source={&source_content_type=application/json",
        "/a/_doc/1?source={}&source_content_type=application/json",
        "/v1/status?source={}",
    ] {
        refused(&server.ask("GET", path, &Value::Null), path);
    }
    let both = "/a/_search?source={}&source_content_type=application/json";
    refused(&server.ask("POST", both, &json!({"size": 1})), both);
}

#[test]
fn values_that_cannot_be_are_refused_and_change_nothing() {
    let (_data, server) = three();
    let mapping = || server.ok("GET", "/a/_mapping", &Value::Null);
    let before = mapping();
    for (body, wanted) in [
        ("{\"t\": \"a\", \"t\": \"b\"}", "Duplicate field 't'"),
        ("{\"x\": {\"y\": 1, \"y\": 2}}", "Duplicate field 'y'"),
        ("{\"new\": 1, \"_id\": \"7\"}", "metadata"),
        ("{\"_index\": \"b\"}", "metadata"),
    ] {
        let json = [("content-type", "application/json")];
        let answer = server.send("PUT", "/a/_doc/9", &json, Some(body.as_bytes().to_vec()));
        assert!(refused(&answer, body).contains(wanted), "{body}: {}", answer.text);
        let lines = format!("{{\"index\": {{\"_id\": \"9\"}}}}\n{body}\n");
        let item = &server.ok("POST", "/a/_bulk", &lines.into())["items"][0]["index"];
        assert!(
            item["status"] == 400 && item["error"]["reason"].to_string().contains(wanted),
            "{item}"
        );
        let line = body.replacen('{', "{\"id\": \"9\", ", 1);
        let own = server.ok("POST", "/v1/indexes/a/bulk", &line.into());
        assert_eq!((&own["written"], &own["failed"]), (&json!(0), &json!(1)), "{body}");
    }
    for body in
        ["{\"size\": 1, \"size\": 2}", "{\"query\": {\"match_all\": {}, \"match_all\": {}}}"]
    {
        let json = [("content-type", "application/json")];
        let answer = server.send("POST", "/a/_search", &json, Some(body.as_bytes().to_vec()));
        assert!(refused(&answer, body).contains("Duplicate field"), "{}", answer.text);
    }
    assert_eq!(mapping(), before);
    assert_eq!(server.ask("GET", "/a/_doc/9", &Value::Null).status, 404);
    let types =
        json!({"mappings": {"properties": {"i": {"type": "integer"}, "s": {"type": "short"}}}});
    server.ok("PUT", "/n", &types);
    let answer = server.ask("PUT", "/n/_doc/1", &json!({"i": 99_999_999_999_i64}));
    let reason = refused(&answer, "integer");
    assert!(reason.contains("[i]") && reason.contains("[integer]"), "{reason}");
    let caps = server.ok("GET", "/n/_field_caps?fields=*", &Value::Null);
    assert_eq!(caps["fields"]["i"]["integer"]["type"], "integer", "{caps}");
}

#[test]
fn messages_have_the_names_of_clients_and_stay_short() {
    let (_data, server) = three();
    let inside =
        json!({"mappings": {"properties": {"a": {"type": "long"}, "a.b": {"type": "text"}}}});
    let reason = refused(&server.ask("PUT", "/x", &inside), "a path through a value");
    assert!(!reason.contains("source.") && !reason.contains("schema"), "{reason}");
    let answer = server.ask("GET", "/%ff/_doc/1", &Value::Null);
    assert!(refused(&answer, "no text").contains("UTF-8"), "{}", answer.text);
    let long = "k".repeat(1 << 20);
    for (path, body) in [
        ("/a/_search", json!({&long: 1})),
        ("/a/_search", json!({"query": {&long: {}}})),
        ("/a/_search", json!({"query": {"match": {"t": {&long: 1}}}})),
        ("/a/_search", json!({"sort": [{&long: "x"}]})),
        ("/a/_search", json!({"min_score": long})),
        ("/a/_doc", json!({&long: {"": 1}})),
        ("/a/_update/1", json!({&long: 1})),
    ] {
        let answer = server.ask("POST", path, &body);
        assert!(
            answer.status == 400 && answer.text.len() < 10_000,
            "{path}: {}",
            answer.text.len()
        );
    }
    let upper = server.ask("PUT", "/aB", &Value::Null);
    assert!(refused(&upper, "a name").contains("'B'"), "{}", upper.text);
    let none =
        json!({"size": 0, "query": {"term": {"n": 99}}, "aggs": {"s": {"stats": {"field": "n"}}}});
    let none = server.ask("POST", "/a/_search", &none);
    assert!(none.text.contains("\"sum\":0.0"), "{}", none.text);
    let health = server.ask("GET", "/_cat/health?v&ts=false", &Value::Null);
    assert!(
        health.status == 200 && health.text.contains("status") && health.text.contains("green")
    );
    let settings = server.ok("GET", "/_cluster/settings?include_defaults=true", &Value::Null);
    assert_eq!(settings, json!({"persistent": {}, "transient": {}}));
}
