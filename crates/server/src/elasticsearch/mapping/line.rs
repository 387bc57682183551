//! Conversion of a document to the line that the engine stores.

use std::collections::HashSet;

use serde_json::{Map, Number, Value, json};
use warpseek::schema::{AttributeKind, MAX_KEYWORD_BYTES};

use super::{Field, Layout, Mapping};
use crate::error::{Failure, Kind, brief};

impl Mapping {
    /// Returns the line of a document, with values converted to the types of their fields.
    pub(crate) fn line(&self, id: &str, source: &Map<String, Value>) -> Result<String, Failure> {
        let mut line = Map::from_iter([("id".to_owned(), json!(id))]);
        if self.layout != Layout::Wrapped {
            if source.get("id").is_some_and(|own| own != &json!(id)) {
                let reason = format!("the document's `id` must be [{id}], its id in this index");
                return Err(Failure::new(Kind::Document, reason));
            }
            line.extend(source.clone());
            line.insert("id".into(), json!(id));
            return Ok(Value::Object(line).to_string());
        }
        let mut conversion = Conversion { mapping: self, single: HashSet::new() };
        let converted = conversion.object("", source)?;
        self.put_static_score(&mut line, source, converted.as_ref())?;
        match converted {
            None => line.insert("source".into(), Value::Object(source.clone())),
            Some(converted) => {
                line.insert("original".into(), Value::Object(source.clone()));
                line.insert("source".into(), Value::Object(converted))
            }
        };
        Ok(Value::Object(line).to_string())
    }

    fn failed(&self, path: &str, field: Option<&Field>, why: &str) -> Failure {
        let kind = field.map_or("object", |field| self.type_of(path, field));
        let reason = format!("failed to parse field [{path}] of type [{kind}]: {why}");
        Failure::new(Kind::Document, reason)
    }
}

/// Error for several values in a field that can have only one per document.
const SEVERAL: &str = "several values in a field of this type are not supported; map the field as [keyword], or with [index: false] if it does not need to be searched";

/// The conversion of one document.
struct Conversion<'a> {
    mapping: &'a Mapping,
    /// Single-valued fields that already have a value. Several objects in an array may have
    /// values of the same field.
    single: HashSet<&'a str>,
}

impl<'a> Conversion<'a> {
    /// Converts the values of an object; returns `None` if nothing changes.
    fn object(
        &mut self,
        path: &str,
        object: &Map<String, Value>,
    ) -> Result<Option<Map<String, Value>>, Failure> {
        let mut changed: Option<Map<String, Value>> = None;
        for (key, value) in object {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            if let Some(value) = self.value(&path, value)? {
                changed.get_or_insert_with(|| object.clone()).insert(key.clone(), value);
            }
        }
        Ok(changed)
    }

    /// Converts a date to milliseconds according to the field's formats.
    fn date(&self, path: &str, value: &Value) -> Result<Option<Value>, Failure> {
        let formats = self.mapping.date_formats(path);
        match formats.read(value, 0) {
            Some((first, _)) => Ok(Some(json!(first))),
            None => Err(Failure::new(
                Kind::Document,
                format!(
                    "failed to parse field [{path}] of type [date]: {value} does not match the format [{}]",
                    formats.text()
                ),
            )),
        }
    }

    /// Returns the only value of an array, or null if it has none.
    fn only(
        &mut self,
        path: &str,
        field: Option<&Field>,
        values: &[Value],
    ) -> Result<Value, Failure> {
        let mut there = values.iter().filter(|value| !value.is_null());
        match (there.next(), there.next()) {
            (None, _) => Ok(Value::Null),
            (Some(only), None) => Ok(self.value(path, only)?.unwrap_or_else(|| only.clone())),
            _ => Err(self.mapping.failed(path, field, SEVERAL)),
        }
    }

    fn value(&mut self, path: &str, value: &Value) -> Result<Option<Value>, Failure> {
        let mapping: &'a Mapping = self.mapping;
        let field = mapping.field(path);
        match (value, field) {
            (Value::Null, _) | (_, Some(Field::Stored(_))) => Ok(None),
            (Value::Object(inner), None | Some(Field::Object)) => {
                Ok(self.object(path, inner)?.map(Value::Object))
            }
            (Value::Array(values), field) => {
                if is_single(field) {
                    return self.only(path, field, values).map(Some);
                }
                let mut changed: Option<Vec<Value>> = None;
                for (i, value) in values.iter().enumerate() {
                    if let Some(value) = self.value(path, value)? {
                        changed.get_or_insert_with(|| values.clone())[i] = value;
                    }
                }
                Ok(changed.map(Value::Array))
            }
            (_, None) => Ok(None),
            (_, Some(Field::Object)) => {
                let reason = format!(
                    "object mapping for [{path}] tried to parse field [{path}] as object, but found a concrete value"
                );
                Err(Failure::new(Kind::Document, reason))
            }
            (Value::Object(_), field) => {
                Err(mapping.failed(path, field, "found an object, expected a value"))
            }
            (value, Some(Field::Text { .. })) => Ok(match value {
                Value::String(_) => None,
                other => Some(json!(other.to_string())),
            }),
            (value, Some(Field::Attribute { kind, .. })) => {
                if is_single(field)
                    && let Some((path, _)) = mapping.fields.get_key_value(path)
                    && !self.single.insert(path)
                {
                    return Err(mapping.failed(path, field, SEVERAL));
                }
                if *kind == AttributeKind::Date && mapping.formats.contains_key(path) {
                    return self.date(path, value);
                }
                let converted =
                    scalar(*kind, value).map_err(|why| mapping.failed(path, field, why))?;
                let narrow = mapping.narrow.get(path).map_or("", String::as_str);
                if is_out_of_range(narrow, converted.as_ref().unwrap_or(value)) {
                    let value = value.to_string();
                    let why = format!("the value {} is out of range", brief(&value));
                    return Err(mapping.failed(path, field, &why));
                }
                Ok(converted)
            }
        }
    }
}

