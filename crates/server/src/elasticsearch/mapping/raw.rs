//! Location of the source within a stored document without parsing the document into values.

use std::ops::Range;

use serde::de::IgnoredAny;

use super::{Layout, Mapping};

impl Mapping {
    /// Returns the range of the source in a stored document, or `None` if the document must be
    /// parsed to find it.
    pub(crate) fn raw_source(&self, stored: &[u8]) -> Option<Range<usize>> {
        match self.layout {
            Layout::Wrapped => wrapped(stored),
            Layout::Plain | Layout::NoSchema => {
                let end = value(stored, 0)?;
                stored[end..].trim_ascii().is_empty().then_some(0..end)
            }
        }
    }
}

/// Returns the range of the source in a line written by [`Mapping::line`]. The whole line is
/// checked, so that the result is a single JSON value.
fn wrapped(stored: &[u8]) -> Option<Range<usize>> {
    let after_id = value(stored, expect(stored, 0, b"{\"id\":")?)?;
    let original = match expect(stored, after_id, b",\"original\":") {
        Some(from) => Some(from..value(stored, from)?),
        None => None,
    };
    let at = original.as_ref().map_or(after_id, |original| original.end);
    let from = expect(stored, at, b",\"source\":")?;
    let source = from..value(stored, from)?;
    (stored[source.end..] == *b"}").then_some(original.unwrap_or(source))
}

fn expect(json: &[u8], at: usize, text: &[u8]) -> Option<usize> {
    json.get(at..)?.starts_with(text).then_some(at + text.len())
}

/// Returns the end of the value that starts at `at`.
fn value(json: &[u8], at: usize) -> Option<usize> {
    let rest = json.get(at..)?;
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(at + values.byte_offset())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elasticsearch::mapping::Declared;
    use serde_json::{Map, Value, json};

    #[test]
    fn it_is_what_taking_apart_finds() {
        let declared = json!({"mappings": {"properties": {"t": {"type": "text"}, "n": {"type": "long"}}}, "settings": {}, "hidden": {}, "created": 0, "uuid": ""});
        let declared: Declared = serde_json::from_value(declared).unwrap();
        let mapping = Mapping::new(declared).unwrap();
        for (id, source) in [
            ("1", json!({})),
            ("\"}\\,\"source\":", json!({"t": "a\"}{\\", "id": "own", "source": {"x": [1, {}]}})),
            ("ü", json!({"t": 7, "n": "3"})),
            ("", json!({"t": ["a", "b"], "n": null, "original": 1.5e300})),
        ] {
            let source: Map<String, Value> = source.as_object().unwrap().clone();
            let line = mapping.line(id, &source).unwrap();
            let raw = mapping.raw_source(line.as_bytes()).unwrap();
            let raw: Value = serde_json::from_str(&line[raw]).unwrap();
            assert_eq!(raw, Value::Object(source), "{line}");
            assert_eq!(raw, mapping.source_of(serde_json::from_str(&line).unwrap()));
            // Truncated lines and lines with trailing text are rejected.
            for end in 0..line.len() {
                assert_eq!(mapping.raw_source(&line.as_bytes()[..end]), None, "{line} {end}");
            }
            assert_eq!(mapping.raw_source(format!("{line} ").as_bytes()), None);
        }
        for other in [
            "{\"id\": 1, \"source\": {}}",
            "{\"source\":{},\"id\":\"1\"}",
            "[]",
            "{\"id\":\"1\",\"source\":{},\"more\":1}",
        ] {
            assert_eq!(mapping.raw_source(other.as_bytes()), None, "{other}");
        }
    }
}
