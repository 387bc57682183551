//! Hostile requests: each gets an answer that is not a server error, and nothing outside of the
//! data folder is touched or shown.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::common::start;

const SECRET: &str = "what-is-outside-of-the-folder";

const PARTS: [&str; 58] = [
    "a",
    "a",
    "a",
    "books",
    "_search",
    "_search",
    "_doc",
    "_doc",
    "_bulk",
    "_msearch",
    "_count",
    "_mget",
    "_mapping",
    "_settings",
    "_update",
    "_create",
    "_source",
    "_explain",
    "_analyze",
    "_refresh",
    "_all",
    "_delete_by_query",
    "_cat",
    "indices",
    "_cluster",
    "health",
    "_stats",
    "scroll",
    "v1",
    "v1",
    "indexes",
    "indexes",
    "documents",
    "batch",
    "search",
    "bulk",
    "refresh",
    "reload",
    "snapshots",
    "restore",
    "retrieve",
    "metrics",
    "*",
    "..",
    ".",
    "%2e%2e",
    "..%2f..%2fsecret",
    "%2e%2e%2fsecret",
    "%00",
    "a%00",
    "%ff%fe",
    "%",
    "%zz",
    ".warpseek",
    "..%5c..",
    "a%2fb",
    "1",
    "%C3%BC",
];

const BODIES: [&str; 34] = [
    "",
    "{}",
    "[]",
    "null",
    "7",
    "\"text\"",
    "{",
    "{\"",
    "\u{0}",
    "{\"query\": {\"match\": {\"t\": \"word\"}}}",
    "{\"query\": \"word\", \"k\": 18446744073709551616}",
    "{\"size\": 1e999}",
    "{\"size\": -1}",
    "{\"from\": 9223372036854775807, \"size\": 1}",
    "{\"query\": {\"range\": {\"n\": {\"gt\": 1e308, \"lt\": -1e308}}}}",
    "{\"query\": {\"term\": {\"n\": 99999999999999999999999}}}",
    "{\"query\": {\"terms\": {\"_id\": [1, null, {}]}}}",
    "{\"query\": {\"bool\": {\"must\": [[[]]]}}}",
    "{\"query\": {\"match\": {\"t\": {\"query\": \"w\", \"boost\": -1}}}}",
    "{\"query\": {\"query_string\": {\"query\": \"((((((\"}}}",
    "{\"query\": {\"query_string\": {\"query\": \"t:[* TO\"}}}",
    "{\"query\": {\"ids\": {\"values\": [\"../../secret\"]}}}",
    "{\"t\": \"\\ud800\"}",
    "{\"t\": \"word\", \"n\": 1}",
    "{\"a\": {\"a\": {\"a\": 1}}, \"a.a\": 2, \"\": 3, \".\": 4, \"..\": 5}",
    "{\"id\": \"../x\", \"t\": \"w\"}\n{\"id\": {}}\n",
    "{\"index\": {\"_index\": \"../b\", \"_id\": \"../x\"}}\n{\"t\": 1}\n",
    "{\"index\": {}}\n",
    "{\"index\": {\"_id\": 1}}\n{\"n\": \"no number\"}\n",
    "{\"delete\": {\"_id\": \"%00\"}}\n{\"nothing\": 1}\n",
    "{\"queries\": [\"word\", \"\"], \"topk\": 0}",
    "{\"mappings\": {\"properties\": {\"a\": {\"type\": \"../text\"}}}}",
    "{\"settings\": {\"analysis\": {\"analyzer\": {\"x\": {\"tokenizer\": \"none\"}}}}}",
    "{\"sort\": [{\"n\": {\"order\": 7}}], \"search_after\": [[]], \"_source\": 7, \"highlight\": {\"fields\": 3}}",
];

const OPTIONS: [&str; 12] = [
    "",
    "?refresh=true",
    "?size=99999999999999999999",
    "?from=-1",
    "?q=((",
    "?q=t:word&df=..",
    "?scroll=1d",
    "?filter_path=**.**.-",
    "?pretty",
    "?timeout=999999999999999999d",
    "?op_type=..",
    "?_source=../*",
];

/// Generates a body: one that is nearly valid, one that is deeply nested, or arbitrary bytes.
fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => select(&BODIES[..]).prop_map(|body| body.as_bytes().to_vec()),
        1 => (1usize..5000, select(vec!["[", "{\"bool\":", "{\"a\":", "[{\"x\":"])).prop_map(|(n, open)| open.repeat(n).into_bytes()),
        1 => (1usize..200).prop_map(|n| format!("{{\"query\": {}{}{}}}", "{\"bool\": {\"must\": ".repeat(n), "{}", "}}".repeat(n)).into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..200),
        1 => (select(&BODIES[..]), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(body, at, byte)| {
            let mut body = body.as_bytes().to_vec();
            if !body.is_empty() {
                let at = at.index(body.len());
                body[at] = byte;
            }
            body
        }),
    ]
}

fn path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        20 => select(&PARTS[..]).prop_map(str::to_owned),
        1 => (1usize..400).prop_map(|n| "n".repeat(n)),
        1 => "[a-z%.;=~+]{1,12}",
    ];
    (proptest::collection::vec(part, 0..6), select(&OPTIONS[..]))
        .prop_map(|(parts, options)| format!("/{}{options}", parts.join("/")))
}

/// Returns all files under a folder except those of the server.
fn files(folder: &Path, but: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path != but {
            found.extend(files(&path, but));
        }
        found.push(path);
    }
    found.sort();
    found
}

#[test]
fn every_request_gets_an_answer_and_stays_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("over").join("data");
    std::fs::create_dir_all(&data).unwrap();
    for place in [folder.path().to_owned(), folder.path().join("over")] {
        std::fs::write(place.join("secret"), SECRET).unwrap();
    }
    let before = files(folder.path(), &data);
    let server = start(&data, &[("limits.body", 200_000.into())]);
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({"t": "word", "n": 1}));
    let methods = select(vec![
        "GET", "POST", "POST", "POST", "PUT", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "NONE",
    ]);
    let kinds = select(vec![
        "application/json",
        "application/x-ndjson",
        "text/plain",
        "application/vnd.apache.arrow.stream",
        "application/json; charset=\u{7f}",
        "",
    ]);
    let encodings = select(vec![None, None, None, None, Some("gzip"), Some("br")]);
    let mut runner =
        TestRunner::new(Config { cases: 1000, failure_persistence: None, ..Config::default() });
    let requests = (methods, path(), kinds, encodings, body());
    runner
        .run(&requests, |(method, path, kind, encoding, body)| {
            let mut headers = vec![("content-type", kind), ("x-opaque-id", "a\tb")];
            headers.extend(encoding.map(|encoding| ("content-encoding", encoding)));
            let answer = server.send(method, &path, &headers, Some(body));
            prop_assert!(answer.status != 500, "{}", answer.text);
            prop_assert!((200..600).contains(&answer.status));
            prop_assert!(!answer.text.contains(SECRET), "{}", answer.text);
            Ok(())
        })
        .unwrap();
    // The server still works.
    server.ok("PUT", "/still-here/_doc/1?refresh=true", &json!({"t": "word"}));
    assert_eq!(server.ids("still-here", &json!({"query": {"match": {"t": "word"}}})), ["1"]);
    assert_eq!(server.ask("GET", "/health", &Value::Null).status, 200);
    server.end();
    assert_eq!(files(folder.path(), &data), before);
}
