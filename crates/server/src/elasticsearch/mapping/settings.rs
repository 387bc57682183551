//! Normalization of index settings, which clients write in several forms.

use serde_json::{Map, Value};

/// Converts settings to nested objects without the leading `index`. `{"index.knn": true}`,
/// `{"index": {"knn": true}}` and `{"knn": true}` are equivalent.
pub(crate) fn normalize(settings: &Value) -> Map<String, Value> {
    let mut nested = Map::new();
    if let Value::Object(settings) = settings {
        for (key, value) in settings {
            add(&mut nested, key, value);
        }
    }
    if let Some(Value::Object(index)) = nested.remove("index") {
        for (key, value) in &index {
            add(&mut nested, key, value);
        }
    }
    nested
}

/// Adds a setting to existing ones, merging objects.
pub(crate) fn add(into: &mut Map<String, Value>, key: &str, value: &Value) {
    match key.split_once('.') {
        Some((first, rest)) if !first.is_empty() => {
            let inner = into.entry(first.to_owned()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                add(inner, rest, value);
            }
        }
        _ => match (into.get_mut(key), value) {
            (Some(Value::Object(inner)), Value::Object(value)) => {
                for (key, value) in value {
                    add(inner, key, value);
                }
            }
            (_, Value::Object(value)) => {
                let mut inner = Map::new();
                for (key, value) in value {
                    add(&mut inner, key, value);
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
            assert_eq!(Value::Object(normalize(&settings)), want);
        }
        assert!(normalize(&Value::Null).is_empty());
    }
}
