//! Warnings about parts of mappings and settings that have no effect here. Parts that change no
//! result (copies, caches, storage formats) cause no warning.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Parameters of fields that have an effect, or whose absence changes no result.
const OF_FIELDS: [&str; 26] = [
    "type",
    "properties",
    "fields",
    "analyzer",
    "similarity",
    "index",
    "index_options",
    "ignore_above",
    "dynamic",
    "enabled",
    "format",
    "store",
    "doc_values",
    "eager_global_ordinals",
    "fielddata",
    "fielddata_frequency_filter",
    "index_prefixes",
    "index_phrases",
    "term_vector",
    "meta",
    "include_in_parent",
    "include_in_root",
    "time_series_metric",
    "time_series_dimension",
    "depth_limit",
    "locale",
];

/// Keys of whole mappings that have an effect, or whose absence changes no result.
const OF_MAPPINGS: [&str; 6] =
    ["properties", "dynamic", "dynamic_templates", "date_detection", "_meta", "_field_names"];

/// Returns true if the option has its default value and therefore needs no warning.
fn is_default(key: &str, value: &Value) -> bool {
    let expected = match key {
        "norms" | "coerce" | "_source.enabled" | "subobjects" | "index.mapping.coerce" => true,
        "ignore_malformed"
        | "numeric_detection"
        | "split_queries_on_whitespace"
        | "_routing.required"
        | "index.hidden"
        | "index.mapping.ignore_malformed"
        | "index.mapping.total_fields.ignore_dynamic_beyond_limit" => false,
        _ => return value.is_null(),
    };
    *value == expected || *value == expected.to_string().as_str()
}

/// Maximum number of options that are listed individually.
const NAMED: usize = 20;

/// Ignored options, each with the first field that has it, if it is an option of fields, and the
/// number of such fields. An option of many fields causes one warning, because clients refuse
/// responses with many headers.
#[derive(Default)]
struct Unused(BTreeMap<String, (Option<String>, usize)>);

impl Unused {
    fn say(&mut self, key: &str, field: Option<&str>) {
        let first = || (field.map(str::to_owned), 0);
        self.0.entry(key.to_owned()).or_insert_with(first).1 += 1;
    }

    fn said(self) -> Vec<String> {
        let more = self.0.len().saturating_sub(NAMED);
        let one = |(key, (field, many)): (String, (Option<String>, usize))| match (field, many) {
            (None, _) => format!("[{key}] is ignored"),
            (Some(field), 1) => format!("[{key}] of the field [{field}] is ignored"),
            (Some(field), many) => {
                format!("[{key}] is ignored in {many} fields, such as [{field}]")
            }
        };
        let mut warnings: Vec<String> = self.0.into_iter().take(NAMED).map(one).collect();
        if more > 0 {
            warnings.push(format!("{more} more options are ignored"));
        }
        warnings
    }

    fn fields(&mut self, properties: Option<&Value>, path: &str) {
        for (key, mapping) in properties.and_then(Value::as_object).into_iter().flatten() {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            self.field(mapping, &path);
        }
    }

    fn field(&mut self, mapping: &Value, path: &str) {
        let Value::Object(mapping) = mapping else { return };
        // Fields that are only stored have options that nothing reads.
        let kind = mapping.get("type").and_then(Value::as_str).unwrap_or("object");
        if !super::fields::is_stored(kind) {
            for (key, value) in mapping {
                if !OF_FIELDS.contains(&key.as_str()) && !is_default(key, value) {
                    self.say(key, Some(path));
                }
            }
        }
        self.dynamic(mapping.get("dynamic"), Some(path));
        self.fields(mapping.get("properties"), path);
        self.fields(mapping.get("fields"), path);
    }

    fn dynamic(&mut self, dynamic: Option<&Value>, path: Option<&str>) {
        if dynamic.is_some_and(|dynamic| dynamic == "runtime") {
            self.say("dynamic: runtime", path);
        }
    }
}

/// Returns warnings about parts of mappings that have no effect.
pub(crate) fn unused_mappings(mappings: &Map<String, Value>) -> Vec<String> {
    let mut unused = Unused::default();
    for (key, value) in mappings {
        match (key.as_str(), value) {
            ("_source" | "_routing", Value::Object(options)) => {
                for (option, value) in options {
                    let option = format!("{key}.{option}");
                    if !is_default(&option, value) {
                        unused.say(&option, None);
                    }
                }
            }
            (key, value) if !OF_MAPPINGS.contains(&key) && !is_default(key, value) => {
                unused.say(key, None);
            }
            _ => {}
        }
    }
    unused.dynamic(mappings.get("dynamic"), None);
    unused.fields(mappings.get("properties"), "");
    for named in mappings.get("dynamic_templates").and_then(Value::as_array).into_iter().flatten() {
        for (name, template) in named.as_object().into_iter().flatten() {
            for key in ["runtime", "match_pattern", "unmatch_mapping_type"] {
                if template.get(key).is_some_and(|value| value != "simple") {
                    unused.say(&format!("{key} of the dynamic template {name}"), None);
                }
            }
            unused.field(&template["mapping"], &format!("dynamic template {name}"));
        }
    }
    unused.said()
}

