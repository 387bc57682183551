//! The schema of an index: which fields of a document are text, which are attributes, and how all
//! others are handled.
//!
//! [`SchemaConfig`] is the schema as written; [`Schema`] has been checked and is ready for use. A
//! field has a name, which queries use, and a source, the path in a record that its values come
//! from. Several fields may have the same source, such as the text `author` and the keyword
//! `author.keyword`.

mod check;
mod config;
mod infer;
mod routes;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::config::{Attribute, SchemaConfig, TextField, Unknown};
pub use self::infer::{SeenField, seen_fields};
pub(crate) use self::routes::Route;
use crate::{FieldAnalyzer, TextError};

/// Maximum number of text fields. In the index, one byte before each term holds the number of its
/// field, and the last value is reserved.
pub const MAX_TEXT_FIELDS: usize = 255;

/// Maximum number of attributes.
pub const MAX_ATTRIBUTES: usize = 1024;

/// Maximum length of the name or source of a field in bytes.
pub const MAX_FIELD_NAME_BYTES: usize = 255;

/// Maximum value of the parameter k1 of BM25.
pub const MAX_K1: f64 = 1000.0;

/// Maximum number of keys in a source, that is, of nested objects plus one.
pub const MAX_SOURCE_PARTS: usize = 32;

/// A schema that has been checked. Its JSON form is that of [`SchemaConfig`].
#[derive(Debug, Clone)]
pub struct Schema {
    config: SchemaConfig,
    /// Analyzer of each text field.
    analyzers: Vec<FieldAnalyzer>,
    names: HashMap<String, FieldId>,
    root: Route,
}

/// The number of a field. Numbers never change: new fields are always appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldId {
    /// A text field.
    Text(u8),
    /// An attribute.
    Attribute(u16),
}

impl Schema {
    /// Checks a schema. An error names the field and says how to fix it.
    pub fn new(config: SchemaConfig) -> Result<Self, TextError> {
        let analyzers = check::check(&config)?;
        let (mut names, mut root) = (HashMap::new(), Route::default());
        for (field, id) in config.ids() {
            names.insert(field.name.to_owned(), id);
            root.add(field.source, id);
        }
        Ok(Schema { config, analyzers, names, root })
    }

    /// Reads and checks a schema in JSON.
    pub fn parse(json: &str) -> Result<Self, TextError> {
        Schema::new(SchemaConfig::parse(json)?)
    }

    /// Returns the schema as written.
    pub fn config(&self) -> &SchemaConfig {
        &self.config
    }

    /// Returns the text fields by number, at least one.
    pub fn text(&self) -> &[TextField] {
        &self.config.text
    }

    /// Returns the attributes by number.
    pub fn attributes(&self) -> &[Attribute] {
        &self.config.attributes
    }

    /// Returns how the schema handles fields of records that it does not contain.
    pub fn unknown(&self) -> Unknown {
        self.config.unknown
    }

    /// Returns a schema with these fields that handles other fields differently.
    pub fn with_unknown(&self, unknown: Unknown) -> Self {
        let mut schema = self.clone();
        schema.config.unknown = unknown;
        schema
    }

    /// Returns a schema with these fields and with positions in all text fields.
    pub fn with_positions(&self) -> Self {
        let mut schema = self.clone();
        schema.config.text.iter_mut().for_each(|field| field.positions = true);
        schema
    }

    /// Returns the analyzer of a text field. `field` must be below the number of
    /// [`text`](Self::text) fields.
    pub fn analyzer(&self, field: u8) -> &FieldAnalyzer {
        &self.analyzers[usize::from(field)]
    }

    /// Returns the field with this name.
    pub fn find(&self, name: &str) -> Option<FieldId> {
        self.names.get(name).copied()
    }

    /// Fails unless the schema begins with all fields of `old`, unchanged: an index can get
    /// further fields, but its existing fields never change. Analyzers are compared by their
    /// parts, whatever their names.
    pub fn extends(&self, old: &Schema) -> Result<(), TextError> {
        check::extends(self, old)
    }

    /// Returns the root of the routes from paths in records to fields.
    pub(crate) fn root(&self) -> &Route {
        &self.root
    }
}

/// Schemas are equal if their configurations are; the configuration determines everything else.
impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, json: S) -> Result<S::Ok, S::Error> {
        self.config.serialize(json)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let config = SchemaConfig::deserialize(json)?;
        Schema::new(config).map_err(serde::de::Error::custom)
    }
}
