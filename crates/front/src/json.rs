//! A JSON parser for request bodies that rejects duplicate keys, since one of the two values
//! would have no effect.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses a value. The error contains the position of the fault.
///
/// ```
/// let error = warpseek_front::json(b"{\"size\": 1, \"size\": 2}").unwrap_err();
/// assert!(error.to_string().starts_with("Duplicate field 'size'"));
/// ```
pub fn json(bytes: &[u8]) -> serde_json::Result<Value> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Once.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// The maximum number of characters of a request's text that a message repeats.
const BRIEF: usize = 100;

/// Shortens a text from a request for use in a message. A long one becomes its beginning and its
/// length.
pub fn brief(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(BRIEF) {
        None => text.into(),
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()).into(),
    }
}

/// A deserializer of values whose objects have no duplicate keys.
#[derive(Clone, Copy)]
struct Once;

impl<'de> DeserializeSeed<'de> for Once {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element_seed(Once)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if values.contains_key(&key) {
                return Err(A::Error::custom(format_args!("Duplicate field '{}'", brief(&key))));
            }
            let value = map.next_value_seed(Once)?;
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_stands_once_in_an_object() {
        for text in [
            "{\"a\": 1, \"a\": 1}",
            "[{\"b\": {\"a\": 1, \"c\": 2, \"a\": null}}]",
            "{\"a\": 1, \"\\u0061\": 2}",
        ] {
            let error = json(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("Duplicate field 'a'") && error.contains("line 1"), "{error}");
        }
        assert_eq!(
            json(b"{\"a\": {\"a\": [{\"a\": 1}]}}").unwrap(),
            serde_json::json!({"a": {"a": [{"a": 1}]}})
        );
        let long = format!("{{\"{0}\": 1, \"{0}\": 2}}", "k".repeat(100_000));
        assert!(json(long.as_bytes()).unwrap_err().to_string().len() < 500);
        for wrong in ["", "{", "{} x", "1e400", "nan", "[1,]"] {
            assert!(json(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(json(deep(127).as_bytes()).is_ok() && json(deep(200).as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn what_has_no_key_twice_is_read_as_usual(text in "[\\[\\]{}:,\"a-c0-9.eE+ -]{0,24}") {
            let usual = serde_json::from_str::<Value>(&text);
            match json(text.as_bytes()) {
                Ok(value) => prop_assert_eq!(value, usual.unwrap()),
                Err(error) => prop_assert!(usual.is_err() || error.to_string().contains("Duplicate")),
            }
        }
    }
}
