//! The query-string options of each route, and whether the route takes a body. As in
//! Elasticsearch, unknown options are errors; known ones that have no effect here lead to a
//! warning (`Params::ignored`).

use axum::extract::{MatchedPath, Request};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::error::{Failure, brief};
use crate::http::call::params_of;
use crate::http::params::Params;

/// Options of every route.
const EVERYWHERE: &[&str] = &["pretty", "human", "error_trace", "filter_path", "format"];
/// The body in the query string.
const SOURCE: &[&str] = &["source", "source_content_type"];
/// Options for expressions that select indexes.
const INDICES: &[&str] =
    &["ignore_unavailable", "allow_no_indices", "expand_wildcards", "ignore_throttled"];
/// Time limits for waiting on a cluster.
const TIMES: &[&str] = &["timeout", "master_timeout", "cluster_manager_timeout"];
/// Options of the query `?q=`.
const LINE: &[&str] = &["q", "df", "analyzer", "analyze_wildcard", "lenient", "default_operator"];
/// Options that select parts of a source.
const PARTS: &[&str] = &[
    "_source",
    "_source_includes",
    "_source_excludes",
    "_source_include",
    "_source_exclude",
    "_source_exclude_vectors",
];
const SEARCH: &[&str] = &[
    "from",
    "size",
    "sort",
    "explain",
    "version",
    "seq_no_primary_term",
    "timeout",
    "terminate_after",
    "stored_fields",
    "min_score",
    "track_scores",
    "track_total_hits",
    "stats",
    "batched_reduce_size",
    "pre_filter_shard_size",
    "max_concurrent_shard_requests",
    "search_type",
    "request_cache",
    "scroll",
    "routing",
    "preference",
    "ccs_minimize_roundtrips",
    "rest_total_hits_as_int",
    "typed_keys",
    "allow_partial_search_results",
    "include_named_queries_score",
    "cancel_after_time_interval",
    "phase_took",
];
const COUNT: &[&str] = &["min_score", "preference", "routing", "terminate_after", "timeout"];
const MULTI_SEARCH: &[&str] = &[
    "max_concurrent_searches",
    "max_concurrent_shard_requests",
    "pre_filter_shard_size",
    "search_type",
    "rest_total_hits_as_int",
    "typed_keys",
    "ccs_minimize_roundtrips",
    "routing",
    "include_named_queries_score",
];
const DELETE_BY_QUERY: &[&str] = &[
    "max_docs",
    "conflicts",
    "refresh",
    "routing",
    "preference",
    "scroll",
    "scroll_size",
    "search_type",
    "search_timeout",
    "stats",
    "version",
    "request_cache",
    "timeout",
    "wait_for_active_shards",
    "wait_for_completion",
    "requests_per_second",
    "slices",
];
const WRITE: &[&str] =
    &["refresh", "routing", "timeout", "wait_for_active_shards", "if_seq_no", "if_primary_term"];
/// Options for the version of a document.
const VERSIONS: &[&str] = &["version", "version_type"];
const PIPELINE: &[&str] = &[
    "op_type",
    "pipeline",
    "require_alias",
    "require_data_stream",
    "list_executed_pipelines",
    "include_source_on_error",
];
const READ: &[&str] =
    &["preference", "realtime", "refresh", "routing", "stored_fields", "force_synthetic_source"];
const TABLE: &[&str] =
    &["h", "s", "v", "help", "bytes", "time", "local", "master_timeout", "cluster_manager_timeout"];
const LOCAL: &[&str] = &["local", "master_timeout", "cluster_manager_timeout"];
const SETTINGS: &[&str] = &["flat_settings", "include_defaults"];
const STATS: &[&str] = &[
    "fields",
    "completion_fields",
    "fielddata_fields",
    "forbid_closed_indices",
    "groups",
    "include_segment_file_sizes",
    "include_unloaded_segments",
    "level",
    "metric",
    "types",
];
const HEALTH: &[&str] = &[
    "level",
    "local",
    "wait_for_active_shards",
    "wait_for_events",
    "wait_for_no_initializing_shards",
    "wait_for_no_relocating_shards",
    "wait_for_nodes",
    "wait_for_status",
];

/// Options of searches that would change results and are not supported.
const UNSUPPORTED: [&str; 6] = [
    "docvalue_fields",
    "search_pipeline",
    "suggest_field",
    "suggest_mode",
    "suggest_size",
    "suggest_text",
];

