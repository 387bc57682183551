//! The cache of answers: it changes no answer, never serves an old one, and stays within its bound.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{self, Running};

/// Far more than dropping an old snapshot takes, also on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Starts a server that refreshes only on request, so that snapshots change only then.
fn start(data: &Path, settings: &[(&str, toml::Value)]) -> Running {
    let mut all = vec![("refresh_ms", 60_000.into())];
    all.extend(settings.iter().cloned());
    common::start(data, &all)
}

/// Returns a metric of the cache, or `None` if the server has no cache.
fn metric(server: &Running, name: &str) -> Option<f64> {
    let name = format!("warpseek_cache_{name}");
    let metrics = server.send("GET", "/metrics", &[], None).text;
    let line = metrics.lines().find(|line| line.split(' ').next() == Some(&name))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Returns the hits and misses so far.
fn counts(server: &Running) -> (u64, u64) {
    let count = |name| metric(server, name).unwrap() as u64;
    (count("hits_total"), count("misses_total"))
}

fn put(server: &Running, id: usize) {
    let color = ["red", "green", "blue"][id % 3];
    let text = format!("{color} fox {}", "jumps ".repeat(id % 5));
    let document = json!({"t": text, "color": color, "n": id});
    server.ok("PUT", &format!("/a/_doc/{id}"), &document);
}

fn refresh(server: &Running) {
    server.ok("POST", "/a/_refresh", &Value::Null);
}

fn with_documents(server: &Running, count: usize) {
    let fields =
        json!({"t": {"type": "text"}, "color": {"type": "keyword"}, "n": {"type": "long"}});
    server.ok("PUT", "/a", &json!({"mappings": {"properties": fields}}));
    (0..count).for_each(|id| put(server, id));
    refresh(server);
}

/// Removes what may differ between two answers to the same request: times, how the search was
/// executed, and the number of commits.
fn without_times(mut answer: Value) -> Value {
    if let Some(map) = answer.as_object_mut() {
        for key in ["took", "took_us", "device", "algorithm", "why", "steps", "generation"] {
            map.remove(key);
        }
    }
    match answer {
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(key, value)| (key, without_times(value))).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(without_times).collect()),
        other => other,
    }
}

/// Returns searches of all routes: method, path and body.
fn searches() -> Vec<(&'static str, Value)> {
    let fox = json!({"match": {"t": "fox jumps"}});
    let all = "{}\n{\"query\": {\"match\": {\"t\": \"red fox\"}}}\n\
        {\"request_cache\": false}\n{\"query\": {\"match\": {\"t\": \"blue\"}}}\n\
        {}\n{\"size\": 0, \"aggs\": {\"c\": {\"terms\": {\"field\": \"color\"}}}}\n";
    vec![
        ("/a/_search", json!({"query": fox})),
        ("/a/_search", json!({"query": fox, "from": 3, "size": 4, "explain": true})),
        ("/a/_search", json!({"query": fox, "highlight": {"fields": {"t": {}}}})),
        ("/a/_search", json!({"query": fox, "track_total_hits": true, "_source": false})),
        ("/a/_search", json!({"query": fox, "min_score": 0.1})),
        ("/a/_search", json!({"sort": [{"n": "desc"}], "search_after": [7]})),
        (
            "/a/_search",
            json!({"query": {"bool": {"must": [fox], "filter": [
            {"range": {"n": {"gte": 3, "lt": 11}}}]}}}),
        ),
        (
            "/a/_search",
            json!({"size": 0, "aggs": {
            "colors": {"terms": {"field": "color"}},
            "least": {"min": {"field": "n"}},
            "ranges": {"range": {"field": "n", "ranges": [{"to": 5}, {"from": 5}]}}}}),
        ),
        ("/a/_search?q=t:green", Value::Null),
        ("/_search", json!({"query": {"term": {"color": "red"}}, "seq_no_primary_term": true})),
        ("/a/_count", json!({"query": fox})),
        ("/a/_msearch", all.into()),
        ("/a/_explain/1", json!({"query": fox})),
        ("/v1/indexes/a/search", json!({"query": fox, "k": 3, "explain": true})),
        (
            "/v1/indexes/a/search",
            json!({"query": "red jumps", "count": true, "facets": [
            {"field": "color"}], "sort": [{"field": "n"}]}),
        ),
        ("/v1/indexes/a/batch", json!({"searches": [{"query": "red"}, {"query": fox}]})),
        ("/v1/indexes/a/count", json!({"query": "fox"})),
        ("/retrieve", json!({"queries": ["red fox", "blue"], "topk": 2, "return_scores": true})),
    ]
}

#[test]
fn answers_are_the_same_with_and_without_a_cache() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let cached = start(folders[0].path(), &[]);
    let plain = start(folders[1].path(), &[("cache", 0.into())]);
    for server in [&cached, &plain] {
        with_documents(server, 20);
    }
    let change = |round: usize, server: &Running| match round {
        0 => {}
        1 => (18..30).for_each(|id| put(server, id)),
        2 => drop(server.ok("DELETE", "/a/_doc/3", &Value::Null)),
        3 => {
            let query = json!({"query": {"term": {"color": "blue"}}});
            server.ok("POST", "/a/_delete_by_query", &query);
        }
        _ => drop(server.ok("POST", "/a/_forcemerge?max_num_segments=1", &Value::Null)),
    };
    for round in 0..5 {
        for server in [&cached, &plain] {
            change(round, server);
            refresh(server);
        }
        for (path, body) in searches() {
            let wanted = without_times(plain.ok("POST", path, &body));
            for attempt in 0..3 {
                let answer = without_times(cached.ok("POST", path, &body));
                assert_eq!(answer, wanted, "{path} {body}: round {round}, attempt {attempt}");
            }
        }
    }
    let (hits, misses) = counts(&cached);
    assert!(hits > misses && misses > 0, "{hits} hits, {misses} misses");
    let rate = metric(&cached, "hit_rate").unwrap();
    assert!((rate - hits as f64 / (hits + misses) as f64).abs() < 1e-9, "{rate}");
    assert_eq!(metric(&plain, "hits_total"), None);
}

