//! The keys of mappings and settings that Elasticsearch knows. Any other key is a mistake and is
//! refused, since it would have no effect. The module `unused` warns about known keys that have
//! no effect here.

use serde_json::{Map, Value};

use super::{STATIC_FIELD_SETTING, analysis, dynamic, fields, refused};
use crate::error::{Failure, Kind, brief};
use crate::json::truth;

/// Parameters of fields of any type.
const OF_FIELDS: [&str; 50] = [
    "type",
    "properties",
    "fields",
    "analyzer",
    "search_analyzer",
    "search_quote_analyzer",
    "normalizer",
    "similarity",
    "index",
    "index_options",
    "index_prefixes",
    "index_phrases",
    "ignore_above",
    "dynamic",
    "enabled",
    "format",
    "store",
    "doc_values",
    "eager_global_ordinals",
    "fielddata",
    "fielddata_frequency_filter",
    "term_vector",
    "meta",
    "norms",
    "coerce",
    "ignore_malformed",
    "null_value",
    "copy_to",
    "boost",
    "position_increment_gap",
    "locale",
    "scaling_factor",
    "script",
    "on_script_error",
    "time_series_metric",
    "time_series_dimension",
    "split_queries_on_whitespace",
    "depth_limit",
    "include_in_parent",
    "include_in_root",
    "value",
    "path",
    "subobjects",
    "synthetic_source_keep",
    "max_shingle_size",
    "metrics",
    "default_metric",
    "numeric_type",
    "skip_list",
    "use_doc_values_skipper",
];

/// Keys of whole mappings.
const OF_MAPPINGS: [&str; 16] = [
    "properties",
    "dynamic",
    "dynamic_templates",
    "date_detection",
    "numeric_detection",
    "dynamic_date_formats",
    "runtime",
    "subobjects",
    "enabled",
    "_source",
    "_routing",
    "_meta",
    "_field_names",
    "_size",
    "_doc_count",
    "_data_stream_timestamp",
];

/// Boolean keys of mappings and fields.
const TRUTHS: [&str; 8] = [
    "index",
    "enabled",
    "date_detection",
    "numeric_detection",
    "norms",
    "coerce",
    "doc_values",
    "store",
];

/// The values of `term_vector`.
const TERM_VECTORS: [&str; 7] = [
    "no",
    "yes",
    "with_positions",
    "with_offsets",
    "with_positions_offsets",
    "with_positions_payloads",
    "with_positions_offsets_payloads",
];

/// Keys of `_source` in mappings.
const OF_SOURCE: [&str; 6] =
    ["enabled", "includes", "excludes", "mode", "compress", "compress_threshold"];

/// The values of `dynamic`.
const DYNAMIC: [&str; 4] = ["true", "false", "strict", "runtime"];

const OF_TEMPLATES: [&str; 9] = [
    "match",
    "unmatch",
    "path_match",
    "path_unmatch",
    "match_mapping_type",
    "unmatch_mapping_type",
    "match_pattern",
    "mapping",
    "runtime",
];

/// First keys of settings, below `index`.
const OF_SETTINGS: [&str; 73] = [
    "allocation",
    "analysis",
    "analyze",
    "auto_expand_replicas",
    "blocks",
    "bloom_filter_for_id_field",
    "check_on_startup",
    "codec",
    "compound_format",
    "creation_date",
    "data_path",
    "default_pipeline",
    "fielddata",
    "final_pipeline",
    "flush_after_merge",
    "format",
    "frozen",
    "gc_deletes",
    "hidden",
    "highlight",
    "history",
    "indexing",
    "knn",
    "lifecycle",
    "load_fixed_bitset_filters_eagerly",
    "look_ahead_time",
    "look_back_time",
    "mapper",
    "mapping",
    "max_adjacency_matrix_filters",
    "max_docvalue_fields_search",
    "max_inner_result_window",
    "max_ngram_diff",
    "max_query_string_length",
    "max_refresh_listeners",
    "max_regex_length",
    "max_rescore_window",
    "max_result_window",
    "max_script_fields",
    "max_shingle_diff",
    "max_slices_per_scroll",
    "max_slices_per_pit",
    "max_terms_count",
    "merge",
    "mode",
    "number_of_replicas",
    "number_of_routing_shards",
    "number_of_shards",
    "optimize_auto_generated_id",
    "plugins",
    "priority",
    "provided_name",
    "query",
    "query_string",
    "queries",
    "recovery",
    "refresh_interval",
    "replication",
    "requests",
    "routing",
    "routing_partition_size",
    "routing_path",
    "search",
    "shard",
    "similarity",
    "soft_deletes",
    "sort",
    "store",
    "time_series",
    "top_metrics_max_size",
    "translog",
    "unassigned",
    "write",
];

/// Settings that the server assigns to an index. Clients that copy the settings of an index send
/// them back.
const OF_INDEXES: [&str; 3] = ["uuid", "version", "resize"];

