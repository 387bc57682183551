//! The page at `/ui`, and the features of the API that it uses.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Answer, Running, start};
use serde_json::{Value, json};
use warpseek::{Document, Index, IndexOptions};

const KEY: &str = "an-admin-key-of-some-length";

/// Returns the files that the page refers to, and those that these refer to.
fn parts(server: &Running) -> Vec<(String, Answer)> {
    let mut parts = vec![("/ui/".to_owned(), server.ask("GET", "/ui/", &Value::Null))];
    let mut at = 0;
    while at < parts.len() {
        let text = parts[at].1.text.clone();
        let named = text.split(['"', '\'']).filter(|name| {
            let name = name.strip_prefix("./").unwrap_or(name);
            let stem = name.split_once('.');
            stem.is_some_and(|(stem, end)| {
                ["js", "css", "svg"].contains(&end) && stem.chars().all(|c| c.is_ascii_lowercase())
            })
        });
        for name in named {
            let path = format!("/ui/{}", name.strip_prefix("./").unwrap_or(name));
            if parts.iter().all(|(known, _)| *known != path) {
                let part = server.ask("GET", &path, &Value::Null);
                parts.push((path, part));
            }
        }
        at += 1;
    }
    parts
}

#[test]
fn every_part_is_there_and_none_asks_elsewhere() {
    let data = tempfile::tempdir().unwrap();
    let keys = data.path().join("keys");
    std::fs::write(&keys, format!("admin {KEY}\n")).unwrap();
    // The page itself needs no key, but its data does.
    let path = keys.to_string_lossy().into_owned();
    let server = start(&data.path().join("data"), &[("api_key_file", path.into())]);
    let bare = server.ask("GET", "/ui", &Value::Null);
    assert_eq!((bare.status, bare.headers["location"].as_str()), (308, "ui/"));
    assert_eq!(server.ask("GET", "/v1/status", &Value::Null).status, 401);
    let parts = parts(&server);
    assert_eq!(parts.len(), std::fs::read_dir("src/page").unwrap().count(), "one is not used");
    for (path, part) in &parts {
        assert_eq!(part.status, 200, "{path}");
        let kind = match path.rsplit_once('.').map(|(_, end)| end) {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/html; charset=utf-8",
        };
        assert_eq!(part.headers["content-type"], kind, "{path}");
        assert_eq!(part.headers["cache-control"], "no-cache", "{path}");
        assert_eq!(part.headers["x-content-type-options"], "nosniff", "{path}");
        let policy = &part.headers["content-security-policy"];
        assert!(policy.starts_with("default-src 'self';") && !policy.contains("unsafe"), "{path}");
        for scheme in ["https:", "//cdn", "@import", "data:", "url("] {
            assert!(!part.text.contains(scheme), "{path} has {scheme}");
        }
        // XML namespaces are not addresses that a browser requests.
        let text = part.text.replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains("http:"), "{path}");
        for unsafe_way in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
        {
            assert!(!part.text.contains(unsafe_way), "{path} has {unsafe_way}");
        }
        let tag = part.headers["etag"].as_str();
        let again = server.send("GET", path, &[("if-none-match", tag)], None);
        assert_eq!((again.status, again.text.as_str()), (304, ""), "{path}");
        assert_eq!(again.headers["etag"], tag);
        let other = server.send("GET", path, &[("if-none-match", "W/\"0\"")], None);
        assert_eq!(other.status, 200, "{path}");
    }
    // Only files of the page are accessible without a key.
    for path in ["/ui/none.js", "/ui/_search", "/ui/_doc/1", "/ui/../v1/status", "/UI"] {
        assert_eq!(server.ask("GET", path, &Value::Null).status, 401, "{path}");
    }
    assert_eq!(server.ask("POST", "/ui/", &Value::Null).status, 405);
}

