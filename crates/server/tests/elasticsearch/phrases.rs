//! Phrases in the forms that clients of Elasticsearch use.

use crate::common::{Running, start};
use serde_json::{Value, json};

const NONE: [&str; 0] = [];

fn fill(server: &Running, index: &str) {
    let texts = [
        ("1", "the quick brown fox", "a red hen"),
        ("2", "brown quick the fox", "the quick brown hare"),
        ("3", "quick and very brown", "nothing"),
    ];
    let lines = texts.map(|(id, title, text)| {
        let document = json!({"title": title, "text": text, "tags": ["quick brown", "x"]});
        format!("{}\n{document}\n", json!({"index": {"_id": id}}))
    });
    let done = server.ok("POST", &format!("/{index}/_bulk?refresh=true"), &lines.concat().into());
    assert_eq!(done["errors"], false, "{done}");
}

#[test]
fn phrases_find_words_that_stand_side_by_side() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server, "a");
    let check = |server: &Running| {
        for (query, wanted) in [
            (json!({"match_phrase": {"title": "quick brown"}}), vec!["1"]),
            (
                json!({"match_phrase": {"title": {"query": "quick brown", "slop": 2}}}),
                vec!["1", "2", "3"],
            ),
            (json!({"match_phrase": {"title": {"query": "quick brown", "slop": 1}}}), vec!["1"]),
            (json!({"match_phrase": {"tags.keyword": "quick brown"}}), vec!["1", "2", "3"]),
            (json!({"match_phrase": {"tags.keyword": "quick"}}), NONE.to_vec()),
            (
                json!({"multi_match": {"query": "quick brown", "type": "phrase", "fields": ["title", "text"]}}),
                vec!["1", "2"],
            ),
            (json!({"query_string": {"query": "text:\"quick brown\""}}), vec!["2"]),
            (json!({"query_string": {"query": "title:\"quick brown\"~1 -hen"}}), NONE.to_vec()),
            (
                json!({"simple_query_string": {"query": "\"quick brown\" +hare", "fields": ["text"]}}),
                vec!["2"],
            ),
            (
                json!({"bool": {"must": {"match": {"title": "fox"}}, "must_not": {"match_phrase": {"title": "brown fox"}}}}),
                vec!["2"],
            ),
        ] {
            let mut found = server.ids("a", &json!({"query": query}));
            found.sort();
            assert_eq!(found, wanted, "{query}");
        }
        let found = server.ok("GET", "/a/_search?q=title:%22brown+fox%22", &Value::Null);
        assert_eq!(found["hits"]["hits"][0]["_id"], "1", "{found}");
        assert_eq!(found["hits"]["total"]["value"], 1, "{found}");
    };
    check(&server);
    // A field that is added later has positions as well.
    server.ok("PUT", "/a/_doc/4?refresh", &json!({"note": "late but sound"}));
    let note = |server: &Running| {
        server.ids("a", &json!({"query": {"match_phrase": {"note": "but sound"}}}))
    };
    assert_eq!(note(&server), ["4"]);
    server.end();
    let server = start(data.path(), &[]);
    check(&server);
    assert_eq!(note(&server), ["4"]);
    let refused = server.ask(
        "POST",
        "/a/_search",
        &json!({"query": {"match_phrase_prefix": {"title": "quick br"}}}),
    );
    assert_eq!(refused.status, 400);
    assert!(refused.text.contains("match_phrase_prefix"), "{}", refused.text);
}

#[test]
fn indexes_without_positions_are_served_and_refuse_phrases() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let without = json!({"type": "text", "index_options": "freqs"});
    let mappings = json!({"properties": {"title": without, "text": without}});
    server.ok("PUT", "/old", &json!({"mappings": mappings}));
    fill(&server, "old");
    let refused = server.ask(
        "PUT",
        "/old/_mapping",
        &json!({"properties": {"title": {"type": "text", "index_options": "positions"}}}),
    );
    assert_eq!(refused.status, 400, "{}", refused.text);
    let wrong =
        json!({"mappings": {"properties": {"t": {"type": "text", "index_options": "some"}}}});
    assert_eq!(server.ask("PUT", "/wrong", &wrong).status, 400);
    server.end();

    // Files of servers that did not support phrases: a declaration without options, and no
    // positions.
    let declaration = data.path().join(".warpseek/old.json");
    let text = std::fs::read_to_string(&declaration).unwrap();
    assert!(text.contains("index_options"));
    let mut declared: Value = serde_json::from_str(&text).unwrap();
    for field in ["title", "text"] {
        declared["mappings"]["properties"][field] = json!({"type": "text"});
    }
    std::fs::write(&declaration, declared.to_string()).unwrap();
    let documents = [warpseek::Document::new("a", "Apples", "An apple a day")];
    let options = warpseek::IndexOptions::new();
    let progress = warpseek::Progress::default();
    let folder = data.path().join("plain");
    warpseek::Index::build_from_documents(folder, documents, &options, &progress).unwrap();

    let server = start(data.path(), &[]);
    let words = json!({"query": {"match": {"title": "quick brown"}}});
    assert_eq!(server.ids("old", &words).len(), 3);
    let refused = |index: &str, query: Value| {
        let answer = server.ask("POST", &format!("/{index}/_search"), &json!({"query": query}));
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert!(answer.text.contains("position"), "{}", answer.text);
    };
    refused("old", json!({"match_phrase": {"title": "quick brown"}}));
    refused(
        "old",
        json!({"query_string": {"query": "\"quick brown\"", "fields": ["title", "text"]}}),
    );
    refused("plain", json!({"match_phrase": {"text": "an apple"}}));
    // New fields have positions; existing ones stay without.
    server.ok(
        "PUT",
        "/old/_doc/9?refresh",
        &json!({"title": "quick brown", "note": "late but sound"}),
    );
    assert_eq!(
        server.ids("old", &json!({"query": {"match_phrase": {"note": "but sound"}}})),
        ["9"]
    );
    refused("old", json!({"match_phrase": {"title": "quick brown"}}));
    assert_eq!(server.ids("old", &words).len(), 4);
}
