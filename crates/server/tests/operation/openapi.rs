//! `/openapi.json` describes what the server accepts.

use serde_json::{Value, json};

use crate::common::start;

#[test]
fn every_operation_is_there_and_takes_what_it_says() {
    let data = tempfile::tempdir().unwrap();
    let settings = [("limits.window", 77.into()), ("snapshots.url", "memory:///".into())];
    let server = start(data.path(), &settings);
    let document = server.ok("GET", "/openapi.json", &Value::Null);
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["components"]["schemas"]["Search"]["properties"]["k"]["maximum"], 77);
    let mut operations = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path = path.replace("{index}", "a").replace("{id}", "1").replace("{name}", "s");
        for (method, operation) in methods.as_object().unwrap() {
            operations += 1;
            let answer = server.ask(&method.to_uppercase(), &path, &Value::Null);
            let is_there = answer.status != 405 && !answer.text.contains("no handler found");
            assert!(is_there, "{method} {path}: {} {}", answer.status, answer.text);
            for (_, answer) in operation["responses"].as_object().unwrap() {
                for content in answer["content"].as_object().into_iter().flatten() {
                    let name = content.1["schema"]["$ref"].as_str().unwrap();
                    assert!(document.pointer(&name[1..]).is_some(), "{name}");
                }
            }
        }
    }
    assert_eq!(operations, 35);
    // The properties of a search are those that the server accepts; it lists all of them when it
    // refuses another one.
    server.ask("PUT", "/v1/indexes/b", &Value::Null);
    let refused = server.ask("POST", "/v1/indexes/b/search", &json!({"no such option": 1}));
    let properties = document["components"]["schemas"]["Search"]["properties"].as_object().unwrap();
    let mut named: Vec<&str> = refused.text.split('`').skip(1).step_by(2).collect();
    named.retain(|name| *name != "no such option");
    let mut wanted: Vec<&str> = properties.keys().map(String::as_str).collect();
    named.sort_unstable();
    // The response contains the reason twice.
    named.dedup();
    wanted.sort_unstable();
    assert_eq!(named, wanted, "{}", refused.text);
}
