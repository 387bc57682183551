//! Small features that clients of Elasticsearch take for granted.

use crate::common::{Answer, start};
use serde_json::{Value, json};

fn warnings(answer: &Answer) -> String {
    answer.headers.get("warning").cloned().unwrap_or_default()
}

#[test]
fn stray_parentheses_lose_no_words() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/a/_doc/1", &json!({"t": "apples"}));
    server.ok("PUT", "/a/_doc/2?refresh=true", &json!({"t": "pears"}));
    let list = "1) apples 2) pears (";
    let body = |clause: &str| json!({"query": {clause: {"query": list}}});
    assert_eq!(server.ids("a", &body("simple_query_string")), ["1", "2"]);
    let refused = server.ask("POST", "/a/_search", &body("query_string"));
    assert_eq!(refused.status, 400, "{}", refused.text);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": {"index": "a", "query": list}}});
    let found = server.ok("POST", "/mcp", &call);
    assert_eq!(found["result"]["structuredContent"]["total"], 2, "{found}");
}

#[test]
fn a_count_is_of_all_documents_or_an_error() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[("deadline_ms", 60_000.into())]);
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({"t": "late"}));
    let body = json!({"query": {"match": {"t": "late"}}});
    let late = || server.ask("POST", "/a/_count?timeout=1nanos", &body);
    assert_eq!(late().status, 504, "{}", late().text);
    assert_eq!(late().json()["error"]["type"], "timeout_exception");
    assert_eq!(server.ok("POST", "/a/_count", &body)["count"], 1);
    // The answer is in the cache now, which takes no time.
    assert_eq!(late().json()["count"], 1);
}

#[test]
fn arrays_of_one_value_are_the_value() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let mappings = json!({"properties": {"n": {"type": "long"}, "ok": {"type": "boolean"}, "at": {"type": "date"}}});
    server.ok("PUT", "/a", &json!({"mappings": mappings}));
    let one = json!({"n": [7], "ok": [true, null], "at": ["2024-01-31"]});
    server.ok("PUT", "/a/_doc/1", &one);
    server.ok("PUT", "/a/_doc/2?refresh=true", &json!({"n": [], "ok": [null], "at": []}));
    for query in [
        json!({"term": {"n": 7}}),
        json!({"term": {"ok": true}}),
        json!({"range": {"at": {"gte": "2024-01-31", "lte": "2024-01-31"}}}),
        json!({"exists": {"field": "n"}}),
        json!({"exists": {"field": "at"}}),
    ] {
        assert_eq!(server.ids("a", &json!({"query": query})), ["1"], "{query}");
    }
    assert_eq!(server.ok("GET", "/a/_doc/1", &Value::Null)["_source"], one);
    let several = server.ask("PUT", "/a/_doc/3", &json!({"n": [1, 2]}));
    assert_eq!(several.status, 400);
    assert!(several.text.contains("[n]") && several.text.contains("keyword"), "{}", several.text);
    // Fields whose first value is an array are stored, but their existence cannot be queried.
    server.ok("PUT", "/a/_doc/4?refresh=true", &json!({"pages": [1, 2]}));
    let refused =
        server.ask("POST", "/a/_search", &json!({"query": {"exists": {"field": "pages"}}}));
    assert!(refused.status == 400 && refused.text.contains("an array"), "{}", refused.text);
}

#[test]
fn dates_have_formats_zones_and_math() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let mappings = json!({"properties": {"at": {"type": "date"}, "s": {"type": "date", "format": "epoch_second"}}});
    server.ok("PUT", "/a", &json!({"mappings": mappings}));
    server.ok("PUT", "/a/_doc/old", &json!({"at": "2024-01-31T23:30:00Z", "s": 1_706_743_800}));
    server.ok("PUT", "/a/_doc/new?refresh=true", &json!({"at": "9000-01-01", "s": "1706743801"}));
    let ids =
        |field: &str, range: Value| server.ids("a", &json!({"query": {"range": {field: range}}}));
    assert_eq!(ids("at", json!({"lt": "now"})), ["old"]);
    assert_eq!(ids("at", json!({"gt": "now-1d/d"})), ["new"]);
    assert_eq!(ids("at", json!({"gt": "now+9000y"})), [""; 0]);
    assert_eq!(ids("at", json!({"gt": "2024-01-01||/M"})), ["new"]);
    assert_eq!(ids("at", json!({"gte": "2024-01-31||/M", "lte": "2024-01-01||/M"})), ["old"]);
    assert_eq!(ids("at", json!({"lt": "2024-02-01", "time_zone": "+01:00"})), [""; 0]);
    assert_eq!(ids("at", json!({"lt": "2024-02-01", "time_zone": "UTC"})), ["old"]);
    assert_eq!(ids("at", json!({"lte": 2024, "format": "yyyy"})), ["old"]);
    assert_eq!(ids("s", json!({"lte": 1_706_743_800})), ["old"]);
    assert_eq!(
        ids("s", json!({"gt": "2024-01-31T23:30:00Z", "format": "strict_date_optional_time"})),
        ["new"]
    );
    assert_eq!(server.ids("a", &json!({"query": {"term": {"s": 1_706_743_801}}})), ["new"]);
    assert_eq!(server.ask("PUT", "/a/_doc/x", &json!({"s": "2024-01-31"})).status, 400);
    for (method, path, body) in [
        (
            "POST",
            "/a/_search",
            json!({"query": {"range": {"at": {"gte": "31/01/2024", "format": "dd/MM/yyyy"}}}}),
        ),
        (
            "PUT",
            "/b",
            json!({"mappings": {"properties": {"d": {"type": "date", "format": "dd/MM/yyyy"}}}}),
        ),
        (
            "PUT",
            "/a/_mapping",
            json!({"properties": {"d": {"type": "date", "format": "yyyy||dd/MM/yyyy"}}}),
        ),
    ] {
        let refused = server.ask(method, path, &body);
        assert!(refused.status == 400 && refused.text.contains("dd/MM/yyyy"), "{}", refused.text);
    }
}

