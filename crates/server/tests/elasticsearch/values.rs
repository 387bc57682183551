//! Values of mappings, settings and options that clients write in several forms.

use crate::common::start;
use serde_json::{Value, json};

#[test]
fn options_of_mappings_may_be_texts() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let mappings = json!({"date_detection": "false", "properties": {
        "tag": {"type": "keyword", "ignore_above": "3"}, "n": {"type": "long", "index": "false"},
        "o": {"type": "object", "enabled": "false"},
    }});
    server.ok("PUT", "/a", &json!({"mappings": mappings}));
    let document = json!({"tag": ["abc", "abcd"], "n": 5, "o": {"x": "y"}, "day": "2024-01-01"});
    server.ok("PUT", "/a/_doc/1?refresh=true", &document);
    // The mappings may be repeated with the values in another form.
    let again = json!({"properties": {"tag": {"type": "keyword", "ignore_above": 3}, "n": {"type": "long", "index": false}}});
    server.ok("PUT", "/a/_mapping", &again);
    let ids = |query: Value| server.ids("a", &json!({"query": query}));
    assert_eq!(ids(json!({"term": {"tag": "abc"}})), ["1"]);
    assert_eq!(ids(json!({"term": {"tag": "abcd"}})), [""; 0]);
    let mapping = server.ok("GET", "/a/_mapping", &Value::Null);
    let properties = &mapping["a"]["mappings"]["properties"];
    assert_eq!(properties["day"]["type"], "text", "{properties}");
    assert_eq!(properties["o"].get("properties"), None, "{properties}");
    for field in ["n", "o.x"] {
        let body = json!({"query": {"term": {field: 5}}});
        let answer = server.ask("POST", "/a/_search", &body);
        assert_eq!(answer.status, 400, "{field}: {}", answer.text);
    }
    for wrong in [
        json!({"dynamic": "stirct"}),
        json!({"date_detection": "no"}),
        json!({"properties": {"a": {"type": "long", "index": "no"}}}),
        json!({"properties": {"a": {"type": "keyword", "ignore_above": "many"}}}),
    ] {
        let made = server.ask("PUT", "/b", &json!({"mappings": wrong}));
        assert_eq!(made.status, 400, "{wrong}: {}", made.text);
        let changed = server.ask("PUT", "/a/_mapping", &wrong);
        assert_eq!(changed.status, 400, "{wrong}: {}", changed.text);
    }
}

#[test]
fn an_index_says_how_many_fields_it_may_have() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let settings = json!({"settings": {"index.mapping.total_fields.limit": "2"}});
    let made = server.ask("PUT", "/a", &settings);
    assert_eq!((made.status, made.headers.get("warning")), (200, None), "{}", made.text);
    server.ok("PUT", "/a/_doc/1", &json!({"x": 1, "y": 2}));
    let more = server.ask("PUT", "/a/_doc/2", &json!({"z": 3}));
    assert!(more.status == 400 && more.text.contains("[2]"), "{}", more.text);
    server.ok("PUT", "/a/_settings", &json!({"index.mapping.total_fields.limit": 3}));
    server.ok("PUT", "/a/_doc/2", &json!({"z": 3}));
}

#[test]
fn sizes_are_shown_in_the_unit_that_is_asked_for() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({"t": "red"}));
    let size = |unit: &str| {
        let path = format!("/_cat/indices?format=json&bytes={unit}");
        server.ok("GET", &path, &Value::Null)[0]["store.size"].as_str().unwrap().to_owned()
    };
    for unit in ["b", "kb", "mb"] {
        assert!(size(unit).parse::<u64>().is_ok(), "{unit}: {}", size(unit));
    }
    assert_eq!(size("gb"), "0");
    assert_eq!(server.ask("GET", "/_cat/indices?bytes=x", &Value::Null).status, 400);
}
