//! The Model Context Protocol at `/mcp`, which lets language models search and read, but not
//! write.
//!
//! It uses streamable HTTP without sessions: each POST is one message and gets one answer, so
//! there is no stream to maintain (GET returns 405). The small part of JSON-RPC that is needed is
//! implemented here.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use serde_json::{Value, json};

use crate::app::{App, run_searches};
use crate::elasticsearch::search::{Ask, Showing, Target, execute};
use crate::error::{Failure, Kind, brief};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::http::caller::Caller;
use crate::http::params::Params;
use crate::json::only;

/// Supported versions of the protocol, newest first. They do not differ in the parts used here.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Default and maximum number of hits of a search.
const SIZE: u64 = 5;
const MAX_SIZE: u64 = 50;

/// Error codes of JSON-RPC.
const INVALID_REQUEST: i64 = -32600;
const NO_SUCH_METHOD: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/mcp", post(message))
}

async fn message(State(app): State<Arc<App>>, headers: HeaderMap, call: Call) -> Reply {
    if let Some(version) = headers.get("mcp-protocol-version")
        && !VERSIONS.iter().any(|known| version == known)
    {
        let known = VERSIONS.join(", ");
        return Err(Failure::illegal(format!(
            "unknown MCP-Protocol-Version; supported are {known}"
        )));
    }
    let message = call.json()?;
    let id = message.get("id").cloned();
    let Some(method) = message["method"].as_str().filter(|_| message["jsonrpc"] == "2.0") else {
        let answers_nothing = message.get("result").or(message.get("error")).is_some();
        // The server sends no requests, so responses from clients can be ignored.
        return match answers_nothing {
            true => Ok(Answer::text("").status(202)),
            false => {
                Ok(error(Value::Null, INVALID_REQUEST, "expected one message of JSON-RPC 2.0")
                    .status(400))
            }
        };
    };
    let Some(id) = id.filter(|id| !id.is_null()) else {
        // Notifications get no answer.
        return Ok(Answer::text("").status(202));
    };
    let params = message.get("params").cloned().unwrap_or_default();
    let result = match method {
        "initialize" => initialize(&params),
        "ping" => json!({}),
        "tools/list" => json!({"tools": tools()}),
        "tools/call" => {
            let name = params["name"].as_str().unwrap_or("").to_owned();
            if !tools().as_array().into_iter().flatten().any(|tool| tool["name"] == *name) {
                return Ok(error(id, INVALID_PARAMS, &format!("unknown tool: {}", brief(&name))));
            }
            let arguments = params["arguments"].clone();
            let caller = call.caller.clone();
            let work = move |app: &App| tool(app, &name, &arguments, &call.caller);
            let done = run_searches(&app, &caller, work).await;
            match done {
                Ok(found) => {
                    let text = serde_json::to_string(&found).unwrap_or_default();
                    json!({"content": [{"type": "text", "text": text}], "structuredContent": found, "isError": false})
                }
                // The model that called the tool can react to the error.
                Err(failure) => {
                    json!({"content": [{"type": "text", "text": failure.reason}], "isError": true})
                }
            }
        }
        other => {
            return Ok(error(id, NO_SUCH_METHOD, &format!("unknown method: {}", brief(other))));
        }
    };
    Ok(Answer::json(json!({"jsonrpc": "2.0", "id": id, "result": result})))
}

fn error(id: Value, code: i64, message: &str) -> Answer {
    Answer::json(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

fn initialize(params: &Value) -> Value {
    let wanted = params["protocolVersion"].as_str();
    let version = VERSIONS.into_iter().find(|known| wanted == Some(known)).unwrap_or(VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": false}},
        "serverInfo": {"name": "warpseek", "version": env!("CARGO_PKG_VERSION")},
        "instructions": "Full-text search. Call list_indexes to see what there is, search for documents, then get those that matter.",
    })
}

fn tools() -> Value {
    let reads = json!({"readOnlyHint": true, "openWorldHint": false});
    json!([
        {
            "name": "search", "title": "Search documents", "annotations": reads,
            "description": "Finds the documents of an index that fit a query best. Words are ranked by BM25; \"words between quotation marks\" must be adjacent, +word must occur, -word must not.",
            "inputSchema": {
                "type": "object", "required": ["index", "query"], "additionalProperties": false,
                "properties": {
                    "index": {"type": "string", "description": "The index, or several separated by commas"},
                    "query": {"type": "string", "description": "Words to search for"},
                    "fields": {"type": "array", "items": {"type": "string"}, "description": "Text fields to search; by default all of them"},
                    "size": {"type": "integer", "minimum": 1, "maximum": MAX_SIZE, "default": SIZE, "description": "Maximum number of documents to return"},
                },
            },
        },
        {
            "name": "get", "title": "Read a document", "annotations": reads,
            "description": "Reads a whole document by its id.",
            "inputSchema": {
                "type": "object", "required": ["index", "id"], "additionalProperties": false,
                "properties": {"index": {"type": "string"}, "id": {"type": "string"}},
            },
        },
        {
            "name": "list_indexes", "title": "List indexes", "annotations": reads,
            "description": "Names all indexes, with their number of documents and their fields.",
            "inputSchema": {"type": "object", "properties": {}, "additionalProperties": false},
        },
    ])
}

fn text<'a>(arguments: &'a Value, key: &str) -> Result<&'a str, Failure> {
    arguments[key].as_str().ok_or_else(|| Failure::illegal(format!("[{key}] must be a string")))
}