fn shop() -> (tempfile::TempDir, Running) {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let mappings = json!({"mappings": {"properties": {
        "title": {"type": "text"}, "text": {"type": "text"}, "colour": {"type": "keyword"}, "year": {"type": "long"},
        "made": {"type": "date"}, "vector": {"type": "dense_vector"},
    }}});
    assert_eq!(server.ask("PUT", "/v1/indexes/shop", &mappings).status, 201);
    let documents = [
        json!({"id": "a", "title": "Red kettle", "text": "A kettle <b>for</b> tea & coffee", "colour": ["red", "black"], "year": 1999}),
        json!({"id": "b", "title": "Blue kettle", "text": "A kettle, a kettle and no pot", "colour": "blue", "year": 2005, "made": "2005-03-01"}),
        json!({"id": "c", "title": "Tea pot", "text": "For tea", "colour": "red", "year": 2012}),
        json!({"id": "d", "title": "Lamp", "text": "A lamp"}),
    ];
    let lines = documents.map(|document| format!("{document}\n")).concat();
    let done = server.ok("POST", "/v1/indexes/shop/bulk?refresh=true", &lines.into());
    assert_eq!(done, json!({"lines": 4, "written": 4, "failed": 0, "errors": []}));
    (data, server)
}

fn search(server: &Running, body: &Value) -> Value {
    server.ok("POST", "/v1/indexes/shop/search", body)
}

#[test]
fn facets_are_exact() {
    let (_data, server) = shop();
    let ranges = json!([{"to": 2000}, {"from": 2000, "to": 2012}, {"from": "2005"}]);
    let facets = json!([{"field": "colour", "top": 1}, {"field": "year", "ranges": ranges}, {"field": "made"}]);
    let all = json!({"query": {"match_all": {}}, "k": 0, "facets": facets});
    let want = json!([
        {"field": "colour", "values": [{"value": "red", "count": 2}], "other": 2, "distinct": 3, "missing": 1},
        {"field": "year", "ranges": [
            {"from": null, "to": 2000, "count": 1}, {"from": 2000, "to": 2012, "count": 1}, {"from": "2005", "to": null, "count": 2},
        ], "missing": 1},
        {"field": "made", "values": [{"value": "2005-03-01T00:00:00.000Z", "count": 1}], "other": 0, "distinct": 1, "missing": 3},
    ]);
    assert_eq!(search(&server, &all)["facets"], want);
    // Facets count all matches, whatever the page, and only matches.
    let narrowed = json!({"query": "kettle", "filter": {"terms": {"colour": ["red"]}}, "count": true, "facets": [{"field": "colour"}]});
    let found = search(&server, &narrowed);
    assert_eq!((found["matches"].clone(), found["hits"][0]["id"].clone()), (json!(1), json!("a")));
    assert_eq!(
        found["facets"][0]["values"],
        json!([{"value": "black", "count": 1}, {"value": "red", "count": 1}])
    );
    let many = server.ok("POST", "/v1/indexes/shop/batch", &json!({"searches": [all, narrowed]}));
    assert_eq!(many["results"][0]["facets"], want);
    assert_eq!(many["results"][1]["facets"], found["facets"]);
    assert!(many["results"][0].get("steps").is_none());
}

/// Returns the ids of the hits of a search, in order.
fn found(server: &Running, index: &str, body: &Value) -> Vec<String> {
    let found = server.ok("POST", &format!("/v1/indexes/{index}/search"), body);
    let hits = found["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn texts_are_read_by_the_syntax_if_that_is_asked_for() {
    let (_data, server) = shop();
    let read = |text: &str| {
        let mut ids = found(&server, "shop", &json!({"query": text, "syntax": true}));
        ids.sort_unstable();
        ids
    };
    for (text, want) in [
        ("title:kettle", vec!["a", "b"]),
        ("title:kettle -blue", vec!["a"]),
        ("+kettle +pot", vec!["b"]),
        ("\"red kettle\"", vec!["a"]),
        ("\"kettle red\"", vec![]),
        ("year:>=2005", vec!["b", "c"]),
        ("kettle year:[1999 TO 2005}", vec!["a"]),
        ("colour:red", vec!["a", "c"]),
        ("_id:(c d)", vec!["c", "d"]),
        ("-kettle", vec!["c", "d"]),
    ] {
        assert_eq!(read(text), want, "{text}");
    }
    // Without the syntax, signs are ignored.
    assert_eq!(found(&server, "shop", &json!({"query": "lamp -kettle"})).len(), 3);
    // A query of words alone has the same hits with the same scores in both modes.
    let hits = |syntax: bool| {
        search(&server, &json!({"query": "a kettle for tea", "syntax": syntax}))["hits"].clone()
    };
    assert_eq!(hits(true), hits(false));
    let counted = json!({"query": "title:kettle", "syntax": true});
    assert_eq!(server.ok("POST", "/v1/indexes/shop/count", &counted)["count"], 2);
    let searches = json!({"searches": [counted, {"query": "title:kettle"}]});
    let many = server.ok("POST", "/v1/indexes/shop/batch", &searches);
    assert_eq!(many["results"][0]["hits"].as_array().unwrap().len(), 2);
    // A syntax error is reported with its position.
    for (query, want) in [
        (json!("title:\"kettle"), "`\"` is not closed (character 7 of the query)"),
        (json!("yaer:2005"), "did you mean `year`?"),
        (json!("title:>3"), "text field"),
        (json!({"match_all": {}}), "[syntax]"),
        (json!("a".repeat(70_000)), "limits.query_text"),
    ] {
        let body = json!({"query": query, "syntax": true});
        let refused = server.ask("POST", "/v1/indexes/shop/search", &body);
        assert_eq!(refused.status, 400, "{}", refused.text);
        let reason = refused.json()["error"]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains(want), "{reason}");
    }
}

