//! Long searches: they stop at their deadline with a partial result, and when the client
//! disconnects.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Running, start};

/// Far less than the searches below take without a limit, and far more than they take to stop on
/// a busy machine.
const SOON: Duration = Duration::from_secs(10);

/// Number of words in the long phrase and in each long document. A search makes billions of steps
/// for one document.
const PHRASE: usize = 12_000;
const DOCUMENT: usize = 400_000;
const DOCUMENTS: usize = 20;

/// Starts a server with an index of long documents that repeat one word.
fn with_long_documents(data: &Path, settings: &[(&str, toml::Value)]) -> Running {
    let mut all = vec![("limits.query_text", (1 << 20).into())];
    all.extend(settings.iter().cloned());
    let server = start(data, &all);
    server.ok("PUT", "/long", &Value::Null);
    let text = "fig ".repeat(DOCUMENT);
    for id in 0..DOCUMENTS {
        server.ok("PUT", &format!("/long/_doc/{id}"), &json!({"text": text}));
    }
    server.ok("POST", "/long/_refresh", &Value::Null);
    server
}

/// Returns the clause that takes long.
fn phrase() -> Value {
    json!({"match_phrase": {"text": {"query": "fig ".repeat(PHRASE), "slop": 5}}})
}

fn metric(server: &Running, name: &str) -> f64 {
    let metrics = server.send("GET", "/metrics", &[], None).text;
    let line = metrics.lines().find(|line| line.split([' ', '{']).next() == Some(name));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_sloppy_phrase_that_repeats_a_word() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/t/_doc/yes?refresh=true", &json!({"text": "fig ".repeat(3100)}));
    server.ok("PUT", "/t/_doc/no?refresh=true", &json!({"text": "fig plum ".repeat(1550)}));
    let clause = json!({"match_phrase": {"text": {"query": "fig ".repeat(200), "slop": 5}}});
    let asked = Instant::now();
    assert_eq!(server.ids("t", &json!({"query": clause})), ["yes"]);
    // A single one of these searches used to take seconds; this is a hundred of them.
    for _ in 0..50 {
        assert_eq!(server.ids("t", &json!({"query": {"bool": {"filter": [clause]}}})), ["yes"]);
    }
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
}

#[test]
fn every_clause_stops_at_its_deadline() {
    let data = tempfile::tempdir().unwrap();
    let server = with_long_documents(data.path(), &[("deadline_ms", 300.into())]);
    let bools = [
        phrase(),
        json!({"bool": {"filter": [phrase()]}}),
        json!({"bool": {"must": [{"match": {"text": "fig"}}], "must_not": [phrase()]}}),
        json!({"constant_score": {"filter": phrase()}}),
        json!({"dis_max": {"queries": [phrase(), {"match": {"text": "plum"}}]}}),
    ];
    for query in bools {
        let bodies = [
            json!({"query": query}),
            json!({"query": query, "sort": ["_doc"], "track_total_hits": true}),
            json!({"query": query, "sort": [{"_score": "asc"}], "highlight": {"fields": {"text": {}}}, "explain": true}),
        ];
        for body in bodies {
            let asked = Instant::now();
            let found = server.ok("POST", "/long/_search", &body);
            assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
            assert_eq!(found["timed_out"], true, "{found}");
            let strict =
                server.ask("POST", "/long/_search?allow_partial_search_results=false", &body);
            assert_eq!(strict.status, 504, "{}", strict.text);
        }
        let asked = Instant::now();
        let found = server.ok("POST", "/v1/indexes/long/search", &json!({"query": query}));
        assert_eq!(found["coverage"]["full"], false, "{found}");
        // A search that must not be partial fails instead.
        let body = json!({"query": query});
        for path in ["_count", "_delete_by_query", "_explain/0"] {
            let answer = server.ask("POST", &format!("/long/{path}"), &body);
            assert_eq!(answer.status, 504, "{path}: {}", answer.text);
        }
        assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
    }
    assert_eq!(server.ok("GET", "/long/_count", &Value::Null)["count"], DOCUMENTS);
    // Quick searches are unaffected.
    let quick = server.ok(
        "POST",
        "/long/_search",
        &json!({"query": {"match": {"text": "fig"}}, "size": 0}),
    );
    assert_eq!(
        (&quick["timed_out"], &quick["hits"]["total"]["value"]),
        (&json!(false), &json!(DOCUMENTS))
    );
}

#[test]
fn a_deadline_passes_in_the_queue_too_and_reads_by_id_are_not_held_up() {
    let data = tempfile::tempdir().unwrap();
    let server = with_long_documents(data.path(), &[]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let long = json!({"query": phrase()}).to_string();
    let clients: Vec<TcpStream> =
        (0..cores + 2).map(|_| begin(&server, "/long/_search", &long)).collect();
    wait_until("all cores search", || metric(&server, "warpseek_searches_running") >= cores as f64);
    let asked = Instant::now();
    let quick = json!({"query": {"match": {"text": "fig"}}, "timeout": "50ms"});
    let found = server.ok("POST", "/long/_search", &quick);
    assert_eq!(found["timed_out"], true, "{found}");
    let quick = json!({"query": {"match": {"text": "fig"}}, "deadline_ms": 50});
    let found = server.ok("POST", "/v1/indexes/long/search", &quick);
    assert_eq!(found["coverage"]["full"], false, "{found}");
    assert_eq!(server.ok("GET", "/long/_doc/0", &Value::Null)["found"], true);
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
    assert!(metric(&server, "warpseek_searches_running") >= cores as f64);
    drop(clients);
    wait_until("the searches end", || metric(&server, "warpseek_searches_running") == 0.0);
}

/// Sends a request and does not read the answer.
fn begin(server: &Running, path: &str, body: &str) -> TcpStream {
    let host = server.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n");
    stream
        .write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())
        .unwrap();
    stream
}

