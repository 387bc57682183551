//! The table of the server's native routes: their methods, options, bodies and answers. It decides
//! which options a request may have, and `/openapi.json` describes it. Elasticsearch's routes have
//! a separate table.

use axum::http::Method;

use crate::error::{Failure, brief};
use crate::http::content_types::{ARROW_STREAM, JSON, JSON_LINES, TEXT};
use crate::http::params::Params;

/// A route and method: its purpose, request, status and response.
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// Options of the query string, with descriptions.
    pub(crate) options: &'static [(&'static str, &'static str)],
    /// Content types and schemas.
    pub(crate) body: &'static [(&'static str, &'static str)],
    pub(crate) status: &'static str,
    pub(crate) answer: &'static [(&'static str, &'static str)],
    /// True if the operation needs no key.
    pub(crate) open: bool,
}

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

/// The native routes.
pub(crate) const OPERATIONS: [Operation; 35] = [
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
        body: &[(JSON_LINES, "Text")],
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
        body: &[(JSON, "Batch"), (JSON_LINES, "Text"), (ARROW_STREAM, "Bytes")],
        answer: &[(JSON, "BatchFound"), (ARROW_STREAM, "Bytes")],
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
        operation.path == route && is_method(operation, method) && !is_page(route)
    });
    // Other paths are refused as unknown routes; Elasticsearch's routes have a separate list.
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

/// Returns true for a route of the web page.
fn is_page(route: &str) -> bool {
    route == "/ui" || route.starts_with("/ui/")
}

/// Returns true for routes that need no key and are served before the indexes are open: health
/// checks, and the web page, which itself contains no data.
pub(crate) fn is_open(route: &str) -> bool {
    matches!(route, "/health" | "/livez" | "/readyz") || is_page(route)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_without_keys_are_described_as_such() {
        for operation in &OPERATIONS {
            assert_eq!(is_open(operation.path), operation.open, "{}", operation.path);
        }
        assert!(is_open("/ui/main.js"));
        for route in ["none", "/", "/metrics", "/uix", "/{index}/_search"] {
            assert!(!is_open(route), "{route}");
        }
    }
}
