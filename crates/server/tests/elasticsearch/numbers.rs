//! Conditional writes: `if_seq_no` and `if_primary_term`.

use crate::common::{Answer, Running, start};
use serde_json::{Value, json};

/// Returns the `_seq_no` and `_primary_term` in a response.
fn numbers(answer: &Value) -> [Value; 2] {
    ["_seq_no", "_primary_term"].map(|key| answer[key].clone())
}

fn conditions(answer: &Value) -> String {
    format!("if_seq_no={}&if_primary_term={}", answer["_seq_no"], answer["_primary_term"])
}

fn is_conflict(answer: &Answer) {
    assert_eq!(answer.status, 409, "{}", answer.text);
    assert_eq!(answer.json()["error"]["type"], "version_conflict_engine_exception");
}

/// Reads the numbers of a document in every possible way, which must agree.
fn read(server: &Running, id: &str) -> [Value; 2] {
    let got = server.ok("GET", &format!("/a/_doc/{id}"), &Value::Null);
    let many = server.ok("POST", "/a/_mget", &json!({"ids": [id]}));
    server.ok("POST", "/a/_refresh", &Value::Null);
    let body = json!({"query": {"ids": {"values": [id]}}, "seq_no_primary_term": true});
    let found = server.ask("POST", "/a/_search", &body);
    assert!(!found.headers.contains_key("warning"), "{:?}", found.headers);
    let found = found.json();
    for other in [&many["docs"][0], &found["hits"]["hits"][0]] {
        assert_eq!(numbers(other), numbers(&got), "{other}");
    }
    numbers(&got)
}

#[test]
fn reads_and_searches_show_the_number_of_the_write() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let first = server.ok("PUT", "/a/_doc/1", &json!({"t": "ü \"red\"", "n": [7], "m": "8"}));
    assert!(first["_seq_no"].as_u64().unwrap() < 1 << 53, "{first}");
    assert_eq!(read(&server, "1"), numbers(&first));
    let noop = server.ok("POST", "/a/_update/1", &json!({"doc": {"m": "8"}}));
    assert_eq!((&noop["result"], numbers(&noop)), (&json!("noop"), numbers(&first)));
    let second = server.ok("POST", "/a/_update/1", &json!({"doc": {"m": "9", "new": 1.5}}));
    assert_ne!(numbers(&second), numbers(&first));
    assert_eq!(read(&server, "1"), numbers(&second));
    let bulk = "{\"index\": {\"_id\": \"2\"}}\n{\"t\": \"x\"}\n";
    let items = server.ok("POST", "/a/_bulk", &bulk.into());
    assert_eq!(read(&server, "2"), numbers(&items["items"][0]["index"]));
    // The numbers do not depend on merges, restarts or flushes.
    server.ok("POST", "/a/_forcemerge?max_num_segments=1", &Value::Null);
    assert_eq!(read(&server, "1"), numbers(&second));
    server.end();
    let server = start(data.path(), &[]);
    assert_eq!(read(&server, "1"), numbers(&second));
    let done = server.ask("PUT", &format!("/a/_doc/1?{}", conditions(&second)), &json!({"t": "z"}));
    assert_eq!(done.status, 200, "{}", done.text);
    // Hits show the numbers only on request.
    let hit = |body: Value| server.ok("POST", "/a/_search", &body)["hits"]["hits"][0].clone();
    let plain = hit(json!({}));
    assert!(plain.get("_seq_no").is_none(), "{plain}");
}

