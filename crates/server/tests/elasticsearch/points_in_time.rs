//! Points in time, and orders over several indexes.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::common::{Running, start};

/// Adds documents 0 to `n`, with a year that some share and some lack.
fn fill(server: &Running, index: &str, from: usize, n: usize) {
    let lines = (from..from + n).map(|i| {
        let mut document = json!({"text": "apple", "n": i});
        if i % 4 > 0 {
            document["year"] = json!(2000 + i % 3);
        }
        format!("{}\n{document}\n", json!({"index": {"_id": format!("d{i:03}")}}))
    });
    let lines: String = lines.collect();
    server.ok("POST", &format!("/{index}/_bulk?refresh=true"), &lines.into());
}

fn open(server: &Running, index: &str) -> String {
    let opened = server.ok("POST", &format!("/{index}/_pit?keep_alive=1m"), &Value::Null);
    opened["id"].as_str().unwrap().to_owned()
}

/// Returns all ids, page by page.
fn pages(server: &Running, pit: &str, sort: &Value, size: usize) -> Vec<String> {
    let body = json!({"size": size, "sort": sort, "pit": {"id": pit, "keep_alive": "1m"}});
    ids(&hits_of(server, "/_search", body))
}

/// Returns all hits of a search page by page, continuing after the sort values of the last hit.
fn hits_of(server: &Running, path: &str, mut body: Value) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    loop {
        let page = server.ok("POST", path, &body);
        assert_eq!(page["pit_id"], body["pit"]["id"]);
        let hits = page["hits"]["hits"].as_array().unwrap().clone();
        let Some(last) = hits.last() else { return found };
        body["search_after"] = last["sort"].clone();
        found.extend(hits);
        assert!(found.len() <= 1000, "{body} does not come to an end");
    }
}

fn ids(hits: &[Value]) -> Vec<String> {
    hits.iter().map(|hit| hit["_id"].as_str().unwrap().to_owned()).collect()
}

/// Adds documents with few different scores, so that most of them tie with others and only the
/// document number differs.
fn fill_with_ties(server: &Running, index: &str, n: usize) -> Vec<String> {
    let lines = (0..n).map(|i| {
        let text = format!("apple{}{}", " pear".repeat(i % 3), " plum".repeat(i % 2 * 7));
        let mut document = json!({"text": text, "n": i, "half": i / 2});
        if i % 4 > 0 {
            document["year"] = json!(2000 + i % 3);
        }
        format!("{}\n{document}\n", json!({"index": {"_id": format!("{index}{i:02}")}}))
    });
    let lines: String = lines.collect();
    server.ok("POST", &format!("/{index}/_bulk?refresh=true"), &lines.into());
    (0..n).map(|i| format!("{index}{i:02}")).collect()
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

/// Writes to an index and refreshes it while `work` runs.
fn beside_writes<R>(server: &Running, index: &str, work: impl FnOnce() -> R) -> R {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0.. {
                if is_done.load(Ordering::Relaxed) {
                    return;
                }
                let document = json!({"text": "apple pear pear pear", "n": i, "year": 1990 + i});
                server.ok("PUT", &format!("/{index}/_doc/{index}{:02}?refresh", i % 20), &document);
                server.ok("PUT", &format!("/{index}/_doc/more{i}?refresh"), &document);
                server.ok("DELETE", &format!("/{index}/_doc/more{i}"), &Value::Null);
            }
        });
        let _done = Done(&is_done);
        work()
    })
}

