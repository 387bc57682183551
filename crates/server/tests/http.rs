//! The server from the perspective of clients: real HTTP and real indexes.
#![allow(clippy::unwrap_used)]

mod common;

use common::start;
use serde_json::{Value, json};

const KEY: &str = "an-admin-key-of-some-length";
const READ: &str = "a-reading-key-of-some-length";

fn books() -> String {
    let lines = [
        json!({"index": {"_id": "1"}}),
        json!({"title": "Rust in practice", "meta": {"lang": "en", "year": 2019}, "id": "own id"}),
        json!({"index": {"_id": 2}}),
        json!({"title": "Memory models in Rust and C", "meta": {"lang": "de", "year": 2021}}),
        json!({"create": {"_id": "3"}}),
        json!({"title": "Gardens", "meta": {"lang": "en", "year": "2022"}, "scores": [1.5, 2.5]}),
    ];
    lines.map(|line| format!("{line}\n")).concat()
}

#[test]
fn fields_appear_as_documents_bring_them_and_survive_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let done = server.ok("PUT", "/books/_bulk?refresh=wait_for", &books().into());
    assert_eq!(done["errors"], false, "{done}");
    assert_eq!(done["items"][1]["index"]["_id"], "2");
    let check = |server: &common::Running| {
        assert_eq!(
            server.ids("books", &json!({"query": {"match": {"title": "rust"}}})),
            ["1", "2"]
        );
        assert_eq!(
            server.ids("books", &json!({"query": {"term": {"meta.lang.keyword": "en"}}})),
            ["1", "3"]
        );
        assert_eq!(
            server.ids("books", &json!({"query": {"range": {"meta.year": {"gt": 2019}}}})),
            ["2", "3"]
        );
        assert_eq!(
            server.ids("books", &json!({"query": {"term": {"id.keyword": "own id"}}})),
            ["1"]
        );
        // The source is shown as it was sent, although the year was converted to a number for
        // searching.
        assert_eq!(
            server.ok("GET", "/books/_doc/3", &Value::Null)["_source"]["meta"]["year"],
            "2022"
        );
        let hidden =
            server.ask("POST", "/books/_search", &json!({"query": {"term": {"scores": 1.5}}}));
        assert!(hidden.status == 400 && hidden.text.contains("scores"), "{}", hidden.text);
    };
    check(&server);
    let before = server.ok("GET", "/books/_mapping", &Value::Null);
    // Later searches find a field of a later document, and earlier documents lack it.
    server.ok("PUT", "/books/_doc/4?refresh=true", &json!({"author": "Jane Austen"}));
    assert_eq!(server.ids("books", &json!({"query": {"match": {"author": "austen"}}})), ["4"]);
    check(&server);
    server.ok("DELETE", "/books/_doc/4?refresh", &Value::Null);
    server.end();

    let server = start(data.path(), &[]);
    check(&server);
    let after = server.ok("GET", "/books/_mapping", &Value::Null);
    assert_ne!(before, after);
    assert_eq!(after["books"]["mappings"]["properties"]["author"]["type"], "text");
    assert_eq!(
        server.ids("books", &json!({"query": {"match": {"author": "austen"}}})),
        [] as [&str; 0]
    );
}

