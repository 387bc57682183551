//! Names of metadata, which neither mappings nor documents may use for fields.

/// Names of metadata.
pub(super) const METADATA: [&str; 14] = [
    "_id",
    "_index",
    "_source",
    "_routing",
    "_field_names",
    "_ignored",
    "_nested_path",
    "_seq_no",
    "_primary_term",
    "_version",
    "_tier",
    "_size",
    "_ignored_source",
    "_data_stream_timestamp",
];

/// Returns true if this is the name of metadata.
pub(super) fn is_metadata(path: &str) -> bool {
    path.starts_with('_') && METADATA.contains(&path)
}