/// Guard that reports the end of the work, even after a panic.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_point_in_time_does_not_see_what_comes_later() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server, "a", 0, 25);
    let pit = open(&server, "a");
    let wanted: Vec<String> = (0..25).map(|i| format!("d{i:03}")).collect();
    let by_number = json!([{"n": "asc"}]);
    assert_eq!(pages(&server, &pit, &by_number, 4), wanted);
    // Later writes, deletes, new fields, merges and refreshes do not affect a point in time.
    fill(&server, "a", 20, 10);
    server.ok("PUT", "/a/_doc/new?refresh", &json!({"text": "apple", "n": -1, "late": "field"}));
    server.ok("DELETE", "/a/_doc/d003?refresh", &Value::Null);
    server.ok("PUT", "/a/_doc/d004?refresh", &json!({"text": "pear", "n": 1000}));
    server.ok("POST", "/a/_forcemerge?max_num_segments=1", &Value::Null);
    server.ok("POST", "/a/_refresh", &Value::Null);
    for (sort, size) in
        [(&by_number, 7), (&json!(["_shard_doc"]), 3), (&json!([{"_shard_doc": "asc"}]), 25)]
    {
        assert_eq!(pages(&server, &pit, sort, size), wanted, "{sort}");
    }
    // Documents with equal values are ordered by number; none is lost or shown twice.
    for sort in [json!([{"year": "desc"}]), json!({"year": {"order": "asc", "missing": "_first"}})]
    {
        let mut found = pages(&server, &pit, &sort, 4);
        assert_eq!(found.len(), 25, "{sort}");
        found.sort();
        assert_eq!(found, wanted, "{sort}");
    }
    let query = json!({"query": {"match": {"text": "apple"}}, "size": 0, "track_total_hits": true});
    let mut of_pit = query.clone();
    of_pit["pit"] = json!({"id": pit});
    assert_eq!(server.ok("POST", "/_search", &of_pit)["hits"]["total"]["value"], 25);
    assert_eq!(server.ok("POST", "/a/_search", &query)["hits"]["total"]["value"], 29);

    let named = server.ask("POST", "/a/_search", &of_pit);
    assert_eq!(named.status, 400, "{}", named.text);
    assert_eq!(server.ask("POST", "/_search?scroll=1m", &of_pit).status, 400);
    assert_eq!(server.ok("DELETE", "/_pit", &json!({"id": pit}))["num_freed"], 1);
    assert_eq!(server.ask("DELETE", "/_pit", &json!({"id": pit})).status, 404);
    let gone = server.ask("POST", "/_search", &of_pit);
    assert_eq!(gone.status, 404);
    assert_eq!(gone.json()["error"]["type"], "search_context_missing_exception");
}

#[test]
fn points_in_time_are_few_and_end() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[("limits.points_in_time", 2.into())]);
    fill(&server, "a", 0, 3);
    let first = open(&server, "a");
    open(&server, "a");
    assert_eq!(server.ask("POST", "/a/_pit?keep_alive=1m", &Value::Null).status, 429);
    server.ok("DELETE", "/_pit", &json!({"id": first}));
    let short = server.ok("POST", "/a/_pit?keep_alive=20ms", &Value::Null);
    std::thread::sleep(std::time::Duration::from_millis(60));
    let body = json!({"pit": {"id": short["id"]}});
    assert_eq!(server.ask("POST", "/_search", &body).status, 404);
    assert_eq!(server.ask("POST", "/a/_pit", &Value::Null).status, 400);
    assert_eq!(server.ask("POST", "/a/_pit?keep_alive=soon", &Value::Null).status, 400);
    assert_eq!(server.ask("POST", "/a/_pit?keep_alive=-1", &Value::Null).status, 400);
    assert_eq!(server.ask("POST", "/none/_pit?keep_alive=1m", &Value::Null).status, 404);
    // OpenSearch has different routes for the same feature.
    let opened = server.ok("POST", "/a/_search/point_in_time?keep_alive=1m", &Value::Null);
    let id = opened["pit_id"].as_str().unwrap();
    assert_eq!(pages(&server, id, &json!(["n"]), 2), ["d000", "d001", "d002"]);
    let closed = server.ok("DELETE", "/_search/point_in_time", &json!({"pit_id": [id, "none"]}));
    assert_eq!(closed["pits"][0]["successful"], true);
    assert_eq!(closed["pits"][1]["successful"], false);
    let closed = server.ok("DELETE", "/_search/point_in_time/_all", &Value::Null);
    assert_eq!(closed["pits"].as_array().unwrap().len(), 1);
    open(&server, "a");
    open(&server, "a");
}

#[test]
fn hits_of_several_indexes_are_in_one_order() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server, "a", 0, 10);
    fill(&server, "b", 10, 10);
    server.ok("PUT", "/c/_doc/bare?refresh", &json!({"text": "apple"}));
    let all = |order: &str| {
        let sort = json!([{"n": {"order": order, "unmapped_type": "long"}}]);
        server.ids("a,b,c", &json!({"sort": sort, "size": 100}))
    };
    let mut wanted: Vec<String> = (0..20).map(|i| format!("d{i:03}")).collect();
    wanted.push("bare".into());
    assert_eq!(all("asc"), wanted);
    wanted[..20].reverse();
    assert_eq!(all("desc"), wanted);
    let page = json!({"sort": [{"n": "asc"}], "size": 3, "search_after": [8]});
    assert_eq!(server.ids("a,b", &page), ["d009", "d010", "d011"]);
    let pit = open(&server, "a,b");
    for sort in [json!(["n"]), json!(["_shard_doc"])] {
        let found = pages(&server, &pit, &sort, 3);
        assert_eq!(found, (0..20).map(|i| format!("d{i:03}")).collect::<Vec<_>>(), "{sort}");
    }
    let mut found = pages(&server, &pit, &json!([{"year": "desc"}]), 3);
    found.sort();
    assert_eq!(found, (0..20).map(|i| format!("d{i:03}")).collect::<Vec<_>>());
    let wrong = json!({"sort": ["n"], "search_after": [1, 2]});
    assert_eq!(server.ask("POST", "/a,b/_search", &wrong).status, 400);
}

