//! Damage to files that the server has open.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use serde_json::{Value, json};
use warpseek::text::GramConfig;
use warpseek::{Document, Index, IndexOptions, Progress};

use crate::common::{Running, start};

fn build(dir: &Path, options: &IndexOptions) {
    let text = |i: usize| format!("apple pie {i} {}", ["walrus", "carpenter"][i % 2]);
    let documents: Vec<Document> =
        (0..300).map(|i| Document::new(i.to_string(), "", text(i))).collect();
    Index::build_from_documents(dir, documents, options, &Progress::default()).unwrap();
}

/// Overwrites the middle of a file in place.
fn damage(path: &Path) {
    let len = fs::metadata(path).unwrap().len();
    let mut file = fs::File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(len / 2)).unwrap();
    file.write_all(&[0xa5; 8]).unwrap();
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if done() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it never happened: {what}");
}

fn search(server: &Running) -> crate::common::Answer {
    server.ask("POST", "/books/_search", &json!({"query": {"match": {"text": "walrus"}}}))
}

#[test]
fn it_is_found_within_the_period_and_shown_everywhere_until_the_index_is_replaced() {
    let data = tempfile::tempdir().unwrap();
    let books = data.path().join("books");
    build(&books, &IndexOptions::new());
    build(&data.path().join("sound"), &IndexOptions::new());
    let grams = GramConfig { segment_words: 3, ..GramConfig::default() };
    build(&data.path().join("grams"), &IndexOptions::new().grams(grams));
    let server = start(data.path(), &[("scrub.period_s", 1.into())]);
    let ngram = || {
        let body = json!({"query": "walruss", "documents": false});
        server.ask("POST", "/v1/indexes/grams/ngram", &body)
    };
    assert_eq!((search(&server).status, ngram().status), (200, 200));
    let status = server.ok("GET", "/v1/status", &Value::Null);
    assert_eq!(status["damaged"], json!([]));
    assert_eq!(status["scrub"]["period_s"], 1.0);
    assert_eq!(status["scrub"]["bytes_per_second"], 32 << 20);
    assert_eq!(status["scrub"]["reads_all_in_s"], 1.0);
    assert_eq!(server.ok("GET", "/_cluster/health", &Value::Null)["status"], "green");

    let (post, store) = (books.join("000001.post"), data.path().join("grams/000001.store"));
    damage(&post);
    damage(&store);
    let damaged = || server.ok("GET", "/v1/status", &Value::Null)["damaged"].clone();
    until("both are found", || damaged().as_array().unwrap().len() == 2);
    let found = damaged();
    for (at, (name, file)) in [("books", &post), ("grams", &store)].into_iter().enumerate() {
        assert_eq!((&found[at]["index"], &found[at]["file"]), (&json!(name), &json!(file)));
        assert!(found[at]["what"].as_str().unwrap().contains("(page 0)"), "{found}");
    }
    for (answer, file) in [(search(&server), &post), (ngram(), &store)] {
        let named = file.to_string_lossy();
        assert_eq!(answer.status, 500, "{}", answer.text);
        assert!(answer.text.contains(&*named) && answer.text.contains("page 0"), "{}", answer.text);
    }
    // Other indexes still work, so the server stays available.
    let body = json!({"query": {"match": {"text": "walrus"}}});
    assert_eq!(server.ask("POST", "/sound/_search", &body).status, 200);
    let health = server.ok("GET", "/health", &Value::Null);
    assert_eq!(health["damaged_indexes"], json!(["books", "grams"]));
    let health = server.ok("GET", "/_cluster/health", &Value::Null);
    assert_eq!((&health["status"], &health["unassigned_shards"]), (&json!("red"), &json!(2)));
    assert_eq!(server.ok("GET", "/_cluster/health/books", &Value::Null)["status"], "red");
    assert_eq!(server.ok("GET", "/_cluster/health/sound", &Value::Null)["status"], "green");
    let rows = server.ok("GET", "/_cat/indices/books,sound?format=json", &Value::Null);
    assert_eq!((&rows[0]["health"], &rows[1]["health"]), (&json!("red"), &json!("green")));
    let metrics = server.send("GET", "/metrics", &[], None).text;
    for line in [
        "warpseek_index_damaged{index=\"books\"} 1",
        "warpseek_index_damaged{index=\"grams\"} 1",
        "warpseek_index_damaged{index=\"sound\"} 0",
        "# TYPE warpseek_scrub_bytes_total counter",
        "# TYPE warpseek_scrub_passes_total counter",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }

    // An intact copy replaces the damaged index.
    let beside = data.path().join(".beside");
    build(&beside, &IndexOptions::new());
    fs::rename(&books, data.path().join(".old")).unwrap();
    fs::rename(&beside, &books).unwrap();
    assert_eq!(server.ask("POST", "/v1/indexes/books/reload", &Value::Null).status, 200);
    until("it is answered for again", || search(&server).status == 200);
    assert_eq!(damaged().as_array().unwrap().len(), 1);
}

/// Even without background reading, searches verify the pages that they read.
#[test]
fn a_rate_of_nothing_still_verifies_what_searches_read() {
    let data = tempfile::tempdir().unwrap();
    let books = data.path().join("books");
    build(&books, &IndexOptions::new());
    // An answer from the cache reads no file.
    let settings =
        [("scrub.period_s", 1.into()), ("scrub.bytes_per_second", 0.into()), ("cache", 0.into())];
    let server = start(data.path(), &settings);
    assert_eq!(search(&server).status, 200);
    // Documents of the store may be in memory, but lists are read from their file.
    damage(&books.join("000001.post"));
    until("a search reads it", || search(&server).status == 500);
    assert_eq!(
        server.ok("GET", "/v1/status", &Value::Null)["scrub"]["reads_all_in_s"],
        Value::Null
    );
}