#[test]
fn an_index_says_whether_its_queries_have_a_syntax() {
    let data = tempfile::tempdir().unwrap();
    for (name, options) in
        [("words", IndexOptions::new()), ("positions", IndexOptions::new().positions(true))]
    {
        let index = Index::create_with(data.path().join(name), options).unwrap();
        let mut writer = index.writer().unwrap();
        writer.add(Document::new("1", "Red kettle", "for tea")).unwrap();
        writer.add(Document::new("2", "Tea pot", "no kettle")).unwrap();
        writer.commit().unwrap();
    }
    let server = start(data.path(), &[]);
    server.ok("PUT", "/v1/indexes/made", &Value::Null);
    let status = server.ok("GET", "/v1/status", &Value::Null);
    let all = status["indexes"].as_array().unwrap();
    let said: Vec<(&str, bool)> = all
        .iter()
        .map(|index| (index["name"].as_str().unwrap(), index["syntax"].as_bool().unwrap()))
        .collect();
    assert_eq!(said, [("made", true), ("positions", true), ("words", false)]);
    for index in ["words", "positions"] {
        let ids = found(&server, index, &json!({"query": "tea -pot", "syntax": true}));
        assert_eq!(ids, ["1"], "{index}");
        let hits = |syntax: bool| {
            let body = json!({"query": "kettle tea", "syntax": syntax});
            server.ok("POST", &format!("/v1/indexes/{index}/search"), &body)["hits"].clone()
        };
        assert_eq!(hits(true), hits(false), "{index}");
    }
    let phrase = json!({"query": "\"red kettle\"", "syntax": true});
    assert_eq!(found(&server, "positions", &phrase), ["1"]);
}

