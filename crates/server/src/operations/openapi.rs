//! `/openapi.json`: the server's native routes as OpenAPI 3.1, with the limits of this server.
//! For Elasticsearch's routes, see Elasticsearch's documentation.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Method;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::error::{Failure, brief};
use crate::http::exchange::{Answer, Reply};
use crate::http::params::Params;
use crate::native::arrow::CONTENT_TYPE;
use crate::operations::config::Limits;

/// A route and method: its purpose, request, status and response.
struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    /// Options of the query string, with descriptions.
    options: &'static [(&'static str, &'static str)],
    /// Content types and schemas.
    body: &'static [(&'static str, &'static str)],
    status: &'static str,
    answer: &'static [(&'static str, &'static str)],
    /// True if the operation needs no key.
    open: bool,
}

const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";
const TEXT: &str = "text/plain";
const REFRESH: (&str, &str) =
    ("refresh", "If true, the response is sent once searches see the change.");

/// Default values of an operation.
const PLAIN: Operation = Operation {
    method: "get",
    path: "",
    summary: "",
    options: &[],
    body: &[],
    status: "200",
    answer: &[(JSON, "Object")],
    open: false,
};

const OPERATIONS: [Operation; 35] = [
    Operation {
        path: "/health",
        summary: "Check whether the server is available",
        open: true,
        ..PLAIN
    },
    Operation {
        path: "/livez",
        summary: "Check whether the process is running",
        answer: &[(TEXT, "Text")],
        open: true,
        ..PLAIN
    },
    Operation {
        path: "/readyz",
        summary: "Check whether the server is ready for requests",
        answer: &[(TEXT, "Text")],
        open: true,
        ..PLAIN
    },
    Operation {
        path: "/metrics",
        summary: "Metrics for Prometheus",
        answer: &[(TEXT, "Text")],
        ..PLAIN
    },
    Operation { path: "/openapi.json", summary: "This document", ..PLAIN },
    Operation {
        method: "post",
        path: "/retrieve",
        summary: "Retrieve documents for models in training",
        body: &[(JSON, "Retrieve")],
        ..PLAIN
    },
    Operation {
        path: "/v1/status",
        summary: "Load, queues, memory and indexes",
        options: &[("indexes", "If false, indexes are omitted.")],
        ..PLAIN
    },
    Operation { path: "/v1/indexes", summary: "All indexes", ..PLAIN },
    Operation { path: "/v1/indexes/{index}", summary: "An index", ..PLAIN },
    Operation {
        method: "put",
        path: "/v1/indexes/{index}",
        summary: "Create an index",
        body: &[(JSON, "Object")],
        status: "201",
        ..PLAIN
    },
    Operation {
        method: "delete",
        path: "/v1/indexes/{index}",
        summary: "Delete an index and its documents",
        ..PLAIN
    },
    Operation {
        path: "/v1/indexes/{index}/documents/{id}",
        summary: "Read a document, including changes before a refresh",
        ..PLAIN
    },
    Operation {
        method: "put",
        path: "/v1/indexes/{index}/documents/{id}",
        summary: "Add or replace a document",
        options: &[REFRESH, ("create", "If true, an existing document is a conflict.")],
        body: &[(JSON, "Object")],
        ..PLAIN
    },
    Operation {
        method: "patch",
        path: "/v1/indexes/{index}/documents/{id}",
        summary: "Change fields of a document",
        options: &[REFRESH],
        body: &[(JSON, "Object")],
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/indexes/{index}/documents",
        summary: "Add a document under a generated id",
        options: &[REFRESH],
        body: &[(JSON, "Object")],
        status: "201",
        ..PLAIN
    },
    Operation {
        method: "delete",
        path: "/v1/indexes/{index}/documents/{id}",
        summary: "Delete a document",
        options: &[REFRESH],
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/indexes/{index}/bulk",
        summary: "Add documents, one per line, each with an `id`; the body may have any length and is read as a stream",
        options: &[REFRESH],
        body: &[(LINES, "Text")],
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/indexes/{index}/refresh",
        summary: "Make all writes visible to searches",
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/indexes/{index}/reload",
        summary: "Serve the current contents of the folder",
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/indexes/{index}/search",
        summary: "Search",
        body: &[(JSON, "Search")],
        answer: &[(JSON, "Found")],
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/indexes/{index}/batch",
        summary: "Run many searches at once",
        body: &[(JSON, "Batch"), (LINES, "Text"), (CONTENT_TYPE, "Bytes")],
        answer: &[(JSON, "BatchFound"), (CONTENT_TYPE, "Bytes")],
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/indexes/{index}/count",
        summary: "Count the documents that match `query` and `filter`",
        body: &[(JSON, "Object")],
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/indexes/{index}/explain/{id}",
        summary: "Explain the score of a document",
        body: &[(JSON, "Object")],
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/indexes/{index}/ngram",
        summary: "Search an n-gram index, which finds misspelled words",
        body: &[(JSON, "Ngram")],
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/indexes/{index}/analyze",
        summary: "The terms of `text`, by `field` or `analyzer`",
        body: &[(JSON, "Object")],
        ..PLAIN
    },
    Operation {
        path: "/v1/cluster",
        summary: "The nodes of the collection on other machines, if the server answers for one",
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/cluster/search",
        summary: "Search the collection on other machines",
        body: &[(JSON, "ClusterSearch")],
        answer: &[(JSON, "ClusterFound")],
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/cluster/batch",
        summary: "Run many searches of the collection on other machines at once",
        body: &[(JSON, "ClusterBatch")],
        answer: &[(JSON, "ClusterBatchFound")],
        ..PLAIN
    },
    Operation { path: "/v1/snapshots", summary: "All snapshots", ..PLAIN },
    Operation {
        method: "post",
        path: "/v1/snapshots",
        summary: "Take a snapshot",
        body: &[(JSON, "Snapshot")],
        status: "201",
        ..PLAIN
    },
    Operation { path: "/v1/snapshots/{name}", summary: "A snapshot with its files", ..PLAIN },
    Operation {
        method: "delete",
        path: "/v1/snapshots/{name}",
        summary: "Delete a snapshot, or the remains of one after a crash",
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/snapshots/{name}/restore",
        summary: "Restore indexes of a snapshot",
        body: &[(JSON, "Restore")],
        ..PLAIN
    },
    Operation { path: "/ui", summary: "The page", status: "308", answer: &[], open: true, ..PLAIN },
    Operation {
        path: "/ui/",
        summary: "The page",
        answer: &[("text/html", "Text")],
        open: true,
        ..PLAIN
    },
];

