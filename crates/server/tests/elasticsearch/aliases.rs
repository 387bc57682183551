//! Aliases, merges and tasks.

use crate::common::start;
use serde_json::{Value, json};

fn add(index: &str, alias: &str) -> Value {
    json!({"add": {"index": index, "alias": alias}})
}

#[test]
fn aliases_are_read_through_and_written_through() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let made = json!({"aliases": {"books": {}, "all": {}}});
    server.ok("PUT", "/books-1", &made);
    server.ok("PUT", "/books-2", &json!({}));
    let done = server.ok("PUT", "/books/_doc/1?refresh", &json!({"title": "Emma", "year": 1815}));
    assert_eq!(done["_index"], "books-1");
    assert_eq!(server.ok("GET", "/books/_doc/1", &Value::Null)["_source"]["title"], "Emma");
    let bulk = "{\"index\": {\"_index\": \"books\", \"_id\": \"2\"}}\n{\"title\": \"Persuasion\", \"year\": 1817}\n";
    assert_eq!(server.ok("POST", "/_bulk?refresh=true", &bulk.into())["errors"], false);
    server.ok("PUT", "/books-2/_doc/3?refresh", &json!({"title": "Emma and others", "year": 1900}));

    // An alias moves from one index to another atomically.
    let actions = json!({"actions": [{"remove": {"index": "books-1", "alias": "books"}}, add("books-2", "books"), add("books-2", "all")]});
    server.ok("POST", "/_aliases", &actions);
    let emma = json!({"query": {"match": {"title": "emma"}}, "sort": "year"});
    let check = |server: &crate::common::Running| {
        assert_eq!(server.ids("books", &emma), ["3"]);
        assert_eq!(server.ids("all", &emma), ["1", "3"]);
        assert_eq!(server.ids("al*", &emma), ["1", "3"]);
        assert_eq!(server.ids("all,books-1", &emma), ["1", "3"]);
        assert_eq!(server.ok("GET", "/all/_count", &Value::Null)["count"], 3);
        assert_eq!(server.ask("HEAD", "/books", &Value::Null).status, 200);
        let named = server.ok("GET", "/_alias/books", &Value::Null);
        assert_eq!(named, json!({"books-2": {"aliases": {"books": {}}}}));
        let aliases = server.ok("GET", "/books-1/_alias", &Value::Null);
        assert_eq!(aliases, json!({"books-1": {"aliases": {"all": {}}}}));
        assert_eq!(
            server.ok("GET", "/books-1", &Value::Null)["books-1"]["aliases"],
            json!({"all": {}})
        );
    };
    check(&server);
    // Writes through an alias of several indexes need a write index.
    let refused = server.ask("PUT", "/all/_doc/9", &json!({"title": "x"}));
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(refused.text.contains("no write index"), "{}", refused.text);
    server.end();
    let server = start(data.path(), &[]);
    check(&server);
    server.ok("PUT", "/books-2/_alias/all", &json!({"is_write_index": true}));
    assert_eq!(server.ok("PUT", "/all/_doc/9", &json!({"title": "x"}))["_index"], "books-2");
    let two = server.ask("PUT", "/books-1/_alias/all", &json!({"is_write_index": true}));
    assert_eq!(two.status, 400, "{}", two.text);

    // If one of several changes is invalid, none is applied.
    let before = server.ok("GET", "/_alias", &Value::Null);
    for (wrong, status) in [
        (json!([add("books-1", "new"), add("none", "new")]), 404),
        (json!([add("books-1", "new"), {"remove": {"index": "books-1", "alias": "none"}}]), 404),
        (json!([add("books-1", "new"), add("books-1", "books-2")]), 400),
        (json!([add("books-1", "new"), add("books-1", "Wrong")]), 400),
        (json!([add("books-1", "new"), {"remove_index": {"index": "books-1"}}]), 400),
        (
            json!([{"add": {"index": "books-1", "alias": "new", "filter": {"term": {"year": 1}}}}]),
            400,
        ),
        (json!([add("books", "new")]), 400),
        (json!([{"add": {"index": "books-1"}}]), 400),
    ] {
        let answer = server.ask("POST", "/_aliases", &json!({"actions": wrong}));
        assert_eq!(answer.status, status, "{wrong}: {}", answer.text);
        assert_eq!(server.ok("GET", "/_alias", &Value::Null), before, "{wrong}");
    }
    assert_eq!(server.ask("PUT", "/books", &json!({})).status, 400);
    assert_eq!(server.ask("DELETE", "/books", &Value::Null).status, 400);
    assert_eq!(server.ask("PUT", "/books-3", &json!({"aliases": {"books-1": {}}})).status, 400);
    assert_eq!(server.ask("HEAD", "/books-3", &Value::Null).status, 404);
    assert_eq!(server.ask("GET", "/_alias/none", &Value::Null).status, 404);
    server.ok("DELETE", "/books-1/_alias/all", &Value::Null);
    assert_eq!(server.ask("DELETE", "/books-1/_alias/all", &Value::Null).status, 404);
    // A deleted index loses its aliases.
    server.ok("DELETE", "/books-2", &Value::Null);
    assert_eq!(server.ask("GET", "/books/_search", &Value::Null).status, 404);
    assert_eq!(server.ok("GET", "/_alias", &Value::Null), json!({"books-1": {"aliases": {}}}));
    assert_eq!(server.ok("GET", "/_cat/aliases?format=json", &Value::Null), json!([]));
}