/// Boolean options: `true`, `false`, or without a value.
const TRUTHS: [&str; 40] = [
    "_source_exclude_vectors",
    "primary_only",
    "pretty",
    "human",
    "error_trace",
    "ignore_unavailable",
    "allow_no_indices",
    "ignore_throttled",
    "analyze_wildcard",
    "lenient",
    "explain",
    "version",
    "seq_no_primary_term",
    "track_scores",
    "request_cache",
    "ccs_minimize_roundtrips",
    "rest_total_hits_as_int",
    "typed_keys",
    "allow_partial_search_results",
    "include_named_queries_score",
    "wait_for_completion",
    "require_alias",
    "require_data_stream",
    "list_executed_pipelines",
    "include_source_on_error",
    "realtime",
    "force_synthetic_source",
    "v",
    "help",
    "local",
    "flat_settings",
    "include_defaults",
    "include_type_name",
    "force",
    "wait_if_ongoing",
    "only_expunge_deletes",
    "flush",
    "rewrite",
    "all_shards",
    "include_unmapped",
];

/// The options of a route, in groups, and its body.
type Known = (&'static [&'static [&'static str]], Body);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    None,
    /// A body in the request only.
    Own,
    /// A body in the request or in `source`.
    Source,
}

/// Returns the options of a route, which is identified by its path after the index; `None` if the
/// route does not exist.
fn known(method: &Method, route: &str) -> Option<Known> {
    let call = match route.strip_prefix("/{index}") {
        Some(call) if call.is_empty() || call.starts_with('/') => call,
        _ => route,
    };
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let is_delete = *method == Method::DELETE;
    of_searches(call, is_delete)
        .or_else(|| of_documents(call, is_read, is_delete))
        .or_else(|| of_indexes(call, is_read, is_delete))
        .or_else(|| of_server(call))
}

/// Returns the options of a route that searches or describes what searches see.
fn of_searches(call: &str, is_delete: bool) -> Option<Known> {
    Some(match call {
        "/_search" => (&[INDICES, LINE, PARTS, SEARCH], Body::Source),
        "/_msearch" => (&[INDICES, MULTI_SEARCH], Body::Source),
        "/_count" => (&[INDICES, LINE, COUNT], Body::Source),
        "/_search/scroll" | "/_search/scroll/{id}" | "/_search/scroll/_all" => {
            (&[&["scroll", "scroll_id", "rest_total_hits_as_int"]], Body::Source)
        }
        "/_explain/{id}" => {
            (&[LINE, PARTS, &["preference", "routing", "stored_fields"]], Body::Source)
        }
        "/_pit" if is_delete => (&[], Body::Own),
        "/_search/point_in_time" if is_delete => (&[], Body::Own),
        "/_search/point_in_time/_all" => (&[], Body::None),
        "/_pit" | "/_search/point_in_time" => (
            &[
                INDICES,
                &[
                    "keep_alive",
                    "preference",
                    "routing",
                    "allow_partial_search_results",
                    "allow_partial_pit_creation",
                    "max_concurrent_shard_requests",
                ],
            ],
            Body::Own,
        ),
        "/_field_caps" => (
            &[INDICES, &["fields", "filters", "types", "include_unmapped", "include_empty_fields"]],
            Body::Source,
        ),
        "/_validate/query" => {
            (&[INDICES, LINE, &["explain", "rewrite", "all_shards"]], Body::Source)
        }
        "/_analyze" => (&[&["index", "prefer_local"]], Body::Source),
        _ => return None,
    })
}

/// Returns the options of a route that reads or writes documents.
fn of_documents(call: &str, is_read: bool, is_delete: bool) -> Option<Known> {
    Some(match call {
        "/_bulk" => (
            &[
                PARTS,
                PIPELINE,
                &["refresh", "routing", "timeout", "wait_for_active_shards", "batch_size"],
            ],
            Body::Own,
        ),
        "/_doc/{id}" if is_read => (&[READ, PARTS, VERSIONS], Body::None),
        "/_doc/{id}" if is_delete => (&[WRITE, VERSIONS], Body::None),
        "/_doc" | "/_doc/{id}" | "/_create/{id}" => (&[WRITE, VERSIONS, PIPELINE], Body::Own),
        "/_source/{id}" => (&[READ, PARTS, VERSIONS], Body::None),
        "/_update/{id}" => (
            &[
                WRITE,
                PARTS,
                VERSIONS,
                &["require_alias", "retry_on_conflict", "include_source_on_error", "lang"],
            ],
            Body::Own,
        ),
        "/_mget" => (&[READ, PARTS], Body::Source),
        "/_delete_by_query" => (&[INDICES, LINE, DELETE_BY_QUERY], Body::Source),
        _ => return None,
    })
}

/// Returns the options of a route that manages indexes and aliases.
fn of_indexes(call: &str, is_read: bool, is_delete: bool) -> Option<Known> {
    Some(match call {
        "" if is_read => {
            (&[INDICES, LOCAL, SETTINGS, &["features", "include_type_name"]], Body::None)
        }
        "" if is_delete => (&[INDICES, TIMES], Body::None),
        "" => (&[TIMES, &["wait_for_active_shards", "include_type_name"]], Body::Own),
        "/_mapping" | "/_mappings" | "/_mapping/field/{field}" if is_read => {
            (&[INDICES, LOCAL, &["include_type_name", "include_defaults"]], Body::None)
        }
        "/_mapping" | "/_mappings" => {
            (&[INDICES, TIMES, &["write_index_only", "include_type_name"]], Body::Own)
        }
        "/_settings" | "/_settings/{name}" if is_read => (&[INDICES, LOCAL, SETTINGS], Body::None),
        "/_settings" => {
            (&[INDICES, TIMES, &["preserve_existing", "reopen", "flat_settings"]], Body::Own)
        }
        "/_refresh" => (&[INDICES, &["force"]], Body::None),
        "/_flush" => (&[INDICES, &["force", "wait_if_ongoing"]], Body::None),
        "/_forcemerge" => (
            &[
                INDICES,
                &[
                    "max_num_segments",
                    "only_expunge_deletes",
                    "primary_only",
                    "flush",
                    "wait_for_completion",
                ],
            ],
            Body::None,
        ),
        "/_aliases" | "/_alias" | "/_alias/{alias}" | "/_aliases/{alias}" if is_read => {
            (&[INDICES, LOCAL], Body::None)
        }
        "/_alias/{alias}" | "/_aliases/{alias}" if is_delete => (&[TIMES], Body::None),
        "/_aliases" | "/_alias/{alias}" | "/_aliases/{alias}" => (&[TIMES], Body::Own),
        "/_stats" | "/_stats/{metric}" => (&[INDICES, STATS], Body::None),
        _ => return None,
    })
}

/// Returns the options of a route about the server: its tasks, health and tables.
fn of_server(call: &str) -> Option<Known> {
    Some(match call {
        "/" => (&[], Body::None),
        "/_tasks" => (
            &[
                TIMES,
                &[
                    "actions",
                    "detailed",
                    "group_by",
                    "nodes",
                    "node_id",
                    "parent_task_id",
                    "wait_for_completion",
                ],
            ],
            Body::None,
        ),
        "/_tasks/{id}" => (&[TIMES, &["wait_for_completion"]], Body::None),
        "/_cluster/health" | "/_cluster/health/{index}" => (&[INDICES, TIMES, HEALTH], Body::None),
        "/_cluster/settings" => (&[TIMES, SETTINGS], Body::None),
        "/_cat/indices" | "/_cat/indices/{index}" => {
            (&[TABLE, INDICES, &["health", "pri", "include_unloaded_segments"]], Body::None)
        }
        "/_cat/count" | "/_cat/count/{index}" => (&[TABLE, INDICES], Body::None),
        "/_cat/aliases" => (&[TABLE, INDICES], Body::None),
        "/_cat/health" => (&[TABLE, &["ts"]], Body::None),
        _ => return None,
    })
}

/// Refuses options that a route does not have, and invalid values.
pub(crate) fn check_options(method: &Method, route: &str, params: &Params) -> Result<(), Failure> {
    let Some((options, body)) = known(method, route) else { return Ok(()) };
    let mut seen: Vec<&str> = Vec::new();
    for (name, value) in params.iter() {
        let is_known = EVERYWHERE.contains(&name)
            || options.iter().any(|list| list.contains(&name))
            || (body == Body::Source && SOURCE.contains(&name));
        let is_search = route.ends_with("/_search") || route.ends_with("/_msearch");
        if is_search && UNSUPPORTED.contains(&name) {
            return Err(Failure::unsupported(name));
        }
        if !is_known {
            let instead = match (route, name) {
                ("/{index}/_delete_by_query", "size" | "from" | "max_doc" | "terminate_after") => {
                    "; use [max_docs] to limit the number of deleted documents"
                }
                _ => "",
            };
            let name = brief(name);
            return Err(Failure::illegal(format!(
                "request [{route}] contains unrecognized parameter: [{name}]{instead}"
            )));
        }
        if seen.contains(&name) {
            return Err(Failure::illegal(format!("the parameter [{name}] is given twice")));
        }
        seen.push(name);
        // On the routes of documents, `version` is a number.
        let is_number = name == "version" && options.contains(&VERSIONS);
        if TRUTHS.contains(&name) && !is_number && !matches!(value, "" | "true" | "false") {
            let value = brief(value);
            return Err(Failure::illegal(format!(
                "Failed to parse value [{value}] of [{name}] as only [true] or [false] are allowed."
            )));
        }
        let is_table = route.starts_with("/_cat/");
        if name == "format" && value != "json" && !(is_table && matches!(value, "text" | "txt")) {
            let value = brief(value);
            return Err(Failure::illegal(format!("[format] must be json, found [{value}]")));
        }
    }
    Ok(())
}

/// Wraps every route of Elasticsearch to check options and bodies.
pub(super) async fn checked(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("", MatchedPath::as_str);
    let method = request.method();
    let checked = check_options(method, route, &params_of(&request)).and_then(|()| {
        let takes_none = known(method, route).is_some_and(|(_, body)| body == Body::None);
        let headers = request.headers();
        let length = headers.get(header::CONTENT_LENGTH);
        let has_body = length.is_some_and(|length| length != "0")
            || headers.contains_key(header::TRANSFER_ENCODING);
        match takes_none && has_body {
            true => Err(Failure::illegal(format!(
                "request [{method} {route}] does not support having a body"
            ))),
            false => Ok(()),
        }
    });
    match checked {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_of(method: Method, route: &str, query: &str) -> Result<(), Failure> {
        check_options(&method, route, &Params::parse(Some(query)))
    }

    #[test]
    fn routes_have_their_options_and_no_others() {
        for (method, route, query) in [
            (
                Method::GET,
                "/{index}/_search",
                "q=a&size=3&pretty&explain=true&source={}&source_content_type=application/json",
            ),
            (Method::POST, "/_search", "from=1&ignore_unavailable=false"),
            (Method::POST, "/{index}/_delete_by_query", "max_docs=1&conflicts=proceed"),
            (Method::PUT, "/{index}", "timeout=1s"),
            (Method::GET, "/_cat/indices/{index}", "format=text&v&h=index"),
            (Method::GET, "/_cat/count/{index}", "format=json"),
            (Method::PUT, "/{index}/_doc/{id}", "refresh=wait_for&routing=a"),
            (Method::PUT, "/{index}/_doc/{id}", "version=3&version_type=external"),
            (Method::GET, "/{index}/_search", "version=true&_source_exclude_vectors=true"),
            (Method::GET, "/{index}/_doc/{id}", "_source_exclude_vectors"),
            (Method::POST, "/_bulk", "batch_size=5"),
            (Method::POST, "/{index}/_forcemerge", "primary_only=true"),
        ] {
            assert!(check_of(method, route, query).is_ok(), "{route} {query}");
        }
        for (method, route, query, wanted) in [
            (Method::GET, "/{index}/_search", "bogus=1", "[bogus]"),
            (Method::GET, "/{index}/_search", "size=1&size=2", "twice"),
            (Method::GET, "/{index}/_search", "explain=x", "[explain]"),
            (Method::GET, "/{index}/_search", "format=yaml", "[format]"),
            (Method::GET, "/{index}/_search", "version=3", "[version]"),
            (Method::POST, "/{index}/_delete_by_query", "version=3", "[version]"),
            (Method::GET, "/{index}/_search", "suggest_text=a", "not supported"),
            (Method::GET, "/_search", "docvalue_fields=a", "not supported"),
            (Method::POST, "/_msearch", "search_pipeline=a", "not supported"),
            (Method::POST, "/{index}/_delete_by_query", "size=1", "[max_docs]"),
            (Method::POST, "/{index}/_delete_by_query", "from=3", "[max_docs]"),
            (Method::POST, "/_msearch", "size=1", "[size]"),
            (Method::POST, "/{index}/_count", "size=1", "[size]"),
            (Method::GET, "/{index}/_doc/{id}", "op_type=create", "[op_type]"),
            (Method::DELETE, "/{index}", "size=1", "[size]"),
            (Method::PUT, "/{index}/_doc/{id}", "source={}", "[source]"),
        ] {
            let failure = check_of(method, route, query).unwrap_err();
            assert!(failure.reason.contains(wanted), "{route} {query}: {}", failure.reason);
            assert_eq!(failure.status(), 400);
        }
        let long = format!("{}=1", "k".repeat(50_000));
        assert!(check_of(Method::GET, "/_search", &long).unwrap_err().reason.len() < 500);
    }
}
