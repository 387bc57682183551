//! JSON as it is read of requests: no object has a key twice, since one of the two values would be without effect.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::{Failure, brief};

/// Reads a value. The error says where it is wrong.
pub(crate) fn read(bytes: &[u8]) -> serde_json::Result<Value> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Once.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Refuses bodies that are no object, or have other keys than these. Nothing is an object without keys.
pub(crate) fn only(body: &Value, known: &[&str]) -> Result<(), Failure> {
    let Value::Object(body) = body else {
        return match body {
            Value::Null => Ok(()),
            _ => Err(Failure::parsing("the body must be an object")),
        };
    };
    match body.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let known = match known {
                [] => "the body must be empty".to_owned(),
                known => format!("there is {}", known.join(", ")),
            };
            Err(Failure::parsing(format!("request does not support [{}]; {known}", brief(key))))
        }
    }
}

/// The truth of an option, which clients write as `true` or as `"true"`.
pub(crate) fn truth(key: &str, value: &Value) -> Result<bool, Failure> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        Value::String(text) if matches!(text.as_str(), "true" | "") => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        other => Err(Failure::illegal(format!(
            "[{key}] must be true or false, found {}",
            brief(&other.to_string())
        ))),
    }
}

/// Reads values whose objects have each key once.
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
        formatter.write_str("a value of JSON")
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
    use serde_json::json;

    #[test]
    fn a_key_stands_once_in_an_object() {
        for text in [
            "{\"a\": 1, \"a\": 1}",
            "[{\"b\": {\"a\": 1, \"c\": 2, \"a\": null}}]",
            "{\"a\": 1, \"\\u0061\": 2}",
        ] {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("Duplicate field 'a'") && error.contains("line 1"), "{error}");
        }
        assert_eq!(
            read(b"{\"a\": {\"a\": [{\"a\": 1}]}}").unwrap(),
            json!({"a": {"a": [{"a": 1}]}})
        );
        let long = format!("{{\"{0}\": 1, \"{0}\": 2}}", "k".repeat(100_000));
        assert!(read(long.as_bytes()).unwrap_err().to_string().len() < 500);
        for wrong in ["", "{", "{} x", "1e400", "nan", "[1,]"] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(deep(127).as_bytes()).is_ok() && read(deep(200).as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn what_has_no_key_twice_is_read_as_usual(text in "[\\[\\]{}:,\"a-c0-9.eE+ -]{0,24}") {
            let usual = serde_json::from_str::<Value>(&text);
            match read(text.as_bytes()) {
                Ok(value) => prop_assert_eq!(value, usual.unwrap()),
                Err(error) => prop_assert!(usual.is_err() || error.to_string().contains("Duplicate")),
            }
        }
    }
}