/// Options of every route, which select and format the answer.
const EVERYWHERE: [&str; 2] = ["pretty", "filter_path"];

/// Refuses query-string options that a native route does not have: they would silently have no
/// effect.
pub(crate) fn check_options(method: &Method, route: &str, params: &Params) -> Result<(), Failure> {
    // The page's address may have parameters for its scripts.
    let operation = OPERATIONS.iter().find(|operation| {
        operation.path == route && is_method(operation, method) && !route.starts_with("/ui")
    });
    // Other paths are refused as unknown routes; routes of the facade have a list of their
    // options.
    let options = match operation {
        Some(operation) => operation.options,
        // MCP has no options; its specification describes the protocol.
        None if route == "/mcp" => &[],
        None => return Ok(()),
    };
    for (name, value) in params.iter().filter(|(name, _)| !EVERYWHERE.contains(name)) {
        if !options.iter().any(|(known, _)| *known == name) {
            let known: Vec<&str> =
                options.iter().map(|(known, _)| *known).chain(EVERYWHERE).collect();
            let known = known.join(", ");
            let name = brief(name);
            let reason = format!("this route has no option [{name}]; supported are {known}");
            return Err(Failure::illegal(reason));
        }
        if !matches!(value, "" | "true" | "false") {
            let reason = format!("[{name}] must be true or false, found [{}]", brief(value));
            return Err(Failure::illegal(reason));
        }
    }
    Ok(())
}