#[test]
fn writes_are_seen_without_a_refresh_after_a_moment_and_by_id_at_once() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/a/_doc/1", &json!({"text": "soon"}));
    assert_eq!(server.ok("GET", "/a/_doc/1", &Value::Null)["found"], true);
    let query = json!({"query": {"match": {"text": "soon"}}});
    for _ in 0..12_000 {
        if server.ids("a", &query) == ["1"] {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the write never came into sight");
}

#[test]
fn an_index_that_the_command_line_made_is_served() {
    let data = tempfile::tempdir().unwrap();
    let documents = [
        warpseek::Document::new("a", "Apples", "An apple a day"),
        warpseek::Document::new("b", "Pears", "A pear and an apple"),
    ];
    let options = warpseek::IndexOptions::new();
    warpseek::Index::build_from_documents(
        data.path().join("fruit"),
        documents,
        &options,
        &warpseek::Progress::default(),
    )
    .unwrap();
    std::fs::create_dir(data.path().join("no-index")).unwrap();
    let server = start(data.path(), &[]);
    assert_eq!(server.ids("fruit", &json!({"query": {"match": {"text": "apples"}}})), ["a", "b"]);
    let found = server.ok(
        "POST",
        "/retrieve",
        &json!({"queries": ["pear", "nothing"], "topk": 1, "return_scores": true}),
    );
    assert_eq!(found["result"][0][0]["document"]["contents"], "\"Pears\"\nA pear and an apple");
    assert_eq!(found["result"][1], json!([]));
    server.ok("PUT", "/fruit/_doc/c?refresh=true", &json!({"title": "Plums", "text": "No apple"}));
    assert_eq!(server.ids("fruit", &json!({"query": {"match": {"title": "plum"}}})), ["c"]);
}

#[test]
fn keys_guard_everything_but_health() {
    let data = tempfile::tempdir().unwrap();
    let keys = data.path().join("keys");
    std::fs::write(&keys, format!("admin {KEY}\nread {READ}\n")).unwrap();
    let server = start(
        &data.path().join("data"),
        &[("api_key_file", keys.to_string_lossy().into_owned().into())],
    );
    let ask = |method: &str, path: &str, key: Option<&str>| {
        let header = key.map(|key| format!("Bearer {key}"));
        let headers: Vec<(&str, &str)> =
            header.iter().map(|header| ("authorization", header.as_str())).collect();
        server.send(method, path, &headers, None)
    };
    for path in ["/health", "/livez", "/readyz"] {
        assert_eq!(ask("GET", path, None).status, 200);
    }
    for path in ["/", "/_cat/indices", "/metrics", "/v1/indexes"] {
        assert_eq!(
            (ask("GET", path, None).status, ask("GET", path, Some(READ)).status),
            (401, 200),
            "{path}"
        );
    }
    let refused = ask("PUT", "/books", Some(READ));
    assert_eq!(
        (refused.status, refused.json()["error"]["type"].clone()),
        (403, json!("security_exception"))
    );
    assert_eq!(refused.headers["x-elastic-product"], "Elasticsearch");
    assert_eq!(ask("PUT", "/books", Some(KEY)).status, 200);
    assert_eq!(ask("POST", "/books/_search", Some(READ)).status, 200);
    assert_eq!(ask("DELETE", "/books", Some(READ)).status, 403);
}

#[test]
fn limits_have_their_errors_at_their_edges() {
    let data = tempfile::tempdir().unwrap();
    let settings = [
        ("limits.body", 1000.into()),
        ("limits.batch", 2.into()),
        ("limits.window", 20.into()),
        ("limits.query_text", 30.into()),
        ("limits.scrolls", 1.into()),
    ];
    let server = start(data.path(), &settings);
    let document = |bytes: usize| json!({"x": "a".repeat(bytes - 8)});
    assert_eq!(document(1000).to_string().len(), 1000);
    assert_eq!(server.ask("PUT", "/a/_doc/1?refresh=true", &document(1000)).status, 201);
    let large = server.ask("PUT", "/a/_doc/2", &document(1001));
    assert_eq!(
        (large.status, large.json()["error"]["type"].clone()),
        (413, json!("content_too_long_exception"))
    );
    let search = |size: usize| server.ask("POST", "/a/_search", &json!({"size": size})).status;
    assert_eq!((search(20), search(21)), (200, 400));
    let many = |n: usize| server.ask("POST", "/a/_msearch", &"{}\n{}\n".repeat(n).into()).status;
    assert_eq!((many(2), many(3)), (200, 400));
    let text = |bytes: usize| {
        server
            .ask("POST", "/a/_search", &json!({"query": {"match": {"x": "b".repeat(bytes)}}}))
            .status
    };
    assert_eq!((text(30), text(31)), (200, 400));
    let queries =
        |n: usize| server.ask("POST", "/retrieve", &json!({"queries": vec!["a"; n]})).status;
    assert_eq!((queries(2), queries(3)), (200, 400));
    let scroll = || server.ask("POST", "/a/_search?scroll=1m", &json!({"size": 1}));
    let first = scroll();
    assert_eq!((first.status, scroll().status), (200, 429));
    server.ok("DELETE", "/_search/scroll", &json!({"scroll_id": first.json()["_scroll_id"]}));
    assert_eq!(scroll().status, 200);
}

#[test]
fn a_scroll_stays_with_what_it_began_with() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let lines: String = (0..25)
        .map(|i| format!("{}\n{}\n", json!({"index": {"_id": i}}), json!({"n": i})))
        .collect();
    server.ok("POST", "/a/_bulk?refresh=true", &lines.into());
    let mut page =
        server.ok("POST", "/a/_search?scroll=1m", &json!({"size": 10, "sort": ["_doc"]}));
    server.ok("POST", "/a/_delete_by_query?refresh=true", &json!({"query": {"match_all": {}}}));
    assert_eq!(server.ok("GET", "/a/_count", &Value::Null)["count"], 0);
    let mut seen = Vec::new();
    while let Some(hits) = page["hits"]["hits"].as_array().filter(|hits| !hits.is_empty()) {
        assert_eq!(page["hits"]["total"]["value"], 25);
        seen.extend(hits.iter().map(|hit| hit["_source"]["n"].as_i64().unwrap()));
        page = server.ok(
            "POST",
            "/_search/scroll",
            &json!({"scroll_id": page["_scroll_id"], "scroll": "1m"}),
        );
    }
    assert_eq!(seen, (0..25).collect::<Vec<_>>());
    let gone = server.ask("POST", "/_search/scroll", &json!({"scroll_id": "nothing"}));
    assert_eq!(
        (gone.status, gone.json()["error"]["type"].clone()),
        (404, json!("search_context_missing_exception"))
    );
}

