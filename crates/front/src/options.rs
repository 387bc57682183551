//! Parsing of request bodies that are objects of options.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Parses an object of options, of which `needed` is required. Errors name the option, and do not
/// mention types of the program.
///
/// ```
/// # #[derive(serde::Deserialize, Debug)]
/// # #[serde(deny_unknown_fields)]
/// # #[allow(dead_code)]
/// # struct Search { query: String, k: Option<usize> }
/// use serde_json::json;
///
/// let read = |body| warpseek_front::options::<Search>(&body, "query");
/// assert!(read(json!({"query": "walrus", "k": 3})).is_ok());
/// let fault = read(json!({"query": "walrus", "k": "3"})).unwrap_err();
/// assert_eq!(fault, "[k]: invalid type: string \"3\", expected a non-negative integer");
/// assert!(read(json!(["walrus", 3])).is_err());
/// ```
pub fn options<T: DeserializeOwned>(body: &Value, needed: &str) -> Result<T, String> {
    let Value::Object(given) = body else {
        return Err(format!("the body must be an object with [{needed}]"));
    };
    // Options are independent of each other: the faulty one gives the same error on its own.
    let named = |error: serde_json::Error| {
        let fault = given.iter().find_map(|(key, value)| {
            let alone = Map::from_iter([(key.clone(), value.clone())]);
            let fault = serde_json::from_value::<T>(Value::Object(alone)).err()?;
            (fault.to_string() == error.to_string()).then(|| format!("[{key}]: {}", plain(&fault)))
        });
        fault.unwrap_or_else(|| plain(&error))
    };
    T::deserialize(body).map_err(named)
}

/// Formats a serde error without the names of types of the program.
pub fn plain(error: &dyn std::fmt::Display) -> String {
    let mut text = error.to_string();
    for number in ["usize", "u64", "u32", "u16"] {
        text = text.replace(&format!("expected {number}"), "expected a non-negative integer");
    }
    for (name, said) in [("f64", "a number"), ("i64", "an integer")] {
        text = text.replace(&format!("expected {name}"), &format!("expected {said}"));
    }
    text.replace("expected a boolean", "expected true or false")
        .replace("expected a sequence", "expected an array")
}