#[test]
fn pages_have_every_hit_once_in_every_order() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let all = fill_with_ties(&server, "a", 45);
    let query = json!({"match": {"text": "apple pear"}});
    let by_score = server.ids("a", &json!({"query": query, "size": 1000}));
    let pit = open(&server, "a");
    let orders = [
        (json!("_score"), 2),
        (json!(["_score"]), 2),
        (json!(["_score", "_shard_doc"]), 2),
        (json!(["_score", "_doc"]), 3),
        (json!([{"_score": "asc"}]), 2),
        (json!(["_score", {"_shard_doc": "desc"}]), 2),
        (json!([{"_score": "asc"}, {"_doc": "desc"}]), 3),
        (json!(["_score", {"year": "desc"}]), 3),
        (json!([{"_score": "asc"}, {"year": {"order": "asc", "missing": "_first"}}]), 3),
        (json!([{"year": {"order": "desc", "missing": "_first"}}, "_score"]), 3),
        (json!(["half"]), 2),
        (json!(["_doc"]), 2),
        (json!([{"_doc": "desc"}]), 2),
        (json!(["year", "_doc", "n"]), 4),
        (json!([{"none": {"order": "asc", "unmapped_type": "long"}}]), 2),
        (json!([{"none": {"order": "asc", "unmapped_type": "long"}}, "_score"]), 3),
        (json!(["half", "half", "half", "half", "half", "half", "half", "half"]), 9),
    ];
    beside_writes(&server, "a", || {
        for (sort, values) in &orders {
            let search = |size: usize| json!({"query": query, "size": size, "sort": sort, "pit": {"id": pit}});
            let whole = server.ok("POST", "/_search", &search(1000));
            let whole = whole["hits"]["hits"].as_array().unwrap();
            assert_eq!(sorted(ids(whole)), all, "{sort}");
            if *sort == json!("_score") {
                assert_eq!(ids(whole), by_score);
            }
            let numbers = whole.iter().map(|hit| {
                let of_hit = hit["sort"].as_array().unwrap();
                assert_eq!(of_hit.len(), *values, "{sort}: {hit}");
                of_hit[values - 1].as_u64().unwrap()
            });
            assert_eq!(numbers.collect::<HashSet<u64>>().len(), 45, "{sort}");
            for size in [1, 7, 1000] {
                let found = hits_of(&server, "/_search", search(size));
                assert!(found == *whole, "{sort} in pages of {size}: {:?}", ids(&found));
            }
        }
    });
}

#[test]
fn pages_over_several_indexes_have_every_hit_once() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let mut all = fill_with_ties(&server, "a", 12);
    all.extend(fill_with_ties(&server, "b", 9));
    server.ok("PUT", "/c/_doc/bare?refresh", &json!({"text": "apple"}));
    all.push("bare".into());
    let pit = open(&server, "a,b,c");
    let query = json!({"match": {"text": "apple pear"}});
    for sort in [
        json!(["_score"]),
        json!(["_score", "_doc"]),
        json!([{"_score": "asc"}, {"_shard_doc": "desc"}]),
        json!([{"half": {"order": "desc", "unmapped_type": "long"}}, "_score"]),
        json!(["_doc"]),
    ] {
        let search =
            |size: usize| json!({"query": query, "size": size, "sort": sort, "pit": {"id": pit}});
        let whole = ids(&hits_of(&server, "/_search", search(1000)));
        assert_eq!(sorted(whole.clone()), all, "{sort}");
        for size in [1, 4] {
            assert_eq!(ids(&hits_of(&server, "/_search", search(size))), whole, "{sort} {size}");
        }
    }
}