#[test]
fn hits_are_sorted_by_fields_and_pages_continue() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let year = |i: i64| (i % 5 != 4).then_some(2000 + i * 7 % 10);
    let document = |i: i64| match year(i) {
        Some(year) => json!({"n": i, "year": year, "name": format!("name {}", 30 - i)}),
        None => json!({"n": i, "name": format!("name {}", 30 - i)}),
    };
    let lines: String =
        (0..20).map(|i| format!("{}\n{}\n", json!({"index": {"_id": i}}), document(i))).collect();
    server.ok("POST", "/a/_bulk?refresh=true", &lines.into());
    // Descending years, documents without one last; ties in the order of documents.
    let mut wanted: Vec<i64> = (0..20).collect();
    wanted.sort_by_key(|&i| (year(i).is_none(), year(i).map(|year| -year), i));
    let sort = json!([{"year": {"order": "desc"}}, "n"]);
    let ids = |found: &Value| -> Vec<i64> {
        let hits = found["hits"]["hits"].as_array().unwrap();
        hits.iter().map(|hit| hit["_source"]["n"].as_i64().unwrap()).collect()
    };
    let all = server.ok("POST", "/a/_search", &json!({"size": 20, "sort": sort}));
    assert_eq!(ids(&all), wanted);
    let first = &all["hits"]["hits"][0];
    assert_eq!(
        (&first["sort"], &first["_score"]),
        (&json!([year(wanted[0]), wanted[0]]), &Value::Null)
    );
    assert_eq!(all["hits"]["hits"][19]["sort"], json!([null, wanted[19]]));
    assert_eq!(all["hits"]["total"]["value"], 20);
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let mut body = json!({"size": 6, "sort": sort});
        if let Some(after) = &after {
            body["search_after"] = Value::clone(after);
        }
        let page = server.ok("POST", "/a/_search", &body);
        let Some(last) = page["hits"]["hits"].as_array().unwrap().last() else { break };
        after = Some(last["sort"].clone());
        pages.extend(ids(&page));
    }
    assert_eq!(pages, wanted);
    let by_name = json!({"size": 3, "sort": "name.keyword:asc", "track_scores": true});
    let by_name = server.ok("POST", "/a/_search", &by_name);
    assert_eq!(
        (ids(&by_name), &by_name["hits"]["hits"][0]["_score"]),
        (vec![19, 18, 17], &json!(1.0))
    );
    // An order by score, which is the same for all documents here.
    let scores = json!({"size": 1, "sort": ["_score", "n"], "search_after": [1.0, 6]});
    assert_eq!(ids(&server.ok("POST", "/a/_search", &scores)), [7]);
    for (body, reason) in [
        (json!({"sort": "nothing"}), "No mapping found for [nothing]"),
        (json!({"sort": "name"}), "name.keyword"),
        (json!({"sort": ["year", "n"], "search_after": [1]}), "search_after has 1"),
        (json!({"sort": "year", "search_after": ["soon"]}), "soon"),
    ] {
        let refused = server.ask("POST", "/a/_search", &body);
        let found = refused.json()["error"]["reason"].as_str().unwrap_or("").to_owned();
        assert!(refused.status == 400 && found.contains(reason), "{body}: {found}");
    }
    let unmapped = json!({"size": 2, "sort": [{"nothing": {"unmapped_type": "long"}}, "n"]});
    let unmapped = server.ok("POST", "/a/_search", &unmapped);
    assert_eq!(
        (ids(&unmapped), &unmapped["hits"]["hits"][1]["sort"]),
        (vec![0, 1], &json!([null, 1]))
    );
    server.ok("PUT", "/b/_doc/1?refresh=true", &json!({"year": 1}));
    assert_eq!(server.ids("a,b", &json!({"sort": "year", "size": 1})), ["1"]);
}

