//! Static scores: an index declares a field for them, every write keeps them, and `/v1` uses them
//! in searches.

use serde_json::{Value, json};
use warpseek::{Document, Index, IndexOptions, Progress};

use crate::common::{Running, start};

/// Returns the ids of all documents with the word, in descending order of static scores.
fn by_rank(server: &Running, index: &str) -> Vec<String> {
    let body = json!({"query": "apple", "static_weight": 1});
    let found = server.ok("POST", &format!("/v1/indexes/{index}/search"), &body);
    let hits = found["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
}

fn apple(rank: f64) -> Value {
    json!({"text": "apple", "about": {"rank": rank}})
}

#[test]
fn every_request_that_writes_keeps_them() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let body = json!({"settings": {"index": {"static_field": "about.rank"}}});
    let made = server.ask("PUT", "/fruit", &body);
    assert!(made.status == 200 && !made.headers.contains_key("warning"), "{made:?}");
    // The first document adds fields, which recreates the index.
    server.ok("PUT", "/fruit/_doc/a", &apple(1.0));
    server.ok("PUT", "/v1/indexes/fruit/documents/b", &apple(2.5));
    let bulk = "{\"index\":{\"_index\":\"fruit\",\"_id\":\"c\"}}\n{\"text\":\"apple\",\"about\":{\"rank\":3}}\n{\"create\":{\"_index\":\"fruit\",\"_id\":\"d\"}}\n{\"text\":\"apple\",\"about\":{\"rank\":0.5}}\n";
    assert_eq!(server.ok("POST", "/_bulk", &Value::String(bulk.to_owned()))["errors"], false);
    let lines = "{\"id\":\"e\",\"text\":\"apple\",\"about\":{\"rank\":2}}\n{\"id\":\"f\",\"text\":\"apple\"}\n";
    server.ok("POST", "/v1/indexes/fruit/bulk?refresh", &Value::String(lines.to_owned()));
    assert_eq!(by_rank(&server, "fruit"), ["c", "b", "e", "a", "d", "f"]);

    // The same document again, partial updates, and a further field.
    server.ok("PUT", "/fruit/_doc/c", &apple(3.0));
    server.ok("POST", "/fruit/_update/a", &json!({"doc": {"about": {"rank": 9}}}));
    server.ok("POST", "/fruit/_update/b", &json!({"doc": {"colour": "red"}}));
    server.ok("PATCH", "/v1/indexes/fruit/documents/e?refresh", &json!({"price": 7}));
    let after = ["a", "c", "b", "e", "d", "f"];
    assert_eq!(by_rank(&server, "fruit"), after);
    server.ok("POST", "/fruit/_forcemerge?max_num_segments=1", &Value::Null);
    assert_eq!(by_rank(&server, "fruit"), after);

    // The source is shown as it was sent.
    assert_eq!(server.ok("GET", "/fruit/_doc/c", &Value::Null)["_source"], apple(3.0));
    let settings = server.ok("GET", "/fruit/_settings", &Value::Null);
    assert_eq!(settings["fruit"]["settings"]["index"]["static_field"], "about.rank");
    let why = "/v1/indexes/fruit/explain/c";
    let why = server.ok("POST", why, &json!({"query": "apple", "static_weight": 2}));
    assert_eq!(why["explanation"]["static_score"], 6.0, "{why}");
    // Searches ignore static scores by default.
    let plain = server.ok("POST", "/v1/indexes/fruit/search", &json!({"query": "apple"}));
    assert_eq!(plain["hits"][0]["score"], plain["hits"][5]["score"]);

    server.end();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/fruit/_doc/g?refresh", &apple(20.0));
    assert_eq!(by_rank(&server, "fruit")[..2], ["g", "a"]);
}

#[test]
fn an_index_that_was_made_elsewhere_keeps_its_field() {
    let data = tempfile::tempdir().unwrap();
    let options = IndexOptions::new().static_field("rank");
    let document = Document { static_score: Some(2.0), ..Document::new("a", "", "apple") };
    Index::build_from_documents(
        data.path().join("fruit"),
        [document],
        &options,
        &Progress::default(),
    )
    .unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/fruit/_doc/b", &json!({"text": "apple", "rank": 3}));
    server.ok("PUT", "/fruit/_doc/c?refresh", &json!({"text": "apple", "rank": 2.5}));
    assert_eq!(by_rank(&server, "fruit"), ["b", "c", "a"]);
    let settings = server.ok("GET", "/fruit/_settings", &Value::Null);
    assert_eq!(settings["fruit"]["settings"]["index"]["static_field"], "rank");
    let refused = server.ask("PUT", "/fruit/_doc/d", &json!({"text": "apple", "rank": -1}));
    assert!(refused.status == 400 && refused.text.contains("rank"), "{}", refused.text);
}

#[test]
fn mistakes_are_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    for (body, wanted) in [
        (json!({"settings": {"static_field": 3}}), "static_field"),
        (
            json!({"settings": {"static_field": "rank"}, "mappings": {"properties": {"rank": {"type": "keyword"}}}}),
            "[keyword]",
        ),
    ] {
        let refused = server.ask("PUT", "/bad", &body);
        assert!(refused.status == 400 && refused.text.contains(wanted), "{}", refused.text);
    }
    assert_eq!(server.ask("HEAD", "/bad", &Value::Null).status, 404);
    server.ok("PUT", "/fruit", &json!({"settings": {"static_field": "rank"}}));
    server.ok("PUT", "/fruit/_doc/0?refresh", &json!({"text": "apple", "rank": 1}));
    for wrong in [json!({"rank": "high"}), json!({"rank": -1}), json!({"rank": [1, 2]})] {
        let refused = server.ask("PUT", "/fruit/_doc/1", &wrong);
        assert!(
            refused.status == 400 && refused.text.contains("rank"),
            "{wrong}: {}",
            refused.text
        );
    }
    for settings in [json!({"index": {"static_field": "price"}}), json!({"static_field": null})] {
        let refused = server.ask("PUT", "/fruit/_settings", &settings);
        assert!(refused.status == 400 && refused.text.contains("static_field"), "{}", refused.text);
    }
    server.ok("PUT", "/plain/_doc/1?refresh", &json!({"text": "apple"}));
    let search = "/v1/indexes/plain/search";
    for (body, wanted) in [
        (json!({"query": "apple", "static_weight": 1}), "[static_weight]"),
        (json!({"query": "apple", "static_weight": "x"}), "[static_weight]"),
    ] {
        let refused = server.ask("POST", search, &body);
        assert!(refused.status == 400 && refused.text.contains(wanted), "{}", refused.text);
    }
    let body = json!({"query": "apple", "static_weight": -1});
    let refused = server.ask("POST", "/v1/indexes/fruit/search", &body);
    assert!(refused.status == 400 && refused.text.contains("static weight"), "{}", refused.text);
    let counted = json!({"query": "apple", "static_weight": 1});
    assert_eq!(server.ask("POST", "/v1/indexes/fruit/count", &counted).status, 400);
}
