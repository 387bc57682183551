//! Options of requests: those that work in the body and in the query string, ignored ones with
//! warnings, and unsupported calls.

use crate::common::{Answer, start};
use serde_json::{Value, json};

/// Returns the warnings of a response.
fn warnings(answer: &Answer) -> String {
    answer.headers.get("warning").cloned().unwrap_or_default()
}

#[test]
fn what_is_ignored_is_said() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let put =
        server.ask("PUT", "/a/_doc/1?refresh=true&routing=x", &json!({"t": "red <b>", "n": 1}));
    assert_eq!((put.status, warnings(&put).contains("[routing] is ignored")), (201, true));
    let all = json!({"query": {"match_all": {}}});
    for (path, body, wanted) in [
        ("/a/_search?routing=1", all.clone(), "routing"),
        ("/a/_search?preference=_local", all.clone(), "preference"),
        ("/a/_search?typed_keys=true", all.clone(), "typed_keys"),
        ("/a/_search?df=t", all.clone(), "df"),
        ("/a/_count?preference=x", Value::Null, "preference"),
        ("/a/_search", json!({"profile": true}), "profile"),
        ("/a/_search", json!({"stored_fields": ["t"]}), "stored_fields"),
        ("/a/_search", json!({"terminate_after": 1}), "terminate_after"),
        ("/a/_search", json!({"_source": {"exclude_vectors": true}}), "exclude_vectors"),
        ("/a/_search?_source_exclude_vectors=true", all.clone(), "_source_exclude_vectors"),
        ("/a/_mget?_source_exclude_vectors=true", json!({"ids": ["1"]}), "_source_exclude_vectors"),
        (
            "/a/_mget",
            json!({"docs": [{"_id": "1", "_source": {"exclude_vectors": true}}]}),
            "exclude_vectors",
        ),
        ("/a/_forcemerge?primary_only=true", Value::Null, "primary_only"),
        ("/a/_search", json!({"highlight": {"fields": {"t": {"type": "plain"}}}}), "type"),
        (
            "/a/_search",
            json!({"query": {"match": {"n": {"query": 1, "lenient": true}}}}),
            "lenient",
        ),
        (
            "/a/_count",
            json!({"query": {"multi_match": {"query": "red", "cutoff_frequency": 0.1}}}),
            "cutoff_frequency",
        ),
    ] {
        let answer = server.ask("POST", path, &body);
        assert_eq!(answer.status, 200, "{path} {body}: {}", answer.text);
        assert!(warnings(&answer).contains(wanted), "{path} {body}: {:?}", answer.headers);
    }
    for path in [
        "/a/_search?size=3&from=0&sort=n:desc&_source=t&track_total_hits=true&timeout=9s&pretty&human=false&error_trace",
        "/a/_search?q=red&df=t&default_operator=AND&ignore_unavailable=true&allow_no_indices=true&expand_wildcards=open",
        "/a/_search?search_type=query_then_fetch&request_cache=true&filter_path=hits.hits&explain=true",
        "/_cat/indices?format=json&h=index&v",
        "/_cluster/health?wait_for_status=yellow&timeout=1s",
        "/a?ignore_unavailable=true&expand_wildcards=all",
    ] {
        let answer = server.ask("GET", path, &Value::Null);
        assert_eq!((answer.status, warnings(&answer)), (200, String::new()), "{path}");
    }
    // An option of one search in a multi-search, and of one action in a bulk request.
    let lines = "{\"routing\": \"x\"}\n{\"size\": 1}\n{}\n{\"profile\": true}\n";
    let many = server.ask("POST", "/a/_msearch", &lines.into());
    assert!(many.status == 200 && warnings(&many).contains("profile"), "{:?}", many.headers);
    let bulk = "{\"index\": {\"_id\": \"2\", \"routing\": \"x\"}}\n{\"t\": \"blue\"}\n";
    let bulk = server.ask("POST", "/a/_bulk?refresh=true", &bulk.into());
    assert!(bulk.status == 200 && warnings(&bulk).contains("routing"), "{:?}", bulk.headers);
    // An option that would change what is written is refused.
    for line in
        ["\"pipeline\": \"p\"", "\"require_alias\": true", "\"if_seq_no\": 3", "\"version\": 3"]
    {
        let bulk = format!("{{\"index\": {{\"_id\": \"3\", {line}}}}}\n{{\"t\": \"x\"}}\n");
        assert_eq!(server.ask("POST", "/a/_bulk", &bulk.into()).status, 400, "{line}");
    }
    for path in ["/a/_doc/3?refresh=maybe", "/a/_doc/3?require_alias=true", "/a/_doc/3?op_type=put"]
    {
        assert_eq!(server.ask("PUT", path, &json!({"t": "x"})).status, 400, "{path}");
    }
    for (method, path, name) in [
        ("PUT", "/a/_doc/3?version=3&version_type=external", "[version]"),
        ("DELETE", "/a/_doc/1?version=3", "[version]"),
        ("GET", "/a/_search?search_pipeline=x", "[search_pipeline]"),
        ("GET", "/a/_search?suggest_text=x", "[suggest_text]"),
    ] {
        let body = if method == "PUT" { json!({"t": "x"}) } else { Value::Null };
        let answer = server.ask(method, path, &body);
        let wanted = format!("{name} is not supported");
        assert!(answer.status == 400 && answer.text.contains(&wanted), "{path}: {}", answer.text);
    }
    assert_eq!(server.ok("GET", "/a/_count", &Value::Null)["count"], 2);
}

