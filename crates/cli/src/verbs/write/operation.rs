//! Parsing of a line of input into an operation.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Deserializer, Value};

/// The operation of a line. Documents are slices of the line, so that they are stored unchanged.
#[derive(Debug, PartialEq)]
pub(super) enum Operation<'a> {
    Put { document: &'a str, id: String },
    Create { document: &'a str, id: String },
    Update { id: String, patch: &'a str },
    Delete { id: String },
}

/// Description of all operations, for error messages.
const EXAMPLE: &str = r#"an operation is {"put": DOCUMENT}, {"create": DOCUMENT}, {"update": FIELDS} or {"delete": "ID"}"#;

impl<'a> Operation<'a> {
    pub(super) fn parse(line: &'a str) -> Result<Self, String> {
        let rest = line.trim();
        // The whole line must be JSON, so that the code below only has to find its parts.
        serde_json::from_str::<IgnoredAny>(rest).map_err(|e| format!("it is not JSON: {e}"))?;
        let wrong = || EXAMPLE.to_owned();
        let rest = rest.strip_prefix('{').ok_or_else(wrong)?;
        let (name, rest) = value::<String>(rest).ok_or_else(wrong)?;
        let rest = rest.trim_start().strip_prefix(':').ok_or_else(wrong)?.trim_start();
        let (IgnoredAny, after) = value(rest).ok_or_else(wrong)?;
        if after.trim() != "}" {
            return Err(format!("it has more than one operation; {EXAMPLE}"));
        }
        let body = &rest[..rest.len() - after.len()];
        let (parsed, _) = value::<Value>(body).ok_or_else(wrong)?;
        match (&*name, &parsed) {
            ("put", Value::Object(_)) => Ok(Operation::Put { document: body, id: id_in(&parsed)? }),
            ("create", Value::Object(_)) => {
                Ok(Operation::Create { document: body, id: id_in(&parsed)? })
            }
            ("update", Value::Object(_)) => {
                Ok(Operation::Update { id: id_in(&parsed)?, patch: body })
            }
            ("delete", id) => Ok(Operation::Delete { id: as_id(id).ok_or_else(wrong)? }),
            ("put" | "create" | "update", _) => Err(wrong()),
            (name, _) => Err(format!("`{name}` is not an operation; {EXAMPLE}")),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Operation::Put { .. } => "put",
            Operation::Create { .. } => "create",
            Operation::Update { .. } => "update",
            Operation::Delete { .. } => "delete",
        }
    }

    pub(super) fn id(&self) -> String {
        match self {
            Operation::Put { id, .. }
            | Operation::Create { id, .. }
            | Operation::Update { id, .. }
            | Operation::Delete { id } => id.clone(),
        }
    }
}

/// Parses the value at the start of the text, and returns it with the rest of the text.
fn value<T: DeserializeOwned>(text: &str) -> Option<(T, &str)> {
    let mut values = Deserializer::from_str(text).into_iter::<T>();
    let value = values.next()?.ok()?;
    Some((value, &text[values.byte_offset()..]))
}

/// Returns the id of a document, from the fields where readers of JSONL look for it.
fn id_in(document: &Value) -> Result<String, String> {
    let id = document.get("id").or_else(|| document.get("_id"));
    id.and_then(as_id).ok_or_else(|| "the document has no `id`; give it one".to_owned())
}

fn as_id(value: &Value) -> Option<String> {
    match value {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_taken_as_they_are() {
        let line = " { \"put\" :{\"text\": \"a } \\\" b\",  \"id\":7, \"x\": 1.50} } \n";
        let document = "{\"text\": \"a } \\\" b\",  \"id\":7, \"x\": 1.50}";
        assert_eq!(Operation::parse(line), Ok(Operation::Put { document, id: "7".into() }));
        let update = Operation::parse(r#"{"update":{"_id":"a","x":null}}"#).unwrap();
        let patch = r#"{"_id":"a","x":null}"#;
        assert_eq!(update, Operation::Update { id: "a".into(), patch });
        assert_eq!(Operation::parse(r#"{"delete":"a"}"#), Ok(Operation::Delete { id: "a".into() }));
        assert_eq!(Operation::parse(r#"{"delete":12}"#), Ok(Operation::Delete { id: "12".into() }));
    }

    #[test]
    fn bad_lines_say_what_an_operation_is() {
        let cases = [
            ("{\"put\":{\"id\":1}", "not JSON"),
            ("nonsense", "not JSON"),
            ("[]", "an operation is"),
            ("{}", "an operation is"),
            ("7", "an operation is"),
            (r#"{"putt":{"id":1}}"#, "`putt` is not an operation"),
            (r#"{"put":"a"}"#, "an operation is"),
            (r#"{"put":{"text":"a"}}"#, "no `id`"),
            (r#"{"delete":["a"]}"#, "an operation is"),
            (r#"{"put":{"id":1},"delete":"a"}"#, "more than one"),
        ];
        for (line, wanted) in cases {
            let error = Operation::parse(line).unwrap_err();
            assert!(error.contains(wanted), "{line}: {error}");
        }
    }
}