/// Returns true if a request with this method calls the operation. HEAD is GET without the body.
fn is_method(operation: &Operation, method: &Method) -> bool {
    let method = if *method == Method::HEAD { "get" } else { method.as_str() };
    operation.method.eq_ignore_ascii_case(method)
}

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
            "schemas": schemas(limits),
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

fn schemas(limits: &Limits) -> Value {
    let strings = json!({"type": "array", "items": {"type": "string"}});
    let query = json!({
        "description": "A text to search for in all text fields, or a query in Elasticsearch's language.",
        "type": ["string", "object", "null"],
    });
    let text = json!({"type": "string", "maxLength": limits.query_text});
    let hits = json!({"type": "integer", "minimum": 0, "maximum": limits.window});
    let number = json!({"type": "integer", "minimum": 0});
    let many = json!({"type": "array", "maxItems": limits.batch, "items": text});
    let static_weight = json!({"type": "number", "minimum": 0, "description": "The weight of a document's static score in its score."});
    let search = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "query": query,
            "syntax": {"type": "boolean", "description": "If true, the text may contain signs, fields, phrases and conditions."},
            "filter": {"type": "object", "description": "A query that hits must also match; it does not affect scores."},
            "k": hits,
            "from": hits,
            "count": {"type": "boolean", "description": "If true, all matches are counted."},
            "documents": {"type": "boolean", "description": "If true, hits include their documents."},
            "deadline_ms": number,
            "sort": {"type": "array", "items": {"$ref": "#/components/schemas/Sort"}},
            "facets": {"type": "array", "items": {"$ref": "#/components/schemas/Facet"}},
            "highlight": {"$ref": "#/components/schemas/Highlight"},
            "explain": {"type": "boolean", "description": "If true, hits include an explanation of their scores."},
            "static_weight": static_weight,
        },
    });
    let hit = json!({
        "type": "object",
        "required": ["id", "score"],
        "properties": {
            "id": {"type": "string"},
            "score": {"type": "number"},
            "sort": {"type": "array", "description": "The sort values of the hit, if the search has `sort`."},
            "document": {},
            "highlights": {},
            "explanation": {"type": "object"},
        },
    });
    let coverage = json!({
        "type": "object",
        "required": ["coverage", "documents", "of", "full"],
        "properties": {
            "coverage": {"type": "integer", "minimum": 0, "maximum": 100},
            "documents": number,
            "of": number,
            "full": {"type": "boolean"},
            "degraded": {"type": "object", "properties": {"timeout": {"type": "boolean"}}},
        },
    });
    let cluster_search = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["query"],
        "properties": {
            "query": text,
            "k": hits,
            "mode": {"enum": ["or", "and", "and-or"]},
            "count": {"type": "boolean", "description": "If true, all matches are counted."},
            "filter": {"type": "string", "maxLength": limits.query_text, "description": "An expression that hits must also match; it does not affect scores."},
            "deadline_ms": number,
            "allow_partial": {"type": "boolean", "description": "If true, missing shards lead to a partial answer instead of an error."},
            "syntax": {"type": "boolean", "description": "If true, the query may contain signs, fields and parentheses."},
            "static_weight": static_weight,
        },
    });
    let cluster_found = json!({
        "type": "object",
        "required": ["hits", "coverage", "version"],
        "properties": {
            "hits": {"type": "array", "items": {"type": "object", "required": ["id", "score"]}},
            "matches": {"type": ["integer", "null"]},
            "coverage": {"type": "object", "required": ["documents", "searched", "shards", "missing", "complete"]},
            "version": number,
        },
    });
    json!({
        "ClusterSearch": cluster_search,
        "ClusterBatch": {
            "type": "object",
            "additionalProperties": false,
            "required": ["queries"],
            "properties": {"queries": {"type": "array", "maxItems": limits.batch, "items": {"$ref": "#/components/schemas/ClusterSearch"}}},
        },
        "ClusterFound": cluster_found,
        "ClusterBatchFound": {
            "type": "object",
            "required": ["answers"],
            "properties": {"answers": {"type": "array", "items": {"anyOf": [
                {"$ref": "#/components/schemas/ClusterFound"},
                {"type": "object", "required": ["error"], "properties": {"error": {"type": "object"}}},
            ]}}},
        },
        "Object": {"type": "object"},
        "Text": {"type": "string"},
        "Bytes": {"type": "string", "contentMediaType": CONTENT_TYPE},
        "Search": search,
        "Batch": {
            "type": "object",
            "required": ["searches"],
            "properties": {"searches": {"type": "array", "maxItems": limits.batch, "items": {"$ref": "#/components/schemas/Search"}}},
        },
        "Ngram": {
            "type": "object",
            "additionalProperties": false,
            "required": ["query"],
            "properties": {
                "query": text,
                "k": hits,
                "misses": {"type": ["integer", "string"], "description": "The number of n-grams of the query that a hit may lack, or a share such as 25%."},
                "errors": number,
                "verify": {"type": "boolean", "description": "If true, hits are ordered by edit distance."},
                "candidates": hits,
                "documents": {"type": "boolean", "description": "If true, hits include their documents."},
                "deadline_ms": number,
            },
        },
        "Facet": {
            "type": "object",
            "additionalProperties": false,
            "required": ["field"],
            "properties": {
                "field": {"type": "string"},
                "top": number,
                "ranges": {"type": "array", "items": {"type": "object", "additionalProperties": false, "properties": {"from": {}, "to": {}}}},
            },
        },
        "Sort": {
            "type": "object",
            "additionalProperties": false,
            "required": ["field"],
            "properties": {
                "field": {"type": "string", "description": "A field with values, _score or _doc."},
                "order": {"enum": ["asc", "desc"]},
                "missing": {"enum": ["first", "last"]},
            },
        },
        "Highlight": {
            "type": "object",
            "additionalProperties": false,
            "properties": {"fields": strings, "width": number, "all": {"type": "boolean"}},
        },
        "Hit": hit,
        "Coverage": coverage,
        "Found": {
            "type": "object",
            "required": ["hits", "coverage"],
            "properties": {
                "took_us": number,
                "hits": {"type": "array", "items": {"$ref": "#/components/schemas/Hit"}},
                "matches": {"type": ["integer", "null"]},
                "missing": {"type": "array", "items": {"type": "string"}, "description": "Words of the query that occur in no document."},
                "generation": number,
                "coverage": {"$ref": "#/components/schemas/Coverage"},
                "facets": {"type": "array", "items": {"type": "object"}},
            },
        },
        "BatchFound": {
            "type": "object",
            "required": ["results"],
            "properties": {"results": {"type": "array", "items": {"anyOf": [
                {"$ref": "#/components/schemas/Found"},
                {"type": "object", "required": ["error"], "properties": {"error": {"type": "object"}}},
            ]}}},
        },
        "Retrieve": {
            "type": "object",
            "properties": {
                "queries": many,
                "query": text,
                "topk": hits,
                "top_k": hits,
                "return_scores": {"type": "boolean"},
                "index": {"type": "string"},
            },
        },
        "Snapshot": {
            "type": "object",
            "additionalProperties": false,
            "properties": {"name": {"type": "string"}, "indexes": strings},
        },
        "Restore": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "indexes": strings,
                "as": {"type": "object", "additionalProperties": {"type": "string"}},
                "aliases": {"type": "boolean", "description": "If true, indexes get their aliases back; by default, only those that keep their names do."},
            },
        },
        "Failure": {
            "type": "object",
            "required": ["error", "status"],
            "properties": {
                "status": {"type": "integer"},
                "error": {
                    "type": "object",
                    "required": ["type", "reason"],
                    "properties": {"type": {"type": "string"}, "reason": {"type": "string"}},
                },
            },
        },
    })
}
