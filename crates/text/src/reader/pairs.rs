//! The fields of a record of JSON before its values are parsed.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::values::Key;

/// A key of an object with its unparsed value.
pub(super) type Pair<'a> = (Cow<'a, str>, &'a RawValue);

/// The keys and unparsed values of an object, in order.
pub(super) struct Pairs<'a>(pub(super) Vec<Pair<'a>>);

impl<'de> serde::Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(key) = map.next_key_seed(Key)? {
                    pairs.push((key, map.next_value()?));
                }
                Ok(Pairs(pairs))
            }
        }

        json.deserialize_map(Object)
    }
}

/// Maximum number of field names in a message.
const SHOWN: usize = 12;

/// Returns the field names of an object, for a message.
pub(super) fn keys(pairs: &[Pair<'_>]) -> String {
    let mut keys: Vec<&str> = pairs.iter().map(|(key, _)| key.as_ref()).collect();
    let more = keys.len().saturating_sub(SHOWN);
    keys.truncate(SHOWN);
    match more {
        0 => keys.join(", "),
        more => format!("{} and {more} more", keys.join(", ")),
    }
}

/// Returns the field names of a line of JSON, for a message; empty if there are none.
pub(super) fn keys_of(line: &str) -> String {
    serde_json::from_str(line).map(|Pairs(pairs)| keys(&pairs)).unwrap_or_default()
}

/// Returns the paths of the values of a line of JSON, with dots between keys.
pub(super) fn paths_of(line: &str) -> Vec<String> {
    let mut paths = Vec::new();
    if let Ok(Value::Object(fields)) = serde_json::from_str(line) {
        add_paths(&fields, "", &mut paths);
    }
    paths
}

fn add_paths(fields: &serde_json::Map<String, Value>, outer: &str, paths: &mut Vec<String>) {
    for (key, value) in fields {
        let path = format!("{outer}{key}");
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                add_paths(inner, &format!("{path}."), paths);
            }
            _ => paths.push(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_into_objects() {
        assert_eq!(paths_of(r#"{"b":{"c":1,"d":{}},"a":[{"x":1}]}"#), ["a", "b.c", "b.d"]);
        assert!(paths_of("[1]").is_empty());
    }
}
