//! The schema of an index: which fields of a document are text, which are attributes, and what happens to all others.
//!
//! [`SchemaConfig`] is the schema as it is written down; [`Schema`] is one that has been checked and is ready for use. A field has a name, which queries use, and a source, the path
//! in a record that its values come from. Several fields may have the same source, such as the text `author` and the keyword `author.keyword`.

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

/// The largest number of text fields. The number of a field stands in one byte before each of its terms, and the last value is reserved.
pub const MAX_TEXT_FIELDS: usize = 255;

/// The largest number of attributes.
pub const MAX_ATTRIBUTES: usize = 1024;

/// The longest name or source of a field in bytes.
pub const MAX_FIELD_NAME_BYTES: usize = 255;

/// The most objects inside one another that a source may lead through.
pub const MAX_SOURCE_PARTS: usize = 32;

/// A schema that has been checked. In JSON it is what [`SchemaConfig`] is.
#[derive(Debug, Clone)]
pub struct Schema {
    config: SchemaConfig,
    /// The analyzer of each text field.
    analyzers: Vec<FieldAnalyzer>,
    names: HashMap<String, FieldId>,
    root: Route,
}

/// The number of a field. Numbers never change: fields are only ever added at the end.
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

    /// The schema as it was written down.
    pub fn config(&self) -> &SchemaConfig {
        &self.config
    }

    /// The text fields by number, at least one.
    pub fn text(&self) -> &[TextField] {
        &self.config.text
    }

    /// The attributes by number.
    pub fn attributes(&self) -> &[Attribute] {
        &self.config.attributes
    }

    /// What happens to fields of records that the schema does not have.
    pub fn unknown(&self) -> Unknown {
        self.config.unknown
    }

    /// The same fields, but for what happens to others.
    pub fn with_unknown(&self, unknown: Unknown) -> Self {
        let mut schema = self.clone();
        schema.config.unknown = unknown;
        schema
    }

    /// The same fields, with positions in all text fields.
    pub fn with_positions(&self) -> Self {
        let mut schema = self.clone();
        schema.config.text.iter_mut().for_each(|field| field.positions = true);
        schema
    }

    /// The analyzer of a text field, which must be below the number of [`text`](Self::text) fields.
    pub fn analyzer(&self, field: u8) -> &FieldAnalyzer {
        &self.analyzers[usize::from(field)]
    }

    /// The field of this name.
    pub fn find(&self, name: &str) -> Option<FieldId> {
        self.names.get(name).copied()
    }

    /// Refuses a schema that does not begin with all fields of `old`, unchanged: an index can get further fields, but what is in it stays as it is. Analyzers are compared
    /// by their parts, whatever their names.
    pub fn extends(&self, old: &Schema) -> Result<(), TextError> {
        check::extends(self, old)
    }

    /// Where values of records go.
    pub(crate) fn root(&self) -> &Route {
        &self.root
    }
}

/// Schemas are equal if they are written alike; all else follows from that.
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
