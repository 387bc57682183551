//! `/v1` beyond searches: options, bodies larger than memory, and n-gram indexes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warpseek::text::GramConfig;
use warpseek::{Document, Index, IndexOptions, LiveOptions};

use crate::common::{Running, start};

fn connect(server: &Running) -> TcpStream {
    TcpStream::connect(server.url.trim_start_matches("http://")).unwrap()
}

#[test]
fn options_that_are_not_there_are_refused_before_anything_is_done() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/v1/indexes/a", &Value::Null);
    for (method, path, wanted) in [
        ("PUT", "/v1/indexes/a/documents/1?refesh", "refresh, create"),
        ("PUT", "/v1/indexes/a/documents/1?refresh=wait_for", "true or false"),
        ("POST", "/v1/indexes/a/search?k=3", "[k]"),
        ("DELETE", "/v1/indexes/a?force", "[force]"),
        ("GET", "/v1/status?indexes=some", "true or false"),
    ] {
        let answer = server.ask(method, path, &json!({"t": "x"}));
        assert!(answer.status == 400 && answer.text.contains(wanted), "{path}: {}", answer.text);
    }
    assert_eq!(server.ask("GET", "/v1/indexes/a/documents/1", &Value::Null).status, 404);
    server.ok("PUT", "/v1/indexes/a/documents/1?refresh=true&create&pretty", &json!({"t": "x"}));
    let found =
        server.ask("POST", "/v1/indexes/a/search?filter_path=hits.id", &json!({"query": "x"}));
    assert_eq!(found.json(), json!({"hits": [{"id": "1"}]}));
}

#[test]
fn a_body_may_be_longer_than_a_request_may_have() {
    let data = tempfile::tempdir().unwrap();
    let settings = [("limits.body", 5000.into()), ("limits.bodies", 3_000_000.into())];
    let server = start(data.path(), &settings);
    server.ok("PUT", "/v1/indexes/a", &Value::Null);
    let (mut lines, mut wrong) = (String::new(), Vec::new());
    for i in 0..80_000 {
        match i % 10_000 {
            77 => lines += "{\"id\": \n",
            78 => lines += "{\"t\": \"no id\"}\n",
            79 => lines += &format!("{{\"id\": {i}, \"t\": \"{}\"}}\n", "long ".repeat(1001)),
            _ => {
                lines +=
                    &format!("{{\"id\": {i}, \"t\": \"common word{} of a line\"}}\r\n", i % 100);
            }
        }
        if (77..80).contains(&(i % 10_000)) {
            wrong.push(i + 1);
        }
    }
    // The last line has no line feed.
    lines += "{\"id\": \"last\", \"t\": \"common\"}";
    assert!(lines.len() > 3_000_000);
    let stored = server.ok("POST", "/v1/indexes/a/bulk?refresh", &lines.into());
    assert_eq!(
        (&stored["lines"], &stored["written"]),
        (&json!(80_001), &json!(80_001 - wrong.len())),
        "{stored}"
    );
    assert_eq!(stored["failed"], wrong.len());
    let mut failed: Vec<u64> =
        stored["errors"].as_array().unwrap().iter().map(|e| e["line"].as_u64().unwrap()).collect();
    failed.sort_unstable();
    assert_eq!(failed, wrong);
    let body = json!({"query": "common", "count": true, "k": 0});
    assert_eq!(server.ok("POST", "/v1/indexes/a/search", &body)["matches"], 80_001 - wrong.len());
    assert_eq!(
        server.ok("GET", "/v1/indexes/a/documents/last", &Value::Null)["document"]["t"],
        "common"
    );
    // Other requests are subject to the limit on bodies, and an endless line is not buffered.
    let large = json!({"t": "x".repeat(5000)});
    assert_eq!(server.ask("PUT", "/v1/indexes/a/documents/x", &large).status, 413);
    let mut endless = connect(&server);
    endless.write_all(b"POST /v1/indexes/a/bulk HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    while endless.write_all(chunk.as_bytes()).is_ok() {}
    let mut answer = Vec::new();
    let _ = endless.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert_eq!(server.ask("POST", "/v1/indexes/none/bulk", &"{}\n".into()).status, 404);
    let none = server.ok("POST", "/v1/indexes/a/bulk?refresh", &Value::Null);
    assert_eq!((&none["lines"], &none["written"]), (&json!(0), &json!(0)));
}

#[test]
fn bodies_together_have_a_limit() {
    let data = tempfile::tempdir().unwrap();
    let settings = [("limits.body", 3000.into()), ("limits.bodies", 3000.into())];
    let server = start(data.path(), &settings);
    let head = "PUT /a/_doc/1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 2000\r\n\r\n{\"t\": \"";
    let begin = || {
        let mut slow = connect(&server);
        slow.write_all(head.as_bytes()).unwrap();
        slow.write_all("x".repeat(1500).as_bytes()).unwrap();
        slow.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        slow
    };
    let mut slow = begin();
    let other = json!({"t": "y".repeat(1800)});
    let start = Instant::now();
    // Requests pass until the server has read what the first request has sent.
    let refused = loop {
        assert!(start.elapsed() < Duration::from_secs(60), "both have room");
        let answer = server.ask("PUT", "/b/_doc/1", &other);
        if answer.status == 429 {
            break answer;
        }
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text);
        // The slow request may be the one that is refused; then it already has its answer.
        if slow.peek(&mut [0]).is_ok() {
            slow = begin();
        }
    };
    slow.set_read_timeout(None).unwrap();
    assert!(refused.text.contains("limits.bodies"), "{}", refused.text);
    // Small requests pass, and requests without a body always do.
    assert_eq!(server.ask("PUT", "/b/_doc/2", &json!({"t": "y"})).status, 201);
    assert_eq!(server.ask("GET", "/b/_doc/2", &Value::Null).status, 200);
    slow.write_all(format!("{}\"}}", "x".repeat(2000 - 7 - 1500 - 2)).as_bytes()).unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    // Their memory is free again.
    for i in 3..9 {
        assert_eq!(server.ask("PUT", &format!("/b/_doc/{i}"), &other).status, 201);
    }
}

