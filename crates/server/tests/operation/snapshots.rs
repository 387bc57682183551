//! Snapshots taken while documents are written, and their restoration.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::common::{Running, start};

fn url(folder: &Path) -> toml::Value {
    format!("file://{}", folder.display()).into()
}

/// Returns the ids, scores and documents of a search.
fn hits(server: &Running, index: &str, query: &str) -> Value {
    let body = json!({"query": query, "k": 1000, "count": true});
    let mut found = server.ok("POST", &format!("/v1/indexes/{index}/search"), &body);
    json!([found["hits"].take(), found["matches"].take()])
}

#[test]
fn a_snapshot_has_all_that_was_acknowledged_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let data = folder.path().join("data");
    let server = start(&data, &[("snapshots.url", url(&store))]);
    server.ok("PUT", "/quiet/_doc/1?refresh=true", &json!({"title": "a still index"}));
    server.ok("PUT", "/quiet/_doc/2?refresh=true", &json!({"title": "another still text", "n": 7}));
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (before, after) = std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let document = json!({"t": format!("common word{i}")});
                server.ok("PUT", &format!("/busy/_doc/{i}"), &document);
                acknowledged.store(i + 1, Ordering::Release);
                if i % 10 == 9 {
                    server.ok("POST", "/busy/_flush", &Value::Null);
                }
            }
        });
        while acknowledged.load(Ordering::Acquire) < 40 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let before = acknowledged.load(Ordering::Acquire);
        let made = server.ask("POST", "/v1/snapshots", &json!({"name": "first"}));
        assert_eq!(made.status, 201, "{}", made.text);
        let after = acknowledged.load(Ordering::Acquire);
        stop.store(true, Ordering::Relaxed);
        (before, after)
    });
    let listed = server.ok("GET", "/v1/snapshots", &Value::Null);
    let names: Vec<&str> = listed["snapshots"][0]["indexes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["name"].as_str().unwrap())
        .collect();
    assert_eq!((&listed["snapshots"][0]["name"], names), (&json!("first"), vec!["busy", "quiet"]));
    assert_eq!(
        server.ask("POST", "/v1/snapshots", &json!({"name": "first"})).json()["error"]["type"],
        "invalid_snapshot_name_exception"
    );

    let body = json!({"as": {"busy": "busy-2", "quiet": "quiet-2"}});
    let restored = server.ok("POST", "/v1/snapshots/first/restore", &body);
    assert_eq!(restored["restored"], json!(["busy-2", "quiet-2"]));
    for i in 0..before {
        let found = server.ok("GET", &format!("/busy-2/_doc/{i}"), &Value::Null);
        assert_eq!(found["_source"]["t"], format!("common word{i}"));
    }
    let count = server.ok("GET", "/busy-2/_count", &Value::Null)["count"].as_u64().unwrap();
    assert!((before..=after + 1).contains(&count), "{before} {count} {after}");
    assert_eq!(hits(&server, "quiet-2", "still"), hits(&server, "quiet", "still"));
    assert_eq!(hits(&server, "quiet-2", "still")[1], 2);
    let mapping =
        |index: &str| server.ok("GET", &format!("/{index}/_mapping"), &Value::Null)[index].take();
    assert_eq!(mapping("quiet-2"), mapping("quiet"));
    // A restored index takes writes, and an existing index is never overwritten.
    server.ok("PUT", "/quiet-2/_doc/3?refresh=true", &json!({"new field": "still"}));
    assert_eq!(hits(&server, "quiet-2", "still")[1], 3);
    let there = server.ask("POST", "/v1/snapshots/first/restore", &json!({"indexes": ["quiet"]}));
    assert_eq!(there.json()["error"]["type"], "resource_already_exists_exception");
    server.ok("DELETE", "/quiet", &Value::Null);
    server.ok("POST", "/v1/snapshots/first/restore", &json!({"indexes": ["quiet"]}));
    assert_eq!(hits(&server, "quiet", "still")[1], 2);
    server.end();

    // At start, missing indexes are restored, and existing ones stay.
    let fresh = folder.path().join("fresh");
    let settings = [("snapshots.url", url(&store)), ("restore", "first".into())];
    let server = start(&fresh, &settings);
    assert_eq!(hits(&server, "quiet", "still")[1], 2);
    server.ok("DELETE", "/quiet/_doc/1?refresh=true", &Value::Null);
    server.end();
    let server = start(&fresh, &settings);
    assert_eq!(hits(&server, "quiet", "still")[1], 1);
    server.ok("DELETE", "/v1/snapshots/first", &Value::Null);
    assert_eq!(server.ok("GET", "/v1/snapshots", &Value::Null)["snapshots"], json!([]));
    assert_eq!(server.ask("GET", "/v1/snapshots/first", &Value::Null).status, 404);
    assert_eq!(std::fs::read_dir(&store).unwrap().count(), 0);
}