/// Returns true if a document can have at most one value of a field.
fn is_single(field: Option<&Field>) -> bool {
    matches!(field, Some(Field::Attribute { kind, .. }) if *kind != AttributeKind::Keyword)
}

/// Converts a value to the type of a field; returns `None` if nothing changes.
fn scalar(kind: AttributeKind, value: &Value) -> Result<Option<Value>, &'static str> {
    match (kind, value) {
        (AttributeKind::Keyword, Value::String(text)) if text.len() > MAX_KEYWORD_BYTES => Err(
            "a keyword may have at most 32766 bytes; map the field as text, or with ignore_above",
        ),
        (AttributeKind::Keyword, Value::Number(number)) if number.is_f64() => {
            Ok(Some(json!(number.to_string())))
        }
        (AttributeKind::Integer, Value::Number(number)) if number.is_f64() => {
            integer(number.as_f64())
        }
        (AttributeKind::Integer, Value::Number(number)) if !number.is_i64() => {
            Err("the integer does not fit into 64 bits with a sign")
        }
        (AttributeKind::Integer, Value::String(text)) => match text.trim().parse::<i64>() {
            Ok(number) => Ok(Some(json!(number))),
            Err(_) => integer(text.trim().parse().ok()),
        },
        (AttributeKind::Float, Value::String(text)) => {
            let number = text.trim().parse().ok().and_then(Number::from_f64);
            number.map(|number| Some(number.into())).ok_or("expected a number")
        }
        (AttributeKind::Boolean, Value::String(text)) => match text.as_str() {
            "true" => Ok(Some(json!(true))),
            "false" | "" => Ok(Some(json!(false))),
            _ => Err("only [true] or [false] are allowed"),
        },
        (AttributeKind::Date, Value::String(text))
            if warpseek::schema::parse_date(text).is_none() =>
        {
            match text.parse::<i64>() {
                Ok(milliseconds) => Ok(Some(json!(milliseconds))),
                Err(_) => Err(
                    "expected a date such as 2020-01-31 or 2020-01-31T10:15:30Z, or milliseconds since 1970",
                ),
            }
        }
        (AttributeKind::Date, Value::Number(number)) if number.is_f64() => integer(number.as_f64()),
        (AttributeKind::Integer | AttributeKind::Float | AttributeKind::Date, Value::Bool(_)) => {
            Err("found a boolean")
        }
        (AttributeKind::Boolean, Value::Number(_)) => Err("only [true] or [false] are allowed"),
        _ => Ok(None),
    }
}

/// Truncates the fraction, as Elasticsearch does.
fn integer(number: Option<f64>) -> Result<Option<Value>, &'static str> {
    match number {
        Some(number) if number.abs() < 9e18 => Ok(Some(json!(number as i64))),
        _ => Err("expected a 64-bit integer"),
    }
}