/// Refuses mappings with keys that Elasticsearch does not know.
pub(crate) fn check_mappings(mappings: &Map<String, Value>) -> Result<(), Failure> {
    if let Some(key) = mappings.keys().find(|key| !OF_MAPPINGS.contains(&key.as_str())) {
        return Err(Failure::new(
            Kind::Mapper,
            format!(
                "Root mapping definition has unsupported parameters: [{}]; fields belong in [properties]",
                brief(key)
            ),
        ));
    }
    let source = mappings.get("_source").and_then(Value::as_object).into_iter().flatten();
    if let Some((key, _)) = source.into_iter().find(|(key, _)| !OF_SOURCE.contains(&key.as_str())) {
        let reason = format!("unknown parameter [{}] on metadata field [_source]", brief(key));
        return Err(Failure::new(Kind::Mapper, reason));
    }
    check_values("_doc", mappings)?;
    let templates = match mappings.get("dynamic_templates") {
        None | Some(Value::Null) => &[],
        Some(Value::Array(templates)) => templates.as_slice(),
        Some(_) => {
            return Err(Failure::new(Kind::Mapper, "[dynamic_templates] must be an array"));
        }
    };
    for named in templates {
        let mut entries = named.as_object().into_iter().flatten();
        let (Some((name, Value::Object(template))), None) = (entries.next(), entries.next()) else {
            return Err(Failure::new(
                Kind::Mapper,
                "A dynamic template must be defined with a name, an object with one key",
            ));
        };
        if let Some(key) = template.keys().find(|key| !OF_TEMPLATES.contains(&key.as_str())) {
            let (name, key) = (brief(name), brief(key));
            return Err(Failure::new(
                Kind::Mapper,
                format!("Illegal dynamic template parameter: [{key}] of the template [{name}]"),
            ));
        }
        if let Some(mapping) = template.get("mapping").and_then(Value::as_object) {
            field(name, mapping)?;
        }
    }
    check_fields(mappings.get("properties"), "")
}

fn check_fields(properties: Option<&Value>, path: &str) -> Result<(), Failure> {
    for (key, mapping) in properties.and_then(Value::as_object).into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        // Mappings that are not objects are refused during compilation.
        if let Value::Object(mapping) = mapping {
            field(&path, mapping)?;
        }
    }
    Ok(())
}

fn field(path: &str, mapping: &Map<String, Value>) -> Result<(), Failure> {
    let kind = mapping.get("type").and_then(Value::as_str).unwrap_or("object");
    // Fields that are only stored have options that nothing reads, some from other programs.
    let unknown = |key: &&String| !OF_FIELDS.contains(&key.as_str());
    if !fields::is_stored(kind)
        && let Some(key) = mapping.keys().find(unknown)
    {
        let reason = format!("unknown parameter [{}] of type [{}]", brief(key), brief(kind));
        return Err(refused(path, reason));
    }
    if !fields::is_stored(kind) {
        check_values(path, mapping)?;
    }
    check_fields(mapping.get("properties"), path)?;
    check_fields(mapping.get("fields"), path)
}

/// Refuses values that would be misread.
fn check_values(path: &str, mapping: &Map<String, Value>) -> Result<(), Failure> {
    let given = |key: &str| mapping.get(key).filter(|value| !value.is_null());
    for key in TRUTHS {
        if let Some(value) = given(key) {
            truth(key, value).map_err(|failure| refused(path, failure.reason))?;
        }
    }
    if let Some(most) = given("ignore_above").filter(|most| fields::whole_number(most).is_none()) {
        let most = most.to_string();
        let reason =
            format!("[ignore_above] must be a non-negative integer, found {}", brief(&most));
        return Err(refused(path, reason));
    }
    if let Some(kind) = given("term_vector")
        && kind.as_str().is_none_or(|kind| !TERM_VECTORS.contains(&kind))
    {
        let (known, kind) = (TERM_VECTORS.join(", "), kind.to_string());
        let reason = format!("[term_vector] must be one of {known}, found {}", brief(&kind));
        return Err(refused(path, reason));
    }
    match given("dynamic") {
        None | Some(Value::Bool(_)) => Ok(()),
        Some(Value::String(text)) if DYNAMIC.contains(&text.as_str()) => Ok(()),
        Some(other) => {
            let (known, other) = (DYNAMIC.join(", "), other.to_string());
            let reason = format!("[dynamic] must be one of {known}, found {}", brief(&other));
            Err(refused(path, reason))
        }
    }
}

