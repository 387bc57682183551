//! Points in time, and orders over several indexes.

use crate::common::{Running, start};
use serde_json::{Value, json};

/// Documents 0 to `n`, with a year that some share and some lack.
fn fill(server: &Running, index: &str, from: usize, n: usize) {
    let lines = (from..from + n).map(|i| {
        let mut document = json!({"text": "apple", "n": i});
        if i % 4 > 0 {
            document["year"] = json!(2000 + i % 3);
        }
        format!("{}\n{document}\n", json!({"index": {"_id": format!("d{i:03}")}}))
    });
    let lines: String = lines.collect();
    server.ok("POST", &format!("/{index}/_bulk?refresh=true"), &lines.into());
}

fn open(server: &Running, index: &str) -> String {
    let opened = server.ok("POST", &format!("/{index}/_pit?keep_alive=1m"), &Value::Null);
    opened["id"].as_str().unwrap().to_owned()
}

/// All ids, page by page.
fn pages(server: &Running, pit: &str, sort: &Value, size: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut body = json!({"size": size, "sort": sort, "pit": {"id": pit, "keep_alive": "1m"}});
    loop {
        let page = server.ok("POST", "/_search", &body);
        assert_eq!(page["pit_id"], *pit);
        let hits = page["hits"]["hits"].as_array().unwrap().clone();
        let Some(last) = hits.last() else { return found };
        body["search_after"] = last["sort"].clone();
        found.extend(hits.iter().map(|hit| hit["_id"].as_str().unwrap().to_owned()));
    }
}

#[test]
fn a_point_in_time_does_not_see_what_comes_later() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server, "a", 0, 25);
    let pit = open(&server, "a");
    let wanted: Vec<String> = (0..25).map(|i| format!("d{i:03}")).collect();
    let by_number = json!([{"n": "asc"}]);
    assert_eq!(pages(&server, &pit, &by_number, 4), wanted);
    // Writes, deletes, new fields, merges and refreshes pass it by.
    fill(&server, "a", 20, 10);
    server.ok("PUT", "/a/_doc/new?refresh", &json!({"text": "apple", "n": -1, "late": "field"}));
    server.ok("DELETE", "/a/_doc/d003?refresh", &Value::Null);
    server.ok("PUT", "/a/_doc/d004?refresh", &json!({"text": "pear", "n": 1000}));
    server.ok("POST", "/a/_forcemerge?max_num_segments=1", &Value::Null);
    server.ok("POST", "/a/_refresh", &Value::Null);
    for (sort, size) in
        [(&by_number, 7), (&json!(["_shard_doc"]), 3), (&json!([{"_shard_doc": "asc"}]), 25)]
    {
        assert_eq!(pages(&server, &pit, sort, size), wanted, "{sort}");
    }
    // Where values are equal, the number of the document decides, and nothing is lost or shown twice.
    for sort in [json!([{"year": "desc"}]), json!({"year": {"order": "asc", "missing": "_first"}})]
    {
        let mut found = pages(&server, &pit, &sort, 4);
        assert_eq!(found.len(), 25, "{sort}");
        found.sort();
        assert_eq!(found, wanted, "{sort}");
    }
    let query = json!({"query": {"match": {"text": "apple"}}, "size": 0, "track_total_hits": true});
    let mut of_pit = query.clone();
    of_pit["pit"] = json!({"id": pit});
    assert_eq!(server.ok("POST", "/_search", &of_pit)["hits"]["total"]["value"], 25);
    assert_eq!(server.ok("POST", "/a/_search", &query)["hits"]["total"]["value"], 29);

    let named = server.ask("POST", "/a/_search", &of_pit);
    assert_eq!(named.status, 400, "{}", named.text);
    assert_eq!(server.ask("POST", "/_search?scroll=1m", &of_pit).status, 400);
    assert_eq!(server.ok("DELETE", "/_pit", &json!({"id": pit}))["num_freed"], 1);
    assert_eq!(server.ask("DELETE", "/_pit", &json!({"id": pit})).status, 404);
    let gone = server.ask("POST", "/_search", &of_pit);
    assert_eq!(gone.status, 404);
    assert_eq!(gone.json()["error"]["type"], "search_context_missing_exception");
}

#[test]
fn points_in_time_are_few_and_end() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[("limits.points_in_time", 2.into())]);
    fill(&server, "a", 0, 3);
    let first = open(&server, "a");
    open(&server, "a");
    assert_eq!(server.ask("POST", "/a/_pit?keep_alive=1m", &Value::Null).status, 429);
    server.ok("DELETE", "/_pit", &json!({"id": first}));
    let short = server.ok("POST", "/a/_pit?keep_alive=20ms", &Value::Null);
    std::thread::sleep(std::time::Duration::from_millis(60));
    let body = json!({"pit": {"id": short["id"]}});
    assert_eq!(server.ask("POST", "/_search", &body).status, 404);
    assert_eq!(server.ask("POST", "/a/_pit", &Value::Null).status, 400);
    assert_eq!(server.ask("POST", "/a/_pit?keep_alive=soon", &Value::Null).status, 400);
    assert_eq!(server.ask("POST", "/a/_pit?keep_alive=-1", &Value::Null).status, 400);
    assert_eq!(server.ask("POST", "/none/_pit?keep_alive=1m", &Value::Null).status, 404);
    // OpenSearch has other routes for the same.
    let opened = server.ok("POST", "/a/_search/point_in_time?keep_alive=1m", &Value::Null);
    let id = opened["pit_id"].as_str().unwrap();
    assert_eq!(pages(&server, id, &json!(["n"]), 2), ["d000", "d001", "d002"]);
    let closed = server.ok("DELETE", "/_search/point_in_time", &json!({"pit_id": [id, "none"]}));
    assert_eq!(closed["pits"][0]["successful"], true);
    assert_eq!(closed["pits"][1]["successful"], false);
    let closed = server.ok("DELETE", "/_search/point_in_time/_all", &Value::Null);
    assert_eq!(closed["pits"].as_array().unwrap().len(), 1);
    open(&server, "a");
    open(&server, "a");
}

#[test]
fn hits_of_several_indexes_are_in_one_order() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server, "a", 0, 10);
    fill(&server, "b", 10, 10);
    server.ok("PUT", "/c/_doc/bare?refresh", &json!({"text": "apple"}));
    let all = |order: &str| {
        let sort = json!([{"n": {"order": order, "unmapped_type": "long"}}]);
        server.ids("a,b,c", &json!({"sort": sort, "size": 100}))
    };
    let mut wanted: Vec<String> = (0..20).map(|i| format!("d{i:03}")).collect();
    wanted.push("bare".into());
    assert_eq!(all("asc"), wanted);
    wanted[..20].reverse();
    assert_eq!(all("desc"), wanted);
    let page = json!({"sort": [{"n": "asc"}], "size": 3, "search_after": [8]});
    assert_eq!(server.ids("a,b", &page), ["d009", "d010", "d011"]);
    let pit = open(&server, "a,b");
    for sort in [json!(["n"]), json!(["_shard_doc"])] {
        let found = pages(&server, &pit, &sort, 3);
        assert_eq!(found, (0..20).map(|i| format!("d{i:03}")).collect::<Vec<_>>(), "{sort}");
    }
    let mut found = pages(&server, &pit, &json!([{"year": "desc"}]), 3);
    found.sort();
    assert_eq!(found, (0..20).map(|i| format!("d{i:03}")).collect::<Vec<_>>());
    let wrong = json!({"sort": ["n"], "search_after": [1, 2]});
    assert_eq!(server.ask("POST", "/a,b/_search", &wrong).status, 400);
}