/// Checks that the lists of indexes include the n-gram index `grams` with its properties.
fn assert_lists_show_it(server: &Running) {
    server.ok("PUT", "/aside", &Value::Null);
    let kinds = |list: &Value| {
        let all = list["indexes"].as_array().unwrap().iter();
        all.map(|index| (index["name"].clone(), index["kind"].clone())).collect::<Vec<_>>()
    };
    let wanted = vec![(json!("aside"), json!("words")), (json!("grams"), json!("ngrams"))];
    assert_eq!(kinds(&server.ok("GET", "/v1/indexes", &Value::Null)), wanted);
    let status = server.ok("GET", "/v1/status", &Value::Null);
    assert_eq!(kinds(&status), wanted);
    let shown = &status["indexes"][1];
    assert_eq!((&shown["documents"], &shown["deleted"]), (&json!(2), &json!(0)));
    assert_eq!((&shown["ngrams"]["n"], &shown["fields"]), (&json!(3), &json!([])));
    assert_eq!(shown["residency"], json!({"gpu": null, "why_not": null, "gpus": []}));
    assert!(shown["bytes"].as_u64().unwrap() > 0);

    let cat = |path: &str| {
        let rows =
            server.ok("GET", &format!("/_cat/indices{path}?format=json&bytes=b"), &Value::Null);
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["index"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for path in ["", "/*", "/_all", "/grams,aside", "/*a*,grams"] {
        assert_eq!(cat(path), ["aside", "grams"], "{path}");
    }
    for path in ["/grams", "/gr*", "/grams,x*"] {
        assert_eq!(cat(path), ["grams"], "{path}");
    }
    assert_eq!(cat("/asi*"), ["aside"]);
    assert_eq!(server.ask("GET", "/_cat/indices/grams,none", &Value::Null).status, 404);
    let row = &server.ok("GET", "/_cat/indices/grams?format=json&bytes=b", &Value::Null)[0];
    assert_eq!((&row["docs.count"], &row["docs.deleted"]), (&json!("2"), &json!("0")));
    assert_eq!((&row["health"], &row["uuid"]), (&json!("green"), &json!("_na_")));
    assert_eq!(row["store.size"], shown["bytes"].to_string());
    let stats = server.ok("GET", "/_stats", &Value::Null);
    assert_eq!(stats["indices"]["grams"]["total"]["docs"]["count"], 2);
    assert_eq!(
        server.ok("GET", "/grams/_stats", &Value::Null)["_all"]["total"]["docs"]["count"],
        2
    );
    assert_eq!(server.ok("GET", "/_cluster/health", &Value::Null)["active_shards"], 2);
    assert_eq!(server.ok("GET", "/_cluster/health/grams", &Value::Null)["status"], "green");
    let metrics = server.send("GET", "/metrics", &[], None).text;
    assert!(metrics.contains("warpseek_index_documents{index=\"grams\"} 2"), "{metrics}");
    // Searches of all indexes skip it.
    assert_eq!(server.ok("GET", "/_count", &Value::Null)["count"], 0);
    server.ok("DELETE", "/aside", &Value::Null);
}

#[test]
fn an_index_of_n_grams_is_searched() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("grams");
    let index = Index::create_with(&dir, IndexOptions::new().grams(GramConfig::default())).unwrap();
    let mut writer = index.writer().unwrap();
    writer
        .add(Document::new(
            "tcp",
            "Slow Start",
            "TCP begins with slow start and congestion avoidance",
        ))
        .unwrap();
    writer.add(Document::new("other", "", "nothing of that kind at all")).unwrap();
    writer.commit().unwrap();
    drop(writer);
    let server =
        start(data.path(), &[("limits.window", 50.into()), ("limits.query_text", 100.into())]);
    let listed = server.ok("GET", "/v1/indexes", &Value::Null);
    assert_eq!(
        (&listed["indexes"][0]["name"], &listed["indexes"][0]["ngrams"]["n"]),
        (&json!("grams"), &json!(3))
    );
    assert_eq!(server.ok("GET", "/v1/indexes/grams", &Value::Null)["documents"], 2);
    assert_lists_show_it(&server);
    let search = |body: Value| server.ok("POST", "/v1/indexes/grams/ngram", &body);
    let found = search(json!({"query": "congestoin avoidence", "errors": 4, "verify": true}));
    let hit = &found["hits"][0];
    assert_eq!(
        (&hit["id"], hit["distance"].as_u64(), &found["coverage"]["full"]),
        (&json!("tcp"), Some(3), &json!(true)),
        "{found}"
    );
    assert_eq!(hit["document"]["title"], "Slow Start");
    let marked = hit["highlights"][0]["pieces"]
        .as_array()
        .unwrap()
        .iter()
        .find(|piece| piece["match"] == true);
    assert_eq!(marked.unwrap()["text"], "congestion avoidance");
    let found = search(json!({"query": "slow start", "misses": "0%", "documents": false}));
    assert_eq!(found["hits"], json!([{"id": "tcp", "score": found["ngrams"]}]));
    assert_eq!(search(json!({"query": "ab"}))["ngrams"], 0);
    for (body, wanted) in [
        (json!({}), "[query]"),
        (json!({"query": 7}), "[query]"),
        (json!({"query": "a", "k": 51}), "limits.window"),
        (json!({"query": "a", "candidates": 51}), "limits.window"),
        (json!({"query": "a".repeat(101)}), "limits.query_text"),
        (json!({"query": "a", "misses": "many"}), "[misses]"),
        (json!({"query": "a", "misses": 1, "errors": 1}), "cannot be combined"),
        (json!({"query": "a", "mises": 1}), "mises"),
    ] {
        let answer = server.ask("POST", "/v1/indexes/grams/ngram", &body);
        assert!(answer.status == 400 && answer.text.contains(wanted), "{body}: {}", answer.text);
    }
    // N-gram indexes refuse the routes for words, and vice versa. The errors name the right
    // route.
    for (method, path) in [
        ("POST", "/grams/_search"),
        ("PUT", "/grams/_doc/1"),
        ("DELETE", "/grams"),
        ("GET", "/grams"),
        ("GET", "/grams/_mapping"),
        ("GET", "/grams/_doc/tcp"),
        ("POST", "/grams/_count"),
        ("POST", "/grams/_refresh"),
        ("POST", "/v1/indexes/grams/count"),
        ("POST", "/v1/indexes/grams/refresh"),
        ("POST", "/v1/indexes/grams/search"),
    ] {
        let body = match method {
            "GET" | "DELETE" => Value::Null,
            _ if path.ends_with("refresh") => Value::Null,
            _ => json!({"query": {"match_all": {}}}),
        };
        let answer = server.ask(method, path, &body);
        assert!(
            answer.status == 400 && answer.text.contains("/v1/indexes/grams/ngram"),
            "{path}: {}",
            answer.text
        );
    }
    assert_eq!(server.ask("PUT", "/grams", &Value::Null).status, 400);
    server.ok("PUT", "/words/_doc/1?refresh=true", &json!({"t": "slow start"}));
    assert_eq!(server.ids("_all", &Value::Null).len(), 1);
    assert_eq!(
        server.ask("POST", "/v1/indexes/words/ngram", &json!({"query": "slow"})).status,
        400
    );
    assert_eq!(server.ask("POST", "/v1/indexes/none/ngram", &json!({"query": "slow"})).status, 404);
    // Other programs add documents to it, and replace it by an index of words.
    let mut writer = index.writer().unwrap();
    writer.add(Document::new("new", "", "another slow start")).unwrap();
    writer.commit().unwrap();
    drop(writer);
    let reload = || server.ok("POST", "/v1/indexes/grams/reload", &Value::Null);
    reload();
    assert_eq!(search(json!({"query": "slow start"}))["hits"].as_array().unwrap().len(), 2);
    assert_eq!(reload()["reloaded"], false);
    let beside = tempfile::tempdir().unwrap();
    std::fs::rename(&dir, beside.path().join("old")).unwrap();
    Index::create(beside.path().join("new"))
        .unwrap()
        .live(LiveOptions::new())
        .unwrap()
        .close()
        .unwrap();
    std::fs::rename(beside.path().join("new"), &dir).unwrap();
    reload();
    assert_eq!(server.ask("POST", "/grams/_search", &Value::Null).status, 200);
    assert_eq!(
        server.ok("GET", "/v1/indexes", &Value::Null)["indexes"].as_array().unwrap().len(),
        2
    );
}
