//! `/openapi.json`: the server's own routes as OpenAPI 3.1, with the limits that this server has. Elasticsearch's routes are described by Elasticsearch.

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

/// A route and method: what it is for, what is sent, and what comes back with which status.
struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    /// Options of the query string.
    options: &'static [(&'static str, &'static str)],
    /// Content type and schema.
    body: &'static [(&'static str, &'static str)],
    status: &'static str,
    answer: &'static [(&'static str, &'static str)],
    /// Whether it works without a key.
    open: bool,
}

const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";
const TEXT: &str = "text/plain";
const REFRESH: (&str, &str) = ("refresh", "Whether searches see the change when the answer comes.");

/// What most operations have.
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
    Operation { path: "/health", summary: "Whether the server is available", open: true, ..PLAIN },
    Operation {
        path: "/livez",
        summary: "Whether the process runs",
        answer: &[(TEXT, "Text")],
        open: true,
        ..PLAIN
    },
    Operation {
        path: "/readyz",
        summary: "Whether requests are welcome",
        answer: &[(TEXT, "Text")],
        open: true,
        ..PLAIN
    },
    Operation {
        path: "/metrics",
        summary: "Counts for Prometheus",
        answer: &[(TEXT, "Text")],
        ..PLAIN
    },
    Operation { path: "/openapi.json", summary: "This document", ..PLAIN },
    Operation {
        method: "post",
        path: "/retrieve",
        summary: "Documents for models in training",
        body: &[(JSON, "Retrieve")],
        ..PLAIN
    },
    Operation {
        path: "/v1/status",
        summary: "Load, queues, memory and indexes",
        options: &[("indexes", "Whether indexes are listed.")],
        ..PLAIN
    },
    Operation { path: "/v1/indexes", summary: "All indexes", ..PLAIN },
    Operation { path: "/v1/indexes/{index}", summary: "An index", ..PLAIN },
    Operation {
        method: "put",
        path: "/v1/indexes/{index}",
        summary: "Make an index",
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
        summary: "A document, refreshed or not",
        ..PLAIN
    },
    Operation {
        method: "put",
        path: "/v1/indexes/{index}/documents/{id}",
        summary: "Add or replace a document",
        options: &[REFRESH, ("create", "Whether a document that is there is a conflict.")],
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
        summary: "Add a document under an id that is made",
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
        summary: "Add documents, one a line, each with an `id`; a body of any length, read piece by piece",
        options: &[REFRESH],
        body: &[(LINES, "Text")],
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/indexes/{index}/refresh",
        summary: "Let searches see all writes",
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/indexes/{index}/reload",
        summary: "Serve what is in the folder now",
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
        summary: "Many searches at once",
        body: &[(JSON, "Batch"), (LINES, "Text"), (CONTENT_TYPE, "Bytes")],
        answer: &[(JSON, "BatchFound"), (CONTENT_TYPE, "Bytes")],
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/indexes/{index}/count",
        summary: "How many documents match `query` and `filter`",
        body: &[(JSON, "Object")],
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/indexes/{index}/explain/{id}",
        summary: "How the score of a document comes about",
        body: &[(JSON, "Object")],
        ..PLAIN
    },
    Operation {
        method: "post",
        path: "/v1/indexes/{index}/ngram",
        summary: "Search an index of n-grams, which finds what is misspelt",
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
        summary: "Many searches of the collection on other machines at once",
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
        summary: "Delete a snapshot, or what a crash left of one",
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

/// Options that every route has: what is shown of an answer, and how.
const EVERYWHERE: [&str; 2] = ["pretty", "filter_path"];

/// Refuses options of a query string that a route of the server's own does not have: they would be without effect, and nobody would know.
pub(crate) fn check_options(method: &Method, route: &str, params: &Params) -> Result<(), Failure> {
    // The address of the page may have what its scripts read.
    let of = OPERATIONS
        .iter()
        .find(|of| of.path == route && is_method(of, method) && !route.starts_with("/ui"));
    // What is no operation is refused for that; routes of the facade have their own list.
    let options = match of {
        Some(of) => of.options,
        // The protocol is described elsewhere.
        None if route == "/mcp" => &[],
        None => return Ok(()),
    };
    for (name, value) in params.iter().filter(|(name, _)| !EVERYWHERE.contains(name)) {
        if !options.iter().any(|(known, _)| *known == name) {
            let known: Vec<&str> =
                options.iter().map(|(known, _)| *known).chain(EVERYWHERE).collect();
            let known = known.join(", ");
            let name = brief(name);
            let reason = format!("there is no option [{name}] here; there is {known}");
            return Err(Failure::illegal(reason));
        }
        if !matches!(value, "" | "true" | "false") {
            let reason = format!("[{name}] must be true or false, found [{}]", brief(value));
            return Err(Failure::illegal(reason));
        }
    }
    Ok(())
}

/// Whether an operation is asked for by a method. HEAD is GET without its body.
fn is_method(of: &Operation, method: &Method) -> bool {
    let method = if *method == Method::HEAD { "get" } else { method.as_str() };
    of.method.eq_ignore_ascii_case(method)
}

pub(crate) async fn openapi(State(app): State<Arc<App>>) -> Reply {
    Ok(Answer::json(document(&app.config.limits)))
}

fn document(limits: &Limits) -> Value {
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
            "description": "Exact text search. Elasticsearch's routes are served too, and are not listed here.",
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
    let content = |of: &[(&str, &str)]| -> Value {
        of.iter()
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
    let failed =
        json!({"description": "What went wrong", "content": content(&[(JSON, "Failure")])});
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
        "description": "A text, which is searched in all text fields, or a query in Elasticsearch's language.",
        "type": ["string", "object", "null"],
    });
    let text = json!({"type": "string", "maxLength": limits.query_text});
    let hits = json!({"type": "integer", "minimum": 0, "maximum": limits.window});
    let number = json!({"type": "integer", "minimum": 0});
    let many = json!({"type": "array", "maxItems": limits.batch, "items": text});
    let static_weight = json!({"type": "number", "minimum": 0, "description": "What the static score of a document counts for in its score."});
    let search = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "query": query,
            "syntax": {"type": "boolean", "description": "Whether the text has signs, fields, phrases and conditions."},
            "filter": {"type": "object", "description": "A query that hits must match too; it has no part in scores."},
            "k": hits,
            "from": hits,
            "count": {"type": "boolean", "description": "Whether all matches are counted."},
            "documents": {"type": "boolean", "description": "Whether hits have their documents."},
            "deadline_ms": number,
            "sort": {"type": "array", "items": {"$ref": "#/components/schemas/Sort"}},
            "facets": {"type": "array", "items": {"$ref": "#/components/schemas/Facet"}},
            "highlight": {"$ref": "#/components/schemas/Highlight"},
            "explain": {"type": "boolean", "description": "Whether hits say how their scores came about."},
            "static_weight": static_weight,
        },
    });
    let hit = json!({
        "type": "object",
        "required": ["id", "score"],
        "properties": {
            "id": {"type": "string"},
            "score": {"type": "number"},
            "sort": {"type": "array", "description": "The values that the hit was sorted by, if that was asked for."},
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
            "count": {"type": "boolean", "description": "Whether all matches are counted."},
            "filter": {"type": "string", "maxLength": limits.query_text, "description": "An expression that hits must match too; it has no part in scores."},
            "deadline_ms": number,
            "allow_partial": {"type": "boolean", "description": "Whether an answer without some shards is an answer, and not an error."},
            "syntax": {"type": "boolean", "description": "Whether the query has signs, fields and parentheses."},
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
                "misses": {"type": ["integer", "string"], "description": "How many n-grams of the query a hit may lack: a number, or a share such as 25%."},
                "errors": number,
                "verify": {"type": "boolean", "description": "Whether hits are ordered by their edit distance."},
                "candidates": hits,
                "documents": {"type": "boolean", "description": "Whether hits have their documents."},
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
                "missing": {"type": "array", "items": {"type": "string"}, "description": "Words of the query that are in no document."},
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
                "aliases": {"type": "boolean", "description": "Whether indexes get their aliases back; by default those that keep their names do."},
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