/// Returns true if a value is out of range for a type that is narrower than the engine's.
fn is_out_of_range(kind: &str, value: &Value) -> bool {
    let whole = |range: std::ops::RangeInclusive<i64>| {
        value.as_i64().is_some_and(|number| !range.contains(&number))
    };
    match kind {
        "integer" => whole(i64::from(i32::MIN)..=i64::from(i32::MAX)),
        "short" => whole(i64::from(i16::MIN)..=i64::from(i16::MAX)),
        "byte" => whole(i64::from(i8::MIN)..=i64::from(i8::MAX)),
        "unsigned_long" => whole(0..=i64::MAX),
        "float" => value.as_f64().is_some_and(|number| !(number as f32).is_finite()),
        // The largest 16-bit float plus half a step; smaller values round to a finite number.
        "half_float" => value.as_f64().is_some_and(|number| number.abs() >= 65_520.0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Declared;
    use super::*;

    fn mapping() -> Mapping {
        let mappings = json!({"properties": {
            "t": {"type": "text"}, "k": {"type": "keyword"}, "n": {"type": "long"}, "x": {"type": "double"},
            "b": {"type": "boolean"}, "d": {"type": "date"}, "o": {"properties": {"n": {"type": "long"}}}, "v": {"type": "dense_vector", "dims": 2},
            "s": {"type": "date", "format": "yyyy-MM-dd||epoch_second"}
        }});
        Mapping::new(Declared {
            mappings: mappings.as_object().unwrap().clone(),
            ..Declared::default()
        })
        .unwrap()
    }

    #[test]
    fn values_become_what_the_fields_want_and_the_original_is_kept() {
        let mapping = mapping();
        for (source, converted) in [
            (
                json!({"t": "a", "k": ["b", 1], "n": 1, "x": 2, "b": true, "d": "2020", "v": [1.5, 2], "id": "own"}),
                None,
            ),
            (json!({"t": 5}), Some(json!({"t": "5"}))),
            (json!({"k": 1.5}), Some(json!({"k": "1.5"}))),
            (json!({"n": "7", "x": "1.5"}), Some(json!({"n": 7, "x": 1.5}))),
            (json!({"o": {"n": 7.9}}), Some(json!({"o": {"n": 7}}))),
            (json!({"b": "false"}), Some(json!({"b": false}))),
            (json!({"t": ["a", 1]}), Some(json!({"t": ["a", "1"]}))),
            // As in Elasticsearch, an array of one value is that value, and an empty array is
            // nothing.
            (
                json!({"n": [5], "x": [null, "1.5"], "b": [[true]], "d": []}),
                Some(json!({"n": 5, "x": 1.5, "b": true, "d": null})),
            ),
            (json!({"n": [null]}), Some(json!({"n": null}))),
            (json!({"o": [{"n": 1}, {"n": null}, {}, {"x": [1, 2]}]}), None),
            (json!({"s": 2}), Some(json!({"s": 2000}))),
            (json!({"s": ["1970-01-02"]}), Some(json!({"s": 86_400_000}))),
        ] {
            let line: Value =
                serde_json::from_str(&mapping.line("1", source.as_object().unwrap()).unwrap())
                    .unwrap();
            assert_eq!(line["id"], "1");
            assert_eq!(line["source"], converted.clone().unwrap_or_else(|| source.clone()));
            assert_eq!(line.get("original").is_some(), converted.is_some());
            assert_eq!(mapping.source_of(line), source);
        }
    }

    #[test]
    fn numbers_have_the_range_of_their_type() {
        let types = ["integer", "short", "byte", "unsigned_long", "float", "half_float"];
        let properties: Map<String, Value> =
            types.into_iter().map(|kind| (kind.to_owned(), json!({"type": kind}))).collect();
        let mappings = json!({"properties": properties}).as_object().unwrap().clone();
        let mapping = Mapping::new(Declared { mappings, ..Declared::default() }).unwrap();
        let write = |kind: &str, value: &Value| {
            mapping.line("1", &Map::from_iter([(kind.to_owned(), value.clone())]))
        };
        for (kind, fits, not) in [
            ("integer", json!(i32::MAX), json!(99_999_999_999_i64)),
            ("integer", json!("-2147483648"), json!("-2147483649")),
            ("integer", json!([7.9]), json!([2_147_483_648.0])),
            ("short", json!(-32_768), json!(32_768)),
            ("byte", json!(127), json!(128)),
            ("unsigned_long", json!(0), json!(-1)),
            ("float", json!(3.4e38), json!(3.5e38)),
            ("half_float", json!(65_519.9), json!("-65520")),
        ] {
            assert!(write(kind, &fits).is_ok(), "{kind} {fits}");
            let failure = write(kind, &not).unwrap_err();
            let named = failure.reason.contains(&format!("of type [{kind}]"));
            assert!(named && failure.kind == Kind::Document, "{}", failure.reason);
        }
    }

    #[test]
    fn values_that_fit_no_way_are_refused() {
        for source in [
            json!({"n": "seven"}),
            json!({"n": true}),
            json!({"n": [1, 2]}),
            json!({"o": [{"n": 1}, {"n": 2}]}),
            json!({"o": [[{"n": [1]}], {"n": "2"}]}),
            json!({"o": {"n": 1}, "o.n": 2}),
            json!({"n": {"a": 1}}),
            json!({"o": 3}),
            json!({"t": {"a": 1}}),
            json!({"b": 1}),
            json!({"d": "soon"}),
            json!({"s": "1970-01-01T00:00:00Z"}),
            json!({"n": u64::MAX}),
            json!({"k": "x".repeat(MAX_KEYWORD_BYTES + 1)}),
        ] {
            let failure = mapping().line("1", source.as_object().unwrap()).unwrap_err();
            assert_eq!(failure.kind, Kind::Document, "{source}");
        }
        let longest = json!({"k": "x".repeat(MAX_KEYWORD_BYTES)});
        assert!(mapping().line("1", longest.as_object().unwrap()).is_ok());
    }
}