/// The mappings of an older index may violate today's checks.
#[test]
fn an_old_declaration_is_opened() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let mappings = json!({"properties": {"d": {"type": "date", "format": "yyyy"}}});
    server.ok("PUT", "/a", &json!({"mappings": mappings}));
    server.end();
    let file = data.path().join(".warpseek/a.json");
    let declared = std::fs::read_to_string(&file).unwrap().replace("\"yyyy\"", "\"dd/MM/yyyy\"");
    std::fs::write(&file, declared).unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({"d": "2024-01-31", "new": "field"}));
    assert_eq!(server.ids("a", &json!({"query": {"term": {"d": "2024-01-31"}}})), ["1"]);
    let again = json!({"properties": {"e": {"type": "date", "format": "dd/MM/yyyy"}}});
    assert_eq!(server.ask("PUT", "/a/_mapping", &again).status, 400);
}

#[test]
fn what_of_an_index_has_no_effect_is_said() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let quiet = json!({
        "settings": {"number_of_shards": 2, "number_of_replicas": 1, "refresh_interval": "5s", "index.knn": true},
        "mappings": {"properties": {"v": {"type": "dense_vector", "dims": 2}, "t": {"type": "text", "norms": true}}},
    });
    assert_eq!(warnings(&server.ask("PUT", "/quiet", &quiet)), "");
    let loud = json!({
        "settings": {"index": {"max_result_window": 5}},
        "mappings": {"numeric_detection": true},
    });
    let made = server.ask("PUT", "/loud", &loud);
    assert_eq!(made.status, 200);
    let all = made.headers.get("warning").cloned().unwrap_or_default();
    assert!(all.contains("max_result_window") || all.contains("numeric_detection"), "{all}");
    let field = json!({"properties": {"n": {"type": "long", "ignore_malformed": true}}});
    assert!(warnings(&server.ask("PUT", "/loud/_mapping", &field)).contains("ignore_malformed"));
}

