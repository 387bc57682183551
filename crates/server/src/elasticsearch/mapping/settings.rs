//! Normalization of index settings, which clients write in several forms.

use serde_json::{Map, Value};

/// Converts settings to nested objects without the leading `index`. `{"index.knn": true}`,
/// `{"index": {"knn": true}}` and `{"knn": true}` are equivalent.
pub(crate) fn normalize_settings(settings: &Value) -> Map<String, Value> {
    let mut nested = Map::new();
    if let Value::Object(settings) = settings {
        for (key, value) in settings {
            add_setting(&mut nested, key, value);
        }
    }
    if let Some(Value::Object(index)) = nested.remove("index") {
        for (key, value) in &index {
            add_setting(&mut nested, key, value);
        }
    }
    nested
}

/// Adds a setting to existing ones, merging objects.
pub(crate) fn add_setting(into: &mut Map<String, Value>, key: &str, value: &Value) {
    match key.split_once('.') {
        Some((first, rest)) if !first.is_empty() => {
            let inner = into.entry(first.to_owned()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                add_setting(inner, rest, value);
            }
        }
        _ => match (into.get_mut(key), value) {
            (Some(Value::Object(inner)), Value::Object(value)) => {
                for (key, value) in value {
                    add_setting(inner, key, value);
                }
            }
            (_, Value::Object(value)) => {
                let mut inner = Map::new();
                for (key, value) in value {
                    add_setting(&mut inner, key, value);
                }
                into.insert(key.to_owned(), inner.into());
            }
            _ => {
                into.insert(key.to_owned(), value.clone());
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_ways_are_the_same() {
        let want = json!({"knn": true, "similarity": {"x": {"k1": 2}}});
        for settings in [
            json!({"index.knn": true, "index.similarity.x.k1": 2}),
            json!({"index": {"knn": true, "similarity.x": {"k1": 2}}}),
            json!({"knn": true, "similarity": {"x": {"k1": 2}}}),
        ] {
            assert_eq!(Value::Object(normalize_settings(&settings)), want);
        }
        assert!(normalize_settings(&Value::Null).is_empty());
    }
}
