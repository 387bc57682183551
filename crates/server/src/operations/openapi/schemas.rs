//! The schemas of requests and answers in `/openapi.json`.

use serde_json::{Map, Value, json};

use crate::http::content_types::ARROW_STREAM;
use crate::operations::config::Limits;

/// Returns all schemas by name.
pub(super) fn all(limits: &Limits) -> Value {
    let groups = [cluster(limits), general(), requests(limits), options(), answers()];
    let members = groups.into_iter().flat_map(|group| match group {
        Value::Object(members) => members,
        _ => Map::new(),
    });
    Value::Object(members.collect())
}

/// Returns the schema of a query's text.
fn text(limits: &Limits) -> Value {
    json!({"type": "string", "maxLength": limits.query_text})
}

/// Returns the schema of a number of hits.
fn hits(limits: &Limits) -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": limits.window})
}

/// Returns the schema of a non-negative integer.
fn number() -> Value {
    json!({"type": "integer", "minimum": 0})
}

/// Returns the schema of an array of strings.
fn strings() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

/// Returns the schema of the weight of static scores.
fn static_weight() -> Value {
    json!({"type": "number", "minimum": 0, "description": "The weight of a document's static score in its score."})
}

/// Returns the schemas of searches of a collection on other machines.
fn cluster(limits: &Limits) -> Value {
    let (text, hits, number, static_weight) =
        (text(limits), hits(limits), number(), static_weight());
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
    })
}

/// Returns the schemas of bodies without a structure of their own, and of errors.
fn general() -> Value {
    json!({
        "Object": {"type": "object"},
        "Text": {"type": "string"},
        "Bytes": {"type": "string", "contentMediaType": ARROW_STREAM},
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

/// Returns the schemas of requests.
fn requests(limits: &Limits) -> Value {
    let query = json!({
        "description": "A text to search for in all text fields, or a query in Elasticsearch's language.",
        "type": ["string", "object", "null"],
    });
    let (text, hits, number, strings, static_weight) =
        (text(limits), hits(limits), number(), strings(), static_weight());
    let many = json!({"type": "array", "maxItems": limits.batch, "items": text});
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
    json!({
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
    })
}

/// Returns the schemas of the parts of a search.
fn options() -> Value {
    let (number, strings) = (number(), strings());
    json!({
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
    })
}

/// Returns the schemas of answers.
fn answers() -> Value {
    let number = number();
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
    json!({
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
    })
}