#[test]
fn stale_writes_are_conflicts() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let old = server.ok("PUT", "/a/_doc/1", &json!({"n": 1}));
    let new = server.ok("PUT", &format!("/a/_doc/1?{}", conditions(&old)), &json!({"n": 2}));
    assert_eq!(new["result"], "updated");
    // Versions increase from 1.
    assert_eq!((&old["_version"], &new["_version"]), (&json!(1), &json!(2)));
    let (stale, now) = (conditions(&old), conditions(&new));
    for (method, path) in [("PUT", "_doc"), ("POST", "_update"), ("DELETE", "_doc")] {
        let body = match method {
            "POST" => json!({"doc": {"n": 3}}),
            "PUT" => json!({"n": 3}),
            _ => Value::Null,
        };
        is_conflict(&server.ask(method, &format!("/a/{path}/1?{stale}"), &body));
        is_conflict(&server.ask(method, &format!("/a/{path}/missing?{now}"), &body));
        let term = format!("if_seq_no={}&if_primary_term=2", new["_seq_no"]);
        is_conflict(&server.ask(method, &format!("/a/{path}/1?{term}"), &body));
        for wrong in ["if_seq_no=1", "if_primary_term=1", "if_seq_no=x&if_primary_term=1"] {
            let refused = server.ask(method, &format!("/a/{path}/1?{wrong}"), &body);
            assert_eq!(refused.status, 400, "{wrong}: {}", refused.text);
        }
    }
    assert_eq!(server.ask("PUT", &format!("/a/_create/2?{now}"), &json!({})).status, 400);
    let upsert = json!({"doc": {"n": 3}, "doc_as_upsert": true});
    assert_eq!(server.ask("POST", &format!("/a/_update/1?{now}"), &upsert).status, 400);
    let line = |action: &str, document: &Value| {
        let about = json!({"_id": "1", "if_seq_no": document["_seq_no"], "if_primary_term": 1});
        format!("{}\n", json!({action: about}))
    };
    let lines = [
        line("index", &old) + "{\"n\": 4}\n",
        line("update", &old) + "{\"doc\": {\"n\": 4}}\n",
        line("delete", &old),
        line("update", &new) + "{\"doc\": {\"n\": 5}}\n",
        line("delete", &new),
    ];
    let items = server.ok("POST", "/a/_bulk", &lines.concat().into())["items"].clone();
    let statuses: Vec<&Value> = items
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item.as_object().unwrap().values().next().unwrap()["status"])
        .collect();
    assert_eq!(statuses, [409, 409, 409, 200, 409]);
    let now = server.ok("GET", "/a/_doc/1", &Value::Null);
    assert_eq!(now["_source"]["n"], 5);
    let gone = server.ok("DELETE", &format!("/a/_doc/1?{}", conditions(&now)), &Value::Null);
    assert_eq!(gone["result"], "deleted");
    is_conflict(&server.ask("PUT", &format!("/a/_doc/1?{}", conditions(&now)), &json!({"n": 6})));
}

#[test]
fn of_many_who_count_at_the_same_time_none_is_lost() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/a/_doc/1", &json!({"n": 0}));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut done = 0;
                while done < 10 {
                    let now = server.ok("GET", "/a/_doc/1", &Value::Null);
                    let next = json!({"n": now["_source"]["n"].as_u64().unwrap() + 1});
                    let (method, path, body) = match thread % 2 {
                        0 => ("PUT", "_doc", next),
                        _ => ("POST", "_update", json!({"doc": next})),
                    };
                    let path = format!("/a/{path}/1?{}", conditions(&now));
                    let answer = server.ask(method, &path, &body);
                    assert!(matches!(answer.status, 200 | 409), "{}", answer.text);
                    done += usize::from(answer.status == 200);
                }
            });
        }
    });
    assert_eq!(server.ok("GET", "/a/_doc/1", &Value::Null)["_source"]["n"], 40);
}

/// If several clients delete the same version of a document, exactly one succeeds.
#[test]
fn one_of_many_deletes_is_done() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    for round in 0..5 {
        let made = server.ok("PUT", "/a/_doc/1", &json!({"round": round}));
        let path = format!("/a/_doc/1?{}", conditions(&made));
        let delete = || server.ask("DELETE", &path, &Value::Null).status;
        let done: Vec<u16> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(delete)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(done.iter().filter(|status| **status == 200).count(), 1, "{done:?}");
        assert!(done.iter().all(|status| matches!(status, 200 | 409)), "{done:?}");
    }
}
