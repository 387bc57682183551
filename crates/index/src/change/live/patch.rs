//! JSON merge patches (RFC 7396). Values that a patch does not name are copied verbatim, so that
//! no number changes.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{IndexError, Result};

/// The fields of an object, with their values verbatim.
pub(super) type Fields = BTreeMap<String, Box<RawValue>>;

/// Parses a patch, which must be a JSON object.
pub(super) fn parse(json: &str) -> Result<Fields> {
    let refused = |what: String| IndexError::Refused { what };
    // This also refuses values that are nested so deeply that merging would exhaust the stack.
    match serde_json::from_str(json) {
        Ok(Value::Object(_)) => {}
        Ok(_) => return Err(refused("a patch is a JSON object of the fields to change".into())),
        Err(error) => return Err(refused(format!("the patch is not JSON: {error}"))),
    }
    serde_json::from_str(json).map_err(|error| refused(format!("the patch is not JSON: {error}")))
}

/// Returns the document with the patch applied, on one line.
pub(super) fn apply(document: &[u8], patch: &Fields) -> Result<String> {
    let refused = |error: serde_json::Error| IndexError::Refused {
        what: format!("the stored document cannot be patched: {error}"),
    };
    let fields: Fields = serde_json::from_slice(document).map_err(refused)?;
    let patched = merged(fields, patch).and_then(|fields| serde_json::to_string(&fields));
    // Between values a line feed is white space, and strings contain none.
    Ok(patched.map_err(refused)?.replace(['\n', '\r'], " "))
}

fn merged(mut fields: Fields, patch: &Fields) -> serde_json::Result<Fields> {
    for (name, value) in patch {
        match value.get().as_bytes().first() {
            Some(b'n') => drop(fields.remove(name)),
            Some(b'{') => {
                let before = fields.remove(name);
                let object = before.and_then(|field| serde_json::from_str(field.get()).ok());
                let inner: Fields = serde_json::from_str(value.get())?;
                let object = merged(object.unwrap_or_default(), &inner)?;
                fields.insert(name.clone(), serde_json::value::to_raw_value(&object)?);
            }
            _ => drop(fields.insert(name.clone(), value.clone())),
        }
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of RFC 7396, appendix A, restricted to rows with objects on both sides.
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
        // Numbers that no machine type can represent remain unchanged.
        let numbers = r#"{"id":1,"price":3,"serial":123456789012345678901234567890,"x":0.10}"#;
        let patched = apply(numbers.as_bytes(), &parse("{\"price\":\n[4.50,\n5]}").unwrap());
        assert_eq!(
            patched.unwrap(),
            r#"{"id":1,"price":[4.50, 5],"serial":123456789012345678901234567890,"x":0.10}"#
        );
        let deep = "{\"a\":".repeat(100_000) + "1" + &"}".repeat(100_000);
        assert!(parse(&deep).is_err());
        assert!(parse("[]").is_err() && parse("{").is_err());
        assert!(apply(b"7", &parse("{}").unwrap()).is_err());
    }
}