#[test]
fn metrics_are_of_the_indexes_there_are() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/metered", &json!({}));
    let lines = || {
        let text = server.ask("GET", "/metrics", &Value::Null).text;
        let lines = text.lines().filter(|line| line.contains("{index=\"metered\"}"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let before = lines();
    for line in [
        "warpseek_degraded_searches_total{index=\"metered\"} 0",
        "warpseek_index_documents{index=\"metered\"} 0",
    ] {
        assert!(before.iter().any(|known| known == line), "{line}: {before:?}");
    }
    assert!(before.iter().any(|line| line.starts_with("warpseek_index_size_bytes{")));
    server.ok("DELETE", "/metered", &Value::Null);
    let after = lines();
    assert!(!after.iter().any(|line| line.starts_with("warpseek_index_")), "{after:?}");
}

#[test]
fn paths_and_tables() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let mappings = json!({"properties": {"t": {"type": "text", "fields": {"k": {"type": "keyword"}}}, "o": {"properties": {"n": {"type": "long"}}}}});
    server.ok("PUT", "/books/", &json!({"mappings": mappings}));
    server.ok("PUT", "/books/_doc/1?refresh=true", &json!({"t": "red"}));
    server.ok("PUT", "/empty", &json!({}));
    assert!(server.ok("GET", "/books/", &Value::Null).get("books").is_some());
    let found =
        server.ok("POST", "/books/_search/?size=1", &json!({"query": {"match": {"t": "red"}}}));
    assert_eq!(found["hits"]["total"]["value"], 1);
    assert_eq!(server.ask("PATCH", "/books/", &Value::Null).status, 405);
    let elsewhere = server.ask("POST", "/_reindex/", &json!({}));
    assert!(elsewhere.status == 400 && elsewhere.text.contains("_reindex"), "{}", elsewhere.text);
    for path in ["/nothing/at/all/", "/v1/indexes/"] {
        assert_eq!(server.ask("GET", path, &Value::Null).status, 404, "{path}");
    }

    let cat = |path: &str, accept: &str| server.send("GET", path, &[("accept", accept)], None);
    let names = |path: &str| -> Vec<String> {
        let rows = cat(path, "application/json").json();
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| row["index"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names("/_cat/indices?s=index:desc"), ["empty", "books"]);
    assert_eq!(names("/_cat/indices?s=docs.count:desc,index"), ["books", "empty"]);
    assert_eq!(names("/_cat/indices?s=dc"), ["empty", "books"]);
    assert_eq!(cat("/_cat/indices?s=colour", "*/*").status, 400);
    for accept in ["*/*", "text/plain,application/json", "text/plain"] {
        assert!(
            cat("/_cat/count", accept).headers["content-type"].starts_with("text/"),
            "{accept}"
        );
    }
    let versioned = "application/vnd.elasticsearch+json; compatible-with=8";
    assert_eq!(cat("/_cat/count", versioned).json()[0]["count"], "1");

    let one = server.ok("GET", "/books/_settings/index.number_of_*", &Value::Null);
    let settings = json!({"number_of_shards": "1", "number_of_replicas": "0"});
    assert_eq!(one, json!({"books": {"settings": {"index": settings}}}));
    let fields = server.ok("GET", "/books/_mapping/field/o.*,t.k", &Value::Null);
    let wanted = json!({
        "o.n": {"full_name": "o.n", "mapping": {"n": {"type": "long"}}},
        "t.k": {"full_name": "t.k", "mapping": {"k": {"type": "keyword"}}},
    });
    assert_eq!(fields, json!({"books": {"mappings": wanted}}));
    let filtered = json!({"index_filter": {"match_all": {}}});
    let refused = server.ask("POST", "/books/_pit?keep_alive=1m", &filtered);
    assert!(refused.status == 400 && refused.text.contains("index_filter"), "{}", refused.text);
}

#[test]
fn analyzers_of_an_index_are_shown() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let analyzers = json!({
        "default": {"type": "whitespace"},
        "mine": {"tokenizer": "standard", "filter": ["lowercase", "possessive", "stem"]},
    });
    let filters = json!({"possessive": {"type": "stemmer", "language": "possessive_english"}, "stem": {"type": "stemmer", "language": "porter2"}});
    server.ok(
        "PUT",
        "/a",
        &json!({"settings": {"analysis": {"analyzer": analyzers, "filter": filters}}}),
    );
    let terms = |path: &str, body: Value| -> Vec<String> {
        let found = server.ok("POST", path, &body);
        let tokens = found["tokens"].as_array().unwrap();
        tokens.iter().map(|token| token["token"].as_str().unwrap().to_owned()).collect()
    };
    let text = "The Dog's runs";
    assert_eq!(
        terms("/a/_analyze", json!({"text": text, "analyzer": "mine"})),
        ["the", "dog", "run"]
    );
    assert_eq!(terms("/a/_analyze", json!({"text": text})), ["The", "Dog's", "runs"]);
    assert_eq!(
        terms("/a/_analyze", json!({"text": text, "analyzer": "standard"})),
        ["the", "dog's", "runs"]
    );
    assert_eq!(terms("/_analyze", json!({"text": text})), ["the", "dog's", "runs"]);
    let unknown = json!({"text": text, "analyzer": "yours"});
    assert_eq!(server.ask("POST", "/a/_analyze", &unknown).status, 400);
    let light = json!({"settings": {"analysis": {"analyzer": {"x": {"tokenizer": "standard", "filter": ["lowercase", "l"]}}, "filter": {"l": {"type": "stemmer", "language": "light_english"}}}}, "mappings": {"properties": {"t": {"type": "text", "analyzer": "x"}}}});
    let refused = server.ask("PUT", "/b", &light);
    assert!(refused.status == 400 && refused.text.contains("light_english"), "{}", refused.text);
}

#[test]
fn several_fragments_are_highlighted() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let filler = "lorem ipsum dolor sit amet ".repeat(8);
    let text = format!("whale one {filler}whale two {filler}whale three {filler}");
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({"t": text, "u": "other words stand here"}));
    let highlight = |fields: Value| {
        let body = json!({"query": {"match": {"t": "whale"}}, "highlight": {"fields": fields}});
        let answer = server.ask("POST", "/a/_search", &body);
        assert!(answer.status == 200 && warnings(&answer).is_empty(), "{answer:?}");
        answer.json()["hits"]["hits"][0]["highlight"].clone()
    };
    let count = |options: Value| highlight(json!({"t": options}))["t"].as_array().unwrap().len();
    assert_eq!(count(json!({})), 3);
    assert_eq!(count(json!({"number_of_fragments": 2})), 2);
    assert_eq!(count(json!({"number_of_fragments": 1})), 1);
    let shown = highlight(json!({"t": {"fragment_size": 40}}));
    let first = shown["t"][0].as_str().unwrap();
    assert!(
        first.starts_with("<em>whale</em> one lorem") && first.chars().count() <= 40 + 11,
        "{first}"
    );
    let whole = highlight(json!({"t": {"number_of_fragments": 0}}));
    assert_eq!(whole["t"][0].as_str().unwrap().matches("<em>whale</em>").count(), 3);
    assert!(highlight(json!({"u": {}})).get("u").is_none());
    let start = highlight(json!({"u": {"no_match_size": 14}}));
    assert_eq!(start["u"], json!(["other words…"]));
}