#[test]
fn hits_are_sorted_by_fields() {
    let (_data, server) = shop();
    let sorted = |sort: Value| {
        let body = json!({"query": {"match_all": {}}, "sort": sort});
        let found = search(&server, &body)["hits"].as_array().unwrap().clone();
        let shown = |hit: &Value| (hit["id"].as_str().unwrap().to_owned(), hit["sort"].clone());
        let (ids, values): (Vec<String>, Vec<Value>) = found.iter().map(shown).unzip();
        (ids.concat(), json!(values))
    };
    let years = json!([[2012], [2005], [1999], [null]]);
    assert_eq!(sorted(json!([{"field": "year", "order": "desc"}])), ("cbad".to_owned(), years));
    assert_eq!(sorted(json!([{"field": "year", "missing": "first"}])).0, "dabc");
    let two = json!([{"field": "colour", "order": "desc"}, {"field": "_doc", "order": "desc"}]);
    let values = json!([["red", 2], ["red", 0], ["blue", 1], [null, 3]]);
    assert_eq!(sorted(two), ("cabd".to_owned(), values));
    let made = json!([["2005-03-01T00:00:00.000Z"], [null], [null], [null]]);
    assert_eq!(sorted(json!([{"field": "made"}])).1, made);
    // In ascending order of scores; hits show their scores in any order.
    let body = json!({"query": "kettle tea", "sort": [{"field": "_score", "order": "asc"}]});
    let hits = search(&server, &body)["hits"].as_array().unwrap().clone();
    let scores: Vec<f64> = hits.iter().map(|hit| hit["score"].as_f64().unwrap()).collect();
    assert!(scores.len() == 3 && scores.is_sorted(), "{scores:?}");
    let usual = search(&server, &json!({"query": "kettle tea"}))["hits"].clone();
    assert!(usual[0].get("sort").is_none() && usual[0]["score"] == scores[2], "{usual}");
    // Pages follow each other in the order.
    let page = |from: usize| {
        let body =
            json!({"query": {"match_all": {}}, "sort": [{"field": "year"}], "k": 2, "from": from});
        found(&server, "shop", &body).concat()
    };
    assert_eq!((page(0).as_str(), page(2).as_str()), ("ab", "cd"));
    for (sort, want) in [
        (json!([{"field": "none"}]), "no such field"),
        (json!([{"field": "title"}]), "text field"),
        (json!([{"field": "vector"}]), "dense_vector"),
        (json!([{"field": "year", "order": "up"}]), "`asc` or `desc`"),
        (json!([{"field": "year", "mode": "max"}]), "unknown field `mode`"),
        (json!(["year"]), "an object with [field]"),
        (json!("year"), "[sort]"),
        (json!(vec![json!({"field": "year"}); 9]), "8"),
    ] {
        let body = json!({"query": "tea", "sort": sort});
        let refused = server.ask("POST", "/v1/indexes/shop/search", &body);
        assert_eq!(refused.status, 400, "{body}");
        let reason = refused.json()["error"]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains(want), "{body}: {reason}");
    }
}

#[test]
fn words_in_no_document_are_named() {
    let (_data, server) = shop();
    let missing = |body: Value| search(&server, &body)["missing"].clone();
    assert_eq!(missing(json!({"query": "kettle"})), json!([]));
    assert_eq!(missing(json!({"query": "Zebras kettle Okapi zebras"})), json!(["Zebras", "Okapi"]));
    assert_eq!(missing(json!({"query": "+title:Zebra kettle", "syntax": true})), json!(["Zebra"]));
    // A word that occurs only in another field is missing in this one.
    assert_eq!(missing(json!({"query": "title:coffee", "syntax": true})), json!(["coffee"]));
    assert_eq!(missing(json!({"query": {"match": {"text": "zebra tea"}}})), json!(["zebra"]));
    let many = json!({"searches": [{"query": "zebra"}, {"query": "tea"}]});
    let many = server.ok("POST", "/v1/indexes/shop/batch", &many);
    let missing = |answer: &Value| answer["missing"].clone();
    assert_eq!(
        (missing(&many["results"][0]), missing(&many["results"][1])),
        (json!(["zebra"]), json!([]))
    );
}

#[test]
fn pages_follow_each_other() {
    let (_data, server) = shop();
    let ids = |body: &Value| -> Vec<String> {
        let found = search(&server, body);
        let hits = found["hits"].as_array().unwrap();
        hits.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
    };
    let all = ids(&json!({"query": "kettle tea pot"}));
    assert_eq!(all.len(), 3);
    for from in 0..=4 {
        let page = ids(&json!({"query": "kettle tea pot", "k": 2, "from": from}));
        assert_eq!(page, all[from.min(3)..(from + 2).min(3)], "{from}");
    }
    let body = |from: u64| json!({"query": "tea", "k": 1, "from": from});
    assert_eq!(server.ask("POST", "/v1/indexes/shop/search", &body(9_999)).status, 200);
    let refused = server.ask("POST", "/v1/indexes/shop/search", &body(10_000));
    assert!(refused.status == 400 && refused.text.contains("limits.window"), "{}", refused.text);
}