#[test]
fn our_own_routes() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    assert_eq!(
        server
            .ask(
                "PUT",
                "/v1/indexes/a",
                &json!({"mappings": {"properties": {"t": {"type": "text"}}}})
            )
            .status,
        201
    );
    let done = server.ok("POST", "/v1/indexes/a/bulk?refresh=true", &"{\"id\": 1, \"t\": \"red\"}\n{\"t\": \"no id\"}\n{\"id\": \"2\", \"t\": \"red blue\"}\nno json\n".into());
    assert_eq!(
        (
            done["written"].clone(),
            done["errors"][0]["line"].clone(),
            done["errors"][1]["line"].clone()
        ),
        (json!(2), json!(2), json!(4))
    );
    let found = server.ok(
        "POST",
        "/v1/indexes/a/search",
        &json!({"query": "red", "k": 1, "count": true, "deadline_ms": 600_000}),
    );
    assert_eq!((found["hits"][0]["id"].clone(), found["matches"].clone()), (json!("1"), json!(2)));
    assert_eq!(
        found["coverage"],
        json!({"coverage": 100, "documents": 2, "of": 2, "full": true, "degraded": {"timeout": false}})
    );
    let batch = "{\"query\": \"blue\"}\n{\"query\": {\"knn\": {}}}\n{\"query\": {\"match\": {\"t\": \"red\"}}}\n";
    let many = server.ok("POST", "/v1/indexes/a/batch", &batch.into());
    assert_eq!(many["results"][0]["hits"][0]["id"], "2");
    assert!(many["results"][1]["error"]["reason"].as_str().unwrap().contains("knn"));
    assert_eq!(many["results"][2]["hits"].as_array().unwrap().len(), 2);
    assert_eq!(server.ask("PUT", "/v1/indexes/a/documents/x", &json!({"t": "green"})).status, 201);
    assert_eq!(
        server.ok("GET", "/v1/indexes/a/documents/x", &Value::Null)["document"],
        json!({"t": "green"})
    );
    assert_eq!(server.ask("DELETE", "/v1/indexes/a/documents/x", &Value::Null).status, 200);
    assert_eq!(server.ask("DELETE", "/v1/indexes/a/documents/x", &Value::Null).status, 404);
    let path = "/v1/indexes/a/documents/y";
    assert_eq!(
        server.ask("PUT", &format!("{path}?create"), &json!({"t": "green", "n": 1})).status,
        201
    );
    assert_eq!(server.ask("PUT", &format!("{path}?create"), &json!({"t": "red"})).status, 409);
    assert_eq!(server.ok("PATCH", path, &json!({"n": 2}))["result"], "updated");
    assert_eq!(server.ok("PATCH", path, &json!({"n": 2}))["result"], "noop");
    let changed = &server.ok("GET", path, &Value::Null)["document"];
    assert_eq!(*changed, json!({"t": "green", "n": 2}));
    assert_eq!(server.ask("PATCH", "/v1/indexes/a/documents/z", &json!({"n": 2})).status, 404);
    let added = server.ask("POST", "/v1/indexes/a/documents?refresh", &json!({"t": "green red"}));
    assert_eq!(added.status, 201);
    let added = added.json()["id"].as_str().unwrap().to_owned();
    let counted = server.ok("POST", "/v1/indexes/a/count", &json!({"query": "red green"}));
    assert_eq!((&counted["count"], &counted["coverage"]["full"]), (&json!(4), &json!(true)));
    assert_eq!(server.ask("POST", "/v1/indexes/a/count", &json!({"k": 1})).status, 400);
    let explain = |id: &str| format!("/v1/indexes/a/explain/{id}");
    let hits = server.ok("POST", "/v1/indexes/a/search", &json!({"query": "green"}));
    let explained = server.ok("POST", &explain(&added), &json!({"query": "green"}));
    let hit = hits["hits"].as_array().unwrap().iter().find(|hit| hit["id"] == *added).unwrap();
    assert_eq!((&explained["score"], &explained["matches"]), (&hit["score"], &json!(true)));
    assert_eq!(server.ok("POST", &explain("1"), &json!({"query": "green"}))["matches"], false);
    assert_eq!(server.ask("POST", &explain("none"), &json!({"query": "green"})).status, 404);
    let terms = server.ok("POST", "/v1/indexes/a/analyze", &json!({"text": "Two words"}));
    assert_eq!(terms["tokens"].as_array().unwrap().len(), 2);
    for id in ["y", &added] {
        server.ok("DELETE", &format!("/v1/indexes/a/documents/{id}?refresh"), &Value::Null);
    }
    assert_eq!(server.ok("GET", "/v1/indexes", &Value::Null)["indexes"][0]["documents"], 2);
    assert_eq!(server.ask("DELETE", "/v1/indexes/a", &Value::Null).status, 200);
    assert_eq!(server.ask("GET", "/v1/indexes/a", &Value::Null).status, 404);
    assert!(!data.path().join("a").exists());
}

