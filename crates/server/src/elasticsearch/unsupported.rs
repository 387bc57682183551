//! The calls of Elasticsearch and OpenSearch that are not supported, and their errors.

use crate::error::Failure;

/// Calls of Elasticsearch and OpenSearch that are not supported.
const CALLS: [&str; 33] = [
    "_reindex",
    "_update_by_query",
    "_template",
    "_index_template",
    "_component_template",
    "_nodes",
    "_sql",
    "_plugins",
    "_query",
    "_eql",
    "_ingest",
    "_scripts",
    "_render",
    "_rank_eval",
    "_termvectors",
    "_mtermvectors",
    "_knn_search",
    "_search_shards",
    "_terms_enum",
    "_async_search",
    "_snapshot",
    "_security",
    "_license",
    "_xpack",
    "_ilm",
    "_data_stream",
    "_rollover",
    "_shrink",
    "_split",
    "_clone",
    "_close",
    "_open",
    "_recovery",
];

/// Returns the error for a path that names an unsupported call.
pub(crate) fn unsupported_call(path: &str) -> Option<Failure> {
    let mut parts = path.split('/').filter(|part| !part.is_empty()).take(2);
    parts.find(|part| CALLS.contains(part)).map(Failure::unsupported)
}

/// Returns the error for a request that names a missing index. A call such as `/_reindex` has the
/// path of an index, so the name may be that of an unsupported call.
pub(crate) fn missing_index(name: &str) -> Failure {
    unsupported_call(name).unwrap_or_else(|| Failure::no_index(name))
}
