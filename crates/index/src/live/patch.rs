//! JSON merge patches (RFC 7396).

use serde_json::{Map, Value};

use crate::error::{IndexError, Result};

/// A patch from its JSON, which must be an object.
pub(super) fn parse(json: &str) -> Result<Map<String, Value>> {
    let refused = |what: String| IndexError::Refused { what };
    match serde_json::from_str(json) {
        Ok(Value::Object(patch)) => Ok(patch),
        Ok(_) => Err(refused("a patch is a JSON object of the fields to change".into())),
        Err(error) => Err(refused(format!("the patch is not JSON: {error}"))),
    }
}

/// The document with the patch applied, on one line.
pub(super) fn apply(document: &[u8], patch: &Map<String, Value>) -> Result<String> {
    let refused = |error: serde_json::Error| IndexError::Refused {
        what: format!("the stored document cannot be patched: {error}"),
    };
    let mut fields: Map<String, Value> = serde_json::from_slice(document).map_err(refused)?;
    merge(&mut fields, patch);
    serde_json::to_string(&fields).map_err(refused)
}

fn merge(fields: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        match value {
            Value::Null => {
                fields.remove(name);
            }
            Value::Object(inner) => {
                let field = fields.entry(name.clone()).or_insert(Value::Null);
                let mut object = match field.take() {
                    Value::Object(object) => object,
                    _ => Map::new(),
                };
                merge(&mut object, inner);
                *field = Value::Object(object);
            }
            value => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of RFC 7396, appendix A, as far as it has objects on both sides.
    #[test]
    fn patches_are_merged_as_the_standard_says() {
        let cases = [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ];
        for (document, patch, wanted) in cases {
            let patched = apply(document.as_bytes(), &parse(patch).unwrap()).unwrap();
            assert_eq!(patched, wanted, "{document} {patch}");
        }
        assert!(parse("[]").is_err() && parse("{").is_err());
        assert!(apply(b"7", &parse("{}").unwrap()).is_err());
    }
}