#[test]
fn highlights_are_pieces_of_the_text_as_it_is() {
    let (_data, server) = shop();
    let body = json!({"query": "kettle coffee", "k": 1, "documents": false, "filter": {"ids": {"values": ["a"]}}, "highlight": {}});
    let found = search(&server, &body);
    let hit = &found["hits"][0];
    assert!(hit.get("document").is_none());
    let piece = |text: &str, is_match: bool| json!({"text": text, "match": is_match});
    assert_eq!(
        hit["highlights"],
        json!([
            {"field": "text", "pieces": [piece("A ", false), piece("kettle", true), piece(" <b>for</b> tea & ", false), piece("coffee", true)]},
            {"field": "title", "pieces": [piece("Red ", false), piece("kettle", true)]},
        ])
    );
    // Fields without a match are shown on request.
    let highlights = |highlight: Value| {
        let body = json!({"query": "coffee", "highlight": highlight});
        search(&server, &body)["hits"][0]["highlights"].clone()
    };
    assert_eq!(highlights(json!({"fields": ["title"]})), json!([]));
    let beginning = json!([{"field": "title", "pieces": [piece("Red kettle", false)]}]);
    assert_eq!(highlights(json!({"fields": ["title", "t*le"], "all": true})), beginning);
}

#[test]
fn explanations_add_up_exactly() {
    let (_data, server) = shop();
    let queries = [
        json!("kettle tea for nothing"),
        json!({"multi_match": {"query": "kettle tea", "fields": ["title^3", "text"], "type": "best_fields"}}),
        json!({"bool": {"must": [{"match": {"text": "kettle"}}], "should": [{"term": {"colour": "red"}}]}}),
        json!({"match_all": {}}),
    ];
    for query in queries {
        let found = search(&server, &json!({"query": query, "explain": true}));
        let hits = found["hits"].as_array().unwrap();
        assert!(hits.len() > 1, "{query}");
        for hit in hits {
            let explanation = &hit["explanation"];
            let number = |value: &Value| value.as_f64().unwrap();
            assert_eq!(explanation["score"], hit["score"], "{query}");
            let terms = explanation["terms"].as_array().unwrap();
            let sum = terms.iter().map(|term| number(&term["score"])).sum::<f64>();
            let rest = number(&explanation["static_score"]) + number(&explanation["other"]);
            assert_eq!(sum + rest, number(&hit["score"]), "{query}: {explanation}");
            if query.is_string() {
                assert_eq!(rest, 0.0);
            }
        }
    }
    let found = search(&server, &json!({"query": "kettle", "explain": true}));
    let best = &found["hits"][0];
    assert_eq!(best["id"], "b");
    let terms = best["explanation"]["terms"].as_array().unwrap();
    let text = terms.iter().find(|term| term["field"] == "text").unwrap();
    assert_eq!((text["term"].clone(), text["occurrences"].clone()), (json!("kettle"), json!(2)));
    assert_eq!((text["documents"].clone(), text["length"].clone()), (json!(2), json!(7)));
}

#[test]
fn answers_say_who_answered_and_how_long_it_took() {
    let (_data, server) = shop();
    let body = json!({"query": "kettle", "highlight": {}, "explain": true});
    let found = search(&server, &body);
    assert_eq!(found["device"], "CPU");
    assert!(!found["algorithm"].as_str().unwrap().is_empty(), "{found}");
    let steps = found["steps"].as_object().unwrap();
    let names = ["explain", "fetch", "highlight", "parse", "plan", "search", "wait"];
    assert_eq!(steps.keys().map(String::as_str).collect::<Vec<_>>(), names);
    for (name, time) in steps {
        assert!(time.as_f64().unwrap() > 0.0, "{name}");
    }
    let took = found["took_us"].as_f64().unwrap() / 1e3;
    let of_engine = steps["plan"].as_f64().unwrap() + steps["search"].as_f64().unwrap();
    assert!(of_engine <= took + 0.001, "{found}");
}