#[test]
fn pages_need_no_point_in_time_as_long_as_nothing_is_written() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let all = fill_with_ties(&server, "a", 45);
    let query = json!({"match": {"text": "apple pear"}});
    let first = |body: Value| server.ok("POST", "/a/_search", &body)["hits"].clone();
    for sort in [
        json!(["_score", "n"]),
        json!([{"n": "desc"}, "_score"]),
        json!(["_score", "_doc"]),
        json!([{"_score": "asc"}, {"_doc": "desc"}]),
        json!(["_doc"]),
        json!(["_doc", "year"]),
        json!([{"_doc": "desc"}]),
    ] {
        let search = |size: usize| json!({"query": query, "size": size, "sort": sort});
        let whole = first(search(1000));
        for size in [1, 7, 1000] {
            let found = hits_of(&server, "/a/_search", search(size));
            assert_eq!(sorted(ids(&found)), all, "{sort} in pages of {size}");
            assert_eq!(Value::Array(found), whole["hits"], "{sort} in pages of {size}");
        }
        // The best score is known if the best hit comes first.
        let is_best_first = sort[0] == "_score";
        assert_eq!(whole["max_score"].is_number(), is_best_first, "{sort}: {}", whole["max_score"]);
        let has_scores = sort.to_string().contains("_score");
        assert_eq!(whole["hits"][0]["_score"].is_number(), has_scores, "{sort}");
    }
    // As in Elasticsearch, the default order has no sort values. With `search_after`, it
    // continues after all hits with that score.
    let plain = first(json!({"query": query, "sort": ["_score"]}));
    assert_eq!(plain["hits"][0].get("sort"), None);
    assert!(plain["max_score"].is_number());
    // A minimum score works together with pages.
    let scored = |least: f64| {
        let body = json!({"query": query, "size": 4, "sort": ["_score", "n"], "min_score": least});
        hits_of(&server, "/a/_search", body)
    };
    let least = scored(0.0)[20]["_score"].as_f64().unwrap();
    let found = scored(least);
    assert!((21..45).contains(&found.len()), "{}", found.len());
    assert!(found.iter().all(|hit| hit["_score"].as_f64().unwrap() >= least));
    // Hits before a page count towards the total as well.
    let mut page = json!({"query": query, "size": 4, "sort": ["_score", "n"], "min_score": least});
    let whole = first(page.clone());
    assert_eq!(whole["total"], json!({"value": found.len(), "relation": "eq"}));
    page["search_after"] = whole["hits"][3]["sort"].clone();
    assert_eq!(first(page)["total"], whole["total"]);
}

#[test]
fn places_to_continue_after_are_read_or_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let all = fill_with_ties(&server, "a", 6);
    fill_with_ties(&server, "b", 3);
    let found = |body: Value| server.ids("a", &body);
    // No document has a value for the key: all of them come after any value, or before.
    let sort = |missing: &str| json!([{"none": {"order": "asc", "unmapped_type": "long", "missing": missing}}]);
    assert_eq!(found(json!({"sort": sort("_last"), "search_after": [5]})), all);
    assert!(found(json!({"sort": sort("_first"), "search_after": [5]})).is_empty());
    assert!(found(json!({"sort": sort("_last"), "search_after": [null]})).is_empty());
    // The number of a document in a further index.
    assert!(found(json!({"sort": ["_doc"], "search_after": [1_u64 << 32]})).is_empty());
    let pit = json!({"id": open(&server, "a"), "keep_alive": "1m"});
    // Without the value of the tie breaker, the page continues after all hits with equal values.
    let page = json!({"size": 10, "sort": ["half"], "pit": pit, "search_after": [1]});
    let page = server.ok("POST", "/_search", &page);
    assert_eq!(ids(page["hits"]["hits"].as_array().unwrap()), ["a04", "a05"]);
    for (path, body, wanted) in [
        ("/a/_search", json!({"sort": ["_shard_doc"]}), "without [point in time]"),
        ("/a/_search", json!({"sort": ["_doc"], "search_after": ["x"]}), "[_doc]"),
        ("/a/_search", json!({"sort": ["n", "_doc"], "search_after": [1, -1]}), "[_doc]"),
        ("/a,b/_search", json!({"sort": ["n", "_doc"], "search_after": [1, 1.5]}), "[_doc]"),
        ("/a/_search", json!({"sort": ["_score"], "search_after": ["x"]}), "not a score"),
        (
            "/a/_search",
            json!({"sort": ["_score", "n"], "search_after": [1]}),
            "1 value(s) but sort has 2",
        ),
        (
            "/_search",
            json!({"sort": ["_score"], "pit": pit, "search_after": [1, 2, 3]}),
            "3 value(s) but sort has 1",
        ),
        ("/a/_search?scroll=1m", json!({"sort": ["n"], "search_after": [1]}), "scroll"),
    ] {
        let answer = server.ask("POST", path, &body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.text);
        let reason = answer.json()["error"]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains(wanted), "{body}: {reason}");
    }
}
