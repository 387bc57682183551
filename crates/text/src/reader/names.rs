//! Renames the fields with a document's id, title and text if they have unusual names.
//!
//! A record gets the usual names `id`, `title` and `text` before it is parsed, so everything
//! after the reader, including the store, knows only these. All other fields are kept verbatim.

use serde_json::Value;
use serde_json::value::RawValue;

use super::config::ReaderConfig;
use super::field_names::FieldNames;
use super::jsonl::not_json;
use super::line;
use super::pairs::{Pair, Pairs, keys};
use crate::json::write_string;
use crate::{Document, RecordErrorKind};

/// Parses a line whose fields have these names.
pub(super) fn parse<'a>(
    line: &'a str,
    names: &FieldNames,
    config: &ReaderConfig,
) -> Result<Document<'a>, RecordErrorKind> {
    if names.is_empty() {
        return line::parse(line, config);
    }
    let renamed = rename(line, names, config)?;
    line::parse(&renamed, config).map(Document::into_owned)
}

/// Returns the line with the usual names.
fn rename(
    line: &str,
    names: &FieldNames,
    config: &ReaderConfig,
) -> Result<String, RecordErrorKind> {
    let Pairs(pairs) = serde_json::from_str(line).map_err(|error| not_json(line, &error))?;
    let mut out = Vec::with_capacity(line.len() + 32);
    let mut gone: Vec<&str> = Vec::new();
    out.push(b'{');
    if let Some(name) = &names.id {
        let found: Vec<&str> = values(&pairs, name).map(RawValue::get).collect();
        let id = found.last().ok_or_else(|| RecordErrorKind::MissingId { seen: keys(&pairs) })?;
        let is_id = serde_json::from_str::<Value>(id)
            .is_ok_and(|id| id.is_string() || id.is_i64() || id.is_u64());
        if !is_id {
            let reason = format!("found {id}, expected a string or an integer");
            return Err(RecordErrorKind::BadField { field: name.clone(), reason });
        }
        out.extend_from_slice(b"\"id\":");
        out.extend_from_slice(id.as_bytes());
        gone.extend(["id", "_id", name]);
    }
    if let Some(name) = &names.title {
        write_text(&mut out, "title", &texts(&pairs, name)?);
        gone.extend(["title", name]);
    }
    if !names.text.is_empty() {
        let mut all = Vec::new();
        for name in &names.text {
            all.extend(texts(&pairs, name)?);
            gone.push(name);
        }
        write_text(&mut out, "text", &all);
        gone.push("text");
    }
    // The order and static fields are still needed under their own names.
    let kept = [config.order_field.as_deref(), config.static_field.as_deref()];
    let usual = ["id", "_id", "title", "text"];
    gone.retain(|name| usual.contains(name) || !kept.contains(&Some(name)));
    for (key, value) in &pairs {
        if gone.contains(&key.as_ref()) {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        write_string(&mut out, key);
        out.push(b':');
        out.extend_from_slice(value.get().as_bytes());
    }
    out.push(b'}');
    // All parts that were written came from strings.
    Ok(String::from_utf8(out).unwrap_or_default())
}

fn write_text(out: &mut Vec<u8>, key: &str, texts: &[String]) {
    if out.len() > 1 {
        out.push(b',');
    }
    write_string(out, key);
    out.push(b':');
    write_string(out, &texts.join("\n"));
}

/// Returns the values at a path; an array has several. A key with dots in it also counts as a
/// path.
fn values<'a>(pairs: &[Pair<'a>], path: &str) -> impl Iterator<Item = &'a RawValue> + use<'a> {
    let mut found = Vec::new();
    collect(pairs, path, &mut found);
    found.into_iter()
}

fn collect<'a>(pairs: &[Pair<'a>], path: &str, found: &mut Vec<&'a RawValue>) {
    // Of duplicate keys, the last one counts.
    if let Some((_, value)) = pairs.iter().rev().find(|(key, _)| key == path) {
        flatten(value, DEPTH, found);
        return;
    }
    for (at, _) in path.match_indices('.') {
        let (key, rest) = (&path[..at], &path[at + 1..]);
        let Some((_, value)) = pairs.iter().rev().find(|(own, _)| own == key) else { continue };
        let mut inner = Vec::new();
        flatten(value, DEPTH, &mut inner);
        for value in inner {
            if let Ok(Pairs(pairs)) = serde_json::from_str(value.get()) {
                collect(&pairs, rest, found);
            }
        }
    }
}