#[test]
fn what_is_wrong_is_said_and_nothing_is_ignored() {
    let (_data, server) = shop();
    for (body, want) in [
        (json!({"query": "a", "facet": []}), "unknown field `facet`"),
        (json!({"query": "a", "filter": "lang:en"}), "[filter] must be an object"),
        (json!({"query": "a", "facets": [{"field": "none"}]}), "no such field"),
        (json!({"query": "a", "facets": [{"field": "text"}]}), "text field"),
        (json!({"query": "a", "facets": [{"field": "vector"}]}), "dense_vector"),
        (json!({"query": "a", "facets": [{"field": "year", "ranges": [{"from": "x"}]}]}), "year"),
        (
            json!({"query": "a", "facets": [{"field": "year", "ranges": [{"from": []}]}]}),
            "not a valid bound",
        ),
        (json!({"query": "a", "facets": vec![json!({"field": "year"}); 33]}), "32"),
        (json!({"query": "a", "highlight": {"width": 2}}), "highlight.width"),
        (json!({"query": "a", "highlight": true}), "[highlight]"),
        (json!({"query": "a", "k": -1}), "[k]"),
        (json!({"query": "a", "filter": {"knn": {}}}), "knn"),
        (json!({"k": 1}), "query"),
        (json!(["a"]), "object"),
    ] {
        let refused = server.ask("POST", "/v1/indexes/shop/search", &body);
        assert_eq!(refused.status, 400, "{body}: {}", refused.text);
        let reason = refused.json()["error"]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains(want), "{body}: {reason}");
    }
    assert_eq!(server.ask("GET", "/v1/status?indexes=maybe", &Value::Null).status, 400);
}

#[test]
fn the_status_has_load_and_indexes() {
    let (_data, server) = shop();
    let before = server.ok("GET", "/v1/status", &Value::Null);
    assert_eq!(
        (before["load"]["searches_total"].clone(), before["device"].clone()),
        (json!(0), json!("cpu"))
    );
    assert_eq!(before["load"]["latency_ms"], Value::Null);
    assert_eq!(
        (before["gpus"].clone(), before["queues"]["searches"]["waiting"].clone()),
        (json!([]), json!(0))
    );
    let index = &before["indexes"][0];
    assert_eq!((index["name"].clone(), index["documents"].clone()), (json!("shop"), json!(4)));
    assert_eq!(
        index["fields"],
        json!([
            {"name": "colour", "type": "keyword"}, {"name": "made", "type": "date"}, {"name": "text", "type": "text"},
            {"name": "title", "type": "text"}, {"name": "vector", "type": "stored"}, {"name": "year", "type": "long"},
        ])
    );
    assert_eq!(index["residency"], json!({"gpu": null, "why_not": null, "gpus": []}));
    assert!(index["bytes"].as_u64().unwrap() > 0 && index["segments"].as_u64().unwrap() > 0);
    // Every kind of search is counted, including each search of a batch.
    search(&server, &json!({"query": "tea", "filter": {"term": {"colour": "red"}}}));
    search(&server, &json!({"query": "pot", "filter": {"term": {"colour": "red"}}}));
    server.ok(
        "POST",
        "/v1/indexes/shop/batch",
        &json!({"searches": [{"query": "a"}, {"query": "b"}]}),
    );
    server.ok("POST", "/shop/_search", &json!({"query": {"match_all": {}}}));
    server.ok("POST", "/retrieve", &json!({"queries": ["tea"], "index": "shop"}));
    server.ok(
        "POST",
        "/shop/_search",
        &json!({"query": {"match": {"title": "pot"}}, "timeout": "1nanos"}),
    );
    let after = server.ok("GET", "/v1/status?indexes=false", &Value::Null);
    let load = &after["load"];
    assert_eq!(
        (load["searches_total"].clone(), load["degraded_total"].clone()),
        (json!(7), json!(1))
    );
    assert!(after.get("indexes").is_none());
    if load["window_s"].as_f64().unwrap() < 9.0 {
        assert_eq!(load["searches"], 7);
        let rate = load["rate"].as_f64().unwrap() * load["window_s"].as_f64().unwrap();
        assert!((rate - 7.0).abs() < 1e-6, "{load}");
        let latency = |name: &str| load["latency_ms"][name].as_f64().unwrap();
        assert!(latency("p50") <= latency("p95") && latency("p95") <= latency("p99"), "{load}");
    }
    let filters = &after["caches"]["filters"];
    assert!(filters["hits"].as_u64().unwrap() >= 1, "{filters}");
    let deleted = server.ask("DELETE", "/v1/indexes/shop/documents/a?refresh", &Value::Null);
    assert_eq!(deleted.status, 200);
    let index = server.ok("GET", "/v1/status", &Value::Null)["indexes"][0].clone();
    assert_eq!(index["documents"], 3);
}
