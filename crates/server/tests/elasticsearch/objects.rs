//! Objects in documents, and the effects of documents on mappings.

use serde_json::{Value, json};

use crate::common::{Running, start};

/// Returns the names of the mapped fields, including those inside objects, in order.
fn fields(server: &Running, index: &str) -> Vec<String> {
    fn add(properties: &Value, path: &str, all: &mut Vec<String>) {
        for (key, mapping) in properties.as_object().into_iter().flatten() {
            let path = format!("{path}{key}");
            match mapping.get("properties") {
                Some(inner) => add(inner, &format!("{path}."), all),
                None => all.push(path),
            }
        }
    }
    let mappings = server.ok("GET", &format!("/{index}/_mapping"), &Value::Null);
    let mut all = Vec::new();
    add(&mappings[index]["mappings"]["properties"], "", &mut all);
    all.sort();
    all
}

#[test]
fn lists_of_objects_are_what_lists_of_their_values_are() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let listed = json!({
        "obj": [{"a": 1, "name": "red brick", "at": "2020-01-31"}, {"a": 2, "name": "blue", "at": "2021-01-31"}],
        "deep": [{"in": [{"x": 1.5, "tag": "t"}, {"x": 2.5}]}, {"in": {"x": 3.5, "tag": "u"}}],
        "list": [1, 2],
    });
    assert_eq!(server.ask("PUT", "/a/_doc/1?refresh", &listed).status, 201);
    assert_eq!(server.ok("GET", "/a/_doc/1", &Value::Null)["_source"], listed);
    assert_eq!(
        fields(&server, "a"),
        ["deep.in.tag", "deep.in.x", "list", "obj.a", "obj.at", "obj.name"]
    );
    // Text and keyword fields can have several values.
    for query in [
        json!({"match": {"obj.name": "blue"}}),
        json!({"term": {"obj.name.keyword": "red brick"}}),
        json!({"term": {"deep.in.tag.keyword": "u"}}),
    ] {
        assert_eq!(server.ids("a", &json!({"query": query})), ["1"], "{query}");
    }
    // Numbers, booleans and dates in lists are stored, but cannot be searched.
    for field in ["list", "obj.a", "obj.at", "deep.in.x"] {
        let answer =
            server.ask("POST", "/a/_search", &json!({"query": {"exists": {"field": field}}}));
        assert!(answer.status == 400 && answer.text.contains("array"), "{field}: {}", answer.text);
    }
    // Further lists and single values are stored as well.
    for (i, more) in [json!([{"a": 3}]), json!({"a": 4}), json!([])].iter().enumerate() {
        let path = format!("/a/_doc/more{i}");
        assert_eq!(server.ask("PUT", &path, &json!({"obj": more})).status, 201, "{more}");
    }

    // A single-valued field accepts a list of objects if only one of them has a value.
    server.ok("PUT", "/b/_doc/1?refresh", &json!({"obj": {"a": 1, "b": true}, "n": 1}));
    assert_eq!(
        server.ok("PUT", "/b/_doc/2?refresh", &json!({"obj": [{"a": 2}, {"b": false}]}))["result"],
        "created"
    );
    assert_eq!(server.ids("b", &json!({"query": {"term": {"obj.a": 2}}})), ["2"]);
    for (document, field) in [
        (json!({"n": [1, 2]}), "n"),
        (json!({"obj": [{"a": 1}, {"a": 2}]}), "obj.a"),
        (json!({"obj": {"a": [1, 2]}}), "obj.a"),
        (json!({"obj": {"a": 1}, "obj.a": 2}), "obj.a"),
        (json!({"obj": [[{"a": 1}], {"a": "2"}]}), "obj.a"),
    ] {
        let answer = server.ask("PUT", "/b/_doc/3", &document);
        let wanted = format!("failed to parse field [{field}] of type [long]: several values");
        assert!(
            answer.status == 400 && answer.text.contains(&wanted),
            "{document}: {}",
            answer.text
        );
    }
}