/// Refuses normalized settings that Elasticsearch does not know, and invalid analyzers.
pub(crate) fn check_settings(settings: &Map<String, Value>) -> Result<(), Failure> {
    let is_known = |key: &str| {
        OF_SETTINGS.contains(&key) || OF_INDEXES.contains(&key) || key == STATIC_FIELD_SETTING
    };
    if let Some(key) = settings.keys().find(|key| !is_known(key)) {
        return Err(Failure::illegal(format!(
            "unknown setting [index.{}] please check that any required plugins are installed, or check the breaking changes documentation for removed settings",
            brief(key)
        )));
    }
    let is_limit = |value: &Value| fields::whole_number(value).is_some();
    if let Some(most) = dynamic::limit(settings).filter(|most| !most.is_null() && !is_limit(most)) {
        let most = most.to_string();
        return Err(Failure::illegal(format!(
            "[index.mapping.total_fields.limit] must be a non-negative integer, found {}",
            brief(&most)
        )));
    }
    for (key, least) in [("number_of_shards", 1), ("number_of_replicas", 0)] {
        let given = settings.get(key).filter(|value| !value.is_null());
        if let Some(value) = given
            && fields::whole_number(value).is_none_or(|number| number < least)
        {
            let value = value.to_string();
            return Err(Failure::illegal(format!(
                "[index.{key}] must be an integer of at least {least}, found {}",
                brief(&value)
            )));
        }
    }
    match settings.get("similarity") {
        None | Some(Value::Null) => {}
        Some(Value::Object(all)) => {
            for (name, defined) in all {
                fields::parameters(name, defined).map_err(Failure::illegal)?;
            }
        }
        Some(_) => return Err(Failure::illegal("[index.similarity] must be an object")),
    }
    analysis::check(settings).map_err(Failure::illegal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_nobody_knows_is_refused() {
        for (mappings, wanted) in [
            (json!({"propertys": {}}), "[propertys]"),
            (json!({"_doc": {"properties": {}}}), "[_doc]"),
            (json!({"properties": {"a": {"type": "text", "analyser": "x"}}}), "[analyser]"),
            (
                json!({"properties": {"o": {"properties": {"a": {"type": "long", "bogus": 1}}}}}),
                "field [o.a]",
            ),
            (
                json!({"properties": {"a": {"type": "text", "fields": {"k": {"type": "keyword", "size": 1}}}}}),
                "[size]",
            ),
            (json!({"dynamic_templates": [{"t": {"matches": "a", "mapping": {}}}]}), "[matches]"),
            (json!({"dynamic_templates": [{"t": {"mapping": {"typ": "a"}}}]}), "[typ]"),
            (json!({"dynamic_templates": {}}), "array"),
            (json!({"dynamic": "stirct"}), "true, false, strict, runtime"),
            (json!({"date_detection": "no"}), "[date_detection]"),
            (
                json!({"properties": {"o": {"dynamic": 1, "properties": {"a": {"type": "long"}}}}}),
                "[dynamic]",
            ),
            (json!({"properties": {"a": {"type": "long", "index": "no"}}}), "[index]"),
            (json!({"properties": {"a": {"type": "object", "enabled": 1}}}), "[enabled]"),
            (
                json!({"properties": {"a": {"type": "keyword", "ignore_above": "x"}}}),
                "[ignore_above]",
            ),
        ] {
            let failure = check_mappings(mappings.as_object().unwrap()).unwrap_err();
            assert!(failure.reason.contains(wanted), "{mappings}: {}", failure.reason);
            assert_eq!((failure.kind, failure.status()), (Kind::Mapper, 400));
        }
        let known = json!({
            "dynamic": "strict", "numeric_detection": true, "_meta": {"anything": 1},
            "properties": {"a": {"type": "text", "norms": false, "meta": {"x": "y"}}, "v": {"type": "knn_vector", "engine": "x"}},
            "dynamic_templates": [{"t": {"match": "a*", "mapping": {"type": "keyword"}}}],
        });
        assert!(check_mappings(known.as_object().unwrap()).is_ok());
    }

    #[test]
    fn settings_are_known_and_analyzers_can_be_made() {
        let check = |settings: Value| check_settings(settings.as_object().unwrap());
        let known = json!({"number_of_shards": 1, "refresh_interval": "1s", "knn": true});
        assert!(check(known).is_ok());
        let check_analysis = |analysis: Value| check(json!({"analysis": analysis}));
        for (analysis, wanted) in [
            (json!({"analyzer": {"a": {"tokenizer": "standard", "filter": ["nope"]}}}), "[nope]"),
            (json!({"analyzer": {"a": {"tokenizer": "nope"}}}), "[nope]"),
            (json!({"analyzer": {"a": {"type": "nope"}}}), "[nope]"),
            (json!({"analyzer": {"a": {"tokenizer": "standard", "filters": []}}}), "[filters]"),
            (json!({"analyzer": {"a": 1}}), "[a]"),
            (json!({"filter": {"f": {"type": "nope"}}}), "[nope]"),
            (json!({"filter": {"f": {"stopwords": []}}}), "[f]"),
            (json!({"filter": {"f": {"type": "stop", "stop_words": []}}}), "[stop_words]"),
            (
                json!({"filter": {"f": {"type": "asciifolding", "preserve_original": true}}}),
                "[preserve_original]",
            ),
            (json!({"analysers": {}}), "analysis.analysers"),
        ] {
            let failure = check_analysis(analysis.clone()).unwrap_err();
            assert!(failure.reason.contains(wanted), "{analysis}: {}", failure.reason);
            assert_eq!(failure.kind, Kind::IllegalArgument);
        }
        let reason = check(json!({"shards": 1})).unwrap_err().reason;
        assert!(reason.contains("unknown setting [index.shards]"), "{reason}");
    }
}