/// Maximum depth of nested arrays whose elements are values.
const DEPTH: usize = 16;

/// Collects the elements of an array and of arrays in it, or the value itself. Null is left out.
/// Arrays that are nested too deeply count as values, which the caller then rejects.
fn flatten<'a>(value: &'a RawValue, depth: usize, found: &mut Vec<&'a RawValue>) {
    match serde_json::from_str::<Vec<&RawValue>>(value.get()) {
        Ok(elements) if depth > 0 => {
            elements.into_iter().for_each(|element| flatten(element, depth - 1, found));
        }
        Err(_) if value.get() == "null" => {}
        _ => found.push(value),
    }
}

/// Returns the values at a path as text.
fn texts(pairs: &[Pair<'_>], path: &str) -> Result<Vec<String>, RecordErrorKind> {
    let text = |value: &RawValue| match serde_json::from_str(value.get()) {
        Ok(Value::String(text)) => Ok(text),
        Ok(number @ (Value::Number(_) | Value::Bool(_))) => Ok(number.to_string()),
        Ok(_) => {
            let reason = match value.get().starts_with('[') {
                true => "found too deeply nested arrays, expected a string",
                false => "found an object, expected a string; name a field inside with a dot",
            };
            Err(RecordErrorKind::BadField { field: path.to_owned(), reason: reason.to_owned() })
        }
        Err(error) => Err(not_json(value.get(), &error)),
    };
    values(pairs, path).map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(id: Option<&str>, title: Option<&str>, text: &[&str]) -> FieldNames {
        let own = |name: &str| name.to_owned();
        FieldNames {
            id: id.map(own),
            title: title.map(own),
            text: text.iter().map(|n| own(n)).collect(),
        }
    }

    fn renamed(line: &str, names: &FieldNames) -> Result<String, RecordErrorKind> {
        rename(line, names, &ReaderConfig::default())
    }

    #[test]
    fn fields_get_their_usual_names_and_others_stay_as_they_are() {
        let line = r#"{"docno":"a","body":"b\n","year":1.50,"n":{"abstract":"c","x":1},"h":"t"}"#;
        let all = names(Some("docno"), Some("h"), &["n.abstract", "body"]);
        let wanted =
            r#"{"id":"a","title":"t","text":"c\nb\n","year":1.50,"n":{"abstract":"c","x":1}}"#;
        assert_eq!(renamed(line, &all).unwrap(), wanted);
        let line = r#"{"id":1,"text":"no","contents":"c","a":["x",null,["y"]],"a.b":"z","p":[{"q":"1"},{"q":2}]}"#;
        let text = |fields: &[&str]| {
            let names = names(None, None, fields);
            parse(line, &names, &ReaderConfig::default()).unwrap().text.into_owned()
        };
        assert_eq!(text(&["a"]), "x\ny");
        assert_eq!(text(&["a.b", "p.q"]), "z\n1\n2");
        // Without the named field there is no text, whatever other fields exist.
        assert_eq!(text(&["bdy"]), "");
    }

    #[test]
    fn what_cannot_be_an_id_or_a_text_is_refused() {
        let id = |line: &str| renamed(line, &names(Some("docno"), None, &[])).unwrap_err();
        assert_eq!(
            id(r#"{"id":1,"text":"x"}"#),
            RecordErrorKind::MissingId { seen: "id, text".to_owned() }
        );
        assert!(
            matches!(id(r#"{"docno":1.5}"#), RecordErrorKind::BadField { field, .. } if field == "docno")
        );
        assert!(matches!(id("[1]"), RecordErrorKind::Json(_)));
        let text =
            renamed(r#"{"id":1,"body":{"a":1}}"#, &names(None, None, &["body"])).unwrap_err();
        assert!(matches!(text, RecordErrorKind::BadField { field, .. } if field == "body"));
    }
}