#[test]
fn options_act_wherever_they_stand() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    for i in 0..5 {
        let source = json!({"t": format!("common word{i} <i>"), "n": i, "z": {"y": [1.50, "\u{fc}\n"], "a": null}});
        server.ok("PUT", &format!("/a/_doc/{i}"), &source);
    }
    // A read refreshes on request.
    assert_eq!(server.ok("GET", "/a/_doc/4?refresh=true", &Value::Null)["found"], true);
    assert_eq!(server.ok("GET", "/a/_count", &Value::Null)["count"], 5);
    let body = json!({"scroll": "1m", "size": 2, "sort": "n", "_source_includes": ["n", "z"], "_source_excludes": "z.y"});
    let page = server.ok("POST", "/a/_search", &body);
    assert_eq!(page["hits"]["hits"][1]["_source"], json!({"n": 1, "z": {"a": null}}));
    let id = page["_scroll_id"].as_str().unwrap();
    assert_eq!(id.len(), 32);
    let next = server.ok("POST", "/_search/scroll", &json!({"scroll_id": id, "scroll": "1m"}));
    assert_eq!(next["hits"]["hits"][0]["_source"]["n"], 2);
    assert_eq!(next["_scroll_id"], id);
    // Sources are returned as they were sent, even if the response has to be parsed again.
    let wanted = json!({"t": "common word3 <i>", "n": 3, "z": {"y": [1.5, "\u{fc}\n"], "a": null}});
    for path in ["/a/_search", "/a/_search?pretty", "/a/_search?filter_path=hits,took"] {
        let found = server.ok("POST", path, &json!({"query": {"term": {"n": 3}}}));
        assert_eq!(found["hits"]["hits"][0]["_source"], wanted, "{path}");
    }
    let hidden = server.ok("POST", "/a/_search", &json!({"_source": false, "terminate_after": 1}));
    assert!(hidden["hits"]["hits"][0].get("_source").is_none());
    assert_eq!(
        (&hidden["terminated_early"], &hidden["hits"]["total"]["value"]),
        (&json!(false), &json!(5))
    );
    let highlight = |encoder: &str| {
        let body = json!({"query": {"match": {"t": "word2"}}, "highlight": {"encoder": encoder, "fields": {"t": {}}}});
        server.ok("POST", "/a/_search", &body)["hits"]["hits"][0]["highlight"]["t"][0].clone()
    };
    assert_eq!(highlight("html"), "common <em>word2</em> &lt;i&gt;");
    assert_eq!(highlight("default"), "common <em>word2</em> <i>");
    assert_eq!(
        server.ok("GET", "/_stats/docs,store", &Value::Null)["_all"]["primaries"]["docs"]["count"],
        5
    );
    assert_eq!(
        server.ok("GET", "/_settings", &Value::Null)["a"]["settings"]["index"]["provided_name"],
        "a"
    );
}