#[test]
fn a_damaged_snapshot_is_refused_by_the_name_of_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let server = start(&folder.path().join("data"), &[("snapshots.url", url(&store))]);
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({"t": "some text"}));
    server.ok("POST", "/v1/snapshots", &json!({"name": "s", "indexes": ["a"]}));
    let contents = server.ok("GET", "/v1/snapshots/s", &Value::Null);
    let files = contents["indexes"][0]["files"].as_array().unwrap();
    assert!(files.len() > 3);
    let refused = |name: &str| {
        let body = json!({"as": {"a": "b"}});
        let answer = server.ask("POST", "/v1/snapshots/s/restore", &body);
        assert_eq!(answer.status, 500);
        assert!(answer.text.contains(&format!("s/0/{name}")), "{name}: {}", answer.text);
        assert_eq!(server.ask("GET", "/b", &Value::Null).status, 404);
        assert!(!folder.path().join("data/b").exists());
    };
    for file in files {
        let name = file["name"].as_str().unwrap();
        let path = store.join("s/0").join(name);
        let good = std::fs::read(&path).unwrap();
        let mut bad = good.clone();
        *bad.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &bad).unwrap();
        refused(name);
        std::fs::write(&path, &good[..good.len() - 1]).unwrap();
        refused(name);
        std::fs::remove_file(&path).unwrap();
        refused(name);
        std::fs::write(&path, &good).unwrap();
    }
    server.ok("POST", "/v1/snapshots/s/restore", &json!({"as": {"a": "b"}}));
    assert_eq!(hits(&server, "b", "text"), hits(&server, "a", "text"));
    // The remains of a crash are not a snapshot; they can be removed and the name reused.
    std::fs::rename(store.join("s/snapshot.json"), store.join("s/away.json")).unwrap();
    assert_eq!(server.ok("GET", "/v1/snapshots", &Value::Null)["snapshots"], json!([]));
    assert_eq!(server.ask("POST", "/v1/snapshots/s/restore", &Value::Null).status, 404);
    server.ok("DELETE", "/v1/snapshots/s", &Value::Null);
    server.ok("POST", "/v1/snapshots", &json!({"name": "s"}));
}

#[test]
fn snapshots_need_a_place_and_proper_names() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[]);
    let answer = server.ask("POST", "/v1/snapshots", &Value::Null);
    assert!(answer.status == 400 && answer.text.contains("snapshots.url"), "{}", answer.text);
    drop(server);
    let server = start(folder.path(), &[("snapshots.url", "memory:///".into())]);
    for (body, wanted) in [
        (json!({"name": "../x"}), "../x"),
        (json!({"name": ".x"}), ".x"),
        (json!({"name": 7}), "name"),
        (json!({"indexes": []}), "indexes"),
        (json!({"indexes": ["none"]}), "none"),
        (json!({"indexes": ["none-*"]}), "none-*"),
        (json!({"index": "none"}), "index"),
    ] {
        let answer = server.ask("POST", "/v1/snapshots", &body);
        assert!(matches!(answer.status, 400 | 404) && answer.text.contains(wanted), "{body}");
    }
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({"t": "kept in memory"}));
    let made = server.ok("POST", "/v1/snapshots", &Value::Null);
    let name = made["name"].as_str().unwrap();
    server.ok("DELETE", "/a", &Value::Null);
    server.ok("POST", &format!("/v1/snapshots/{name}/restore"), &Value::Null);
    assert_eq!(hits(&server, "a", "kept")[1], 1);
}