#[test]
fn equal_searches_share_an_answer_whatever_their_route() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    with_documents(&server, 9);
    let query = json!({"match": {"t": "red fox"}});
    let search = json!({"query": query, "size": 5, "track_total_hits": false});
    let first = server.ok("POST", "/a/_search", &search);
    assert_eq!(counts(&server), (0, 1));
    // What is shown of hits does not matter.
    let other = json!({"query": query, "size": 3, "from": 2, "track_total_hits": false, "_source": false, "explain": true});
    server.ok("GET", "/a/_search", &other);
    assert_eq!(counts(&server), (1, 1));
    server.ok("POST", "/a/_msearch", &format!("{{}}\n{search}\n{{}}\n{search}\n").into());
    assert_eq!(counts(&server), (3, 1));
    let native = server.ok("POST", "/v1/indexes/a/search", &json!({"query": query, "k": 5}));
    assert_eq!((counts(&server), &native["device"]), ((4, 1), &json!("cache")));
    let ids = |hits: &Value, id: &str| -> Vec<Value> {
        hits.as_array().unwrap().iter().map(|hit| hit[id].clone()).collect()
    };
    assert_eq!(ids(&native["hits"], "id"), ids(&first["hits"]["hits"], "_id"));
    server.ok("POST", "/v1/indexes/a/batch", &json!({"searches": [{"query": query, "k": 5}]}));
    assert_eq!(counts(&server), (5, 1));
    // Searches that ask not to use the cache are not counted.
    let refused = server.ok("POST", "/a/_search?request_cache=false", &search);
    assert_eq!(without_times(refused), without_times(first));
    let lines = format!("{{\"request_cache\": false}}\n{search}\n").into();
    server.ok("POST", "/a/_msearch", &lines);
    server.ok("POST", "/a/_search?scroll=1m", &json!({"query": query}));
    assert_eq!(counts(&server), (5, 1));
    assert_eq!(server.ok("GET", "/v1/status", &Value::Null)["caches"]["answers"]["hits"], 5);
    let wrong = server.ask("POST", "/a/_search?request_cache=maybe", &search);
    assert_eq!(wrong.status, 400, "{}", wrong.text);
}

#[test]
fn no_answer_is_older_than_the_last_refresh() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    with_documents(&server, 3);
    let fox = json!({"query": {"match": {"t": "fox"}}, "size": 100});
    let found = || server.ids("a", &fox).len();
    for round in 0..20 {
        assert_eq!((found(), found()), (3 + round, 3 + round));
        put(&server, 3 + round);
        refresh(&server);
    }
    assert_eq!(found(), 23);
    server.ok("DELETE", "/a/_doc/0?refresh=true", &Value::Null);
    assert_eq!((found(), found()), (22, 22));
    // A new index of the same name has new answers.
    server.ok("DELETE", "/a", &Value::Null);
    with_documents(&server, 2);
    assert_eq!((found(), found()), (2, 2));
}

#[test]
fn entries_live_as_long_as_their_snapshot() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    with_documents(&server, 5);
    let fox = json!({"query": {"match": {"t": "fox"}}});
    let opened = server.ok("POST", "/a/_pit?keep_alive=1m", &Value::Null);
    let of_pit = json!({"query": {"match": {"t": "fox"}}, "pit": {"id": opened["id"]}});
    let total = |path: &str, body: &Value| {
        server.ok("POST", path, body)["hits"]["total"]["value"].as_u64().unwrap()
    };
    assert_eq!(total("/_search", &of_pit), 5);
    put(&server, 5);
    refresh(&server);
    assert_eq!((total("/a/_search", &fox), total("/_search", &of_pit)), (6, 5));
    let (hits, _) = counts(&server);
    assert_eq!((total("/a/_search", &fox), total("/_search", &of_pit)), (6, 5));
    assert_eq!(counts(&server).0, hits + 2);
    let wait_for = |entries: f64| {
        let start = Instant::now();
        while metric(&server, "entries") != Some(entries) {
            assert!(start.elapsed() < SOON, "{:?} entries", metric(&server, "entries"));
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait_for(2.0);
    server.ok("DELETE", "/_pit", &json!({"id": opened["id"]}));
    wait_for(1.0);
    server.ok("DELETE", "/a", &Value::Null);
    wait_for(0.0);
    assert_eq!(metric(&server, "bytes"), Some(0.0));
}

#[test]
fn the_cache_stays_within_its_bound() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[("cache", (256 << 10).into())]);
    with_documents(&server, 50);
    for i in 0..400 {
        let query = json!({"match": {"t": format!("red fox jumps {i}")}});
        server.ok("POST", "/a/_search", &json!({"query": query, "size": 50, "_source": false}));
    }
    let values = ["bytes", "entries", "evictions_total"].map(|name| metric(&server, name).unwrap());
    let [bytes, entries, evictions] = values;
    assert!(bytes <= f64::from(256 << 10) && bytes >= 500.0 * entries, "{values:?}");
    assert!(entries > 10.0 && evictions > 0.0, "{values:?}");
    assert_eq!(counts(&server), (0, 400));
}
