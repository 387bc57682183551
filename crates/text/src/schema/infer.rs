//! Infers a schema from the first documents of a collection.
//!
//! Each path gets the narrowest type that fits all its values. Strings are dates if all of them
//! are; text if some are long or have many words; keywords otherwise. A path whose values have no
//! common type gets no field: its values are stored, and the user, who sees the schema, may
//! decide.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::check::{name_fault, source_fault};
use super::{Attribute, MAX_ATTRIBUTES, MAX_TEXT_FIELDS, Schema, SchemaConfig, TextField};
use crate::date::parse_date;
use crate::{Analyzer, AttributeKind, TextError};

/// Length in bytes above which strings are text.
const LONG: usize = 64;

/// Average number of words above which strings are text.
const WORDS: usize = 4;

/// Minimum length of a string that counts as a date: a day. Shorter ones may be any number.
const DAY: usize = "2020-01-31".len();

/// A summary of the values of a field in some documents.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenField {
    /// Path of the field, with dots between keys.
    pub path: String,
    /// Number of documents with a value.
    pub documents: usize,
    /// JSON names of the kinds of its values, with the number of each.
    pub kinds: Vec<(&'static str, usize)>,
    /// True if a document has several values.
    pub many: bool,
    /// The first value.
    pub example: Value,
}

/// Statistics of the values at one path.
#[derive(Debug, Default)]
struct PathStatistics {
    documents: usize,
    example: Option<Value>,
    strings: usize,
    words: usize,
    longest: usize,
    /// Number of strings that are dates.
    dates: usize,
    integers: usize,
    /// Number of integers that do not fit into 64 bits with a sign.
    unsigned: usize,
    floats: usize,
    booleans: usize,
    objects: usize,
    /// Number of the document of the last value.
    last: Option<usize>,
    /// True if a document has several values.
    many: bool,
}

enum Type {
    Text,
    Attribute(AttributeKind, bool),
}

impl Schema {
    /// Infers a schema that accepts these documents and, most likely, others of the same kind.
    /// Text fields get this analyzer, and unknown fields are stored. Fails if the documents
    /// contain no text.
    pub fn infer(documents: &[Map<String, Value>], analyzer: Analyzer) -> Result<Self, TextError> {
        let mut paths = BTreeMap::new();
        for (number, document) in documents.iter().enumerate() {
            let fields = document.iter().filter(|(key, _)| !matches!(key.as_str(), "id" | "_id"));
            fields.for_each(|(key, value)| walk(value, key.clone(), number, &mut paths));
        }
        let mut config = SchemaConfig::default();
        for (path, seen) in &paths {
            let usable = name_fault(path).is_none() && source_fault(path).is_none();
            match seen.common_type(path).filter(|_| usable && !is_ambiguous(path, &paths)) {
                Some(Type::Text) if config.text.len() < MAX_TEXT_FIELDS => {
                    config.text.push(TextField::new(path, analyzer.to_string()));
                }
                Some(Type::Attribute(kind, many)) if config.attributes.len() < MAX_ATTRIBUTES => {
                    config.attributes.push(Attribute { many, ..Attribute::new(path, kind) });
                }
                _ => {}
            }
        }
        if config.text.is_empty() {
            let place = "schema".to_owned();
            let first = match documents.len() {
                1 => "the first document".to_owned(),
                n => format!("the first {n} documents"),
            };
            let reason = format!("no text in {first}; write a schema that names the text fields");
            return Err(TextError::BadSchema { place, reason });
        }
        Schema::new(config)
    }
}

/// Returns a summary of the fields of documents, sorted by path. Objects are represented by the
/// fields in them.
pub fn seen_fields(documents: &[Map<String, Value>]) -> Vec<SeenField> {
    let mut paths = BTreeMap::new();
    for (number, document) in documents.iter().enumerate() {
        document.iter().for_each(|(key, value)| walk(value, key.clone(), number, &mut paths));
    }
    let fields = paths.into_iter().filter(|(_, seen): &(_, PathStatistics)| seen.values() > 0);
    let fields = fields.map(|(path, seen)| {
        let kinds = [
            ("string", seen.strings),
            ("integer", seen.integers + seen.unsigned),
            ("float", seen.floats),
            ("boolean", seen.booleans),
            ("object", seen.objects),
        ];
        SeenField {
            path,
            documents: seen.documents,
            kinds: kinds.into_iter().filter(|(_, count)| *count > 0).collect(),
            many: seen.many,
            example: seen.example.unwrap_or_default(),
        }
    });
    fields.collect()
}

fn walk(
    value: &Value,
    path: String,
    document: usize,
    paths: &mut BTreeMap<String, PathStatistics>,
) {
    match value {
        Value::Null => return,
        Value::Array(values) => {
            values.iter().for_each(|value| walk(value, path.clone(), document, paths));
            return;
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                walk(value, format!("{path}.{key}"), document, paths);
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    paths.entry(path).or_default().add(value, document);
}

/// Returns true if some documents have an object at the path and others a value. A key with dots
/// in it also counts as a path.
fn is_ambiguous(path: &str, paths: &BTreeMap<String, PathStatistics>) -> bool {
    let is_value = |path: &str| paths.get(path).is_some_and(|seen| seen.values() > 0);
    let inner = format!("{path}.");
    let has_inner =
        paths.range(inner.clone()..).next().is_some_and(|(next, _)| next.starts_with(&inner));
    let mut outer = path.match_indices('.').map(|(at, _)| &path[..at]);
    has_inner || outer.any(is_value)
}

impl PathStatistics {
    fn add(&mut self, value: &Value, document: usize) {
        match value {
            Value::String(text) => {
                self.strings += 1;
                self.words += text.split_whitespace().count();
                self.longest = self.longest.max(text.len());
                self.dates += usize::from(text.len() >= DAY && parse_date(text).is_some());
            }
            Value::Number(number) if number.is_i64() => self.integers += 1,
            Value::Number(number) if number.is_u64() => self.unsigned += 1,
            Value::Number(_) => self.floats += 1,
            Value::Bool(_) => self.booleans += 1,
            _ => self.objects += 1,
        }
        let again = self.last.replace(document) == Some(document);
        self.many |= again;
        self.documents += usize::from(!again);
        self.example.get_or_insert_with(|| value.clone());
    }

    fn numbers(&self) -> usize {
        self.integers + self.unsigned + self.floats
    }

    fn values(&self) -> usize {
        self.strings + self.numbers() + self.booleans
    }

    /// Returns the type that fits all values; `None` if there is none.
    fn common_type(&self, path: &str) -> Option<Type> {
        let values = self.values();
        if values == 0 || self.objects > 0 {
            return None;
        }
        // Without a schema, these names mean text, whatever the values are.
        let named = matches!(path, "title" | "text" | "contents");
        let prose = named || self.longest > LONG || self.words > WORDS * self.strings;
        let kind = match () {
            () if self.dates == values && !named && !self.many => AttributeKind::Date,
            () if self.strings == values && prose => return Some(Type::Text),
            () if self.booleans == values && !self.many => AttributeKind::Boolean,
            () if self.integers == values && !self.many => AttributeKind::Integer,
            () if self.floats > 0 && self.numbers() == values && !self.many => AttributeKind::Float,
            // Several numbers are probably a vector or a list of measurements rather than
            // keywords.
            () if self.floats > 0 || self.longest > LONG || self.integers == values => return None,
            () => AttributeKind::Keyword,
        };
        Some(Type::Attribute(kind, self.many))
    }
}
