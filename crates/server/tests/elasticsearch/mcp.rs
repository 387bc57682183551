//! The Model Context Protocol with handwritten messages; `cargo xtask clients` runs the official
//! client.

use crate::common::start;
use serde_json::{Value, json};

#[test]
fn models_search_and_read() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok(
        "PUT",
        "/books/_doc/1?refresh",
        &json!({"title": "Emma", "text": "handsome, clever, and rich"}),
    );
    server.ok(
        "PUT",
        "/books/_doc/2?refresh",
        &json!({"title": "Persuasion", "text": "clever and poor"}),
    );
    let call = |method: &str, params: Value| {
        server.ask(
            "POST",
            "/mcp",
            &json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}),
        )
    };
    let result = |method: &str, params: Value| {
        let answer = call(method, params);
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.json()["id"], 7);
        answer.json()["result"].clone()
    };
    let hello = result(
        "initialize",
        json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    );
    assert_eq!(
        (hello["protocolVersion"].clone(), hello["serverInfo"]["name"].clone()),
        (json!("2025-03-26"), json!("warpseek"))
    );
    assert_eq!(
        result("initialize", json!({"protocolVersion": "1999-01-01"}))["protocolVersion"],
        "2025-11-25"
    );
    let told = server.ask(
        "POST",
        "/mcp",
        &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    );
    assert_eq!((told.status, told.text.as_str()), (202, ""));
    assert_eq!(result("ping", json!({})), json!({}));
    let tools = result("tools/list", json!({}));
    let names: Vec<&str> = tools["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["search", "get", "list_indexes"]);

    let tool = |name: &str, arguments: Value| {
        result("tools/call", json!({"name": name, "arguments": arguments}))
    };
    let found = tool("search", json!({"index": "books", "query": "\"clever and\" -rich"}));
    assert_eq!(found["isError"], false, "{found}");
    let found = &found["structuredContent"];
    assert_eq!(
        (found["total"].clone(), found["hits"][0]["id"].clone()),
        (json!(1), json!("2")),
        "{found}"
    );
    assert_eq!(found["hits"][0]["document"]["title"], "Persuasion");
    // A word with `-` must not occur, whatever else matches, and no text is an error.
    let total = |query: &str| {
        let found = tool("search", json!({"index": "books", "query": query}));
        assert_eq!(found["isError"], false, "{query}: {found}");
        found["structuredContent"]["total"].clone()
    };
    assert_eq!(total("clever nosuch -rich"), 1);
    assert_eq!(total("+nosuch clever"), 0);
    for odd in ["1) clever (", "clever~1 OR", "/clever/ nosuch:clever*", "clever \" + | -"] {
        assert_ne!(total(odd), 0, "{odd}");
    }
    let read = tool("get", json!({"index": "books", "id": "1"}));
    assert_eq!(read["structuredContent"]["document"]["title"], "Emma");
    assert_eq!(tool("list_indexes", json!({}))["structuredContent"]["indexes"][0]["documents"], 2);
    for (name, arguments, wanted) in [
        ("get", json!({"index": "books", "id": "9"}), "no document"),
        ("get", json!({"index": "none", "id": "9"}), "no such index"),
        ("search", json!({"index": "books"}), "query"),
        ("search", json!({"index": "books", "query": "x", "size": 51}), "50"),
    ] {
        let failed = tool(name, arguments);
        assert_eq!(failed["isError"], true, "{failed}");
        assert!(failed["content"][0]["text"].as_str().unwrap().contains(wanted), "{failed}");
    }
    assert_eq!(call("tools/call", json!({"name": "delete"})).json()["error"]["code"], -32602);
    assert_eq!(call("resources/list", json!({})).json()["error"]["code"], -32601);
    assert_eq!(server.ask("POST", "/mcp", &json!([])).status, 400);
    assert_eq!(server.ask("GET", "/mcp", &Value::Null).status, 405);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string().into_bytes();
    let with =
        |header: (&str, &str)| server.send("POST", "/mcp", &[header], Some(ping.clone())).status;
    assert_eq!(with(("origin", "http://evil.example")), 403);
    assert_eq!(with(("origin", "http://localhost:8080")), 200);
    assert_eq!(with(("mcp-protocol-version", "1999-01-01")), 400);
    assert_eq!(with(("mcp-protocol-version", "2025-06-18")), 200);
}
