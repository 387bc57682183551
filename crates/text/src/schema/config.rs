//! A schema as written in JSON.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::FieldId;
use crate::{Analyzer, AttributeKind, CHAIN_VERSION, Chain, TextError};

/// The parts of a schema, which [`Schema::new`](super::Schema::new) checks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SchemaConfig {
    /// Analyzers that text fields may name, in addition to the [predefined](Chain::predefined)
    /// ones. Default: none.
    pub analyzers: BTreeMap<String, Chain>,
    /// Text fields, at least one. The number of a field is its position here.
    pub text: Vec<TextField>,
    /// Attributes. The number of an attribute is its position here. Default: none.
    pub attributes: Vec<Attribute>,
    /// Handling of fields of records that are not in the schema. Default: they are stored.
    pub unknown: Unknown,
    /// Version of the analyzer chains ([`CHAIN_VERSION`]) in the program that wrote the schema.
    /// Default: that of this program.
    pub chain_version: u32,
}

/// A field that is searched by its words, with separate lengths and statistics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextField {
    /// Name of the field in queries.
    pub name: String,
    /// Path of the values in a record, with dots between keys. Default: the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Name of the analyzer: one of the schema, or a [predefined](Chain::predefined) one.
    /// Default: `english`.
    #[serde(default = "TextField::default_analyzer")]
    pub analyzer: String,
    /// BM25 parameter k1, the weight of repeated words, 0 to 1000. Default: 0.9.
    #[serde(default = "TextField::default_k1")]
    pub k1: f64,
    /// BM25 parameter b, the weight of the length, 0 to 1. Default: 0.4.
    #[serde(default = "TextField::default_b")]
    pub b: f64,
    /// True if the index stores the positions of the words, which phrase queries need. Default:
    /// false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub positions: bool,
}

/// A field with values for filters, sorting and display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attribute {
    /// Name of the field in queries.
    pub name: String,
    /// Path of the values in a record, with dots between keys. Default: the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Type of the values.
    #[serde(rename = "type")]
    pub kind: AttributeKind,
    /// True if a document may have several values; only keywords can. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub many: bool,
    /// Maximum number of characters of a keyword. A longer one is stored in the document, but is
    /// not a value of the attribute, so no filter finds it. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_above: Option<u32>,
}

/// Handling of fields of records that are not in the schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// Stores the fields with the document, so that they can be shown.
    #[default]
    Store,
    /// Removes the fields from the stored document.
    Ignore,
    /// Rejects the record.
    Refuse,
}

impl TextField {
    /// Creates a field with default parameters, whose source is its name.
    pub fn new(name: impl Into<String>, analyzer: impl Into<String>) -> Self {
        let (name, analyzer) = (name.into(), analyzer.into());
        let (k1, b) = (Self::default_k1(), Self::default_b());
        TextField { name, source: None, analyzer, k1, b, positions: false }
    }

    /// Returns the path of the values in a record.
    pub fn source(&self) -> &str {
        self.source.as_deref().unwrap_or(&self.name)
    }

    fn default_analyzer() -> String {
        Analyzer::English.to_string()
    }

    fn default_k1() -> f64 {
        0.9
    }

    fn default_b() -> f64 {
        0.4
    }
}

impl Attribute {
    /// Creates an attribute with a single value per document, whose source is its name.
    pub fn new(name: impl Into<String>, kind: AttributeKind) -> Self {
        Attribute { name: name.into(), source: None, kind, many: false, ignore_above: None }
    }

    /// Returns the path of the values in a record.
    pub fn source(&self) -> &str {
        self.source.as_deref().unwrap_or(&self.name)
    }
}

impl Default for SchemaConfig {
    fn default() -> Self {
        SchemaConfig {
            analyzers: BTreeMap::new(),
            text: Vec::new(),
            attributes: Vec::new(),
            unknown: Unknown::default(),
            chain_version: CHAIN_VERSION,
        }
    }
}

/// The properties that text fields and attributes have in common.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    pub(super) source: &'a str,
}

impl SchemaConfig {
    /// Reads a schema in JSON without checking it as a whole.
    pub fn parse(json: &str) -> Result<Self, TextError> {
        let parts: Parts = serde_json::from_str(json).map_err(|e| bad("schema".to_owned(), &e))?;
        parts.read()
    }

    /// Returns all fields with their numbers. The numbers are correct only if there are not too
    /// many fields.
    pub(super) fn ids(&self) -> impl Iterator<Item = (Field<'_>, FieldId)> {
        let text = self.text.iter().zip(0..=u8::MAX).map(|(field, number)| {
            let (name, source) = (field.name.as_str(), field.source());
            (Field { name, source }, FieldId::Text(number))
        });
        let attributes = self.attributes.iter().zip(0..=u16::MAX).map(|(field, number)| {
            let (name, source) = (field.name.as_str(), field.source());
            (Field { name, source }, FieldId::Attribute(number))
        });
        text.chain(attributes)
    }
}

impl<'de> Deserialize<'de> for SchemaConfig {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        Parts::deserialize(json)?.read().map_err(serde::de::Error::custom)
    }
}

/// The parts of a schema before they are parsed further, so that an error can name its place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with \"text\" and other parts")]
struct Parts {
    #[serde(default)]
    analyzers: BTreeMap<String, Value>,
    text: Vec<Value>,
    #[serde(default)]
    attributes: Vec<Value>,
    #[serde(default)]
    unknown: Unknown,
    #[serde(default = "Parts::this_version")]
    chain_version: u32,
}

impl Parts {
    fn this_version() -> u32 {
        CHAIN_VERSION
    }

    fn read(self) -> Result<SchemaConfig, TextError> {
        let analyzers = self.analyzers.into_iter().map(|(name, value)| {
            let chain = read_object(format!("analyzer {name:?}"), value)?;
            Ok((name, chain))
        });
        Ok(SchemaConfig {
            analyzers: analyzers.collect::<Result<_, TextError>>()?,
            text: read_fields("text field", self.text)?,
            attributes: read_fields("attribute", self.attributes)?,
            unknown: self.unknown,
            chain_version: self.chain_version,
        })
    }
}

fn read_fields<T: DeserializeOwned>(what: &str, values: Vec<Value>) -> Result<Vec<T>, TextError> {
    let read = |(i, value): (usize, Value)| {
        let place = match value.get("name").and_then(Value::as_str) {
            Some(name) => format!("{what} {name:?}"),
            None => format!("{what} {}", i + 1),
        };
        read_object(place, value)
    };
    values.into_iter().enumerate().map(read).collect()
}

/// Reads an object. It rejects arrays, which Serde would accept as the values in order.
fn read_object<T: DeserializeOwned>(place: String, value: Value) -> Result<T, TextError> {
    if !value.is_object() {
        let reason = format!("found {value}, expected an object");
        return Err(TextError::BadSchema { place, reason });
    }
    serde_json::from_value(value).map_err(|error| bad(place, &error))
}

fn bad(place: String, error: &serde_json::Error) -> TextError {
    TextError::BadSchema { place, reason: error.to_string() }
}