#[test]
fn a_query_makes_some_of_its_hits_worse() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    for (id, text) in
        [("1", "red apple"), ("2", "red pear"), ("3", "red apple apple"), ("4", "green")]
    {
        server.ok("PUT", &format!("/a/_doc/{id}?refresh=true"), &json!({"t": text}));
    }
    let scores = |query: Value| {
        let found = server.ok("POST", "/a/_search", &json!({"query": query}));
        let hits = found["hits"]["hits"].as_array().unwrap();
        let mut scores: Vec<(String, f64)> = hits
            .iter()
            .map(|hit| (hit["_id"].as_str().unwrap().to_owned(), hit["_score"].as_f64().unwrap()))
            .collect();
        scores.sort_by(|a, b| a.0.cmp(&b.0));
        scores
    };
    let plain = scores(json!({"match": {"t": "red"}}));
    let boosting = |less: f64| json!({"boosting": {"positive": {"match": {"t": "red"}}, "negative": {"match": {"t": "apple"}}, "negative_boost": less}});
    let half = scores(boosting(0.5));
    assert_eq!(half.iter().map(|hit| hit.0.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
    for (with, without) in half.iter().zip(&plain) {
        let factor = if with.0 == "2" { 1.0 } else { 0.5 };
        assert!((with.1 - without.1 * factor).abs() < 1e-6, "{half:?} {plain:?}");
    }
    assert_eq!(scores(boosting(1.0)), plain);
    let none = scores(boosting(0.0));
    assert_eq!((none[0].1, none[2].1, none[1].1), (0.0, 0.0, plain[1].1));
    for wrong in [
        json!({"boosting": {"positive": {"match_all": {}}, "negative": {"match_all": {}}}}),
        json!({"boosting": {"positive": {"match_all": {}}, "negative_boost": 0.5}}),
        json!({"boosting": {"positive": {"match_all": {}}, "negative": {"match_all": {}}, "negative_boost": -1}}),
    ] {
        let answer = server.ask("POST", "/a/_search", &json!({"query": wrong}));
        assert_eq!(answer.status, 400, "{}", answer.text);
    }
}

#[test]
fn calls_that_are_not_here_are_named() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/a", &Value::Null);
    for (method, path, name) in [
        ("POST", "/_reindex", "_reindex"),
        ("GET", "/_nodes", "_nodes"),
        ("POST", "/a/_update_by_query", "_update_by_query"),
        ("PUT", "/_index_template/x", "_index_template"),
        ("PUT", "/_template/x", "_template"),
        ("POST", "/_sql", "_sql"),
        ("GET", "/_nodes/_all/http", "_nodes"),
        ("POST", "/a/_knn_search", "_knn_search"),
        ("PUT", "/_ingest/pipeline/x", "_ingest"),
    ] {
        let body = if method == "GET" { Value::Null } else { json!({}) };
        let answer = server.ask(method, path, &body);
        assert_eq!(answer.status, 400, "{method} {path}: {}", answer.text);
        let reason = answer.json()["error"]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains(&format!("[{name}]")), "{reason}");
        assert_eq!(answer.headers["x-elastic-product"], "Elasticsearch");
    }
    assert_eq!(server.ask("GET", "/a/b/c/d", &Value::Null).status, 404);
    assert_eq!(server.ask("PATCH", "/a", &Value::Null).status, 405);
}

#[test]
fn patterns_may_have_to_match() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({"t": "red"}));
    let all = json!({"query": {"match_all": {}}});
    for (method, path) in [
        ("HEAD", ""),
        ("GET", ""),
        ("POST", "/_search"),
        ("POST", "/_count"),
        ("POST", "/_delete_by_query"),
    ] {
        let body = if method == "POST" { all.clone() } else { Value::Null };
        let status = |index: &str, options: &str| {
            server.ask(method, &format!("/{index}{path}?{options}"), &body).status
        };
        assert_eq!(status("none*", "allow_no_indices=true"), 200, "{method} {path}");
        assert_eq!(status("none*", "allow_no_indices=false"), 404, "{method} {path}");
        assert_eq!(status("a,none*", "allow_no_indices=false"), 404, "{method} {path}");
        let none = "expand_wildcards=none";
        assert_eq!(status("a*", none), 200, "{method} {path}");
        assert_eq!(status("a*", &format!("{none}&allow_no_indices=false")), 404, "{method} {path}");
    }
    let count = |path: &str| server.ok("GET", path, &Value::Null)["count"].clone();
    assert_eq!(count("/a*/_count?expand_wildcards=none"), 0);
    assert_eq!(count("/a/_count?expand_wildcards=none"), 1);
    assert_eq!(count("/a*/_count?allow_no_indices=false"), 1);
    let lines = "{\"index\": \"none*\", \"allow_no_indices\": false}\n{}\n";
    let many = server.ok("POST", "/_msearch", &lines.into());
    assert_eq!(many["responses"][0]["status"], 404, "{many}");
    let read = server.ask("GET", "/a/_doc/1?realtime=false", &Value::Null);
    assert!(read.status == 200 && warnings(&read).contains("realtime"), "{:?}", read.headers);
}
