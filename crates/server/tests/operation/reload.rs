//! Folders that other programs add, replace and remove while the server runs.

use std::path::Path;

use serde_json::{Value, json};
use warpseek::{Document, Index, IndexOptions, Progress};

use crate::common::{Running, start};

fn build(dir: &Path, texts: &[&str]) {
    let documents: Vec<Document> =
        texts.iter().enumerate().map(|(i, text)| Document::new(i.to_string(), "", *text)).collect();
    Index::build_from_documents(dir, documents, &IndexOptions::new(), &Progress::default())
        .unwrap();
}

fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it never happened: {what}");
}

fn matches(server: &Running, index: &str, text: &str) -> Option<u64> {
    let body = json!({"query": text, "count": true});
    let answer = server.ask("POST", &format!("/v1/indexes/{index}/search"), &body);
    (answer.status == 200).then(|| answer.json()["matches"].as_u64().unwrap())
}

#[test]
fn indexes_come_are_replaced_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let (data, beside) = (folder.path().join("data"), folder.path().join("beside"));
    let server = start(&data, &[]);
    // An index as created by `warpseek index -o`.
    build(&data.join("fruit"), &["apple", "apple pear"]);
    eventually("a new index", || matches(&server, "fruit", "apple") == Some(2));

    // The server holds the write lock, so nothing else can write to the index.
    let refused = Index::at(data.join("fruit")).add_files(&[], &Progress::default());
    assert!(refused.unwrap_err().to_string().contains("being written"));
    server.ok("PUT", "/v1/indexes/fruit/documents/x?refresh", &json!({"text": "apple plum"}));
    build(&beside, &["apple", "quince", "quince"]);
    std::fs::rename(data.join("fruit"), folder.path().join("old")).unwrap();
    std::fs::rename(&beside, data.join("fruit")).unwrap();
    assert_eq!(server.ask("POST", "/v1/indexes/fruit/reload", &Value::Null).status, 200);
    eventually("the new index", || matches(&server, "fruit", "quince") == Some(2));
    assert_eq!(matches(&server, "fruit", "plum"), Some(0));
    server.ok("PUT", "/v1/indexes/fruit/documents/y?refresh", &json!({"text": "quince"}));
    assert_eq!(matches(&server, "fruit", "quince"), Some(3));
    // Writes to the old index are still in its folder.
    let old = Index::at(folder.path().join("old"));
    assert!(old.verify(&Progress::default()).unwrap().problems.is_empty());
    old.live(warpseek::LiveOptions::new()).unwrap().close().unwrap();
    assert_eq!(old.snapshot().unwrap().statistics().documents, 3);

    std::fs::rename(data.join("fruit"), folder.path().join("gone")).unwrap();
    eventually("the end of it", || matches(&server, "fruit", "apple").is_none());
    assert_eq!(server.ask("POST", "/v1/indexes/fruit/reload", &Value::Null).status, 404);
}

#[test]
fn an_index_of_the_server_is_replaced_by_one_of_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let (data, beside) = (folder.path().join("data"), folder.path().join("beside"));
    let server = start(&data, &[]);
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({"title": "old title", "n": 1}));
    build(&beside, &["a new text"]);
    std::fs::rename(data.join("a"), folder.path().join("old")).unwrap();
    std::fs::rename(&beside, data.join("a")).unwrap();
    eventually("the new index", || matches(&server, "a", "text") == Some(1));
    assert_eq!(server.ok("GET", "/a/_doc/0", &Value::Null)["_source"]["text"], "a new text");
    server.end();
    let server = start(&data, &[]);
    assert_eq!(matches(&server, "a", "text"), Some(1));
}

#[test]
fn a_damaged_replacement_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let (data, beside) = (folder.path().join("data"), folder.path().join("beside"));
    build(&data.join("a"), &["good words"]);
    let server = start(&data, &[]);
    build(&beside, &["bad words", "bad words"]);
    let file = std::fs::read_dir(&beside).unwrap().map(|file| file.unwrap().path());
    let file = file.into_iter().find(|path| path.extension().is_some_and(|e| e == "post")).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    std::fs::rename(data.join("a"), folder.path().join("old")).unwrap();
    std::fs::rename(&beside, data.join("a")).unwrap();
    // Searches continue with the old contents, and writes that would be lost are refused.
    eventually("the end of writes", || {
        server.ask("PUT", "/v1/indexes/a/documents/1", &json!({"text": "x"})).status == 503
    });
    assert_eq!(matches(&server, "a", "words"), Some(1));
    // Every reload request reports the reason again.
    let name = file.file_name().unwrap().to_str().unwrap();
    for _ in 0..3 {
        let refused = server.ask("POST", "/v1/indexes/a/reload", &Value::Null);
        assert!(refused.status == 500 && refused.text.contains(name), "{}", refused.text);
    }
    // This also holds for an index that was never served.
    build(&data.join("b"), &["x"]);
    eventually("the other index", || matches(&server, "b", "x") == Some(1));
    let same = server.ok("POST", "/v1/indexes/b/reload", &Value::Null);
    assert_eq!((&same["reloaded"], same["reason"].is_string()), (&json!(false), true), "{same}");
    let bad = beside.with_file_name("worse");
    build(&bad, &["y"]);
    std::fs::write(bad.join("manifest"), "not a manifest").unwrap();
    std::fs::rename(&bad, data.join("c")).unwrap();
    for _ in 0..2 {
        let refused = server.ask("POST", "/v1/indexes/c/reload", &Value::Null);
        assert!(refused.status == 500 && refused.text.contains("manifest"), "{}", refused.text);
    }
    assert_eq!(server.ask("POST", "/v1/indexes/d/reload", &Value::Null).status, 404);
    // The next replacement is intact.
    std::fs::rename(data.join("a"), folder.path().join("bad")).unwrap();
    build(&beside, &["words", "words", "words"]);
    std::fs::rename(&beside, data.join("a")).unwrap();
    eventually("a good one", || matches(&server, "a", "words") == Some(3));
}