#[test]
fn a_deadline_that_is_up_is_said() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({"text": "late"}));
    let body = json!({"query": {"match": {"text": "late"}}, "timeout": "1nanos"});
    let found = server.ok("POST", "/a/_search", &body);
    assert_eq!(
        (found["timed_out"].clone(), found["hits"]["total"]["relation"].clone()),
        (json!(true), json!("gte"))
    );
    let refused = server.ask("POST", "/a/_search?allow_partial_search_results=false", &body);
    assert_eq!(refused.status, 504);
}

#[test]
fn hostile_requests_are_refused_and_do_no_harm() {
    let data = tempfile::tempdir().unwrap();
    let outside = data.path().join("outside");
    std::fs::write(&outside, "secret").unwrap();
    let server = start(&data.path().join("data"), &[]);
    let deep =
        format!("{{\"query\": {}{}", "{\"bool\": {\"must\": ".repeat(5000), "}}".repeat(5000));
    for (method, path, body) in [
        ("PUT", "/..%2Foutside", Value::Null),
        ("GET", "/..%2Foutside/_doc/1", Value::Null),
        ("PUT", "/%2e%2e%2fx/_doc/1", json!({"a": 1})),
        ("DELETE", "/%2e%2e", Value::Null),
        ("PUT", "/a%00b", Value::Null),
        ("PUT", "/.warpseek", Value::Null),
        ("PUT", "/health2/_doc/1", json!([1])),
        ("PUT", "/a/_doc/1", json!({"": 1})),
        ("POST", "/_bulk", deep.clone().into()),
        ("POST", "/a/_search", deep.into()),
        ("POST", "/a/_search", json!({"size": 1e300})),
        ("POST", "/a/_search", json!({"query": {"match": {"a": "x".repeat(100_000)}}})),
        ("POST", "/retrieve", json!({"queries": [null]})),
        ("PATCH", "/a", Value::Null),
        ("GET", "/a/b/c/d", Value::Null),
    ] {
        let answer = server.ask(method, path, &body);
        assert!(
            (400..500).contains(&answer.status),
            "{method} {path}: {} {}",
            answer.status,
            answer.text
        );
        assert!(answer.json()["error"]["type"].is_string(), "{}", answer.text);
    }
    let long = server.ask("PUT", &format!("/a/_doc/{}", "i".repeat(1025)), &json!({"a": 1}));
    assert_eq!(long.status, 400, "{}", long.text);
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "secret");
    assert_eq!(server.ok("GET", "/health", &Value::Null)["status"], "available");
}

