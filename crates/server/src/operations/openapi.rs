//! `/openapi.json`: the server's native routes as OpenAPI 3.1, with the limits of this server.
//! For Elasticsearch's routes, see Elasticsearch's documentation.

mod schemas;

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::http::answer::{Answer, Reply};
use crate::http::content_types::JSON;
use crate::http::native_routes::{OPERATIONS, Operation};
use crate::operations::config::Limits;

pub(crate) async fn openapi(State(app): State<Arc<App>>) -> Reply {
    Ok(Answer::json(document(&app.config.limits)))
}

pub(crate) fn document(limits: &Limits) -> Value {
    let mut paths = Map::new();
    for operation in &OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = described(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "warpseek",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Exact text search. The server also has Elasticsearch's routes, which are not listed here.",
            "license": {"name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas::all(limits),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "api-key"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{"bearer": []}, {"key": []}, {"basic": []}],
    })
}

fn described(operation: &Operation) -> Value {
    let content = |types: &[(&str, &str)]| -> Value {
        types
            .iter()
            .map(|(kind, schema)| {
                let schema = json!({"$ref": format!("#/components/schemas/{schema}")});
                ((*kind).to_owned(), json!({"schema": schema}))
            })
            .collect::<Map<String, Value>>()
            .into()
    };
    let in_path = operation.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        Some(json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
    });
    let options = operation.options.iter().map(|(name, description)| {
        json!({"name": name, "in": "query", "description": description, "schema": {"type": "boolean"}})
    });
    let mut answer = json!({"description": operation.summary});
    if !operation.answer.is_empty() {
        answer["content"] = content(operation.answer);
    }
    let failed = json!({"description": "The error", "content": content(&[(JSON, "Failure")])});
    let name: String = operation
        .path
        .split(['/', '.'])
        .filter(|part| !part.is_empty())
        .map(|part| part.trim_matches(['{', '}']))
        .collect::<Vec<_>>()
        .join("_");
    let slash = if operation.path.ends_with('/') { "_" } else { "" };
    let mut described = json!({
        "operationId": format!("{}_{name}{slash}", operation.method),
        "summary": operation.summary,
        "parameters": in_path.chain(options).collect::<Vec<_>>(),
        "responses": {operation.status: answer, "default": failed},
    });
    if !operation.body.is_empty() {
        described["requestBody"] = json!({"content": content(operation.body)});
    }
    if operation.open {
        described["security"] = json!([]);
    }
    described
}