fn tool(app: &App, name: &str, arguments: &Value, caller: &Caller) -> Result<Value, Failure> {
    let known: &[&str] = match name {
        "search" => &["index", "query", "fields", "size"],
        "get" => &["index", "id"],
        _ => &[],
    };
    only(arguments, known)?;
    match name {
        "search" => found(app, arguments, caller),
        "get" => {
            let (index, id) = (text(arguments, "index")?, text(arguments, "id")?);
            let source = app.catalogue().get_to_read(index)?.get(id)?;
            let missing = || {
                Failure::new(
                    Kind::DocumentMissing,
                    format!("index [{index}] has no document [{id}]"),
                )
            };
            Ok(json!({"index": index, "id": id, "document": source.ok_or_else(missing)?}))
        }
        _ => {
            let shown = app.catalogue().all().into_iter().map(|index| {
                let view = index.view();
                let fields: Vec<&str> =
                    view.mapping.matching("*").into_iter().map(|(name, _)| name).collect();
                json!({"name": index.name, "documents": index.documents(), "fields": fields})
            });
            Ok(json!({"indexes": shown.collect::<Vec<_>>()}))
        }
    }
}

/// Converts a text to a query string with the syntax that the tool promises: signs and quotation
/// marks before words have a meaning, everything else is escaped, so that no text is an error.
fn as_query_string(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text.trim_start());
    while !rest.is_empty() {
        if let Some(unsigned) = rest.strip_prefix(['+', '-'])
            && unsigned.starts_with(|c: char| !c.is_whitespace())
        {
            out.push_str(&rest[..1]);
            rest = unsigned;
        }
        let phrase = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        rest = match phrase {
            Some((words, after)) => {
                out.push('"');
                out.extend(words.chars().flat_map(|c| escaped(c, c == '\\')));
                out.push('"');
                after
            }
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                out.push_str(if matches!(word, "AND" | "OR" | "NOT") { "\\" } else { "" });
                out.extend(word.chars().flat_map(|c| escaped(c, !c.is_alphanumeric())));
                after
            }
        };
        out.push(' ');
        rest = rest.trim_start();
    }
    out
}

/// Yields a character, after a backslash if `escapes` is true.
fn escaped(c: char, escapes: bool) -> impl Iterator<Item = char> {
    escapes.then_some('\\').into_iter().chain([c])
}

fn found(app: &App, arguments: &Value, caller: &Caller) -> Result<Value, Failure> {
    let (index, query) = (text(arguments, "index")?, text(arguments, "query")?);
    let size = match &arguments["size"] {
        Value::Null => SIZE,
        size => size.as_u64().filter(|size| (1..=MAX_SIZE).contains(size)).ok_or_else(|| {
            Failure::illegal(format!("[size] must be a number from 1 to {MAX_SIZE}"))
        })?,
    };
    let mut words = json!({"query": as_query_string(query), "type": "most_fields"});
    if !arguments["fields"].is_null() {
        words["fields"] = arguments["fields"].clone();
    }
    let body = json!({"query": {"query_string": words}, "size": size, "track_total_hits": true});
    let ask = Ask::parse(body, &Params::default(), &app.config.limits)?;
    let targets = app.catalogue().select(index, false)?.into_iter().map(Target::from).collect();
    let found = execute(app, targets, ask, false, caller)?;
    let mut showing = Showing::new(app, caller, &found.ask);
    let body: Value = serde_json::from_slice(&found.body(0, found.ask.size, &mut showing)?)
        .map_err(|e| Failure::broken(e.to_string()))?;
    let hit = |hit: &Value| json!({"index": hit["_index"], "id": hit["_id"], "score": hit["_score"], "document": hit["_source"]});
    let hits = body["hits"]["hits"].as_array().map(Vec::as_slice).unwrap_or_default();
    let hits: Vec<Value> = hits.iter().map(hit).collect();
    Ok(
        json!({"total": body["hits"]["total"]["value"], "complete": found.is_complete(), "hits": hits}),
    )
}

#[cfg(test)]
mod tests {
    use super::as_query_string;

    #[test]
    fn signs_and_quotation_marks_alone_have_a_meaning() {
        for (text, want) in [
            ("ab", "ab "),
            ("+a -b", "+a -b "),
            ("a OR b", r"a \OR b "),
            (r#"-"a (b" c"#, r#"-"a (b" c "#),
            (r#""a\" b"#, r#""a\\" b "#),
            (r#"5" a"#, r#"5\" a "#),
            (r#"a "b"#, r#"a \"b "#),
            ("a - b*", r"a \- b\* "),
            ("--a", r"-\-a "),
            ("a:b~1^2", r"a\:b\~1\^2 "),
            ("  ", ""),
        ] {
            assert_eq!(as_query_string(text), want, "{text}");
        }
    }
}
