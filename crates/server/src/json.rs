//! Checks of JSON bodies: allowed keys and boolean options.

use serde_json::Value;

use crate::error::{Failure, brief};

/// Refuses bodies that are not objects or have other keys than these. Null counts as an empty
/// object.
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
                known => format!("supported are {}", known.join(", ")),
            };
            Err(Failure::parsing(format!("request does not support [{}]; {known}", brief(key))))
        }
    }
}

/// Reads a boolean option, which clients write as `true` or as `"true"`.
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