#[test]
fn aliases_wait_for_indexes_that_are_away() {
    let folder = tempfile::tempdir().unwrap();
    let (data, away) = (folder.path().join("data"), folder.path().join("away"));
    let server = start(&data, &[]);
    for index in ["a", "b"] {
        server.ok("PUT", &format!("/{index}/_doc/{index}?refresh=true"), &json!({"t": "x"}));
    }
    let actions = json!([{"add": {"index": "a", "alias": "both", "is_write_index": true}}, add("b", "both"), add("a", "one"), add("a", "name")]);
    server.ok("POST", "/_aliases", &json!({"actions": actions}));
    server.end();
    std::fs::rename(data.join("a"), &away).unwrap();
    let server = start(&data, &[]);
    assert_eq!(server.ids("both", &Value::Null), ["b"]);
    assert_eq!(server.ask("GET", "/one/_search", &Value::Null).status, 404);
    assert_eq!(server.ok("GET", "/_alias", &Value::Null), json!({"b": {"aliases": {"both": {}}}}));
    assert_eq!(
        server.ok("GET", "/_cat/aliases?format=json", &Value::Null).as_array().unwrap().len(),
        1
    );
    // Changes of aliases keep those of the missing index, and writes go to the new write index.
    server.ok("PUT", "/b/_alias/more", &Value::Null);
    server.ok("PUT", "/b/_alias/both", &json!({"is_write_index": true}));
    // An index may take the name of an alias whose indexes are missing.
    server.ok("PUT", "/name/_doc/n?refresh=true", &json!({"t": "x"}));
    server.end();
    std::fs::rename(&away, data.join("a")).unwrap();
    let server = start(&data, &[]);
    assert_eq!(server.ids("both", &json!({"sort": "_doc"})), ["a", "b"]);
    assert_eq!(server.ids("one", &Value::Null), ["a"]);
    assert_eq!(server.ids("more", &Value::Null), ["b"]);
    assert_eq!(server.ids("name", &Value::Null), ["n"]);
    assert_eq!(server.ok("PUT", "/both/_doc/c", &json!({"t": "x"}))["_index"], "b");
}

#[test]
fn segments_are_merged_and_tasks_are_known() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    for i in 0..6 {
        server.ok("PUT", &format!("/a/_doc/{i}"), &json!({"text": "apple", "n": i}));
        assert_eq!(server.ok("POST", "/a/_flush", &Value::Null)["_shards"]["successful"], 1);
    }
    server.ok("DELETE", "/a/_doc/3?refresh", &Value::Null);
    let segments = || {
        let index = warpseek::Index::at(data.path().join("a"));
        index.manifest().unwrap().segments.len()
    };
    server.ok("POST", "/a/_forcemerge?max_num_segments=2", &Value::Null);
    assert!(segments() <= 2, "{} segments", segments());
    let done = server.ok("POST", "/_forcemerge?max_num_segments=1", &Value::Null);
    assert_eq!((done["_shards"]["failed"].clone(), segments()), (json!(0), 1));
    assert_eq!(server.ids("a", &json!({"sort": "n"})), ["0", "1", "2", "4", "5"]);
    assert_eq!(server.ask("POST", "/a/_forcemerge?max_num_segments=0", &Value::Null).status, 400);
    assert_eq!(server.ask("POST", "/none/_forcemerge", &Value::Null).status, 404);

    let task = |path: &str, body: &Value| -> Value {
        let task = server.ok("POST", path, body)["task"].as_str().unwrap().to_owned();
        for _ in 0..24_000 {
            let state = server.ok("GET", &format!("/_tasks/{task}"), &Value::Null);
            if state["completed"] == true {
                return state;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("{task} never ends");
    };
    let query = json!({"query": {"range": {"n": {"gte": 4}}}});
    let done = task("/a/_delete_by_query?wait_for_completion=false&refresh=true", &query);
    assert_eq!(done["response"]["deleted"], 2, "{done}");
    assert_eq!(done["task"]["action"], "indices:data/write/delete/byquery");
    assert_eq!(server.ids("a", &json!({"sort": "n"})), ["0", "1", "2"]);
    let wrong =
        task("/a/_delete_by_query?wait_for_completion=false", &json!({"query": {"nothing": {}}}));
    assert_eq!(wrong["error"]["type"], "parsing_exception", "{wrong}");
    assert_eq!(server.ask("GET", "/_tasks/warpseek:99", &Value::Null).status, 404);
    assert!(server.ok("GET", "/_tasks", &Value::Null)["nodes"].is_object());
}

#[test]
fn fields_and_queries_are_described() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/a/_doc/1", &json!({"title": "Emma", "year": 1815}));
    server.ok("PUT", "/b/_doc/1", &json!({"year": "a text"}));
    let caps = server.ok("GET", "/a,b/_field_caps?fields=year,title*", &Value::Null);
    assert_eq!(caps["fields"]["year"]["long"]["aggregatable"], true, "{caps}");
    assert_eq!(caps["fields"]["year"]["text"]["indices"], json!(["b"]), "{caps}");
    assert_eq!(caps["fields"]["title.keyword"]["keyword"]["searchable"], true, "{caps}");
    assert_eq!(server.ask("GET", "/a/_field_caps", &Value::Null).status, 400);
    let valid = |query: Value| {
        server.ok("POST", "/a/_validate/query?explain=true", &json!({"query": query}))
    };
    assert_eq!(valid(json!({"match": {"title": "emma"}}))["valid"], true);
    let not = valid(json!({"range": {"year": {"gte": "x"}}}));
    assert_eq!(not["valid"], false, "{not}");
    assert!(not["explanations"][0]["error"].as_str().unwrap().contains("year"), "{not}");
}