#[test]
fn a_refused_document_changes_no_mapping() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/m", &json!({"mappings": {"properties": {"tag": {"type": "keyword"}}}}));
    server.ok("PUT", "/m/_doc/1?refresh", &json!({"n": 1}));
    let mapped = || server.ok("GET", "/m/_mapping", &Value::Null);
    let before = mapped();
    let new = json!({"fresh": "x", "obj": {"a": 1}});
    let bad = json!({"fresh": "x", "obj": {"a": 1}, "n": "seven"});
    let long = format!("/m/_doc/{}", "x".repeat(1025));
    let requests = [
        ("PUT", "/m/_doc/2", bad.clone(), 400),
        ("POST", "/m/_doc", bad.clone(), 400),
        ("PUT", "/m/_create/2", bad.clone(), 400),
        ("PUT", "/m/_create/1", new.clone(), 409),
        ("PUT", "/m/_doc/1?op_type=create", new.clone(), 409),
        ("PUT", "/m/_doc/1?if_seq_no=5&if_primary_term=1", new.clone(), 409),
        ("PUT", "/m/_doc/2?if_seq_no=5&if_primary_term=1", new.clone(), 409),
        ("POST", "/m/_update/1", json!({"doc": bad}), 400),
        ("POST", "/m/_update/2", json!({"doc": new}), 404),
        ("POST", "/m/_update/2", json!({"doc": bad, "doc_as_upsert": true}), 400),
        ("POST", "/m/_update/2", json!({"doc": {}, "upsert": bad}), 400),
        ("POST", "/m/_update/1?if_seq_no=5&if_primary_term=1", json!({"doc": new}), 409),
        ("PUT", "/v1/indexes/m/documents/2", bad.clone(), 400),
        ("PUT", "/v1/indexes/m/documents/1?create", new.clone(), 409),
        ("POST", "/v1/indexes/m/documents", bad.clone(), 400),
        ("PATCH", "/v1/indexes/m/documents/1", bad.clone(), 400),
        ("PATCH", "/v1/indexes/m/documents/2", new.clone(), 404),
        // A document that only the engine refuses, and one that fits no mapping.
        ("PUT", &*long, new.clone(), 400),
        ("PUT", "/m/_doc/2", json!({"fresh": 1, "tag": "x".repeat(40_000)}), 400),
        ("PUT", "/m/_doc/2", json!({"fresh": {"b": 1}, "fresh.b": 2}), 400),
        ("PUT", "/m/_doc/2", json!({"fresh": [{"a": 2}, 1]}), 400),
        ("PUT", "/m/_doc/2", json!({"fresh": 1, "": 2}), 400),
        ("PUT", "/m/_doc/2", json!({"fresh": u64::MAX}), 400),
    ];
    for (method, path, body, status) in requests {
        let answer = server.ask(method, path, &body);
        assert_eq!(answer.status, status, "{method} {path} {body}: {}", answer.text);
        assert_eq!(mapped(), before, "{method} {path} {body}");
    }
    assert_eq!(server.ok("GET", "/m/_count", &Value::Null)["count"], 1);
    // Documents that are written do change the mapping.
    server.ok("POST", "/m/_update/1", &json!({"doc": {"obj": {"a": 1}}}));
    server.ok("POST", "/m/_update/2", &json!({"doc": {"up": 1}, "doc_as_upsert": true}));
    server.ok("PATCH", "/v1/indexes/m/documents/1", &json!({"native": true}));
    let wanted = ["n", "native", "obj.a", "tag", "up"];
    assert_eq!(fields(&server, "m"), wanted);
    server.end();
    let server = start(data.path(), &[]);
    assert_eq!(fields(&server, "m"), wanted);
}

/// If its first document is refused, an index has no fields, and later documents determine their
/// types.
#[test]
fn a_refused_document_decides_no_type() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let refused = json!({"year": "soon", "obj": {"a": 1}, "obj.a": 2});
    assert_eq!(server.ask("PUT", "/a/_doc/1", &refused).status, 400);
    assert!(fields(&server, "a").is_empty());
    server.ok("PUT", "/a/_doc/1?refresh", &json!({"year": 1999, "obj": "text"}));
    assert_eq!(server.ids("a", &json!({"query": {"range": {"year": {"gte": 1999}}}})), ["1"]);
    assert_eq!(fields(&server, "a"), ["obj", "year"]);
}

#[test]
fn items_of_a_bulk_that_fail_change_no_mapping() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let items = [
        (json!({"index": {"_id": "1"}}), json!({"a": 1}), 201),
        (json!({"index": {"_id": "2"}}), json!({"b": "x"}), 201),
        (json!({"index": {"_id": "3"}}), json!({"c": 1, "a": "no number"}), 400),
        (json!({"index": {"_id": "4"}}), json!({"d": true, "c": "words"}), 201),
        (json!({"create": {"_id": "1"}}), json!({"e": 1}), 409),
        (json!({"create": {}}), json!({"f": [{"x": "y"}]}), 201),
        (json!({"update": {"_id": "1"}}), json!({"doc": {"g": 1, "a": "x"}}), 400),
        (json!({"update": {"_id": "1"}}), json!({"doc": {"h": 1}}), 200),
        (
            json!({"index": {"_id": "1", "if_seq_no": 7, "if_primary_term": 1}}),
            json!({"i": 1}),
            409,
        ),
        (json!({"create": {"_id": "5"}}), json!({"j": 1}), 201),
        (json!({"create": {"_id": "5"}}), json!({"k": 1}), 409),
        (json!({"update": {"_id": "9"}}), json!({"doc": {"l": 1}}), 404),
    ];
    let lines: String =
        items.iter().map(|(action, line, _)| format!("{action}\n{line}\n")).collect();
    let answer = server.ok("POST", "/new/_bulk?refresh", &lines.into());
    for ((action, line, status), item) in items.iter().zip(answer["items"].as_array().unwrap()) {
        let (_, item) = item.as_object().unwrap().iter().next().unwrap();
        assert_eq!(item["status"], *status, "{action} {line}: {item}");
    }
    assert_eq!(fields(&server, "new"), ["a", "b", "c", "d", "f.x", "h", "j"]);
    assert_eq!(server.ids("new", &json!({"query": {"match": {"c": "words"}}})), ["4"]);

    let lines = [
        json!({"id": "6", "m": 1}),
        json!({"id": "7", "o": 1, "a": "no number"}),
        json!({"id": "8", "o": "words"}),
        json!({"id": "9", "p": {"q": 1}, "p.q": 2}),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let answer = server.ok("POST", "/v1/indexes/new/bulk?refresh", &lines.into());
    assert_eq!((&answer["written"], &answer["failed"]), (&json!(2), &json!(2)), "{answer}");
    assert_eq!(fields(&server, "new"), ["a", "b", "c", "d", "f.x", "h", "j", "m", "o"]);
    assert_eq!(server.ids("new", &json!({"query": {"match": {"o": "words"}}})), ["8"]);
}