#[test]
fn metrics_and_small_things() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/m1/_doc/1?refresh=true", &json!({"text": "x"}));
    server.ids("m1", &json!({"query": {"match": {"text": "x"}}}));
    let metrics = server.ask("GET", "/metrics", &Value::Null).text;
    for name in [
        "warpseek_http_requests_total{method=\"POST\",route=\"/{index}/_search\",status=\"200\"}",
        "warpseek_http_request_duration_seconds_bucket",
        "warpseek_search_duration_seconds_bucket{index=\"m1\",device=\"cpu\"",
        "warpseek_search_queue_depth",
        "warpseek_index_documents{index=\"m1\"} 1",
        "warpseek_index_size_bytes{index=\"m1\"}",
        "warpseek_gpu_memory_bytes",
        "warpseek_build_info{version=",
    ] {
        assert!(metrics.contains(name), "{name}: {metrics}");
    }
    let answer =
        server.send("GET", "/", &[("x-request-id", "mine"), ("x-opaque-id", "yours")], None);
    assert_eq!(
        (answer.headers["x-request-id"].as_str(), answer.headers["x-opaque-id"].as_str()),
        ("mine", "yours")
    );
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(server.send("HEAD", "/m1", &[], None).status, 200);
    assert_eq!(server.send("HEAD", "/none", &[], None).status, 404);
    assert_eq!(server.ask("GET", "/_cat/count/m1?h=count", &Value::Null).text, "1\n");
    // An empty body with a JSON content type counts as no body.
    assert_eq!(
        server
            .send(
                "POST",
                "/m1/_count",
                &[("content-type", "application/vnd.elasticsearch+json; compatible-with=8")],
                Some(Vec::new())
            )
            .json()["count"],
        1
    );
    let warned = server.ask(
        "POST",
        "/m1/_search",
        &json!({"query": {"match": {"text": {"query": "x", "fuzziness": "AUTO"}}}}),
    );
    assert!(warned.headers["warning"].starts_with("299 warpseek \""), "{:?}", warned.headers);
}

#[test]
fn what_would_delete_too_much_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[("limits.hits", 20.into())]);
    for (index, id) in [("a", "1"), ("a", "2"), ("b", "1")] {
        let path = format!("/{index}/_doc/{id}?refresh=true");
        assert_eq!(server.ask("PUT", &path, &json!({"t": "red"})).status, 201);
    }
    for path in ["/a,", "/,", "/a,_all", "/a,b*", "/_all"] {
        assert_eq!(server.ask("DELETE", path, &Value::Null).status, 400, "{path}");
    }
    for body in
        [json!({"query": null}), json!({}), json!({"query": {"match_all": {}}, "max_docs": -1})]
    {
        let answer = server.ask("POST", "/a/_delete_by_query", &body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.text);
    }
    let some = json!({"query": {"match_all": {}}, "max_docs": "1"});
    assert_eq!(server.ok("POST", "/a/_delete_by_query?refresh=true", &some)["deleted"], 1);
    assert_eq!(server.ok("GET", "/a,b/_count", &Value::Null)["count"], 2);
    // The limit applies to the hits of all searches of a request together.
    let searches = |k: usize| format!("{{}}\n{{\"size\": 10}}\n{{}}\n{{\"size\": {k}}}\n");
    assert_eq!(server.ask("POST", "/a/_msearch", &searches(10).into()).status, 200);
    assert_eq!(server.ask("POST", "/a/_msearch", &searches(11).into()).status, 400);
    // Pages of other origins cannot write through a browser.
    let headers = [("origin", "https://elsewhere.example"), ("content-type", "text/plain")];
    let body = Some(br#"{"query": {"match_all": {}}}"#.to_vec());
    assert_eq!(server.send("POST", "/a/_delete_by_query", &headers, body).status, 403);
    // A folder that is being copied here is not overwritten.
    std::fs::create_dir(data.path().join("c")).unwrap();
    std::fs::write(data.path().join("c/000001.post"), "segment").unwrap();
    assert_eq!(server.ask("PUT", "/c/_doc/1", &json!({"t": "red"})).status, 400);
    assert!(data.path().join("c/000001.post").exists());
    // An alias of several indexes cannot be read as one index.
    let add = |index: &str| json!({"add": {"index": index, "alias": "both", "is_write_index": index == "a"}});
    server.ok("POST", "/_aliases", &json!({"actions": [add("a"), add("b")]}));
    let query = json!({"query": "red"});
    assert_eq!(server.ask("POST", "/v1/indexes/both/search", &query).status, 400);
    assert_eq!(server.send("GET", "/a/_count", &headers, None).status, 200);
}
