//! Concurrent updates of one document.

use crate::common::{Running, start};
use serde_json::{Map, Value, json};

const THREADS: usize = 8;
const ROUNDS: usize = 20;

/// Runs `work` on several threads at the same time.
fn together(work: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
}

fn source(server: &Running, path: &str) -> Value {
    server.ok("GET", path, &Value::Null)["_source"].clone()
}

#[test]
fn updates_of_different_fields_are_never_lost() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let fields: Map<String, Value> = (0..THREADS).map(|i| (format!("n{i}"), json!(0))).collect();
    server.ok("PUT", "/counters/_doc/1", &json!({"n": fields, "text": "kept"}));
    together(|thread| {
        for round in 1..=ROUNDS {
            let doc = json!({"n": {format!("n{thread}"): round}});
            // Half of the updates are lines of a bulk request, in which the second must not undo
            // the first.
            if thread % 2 == 0 {
                let done = server.ok("POST", "/counters/_update/1", &json!({"doc": doc}));
                assert_eq!(done["result"], "updated", "{done}");
            } else {
                let line = json!({"update": {"_id": "1", "retry_on_conflict": 3}});
                let other = json!({"doc": {"b": {format!("b{thread}"): round}}});
                let bulk = format!("{line}\n{}\n{line}\n{other}\n", json!({"doc": doc}));
                let done = server.ok("POST", "/counters/_bulk", &bulk.into());
                assert_eq!(done["errors"], false, "{done}");
            }
        }
    });
    let after = source(&server, "/counters/_doc/1");
    for thread in 0..THREADS {
        assert_eq!(after["n"][format!("n{thread}")], ROUNDS, "{after}");
        let bulk = if thread % 2 == 0 { Value::Null } else { json!(ROUNDS) };
        assert_eq!(after["b"][format!("b{thread}")], bulk, "{after}");
    }
    assert_eq!(after["text"], "kept");
}

#[test]
fn one_upsert_creates_and_the_others_update() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/a", &json!({}));
    let created = std::sync::atomic::AtomicUsize::new(0);
    together(|thread| {
        for id in 0..5 {
            let body = json!({"doc": {format!("f{thread}"): thread}, "doc_as_upsert": true});
            let done = server.ok("POST", &format!("/a/_update/{id}"), &body);
            if done["result"] == "created" {
                created.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
    });
    assert_eq!(created.into_inner(), 5);
    for id in 0..5 {
        let after = source(&server, &format!("/a/_doc/{id}"));
        assert_eq!(after.as_object().unwrap().len(), THREADS, "{after}");
    }
}

#[test]
fn null_is_a_value_and_what_changes_nothing_is_not_written() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/a/_doc/1", &json!({"x": 1, "o": {"y": 2}, "year": "1999"}));
    let update = |body: &Value| server.ok("POST", "/a/_update/1", body)["result"].clone();
    assert_eq!(update(&json!({"doc": {"x": 1, "o": {"y": 2}}})), "noop");
    assert_eq!(update(&json!({"doc": {"x": 1}, "detect_noop": false})), "updated");
    assert_eq!(update(&json!({"doc": {"o": {"z": null}}})), "updated");
    let wanted = json!({"x": 1, "o": {"y": 2, "z": null}, "year": "1999"});
    assert_eq!(source(&server, "/a/_doc/1"), wanted);
    let missing = server.ask("POST", "/a/_update/2", &json!({"doc": {"x": 1}}));
    assert_eq!(missing.status, 404);
    assert_eq!(missing.json()["error"]["type"], "document_missing_exception");
    // A document that does not fit the mapping is refused, and the old one stays.
    let refused = server.ask("POST", "/a/_update/1", &json!({"doc": {"x": {"not": "a number"}}}));
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert_eq!(source(&server, "/a/_doc/1"), wanted);
}