/// Sends a request and disconnects while it is being answered.
fn send_and_leave(server: &Running, path: &str, body: &str) {
    let abandoned = metric(server, "warpseek_abandoned_requests_total");
    let stream = begin(server, path, body);
    wait_until("the search begins", || metric(server, "warpseek_searches_running") > 0.0);
    // Longer than a search may run on a connection thread.
    std::thread::sleep(Duration::from_millis(100));
    assert!(metric(server, "warpseek_searches_running") > 0.0);
    drop(stream);
    wait_until("the server notices", || {
        metric(server, "warpseek_abandoned_requests_total") > abandoned
    });
    wait_until("the search ends", || metric(server, "warpseek_searches_running") == 0.0);
}

#[test]
fn searches_of_clients_that_leave_stop() {
    let data = tempfile::tempdir().unwrap();
    let server = with_long_documents(data.path(), &[]);
    let scored = json!({"query": phrase()}).to_string();
    let filtered = json!({"query": {"bool": {"filter": [phrase()]}}, "sort": ["_doc"]}).to_string();
    let counted = json!({"query": phrase(), "size": 0, "track_total_hits": true}).to_string();
    for body in [&scored, &filtered, &counted] {
        send_and_leave(&server, "/long/_search", body);
    }
    send_and_leave(&server, "/_search", &scored);
    send_and_leave(&server, "/v1/indexes/long/search", &scored);
    send_and_leave(&server, "/long/_msearch", &format!("{{}}\n{filtered}\n{{}}\n{scored}\n"));
    send_and_leave(&server, "/long/_count", &json!({"query": phrase()}).to_string());
    send_and_leave(&server, "/long/_explain/3", &json!({"query": phrase()}).to_string());
    // No other search waits behind them.
    let quick = json!({"query": {"match": {"text": "fig"}}, "size": 1, "_source": false});
    assert_eq!(server.ids("long", &quick).len(), 1);
}

#[test]
fn a_search_whose_time_is_up_does_not_wait_for_its_turn() {
    let data = tempfile::tempdir().unwrap();
    let server = with_long_documents(data.path(), &[]);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let running = || metric(&server, "warpseek_searches_running");
    let long = json!({"query": phrase()}).to_string();
    let streams: Vec<TcpStream> =
        (0..cores).map(|_| begin(&server, "/long/_search", &long)).collect();
    wait_until("all searches begin", || running() == cores as f64);
    let fig = json!({"match": {"text": "fig"}});
    let body = json!({"query": fig, "timeout": "20ms"});
    let found = server.ok("POST", "/long/_search", &body);
    assert_eq!((&found["timed_out"], &found["hits"]["hits"]), (&json!(true), &json!([])));
    let found = server.ok("POST", "/_search?timeout=20ms", &json!({"query": fig}));
    assert_eq!(found["timed_out"], true);
    let strict = server.ask("POST", "/long/_search?allow_partial_search_results=false", &body);
    assert_eq!(strict.status, 504, "{}", strict.text);
    let body = json!({"query": "fig", "deadline_ms": 20});
    let found = server.ok("POST", "/v1/indexes/long/search", &body);
    assert_eq!((&found["coverage"]["full"], &found["hits"]), (&json!(false), &json!([])));
    assert_eq!(running(), cores as f64, "the others ended by themselves");
    drop(streams);
    wait_until("all searches end", || running() == 0.0);
    let found = server.ok("POST", "/long/_search", &json!({"query": fig, "timeout": "1h"}));
    assert_eq!(found["timed_out"], false);
}

#[test]
fn a_deletion_whose_client_leaves_before_it_begins_deletes_nothing() {
    let data = tempfile::tempdir().unwrap();
    let server = with_long_documents(data.path(), &[]);
    let host = server.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    let body = json!({"query": phrase()}).to_string();
    let head = format!(
        "POST /long/_delete_by_query HTTP/1.1\r\nhost: {host}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let abandoned = metric(&server, "warpseek_abandoned_requests_total");
    stream.write_all((head + &body).as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    drop(stream);
    wait_until("the server notices", || {
        metric(&server, "warpseek_abandoned_requests_total") > abandoned
    });
    let left = Instant::now();
    server.end();
    assert!(left.elapsed() < SOON, "the deletion went on for {:?}", left.elapsed());
    let server = start(data.path(), &[]);
    assert_eq!(server.ok("GET", "/long/_count", &Value::Null)["count"], DOCUMENTS);
}