#[test]
fn aliases_are_part_of_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let settings = [("snapshots.url", url(&store))];
    let server = start(&folder.path().join("data"), &settings);
    for (index, writes) in [("a-1", true), ("a-2", false)] {
        server.ok("PUT", &format!("/{index}/_doc/1?refresh=true"), &json!({"t": index}));
        server.ok("PUT", &format!("/{index}/_alias/all"), &json!({"is_write_index": writes}));
    }
    server.ok("PUT", "/b/_doc/1", &json!({"t": "b"}));
    server.ok("PUT", "/b/_alias/other", &Value::Null);
    let made = server.ok("POST", "/v1/snapshots", &json!({"name": "s", "indexes": ["a-*"]}));
    assert_eq!(made["aliases"], json!(["all"]));
    let aliases = |server: &Running| server.ok("GET", "/_alias", &Value::Null);
    let before = aliases(&server);
    // Restored under another name, an index does not get its aliases back by default.
    let renamed = json!({"indexes": ["a-1"], "as": {"a-1": "c"}});
    let restored = server.ok("POST", "/v1/snapshots/s/restore", &renamed);
    assert_eq!(restored, json!({"restored": ["c"], "aliases": []}));
    assert_eq!(aliases(&server)["c"], json!({"aliases": {}}));
    server.ok("DELETE", "/c", &Value::Null);
    // The current write index stays the write index.
    let asked = json!({"indexes": ["a-1"], "as": {"a-1": "c"}, "aliases": true});
    server.ok("POST", "/v1/snapshots/s/restore", &asked);
    assert_eq!(aliases(&server)["c"], json!({"aliases": {"all": {"is_write_index": false}}}));
    server.ok("DELETE", "/c", &Value::Null);
    server.ok("DELETE", "/a-1", &Value::Null);
    let restored = server.ok("POST", "/v1/snapshots/s/restore", &json!({"indexes": ["a-1"]}));
    assert_eq!(restored["aliases"], json!(["all"]));
    assert_eq!(aliases(&server), before);
    server.ok("DELETE", "/a-1", &Value::Null);
    server.ok("POST", "/v1/snapshots/s/restore", &json!({"indexes": ["a-1"], "aliases": false}));
    assert_eq!(aliases(&server)["a-1"], json!({"aliases": {}}));
    server.end();
    let fresh = folder.path().join("fresh");
    let server = start(&fresh, &[("snapshots.url", url(&store)), ("restore", "s".into())]);
    assert_eq!(server.ok("PUT", "/all/_doc/2", &json!({"t": "x"}))["_index"], "a-1");
    assert_eq!(server.ok("GET", "/all/_count", &Value::Null)["_shards"]["total"], 2);
    // An index now has the name of the alias.
    server.ok(
        "POST",
        "/_aliases",
        &json!({"actions": [{"remove": {"index": "a-*", "alias": "all"}}]}),
    );
    server.ok("DELETE", "/a-2", &Value::Null);
    server.ok("PUT", "/all", &Value::Null);
    let refused = server.ask("POST", "/v1/snapshots/s/restore", &json!({"indexes": ["a-2"]}));
    assert!(refused.status == 400 && refused.text.contains("[all]"), "{}", refused.text);
    assert_eq!(server.ask("HEAD", "/a-2", &Value::Null).status, 404);
}