/// Returns warnings about normalized settings that have no effect although they would change
/// results.
pub(crate) fn unused_settings(settings: &Map<String, Value>) -> Vec<String> {
    let mut unused = Unused::default();
    let at = |path: &str| {
        let mut now = settings.get(path.split('.').next()?)?;
        for part in path.split('.').skip(1) {
            now = now.get(part)?;
        }
        Some(now)
    };
    for path in [
        "max_result_window",
        "blocks",
        "default_pipeline",
        "final_pipeline",
        "search.default_pipeline",
        "query.default_field",
        "mapping.ignore_malformed",
        "mapping.coerce",
        "mapping.total_fields.ignore_dynamic_beyond_limit",
        "hidden",
        "sort",
    ] {
        let key = format!("index.{path}");
        if at(path).is_some_and(|value| !is_default(&key, value) && value != "_none") {
            unused.say(&key, None);
        }
    }
    if at("mode").is_some_and(|mode| mode != "standard") {
        unused.say("index.mode", None);
    }
    unused.said()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_changes_answers_is_said() {
        let said = |mappings: Value| unused_mappings(mappings.as_object().unwrap());
        let field =
            |mapping: Value| said(json!({"properties": {"o": {"properties": {"f": mapping}}}}));
        for (mapping, key) in [
            (json!({"type": "long", "ignore_malformed": true}), "ignore_malformed"),
            (json!({"type": "text", "norms": false}), "norms"),
            (
                json!({"type": "text", "fields": {"x": {"type": "long", "coerce": "false"}}}),
                "coerce",
            ),
            (json!({"type": "constant_keyword", "value": "a"}), "value"),
            (json!({"dynamic": "runtime"}), "runtime"),
        ] {
            let warnings = field(mapping);
            assert!(warnings.len() == 1 && warnings[0].contains(key), "{warnings:?}");
            assert!(warnings[0].contains("[o.f"), "{warnings:?}");
        }
        for (key, value) in [
            ("runtime", json!({"r": {"type": "long"}})),
            ("numeric_detection", json!(true)),
            ("dynamic_date_formats", json!(["yyyy"])),
            ("_source", json!({"enabled": false})),
            ("_routing", json!({"required": true})),
        ] {
            let warnings = said(json!({key: value}));
            assert!(warnings.len() == 1 && warnings[0].contains(key), "{warnings:?}");
        }
        let template =
            json!({"mapping": {"type": "text", "norms": false}, "match_pattern": "regex"});
        assert_eq!(said(json!({"dynamic_templates": [{"t": template}]})).len(), 2);
        let settings =
            json!({"max_result_window": 5, "mapping": {"coerce": false}, "mode": "logsdb"});
        assert_eq!(unused_settings(settings.as_object().unwrap()).len(), 3);
        let settings = json!({"hidden": "true", "sort": {"field": "n", "order": "asc"}});
        assert_eq!(unused_settings(settings.as_object().unwrap()).len(), 2);
        let settings = json!({"hidden": false, "mapping": {"total_fields": {"limit": 5}}});
        assert!(unused_settings(settings.as_object().unwrap()).is_empty());
    }

    #[test]
    fn what_many_fields_have_is_said_once() {
        let fields = |options: Value, many: usize| -> Value {
            (0..many).map(|n| (format!("f{n:03}"), options.clone())).collect::<Map<_, _>>().into()
        };
        let said = |mappings: Value| unused_mappings(mappings.as_object().unwrap());
        let norms = fields(json!({"type": "text", "norms": false, "copy_to": "all"}), 120);
        let warnings = said(json!({"properties": norms}));
        assert!(warnings[1].contains("[norms] is ignored in 120 fields, such as [f000]"));
        assert_eq!(warnings.len(), 2);
        let options: Map<String, Value> =
            (0..NAMED + 3).map(|n| (format!("option{n:02}"), json!(1))).collect();
        let warnings = said(json!({"properties": {"f": options}}));
        assert_eq!(warnings.len(), NAMED + 1);
        assert_eq!(warnings[NAMED], "3 more options are ignored");
    }

    /// Options that frameworks send routinely must not cause warnings.
    #[test]
    fn what_changes_nothing_is_not_said() {
        let mappings = json!({
            "dynamic": true, "date_detection": false, "_source": {"enabled": true},
            "dynamic_templates": [{"strings": {"match_mapping_type": "string", "path_match": "*", "mapping": {"type": "keyword"}}}],
            "properties": {
                "vector": {"type": "dense_vector", "dims": 3, "index": true, "similarity": "cosine", "index_options": {"type": "hnsw"}},
                "knn": {"type": "knn_vector", "dimension": 3, "method": {"name": "hnsw"}},
                "text": {"type": "text", "analyzer": "english", "norms": true, "fields": {"k": {"type": "keyword", "ignore_above": 256}}},
                "n": {"type": "long", "store": true, "doc_values": true, "ignore_malformed": false},
            }
        });
        assert!(unused_mappings(mappings.as_object().unwrap()).is_empty());
        let settings = json!({"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "1s", "knn": true, "analysis": {}});
        assert!(unused_settings(settings.as_object().unwrap()).is_empty());
    }
}
